"""Everything that runs inside a Warp kernel, written once and specialised for float32 and float64.

A Warp function has concrete types, so each precision needs its own copy of every function. Python can load one
directory of sources under two package names: ``specialise("float32", "step")`` imports ``step.py`` as
``pullback.kernels.float32.step``. The modules here import each other *relatively*, and therefore always find their
own precision; ``scalar.py`` looks at its package's name to choose the number type. Warp sees two modules, compiles
only the one that is launched, and caches both.

Inside this directory a module imports only from those above it:
scalar, spatial, tree, forces, sweeps, gyroscopic, then the kernels (step, step_adjoint, algorithms, ...).
"""

import functools
import importlib
import sys
import types

import warp as wp

PRECISIONS = ("float32", "float64")

# Warp writes every product and every sum as a call of its own; without leave to contract across calls the compiler
# makes no fused multiply-add of them, and it gives up on vectorising small matrices too early.
CPU_FLAGS = "-ffp-contract=fast -mllvm=-slp-recursion-max-depth=12"


@functools.cache
def specialise(precision: str, name: str) -> types.ModuleType:
    """The kernel module ``name`` compiled for ``precision``."""
    assert precision in PRECISIONS, precision
    package = f"{__name__}.{precision}"
    if package not in sys.modules:
        twin = types.ModuleType(package, __doc__)
        twin.__path__ = __path__
        sys.modules[package] = twin
    module = importlib.import_module(f"{package}.{name}")
    flags = {"cpu_compiler_flags": f"{wp.config.cpu_compiler_flags or ''} {CPU_FLAGS}", "enable_backward": False}
    wp.set_module_options(flags, module)
    return module
