"""The same work on another device: every flavour of kernels, forward and backward, to be compared number by number.

    python tests/gpu/parity.py cpu.npz --device cpu        # where there is a compiler for the CPU
    python tests/gpu/parity.py gpu.npz --device cuda       # where there is a GPU; maybe another machine
    python tests/gpu/parity.py gpu.npz --against cpu.npz   # largest differences, and exit code 1 if one is too large

In float64, relative to the largest number of each array. Flavours are compiled side by side, a process each.
"""

import argparse
import multiprocessing
import os
import sys

import numpy as np

# A few steps of a robot lose some digits to another order of sums; contacts found by iteration some more.
TOLERANCE = 1e-8

STEPS, WORLDS, BAD = 6, 4, 2


def robot(contact: str | None, device: str) -> dict[str, np.ndarray]:
    """Held controls, applied forces, checkpoints and a world that fails, with the gradient by everything."""
    import pullback as pb

    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=contact, worlds=WORLDS, device=device)
    rng = np.random.default_rng(0)
    v = 0.1 * rng.normal(size=(WORLDS, system.nv))
    v[BAD] = 1e14
    controls = rng.uniform(-1, 1, size=(STEPS, WORLDS, system.nu))
    inputs = {
        "force": rng.normal(size=(STEPS, WORLDS, system.nv)),
        "wrench": rng.normal(size=(STEPS, WORLDS, system.model.nbody, 6)),
    }
    found = {}
    for hold, every in ((1, 1), (2, 1), (2, 4)):
        options = {"hold": hold, "checkpoint_every": every, "inputs": inputs, "on_failure": "mask"}
        run = pb.rollout(system, system.state(v=v), controls, **options)
        shape = (len(run.kept), WORLDS)
        q_bar, v_bar = (np.random.default_rng(1).normal(size=(*shape, n)) for n in (system.nq, system.nv))
        bars = run.pullback(q_bar=q_bar, v_bar=v_bar)
        names = ("mass", "com", "inertia", "damping", "gear", *(("friction", "geom_size") if contact else ()))
        arrays = {"q": run.q, "v": run.v, "q_bar": bars.state.q, "v_bar": bars.state.v, "u_bar": bars.controls}
        arrays |= {f"{name}_bar": bars.inputs[name] for name in inputs} | {name: bars.params[name] for name in names}
        arrays |= {"failed": run.status.failed, "gradient failed": bars.status.failed}
        found |= {f"{contact} hold {hold} every {every}: {name}": host(x) for name, x in arrays.items()}
    return found


def host(x) -> np.ndarray:
    return x.numpy() if hasattr(x, "numpy") else np.asarray(x)


CASES = {f"robot, {contact}": (robot, contact) for contact in (None, "convex", "impulse", "compliant")}


def work(case: tuple, device: str) -> dict[str, np.ndarray]:
    function, argument = case
    return function(argument, device)


def compare(found: dict, wanted: dict) -> bool:
    good = set(found) == set(wanted)
    for name in sorted(set(found) & set(wanted)):
        a, b = found[name].astype(float), wanted[name].astype(float)
        scale = np.abs(b).max(initial=1e-300)
        error = np.abs(a - b).max(initial=0.0) / scale
        good &= bool(error <= TOLERANCE)
        print(f"{error:.1e}  {name}{'' if error <= TOLERANCE else '   <-- differs'}")
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--against", metavar="FILE")
    args = parser.parse_args()
    if args.against:
        sys.exit(0 if compare(dict(np.load(args.file)), dict(np.load(args.against))) else 1)
    with multiprocessing.get_context("spawn").Pool(min(len(CASES), os.cpu_count() or 1)) as pool:
        parts = pool.starmap(work, [(case, args.device) for case in CASES.values()])
    np.savez(args.file, **{name: x for part in parts for name, x in part.items()})
