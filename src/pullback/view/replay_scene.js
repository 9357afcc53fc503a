const element = id => document.getElementById(id);
const canvas = element("stage");

function giveUp(message) {
  element("problem").textContent = message;
  element("problem").hidden = false;
  document.body.dataset.state = "failed";
  throw new Error(message);
}

// ---- The recording ----------------------------------------------------------------------------------------------

function bytes(base64) {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out.buffer;
}
const scene = JSON.parse(element("scene").textContent);
const poses = new Float32Array(bytes(scene.poses)); // [frame][copy][body][x y z, w x y z]; copies: worlds, then ghosts
const copies = scene.worlds + scene.ghosts, perFrame = copies * scene.bodies * 7;
const solids = scene.geoms.filter(geom => geom.shape !== "plane");
const planes = scene.geoms.filter(geom => geom.shape === "plane");

// Rotates v by the unit quaternion at q[o..o+3] (wxyz): v + 2 r×(r×v + w v).
function rotate(q, o, v) {
  const w = q[o], x = q[o + 1], y = q[o + 2], z = q[o + 3];
  const a = y * v[2] - z * v[1] + w * v[0], b = z * v[0] - x * v[2] + w * v[1], c = x * v[1] - y * v[0] + w * v[2];
  return [v[0] + 2 * (y * c - z * b), v[1] + 2 * (z * a - x * c), v[2] + 2 * (x * b - y * a)];
}
function quaternionProduct(p, o, q) {
  const a = p[o], b = p[o + 1], c = p[o + 2], d = p[o + 3];
  return [a * q[0] - b * q[1] - c * q[2] - d * q[3], a * q[1] + b * q[0] + c * q[3] - d * q[2],
          a * q[2] - b * q[3] + c * q[0] + d * q[1], a * q[3] + b * q[2] - c * q[1] + d * q[0]];
}

const bodyPoses = new Float32Array(perFrame);
// All frames are frame_dt apart but the last, which is at the end of the motion.
function frameBefore(time) {
  const last = scene.frames - 1;
  if (last < 1) return [0, 0, 0];
  const i = Math.min(Math.floor(time / scene.frame_dt + 1e-9), last - 1);
  const end = i + 1 === last ? scene.duration : (i + 1) * scene.frame_dt;
  return [i, i + 1, Math.min(Math.max((time - i * scene.frame_dt) / (end - i * scene.frame_dt), 0), 1)];
}
function poseBodies(time) {
  const [before, after, share] = frameBefore(time), a = before * perFrame, b = after * perFrame;
  for (let i = 0; i < perFrame; i += 7) {
    // q and -q are the same rotation: blend towards the nearer one.
    let dot = 0, norm = 0;
    for (let k = 3; k < 7; k++) dot += poses[a + i + k] * poses[b + i + k];
    const sign = dot < 0 ? -1 : 1;
    for (let k = 0; k < 7; k++) {
      const value = poses[a + i + k] * (1 - share) + (k < 3 ? 1 : sign) * poses[b + i + k] * share;
      bodyPoses[i + k] = value;
      if (k > 2) norm += value * value;
    }
    norm = Math.sqrt(norm) || 1;
    for (let k = 3; k < 7; k++) bodyPoses[i + k] /= norm;
  }
}
function geomPose(geom, copy, source, offset) {
  if (geom.body < 0) return [geom.pos, geom.quat];
  const o = offset + (copy * scene.bodies + geom.body) * 7, at = rotate(source, o + 3, geom.pos);
  const place = [source[o] + at[0], source[o + 1] + at[1], source[o + 2] + at[2]];
  return [place, quaternionProduct(source, o + 3, geom.quat)];
}

// ---- How large the motion is, for the camera and the shadow -----------------------------------------------------

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const along = (a, s, b) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const degrees = angle => angle * Math.PI / 180;

const emptyBox = () => ({low: [Infinity, Infinity, Infinity], high: [-Infinity, -Infinity, -Infinity]});
function grow(box, {at, radius}) {
  for (let k = 0; k < 3; k++) {
    box.low[k] = Math.min(box.low[k], at[k] - radius);
    box.high[k] = Math.max(box.high[k], at[k] + radius);
  }
}
const middle = box => box.low.map((low, k) => (low + box.high[k]) / 2);
const halfDiagonal = box => Math.hypot(...box.low.map((low, k) => box.high[k] - low)) / 2;

