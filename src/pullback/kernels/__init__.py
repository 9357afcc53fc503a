"""Everything that runs inside a Warp kernel, written once and specialised by precision and contact model.

A Warp function has concrete types, so each precision needs its own copy of every function. Python can load one
directory of sources under several package names: ``specialise("float32", "tree.sweeps")`` imports ``tree/sweeps.py`` as
``pullback.kernels.float32.tree.sweeps``. The modules here import each other *relatively*, and therefore always find
their own precision; ``spatial/scalar.py`` asks its package for it.

In the same way the folder ``contact`` exists once per :class:`Flavour`, beside the folders that know of no contact
model and are shared: ``pullback.kernels.float64.convex_round.step`` is the step with MuJoCo's contact, for scenes whose
shapes touch in simple ways. ``contact/flavour.py`` turns the Flavour into compile-time constants, and what is not
needed is not in the kernels. Warp sees several modules, compiles only those that are launched, and caches all.

The folder ``soft`` likewise exists once per :class:`SoftFlavour`: in the plane or in space, with or without materials
that yield or shapes that move; and the folder ``elastic`` once per :class:`ElasticFlavour`.

A folder imports from folders before it in this order: spatial, tree, collision, contact. Heat, soft and reach need only
spatial and tree.
"""

import functools
import importlib.util
import sys
import types
import zlib
from pathlib import Path
from typing import NamedTuple

import warp as wp

PRECISIONS = ("float32", "float64")

# Warp writes every product and every sum as a call of its own; without leave to contract across calls the compiler
# makes no fused multiply-add of them, and it gives up on vectorising small matrices too early.
CPU_FLAGS = "-ffp-contract=fast -mllvm=-slp-recursion-max-depth=12"


class Flavour(NamedTuple):
    """What the folder ``contact`` is compiled for."""

    precision: str
    # The contact model: a module of that folder, or the path of one elsewhere. None: nothing touches.
    model: str | None = None
    # Whether it acts by impulses on velocities, or else by forces.
    impulses: bool = False
    # Rows per contact: 3 for the normal and two tangents, 6 with torsional and rolling friction.
    rows: int = 3
    # False: no pairs of shapes but those with a closed form of a few lines, which compiles faster.
    all_shapes: bool = True
    # Whether steps may be done in substeps, in which contacts act for the share of time that shapes touch.
    refined: bool = False
    # Whether a step is the minimum of its potential.
    potential: bool = False
    # Whether meshes are their triangles in it, and not their hulls.
    triangles: bool = False
    # Whether there are tendons that act, or equality constraints that couple joints or tendons by numbers.
    tendons: bool = False
    # Whether some of them are paths through space.
    spatial: bool = False
    # Whether some of those may wrap around geoms.
    wraps: bool = False
    # Whether actuators push at sites; those have tendons too.
    sites: bool = False
    # Whether actuators have activations; likewise.
    activations: bool = False
    # Whether actuators do more than gain · drive + bias at a joint, a tendon or a site, as muscles do; likewise.
    actuators: bool = False
    # Whether some of them are PID controllers or DC motors; those have activations and actuators too.
    motors: bool = False
    # Whether controls may reach their actuators late; those have activations too.
    delays: bool = False
    # Whether there are servos that hold an orientation; those have tendons too.
    orientations: bool = False
    # Whether actuators press bodies against what they touch; those have tendons too.
    adhesion: bool = False
    # Whether there are equality constraints that close loops.
    loops: bool = False
    # Whether MuJoCo's sweeps against slip come after its convex problem.
    noslip: bool = False
    # Whether there are springs or dampers of joints or tendons with quadratic or cubic terms.
    curved: bool = False
    # Whether poses of bodies may be inputs.
    mocap: bool = False
    # Whether there are flexes.
    flexes: bool = False
    # Whether a fluid meets geoms as ellipsoids.
    ellipsoids: bool = False
    # Whether steps are implicit in forces that depend on velocities of bodies.
    implicit: bool = False
    # Whether the backward pass adds the influence of shapes from afar; ``step_adjoint`` alone is another then.
    far: bool = False

    @property
    def package(self) -> str:
        """Where its modules are, such as float64.convex6_round."""
        model = self.model or "contact_free"
        if Path(model).suffix:
            model = f"{Path(model).stem}_{zlib.crc32(model.encode()):08x}"
        rows = "" if self.rows == 3 else str(self.rows)
        kinds = {
            "_round": not self.all_shapes,
            "_refined": self.refined,
            "_triangles": self.triangles,
            "_tendons": self.tendons and not (self.sites or self.spatial or self.activations or self.actuators),
            "_spatial": self.spatial and not self.wraps,
            "_wraps": self.wraps,
            "_sites": self.sites,
            "_activations": self.activations and not self.motors,
            "_actuators": self.actuators and not self.motors,
            "_motors": self.motors,
            "_delays": self.delays,
            "_orientations": self.orientations,
            "_adhesion": self.adhesion,
            "_loops": self.loops,
            "_noslip": self.noslip,
            "_curved": self.curved,
            "_mocap": self.mocap,
            "_flexes": self.flexes,
            "_ellipsoids": self.ellipsoids,
            "_implicit": self.implicit,
            "_far": self.far,
        }
        return f"{self.precision}.{model}{rows}" + "".join(name for name, is_so in kinds.items() if is_so)


