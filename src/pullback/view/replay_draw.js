// ---- Drawing ----------------------------------------------------------------------------------------------------

const gl = canvas.getContext("webgl2", {antialias: true, alpha: false, powerPreference: "high-performance"});
if (!gl) giveUp("This replay needs WebGL 2, which this browser does not offer or has switched off.");
canvas.addEventListener("webglcontextlost", () => giveUp("The browser dropped its graphics context. Reload the page."));

const SOLID_VERTEX = `#version 300 es
layout(location = 0) in vec3 position;
layout(location = 1) in vec3 normal;
layout(location = 2) in float end;
layout(location = 3) in vec4 placeAndStretch;
layout(location = 4) in vec4 turn;
layout(location = 5) in vec3 scale;
layout(location = 6) in vec4 colour;
layout(location = 7) in vec4 paint; // its last number says whether there is any
uniform mat4 projection;
out vec3 world, facing;
out vec4 tint;
vec3 turned(vec3 v) { return v + 2.0 * cross(turn.yzw, cross(turn.yzw, v) + turn.x * v); }
void main() {
  world = placeAndStretch.xyz + turned(position * scale + vec3(0, 0, end * placeAndStretch.w));
  facing = turned(normal / scale);
  tint = vec4(mix(colour.rgb, paint.rgb, paint.a), colour.a);
  gl_Position = projection * vec4(world, 1);
}`;
const SHADE = `#version 300 es
precision highp float;
precision highp sampler2DShadow;
uniform vec3 eye, toLight;
uniform mat4 lightProjection;
uniform sampler2DShadow shadowMap;
uniform float shadowTexel; // width of one texel of the map [m]
out vec4 result;
vec3 linear(vec3 c) { return pow(c, vec3(2.2)); }
vec3 display(vec3 c) {
  c = mix(c, 1.0 - exp(-(c - 0.7) / 0.3) * 0.3, step(0.7, c)); // highlights roll off instead of clipping
  return pow(c, vec3(1.0 / 2.2));
}
float lit(vec3 at, vec3 n) {
  vec3 p = (lightProjection * vec4(at + n * shadowTexel * 1.5, 1)).xyz * 0.5 + 0.5;
  float inside = 1.0 - smoothstep(0.38, 0.49, max(abs(p.x - 0.5), abs(p.y - 0.5)));
  if (inside <= 0.0 || p.z > 1.0) return 1.0;
  float sum = 0.0, weights = 0.0, texel = 1.0 / float(textureSize(shadowMap, 0).x);
  for (int y = -3; y <= 3; y++) for (int x = -3; x <= 3; x++) {
    float weight = exp(-float(x * x + y * y) * 0.16);
    sum += weight * texture(shadowMap, vec3(p.xy + vec2(x, y) * 1.4 * texel, p.z - 0.0006));
    weights += weight;
  }
  return mix(1.0, sum / weights, inside);
}
vec3 shaded(vec3 albedo, vec3 n, vec3 at, float gloss) {
  vec3 toEye = normalize(eye - at), halfway = normalize(toEye + toLight);
  float key = max(dot(n, toLight), 0.0);
  if (key > 0.0) key *= lit(at, n);
  vec3 sky = mix(vec3(0.30, 0.29, 0.29), vec3(0.50, 0.53, 0.58), n.z * 0.5 + 0.5);
  float fill = 0.12 * max(dot(n, normalize(vec3(-toLight.xy, 0.35))), 0.0);
  float rim = pow(1.0 - max(dot(n, toEye), 0.0), 4.0);
  float shine = pow(max(dot(n, halfway), 0.0), 48.0) * key;
  return albedo * (sky + fill + key * vec3(0.72, 0.70, 0.66)) + gloss * (0.22 * shine + 0.10 * rim * sky);
}`;
const SOLID_FRAGMENT = SHADE + `
in vec3 world, facing;
in vec4 tint;
void main() {
  vec3 n = normalize(facing);
  if (dot(n, eye - world) < 0.0 && !gl_FrontFacing) n = -n; // the inside of an open mesh
  result = vec4(display(shaded(linear(tint.rgb), n, world, 1.0)), tint.a);
}`;
const FLOOR_VERTEX = `#version 300 es
layout(location = 0) in vec2 corner;
uniform mat4 projection;
uniform vec3 place;
uniform vec4 turn;
uniform vec4 span; // centre and half size, in the plane's own frame
out vec3 world;
out vec2 flat_;
vec3 turned(vec3 v) { return v + 2.0 * cross(turn.yzw, cross(turn.yzw, v) + turn.x * v); }
void main() {
  flat_ = span.xy + corner * span.zw;
  world = place + turned(vec3(flat_, 0));
  gl_Position = projection * vec4(world, 1);
}`;
const FLOOR_FRAGMENT = SHADE + `
in vec3 world;
in vec2 flat_;
uniform vec4 even, odd;
uniform vec3 up, focus;
uniform vec2 fade; // distances from the focus between which an endless floor dissolves
uniform float square;
uniform bool onlyLines;
// Share of the odd colour over the pixel: the integral of a +1/-1 square wave in each direction, multiplied.
vec2 wave(vec2 x) { return abs(fract(x * 0.5) - 0.5) * 2.0; }
float checker(vec2 p) {
  vec2 w = max(fwidth(p), 1e-4), mean = (wave(p + 0.5 * w) - wave(p - 0.5 * w)) / w;
  return 0.5 - 0.5 * mean.x * mean.y;
}
float line(vec2 p) {
  vec2 w = fwidth(p), d = abs(fract(p - 0.5) - 0.5) / max(w, 1e-4);
  vec2 strength = (1.0 - smoothstep(0.4, 1.4, d)) * (1.0 - smoothstep(0.1, 0.6, w));
  return max(strength.x, strength.y);
}
void main() {
  vec2 p = flat_ / square;
  float near = 1.0 - smoothstep(fade.x, fade.y, distance(world, focus));
  bool above = dot(up, eye - world) > 0.0;
  if (onlyLines) {
    float shadow = 1.0 - lit(world, up);
    result = vec4(vec3(0.16, 0.20, 0.27), near * max(0.16 * line(p), 0.20 * shadow) * (above ? 1.0 : 0.5));
    return;
  }
  vec4 colour = mix(even, odd, checker(p));
  vec3 seen = display(shaded(linear(colour.rgb), up, world, 0.0));
  result = vec4(seen, colour.a * near * (above ? 1.0 : 0.25)); // from below, the floor must not hide the robot
}`;
const BACKDROP_VERTEX = `#version 300 es
out vec2 at;
void main() {
  at = vec2(gl_VertexID == 1 ? 3 : -1, gl_VertexID == 2 ? 3 : -1);
  gl_Position = vec4(at, 1, 1);
}`;
const BACKDROP_FRAGMENT = `#version 300 es
precision highp float;
in vec2 at;
uniform vec3 top, bottom;
out vec4 result;
void main() {
  float grain = fract(sin(dot(gl_FragCoord.xy, vec2(12.9, 78.2))) * 43758.5) / 255.0; // hides banding
  result = vec4(mix(bottom, top, smoothstep(-0.7, 1.0, at.y - 0.12 * dot(at, at))) + grain, 1);
}`;
const NOTHING = `#version 300 es
precision mediump float;
void main() {}`;

