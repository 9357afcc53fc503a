"""Compiles every kernel that the tests launch, on all cores; from the second time on they come from the cache.

Two test workers that need the same kernel at the same time would both compile it.
"""

from pullback.cli.compile import Kernels, all_kernels, compile_kernels


def is_tested(kernels: Kernels) -> bool:
    """With contacts, float32 is tested on simple shapes alone, and without torsional and rolling friction."""
    if kernels.name in ("heat_implicit", "reach_touch"):
        return kernels.flavour in ("float64", "float64_convex3_round")
    precision, *contact = kernels.flavour.split("_")
    return precision != "float32" or not contact or (contact[-1] == "round" and contact[0] != "convex6")


if __name__ == "__main__":
    compile_kernels(filter(is_tested, all_kernels()))
