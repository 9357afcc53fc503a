"""Compiles every kernel that the tests launch, on all cores; from the second time on they come from the cache.

Two test workers that need the same kernel at the same time would both compile it.
"""

from pullback.cli.compile import Kernels, all_kernels, compile_kernels
from pullback.kernels import Flavour


def is_tested(kernels: Kernels) -> bool:
    """With contacts, float32 is tested on simple shapes alone, and without torsional and rolling friction."""
    flavour, name = kernels
    if name in ("heat.implicit", "overlap"):
        return flavour in ("float64", Flavour("float64", "convex", all_shapes=False))
    if isinstance(flavour, str) or flavour.model is None or flavour.precision == "float64":
        return True
    return flavour.rows == 3 and not flavour.all_shapes


if __name__ == "__main__":
    compile_kernels(filter(is_tested, all_kernels()))
