// ---- Camera -----------------------------------------------------------------------------------------------------

const camera = {yaw: 0, pitch: 0, distance: 1, pan: [0, 0, 0], touched: false};
const shown = {...camera}; // what is drawn glides after the camera
let following = travels;

function frameMotion() {
  const bounds = following ? around : whole;
  camera.yaw = homeYaw(bounds);
  camera.pitch = homePitch();
  camera.touched = false;
  // Room is left for the title and the bar.
  const width = canvas.clientWidth, height = canvas.clientHeight;
  const tanY = TAN * Math.max(1 - 210 / height, 0.4), tanX = TAN * width / height * 0.9;
  const [right, up, back] = axesTowards(direction(camera.yaw, camera.pitch));
  let target = middle(bounds);
  for (let round = 0; round < 4; round++) { // fit the distance, then centre what is seen from there, and again
    let distance = 0;
    const seen = bounds.balls.map(({at, radius}) => {
      const d = along(at, -1, target), x = dot(d, right), y = dot(d, up), z = dot(d, back);
      distance = Math.max(distance, Math.max((Math.abs(x) + radius) / tanX, (Math.abs(y) + radius) / tanY) + z);
      return {x, y, z, radius};
    });
    camera.distance = distance;
    const edges = [Infinity, -Infinity, Infinity, -Infinity];
    for (const {x, y, z, radius} of seen) {
      const depth = Math.max(distance - z, 1e-3 * distance);
      edges[0] = Math.min(edges[0], (x - radius) / depth); edges[1] = Math.max(edges[1], (x + radius) / depth);
      edges[2] = Math.min(edges[2], (y - radius) / depth); edges[3] = Math.max(edges[3], (y + radius) / depth);
    }
    if (round === 3) break;
    target = along(target, distance * (edges[0] + edges[1]) / 2, right);
    target = along(target, distance * (edges[2] + edges[3]) / 2, up);
  }
  camera.pan = following ? target : along(target, -1, middle(whole));
  wake();
}

// ---- Time -------------------------------------------------------------------------------------------------------

let time = 0, playing = false, looping = true, speed = 1, lastTick = 0, scheduled = false;

function wake() {
  if (!scheduled) { scheduled = true; requestAnimationFrame(tick); }
}
function tick(now) {
  scheduled = false;
  const passed = Math.min(Math.max(now - lastTick, 0) / 1000, 0.1); // a hidden tab must not make the motion jump
  lastTick = now;
  if (playing) {
    time += passed * speed;
    if (time >= scene.duration) {
      if (looping) time %= scene.duration;
      else { time = scene.duration; setPlaying(false); }
    }
    showTime();
  }
  const glide = 1 - Math.exp(-passed * 22);
  let moving = false;
  for (const key of ["yaw", "pitch", "distance"]) {
    const gap = camera[key] - shown[key];
    shown[key] += gap * glide;
    if (Math.abs(gap) > 1e-4 * Math.abs(camera[key]) + 1e-6) moving = true;
  }
  shown.pan = shown.pan.map((value, k) => value + (camera.pan[k] - value) * glide);
  if (Math.hypot(...along(camera.pan, -1, shown.pan)) > 1e-4 * camera.distance) moving = true;
  render();
  if (playing || moving) wake();
}
function render() {
  const target = along(following ? centreAt(time) : middle(whole), 1, shown.pan);
  draw(time, target, direction(shown.yaw, shown.pitch), shown.distance);
  document.body.dataset.state = "ready";
}
function showTime() {
  element("scrub").value = time;
  element("scrub").style.setProperty("--done", 100 * time / (scene.duration || 1) + "%");
  element("time").textContent = time.toFixed(2);
  const total = document.createElement("span");
  total.textContent = ` / ${scene.duration.toFixed(2)} s`;
  element("time").append(total);
}
function setPlaying(value) {
  playing = value && scene.duration > 0;
  if (playing && time >= scene.duration) time = 0;
  element("play").classList.toggle("playing", playing);
  lastTick = performance.now();
  wake();
}
function goTo(value) {
  time = Math.min(Math.max(value, 0), scene.duration);
  showTime();
  wake();
}
function setLooping(value) { looping = value; element("loop").setAttribute("aria-pressed", value); }
function setFollowing(value) {
  if (value === following) return;
  // Keep looking at the same point, so that switching does not throw the view about.
  const gap = along(middle(whole), -1, centreAt(time));
  camera.pan = along(camera.pan, value ? 1 : -1, gap);
  shown.pan = along(shown.pan, value ? 1 : -1, gap);
  following = value;
  camera.touched = true;
  element("follow").setAttribute("aria-pressed", value);
  wake();
}
function setLayer(name, value) {
  layers[name].shown = value;
  element(name).setAttribute("aria-pressed", value);
  wake();
}
function changeSpeed(step) {
  const select = element("speed"), last = select.options.length - 1;
  select.selectedIndex = Math.min(Math.max(select.selectedIndex + step, 0), last);
  speed = Number(select.value);
}
function applyAddress() { // "#t=1.5": stand still at 1.5 s
  const asked = Number.parseFloat(new URLSearchParams(location.hash.slice(1)).get("t"));
  if (!Number.isFinite(asked)) return false;
  setPlaying(false);
  goTo(asked);
  return true;
}