function program(vertex, fragment) {
  const handle = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(handle, shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) giveUp("Shader: " + gl.getShaderInfoLog(shader));
  }
  gl.linkProgram(handle);
  if (!gl.getProgramParameter(handle, gl.LINK_STATUS)) giveUp("Shader: " + gl.getProgramInfoLog(handle));
  const at = {};
  for (let i = 0; i < gl.getProgramParameter(handle, gl.ACTIVE_UNIFORMS); i++) {
    const name = gl.getActiveUniform(handle, i).name;
    at[name] = gl.getUniformLocation(handle, name);
  }
  return {handle, at};
}
const solidProgram = program(SOLID_VERTEX, SOLID_FRAGMENT), shadowProgram = program(SOLID_VERTEX, NOTHING);
const floorProgram = program(FLOOR_VERTEX, FLOOR_FRAGMENT);
const backdropProgram = program(BACKDROP_VERTEX, BACKDROP_FRAGMENT);

const SHADOW_SIZE = Math.min(2048, gl.getParameter(gl.MAX_TEXTURE_SIZE));
const shadowTexture = gl.createTexture(), shadowTarget = gl.createFramebuffer();
gl.bindTexture(gl.TEXTURE_2D, shadowTexture);
gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, SHADOW_SIZE, SHADOW_SIZE);
gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.LINEAR);
gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE);
gl.bindFramebuffer(gl.FRAMEBUFFER, shadowTarget);
gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, shadowTexture, 0);
gl.drawBuffers([gl.NONE]);
gl.bindFramebuffer(gl.FRAMEBUFFER, null);

