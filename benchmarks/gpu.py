"""How many world-steps a second on a GPU, there and back? Quadruped, 65,536 worlds, float32; and is it right there?

    python benchmarks/gpu.py [--json FILE] [--quick]

Needs an NVIDIA GPU; without one every figure is reported as absent.
"""

import copy
import time

import mujoco
import numpy as np
import warp as wp
from common import Result, main

import pullback as pb
from pullback.model import robots

MUJOCO = f"MuJoCo {mujoco.__version__}"


def to_numpy(x) -> np.ndarray:
    return x.numpy() if isinstance(x, wp.array) else np.asarray(x)


def errors() -> tuple[float, float]:
    """On CUDA in float64: of 20-step trajectories against MuJoCo, and of gradients against central differences."""
    trajectory = gradient = 0.0
    for make in (robots.cartpole, robots.arm, robots.quadruped, robots.humanoid):
        model = pb.load(make())
        rng = np.random.default_rng(0)
        worlds, steps = 3, 20
        system = pb.Articulated(model, contact=None, worlds=worlds, device="cuda")
        q = np.tile(model.home.q, (worlds, 1))
        point = {"v": 0.3 * rng.normal(size=(worlds, model.nv)), "u": 0.3 * rng.normal(size=(steps, worlds, model.nu))}
        point |= {name: np.array(system.params[name]) for name in ("mass", "com", "damping", "joint_pos", "gravity")}
        q_bar, v_bar = (rng.normal(size=(steps + 1, worlds, n)) for n in (model.nq, model.nv))

        def run(x, system=system, q=q, every=1):
            params = {name: value for name, value in x.items() if name not in "vu"}
            return pb.rollout(system, system.state(q, x["v"]), x["u"], params=params, checkpoint_every=every)

        def loss(x, q_bar=q_bar, v_bar=v_bar):
            done = run(x)  # noqa: B023 (called before the next robot)
            return np.sum(to_numpy(done.q) * q_bar) + np.sum(to_numpy(done.v) * v_bar)

        found = to_numpy(run(point).q)
        m = copy.copy(model.mujoco)
        m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        for world in range(worlds):
            data = mujoco.MjData(m)
            data.qpos[:], data.qvel[:] = q[world], point["v"][world]
            for t in range(steps):
                data.ctrl[:] = point["u"][t, world]
                mujoco.mj_step(m, data)
            trajectory = max(trajectory, float(np.abs(found[-1, world] - data.qpos).max()))
        grads = run(point, every=7).pullback(q_bar=q_bar, v_bar=v_bar)
        flat = {"v": to_numpy(grads.state.v), "u": to_numpy(grads.controls), **grads.params}
        for name, value in point.items():
            way = rng.normal(size=value.shape) * (np.abs(value) + 0.01 * (name != "mass"))
            exact = float(np.sum(flat[name] * way))
            h = 1e-5
            ahead, behind = (loss({**point, name: value + side * h * way}) for side in (1, -1))
            gradient = max(gradient, abs((ahead - behind) / (2 * h) - exact) / (abs(exact) + 1e-3))
    return trajectory, gradient


def seconds(f, repeats: int = 5) -> float:
    f()
    wp.synchronize()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        wp.synchronize()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def throughput(worlds: int, steps: int, precision: str):
    """Seconds a launch: forward, backward without and with gradients of parameters."""
    model = pb.load(robots.quadruped())
    system = pb.Articulated(model, contact=None, worlds=worlds, dtype=precision, device="cuda")
    rng = np.random.default_rng(1)
    controls = wp.array(0.1 * rng.normal(size=(steps, worlds, model.nu)).astype(precision), device="cuda")
    start = system.state(model.home.q, 0.1 * rng.normal(size=model.nv))
    v_bar = wp.array(np.ones((worlds, model.nv), precision), device="cuda")
    run = pb.rollout(system, start, controls)
    return (
        seconds(lambda: pb.rollout(system, start, controls)),
        seconds(lambda: run.pullback(v_bar=v_bar, wants_params=False)),
        seconds(lambda: run.pullback(v_bar=v_bar)),
    )


def figures(quick: bool):
    if not wp.is_cuda_available():
        yield Result(
            "quadruped, 65,536 worlds, float32: forward + backward", None, "world-steps/s", ">= 5e6", "", "no GPU"
        )
        return
    device = wp.get_device("cuda").name
    trajectory, gradient = errors()
    yield Result("20-step trajectories on CUDA: largest difference in q", trajectory, "", "<= 1e-10", MUJOCO, device)
    yield Result("gradients on CUDA against differences: relative error", gradient, "", "<= 1e-6", "", device)
    worlds, steps = 65_536, 20 if quick else 50
    for precision in ("float32", "float64"):
        forward, back, back_params = throughput(worlds, steps, precision)
        both = worlds * steps / (forward + back)
        note = (
            f"{device}; forward {worlds * steps / forward / 1e6:.1f} M/s, "
            f"backward {worlds * steps / back / 1e6:.1f} M/s, "
            f"with gradients of all parameters {worlds * steps / (forward + back_params) / 1e6:.2f} M/s"
        )
        must = ">= 5e6" if precision == "float32" else ""
        name = f"quadruped, 65,536 worlds, {precision}: forward + backward"
        yield Result(name, both, "world-steps/s", must, "", note)
        ratio = (forward + back_params) / (forward + back)
        name = f"quadruped, 65,536 worlds, {precision}: time with gradients of all parameters, over that without"
        yield Result(name, ratio, "", "<= 1.6", "", device)


if __name__ == "__main__":
    main(figures, description=__doc__)
