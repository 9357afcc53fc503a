"""Is the core right, and is it fast? Articulated bodies without contact, one core, float64, peers in the same run.

python benchmarks/dynamics.py [--json FILE] [--quick]
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Result, interleave, main, one_core, peak_added_memory

one_core()  # before NumPy and JAX start their threads

import mujoco  # noqa: E402
import numpy as np  # noqa: E402
import warp as wp  # noqa: E402
from oracles import relative_error, unconstrained  # noqa: E402
from peers import Absent, mjx_gradient, mujoco_steps, newton_gradient, pinocchio_model  # noqa: E402
from trees import random_states, random_tree  # noqa: E402

import pullback as pb  # noqa: E402
from pullback.dynamics import forward_dynamics  # noqa: E402
from pullback.model import robots  # noqa: E402

MUJOCO = f"MuJoCo {mujoco.__version__}"
INTEGRATORS = {"euler": 0, "rk4": 1, "implicitfast": 3}  # as MuJoCo numbers them


def sample_robots() -> dict[str, pb.Model]:
    return {name: pb.load(make()) for name, make in robots.ROBOTS.items()}


def gymnasium_models() -> dict[str, pb.Model]:
    """All robots that come with Gymnasium."""
    try:
        import gymnasium
    except ImportError:
        return {}
    folder = Path(gymnasium.__file__).parent / "envs/mujoco/assets"
    return {path.stem: pb.load(path) for path in sorted(folder.glob("*.xml"))}


def mean_force(model: pb.Model, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random controls, somewhat beyond their ranges."""
    half = np.where(model.control_limited, np.abs(model.control_range).max(axis=1, initial=0.0), 1.0)
    return rng.normal(size=(*shape, model.nu)) * half * 0.7


# --- right? -----------------------------------------------------------------------------------------------------------


def acceleration_error(model: pb.Model, rng: np.random.Generator, count: int) -> float:
    """Largest error of joint accelerations against MuJoCo's qacc, relative to the largest acceleration of the state."""
    # One explicit step of one second from v is v + qacc.
    one_second = dataclasses.replace(model, integrator="euler", implicit_damping=False, timestep=1.0)
    system = pb.Articulated(one_second, contact=None, worlds=count)
    q, v = random_states(model.mujoco, rng, count)
    controls = mean_force(model, rng, (count,))
    ours = system.step(system.state(q, v), controls).v - v
    m = unconstrained(model.mujoco)
    data = mujoco.MjData(m)
    worst = 0.0
    for i in range(count):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[i], v[i], controls[i]
        mujoco.mj_forward(m, data)
        worst = max(worst, relative_error(ours[i], data.qacc))
    return worst


def accelerations(quick: bool):
    rng = np.random.default_rng(0)
    count = 5 if quick else 20
    for name, models in (("Gymnasium's models", gymnasium_models()), ("sample robots", sample_robots())):
        worst = max(((acceleration_error(m, rng, count), n) for n, m in models.items()), default=(None, "absent"))
        yield Result(
            f"qacc, {len(models)} {name}: relative error", worst[0], "", "<= 1e-10", MUJOCO, f"worst: {worst[1]}"
        )
    trees = 20 if quick else 200
    errors = [acceleration_error(pb.load(random_tree(seed, fluid=seed % 4 == 0)), rng, 3) for seed in range(trees)]
    note = f"worst: tree {int(np.argmax(errors))}"
    yield Result(f"qacc, {trees} random trees: relative error", max(errors), "", "<= 1e-10", MUJOCO, note)


def trajectories(quick: bool):
    """A robot set going at random and left to itself; both simulators start from the same state."""
    rng = np.random.default_rng(1)
    steps = 200 if quick else 1000
    for integrator, number in INTEGRATORS.items():
        worst = (0.0, "")
        for name, model in {**sample_robots(), **gymnasium_models()}.items():
            if integrator == "implicitfast" and (model.fluid_density or model.fluid_viscosity):
                continue
            system = pb.Articulated(dataclasses.replace(model, integrator=integrator), contact=None)
            q, v = model.home.q, 0.1 * rng.normal(size=model.nv)
            controls = np.tile(0.05 * mean_force(model, rng, (1, 1)), (steps, 1, 1))
            run = pb.rollout(system, system.state(q, v), controls)
            m = unconstrained(model.mujoco)
            m.opt.integrator = number
            data = mujoco.MjData(m)
            data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, controls[0, 0]
            error = 0.0
            for t in range(steps):
                mujoco.mj_step(m, data)
                error = max(error, float(np.abs(run.q[t + 1, 0] - data.qpos).max()))
            worst = max(worst, (error, name))
        name = f"{steps}-step trajectories, {integrator}: largest difference in q"
        yield Result(name, worst[0], "m, rad", "<= 1e-8", MUJOCO, f"worst: {worst[1]}")


