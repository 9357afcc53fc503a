"""Contact with long range: is its potential what it says, is its gradient right, does it always find its step, how far
do bodies hover, what does it cost, and does descent find a ball that it has not touched, and
solve the tasks in which nothing touches at first?

Run: python benchmarks/longrange.py [--json FILE] [--quick] [--only NAME ...]
"""

import time

from common import Result, interleave, main, one_core

one_core()  # before NumPy starts its threads

import mpmath as mp  # noqa: E402
import numpy as np  # noqa: E402
from hull_properties import LENGTH, PAIRS, jumps, leaks, pulls, random_pairs, vanishes  # noqa: E402
from hulls import evaluate, exact_value, separated  # noqa: E402
from longrange_tasks import task_results  # noqa: E402
from mesh_fields import fields  # noqa: E402
from meshes import asset, ball, of_mesh, scene, torus  # noqa: E402

import pullback as pb  # noqa: E402

FLOOR = '<geom type="plane" size="9 9 1"/>'
SHAPES = {
    "ball": '<geom size=".1" pos=".01 .02 .03" mass="1"/>',
    "box": '<geom type="box" size=".1 .12 .08" pos=".01 -.02 .03" mass="1.3"/>',
    "rod": '<geom type="capsule" size=".05 .1" euler="20 10 5" mass=".7"/>',
    "can": '<geom type="cylinder" size=".08 .1" euler="5 10 5" mass=".9"/>',
}


def load(world: str, option: str = 'timestep="0.01"') -> pb.Model:
    return pb.load(f"<mujoco><option {option}/><worldbody>{world}</worldbody></mujoco>")


def body(kind: str, pos: str) -> str:
    return f'<body pos="{pos}" euler="10 20 30"><freejoint/>{SHAPES[kind]}</body>'


FOUR = body("box", "0 0 .4") + body("rod", "0 .1 .9") + body("can", ".4 .1 .9") + body("ball", "-.4 .1 .5")
ARM = """<body pos="0 0 1" euler="3 4 5"><joint axis="0 1 .1" pos=".01 .02 .03" damping=".1" range="-60 60"/>
  <geom type="capsule" size=".04 .15" pos=".2 0 0" euler="0 90 0" mass="1"/>
  <body pos=".5 0 0"><joint axis="0 1 0" armature=".01"/><joint type="slide" axis="1 0 0.2"/>
    <geom type="box" size=".1 .05 .04" pos=".1 0 0" mass=".5"/>
    <body pos=".3 0 .05"><joint type="ball" pos=".01 0 0"/>
      <geom type="capsule" size=".03 .1" pos="0 0 .1" mass=".3"/></body></body></body>"""


def potential(quick: bool):
    """Forces and Hessians near touch, against 50 digits, along one rigid motion of each pair."""
    rng, each = np.random.default_rng(1), 1 if quick else 8
    for gap in (1e-3, 1e-6):
        pairs = [separated(rng, kinds, gap) for kinds in PAIRS for _ in range(each)]
        found, force_error, hessian_error = evaluate(pairs, LENGTH), 0.0, 0.0
        with mp.workdps(50):
            h = mp.mpf(10) ** -15 * mp.mpf(gap)
            for i, pair in enumerate(pairs):
                axis = int(rng.integers(3))

                def value(step, i=i, pair=pair, axis=axis):
                    def move(points, _centre):
                        return [[[x + step * (k == axis) for k, x in enumerate(row)] for row in points[0]], points[1]]

                    return exact_value(pair, LENGTH, found.origin[i], found.plane[i], move)  # noqa: B023

                plus, middle, minus = value(h), value(mp.mpf(0)), value(-h)
                slope, curve = float((plus - minus) / (2 * h)), float((plus - 2 * middle + minus) / h**2)
                push = found.forces[i][: len(pair[0].points)].sum(axis=0)
                force_error = max(force_error, abs(push[axis] + slope) / np.abs(push).max())
                diagonal = np.diagonal(found.hessian[i])[3:6]
                hessian_error = max(hessian_error, abs(diagonal[axis] - curve) / np.abs(diagonal).max())
        note = f"{len(pairs)} pairs of spheres, capsules, triangles, boxes, cylinders, meshes; mpmath, 50 digits"
        yield Result(f"forces at a gap of {gap:g} sizes: relative error", force_error, "1", "<= 1e-8", "", note)
        yield Result(f"Hessians at a gap of {gap:g} sizes: relative error", hessian_error, "1", "<= 1e-6", "", note)


