"""What does heat cost on a GPU, and is it right there?

    python benchmarks/gpu_heat.py [--json FILE] [--quick] [--only NAME ...]

Needs an NVIDIA GPU; without one every figure is reported as absent.
"""

import time

import numpy as np
import warp as wp
from common import Result, main
from heat_parts import STEPS, seed_part, wall

import pullback as pb
from pullback.core.arrays import to_numpy


def absent(figures: dict[str, tuple[str, str]], why: str = "no GPU"):
    for name, (unit, must) in figures.items():
        yield Result(name, None, unit, must, "", f"absent: {why}")


def relative(a, b) -> float:
    a, b = to_numpy(a), to_numpy(b)
    return float(np.abs(a - b).max() / np.abs(b).max())


def right(quick: bool):
    """In float64, against the CPU: a motion with births and melting, and its gradient."""
    figures = {
        f"{method} on CUDA, {steps} steps: {what}": ("", "<= 1e-9")
        for method, steps in (("explicit", 200), ("implicit", 20))
        for what in ("temperatures", "gradients")
    }
    if not wp.is_cuda_available():
        yield from absent(figures)
        return
    if wp._src.context.runtime.llvm is None:
        yield from absent(figures, "Warp has no compiler for the CPU here, and so there is nothing to compare with")
        return
    for method, steps, dt in (("explicit", 200, 0.02), ("implicit", 20, 0.2)):
        found = []
        for device in ("cpu", "cuda"):
            heat = wall(device=device, method=method, dt=dt)
            run = pb.rollout(heat, heat.state(), heat.default_controls(steps), checkpoint_every="sqrt")
            found.append((run.final.T, run.pullback(T_bar=np.ones((1, heat.n)))))
        (cpu, cpu_grads), (cuda, cuda_grads) = found
        yield Result(
            f"{method} on CUDA, {steps} steps: temperatures", relative(cuda, cpu), "", "<= 1e-9", "our CPU", ""
        )
        errors = {name: relative(cuda_grads.params[name], bar) for name, bar in cpu_grads.params.items()}
        for k, name in enumerate(("power", "speed", "radius")):
            errors[name] = relative(to_numpy(cuda_grads.controls)[..., k], to_numpy(cpu_grads.controls)[..., k])
        worst = max(errors, key=errors.get)
        note = f"worst: {worst}"
        yield Result(f"{method} on CUDA, {steps} steps: gradients", errors[worst], "", "<= 1e-9", "our CPU", note)


@wp.kernel
def square_bars(T: wp.array3d(dtype=wp.float32), weight: float, bars: wp.array3d(dtype=wp.float32)):
    i, j, k = wp.tid()
    bars[i, j, k] = weight * (T[i, j, k] - 800.0)


def study(quick: bool):
    """One gradient of a loss over all temperatures by all controls and parameters, checkpoints like the square root."""
    steps = 1000 if quick else STEPS
    names = {"gradient iteration of a printed part": ("s", "<= 5"), "its GPU memory": ("GB", "<= 1")}
    if not wp.is_cuda_available():
        yield from absent(names)
        return
    heat, controls = seed_part(steps, device="cuda")
    count = (steps + 1) * heat.n

    def bars(_steps, states):
        result = wp.empty(states.T.shape, dtype=wp.float32, device="cuda")
        wp.launch(square_bars, states.T.shape, inputs=[states.T, 2.0 / count, result], device="cuda")
        return result

    def gradient(n):
        run = pb.rollout(heat, heat.state(), controls[:n], checkpoint_every="sqrt")
        wp.synchronize()
        middle = time.perf_counter()
        grads = run.pullback(T_bar=bars)
        wp.synchronize()
        return grads, middle

    gradient(100)  # compiles
    taken = []
    for _ in range(1 if quick else 3):
        begin = time.perf_counter()
        grads, middle = gradient(steps)
        end = time.perf_counter()
        taken.append((end - begin, middle - begin))
    assert np.all(np.isfinite(to_numpy(grads.controls)))
    seconds, forward = sorted(taken)[len(taken) // 2]
    elements = len(heat.mesh.elements)
    note = f"{elements} elements, {steps} steps, float32, median of {len(taken)}; forward {forward:.2f} s"
    yield Result("gradient iteration of a printed part", seconds, "s", "<= 5" if not quick else "", "", note)
    yield Result("(forward + backward) / forward", seconds / forward, "ratio", "<= 4", "", "")
    used = wp.get_mempool_used_mem_high("cuda") / 1e9
    yield Result("its GPU memory", used, "GB", "<= 1", "", "the most that arrays took at any time")


if __name__ == "__main__":
    main({"right": right, "study": study})