// One batch for each shape, drawn instanced: those that are opaque, and those that are translucent (by the file's
// colour, or as another world or a ghost).
const GHOST_COLOUR = [0.20, 0.47, 0.95, 0.38], OTHER_WORLD_ALPHA = 0.3;
const INSTANCE_FLOATS = 15;
// What can be switched on and off. Arrows are many, so at first only what pushes is shown, not what would be better.
const layers = {
  forces: {there: scene.forces, shown: true, colour: [0.86, 0.16, 0.22, 1]},
  gradients: {there: scene.gradients, shown: false, colour: [0.49, 0.23, 0.86, 1]},
  ghosts: {there: scene.ghosts > 0, shown: true},
};
const batches = new Map();
function addInstance(geom, copy) {
  const ghost = copy >= scene.worlds;
  const colour = ghost ? GHOST_COLOUR : geom.colours[0].map((c, k) => k === 3 && copy > 0 ? c * OTHER_WORLD_ALPHA : c);
  const key = (ghost ? "ghost " : colour[3] < 0.999 ? "translucent " : "opaque ") + geom.shape;
  const layer = ghost ? layers.ghosts : null;
  if (!batches.has(key)) batches.set(key, {shape: geom.shape, opaque: colour[3] >= 0.999, layer, instances: []});
  batches.get(key).instances.push({geom, copy, colour});
}
for (const geom of solids) for (let copy = 0; copy < (geom.body < 0 ? 1 : copies); copy++) addInstance(geom, copy);

// Arrows of a layer: as many instances as the busiest frame has. A contact also has a ball, where its arrow starts.
function addArrows(layer, shape, placeOf) {
  const starts = new Uint32Array(bytes(layer.there.starts)), rows = new Float32Array(bytes(layer.there.rows));
  let most = 0;
  for (let frame = 0; frame < scene.frames; frame++) most = Math.max(most, starts[frame + 1] - starts[frame]);
  const geom = {shape, scale: [1, 1, 1], colour: layer.colour};
  const instances = Array.from({length: most}, () => ({geom, colour: layer.colour}));
  batches.set(`${batches.size} arrows`, {shape, opaque: true, layer, instances, starts, rows, placeOf});
}
const arrowShape = `mesh ${scene.meshes.length - 1}`;
for (const layer of [layers.forces, layers.gradients]) if (layer.there) addArrows(layer, arrowShape, row => row);
if (layers.forces.there) {
  addArrows(layers.forces, "sphere", row => [...row.slice(0, 7), scene.ball, scene.ball, scene.ball]);
}

// Particles: beads whose places and shades are blended between two frames.
if (scene.points) {
  const radius = new Float32Array(bytes(scene.points.radius));
  const instances = Array.from(radius, r => ({geom: {scale: [r, r, r]}, colour: [1, 1, 1, 1]}));
  batches.set("points", {shape: "mesh bead", opaque: true, instances, points: {
    places: new Float32Array(bytes(scene.points.places)), shades: new Uint8Array(bytes(scene.points.shades)),
    palette: new Uint8Array(bytes(scene.points.palette)), count: radius.length,
  }});
}
function placePoints(batch, time) {
  const {places, shades, palette, count} = batch.points, [before, after, share] = frameBefore(time);
  for (let i = 0; i < count; i++) {
    const o = i * INSTANCE_FLOATS, a = before * count + i, b = after * count + i;
    for (let k = 0; k < 3; k++) batch.data[o + k] = places[3 * a + k] * (1 - share) + places[3 * b + k] * share;
    batch.data[o + 4] = 1;
    const shade = Math.round(shades[a] * (1 - share) + shades[b] * share);
    for (let k = 0; k < 3; k++) batch.data[o + 11 + k] = palette[3 * shade + k] / 255;
  }
}