// ---- Hands ------------------------------------------------------------------------------------------------------

element("play").onclick = () => setPlaying(!playing);
element("loop").onclick = () => setLooping(!looping);
element("follow").onclick = () => setFollowing(!following);
for (const name in layers) {
  element(name).hidden = !layers[name].there;
  element(name).onclick = () => setLayer(name, !layers[name].shown);
}
element("home").onclick = frameMotion;
element("full").onclick = () => {
  if (document.fullscreenElement) document.exitFullscreen();
  else document.documentElement.requestFullscreen?.();
};
element("speed").onchange = event => { speed = Number(event.target.value); event.target.blur(); };
element("scrub").oninput = event => { setPlaying(false); goTo(Number(event.target.value)); };
canvas.ondblclick = frameMotion;
canvas.oncontextmenu = event => event.preventDefault();
addEventListener("hashchange", applyAddress);

addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  const step = (event.shiftKey ? 10 : 1) * (scene.frame_dt || 0);
  const actions = {
    " ": () => setPlaying(!playing),
    ArrowLeft: () => { setPlaying(false); goTo(time - step); },
    ArrowRight: () => { setPlaying(false); goTo(time + step); },
    ArrowUp: () => changeSpeed(1), ArrowDown: () => changeSpeed(-1),
    Home: () => goTo(0), End: () => goTo(scene.duration),
    l: () => setLooping(!looping), f: () => setFollowing(!following), r: frameMotion,
    c: () => setLayer("forces", !layers.forces.shown), g: () => setLayer("gradients", !layers.gradients.shown),
    o: () => setLayer("ghosts", !layers.ghosts.shown),
  };
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || (event.key === " " && event.target.tagName === "BUTTON" && event.target.id !== "play")) return;
  event.preventDefault();
  action();
});