// A few balls that hold the shape: tighter than one ball around it for long thin parts.
function outline(geom, copy, frame) {
  const [at, quat] = geomPose(geom, copy, poses, frame * perFrame), [x, y, z] = geom.scale;
  if (geom.shape === "sphere") return [{at, radius: Math.max(x, y, z)}];
  if (geom.shape === "capsule" || geom.shape === "cylinder") {
    const half = rotate(quat, 0, [0, 0, geom.shape === "capsule" ? geom.stretch : z]);
    return [-1, 1].map(end => ({at: along(at, end, half), radius: x}));
  }
  return [0, 1, 2, 3, 4, 5, 6, 7].map(corner => {
    const local = [0, 1, 2].map(k => geom.box[k] + (corner >> k & 1 ? 1 : -1) * geom.box[3 + k]);
    return {at: along(at, 1, rotate(quat, 0, local)), radius: 0};
  });
}

// The corners of the box around all points of a frame.
const places = scene.points ? new Float32Array(bytes(scene.points.places)) : [], pointsPerFrame = places.length / scene.frames;
function pointCorners(frame) {
  if (!scene.points) return [];
  const box = emptyBox();
  for (let i = frame * pointsPerFrame; i < (frame + 1) * pointsPerFrame; i += 3) {
    grow(box, {at: [places[i], places[i + 1], places[i + 2]], radius: 0});
  }
  return [0, 1, 2, 3, 4, 5, 6, 7].map(corner => {
    return {at: [0, 1, 2].map(k => corner >> k & 1 ? box.high[k] : box.low[k]), radius: 0};
  });
}

// The whole motion, and the motion as seen by somebody who goes with it; each as a box and as the balls in it.
const whole = {...emptyBox(), balls: []}, around = {...emptyBox(), balls: []}, centres = [];
function include(bounds, ball) { grow(bounds, ball); bounds.balls.push(ball); }
let travels = false; // far: seen whole, the robot would be small, so it is followed at first
{
  const movers = solids.filter(geom => geom.body >= 0);
  for (let frame = 0; frame < scene.frames; frame++) {
    const robot = emptyBox();
    for (const geom of movers) for (const ball of outline(geom, 0, frame)) grow(robot, ball);
    for (const ball of pointCorners(frame)) grow(robot, ball);
    centres.push(movers.length || scene.points ? middle(robot) : [0, 0, 0]);
  }
  // A centre that shakes with every limb would shake the camera: take the mean over about half a second.
  const reach = Math.round(0.3 / (scene.frame_dt || 1)), raw = centres.slice();
  for (let frame = 0; frame < raw.length; frame++) {
    const near = Math.min(reach, frame, raw.length - 1 - frame);
    let sum = [0, 0, 0];
    for (let i = frame - near; i <= frame + near; i++) sum = along(sum, 1, raw[i]);
    centres[frame] = sum.map(value => value / (2 * near + 1));
  }
  const stride = Math.ceil(scene.frames * copies * movers.length / 5000); // some frames are enough to frame the motion
  for (let frame = 0; frame < scene.frames; frame++) {
    if (frame % stride && frame !== scene.frames - 1) continue;
    for (const geom of movers) for (let copy = 0; copy < copies; copy++) {
      for (const ball of outline(geom, copy, frame)) {
        include(whole, ball);
        if (copy === 0) include(around, {at: along(ball.at, -1, centres[frame]), radius: ball.radius});
      }
    }
  }
  for (let frame = 0; frame < scene.frames; frame++) for (const ball of pointCorners(frame)) {
    include(whole, ball);
    include(around, {at: along(ball.at, -1, centres[frame]), radius: ball.radius});
  }
  travels = (movers.length > 0 || scene.points) && halfDiagonal(whole) > 4 * halfDiagonal(around);
  // Fixed parts belong in the picture unless they are scenery, far larger than what moves: large ones as far as it goes.
  const limit = movers.length ? 3 * halfDiagonal(whole) : Infinity, from = movers.length ? middle(whole) : [0, 0, 0];
  const low = whole.low.map(value => value - limit / 15), high = whole.high.map(value => value + limit / 15);
  for (const geom of solids.filter(geom => geom.body < 0)) {
    const balls = outline(geom, 0, 0), box = emptyBox();
    balls.forEach(ball => grow(box, ball));
    const near = balls.every(({at, radius}) => Math.hypot(...along(at, -1, from)) + radius < limit);
    const isLarge = halfDiagonal(box) > limit / 6;
    const inside = at => at.map((value, k) => Math.min(Math.max(value, low[k]), high[k]));
    if (near) balls.forEach(({at, radius}) => include(whole, isLarge ? {at: inside(at), radius: 0} : {at, radius}));
  }
  for (const bounds of [whole, around]) if (!bounds.balls.length) include(bounds, {at: [0, 0, 0.5], radius: 0.5});
}
const wholeSize = halfDiagonal(whole), robotSize = halfDiagonal(around);
// Floor squares of 1, 2 or 5 times a power of ten metres, about a third of what is looked at.
const viewSize = travels ? robotSize : wholeSize, decade = 10 ** Math.floor(Math.log10(viewSize * 0.4));
const square = decade * [5, 2, 1].find(step => decade * step <= viewSize * 0.4);