const shapeBuffers = new Map();
function buffersOf(shape) {
  if (!shapeBuffers.has(shape)) {
    const data = shapeData(shape), vertices = gl.createBuffer(), indices = gl.createBuffer();
    gl.bindVertexArray(null);
    gl.bindBuffer(gl.ARRAY_BUFFER, vertices);
    gl.bufferData(gl.ARRAY_BUFFER, data.vertices, gl.STATIC_DRAW);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, indices);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, data.indices, gl.STATIC_DRAW);
    shapeBuffers.set(shape, {vertices, indices, count: data.indices.length});
  }
  return shapeBuffers.get(shape);
}
for (const batch of batches.values()) {
  const buffers = buffersOf(batch.shape);
  batch.count = buffers.count;
  batch.data = new Float32Array(batch.instances.length * INSTANCE_FLOATS);
  batch.instances.forEach(({geom, colour}, i) => batch.data.set([...geom.scale, ...colour], i * INSTANCE_FLOATS + 8));
  batch.buffer = gl.createBuffer();
  batch.array = gl.createVertexArray();
  gl.bindVertexArray(batch.array);
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, buffers.indices);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffers.vertices);
  for (const [slot, size, offset] of [[0, 3, 0], [1, 3, 3], [2, 1, 6]]) {
    gl.enableVertexAttribArray(slot);
    gl.vertexAttribPointer(slot, size, gl.FLOAT, false, 28, 4 * offset);
  }
  gl.bindBuffer(gl.ARRAY_BUFFER, batch.buffer);
  gl.bufferData(gl.ARRAY_BUFFER, batch.data.byteLength, gl.DYNAMIC_DRAW);
  for (const [slot, size, offset] of [[3, 4, 0], [4, 4, 4], [5, 3, 8], [6, 4, 11]]) {
    gl.enableVertexAttribArray(slot);
    gl.vertexAttribPointer(slot, size, gl.FLOAT, false, 4 * INSTANCE_FLOATS, 4 * offset);
    gl.vertexAttribDivisor(slot, 1);
  }
}
// Meshes that change colour: shades of their vertices are looked up on the palette and blended between two frames, and
// faces that are not there at that time are left out.
gl.vertexAttrib4f(7, 0, 0, 0, 0); // all else has no paint
const palette = scene.paint && new Uint8Array(bytes(scene.paint.palette));
const shades = scene.paint && new Uint8Array(bytes(scene.paint.shades));
const faceTimes = scene.paint && new Float32Array(bytes(scene.paint.times));
const deformed = scene.paint && scene.paint.motion && new Float32Array(bytes(scene.paint.motion));
for (const batch of batches.values()) {
  const mesh = Number(batch.shape.slice(5));
  if (!scene.paint || batch.layer || batch.points || !batch.shape.startsWith("mesh") || mesh >= scene.meshes.length - 1) continue;
  const [vertices, faces] = scene.paint.starts, count = vertices[mesh + 1] - vertices[mesh];
  batch.paint = {
    first: vertices[mesh], times: faceTimes.subarray(2 * faces[mesh], 2 * faces[mesh + 1]),
    all: new Uint32Array(bytes(scene.meshes[mesh].indices)), colours: new Uint8Array(4 * count),
    colourBuffer: gl.createBuffer(), indexBuffer: gl.createBuffer(),
    vertices: deformed && shapeData(batch.shape).vertices, vertexBuffer: buffersOf(batch.shape).vertices,
  };
  gl.bindVertexArray(batch.array);
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, batch.paint.indexBuffer);
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, batch.paint.all, gl.DYNAMIC_DRAW);
  gl.bindBuffer(gl.ARRAY_BUFFER, batch.paint.colourBuffer);
  gl.bufferData(gl.ARRAY_BUFFER, batch.paint.colours.byteLength, gl.DYNAMIC_DRAW);
  gl.enableVertexAttribArray(7);
  gl.vertexAttribPointer(7, 4, gl.UNSIGNED_BYTE, true, 0, 0);
}
// Vertices [x y z, normal, 0] of a mesh that is deformed, between two frames; normals are those of the faces around.
function deformBatch({first, all, vertices, vertexBuffer}, time) {
  const [before, after, share] = frameBefore(time), perFrame = deformed.length / scene.frames;
  for (let i = 0; i < vertices.length / 7; i++) {
    const a = before * perFrame + 3 * (first + i), b = after * perFrame + 3 * (first + i);
    for (let k = 0; k < 3; k++) vertices[7 * i + k] = deformed[a + k] + share * (deformed[b + k] - deformed[a + k]);
    vertices.fill(0, 7 * i + 3, 7 * i + 6);
  }
  const at = i => [vertices[7 * i], vertices[7 * i + 1], vertices[7 * i + 2]];
  for (let face = 0; face < all.length; face += 3) {
    const [p, q, r] = [0, 1, 2].map(k => at(all[face + k])), normal = cross(along(q, -1, p), along(r, -1, p));
    for (let k = 0; k < 3; k++) for (let j = 0; j < 3; j++) vertices[7 * all[face + k] + 3 + j] += normal[j];
  }
  for (let o = 3; o < vertices.length; o += 7) {
    const size = Math.hypot(vertices[o], vertices[o + 1], vertices[o + 2]) || 1;
    for (let j = 0; j < 3; j++) vertices[o + j] /= size;
  }
  gl.bindBuffer(gl.ARRAY_BUFFER, vertexBuffer);
  gl.bufferSubData(gl.ARRAY_BUFFER, 0, vertices);
}
function paintBatch(batch, time) {
  if (deformed) deformBatch(batch.paint, time);
  const {first, times, all, colours, colourBuffer, indexBuffer} = batch.paint;
  const [before, after, share] = frameBefore(time), perFrame = shades.length / scene.frames;
  for (let i = 0; i < colours.length / 4; i++) {
    const a = shades[before * perFrame + first + i], b = shades[after * perFrame + first + i];
    const shade = Math.round(a + share * (b - a));
    for (let k = 0; k < 3; k++) colours[4 * i + k] = palette[3 * shade + k];
    colours[4 * i + 3] = 255;
  }
  gl.bindBuffer(gl.ARRAY_BUFFER, colourBuffer);
  gl.bufferSubData(gl.ARRAY_BUFFER, 0, colours);
  const seen = new Uint32Array(all.length);
  let count = 0;
  for (let face = 0; face < all.length / 3; face++) {
    if (time < times[2 * face] || time >= times[2 * face + 1]) continue;
    for (let k = 0; k < 3; k++) seen[count++] = all[3 * face + k];
  }
  gl.bindVertexArray(batch.array);
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, indexBuffer);
  gl.bufferSubData(gl.ELEMENT_ARRAY_BUFFER, 0, seen.subarray(0, count));
  batch.count = count;
  gl.bindVertexArray(null);
}
const emptyArray = gl.createVertexArray(), floorArray = gl.createVertexArray();
gl.bindVertexArray(floorArray);
gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
gl.enableVertexAttribArray(0);
gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);

