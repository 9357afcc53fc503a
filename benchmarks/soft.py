"""Soft bodies: are gradients right, what is conserved, and how fast is it beside Taichi?

    python benchmarks/soft.py [--json FILE] [--quick] [--only NAME]

Peers run in the same process, on one core, on the same particles: motion and gradient are compared before they are
timed. Taichi (pip install taichi) is listed as absent where it is not installed.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import time

from common import Result, interleave, main, one_core, peak_added_memory, version

one_core()

import numpy as np  # noqa: E402
from coupled_scenes import (  # noqa: E402
    finger,
    floating,
    in_motion,
    particle_momentum,
    robot_momentum,
    tumbling,
)
from crowds import KINDS, WALLS, crowd, motion, rest  # noqa: E402

import pullback as pb  # noqa: E402
from pullback import soft  # noqa: E402
from pullback.core.trees import row  # noqa: E402
from pullback.soft import NeoHookean, Particles, block, room  # noqa: E402
from pullback.tasks import TASKS, solve  # noqa: E402
from pullback.tasks.soft_walker import STEP, STEPS, STRENGTH, robot, robot_in_space  # noqa: E402

HAS_TAICHI = importlib.util.find_spec("taichi") is not None
TAICHI = version("taichi", "Taichi") if HAS_TAICHI else "Taichi"
TISSUE = NeoHookean(young=25.0, poisson=0.25, density=1.0)  # both of Lamé's numbers are 10 Pa
COLD = """
import numpy as np
import pullback as pb
from soft import space_block
system = space_block()
pb.rollout(system, system.state(), steps=1).pullback(x_bar=np.ones((1, system.n, 3)))
"""


def space_block(**options) -> Particles:
    """10,350 particles in space, as measured for Taichi before."""
    bodies = [block((0.3, 0.3, 0.1), (0.6, 0.6, 0.25), (30, 23, 15), TISSUE)]
    walls = room([2.5 / 64] * 3, [61.5 / 64] * 3, friction=math.inf)
    settings = {"dx": 1 / 64, "cells": (64,) * 3, "dt": 1e-3, "gravity": (0, 0, -3.8), "walls": walls}
    return Particles(bodies, **settings | {"dtype": "float32"} | options)


def one_thread(system: Particles) -> Particles:
    return Particles(**system._settings() | {"threads": 1})


# --- whether it is right ----------------------------------------------------------------------------------------------


def gradients(quick: bool):
    worst, worst_rest, kinks = 0.0, 0.0, 0
    for dim in (2, 3):
        for name, material in KINDS.items():
            for wall in WALLS if not quick and dim == 2 else ("free", "Coulomb"):
                system = crowd(dim, material, wall)
                rows = pb.check_system(system, *motion(system)).rows
                kinks += sum(row.status == "kink" for row in rows)
                worst = max(worst, *(row.error for row in rows if row.status == "agrees"))
            system = crowd(dim, material, "free")
            rows = pb.check_system(system, rest(system, name), np.zeros((system.worlds, 1))).rows
            worst_rest = max(worst_rest, *(row.error for row in rows if row.status == "agrees"))
    about = f"{len(KINDS)} materials x walls, 2-D and 3-D; {kinks} fields at kinks"
    yield Result("check_system of particles: worst error", worst, "1", "<= 1e-6", note=about)
    yield Result("the same at rest, where singular values agree", worst_rest, "1", "<= 1e-6")


def conserved(quick: bool):
    steps = 100 if quick else 1000
    for dim in (2, 3):
        body = block([0.3] * dim, [0.7] * dim, [9] * dim, NeoHookean(young=100.0, poisson=0.3, density=2.0))
        system = Particles([body], dx=1 / 16, cells=(17,) * dim, dt=2e-3, gravity=np.zeros(dim), threads=1)
        random = np.random.default_rng(0)
        spin = random.normal(size=(dim, dim))
        start = system.state()
        start = start._replace(v=(start.x - 0.5) @ (spin - spin.T) + 0.05 * random.normal(size=start.v.shape))
        states = system.steps(start, np.zeros((steps, 1, 0)), keep_every=steps)
        momentum = 2.0 * body.volume[0] * states.v.sum(axis=2)
        drift = np.abs(momentum[1] - momentum[0]).max()
        yield Result(f"momentum of a free body in {dim}-D over {steps} steps", drift, "kg m/s", "<= 1e-12")


def coupled(quick: bool):
    """A robot among particles."""
    for name, scene in (("in motion", finger()), ("at rest", finger(friction=math.inf))):
        point = in_motion(scene) if name == "in motion" else (scene.state(), np.zeros((1, scene.nu)))
        rows = pb.check_system(scene, *point).rows
        worst, kinks = max(r.error for r in rows if r.status == "agrees"), sum(r.status == "kink" for r in rows)
        about = f"{len(rows)} fields, {kinks} at kinks"
        yield Result(f"check_system of a robot among particles, {name}: worst error", worst, "1", "<= 1e-6", note=about)
    scene, steps = floating(), 20 if quick else 60
    run = pb.rollout(scene, tumbling(scene), steps=steps)
    robot_had, robot_has = (robot_momentum(scene.robot, row(run.states.robot, t)) for t in (0, steps))
    had, has = (particle_momentum(scene.soft, row(run.states.soft, t)) for t in (0, steps))
    drift = np.abs(has + robot_has - had - robot_had).max()
    about = f"angular about the origin, and linear; of which they exchanged {np.abs(robot_has - robot_had).max():.1e}"
    yield Result(f"momentum of robot and particles over {steps} steps", drift, "kg m/s", "<= 1e-12", note=about)


def checkpoints(quick: bool):
    system = robot(threads=1)
    controls = 0.5 * np.sin(0.05 * np.arange(60)[:, None, None] + np.arange(4))
    x_bar = np.random.default_rng(1).normal(size=(1, system.n, 2))

    def gradient(system, every):
        return pb.rollout(system, system.state(), controls, checkpoint_every=every).pullback(x_bar=x_bar)

    plain, sparse, two = gradient(system, 1), gradient(system, "sqrt"), gradient(robot(threads=2), 1)
    apart = max(np.abs(a - b).max() for a, b in zip(plain.state, sparse.state, strict=True))
    apart = max(apart, np.abs(plain.controls - sparse.controls).max())
    yield Result("gradient with checkpoints: difference", apart, "1", "<= 0")
    double = [gradient(robot("float64", threads=k), 1).controls for k in (1, 2)]
    apart = np.abs(double[0] - double[1]).max() / np.abs(double[0]).max()
    yield Result("gradient on one and two cores: difference, float64", apart, "1", "<= 1e-6")
    apart = np.abs(plain.controls - two.controls).max() / np.abs(plain.controls).max()
    yield Result("the same in float32", apart, "1")


# --- how fast it is ---------------------------------------------------------------------------------------------------


class Ours:
    """Forward and backward of minus the mean of x, into arrays that are there, as Taichi's are."""

    def __init__(self, system: Particles, steps: int):
        self.system, self.start = system, system.state()
        self.controls = np.zeros((steps, 1, system.nu), system.dtype)
        x_bar = np.zeros(self.start.x.shape, system.dtype)
        x_bar[..., 0] = -1 / system.n
        self.bar, self.every = soft.ParticleState(x_bar, None, None, None, None), max(1, math.isqrt(steps))

    def forward(self):
        """Keeps what a backward pass begins with."""
        return self.system.steps(self.start, self.controls, keep_every=self.every)

    def both(self):
        run = pb.rollout(self.system, self.start, self.controls, checkpoint_every=self.every)
        return run, run.pullback(x_bar=self.bar.x, wants_params=False)