function centreAt(time) {
  const [before, after, share] = frameBefore(time);
  return centres[before].map((value, k) => value * (1 - share) + centres[after][k] * share);
}
const direction = (yaw, pitch) => [Math.cos(pitch) * Math.cos(yaw), Math.cos(pitch) * Math.sin(yaw), Math.sin(pitch)];
// Which way a camera given with the motion looks from; how far off it stands is found here.
const given = scene.camera.length ? scene.camera[0].map((value, k) => value - scene.camera[1][k]) : null;
const homePitch = () => given ? Math.atan2(given[2], Math.hypot(given[0], given[1])) : degrees(16);
function homeYaw(bounds) { // a motion in a plane is seen from its side, anything else from a corner
  if (given) return Math.atan2(given[1], given[0]);
  const x = bounds.high[0] - bounds.low[0], y = bounds.high[1] - bounds.low[1];
  if (y < 0.55 * x) return degrees(-90 + 24);
  if (x < 0.55 * y) return degrees(24);
  return degrees(-52);
}

// ---- Shapes: position, normal, and which end of a capsule a vertex belongs to ------------------------------------

function surface(rows, columns, point) { // a grid of vertices, point(row share, column share) -> 7 numbers
  const vertices = [], indices = [];
  for (let r = 0; r <= rows; r++) for (let c = 0; c <= columns; c++) vertices.push(...point(r / rows, c / columns));
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
    const a = r * (columns + 1) + c, b = a + columns + 1;
    indices.push(a, b, a + 1, a + 1, b, b + 1);
  }
  return {vertices, indices};
}
function join(...parts) {
  const vertices = [], indices = [];
  for (const part of parts) {
    const start = vertices.length / 7;
    vertices.push(...part.vertices);
    indices.push(...part.indices.map(index => index + start));
  }
  return {vertices, indices};
}
const round = (polar, angle, end) => {
  const n = [Math.sin(polar) * Math.cos(angle), Math.sin(polar) * Math.sin(angle), Math.cos(polar)];
  return [...n, ...n, end];
};
const turn = share => share % 1 * 2 * Math.PI; // last and first column to the bit alike: no crack between them
function disc(z) {
  return surface(1, 48, (r, c) => [r * Math.cos(turn(c)), z * r * Math.sin(turn(c)), z, 0, 0, z, 0]);
}
function boxSide(axis, side) {
  const u = (axis + 1) % 3, v = (axis + 2) % 3;
  return surface(1, 1, (r, c) => {
    const p = [0, 0, 0, 0, 0, 0, 0];
    p[axis] = p[3 + axis] = side;
    p[u] = side * (2 * r - 1);
    p[v] = 2 * c - 1;
    return p;
  });
}
const shapes = {
  sphere: () => surface(24, 48, (r, c) => round(r * Math.PI, turn(c), 0)),
  // Two half spheres, pulled apart by the stretch of the instance; the rows where they meet span the straight part.
  capsule: () => surface(25, 40, (r, c) => {
    const row = Math.round(r * 25), end = row <= 12 ? 1 : -1;
    return round((end > 0 ? row : row - 1) / 24 * Math.PI, turn(c), end);
  }),
  cylinder: () => join(disc(1), disc(-1), surface(1, 48, (r, c) => {
    const x = Math.cos(turn(c)), y = Math.sin(turn(c));
    return [x, y, 1 - 2 * r, x, y, 0, 0];
  })),
  box: () => join(...[0, 1, 2].flatMap(axis => [boxSide(axis, 1), boxSide(axis, -1)])),
};
function shapeData(name) {
  if (!name.startsWith("mesh")) {
    const {vertices, indices} = shapes[name]();
    return {vertices: new Float32Array(vertices), indices: new Uint32Array(indices)};
  }
  const mesh = name === "mesh bead" ? scene.points.bead : scene.meshes[Number(name.slice(5))];
  const at = new Float32Array(bytes(mesh.positions)), normals = new Int8Array(bytes(mesh.normals));
  const vertices = new Float32Array(at.length / 3 * 7);
  for (let i = 0; i < at.length / 3; i++) for (let k = 0; k < 3; k++) {
    vertices[7 * i + k] = at[3 * i + k];
    vertices[7 * i + 3 + k] = normals[4 * i + k] / 127;
  }
  return {vertices, indices: new Uint32Array(bytes(mesh.indices))};
}