function placeInstances(time) {
  poseBodies(time);
  const [before, after, share] = frameBefore(time), nearest = share < 0.5 ? before : after;
  for (const batch of batches.values()) {
    if (batch.starts) placeArrows(batch, nearest);
    else if (batch.points) placePoints(batch, time);
    else batch.instances.forEach(({geom, copy}, i) => {
      const [at, quat] = geomPose(geom, copy, bodyPoses, 0), o = i * INSTANCE_FLOATS;
      batch.data[o] = at[0]; batch.data[o + 1] = at[1]; batch.data[o + 2] = at[2]; batch.data[o + 3] = geom.stretch;
      for (let k = 0; k < 4; k++) batch.data[o + 4 + k] = quat[k];
    });
    gl.bindBuffer(gl.ARRAY_BUFFER, batch.buffer);
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, batch.data);
    if (batch.paint) paintBatch(batch, time);
  }
}
function placeArrows(batch, frame) {
  const first = batch.starts[frame];
  batch.drawn = batch.starts[frame + 1] - first;
  for (let i = 0; i < batch.drawn; i++) {
    const row = batch.placeOf(batch.rows.slice(10 * (first + i), 10 * (first + i + 1))), o = i * INSTANCE_FLOATS;
    batch.data.set(row.slice(0, 3), o);
    batch.data.set(row.slice(3), o + 4);
  }
}
function drawBatches(opaque) {
  for (const batch of batches.values()) {
    if (batch.opaque !== opaque || (batch.layer && !batch.layer.shown)) continue;
    gl.bindVertexArray(batch.array);
    // Back faces are left out, or they would show as dots along the outline; a mesh may be open, so its are kept.
    (batch.shape.startsWith("mesh") ? gl.disable : gl.enable).call(gl, gl.CULL_FACE);
    gl.drawElementsInstanced(gl.TRIANGLES, batch.count, gl.UNSIGNED_INT, 0, batch.drawn ?? batch.instances.length);
  }
  gl.disable(gl.CULL_FACE);
}