def peers(name: str, system: Particles, cells: int, lame: float, gravity: float, steps: int, quick: bool, must: str):
    """Forward, and forward and backward, beside Taichi."""
    ours, muscle = Ours(system, steps), np.full(system.n, -1)
    if not HAS_TAICHI:
        yield Result(f"{name}, forward + backward / Taichi", None, "ratio", must, TAICHI, "absent")
        return
    import soft_taichi

    soft_taichi.start()
    began = time.perf_counter()
    theirs = soft_taichi.TaichiParticles(
        ours.start.x[0], muscle, cells=cells, h=system.dt, steps=steps, lame=lame, gravity=gravity
    )
    theirs.forward()
    theirs.backward()
    first = time.perf_counter() - began
    run, grads = ours.both()
    apart = np.abs(run.final.x[0] - theirs.final()).max()
    bar = theirs.first_bar()
    off = np.abs(grads.state.v[0] - bar).max() / np.abs(bar).max()
    same = f"motions {apart:.1e} m apart, gradients {off:.1e}"
    if not (apart < 1e-4 and off < 1e-2):
        yield Result(f"{name}, forward + backward / Taichi", None, "ratio", must, TAICHI, f"not the same: {same}")
        return

    def full():
        theirs.forward()
        theirs.backward()

    work = {"ours": ours.both, "theirs": full, "our forward": ours.forward, "their forward": theirs.forward}
    took = interleave(work, repeats=3 if quick else 7)
    each = {key: 1e9 * seconds / steps / system.n for key, seconds in took.items()}
    about = f"{each['ours']:.0f} and {each['theirs']:.0f} ns per particle and step; {same}"
    yield Result(f"{name}, forward + backward / Taichi", took["ours"] / took["theirs"], "ratio", must, TAICHI, about)
    about = f"{each['our forward']:.0f} and {each['their forward']:.0f} ns"
    ratio = took["our forward"] / took["their forward"]
    yield Result(f"{name}, forward / Taichi", ratio, "ratio", "", TAICHI, about)
    cores = {"one": one_thread(system), "two": None}
    ratio = took["ours"] / took["our forward"]
    about = "with one state in sqrt(steps) kept, so that most are stepped twice"
    yield Result(f"{name}, with gradient / forward", ratio, "ratio", "", "", about)
    backward = plain_ratio(cores["one"], steps, quick)
    yield Result(f"{name}, forward + backward / forward, all states kept", backward, "ratio", "<= 3.5")
    if system.dim == 3:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"WARP_CACHE_PATH": folder}
            command = [sys.executable, "-c", COLD]
            began = time.perf_counter()
            subprocess.run(command, check=True, env=environment, cwd=os.path.dirname(__file__), capture_output=True)
            cold = time.perf_counter() - began
        about = f"{cold:.0f} s, compiling with an empty cache, against {first:.0f} s"
        yield Result("cold start to the first 3-D gradient / Taichi's", cold / first, "ratio", "<= 0.1", TAICHI, about)


