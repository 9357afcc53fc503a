"""``pullback compile``: kernels ahead of time, so that nothing waits for them later."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Collection, Iterable
from itertools import product
from typing import NamedTuple

import warp as wp
from rich.progress import MofNCompleteColumn

from pullback.cli import common
from pullback.contact import CONTACT_NAMES
from pullback.core.arrays import check_device
from pullback.core.errors import PullbackError
from pullback.core.launch import BLOCK, cores_to_use, load
from pullback.kernels import PRECISIONS, ElasticFlavour, Flavour, SoftFlavour, specialise
from pullback.thermal.stepper import THREADS

# Modules with kernels, the slowest first. One of each for every contact model, and without contacts.
STEPS = ("step_adjoint", "step", "report")
# One of each for either precision.
OTHERS = (
    *("heat.implicit", "heat.lanes", "heat.path", "heat.phases"),
    *("tree.algorithms", "tree.parameters", "reach.map", "reach.chain"),
)
WIDE = ("heat.implicit", "heat.phases")  # launched with other blocks of threads on CUDA
CPU_ONLY = ("heat.lanes", "raster", "roll")
CUDA_ONLY = ("phases",)
# Of robots with a network in front of every step, with sensors of contacts or of muscles, or with tendons around geoms:
# compiled when they are first used.
ON_DEMAND = {"driven", "driven_adjoint", "felt", "spatial.wrapping", "tree.muscle_forces"}

# Axes, whether materials yield, and whether shapes move, which they do in space and on the CPU.
AMONG_SHAPES = tuple(product((3,), (True, False), (True,)))
SOFT = (*AMONG_SHAPES, *product((3, 2), (True, False), (False,)))

ABOUT = """\
Compiles kernels ahead of time. Otherwise they are compiled when they are first used, which takes up to a minute each.
Warp caches them in the home folder, until Pullback or Warp is updated.

With robots: compiles what their simulation, gradients and algorithms need, with the contact model of --contact. Without
robots: compiles the kernels for robots of any shape with any contact model, and for heat, reachability and pictures,
which takes some minutes on all cores. Robots with tendons that act, closed loops, actuators at sites or networks need
further kernels: name such robots.
"""


class Kernels(NamedTuple):
    """A module of kernels: ``specialise(flavour, name)``."""

    flavour: str | Flavour | SoftFlavour | ElasticFlavour
    name: str

    def __str__(self) -> str:
        return f"{self.flavour if isinstance(self.flavour, str) else self.flavour.package}.{self.name}".lstrip(".")


def add(commands) -> None:
    parser = commands.add_parser("compile", help="compile kernels ahead of time", description=ABOUT)
    common.add_robot(parser, nargs="*")
    common.add_device(parser)
    common.option(parser, "--jobs N", "processes at a time (default: one per core)", common.whole(1))
    common.option(parser, "--json", "print the result as JSON")
    parser.set_defaults(run=run)


def run(args) -> int:
    dtypes = PRECISIONS if args.dtype is None else (args.dtype,)
    args.device = check_device(args.device)
    found: dict[Kernels, None] = {}  # in order, each once
    for robot in args.robots:
        model = common.load_robot(robot, ignore=args.ignore, anywhere=args.anywhere)
        for args.dtype in dtypes:
            found |= dict.fromkeys(kernels_of(common.make_system(model, args)))
    if not args.robots:
        if args.contact != "model":
            raise PullbackError("--contact is for robots: name some, or leave it out to compile everything")
        found = dict.fromkeys(all_kernels(dtypes))
    began = time.perf_counter()
    compiled = compile_kernels(found, args.device, args.jobs)
    result = {
        "device": args.device,
        "compiled": [str(kernels) for kernels, was_compiled in compiled.items() if was_compiled],
        "cached": [str(kernels) for kernels, was_compiled in compiled.items() if not was_compiled],
        "seconds": time.perf_counter() - began,
        "cache": wp.config.kernel_cache_dir,
    }
    text = (
        f"compiled: {len(result['compiled'])} modules of kernels in {result['seconds']:.0f} s, "
        f"{len(result['cached'])} were there already\ncache:    {result['cache']}"
    )
    common.report(args, result, text)
    return 0


def kernels_of(system) -> list[Kernels]:
    """What an Articulated System launches."""
    steps = ("step", "report") if system.contact is not None else ("step",)
    others = ("tree.algorithms",) if system.device == "cpu" else ("tree.algorithms", "tree.parameters")
    return [
        Kernels(system._adjoint_flavour, "step_adjoint"),
        *(Kernels(system._flavour, name) for name in steps),
        *(Kernels(system.dtype, name) for name in others),
    ]


def all_kernels(dtypes: Collection[str] = PRECISIONS) -> list[Kernels]:
    """What Pullback launches in these precisions, the slowest first; tendons, sites, loops and sweeps have more."""
    flavours = [flavour for dtype in dtypes for c in CONTACT_NAMES.values() for flavour in c.flavours(dtype)]
    return [
        *(Kernels(flavour, name) for name in STEPS for flavour in flavours),
        *(Kernels(dtype, name) for name in OTHERS for dtype in dtypes),
        *(Kernels(Flavour(dtype), name) for name in ("step_adjoint", "step") for dtype in dtypes),
        *(Kernels(flavour, "overlap") for flavour in flavours if flavour.model == "convex" and flavour.rows == 3),
        *(
            Kernels(SoftFlavour(dtype, *kind), name)
            for kind in SOFT
            for name in (("roll",) if kind in AMONG_SHAPES else ("roll", "phases"))
            for dtype in dtypes
        ),
        *(Kernels(ElasticFlavour(dtype, touching), "implicit") for touching in (True, False) for dtype in dtypes),
        Kernels("", "raster"),
    ]


def compile_kernels(wanted: Iterable[Kernels], device: str = "cpu", jobs: int | None = None) -> dict[Kernels, bool]:
    """Compiles in ``jobs`` processes, with a progress bar; returns for each whether it was not cached before."""
    elsewhere = CUDA_ONLY if device == "cpu" else CPU_ONLY
    wanted = [kernels for kernels in wanted if kernels.name not in elsewhere]
    done = {}
    start = multiprocessing.get_context("spawn")  # a fork would not survive Warp's threads
    bar = common.progress("compiling {task.description}", MofNCompleteColumn())
    processes = min(jobs or cores_to_use(None), len(wanted))
    with start.Pool(processes, _start) as pool, bar as progress:
        task = progress.add_task("", total=len(wanted))
        for kernels, was_compiled in pool.imap_unordered(_compile, [(kernels, device) for kernels in wanted]):
            done[kernels] = was_compiled
            progress.update(task, advance=1, description=str(kernels))
    return done


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process hears of it, and ends the others
    wp.config.log_level = wp.LOG_WARNING  # it has a bar


def _compile(job: tuple[Kernels, str]) -> tuple[Kernels, bool]:
    kernels, device = job
    try:
        if kernels.name == "raster":
            from pullback.view import raster as module
        else:
            module = specialise(*kernels)
        block_dim = THREADS if kernels.name in WIDE else BLOCK
        return kernels, load(wp.get_module(module.__name__), device, block_dim)
    except Exception as error:  # of Warp, of its compiler, or of a cache that cannot be written to
        raise PullbackError(f"{kernels} cannot be compiled for {device}: {error}") from None
