"""How many world-steps a second with contacts on a GPU, there and back? 16,384 worlds, float32; and is it right there?

    python benchmarks/gpu_contact.py [--json FILE] [--quick] [--only NAME ...]

Needs an NVIDIA GPU; without one every figure is reported as absent.
"""

import mujoco
import numpy as np
import warp as wp
from common import Result, main
from contact_scenes import MUJOCO, ant, attempt, gymnasium_model, quadruped, stance
from gpu import seconds
from oracles import precise

import pullback as pb

WORLDS = 16_384
FEW = 8  # worlds that are compared with the CPU
CONTACTS = {"convex": pb.ContactConvex(), "impulse": pb.ContactImpulse()}
ANT_OF_MJX = 0.83e6  # world-steps a second of MJX's forward pass on an H200, as published


def to_numpy(x) -> np.ndarray:
    return x.numpy() if isinstance(x, wp.array) else np.asarray(x)


def absent(figures: dict[str, tuple[str, str]]):
    for name, (unit, must) in figures.items():
        yield Result(name, None, unit, must, "", "absent: no GPU")


def walk(model: pb.Model, worlds: int, steps: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts (worlds, nq), (worlds, nv) on the floor, and controls (steps, worlds, nu) around a stance.

    The first worlds are the same for any number of them.
    """
    rng = np.random.default_rng(0)
    m = model.mujoco
    data = mujoco.MjData(m)
    data.qpos[:], data.ctrl[:] = model.home.q, stance(model)
    mujoco.mj_step(m, data, 500)  # settled
    v = data.qvel + 0.1 * rng.normal(size=(worlds, model.nv))
    stray = 0.05 * rng.normal(size=(worlds, model.nu))
    controls = np.broadcast_to(stance(model) + stray, (steps, worlds, model.nu))
    return np.tile(data.qpos, (worlds, 1)).astype(dtype), v.astype(dtype), np.ascontiguousarray(controls, dtype=dtype)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


# --- right? -----------------------------------------------------------------------------------------------------------


def right(quick: bool):
    """In float64 on CUDA: trajectories against MuJoCo or the CPU, gradients against differences; float32 against it."""
    names = {
        "convex on CUDA, 20 steps: largest difference in q": ("", "<= 1e-8"),
        "impulse on CUDA, 20 steps: largest difference in q": ("", "<= 1e-8"),
        **{f"{n} on CUDA: gradients against differences": ("", "<= 1e-5") for n in CONTACTS},
        **{f"{n} on CUDA, float32, 5 steps: relative difference in v": ("", "<= 1e-3") for n in CONTACTS},
        **{f"{n} on CUDA, float32, 5 steps: relative difference of gradients": ("", "<= 2e-2") for n in CONTACTS},
    }
    if not wp.is_cuda_available():
        yield from absent(names)
        return
    device = wp.get_device("cuda").name
    model = pb.load(quadruped(servos=True))
    for name, contact in CONTACTS.items():
        yield from attempt(f"{name} on CUDA", lambda t, n=name, c=contact: _right(n, c, model, device), "<= 1e-8")


def _right(name: str, contact, model: pb.Model, device: str):
    steps = 20
    q, v, controls = walk(model, FEW, steps, "float64")
    system = pb.Articulated(model, contact=contact, worlds=FEW, device="cuda")
    run = pb.rollout(system, system.state(q, v), controls)
    found = to_numpy(run.q)[-1]
    if name == "convex":
        peer, exact = MUJOCO, mujoco_ends(model, q, v, controls)
    else:
        peer, exact = "the same on the CPU", cpu_ends(model, contact, q, v, controls)
    figure = f"{name} on CUDA, {steps} steps: largest difference in q"
    if exact is None:
        yield Result(figure, None, "", "", peer, "absent: Warp has no compiler for the CPU there")
    else:
        yield Result(figure, float(np.abs(found - exact).max()), "", "<= 1e-8", peer, device)

    # Of a few steps: differences of many would step over kinks.
    rng = np.random.default_rng(1)
    few = controls[:5]
    v_bar = rng.normal(size=(FEW, model.nv))

    def loss(v, controls) -> np.ndarray:
        done = pb.rollout(system, system.state(q, v), controls)
        return np.sum(to_numpy(done.v)[-1] * v_bar, axis=1)  # of each world

    grads = pb.rollout(system, system.state(q, v), few).pullback(v_bar=v_bar, wants_params=False)
    v_way, u_way = rng.normal(size=v.shape), rng.normal(size=few.shape)
    exact = np.sum(to_numpy(grads.state.v) * v_way, axis=1) + np.sum(to_numpy(grads.controls) * u_way, axis=(0, 2))
    # Each world at its best width, as in check_system.
    widths = (1e-5, 1e-6, 1e-7)
    slopes = [(loss(v + d * v_way, few + d * u_way) - loss(v - d * v_way, few - d * u_way)) / (2 * d) for d in widths]
    error = np.min(np.abs(np.array(slopes) - exact), axis=0).max() / np.abs(exact).max()
    yield Result(f"{name} on CUDA: gradients against differences", error, "", "<= 1e-5", "", device)

    single = pb.Articulated(model, contact=contact, worlds=FEW, dtype="float32", device="cuda")
    short = pb.rollout(single, single.state(q.astype("float32"), v.astype("float32")), few.astype("float32"))
    rough = short.pullback(v_bar=v_bar.astype("float32"), wants_params=False)
    both = relative(to_numpy(short.v)[-1], to_numpy(run.v)[len(few)])
    yield Result(f"{name} on CUDA, float32, 5 steps: relative difference in v", both, "", "<= 1e-3", "float64", device)
    both = max(
        relative(to_numpy(a), to_numpy(b))
        for a, b in ((rough.state.v, grads.state.v), (rough.controls, grads.controls))
    )
    figure = f"{name} on CUDA, float32, 5 steps: relative difference of gradients"
    yield Result(figure, both, "", "<= 2e-2", "float64", device)


def cpu_ends(model: pb.Model, contact, q: np.ndarray, v: np.ndarray, controls: np.ndarray) -> np.ndarray | None:
    if wp._src.context.runtime.llvm is None:
        return None
    system = pb.Articulated(model, contact=contact, worlds=FEW)
    return pb.rollout(system, system.state(q, v), controls).q[-1]


def mujoco_ends(model: pb.Model, q: np.ndarray, v: np.ndarray, controls: np.ndarray) -> np.ndarray:
    m = precise(model.mujoco)
    ends = []
    for world in range(len(q)):
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:] = q[world], v[world]
        for control in controls[:, world]:
            data.ctrl[:] = control
            mujoco.mj_step(m, data)
        ends.append(data.qpos.copy())
    return np.array(ends)


# --- fast? ------------------------------------------------------------------------------------------------------------


def quadrupeds(quick: bool):
    names = {
        name: f"quadruped on its feet, {name}, {WORLDS:,} worlds, float32: forward + backward" for name in CONTACTS
    }
    if not wp.is_cuda_available():
        yield from absent({figure: ("world-steps/s", ">= 3e6") for figure in names.values()})
        return
    model = pb.load(quadruped(servos=True))
    for name, contact in CONTACTS.items():
        yield from attempt(names[name], lambda t, c=contact: _throughput(t, model, c, 20 if quick else 50), ">= 3e6")


def _throughput(figure: str, model: pb.Model, contact, steps: int):
    q, v, controls = walk(model, WORLDS, steps, "float32")
    system = pb.Articulated(model, contact=contact, worlds=WORLDS, dtype="float32", device="cuda")
    controls = wp.array(controls, dtype=wp.float32, device="cuda")
    start = system.state(q, v)
    v_bar = wp.array(np.ones((WORLDS, model.nv), "float32"), dtype=wp.float32, device="cuda")
    run = pb.rollout(system, start, controls)
    forward = seconds(lambda: pb.rollout(system, start, controls))
    back = seconds(lambda: run.pullback(v_bar=v_bar, wants_params=False))
    with_params = seconds(lambda: run.pullback(v_bar=v_bar))
    total = WORLDS * steps
    note = (
        f"{wp.get_device('cuda').name}; forward {total / forward / 1e6:.1f} M/s, backward {total / back / 1e6:.1f} "
        f"M/s, with gradients of all parameters {total / (forward + with_params) / 1e6:.2f} M/s"
    )
    yield Result(figure, total / (forward + back), "world-steps/s", ">= 3e6", "", note)


def ants(quick: bool):
    figure = f"Gymnasium's ant, {WORLDS:,} worlds, float32: forward"
    must = f">= {5 * ANT_OF_MJX:g}"
    if not wp.is_cuda_available():
        yield from absent({figure: ("world-steps/s", must)})
        return
    model = gymnasium_model("ant") or pb.load(ant())
    yield from attempt(figure, lambda t: _ants(t, must, model, 20 if quick else 50), must)


def _ants(figure: str, must: str, model: pb.Model, steps: int):
    """Random actions, as a policy explores; the ants have fallen on their feet before the clock runs."""
    rng = np.random.default_rng(0)
    system = pb.Articulated(model, contact=pb.ContactConvex(), worlds=WORLDS, dtype="float32", device="cuda")
    q = np.tile(model.home.q, (WORLDS, 1))
    q[:, 7:] += rng.uniform(-0.1, 0.1, size=(WORLDS, model.nq - 7))

    def actions(count: int) -> wp.array:
        drawn = rng.uniform(-1, 1, size=(count, WORLDS, model.nu)).astype("float32")
        return wp.array(drawn, dtype=wp.float32, device="cuda")

    start = system.state(q.astype("float32"), (0.1 * rng.normal(size=(WORLDS, model.nv))).astype("float32"))
    start = pb.rollout(system, start, actions(100), checkpoint_every=100).final
    controls = actions(steps)
    forward = seconds(lambda: pb.rollout(system, start, controls, checkpoint_every=steps))
    note = f"{wp.get_device('cuda').name}; Runge-Kutta, four evaluations a step; MJX, as published, in float64: "
    note += f"{ANT_OF_MJX:g}"
    yield Result(figure, WORLDS * steps / forward, "world-steps/s", must, "MJX", note)


QUESTIONS = {"right": right, "quadrupeds": quadrupeds, "ants": ants}

if __name__ == "__main__":
    main(QUESTIONS, description=__doc__)