def plain_ratio(system: Particles, steps: int, quick: bool) -> float:
    """Forward and backward against forward, with every state kept."""
    ours = Ours(system, steps)
    states = system.steps(ours.start, ours.controls)

    def backward():
        back = system.backward(ours.controls, None, ours.bar, wants_params=False)
        back.through(states, 0, steps)
        back.finish(None)

    took = interleave({"forward": ours.forward, "backward": backward}, repeats=3 if quick else 7)
    return 1 + took["backward"] / took["forward"]


def plane(quick: bool):
    yield from peers("robot in the plane, 2,976 particles", robot(threads=1), 128, 10.0, 3.8,
                     64 if quick else 256, quick, "<= 0.4")  # fmt: skip


def space(quick: bool):
    yield from peers("block in space, 10,350 particles", space_block(threads=1), 64, 10.0, 3.8, 16 if quick else 64,
                     quick, "<= 0.25")  # fmt: skip


def cores(quick: bool):
    """Two cores against one, which the rest of this benchmark keeps to."""
    available = os.sched_getaffinity(1) if hasattr(os, "sched_getaffinity") else set()
    if len(available) < 2:
        yield Result("two cores / one", None, "times", ">= 1.7", note="there is one core")
        return
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, available)
    try:
        steps = 8 if quick else 32
        work = {str(k): Ours(space_block(threads=k), steps).both for k in (1, 2)}
        took = interleave(work, repeats=3 if quick else 7)
    finally:
        os.sched_setaffinity(0, mine)
    yield Result("two cores / one, block in space", took["1"] / took["2"], "times", ">= 1.7")


def memory(quick: bool):
    system = robot_in_space(threads=1)
    steps = 64 if quick else 512
    controls = np.zeros((steps, 1, system.nu), "float32")
    x_bar = np.ones((1, system.n, 3), "float32")

    def gradient():
        run = pb.rollout(system, system.state(), controls, checkpoint_every="sqrt")
        return run.pullback(x_bar=x_bar)

    added = peak_added_memory(gradient, repeats=1)
    grids = sum(array.size * array.strides[0] for array in (
        system._stepper.work.own, system._stepper.work.nodes, system._stepper.work.own_bar,
        system._stepper.work.nodes_bar)) / 1e6  # fmt: skip
    about = f"{system.n} particles, {steps} steps; grids of at most {grids:.0f} MB stay"
    value = None if added is None else added / 1e6
    yield Result("peak memory of the 3-D robot's gradient", value, "MB", "<= 200", "Taichi: 3.0 GB", about)


