"""Are policies that propose contacts trained fast, consistent, and of use where contacts are real?

The derivatives are compared with autodiff of all residuals written a second time, in torch
(testing/contact_autodiff.py); tests/dexterous holds each residual against differences. Every task is trained from five
seeds, judged on 100 starts that were not trained on, and tried in MuJoCo on 100 in every mode, also with other masses
and frictions and with pushes. All times are of one core.

Run: python benchmarks/dexterous.py [--json FILE] [--quick] [--only derivatives training trials methods speed]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from common import Result, interleave, main, one_core

from pullback.core.threads import one_blas_thread, one_torch_thread
from pullback.dexterous import MODES, ContactPolicy, ContactProblem, Quality, Training, judge, train, try_policy
from pullback.plan import LBFGS, Adam, MatrixFreeGaussNewton, Progress, minimise
from pullback.tasks import TASKS

# Share of starts that must hold.
NAMES = {
    **{"grasp-cube": 0.9, "grasp-any": 0.9, "push-cube": 0.9, "turn-wheel": 0.9},
    **{"reorient": 0.6, "flip-y": 0.6, "flip-z": 0.6},
}
SQUEEZES = (0.0, 0.002, 0.004, 0.008)  # [m]
CAP = 30.0  # times as long as ours that a peer is given [1]


@dataclass(frozen=True)
class Trained:
    policy: ContactPolicy
    quality: Quality
    seconds: float
    progress: Progress


@cache
def trained(name: str, seed: int, iterations: int | None = None) -> Trained:
    task = TASKS[name]()
    began = time.perf_counter()
    policy, progress = train(task, seed=seed, iterations=iterations)
    done = Trained(policy, judge(task, policy), time.perf_counter() - began, progress)
    q = done.quality
    text = f"{name} {seed}: {done.seconds:.0f} s, gap {1e3 * q.gap:.2g} mm, reached {q.reached:.0%}"
    print(text, file=sys.stderr, flush=True)
    return done


def fixed_problem(samples: int, share: float = 1.0, frames: int | None = None, hidden: int = 64) -> ContactProblem:
    """Grasp-cube with the same samples in every iteration."""
    from dataclasses import replace

    task = TASKS["grasp-cube"]()
    task = task if frames is None else replace(task, frames=frames)
    policy = task.fresh_policy(0, hidden)
    return ContactProblem(task, policy, task.batch(np.random.default_rng(0), samples), share)


def derivatives(quick: bool) -> Iterator[Result]:
    import torch
    from contact_autodiff import residuals

    problem = fixed_problem(3, frames=4)
    random = np.random.default_rng(1)
    x = problem.policy.weights + 0.05 * random.standard_normal(len(problem.policy.weights))
    d = random.standard_normal(len(x))
    function, at = residuals(problem), torch.from_numpy(x)
    value, moved = torch.func.jvp(function, (at,), (torch.from_numpy(d),))
    _, vjp = torch.func.vjp(function, at)
    linear = problem.linearise(x)
    pairs = ((linear.gradient, vjp(value)[0].numpy()), (linear.product(d), vjp(moved)[0].numpy()))
    for what, (ours, theirs) in zip(("gradient", "products with JᵀJ"), pairs, strict=True):
        error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
        yield Result(f"{what} against autodiff", error, "relative", "<= 1e-10", peer=f"torch {torch.__version__}")
    errors = []
    for h in (1e-4, 1e-5, 1e-6):
        slope = (problem.blocks(x + h * d)[0].loss - problem.blocks(x - h * d)[0].loss) / (2 * h)
        errors.append(abs(slope - linear.gradient @ d) / abs(linear.gradient @ d))
    yield Result("gradient of all residuals against differences", min(errors), "relative", "<= 1e-7")
    e = random.standard_normal(len(x))
    ab, ba = e @ linear.product(d), d @ linear.product(e)
    yield Result("products with JᵀJ: symmetry", abs(ab - ba) / abs(ab), "relative", "<= 1e-12")


def training(quick: bool) -> Iterator[Result]:
    for name in NAMES:
        found = [trained(name, seed) for seed in range(2 if quick else 5)]
        of, qualities = f"the worst of {len(found)} seeds", [one.quality for one in found]
        yield Result(f"{name}: distance at contact", 1e3 * max(q.gap for q in qualities), "mm", "<= 2", note=of)
        yield Result(f"{name}: force outside the cone", 100 * max(q.outside for q in qualities), "%", "<= 2",
                     note=f"{of}, friction {TASKS[name]().friction}")  # fmt: skip
        yield Result(f"{name}: penetration", 1e3 * max(q.penetration for q in qualities), "mm", "<= 1", note=of)
        yield Result(f"{name}: goal reached by the model", 100 * min(q.reached for q in qualities), "of 100 starts",
                     ">= 95", note=of)  # fmt: skip
        yield Result(f"{name}: training", max(one.seconds for one in found) / 60, "min", "<= 5", note=of)


def trials(quick: bool) -> Iterator[Result]:
    starts = 20 if quick else 100
    for name, must in NAMES.items():
        task, policy = TASKS[name](), trained(name, 0).policy
        rates = {}
        for mode in MODES:
            for squeeze in SQUEEZES:
                rates[mode, squeeze] = try_policy(task, policy, mode=mode, squeeze=squeeze, starts=starts).rate
        for mode in MODES:
            said = ", ".join(f"{100 * rates[mode, s]:.0f} with {1e3 * s:g} mm" for s in SQUEEZES)
            best = max(rates[mode, s] for s in SQUEEZES)
            yield Result(f"{name}: held in MuJoCo, {mode}", 100 * best, "% of starts", note=said)
        mode, squeeze = max(rates, key=rates.__getitem__)
        label = f"{mode}, squeeze {1e3 * squeeze:g} mm, chosen on other starts"
        options = {"mode": mode, "squeeze": squeeze, "starts": starts, "seed": 2000}
        for plant, label_of in (("mujoco", "MuJoCo"), ("pullback", "ContactConvex")):
            rate = try_policy(task, policy, plant=plant, **options).rate
            yield Result(f"{name}: held in {label_of}, best mode", 100 * rate, "% of starts", f">= {100 * must:g}",
                         note=label)  # fmt: skip
        changes = {"mass - 50 %": {"mass": 0.5}, "mass + 50 %": {"mass": 1.5}, "friction - 50 %": {"friction": 0.5},
                   "friction + 50 %": {"friction": 1.5}, "push of 0.1 m/s": {"push": 0.1}}  # fmt: skip
        for about, change in changes.items():
            rate = try_policy(task, policy, **options, **change).rate
            yield Result(f"{name}: held with {about}", 100 * rate, "% of starts", note=label)


def methods(quick: bool) -> Iterator[Result]:
    """The same problem, soft enough that all methods begin well: a tenth of consistency, fixed samples."""
    problem = fixed_problem(16, 0.1)
    x = problem.policy.weights

    def seconds_to(method, loss: float | None, limit: float) -> tuple[float, float]:
        began, best = time.perf_counter(), [np.inf, np.inf]

        class Spent(Exception):
            pass

        def watch(found):
            now = time.perf_counter() - began
            if found.losses[-1] < best[0]:
                best[0] = found.losses[-1]
            if loss is not None and best[0] <= loss:
                best[1] = now
                raise Spent
            if now > limit:
                raise Spent

        try:
            minimise(problem, x, method, iterations=100_000 if loss else 60, watch=watch)
        except Spent:
            pass
        return best[0], best[1]

    with one_core(), one_blas_thread():
        converged, _ = seconds_to(MatrixFreeGaussNewton(), None, np.inf)
        _, ours = seconds_to(MatrixFreeGaussNewton(), 1.1 * converged, np.inf)
        peers = {"Adam, 1e-3": Adam(rate=1e-3), "Adam, 1e-2": Adam(rate=1e-2), "L-BFGS": LBFGS()}
        for name, method in peers.items():
            best, theirs = seconds_to(method, 1.1 * converged, (3 if quick else CAP) * ours)
            capped = not np.isfinite(theirs)
            note = f"ours {ours:.1f} s" + (f"; not reached, best {best / converged:.3g} times ours" if capped else "")
            ratio = (3 if quick else CAP) if capped else theirs / ours
            yield Result("time to 1.1 times our converged loss", ratio, "ratio", ">= 10", peer=name, note=note)


def speed(quick: bool) -> Iterator[Result]:
    import torch
    from contact_autodiff import residuals

    problem = fixed_problem(16, frames=20)
    x, d = problem.policy.weights, np.random.default_rng(0).standard_normal(len(problem.policy.weights))
    with one_core(), one_blas_thread(), one_torch_thread():
        sampled, method = Training(problem.task, problem.policy, 16), MatrixFreeGaussNewton()
        steps = 3 if quick else 10
        began = time.perf_counter()
        minimise(sampled, x, method, iterations=steps)
        step = (time.perf_counter() - began) / steps
        yield Result("a Gauss-Newton step: three fingertips, 20 frames, batch 16, 64 units", step, "s", "<= 1")
        linear, function, at = problem.linearise(x), residuals(problem), torch.from_numpy(x)

        def theirs():
            _, moved = torch.func.jvp(function, (at,), (torch.from_numpy(d),))
            return torch.func.vjp(function, at)[1](moved)[0]

        seconds = interleave({"ours": lambda: linear.product(d), "torch": theirs}, repeats=3 if quick else 9)
        ratio = seconds["torch"] / seconds["ours"]
        yield Result("products with J a second", 2 / seconds["ours"], "1/s")
        yield Result(
            "a product with JᵀJ, against torch.func", ratio, "ratio", ">= 5", peer=f"torch {torch.__version__}"
        )
    with tempfile.TemporaryDirectory() as folder:
        state, options = Path(folder) / "state.npz", {"samples": 4, "hidden": 16}
        whole, _ = train(problem.task, iterations=8, **options)
        train(problem.task, iterations=3, checkpoint=state, **options)
        resumed, _ = train(problem.task, iterations=8, checkpoint=state, **options)
        same = np.array_equal(whole.weights, resumed.weights)
    yield Result("killed and resumed: same bits", float(same), "", "== 1")


if __name__ == "__main__":
    questions = {"derivatives": derivatives, "training": training, "trials": trials, "methods": methods, "speed": speed}
    main(questions)
