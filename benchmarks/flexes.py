"""Cloth, soft solids and ropes of MJCF: are they MuJoCo's, are gradients right, and how fast is it?

python benchmarks/flexes.py [--json FILE] [--quick]
"""

from __future__ import annotations

import time

from common import Result, interleave, main, one_core, version

one_core()

import mujoco  # noqa: E402
import numpy as np  # noqa: E402
from flex_scenes import FLEXES, fall, grid, scattered, world  # noqa: E402
from oracles import mujoco_run  # noqa: E402

import pullback as pb  # noqa: E402

MUJOCO = version("mujoco", "MuJoCo")
STEPS = 100
GRIDS = {
    "jelly of 8 x 8 x 8": ("8 8 8", 3, 'young="1e4" poisson=".2" damping=".002"'),
    "cloth of 16 x 16": ("16 16 1", 2, 'young="3e4" poisson=".2" damping=".0005" thickness=".01" elastic2d="both"'),
}


def parity(quick: bool):
    worst, apart = 0.0, 0.0
    for kind in FLEXES:
        model = pb.load(world(kind))
        system = pb.Articulated(model, contact=None)
        for seed in range(5 if quick else 50):
            q, v = scattered(model.mujoco, seed)
            theirs = mujoco_run(model.mujoco, q[None], v[None], np.zeros((1, 1, 0)))[1][-1]
            change = np.abs(theirs - v).max()
            worst = max(worst, np.abs(system.step(system.state(q, v)).v - theirs).max() / change)
        run = pb.rollout(system, system.state(q, v), steps=1000)
        theirs = mujoco_run(model.mujoco, q[None], v[None], np.zeros((1000, 1, 0)))[0][-1]
        apart = max(apart, np.abs(run.final.q - theirs).max())
    about = ", ".join(FLEXES)
    yield Result("forces: relative error of the change of velocity", worst, "", "<= 1e-12", MUJOCO, about)
    yield Result("1,000 Euler steps: largest difference", apart, "m", "<= 1e-8", MUJOCO, about)


def gradients(quick: bool):
    worst = 0.0
    for kind in FLEXES:
        system = pb.Articulated(pb.load(world(kind)), contact=None)
        for state in (system.state(), system.state(*scattered(system.model.mujoco, 1))):
            worst = max(worst, *(row.error for row in pb.check_system(system, state).rows if row.status == "agrees"))
    yield Result("check_system, in the air and at rest: worst error", worst, "", "<= 1e-6", "", ", ".join(FLEXES))
    system = pb.Articulated(pb.load(fall()))
    state = pb.rollout(system, system.state(), steps=60).final
    rows = pb.check_system(system, state).rows
    kinks = sum(row.status == "kink" for row in rows)
    worst = max(row.error for row in rows if row.status == "agrees")
    yield Result("check_system, on a floor: worst error", worst, "", "<= 1e-6", "", f"{kinks} fields at kinks")


def speed(quick: bool):
    for name, (count, dim, elasticity) in GRIDS.items():
        for floor in (False, True):
            model = pb.load(grid(count, dim, elasticity, floor=floor))
            data = mujoco.MjData(model.mujoco)
            system = pb.Articulated(model, threads=1)
            bar = np.ones((1, system.nq))
            steps = 10 if quick else STEPS

            def theirs(m=model.mujoco, data=data, steps=steps):
                mujoco.mj_resetData(m, data)
                mujoco.mj_step(m, data, steps)

            def forward(system=system, steps=steps):
                return pb.rollout(system, system.state(), steps=steps)

            began = time.perf_counter()
            forward().pullback(q_bar=bar)
            setup = time.perf_counter() - began
            took = interleave(
                {"theirs": theirs, "ours": forward, "both": lambda f=forward, bar=bar: f().pullback(q_bar=bar)},
                repeats=3 if quick else 9,
            )
            where = "on a floor" if floor else "in the air"
            each = {key: 1e6 * value / steps for key, value in took.items()}
            about = f"{each['ours']:.0f} and {each['both']:.0f} against {each['theirs']:.0f} µs; set-up {setup:.0f} s"
            musts = ("<= 1.2", "<= 4") if dim == 3 and not floor else ("", "")
            yield Result(f"{name}, {where}: step", took["ours"] / took["theirs"], "ratio", musts[0], MUJOCO, about)
            yield Result(f"{name}, {where}: gradient step", took["both"] / took["theirs"], "ratio", musts[1], MUJOCO)


if __name__ == "__main__":
    main({"parity": parity, "gradients": gradients, "speed": speed})