class SoftFlavour(NamedTuple):
    """What the folder ``soft`` is compiled for."""

    precision: str
    # Axes of space, 2 or 3.
    dim: int
    # Whether there are materials that need singular values: Hencky's, and all that yield.
    yields: bool = False
    # Whether there are shapes that move.
    shapes: bool = False

    @property
    def package(self) -> str:
        """Where its modules are, such as float64.soft3_yields."""
        kinds = {"_yields": self.yields, "_shapes": self.shapes}
        return f"{self.precision}.soft{self.dim}" + "".join(name for name, is_so in kinds.items() if is_so)


class ElasticFlavour(NamedTuple):
    """What the folder ``elastic`` is compiled for."""

    precision: str
    # Whether bodies touch each other and themselves.
    self_contact: bool = False

    @property
    def package(self) -> str:
        """Where its modules are, such as float64.elastic_self_contact."""
        kinds = {"_self_contact": self.self_contact}
        return f"{self.precision}.elastic" + "".join(name for name, is_so in kinds.items() if is_so)


@functools.cache
def specialise(wanted: str | Flavour | SoftFlavour | ElasticFlavour, name: str) -> types.ModuleType:
    """A kernel module: "tree.sweeps" in a precision, or "step", of the folder ``contact``, in a Flavour."""
    makers = {str: _precision, Flavour: _flavour, SoftFlavour: _soft_flavour, ElasticFlavour: _elastic_flavour}
    package = makers[type(wanted)](wanted)
    module = importlib.import_module(f"{package}.{name}")
    flags = {"cpu_compiler_flags": f"{wp.config.cpu_compiler_flags or ''} {CPU_FLAGS}", "enable_backward": False}
    wp.set_module_options(flags, module)
    return module


@functools.cache
def _precision(precision: str) -> str:
    """The package of all folders in a precision."""
    assert precision in PRECISIONS, precision
    return _twin(precision, Path(__file__).parent, precision)


@functools.cache
def _flavour(flavour: Flavour) -> str:
    """The package of the folder ``contact`` in a Flavour; its contact model is the module ``model`` there."""
    _precision(flavour.precision)
    package = _twin(flavour.package, Path(__file__).parent / "contact", flavour)
    if flavour.far:
        _share(specialise(flavour._replace(far=False), "step_adjoint").__package__, package)
    elif flavour.model is not None:
        path = Path(flavour.model)
        name = f"{package}.{path.stem}"
        if path.suffix:
            spec = importlib.util.spec_from_file_location(name, path)
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        sys.modules[f"{package}.model"] = importlib.import_module(name)
    return package


@functools.cache
def _soft_flavour(flavour: SoftFlavour) -> str:
    """The package of the folder ``soft`` in a flavour."""
    _precision(flavour.precision)
    return _twin(flavour.package, Path(__file__).parent / "soft", flavour)


@functools.cache
def _elastic_flavour(flavour: ElasticFlavour) -> str:
    """The package of the folder ``elastic`` in a flavour."""
    _precision(flavour.precision)
    return _twin(flavour.package, Path(__file__).parent / "elastic", flavour)


def _share(source: str, package: str) -> None:
    """Makes the modules of a package those of another too, but for the backward pass: their structs are the same."""
    own = (".accelerate_adjoint", ".step_adjoint", ".driven_adjoint", ".flavour")
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{source}.") and not name.endswith(own):
            sys.modules[package + name.removeprefix(source)] = module


def _twin(name: str, folder: Path, compiled_for: str | Flavour | SoftFlavour | ElasticFlavour) -> str:
    """A package of its own name, with the sources of a folder, which can ask it what they are compiled for."""
    package = f"{__name__}.{name}"
    twin = types.ModuleType(package, __doc__)
    twin.__path__, twin.compiled_for = [str(folder)], compiled_for
    sys.modules[package] = twin
    return package