// Matrices are column by column, as WebGL takes them.
function product(a, b) {
  const out = new Float32Array(16);
  for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++)
    for (let k = 0; k < 4; k++) out[4 * c + r] += a[4 * k + r] * b[4 * c + k];
  return out;
}
const unit = a => a.map(value => value / Math.hypot(...a));
function axesTowards(back) { // right, up and back of a viewer who looks against `back`, upright
  const right = unit(cross(Math.abs(back[2]) > 0.9999 ? [0, 1, 0] : [0, 0, 1], back));
  return [right, cross(back, right), back];
}
function viewMatrix(eye, [right, up, back]) {
  return [right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
          -dot(right, eye), -dot(up, eye), -dot(back, eye), 1];
}
const perspective = (tan, aspect, near, far) => [1 / (tan * aspect), 0, 0, 0, 0, 1 / tan, 0, 0,
  0, 0, (near + far) / (near - far), -1, 0, 0, 2 * near * far / (near - far), 0];
const orthographic = (half, depth) => [1 / half, 0, 0, 0, 0, 1 / half, 0, 0, 0, 0, -1 / depth, 0, 0, 0, 0, 1];
// The key light stands beside the first camera, so that what faces the viewer is lit and still has form.
const TAN = Math.tan(degrees(17)); // of half the vertical field of view
const toLight = direction(homeYaw(travels ? around : whole) - degrees(28), degrees(52));

// Without a floor in the file, a faint grid below the motion shows which way is down and catches the shadow.
const floors = planes.length ? planes : [{body: -1, pos: [0, 0, whole.low[2] - 0.02 * wholeSize], quat: [1, 0, 0, 0],
                                          scale: [0, 0, 1], colours: [[0, 0, 0, 1], [0, 0, 0, 1]], onlyLines: true}];