def properties(quick: bool):
    each = 20 if quick else 480  # of 21 kinds of pairs
    pairs = random_pairs(0, each, 1e-6, 1e2)
    note = f"{len(pairs)} random pairs of six kinds of hulls"
    yield Result("barrier: violations", leaks(pairs, evaluate(pairs, LENGTH)).sum(), "pairs", "== 0", "", note)
    pairs = random_pairs(1, each, 1e-3, 1e1)
    found = jumps(pairs, lambda where: evaluate(where, LENGTH)).sum()
    yield Result("two continuous derivatives: violations", found, "pairs", "== 0", "", note)
    pairs = random_pairs(2, each, 1e-3, 1e2)
    yield Result(
        "forces inside their cones: violations", pulls(pairs, evaluate(pairs, LENGTH)).sum(), "pairs", "== 0", "", note
    )
    pairs = random_pairs(3, each, 1e-6, 1e4)
    yield Result(
        "forces that are nowhere zero: violations", vanishes(evaluate(pairs, LENGTH)).sum(), "pairs", "== 0", "", note
    )


def gradients(quick: bool):
    planks = "".join(
        f'<body pos="0 0 {0.101 + 0.202 * i}"><freejoint/><geom type="box" size=".3 .2 .1" mass=".5"/></body>'
        for i in range(3)
    )
    places = {
        "rest": (FLOOR + body("box", "0 0 .3"), {"gap": 1e-3}, 60, 0.3),
        "sliding": (FLOOR + body("box", "0 0 .3"), {"gap": 1e-3}, 30, 1.0),
        "far": (FLOOR + FOUR, {"gap": 0.03}, 0, 1.0),
        "stacked": (FLOOR + planks, {"gap": 1e-3}, 60, 0.0),
        "articulated": (FLOOR + ARM + body("ball", ".4 .1 .7"), {"gap": 0.03, "slip_speed": 0.1}, 0, 1.0),
    }
    for name, (world, settings, steps, speed) in places.items():
        system = pb.Articulated(load(world), pb.ContactLongRange(**settings))
        if "friction" in system.params:  # the larger of two that are the same is a kink
            value = system.params["friction"]
            system.params["friction"] = value * np.linspace(0.6, 1.0, len(value))[:, None]
        rng = np.random.default_rng(0)
        start = system.state(v=speed * rng.normal(size=system.nv))
        state = pb.rollout(system, start, steps=steps).final if steps else start
        state = system.state(state.q[0], state.v[0] + 0.01 * rng.normal(size=system.nv))
        report = pb.check_system(system, state, tolerance=np.inf)
        worst = max(row.error for row in report.rows if row.status not in ("no influence here", "skipped"))
        note = f"{len(report.rows)} fields and parameters, worst entry"
        yield Result(f"gradient, {name}: error", worst, "of the largest entry", "<= 1e-6", "", note)


def random_states(rng, count: int, fastest: float) -> tuple[np.ndarray, np.ndarray]:
    q, v = np.zeros((count, 28)), np.zeros((count, 24))
    for world in range(count):
        speed = np.exp(rng.uniform(np.log(0.1), np.log(fastest)))
        for one, cell in enumerate(rng.permutation(8)[:4]):
            corner = np.array([0.6 * (cell & 1) - 0.3, 0.6 * (cell >> 1 & 1) - 0.3, 0.3 + 0.6 * (cell >> 2)])
            turn, way = rng.normal(size=4), rng.normal(size=3)
            q[world, 7 * one : 7 * one + 7] = [*(corner + rng.uniform(-0.04, 0.04, 3)), *(turn / np.linalg.norm(turn))]
            v[world, 6 * one : 6 * one + 3] = speed * way / np.linalg.norm(way)
            v[world, 6 * one + 3 : 6 * one + 6] = rng.normal(size=3) * min(30.0, 10 * speed)
    return q, v


