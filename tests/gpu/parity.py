"""The same work on the CPU and on a GPU, forward and backward, compared number by number in float64.

    python tests/gpu/parity.py                             # both, one after the other (make test-gpu)
    python tests/gpu/parity.py --only maps,heat            # only cases whose names contain one of these texts
    python tests/gpu/parity.py cpu.npz --device cpu        # one of them, where there is a compiler for the CPU
    python tests/gpu/parity.py gpu.npz --device cuda --against cpu.npz    # the other, maybe on another machine

Every flavour of robots' kernels (contact models, simple shapes and any, friction in three and in six directions), the
algorithms, heat by both methods, reachability maps, inverse kinematics, and the functions of torch and JAX. A GPU
compiles the gradient of one flavour for minutes; cases run side by side, a process each, and are reported as they end.
The exit code is 1 if a number differs, and if a case could not be run on both.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import warp as wp

sys.path.insert(0, str(Path(__file__).parents[2] / "testing"))
wp.config.log_level = wp.LOG_WARNING  # no notes of compilations between the results

# A few steps of a robot lose some digits to another order of sums; contacts found by iteration some more. [1]
TOLERANCE = 1e-8
# Joint angles move on after the last digit of a pose is settled. [1]
ANGLES_TOLERANCE = 1e-6

STEPS, WORLDS, BAD = 6, 4, 2

# An arm beyond a limit of its range that pushes a ball; with a box in its place the kernels are those for any shapes.
SCENE = """<mujoco><option timestep="0.004"/><default><geom condim="{condim}" friction="0.7 0.02 0.01"/></default>
  <worldbody><geom type="plane" size="9 9 1"/>
  <body pos="-0.3 0 0.1"><joint name="hip" axis="0 1 0" range="-30 -2" frictionloss="0.1" damping="0.1"
      stiffness="3" springref="10"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 -0.04" size="0.05"/>
    <body pos="0.3 0 -0.04"><joint name="wrist" type="ball" range="0 30" damping="0.05"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.05"/></body></body>
  <body pos="0.3 0 0.099"><freejoint/><geom type="{shape}" size="0.1 0.1 0.1"/></body></worldbody>
  <actuator><motor joint="hip" gear="5"/></actuator></mujoco>"""


def robot(device: str, source: str, contact) -> dict:
    """Held controls, applied forces, checkpoints and a world that fails, with the gradient by everything."""
    import pullback as pb

    system = pb.Articulated(pb.load(source), contact=contact, worlds=WORLDS, device=device)
    rng = np.random.default_rng(0)
    v = 0.1 * rng.normal(size=(WORLDS, system.nv))
    v[BAD] = 1e14
    controls = rng.uniform(-1, 1, size=(STEPS, WORLDS, system.nu))
    inputs = {
        "force": rng.normal(size=(STEPS, WORLDS, system.nv)),
        "wrench": rng.normal(size=(STEPS, WORLDS, system.model.nbody, 6)),
    }
    found = {}
    for hold, every in ((1, 1), (2, 4)):
        options = {"hold": hold, "checkpoint_every": every, "inputs": inputs, "on_failure": "mask"}
        run = pb.rollout(system, system.state(v=v), controls, **options)
        shape = (len(run.kept), WORLDS)
        q_bar, v_bar = (np.random.default_rng(1).normal(size=(*shape, n)) for n in (system.nq, system.nv))
        bars = run.pullback(q_bar=q_bar, v_bar=v_bar)
        arrays = {"q": run.q, "v": run.v, "q_bar": bars.state.q, "v_bar": bars.state.v, "u_bar": bars.controls}
        arrays |= {f"{name}_bar": bars.inputs[name] for name in inputs}
        arrays |= {f"{name}_bar": bar for name, bar in bars.params.items()}
        arrays |= {"failed": run.status.failed, "gradient failed": bars.status.failed}
        found |= {f"hold {hold} every {every}: {name}": x for name, x in arrays.items()}
    return found


def flavour(device: str, contact: str | None, shape: str = "box", condim: int = 3) -> dict:
    """The small scene, and the quadruped where it has the same kernels."""
    import pullback as pb

    found = {
        f"scene: {name}": x for name, x in robot(device, SCENE.format(shape=shape, condim=condim), contact).items()
    }
    if (shape, condim) == ("box", 3):
        found |= {f"quadruped: {name}": x for name, x in robot(device, pb.robots.quadruped(), contact).items()}
    return found


# Shapes of every kind that have a potential, apart from each other, and an arm between its limits.
APART = """<mujoco><option timestep="0.004"/><default><geom condim="1"/></default>
  <worldbody><geom type="plane" size="9 9 1"/>
  <body pos="-0.4 0 0.3"><joint name="hip" axis="0 1 0" range="-30 30" frictionloss="0.1" damping="0.1"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 -0.04" size="0.05"/>
    <body pos="0.45 0 0"><joint type="ball" damping="0.05"/><geom type="cylinder" size="0.05 0.04"/></body></body>
  <body pos="0.3 0 0.103"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
  <body pos="0.3 0.4 0.103"><freejoint/><geom size="0.1"/></body></worldbody>
  <actuator><motor joint="hip" gear="5"/></actuator></mujoco>"""


def far(device: str) -> dict:
    return robot(device, APART, "longrange")


def algorithms(device: str) -> dict:
    """Values and gradients of every one of them."""
    import pullback as pb
    from pullback import dynamics

    system = pb.Articulated(pb.load(pb.robots.humanoid()), contact=None, worlds=WORLDS, device=device)
    rng = np.random.default_rng(0)
    q, (v, x) = np.tile(system.model.home.q, (WORLDS, 1)), rng.normal(size=(2, WORLDS, system.nv))
    calls = {
        **{name: (q,) for name in ("kinematics", "jacobian", "center_of_mass", "mass_matrix")},
        **{name: (q, v) for name in ("velocity", "center_of_mass_velocity", "energy", "momentum")},
        **{name: (q, v, x) for name in ("inverse_dynamics", "forward_dynamics")},
    }
    found = {}
    for name, given in calls.items():
        result = getattr(dynamics, name)(system, *given)
        value = host(result.value)
        bars = result.pullback(rng.normal(size=value.shape))
        arrays = {"q": bars.q, "v": bars.v, "x": bars.x, **bars.params}
        found |= {name: value} | {f"{name}: {key}_bar": bar for key, bar in arrays.items()}
    return found


def heat(device: str, method: str) -> dict:
    """Births, melting and every boundary condition."""
    from parts import controls_near, crooked_part, warm_state

    import pullback as pb

    part = crooked_part(worlds=2, method=method, device=device)
    start, rng = warm_state(part), np.random.default_rng(1)
    run = pb.rollout(part, start, controls_near(part, 30), checkpoint_every="sqrt")
    bars = run.pullback(T_bar=rng.normal(size=start.T.shape), s_bar=rng.normal(size=start.s.shape))
    arrays = {"T": run.final.T, "s": run.final.s, "T_bar": bars.state.T, "s_bar": bars.state.s, "u_bar": bars.controls}
    return arrays | {f"{name}_bar": bar for name, bar in bars.params.items()}


def particles(device: str, dim: int) -> dict:
    """With muscles, walls and materials that yield, and a world that fails."""
    import pullback as pb
    from pullback import soft

    up = np.eye(dim)[-1]
    muscle = soft.Muscle(direction=up, strength=300.0)
    kinds = (soft.NeoHookean(2e3, 0.3, 1000.0), soft.Snow(young=1.4e5, poisson=0.2, density=400.0))
    bodies = [
        soft.block([0.2 + 0.3 * k] * dim, [0.4 + 0.3 * k] * dim, [6] * dim, kind, muscle=muscle if k == 0 else None)
        for k, kind in enumerate(kinds)
    ]
    walls = [soft.Wall(point=0.15 * up, normal=up, friction=0.5)]
    settings = {"dx": 1 / 16, "cells": (17,) * dim, "dt": 1e-3, "walls": walls, "worlds": WORLDS, "device": device}
    system = soft.Particles(bodies, **settings)
    rng = np.random.default_rng(0)
    v = rng.normal(size=(WORLDS, system.n, dim)) - 2 * up
    v[BAD] = 1e3
    controls = rng.uniform(-1, 1, size=(10, WORLDS, system.nu))
    run = pb.rollout(system, system.state(v=v), controls, checkpoint_every=3, on_failure="mask")
    bars = run.pullback(x_bar=rng.normal(size=v.shape), v_bar=rng.normal(size=v.shape))
    found = dict(zip(run.final._fields, run.final, strict=True)) | {"u_bar": bars.controls}
    found |= {f"{name}_bar": x for name, x in zip(bars.state._fields, bars.state, strict=True)}
    found |= {f"{name}_bar": bar for name, bar in bars.params.items()}
    return found | {"failed": run.status.failed, "gradient failed": bars.status.failed}


def maps(device: str) -> dict:
    from random_maps import poses_of, random_map

    found = {}
    for space in ("R2", "SO2", "SE2", "R3", "SO3", "SE3"):
        for kind in ("svm", "network"):
            value, gradient = random_map(space, kind, device=device).evaluate(poses_of(space, 300))
            found |= {f"{space} {kind}": value, f"{space} {kind}: gradient": gradient}
    return found


def angles(device: str) -> dict:
    """Forward and inverse kinematics of limbs, with collisions of the robot with itself."""
    import pullback as pb
    from pullback.reach import Limb

    arm, humanoid, found = pb.load(pb.robots.arm()), pb.load(pb.robots.humanoid()), {}
    chains = {"tip": (arm, "base", None), "left_hand": (humanoid, "chest", None)}
    chains["right_foot"] = (humanoid, "left_foot", "pelvis")
    for tip, (model, base, through) in chains.items():
        limb = Limb(model, base, tip, "SE3", through=through, device=device)
        q = limb.chain.random(300, np.random.default_rng(0))
        targets = limb.chain.forward(q)
        nearby = limb.chain.random(300, np.random.default_rng(1))
        solved, error = limb.chain.inverse(targets, 0.7 * q + 0.3 * nearby, iterations=4, tolerance=1e-12)
        found |= {f"{tip}: poses": targets, f"{tip}: angles after 4 iterations": solved, f"{tip}: error": error}
        found[f"{tip}: depth of collisions"], _ = limb.touch.depth(q)
    return found


def torch_functions(device: str) -> dict:
    import torch

    import pullback as pb
    import pullback.torch as pbt

    if device != "cpu" and not torch.cuda.is_available():
        raise Absent("this PyTorch has no CUDA")
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None, worlds=WORLDS, device=device)
    start, controls = start_and_controls(system)
    given = [torch.tensor(x, device=system.device, requires_grad=True) for x in (*start, controls)]
    mass = torch.tensor(system.params["mass"], device=system.device, requires_grad=True)
    q, v = pbt.rollout(system, *given, params={"mass": mass}, checkpoint_every=3)
    grads = torch.autograd.grad((q**2).sum() + torch.sin(v).sum(), (*given, mass))
    names = ("q", "v", "q_bar", "v_bar", "u_bar", "mass_bar")
    return {name: x.detach().cpu().numpy() for name, x in zip(names, (q, v, *grads), strict=True)}


def jax_functions(device: str) -> dict:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # other cases share the GPU
    import jax
    import jax.numpy as jnp

    import pullback as pb
    import pullback.jax as pbj

    jax.config.update("jax_enable_x64", True)
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None, worlds=WORLDS, device=device)
    start, controls = start_and_controls(system)

    def loss(q0, v0, u, mass):
        q, v = pbj.rollout(system, q0, v0, u, params={"mass": mass}, checkpoint_every=3)
        return (q**2).sum() + jnp.sin(v).sum(), (q, v)

    arguments = (*start, controls, system.params["mass"])
    (_, (q, v)), grads = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True))(*arguments)
    names = ("q", "v", "q_bar", "v_bar", "u_bar", "mass_bar")
    return {name: np.asarray(x) for name, x in zip(names, (q, v, *grads), strict=True)}


def start_and_controls(system) -> tuple[tuple, np.ndarray]:
    rng = np.random.default_rng(0)
    q = np.tile(system.model.home.q, (WORLDS, 1))
    return (q, rng.normal(size=(WORLDS, system.nv))), rng.uniform(-1, 1, size=(STEPS, WORLDS, system.nu))


class Absent(Exception):
    """A case that cannot be run, and why."""


SHAPES = {"any shapes": "box", "simple shapes": "sphere"}
CASES: dict[str, tuple[Callable[..., dict], tuple]] = {
    "robot without contact": (flavour, (None,)),
    **{
        f"robot {contact} condim {condim} {shapes}": (flavour, (contact, shape, condim))
        for shapes, shape in SHAPES.items()
        for contact, condim in (("convex", 3), ("convex", 6), ("impulse", 3), ("compliant", 3))
    },
    "robot longrange condim 1": (far, ()),
    "algorithms": (algorithms, ()),
    "heat explicit": (heat, ("explicit",)),
    "heat implicit": (heat, ("implicit",)),
    "particles in the plane": (particles, (2,)),
    "particles in space": (particles, (3,)),
    "maps": (maps, ()),
    "inverse kinematics": (angles, ()),
    "bindings torch": (torch_functions, ()),
    "bindings jax": (jax_functions, ()),
}
ABSENT = "absent"  # what stands for the arrays of a case that could not be run: its reason


def host(x) -> np.ndarray:
    return x.numpy() if hasattr(x, "numpy") else np.asarray(x)


def work(name: str, device: str) -> dict[str, np.ndarray]:
    """The arrays of a case, or why there are none."""
    function, arguments = CASES[name]
    try:
        return {f"{name}: {part}": host(x) for part, x in function(device, *arguments).items()}
    except Exception as reason:  # other cases may have taken minutes
        return {f"{name}: {ABSENT}": np.array(f"{type(reason).__name__}: {reason}")}


def work_on_both(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return work(name, "cuda"), work(name, "cpu")


def side_by_side(function: Callable, names: list[str]) -> Iterator:
    """What the function says of each case, in the order in which they end."""
    with multiprocessing.get_context("spawn").Pool(min(len(names), os.cpu_count() or 1)) as pool:
        yield from pool.imap_unordered(function, names)


def compare(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> bool:
    """Prints the difference of each array, relative to its largest number, and whether all are small enough."""
    absent = {name: str(x) for part in (found, wanted) for name, x in part.items() if name.endswith(ABSENT)}
    good = not absent
    for name in sorted((set(found) | set(wanted)) - set(absent)):
        if name not in found or name not in wanted:
            good &= any(name.startswith(case.removesuffix(ABSENT)) for case in absent)
            continue
        a, b = found[name].astype(float), wanted[name].astype(float)
        error = np.abs(a - b).max(initial=0.0) / np.abs(b).max(initial=1e-300) if a.shape == b.shape else np.inf
        agrees = bool(error <= (ANGLES_TOLERANCE if "angles" in name else TOLERANCE))
        good &= agrees
        print(f"{error:.1e}  {name}{'' if agrees else '   <-- differs'}", flush=True)
    for name, reason in absent.items():
        print(f"NOT COMPARED  {name}: {reason}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="where the arrays of one device are kept; without it both are run")
    parser.add_argument("--device", help="run the cases on it into the file (default cuda, without --against)")
    parser.add_argument("--against", metavar="FILE", help="compare the file with this one")
    parser.add_argument("--only", default="", metavar="WORDS", help="only cases whose names contain one of these")
    args = parser.parse_args()
    names = [name for name in CASES if any(word in name for word in args.only.split(","))]
    if not names:
        parser.error(f"no case has {args.only!r} in its name; there are: {'; '.join(CASES)}")
    if args.file is None:
        if not wp.is_cuda_available():
            print("there is no CUDA device here: nothing was compared", file=sys.stderr)
            return 1
        return 0 if all([compare(*pair) for pair in side_by_side(work_on_both, names)]) else 1
    if args.device or not args.against:
        arrays: dict[str, np.ndarray] = {}
        for part in side_by_side(functools.partial(work, device=args.device or "cuda"), names):
            arrays |= part
            np.savez(args.file, **arrays)
    if args.against:
        found, wanted = (dict(np.load(file)) for file in (args.file, args.against))
        chosen = lambda part: {name: x for name, x in part.items() if name.startswith(tuple(names))}  # noqa: E731
        return 0 if compare(chosen(found), chosen(wanted)) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