function draw(time, target, back, distance) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2.5);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map(size => Math.max(1, Math.round(size * ratio)));
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }

  const axes = axesTowards(back), eye = along(target, distance, back);
  const far = distance * 4 + wholeSize * 12;
  const projection = product(perspective(TAN, width / height, distance * 0.03, far), viewMatrix(eye, axes));
  placeInstances(time);

  // The shadow covers the whole motion if that is compact, else the robot; it moves by whole texels to keep edges calm.
  const half = travels ? robotSize * 1.8 : wholeSize * 1.35, texel = 2 * half / SHADOW_SIZE;
  const lightAxes = axesTowards(toLight);
  let lightAt = travels ? centreAt(time) : middle(whole);
  for (const axis of lightAxes.slice(0, 2)) {
    const steps = dot(lightAt, axis) / texel;
    lightAt = along(lightAt, (Math.round(steps) - steps) * texel, axis);
  }
  const lightProjection = product(orthographic(half, half * 3), viewMatrix(lightAt, lightAxes));

  gl.enable(gl.DEPTH_TEST);
  gl.depthFunc(gl.LEQUAL);
  gl.depthMask(true);
  gl.disable(gl.BLEND);
  gl.bindFramebuffer(gl.FRAMEBUFFER, shadowTarget);
  gl.viewport(0, 0, SHADOW_SIZE, SHADOW_SIZE);
  gl.clear(gl.DEPTH_BUFFER_BIT);
  gl.useProgram(shadowProgram.handle);
  gl.uniformMatrix4fv(shadowProgram.at.projection, false, lightProjection);
  gl.enable(gl.POLYGON_OFFSET_FILL);
  gl.polygonOffset(1.5, 2);
  drawBatches(true);
  gl.disable(gl.POLYGON_OFFSET_FILL);

  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  gl.viewport(0, 0, width, height);
  gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  gl.depthMask(false);
  gl.useProgram(backdropProgram.handle);
  gl.uniform3f(backdropProgram.at.top, 0.965, 0.975, 0.985);
  gl.uniform3f(backdropProgram.at.bottom, 0.80, 0.835, 0.875);
  gl.bindVertexArray(emptyArray);
  gl.drawArrays(gl.TRIANGLES, 0, 3);
  gl.depthMask(true);

  for (const {handle, at} of [solidProgram, floorProgram]) {
    gl.useProgram(handle);
    gl.uniformMatrix4fv(at.projection, false, projection);
    gl.uniformMatrix4fv(at.lightProjection, false, lightProjection);
    gl.uniform3fv(at.eye, eye);
    gl.uniform3fv(at.toLight, toLight);
    gl.uniform1f(at.shadowTexel, texel);
    gl.uniform1i(at.shadowMap, 0);
  }
  gl.useProgram(solidProgram.handle);
  drawBatches(true);

  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  gl.useProgram(floorProgram.handle);
  gl.bindVertexArray(floorArray);
  for (const floor of floors) drawFloor(floor, target, distance);

  // See-through parts: depth first, so that of overlapping ones only the nearest surface is seen, in whatever order.
  // Pushed back a little: where a ghost coincides with the robot, the robot is seen.
  gl.useProgram(solidProgram.handle);
  gl.enable(gl.POLYGON_OFFSET_FILL);
  gl.polygonOffset(2, 16);
  gl.colorMask(false, false, false, false);
  drawBatches(false);
  gl.colorMask(true, true, true, true);
  drawBatches(false);
  gl.disable(gl.POLYGON_OFFSET_FILL);
}
function drawFloor(floor, target, distance) {
  const at = floorProgram.at, [place, quat] = geomPose(floor, 0, bodyPoses, 0), up = rotate(quat, 0, [0, 0, 1]);
  const reach = Math.max(distance * 3, viewSize * 4);
  // The part of the plane around the point looked at, cut to the plane's size where it has one.
  const inverse = [quat[0], -quat[1], -quat[2], -quat[3]];
  const around = rotate(inverse, 0, along(target, -1, place)), span = [0, 0, 0, 0];
  for (let k = 0; k < 2; k++) {
    const size = floor.scale[k];
    span[k] = size > 0 ? 0 : around[k];
    span[2 + k] = size > 0 ? size : reach;
  }
  gl.uniform3fv(at.place, place);
  gl.uniform4fv(at.turn, quat);
  gl.uniform4fv(at.span, span);
  gl.uniform3fv(at.up, up);
  gl.uniform3fv(at.focus, along(target, -dot(along(target, -1, place), up), up));
  gl.uniform2f(at.fade, reach * 0.25, reach * 0.98);
  gl.uniform4fv(at.even, floor.colours[0]);
  gl.uniform4fv(at.odd, floor.colours[1]);
  gl.uniform1f(at.square, square);
  gl.uniform1i(at.onlyLines, floor.onlyLines ? 1 : 0);
  gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
}