def fuzz(quick: bool):
    """Four bodies and a floor, steps of 10 ms, speeds to 100 m/s. A step that begins in an overlap is an error: every
    state that was stepped from had none."""
    worlds, steps, rounds = 100, 5, 1 if quick else 200
    system = pb.Articulated(load(FLOOR + FOUR), pb.ContactLongRange(), worlds=worlds)
    failed, wrong, rng = 0, 0, np.random.default_rng(0)
    for _ in range(rounds):
        run = pb.rollout(system, system.state(*random_states(rng, worlds, 100.0)), steps=steps, on_failure="mask")
        reasons = run.status.reasons.values()
        overlaps = sum("overlap" in reason for reason in reasons)
        failed += len(reasons) - overlaps
        wrong += overlaps + int(np.sum(~np.isfinite(run.q).all(axis=(0, 2))))
    note = f"{rounds * worlds * steps} steps of four bodies and a floor, 0.1 to 100 m/s"
    yield Result("penetration or NaN", wrong, "trajectories", "== 0", "", note)
    yield Result("steps that did not converge", failed, "steps", "== 0", "", note)


def impulses(speeds: np.ndarray, offsets: np.ndarray, timestep: float) -> np.ndarray:
    """Momentum (worlds, 3) [N·s] that balls of 1 kg and 0.1 m, which start 0.3 m away, give to such balls at rest."""
    ball = '<body pos="{} 0 0"><freejoint/><geom size=".1" mass="1" condim="1"/></body>'
    model = load(ball.format(0) + ball.format(1), f'timestep="{timestep}" gravity="0 0 0"')
    system = pb.Articulated(model, pb.ContactLongRange(gap=1e-4), worlds=len(speeds))
    q, v = np.tile(model.home.q, (len(speeds), 1)), np.zeros((len(speeds), 12))
    q[:, 7], q[:, 8], v[:, 0] = 0.3, offsets, speeds
    steps = int(np.ceil(0.6 / speeds.min() / timestep))
    return pb.rollout(system, system.state(q, v), steps=steps, checkpoint_every=steps).final.v[:, 6:9]


def momentum(quick: bool):
    """Balls that hit each other at speeds of 1 to 100 m/s, off centre by up to 0.9 of their diameter."""
    rng, count = np.random.default_rng(0), 10 if quick else 50
    for fastest in (1.0, 10.0, 100.0):
        speeds, offsets = fastest * rng.uniform(0.5, 1.0, count), 0.18 * rng.uniform(-1, 1, count)
        coarse, fine = (impulses(speeds, offsets, h) for h in (0.01, 0.001))
        off = np.linalg.norm(coarse - fine, axis=1) / np.linalg.norm(fine, axis=1)
        note = f"median {np.median(off):.3f}, within 10 %: {np.mean(off <= 0.1):.0%}"
        title = f"momentum given at up to {fastest:g} m/s: steps of 10 ms against 1 ms"
        yield Result(title, np.percentile(off, 90), "relative, 90th percentile", "<= 0.1", "", note)


def stack(quick: bool):
    """Planks of 2 × 0.4 × 0.2 m, 0.16 kg: gaps against √(2 μ L / W)."""
    count = 5 if quick else 20
    for gap in (1e-2,) if quick else (1e-2, 1e-3, 1e-4):
        planks = "".join(
            f'<body pos="0 0 {0.1 + 2 * gap + (0.2 + 2 * gap) * i}"><freejoint/>'
            '<geom type="box" size="1 .2 .1" mass=".16" condim="1"/></body>'
            for i in range(count)
        )
        model = load(FLOOR + planks, 'timestep="0.04"')
        system = pb.Articulated(model, pb.ContactLongRange(gap=gap, length=1.0))
        run = pb.rollout(system, system.state(), steps=100)
        gaps = np.diff(run.final.q[0, 2::7], prepend=-0.1) - 0.2
        mass = np.array([0.16, *[0.08] * (count - 1)])
        law = np.sqrt(mass * gap**2 / (0.16 * np.arange(count, 0, -1)))
        note = f"{count} planks, largest gap {gaps.max():.3g} m; standing: {np.abs(run.final.q[0, 0::7]).max() < 1e-3}"
        yield Result(f"stack, gap {gap:g} m: off the law", np.abs(gaps / law - 1).max(), "1", "<= 0.05", "", note)


