"""Compiles every kernel that the tests launch, on all cores; from the second time on they come from the cache.

Two test workers that need the same kernel at the same time would both compile it.
"""

import multiprocessing
import os

import warp as wp

wp.config.log_level = wp.LOG_ERROR  # before pullback starts Warp

from pullback import kernels  # noqa: E402
from pullback.view import raster  # noqa: E402

SHAPES = ("", "_round")
FLAVOURS = (
    *(f"float64_{contact}{shapes}" for contact in kernels.CONTACTS for shapes in SHAPES),
    *(f"float32_{contact}_round" for contact in kernels.CONTACTS if contact != "convex6"),
)
LAUNCHED = ("step_adjoint", "step", "report")
PLAIN = ("algorithms", "reach_map", "reach_chain")
HEAT = ("heat_lanes", "heat_path", "heat_phases")


def load(flavour: str, name: str) -> None:
    module = raster if name == "raster" else kernels.specialise(flavour, name)
    wp.load_module(wp.get_module(module.__name__), device="cpu")


if __name__ == "__main__":
    plain = [(flavour, name) for name in (*LAUNCHED, *PLAIN) for flavour in kernels.PRECISIONS] + [("", "raster")]
    plain += [("float64_convex3_round", "reach_touch")]
    heat = [("float64", "heat_implicit"), *((f, n) for n in HEAT for f in kernels.PRECISIONS)]
    # the slowest first, so that no core is left with one of them at the end
    jobs = [(flavour, name) for name in LAUNCHED for flavour in FLAVOURS] + heat + plain
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        pool.starmap(load, jobs, chunksize=1)
