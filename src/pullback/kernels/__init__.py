"""Everything that runs inside a Warp kernel, written once and specialised by precision and contact model.

A Warp function has concrete types, so each precision needs its own copy of every function. Python can load one
directory of sources under several package names: ``specialise("float32", "step")`` imports ``step.py`` as
``pullback.kernels.float32.step``. The modules here import each other *relatively*, and therefore always find their
own precision; ``scalar.py`` looks at its package's name to choose the number type. In the same way
``specialise("float64_convex3", "step")`` is the step with MuJoCo's contact and at most three rows a contact, and
``"float64_convex3_round"`` the same for scenes whose shapes touch in simple ways: ``flavour.py`` looks at the name, and
what is not needed is not in the kernels. Modules that know of no contact model (``SHARED``) are those of the plain
precision. Warp sees several modules, compiles only those that are launched, and caches all.

Inside this directory a module imports only from those above it:
scalar, status, spatial, tree, forces, applied, sweeps, gyroscopic; shapes, support, features, narrow,
narrow_capsule_box, narrow_box, gjk, feature_gap, convex_gap, convex_pairs; flavour, collide, rows, mass_matrix, law,
materials, convex, compliant, constrained, islands, impulse_sweeps, impulse, impulse_adjoint, composites,
impulse_rows_adjoint; then the kernels (step, step_adjoint, algorithms, report), and those of reachability (reach_map,
reach_chain, reach_touch).
Heat has modules of its own: heat, heat_cores; then the kernels (heat_path, heat_lanes, heat_phases, heat_implicit).
"""

import functools
import importlib
import sys
import types

import warp as wp

PRECISIONS = ("float32", "float64")
CONTACTS = ("convex3", "convex6", "impulse", "compliant")
SHARED = (
    *("scalar", "status", "spatial", "tree", "forces", "applied", "sweeps", "gyroscopic"),
    *("shapes", "support", "features", "narrow", "narrow_capsule_box", "narrow_box"),
    *("gjk", "feature_gap", "convex_gap", "convex_pairs"),
)

# Warp writes every product and every sum as a call of its own; without leave to contract across calls the compiler
# makes no fused multiply-add of them, and it gives up on vectorising small matrices too early.
CPU_FLAGS = "-ffp-contract=fast -mllvm=-slp-recursion-max-depth=12"


@functools.cache
@functools.cache
def specialise(flavour: str, name: str) -> types.ModuleType:
    """The kernel module ``name`` for a precision, or for one and a contact model, maybe for simple shapes alone."""
    precision, *contact = flavour.split("_")
    assert precision in PRECISIONS and (not contact or contact[0] in CONTACTS), flavour
    package = f"{__name__}.{flavour}"
    if package not in sys.modules:
        twin = types.ModuleType(package, __doc__)
        twin.__path__ = __path__
        sys.modules[package] = twin
        if contact:
            sys.modules.update({f"{package}.{shared}": specialise(precision, shared) for shared in SHARED})
    module = importlib.import_module(f"{package}.{name}")
    if not (contact and name in SHARED):
        flags = {"cpu_compiler_flags": f"{wp.config.cpu_compiler_flags or ''} {CPU_FLAGS}", "enable_backward": False}
        wp.set_module_options(flags, module)
    return module