def cost(quick: bool):
    """The sample quadruped over a plane, its limbs not touching each other."""
    model = pb.load(pb.robots.quadruped())
    runs = {}
    for contact in (pb.ContactConvex(), pb.ContactLongRange()):
        system = pb.Articulated(model, contact, threads=1)
        q = model.home.q.copy()
        q[2] += 2e-3
        start = system.state(q)
        start = pb.rollout(system, start, steps=20).final
        runs[type(contact).__name__] = (system, start)

    def forward(name):
        system, start = runs[name]
        return pb.rollout(system, start, steps=50)

    def both(name):
        return forward(name).pullback(q_bar=np.ones((1, model.nq)), wants_params=False)

    functions = {f"{name} {f.__name__}": (lambda f=f, name=name: f(name)) for name in runs for f in (forward, both)}
    seconds = interleave(functions, repeats=3 if quick else 9)
    ours, theirs = "ContactLongRange", "ContactConvex"
    pairs = len(runs[ours][0]._scene.pair_shapes)
    note = f"{seconds[f'{ours} forward'] / 50 * 1e6:.0f} µs per step, {pairs} pairs"
    ratio = seconds[f"{ours} forward"] / seconds[f"{theirs} forward"]
    yield Result("quadruped on a plane: step", ratio, "of ContactConvex's", "<= 10", "ContactConvex", note)
    ratio = seconds[f"{ours} both"] / seconds[f"{ours} forward"]
    yield Result("quadruped on a plane: forward and backward", ratio, "of forward", "<= 2", "", note)


def two_meshes(first, second, apart: float, blend: float = 0.1) -> tuple[pb.Articulated, pb.State]:
    """Two bodies, one above the other and leaning, this far apart [m], which approach each other at 0.2 m/s."""
    assets = asset("low", first) + asset("high", second)
    high = of_mesh("high", ".03 .01 .4").replace("<body ", '<body euler="12 8 0" ')
    model = pb.load(scene(assets, of_mesh("low") + high, 'timestep="0.01" gravity="0 0 0"'))
    system = pb.Articulated(model, pb.ContactLongRange(meshes="triangles", blend=blend), threads=1)
    q = model.home.q[None].copy()
    for _ in range(60):
        distance = fields(system, q).distance[0] - apart
        q[0, 9] -= 0.9 * distance
        if abs(distance) < 1e-2 * apart:
            break
    return system, system.state(q[0], [0, 0, 0.1, *[0] * 5, -0.1, *[0] * 3])


def frame(system: pb.Articulated, state: pb.State, steps: int) -> float:
    """CPU time of a step [s], the mean of some from a state on."""
    begun = time.process_time()
    pb.rollout(system, state, steps=steps)
    return (time.process_time() - begun) / steps