def derivatives_of_aba(quick: bool):
    rng = np.random.default_rng(2)
    worst = 0.0
    for seed in range(10 if quick else 50):
        model = pb.load(random_tree(seed, actuators="none", passive=False))
        if model.nv == 0:
            continue
        try:
            peer = pinocchio_model(model.mujoco)
        except Absent as reason:
            yield Result("derivatives of ABA: relative error", None, "", "<= 1e-9", "Pinocchio", f"absent: {reason}")
            return
        nv = model.nv
        system = pb.Articulated(model, contact=None, worlds=nv)
        q, v = random_states(model.mujoco, rng, 1)
        tau = rng.normal(size=(1, nv))
        evaluation = forward_dynamics(system, np.repeat(q, nv, 0), np.repeat(v, nv, 0), np.repeat(tau, nv, 0))
        grads = evaluation.pullback(np.eye(nv), wants_params=False)
        from pullback.model.tangent import tangent_of_coordinates

        ours = (tangent_of_coordinates(model, np.repeat(q, nv, 0), grads.q), grads.v, grads.x)
        for mine, theirs in zip(ours, peer.aba_derivatives(q[0], v[0], tau[0]), strict=True):
            worst = max(worst, relative_error(mine, theirs))
    yield Result("derivatives of ABA, random trees: relative error", worst, "", "<= 1e-9", _version("pin", "Pinocchio"))


def checks(quick: bool):
    worst, slopes = (0.0, ""), []
    for name, model in sample_robots().items():
        if quick and name == "humanoid":
            continue
        report = pb.check_system(pb.Articulated(model, contact=None), seed=3)
        worst = max(worst, (report.worst.error, f"{name}, {report.worst.field}"))
        slopes += [row.slope for row in report.rows if np.isfinite(row.slope)]
    yield Result("check_system, sample robots, all parameters: worst best error", worst[0], "", "<= 1e-7", "", worst[1])
    yield Result("check_system: median slope of the error in the step size", float(np.median(slopes)), "", ">= 1.9")


def checkpoints(quick: bool):
    model = pb.load(robots.quadruped())
    system = pb.Articulated(model, contact=None, worlds=3)
    rng = np.random.default_rng(4)
    controls = mean_force(model, rng, (200, 3)) * 0.1
    q_bar, v_bar = rng.normal(size=(201, 3, model.nq)), rng.normal(size=(201, 3, model.nv))

    def gradient(every: int) -> np.ndarray:
        run = pb.rollout(system, system.state(), controls, checkpoint_every=every)
        grads = run.pullback(q_bar=q_bar, v_bar=v_bar)
        return np.concatenate([np.ravel(x) for x in (*grads.state, grads.controls, *grads.params.values())])

    whole = gradient(1)
    for every in (7, 50):
        difference = float(np.abs(gradient(every) - whole).max())
        yield Result(f"gradient with checkpoint_every={every}: difference", difference, "", "== 0")


# --- fast? ------------------------------------------------------------------------------------------------------------


def aba(quick: bool):
    model = pb.load(robots.quadruped())
    worlds = 256
    system = pb.Articulated(model, contact=None, worlds=worlds, threads=1)
    rng = np.random.default_rng(5)
    q, v = random_states(model.mujoco, rng, worlds)
    tau = rng.normal(size=(worlds, model.nv))
    try:
        peer = pinocchio_model(model.mujoco, free_flyer=True)
    except Absent as reason:
        yield Result("ABA a world, quadruped", None, "ratio", "<= 0.8", "Pinocchio", f"absent: {reason}")
        return
    import pinocchio

    states = [peer.to_pinocchio(q[i], v[i]) for i in range(worlds)]
    given = [(*states[i], peer.force_to_pinocchio(q[i], tau[i])) for i in range(worlds)]

    def theirs():
        for a, b, c in given:
            pinocchio.aba(peer.model, peer.data, a, b, c)

    times = interleave({"ours": lambda: forward_dynamics(system, q, v, tau), "peer": theirs})
    note = f"{times['ours'] / worlds * 1e6:.2f} against {times['peer'] / worlds * 1e6:.2f} µs"
    ratio = times["ours"] / times["peer"]
    yield Result("ABA a world (batch 256, quadruped)", ratio, "ratio", "<= 0.8", _version("pin", "Pinocchio"), note)