const fingers = new Map(); // pointers that are down, and where they were last
function orbit(dx, dy) {
  camera.yaw -= dx * 0.006;
  camera.pitch = Math.min(Math.max(camera.pitch + dy * 0.006, -1.55), 1.55);
}
function pan(dx, dy) {
  const [right, up] = axesTowards(direction(camera.yaw, camera.pitch));
  const metres = 2 * TAN * camera.distance / canvas.clientHeight; // to a pixel
  camera.pan = along(along(camera.pan, -dx * metres, right), dy * metres, up);
}
function zoom(factor) {
  camera.distance = Math.min(Math.max(camera.distance * factor, robotSize * 0.1), wholeSize * 40);
}
const spread = () => {
  const [a, b] = [...fingers.values()];
  return {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, gap: Math.hypot(a.x - b.x, a.y - b.y) || 1};
};
canvas.addEventListener("pointerdown", event => {
  canvas.setPointerCapture(event.pointerId);
  canvas.classList.add("dragging");
  fingers.set(event.pointerId, {x: event.clientX, y: event.clientY, pans: event.button > 0 || event.shiftKey});
});
canvas.addEventListener("pointermove", event => {
  const finger = fingers.get(event.pointerId);
  if (!finger) return;
  const before = fingers.size === 2 ? spread() : null, dx = event.clientX - finger.x, dy = event.clientY - finger.y;
  finger.x = event.clientX;
  finger.y = event.clientY;
  if (before) {
    const after = spread();
    pan(after.x - before.x, after.y - before.y);
    zoom(before.gap / after.gap);
  } else if (fingers.size === 1) (finger.pans ? pan : orbit)(dx, dy);
  camera.touched = true;
  wake();
});
for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, event => {
  fingers.delete(event.pointerId);
  if (!fingers.size) canvas.classList.remove("dragging");
});
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const pixels = event.deltaY * [1, 16, 400][event.deltaMode];
  zoom(Math.exp(Math.min(Math.max(pixels, -200), 200) * (event.ctrlKey ? 0.008 : 0.0015)));
  camera.touched = true;
  wake();
}, {passive: false});
new ResizeObserver(() => {
  if (!camera.touched) { frameMotion(); Object.assign(shown, camera); }
  render(); // at once: until the next frame, the old picture would be stretched
}).observe(canvas);

// ---- Words and figures ------------------------------------------------------------------------------------------

const facts = [];
if (scene.duration > 0) facts.push(`${scene.duration.toFixed(2)} s`);
if (scene.worlds > 1) facts.push(`${scene.worlds} worlds`);
if (scene.ghosts) facts.push("reference in blue");
facts.push(`squares of ${Number(square.toPrecision(2))} m`);
element("facts").textContent = facts.join(" · ");

if (scene.loss) {
  const values = scene.loss.map(([, value]) => value), low = Math.min(...values), high = Math.max(...values);
  const logarithmic = low > 0 && high / low > 20, height = logarithmic ? Math.log : value => value;
  const span = height(high) - height(low) || 1, last = scene.loss[scene.loss.length - 1][0], end = last || 1;
  const line = scene.loss.map(([iteration, value]) =>
    `${(100 * iteration / end).toFixed(2)},${(96 - 92 * (height(value) - height(low)) / span).toFixed(2)}`).join("L");
  const words = value => Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 || value === 0
    ? String(Number(value.toPrecision(4))) : value.toExponential(2);
  document.querySelector("#loss .curve").setAttribute("d", "M" + line);
  document.querySelector("#loss .under").setAttribute("d", `M0,100L${line}L100,100Z`);
  element("loss-scale").textContent = (logarithmic ? "log scale, " : "") + `${last + 1} iteration${last ? "s" : ""}`;
  element("loss-first").textContent = words(values[0]);
  element("loss-last").textContent = words(values[values.length - 1]);
  element("loss").hidden = false;
}

const coloured = scene.paint || scene.points;
if (coloured) { // what the colours mean
  const [low, high] = document.querySelectorAll("#legend span"), stops = [];
  const colours = new Uint8Array(bytes(coloured.palette));
  for (let i = 0; i < 256; i += 15) stops.push(`rgb(${colours.slice(3 * i, 3 * i + 3).join(",")})`);
  document.querySelector("#legend i").style.background = `linear-gradient(90deg, ${stops.join(",")})`;
  [low, high].forEach((end, k) => {
    const value = coloured.range[k], rounded = Math.abs(value) < 100 ? Number(value.toPrecision(2)) : Math.round(value);
    end.textContent = `${rounded} ${coloured.unit}`;
  });
  element("legend").hidden = false;
}

element("bar").classList.toggle("still", !(scene.duration > 0));
element("scrub").max = scene.duration || 1;
element("follow").setAttribute("aria-pressed", following);
frameMotion();
Object.assign(shown, camera);
showTime();
if (!applyAddress()) setPlaying(!matchMedia("(prefers-reduced-motion: reduce)").matches);