def hierarchy(quick: bool):
    """Meshes as triangles: forces against those of all pairs of triangles, and the time of a step."""
    rng, count = np.random.default_rng(0), 5 if quick else 40
    q = np.tile([*[0.0] * 3, 1.0, *[0.0] * 6, 1.0, *[0.0] * 3], (count, 1))
    for body in range(2):
        turn = rng.normal(size=(count, 4))
        q[:, 7 * body + 3 : 7 * body + 7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    way = rng.normal(size=(count, 3))
    q[:, 7:10] = np.geomspace(0.26, 1.0, count)[:, None] * way / np.linalg.norm(way, axis=1, keepdims=True)
    assets = asset("bumpy", ball(2, 0.1)) + asset("ring", torus(16, 8))
    model, exact = pb.load(scene(assets, of_mesh("bumpy") + of_mesh("ring", "1 0 0"))), None
    for blend in (1e30, 0.01, 0.1, 0.5, 2.0):
        system = pb.Articulated(model, pb.ContactLongRange(meshes="triangles", blend=blend, length=0.1))
        found = fields(system, q)
        if exact is None:
            exact = found
            continue
        off = np.linalg.norm((found.push - exact.push)[:, 3:], axis=1) / np.linalg.norm(exact.push[:, 3:], axis=1)
        share = np.mean(found.leaves / exact.leaves)
        note = f"{count} poses of 320 and 256 triangles, 0.26 to 1 m apart; worst {off.max():.3f}; {share:.2%} of pairs"
        must = "<= 0.1" if blend == 0.1 else ""
        yield Result(f"forces with a blend of {blend:g}, off all pairs", np.mean(off), "relative, mean", must, "", note)
    rings = [torus(*size) for size in ((5, 5), (16, 16), (50, 50), (160, 156))[: 2 if quick else 4]]
    frame(*two_meshes(rings[0], rings[0], 1e-3), steps=1)  # loads kernels
    seconds = [frame(*two_meshes(ring, ring, 1e-3), steps=1 if quick else 2) for ring in rings]
    triangles = [2 * len(ring[1]) for ring in rings]
    exponent = np.polyfit(np.log(triangles), np.log(seconds), 1)[0]
    note = ", ".join(f"{n}: {1e3 * t:.3g} ms" for n, t in zip(triangles, seconds, strict=True))
    yield Result("step of two rings that touch: exponent", exponent, "of triangles", "<= 1.2", "", note)
    ring, lump = (torus(8, 5), ball(1, 0.1)) if quick else (torus(47, 16), ball(3, 0.1))
    note = f"{len(ring[1]) + len(lump[1])} triangles in all: a ring, and a bumpy ball above it"
    for name, apart in (("touch", 1e-3), ("are apart", 0.1)):
        took = frame(*two_meshes(ring, lump, apart), steps=2 if quick else 10)
        yield Result(f"step of two meshes that {name}", took, "s", "<= 0.1", "", note)
        slow = frame(*two_meshes(ring, lump, apart, blend=1e30), steps=1)
        yield Result(f"the same over all pairs, {name}", slow / took, "times as long", ">= 50", "", f"{slow:.3g} s")


BALL = """<body pos="{} 0.1"><joint type="slide" axis="1 0 0" damping="0.5"/>
  <joint type="slide" axis="0 1 0" damping="0.5"/><geom size="0.1" mass="1" condim="1"/></body>"""


def solve_billiards(contact, seed: int, iterations: int) -> tuple[bool, float]:
    """A ball at rest that shall send another, at a random place, to a goal within 40° of the line between them."""
    rng, begun = np.random.default_rng(seed), time.perf_counter()
    angle, far = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 1.2)
    place = far * np.array([np.cos(angle), np.sin(angle)])
    way = angle + rng.uniform(-1, 1) * np.radians(40)
    goal = 0.7 * np.array([np.cos(way), np.sin(way)])
    balls = BALL.format("0 0") + BALL.format(f"{place[0]} {place[1]}")
    system = pb.Articulated(load(balls, 'timestep="0.04" gravity="0 0 0"'), contact)
    velocity, mean, square = np.zeros(2), np.zeros(2), np.zeros(2)
    for k in range(1, iterations + 1):
        run = pb.rollout(system, system.state(v=[*velocity, 0, 0]), steps=100)
        off = run.final.q[0, 2:] - goal
        if off @ off < 0.05**2:
            return True, time.perf_counter() - begun
        slope = run.pullback(q_bar=np.array([[0, 0, *(2 * off)]])).state.v[0, :2]
        mean, square = 0.3 * mean + 0.7 * slope, 0.5 * square + 0.5 * slope**2
        velocity = velocity - 0.05 * mean / (1 - 0.3**k) / np.sqrt(square / (1 - 0.5**k) + 1e-30)
    return False, time.perf_counter() - begun


def billiards(quick: bool):
    starts = 2 if quick else 10
    for contact, must in ((pb.ContactLongRange(gap=1e-3), f">= {0.9 * starts}"), (pb.ContactConvex(), "<= 2")):
        done = [solve_billiards(contact, seed, 200 if must[0] == ">" else 5) for seed in range(starts)]
        name, note = type(contact).__name__, f"two balls, cue at rest; longest {max(t for _, t in done):.1f} s"
        yield Result(f"billiards, {name}: solved of {starts}", sum(ok for ok, _ in done), "starts", must, "", note)


def surrogate(quick: bool):
    """The same with MuJoCo's steps, and long range in the backward pass alone."""
    starts, contact = 2 if quick else 10, pb.ContactConvex(far=pb.Far())
    done = [solve_billiards(contact, seed, 200) for seed in range(starts)]
    note = f"two balls, cue at rest, far=Far(); longest {max(t for _, t in done):.1f} s"
    must = f">= {0.9 * starts}"
    yield Result(f"billiards, surrogate: solved of {starts}", sum(ok for ok, _ in done), "starts", must, "", note)


QUESTIONS = {
    "potential": potential,
    "properties": properties,
    "gradients": gradients,
    "fuzz": fuzz,
    "momentum": momentum,
    "stack": stack,
    "cost": cost,
    "hierarchy": hierarchy,
    "billiards": billiards,
    "surrogate": surrogate,
    "tasks": task_results,
}

if __name__ == "__main__":
    main(QUESTIONS)