def rollouts(quick: bool):
    model = pb.load(robots.quadruped())
    system = pb.Articulated(model, contact=None, threads=1)
    rng = np.random.default_rng(6)
    steps = 500
    controls = mean_force(model, rng, (steps, 1)) * 0.05
    start = system.state()
    run = pb.rollout(system, start, controls)
    v_bar = rng.normal(size=(1, model.nv))
    peer = mujoco_steps(unconstrained(model.mujoco), start.q[0], start.v[0], controls[:, 0])
    times = interleave(
        {
            "forward": lambda: pb.rollout(system, start, controls),
            "peer": peer.call,
            "backward": lambda: run.pullback(q_bar=run.q[-1], v_bar=v_bar),
            "without params": lambda: run.pullback(q_bar=run.q[-1], v_bar=v_bar, wants_params=False),
        }
    )
    a_step = {name: seconds / steps * 1e6 for name, seconds in times.items()}
    note = f"{a_step['forward']:.2f} against {a_step['peer']:.2f} µs ({peer.how})"
    yield Result(
        "rollout step, one world, quadruped", a_step["forward"] / a_step["peer"], "ratio", "<= 1.0", MUJOCO, note
    )
    both = a_step["forward"] + a_step["backward"]
    note = f"{a_step['backward']:.2f} µs back; {a_step['without params']:.2f} without gradients of parameters"
    yield Result("forward + backward / forward", both / a_step["forward"], "ratio", "<= 4.0", "", note)
    yield from gradient_peers(model, both, quick)


def gradient_peers(model: pb.Model, ours: float, quick: bool):
    """Ours is with respect to start, controls and all parameters; theirs to the controls alone."""
    steps = 20 if quick else 100
    m = unconstrained(model.mujoco)
    rng = np.random.default_rng(7)
    controls = 0.05 * mean_force(model, rng, (steps,))
    q, v = model.home.q, np.zeros(model.nv)
    makers = {
        _version("mujoco-mjx", "MJX"): lambda: mjx_gradient(m, steps),
        _version("newton", "Newton"): lambda: newton_gradient(robots.quadruped(), steps),
    }
    for peer, make in makers.items():
        name = f"gradient step / {peer.split()[0]}'s"
        try:
            gradient, set_up = make()
            theirs = min(_seconds(lambda f=gradient: f(q, v, controls)) for _ in range(5)) / steps * 1e6
        except Absent as reason:
            yield Result(name, None, "ratio", "<= 0.1", peer, f"absent: {reason}")
            continue
        note = f"{ours:.1f} against {theirs:.0f} µs; its set-up: {set_up:.0f} s"
        if peer.startswith("Newton"):
            note += "; float32, its only precision; a solver a step, since with one for all its tape is wrong"
        yield Result(name, ours / theirs, "ratio", "<= 0.1", peer, note)


def _seconds(f) -> float:
    start = time.perf_counter()
    result = f()
    if hasattr(result, "block_until_ready") or isinstance(result, tuple):
        _ = [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]
    return time.perf_counter() - start


def memory(quick: bool):
    model = pb.load(robots.quadruped())
    steps = 5000
    for every in (1, 50):
        system = pb.Articulated(model, contact=None, threads=1)
        controls = np.zeros((steps, 1, model.nu))
        start = system.state()
        v_bar = np.ones((1, model.nv))

        def gradient(system=system, start=start, controls=controls, every=every, v_bar=v_bar):
            pb.rollout(system, start, controls, checkpoint_every=every).pullback(v_bar=v_bar)

        added = peak_added_memory(gradient)
        name = f"peak memory added by a {steps}-step gradient, quadruped" + (
            f", checkpoint_every={every}" * (every > 1)
        )
        note = "Qiao et al. 2021: 5.0 MB" if every == 1 else ""
        yield Result(name, None if added is None else added / 1e6, "MB", "<= 2", "", note)