def growth(quick: bool):
    """Time of a step against the number of particles, at eight per cell."""
    counts, seconds = (10, 22, 46) if quick else (10, 22, 46, 100), []
    for count in counts:
        side = count / 2 / 100
        body = block([0.1] * 3, [0.1 + side] * 3, [count] * 3, TISSUE)
        cells = int(100 * (0.2 + side)) + 4
        system = Particles([body], dx=0.01, cells=(cells,) * 3, dt=5e-4, gravity=np.zeros(3), dtype="float32",
                           threads=1)  # fmt: skip
        steps = max(1, 2_000_000 // count**3)
        work = Ours(system, steps).forward
        seconds.append(interleave({"step": work}, repeats=3)["step"] / steps)
    slope = np.polyfit(3 * np.log(counts), np.log(seconds), 1)[0]
    about = ", ".join(f"{c**3:,}: {1e9 * s / c**3:.0f} ns" for c, s in zip(counts, seconds, strict=True))
    yield Result("time against particles: exponent", slope, "1", "<= 1.05", note=about)


def walker(quick: bool):
    """The same descent on the same gait as DiffTaichi's."""
    iterations = 2 if quick else 100
    task = TASKS["soft-walker"]()
    task = task.but(system=one_thread(task.system))
    first, _, _ = task.begin()
    if not HAS_TAICHI:
        yield Result("soft-walker: time / Taichi's", None, "ratio", "<= 0.4", TAICHI, "absent")
        return
    import soft_taichi

    soft_taichi.start()
    muscle = np.repeat([-1, 0, 1, 2, 3], [len(body.points) for body in task.system.bodies])
    settings = {"cells": 128, "h": STEP, "steps": STEPS, "lame": 10.0, "gravity": 3.8, "strength": STRENGTH}
    theirs = soft_taichi.TaichiParticles(task.start.x[0], muscle, **settings)

    def their_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        controls, _ = task.find.decode(task.system, x[None])
        theirs.control.from_numpy(controls[:, 0])
        theirs.forward()
        loss = float(task.start.x[0, :, 0].mean() - theirs.final()[:, 0].mean())
        theirs.backward()
        bars = pb.Bars(None, theirs.control.grad.to_numpy()[:, None])
        return loss, task.find.pull(task.system, x[None], bars)[0]

    def our_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        found = task(x[None], True)
        return float(found.losses[0]), found.gradients[0]

    took, best = {}, {}
    a, b = (f(first) for f in (our_gradient, their_gradient))
    off = np.abs(a[1] - b[1]).max() / np.abs(b[1]).max()
    for name, gradient in (("ours", our_gradient), ("theirs", their_gradient)):
        x, losses, began = first, [], time.perf_counter()
        for _ in range(iterations):
            loss, bar = gradient(x)
            losses.append(loss)
            x = x - 0.1 * bar
        took[name], best[name] = time.perf_counter() - began, min(losses)
    about = f"{took['ours']:.0f} and {took['theirs']:.0f} s; first gradients {off:.1e} apart"
    yield Result("soft-walker: time / Taichi's", took["ours"] / took["theirs"], "ratio", "<= 0.4", TAICHI, about)
    about = f"way of {-best['ours']:.3f} and {-best['theirs']:.3f} m after {iterations} iterations"
    # The same descent: rounding decides who is ahead.
    yield Result("soft-walker: loss less Taichi's", best["ours"] - best["theirs"], "m", "<= 1e-3", TAICHI, about)


def solved(quick: bool):
    """From how many of ten random starts, or of ten recordings, tasks are solved."""
    for name in ("mould", "grip", "open-door", "sand-slope"):
        seeds = range(2 if quick else 10)
        tasks = [TASKS[name](seed=seed) for seed in seeds]
        found = [solve(task, target=None if task.evaluate_at_end else task.target)[-1] for task in tasks]
        good = sum(one.metrics[one.best] <= task.target for one, task in zip(found, tasks, strict=True))
        yield Result(f"{name}: solved, of ten", good * 10 / len(seeds), "1", ">= 9")


QUESTIONS = {
    "gradients": gradients, "conserved": conserved, "coupled": coupled, "checkpoints": checkpoints, "plane": plane,
    "space": space, "cores": cores, "memory": memory, "growth": growth, "walker": walker,
    "solved": solved,
}  # fmt: skip

if __name__ == "__main__":
    main(QUESTIONS)