def long_chain(links: int) -> pb.Model:
    """A chain of any length: MuJoCo's compiler stops at 1,023 bodies in a row, so the last link is repeated by hand."""
    short = pb.load(robots.pendulum(4))
    fields = {}
    for field in dataclasses.fields(short):
        value = getattr(short, field.name)
        if (
            isinstance(value, np.ndarray)
            and value.ndim
            and len(value) in (4, 5)
            and field.name not in ("gravity", "wind")
        ):
            last = np.repeat(value[-1:], links - 4, axis=0)
            if field.name in ("body_parent", "joint_body", "joint_q", "joint_v", "actuator_joint"):
                last = last + np.arange(1, links - 3, dtype=value.dtype)
            fields[field.name] = np.concatenate([value, last])
        elif isinstance(value, tuple) and len(value) in (4, 5) and field.name.endswith("_names"):
            fields[field.name] = value + tuple(f"{field.name} {i}" for i in range(4, links))
    return dataclasses.replace(short, nq=links, nv=links, nu=links, **fields)


def scaling(quick: bool):
    """Links hang straight down and fall apart slowly: cost does not depend on the motion."""
    lengths = [8, 16, 32, 64, 128, 256, 512, 1024]
    times = {"forward": [], "backward": []}
    for links in lengths:
        system = pb.Articulated(long_chain(links), contact=None, threads=1)
        steps = max(4, 4096 // links)
        run = pb.rollout(system, system.state(), steps=steps)
        v_bar = np.ones((1, links))
        found = interleave(
            {
                "forward": lambda system=system, steps=steps: pb.rollout(system, system.state(), steps=steps),
                "backward": lambda run=run, v_bar=v_bar: run.pullback(v_bar=v_bar),
            },
            repeats=5 if quick else 9,
        )
        for name, seconds in found.items():
            times[name].append(seconds / steps)
    for name, seconds in times.items():
        exponent = float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])
        note = ", ".join(f"{n}: {s * 1e6:.1f} µs" for n, s in zip(lengths, seconds, strict=True) if n in (8, 128, 1024))
        yield Result(
            f"cost against chain length, 8 to 1,024 links, {name}: exponent", exponent, "", "<= 1.15", "", note
        )


FIRST_GRADIENT = """
import time; start = time.perf_counter()
import numpy as np, pullback as pb
system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None)
run = pb.rollout(system, system.state(), np.zeros((10, 1, system.nu)))
run.pullback(v_bar=np.ones((1, system.nv)))
print("seconds", time.perf_counter() - start)
"""


def start_up(quick: bool):
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "WARP_CACHE_PATH": cache}

        def first_gradient() -> float:
            done = subprocess.run(
                [sys.executable, "-c", FIRST_GRADIENT], env=environment, capture_output=True, text=True, check=True
            )
            return float(done.stdout.split("seconds")[-1])

        cold = first_gradient()
        warm = min(first_gradient() for _ in range(3))
    yield Result("cold start, from import to the first gradient", cold, "s", "<= 45")
    yield Result("the same, warm", warm, "s", "<= 2")


def second_robot(quick: bool):
    def gradient(xml: str) -> None:
        system = pb.Articulated(pb.load(xml), contact=None)
        pb.rollout(system, system.state(), steps=2).pullback(v_bar=np.ones((1, system.nv)))

    gradient(robots.quadruped())
    cache = Path(wp.config.kernel_cache_dir)
    before = set(cache.iterdir())
    gradient(robots.humanoid())
    compiled = len(set(cache.iterdir()) - before)
    yield Result("kernels compiled for a second, different robot", compiled, "", "== 0")


def _version(package: str, name: str) -> str:
    import importlib.metadata

    try:
        return f"{name} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return name


def figures(quick: bool):
    questions = (accelerations, trajectories, derivatives_of_aba, checks, checkpoints, aba, rollouts, memory)
    for question in (*questions, scaling, start_up, second_robot):
        yield from question(quick)


if __name__ == "__main__":
    main(figures, description=__doc__)
