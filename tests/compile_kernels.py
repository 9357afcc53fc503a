"""Compiles every kernel that the tests launch, on all cores; from the second time on they come from the cache.

Two test workers that need the same kernel at the same time would both compile it.
"""

from pullback.cli.compile import Kernels, all_kernels, compile_kernels
from pullback.kernels import ElasticFlavour, Flavour, SoftFlavour


def is_tested(kernels: Kernels) -> bool:
    """With contacts, float32 is tested on simple shapes alone, and without torsional and rolling friction."""
    flavour, name = kernels
    if isinstance(flavour, SoftFlavour):
        return flavour.precision == "float64" or not (flavour.yields or flavour.dim == 3)
    if name in ("heat.implicit", "overlap"):
        return flavour in ("float64", Flavour("float64", "convex", all_shapes=False))
    if isinstance(flavour, str | ElasticFlavour) or flavour.model is None or flavour.precision == "float64":
        return True
    return flavour.rows == 3 and not flavour.all_shapes


def is_tested_from_afar(kernels: Kernels) -> bool:
    """With long range in the backward pass alone, simple shapes are tested, and all of them with MuJoCo's contact."""
    flavour, name = kernels
    if name != "step_adjoint" or flavour.rows != 3:
        return False
    others = flavour.precision == "float64" and not flavour.all_shapes
    return flavour.model == "convex" or (others and flavour.model in ("compliant", "impulse_model"))


def is_refined(kernels: Kernels) -> bool:
    """Steps in substeps are tested in float64, of MuJoCo's contact and of springs."""
    flavour, name = kernels
    if name not in ("step", "step_adjoint") or (flavour.precision, flavour.rows) != ("float64", 3):
        return False
    return flavour.model == "convex" or (flavour.model == "compliant" and flavour.all_shapes)


def refined_from_afar(kernels: Kernels) -> bool:
    return is_refined(kernels) and not kernels.flavour.all_shapes and kernels.name == "step_adjoint"


def other(kernels: Kernels, **fields: bool) -> Kernels:
    return kernels._replace(flavour=kernels.flavour._replace(**fields))


def coupled() -> list[Kernels]:
    """Of robots with tendons, closed loops, actuators at sites, fluids, flexes and sweeps against slip, and with the
    integrator implicit."""
    plain, convex = Flavour("float64", tendons=True), Flavour("float64", "convex", all_shapes=False)
    flavours = [plain, plain._replace(sites=True), convex._replace(tendons=True), convex._replace(loops=True)]
    for paths in ({"spatial": True}, {"spatial": True, "wraps": True}):
        flavours += [convex._replace(tendons=True, **paths), plain._replace(**paths)]
    flavours += [Flavour("float64", ellipsoids=True), Flavour("float64", flexes=True), convex._replace(flexes=True)]
    flavours += [convex._replace(tendons=True, loops=True), convex._replace(precision="float32", tendons=True)]
    for model in ("compliant", "impulse_model"):
        held = Flavour("float64", model, model == "impulse_model", all_shapes=False, tendons=True, loops=True)
        flavours += [held, held._replace(spatial=True, sites=True), held._replace(precision="float32")]
    flavours.append(Flavour("float64", "compliant", all_shapes=False, refined=True, tendons=True, loops=True))
    slip = Flavour("float64", "convex", noslip=True)
    flavours += [
        slip,
        slip._replace(rows=6),
        slip._replace(all_shapes=False),
        convex._replace(tendons=True, noslip=True),
    ]
    more = plain._replace(actuators=True, sites=True, activations=True)
    flavours += [more, more._replace(spatial=True), plain._replace(actuators=True, curved=True)]
    flavours += [convex._replace(tendons=True, actuators=True, sites=True, activations=True)]
    wet = plain._replace(tendons=False, implicit=True)
    drives = plain._replace(actuators=True, implicit=True)
    jets = drives._replace(sites=True, activations=True)
    flavours += [wet, wet._replace(ellipsoids=True), drives, jets, jets._replace(spatial=True)]
    touching = Flavour("float64", "convex", implicit=True)
    flavours += [touching, touching._replace(rows=6), touching._replace(all_shapes=False)]
    flavours += [each._replace(precision="float32") for each in (wet, drives)]
    motors = {"tendons": True, "actuators": True, "activations": True, "motors": True}
    flavours += [plain._replace(orientations=True)]
    flavours += [Flavour("float64", delays=True, sites=True, **motors)]
    flavours += [Flavour("float64", **motors), Flavour("float64", sites=True, **motors)]
    flavours += [convex._replace(sites=True, **motors), convex._replace(tendons=True, activations=True, adhesion=True)]
    steps = [Kernels(flavour, name) for name in ("step_adjoint", "step") for flavour in flavours]
    names = ("tendons", "spatial", "sites", "activations", "loops", "noslip", "curved", "mocap")
    mixture = Kernels(convex._replace(**dict.fromkeys(names, True)), "step")
    return [*steps, mixture, other(mixture, implicit=True), Kernels(convex, "felt")]


def driven() -> list[Kernels]:
    """Of robots with a network in front of every step."""
    flavours = (Flavour("float64", "convex", all_shapes=False), Flavour("float64"), Flavour("float32"))
    return [Kernels(flavour, name) for name in ("driven_adjoint", "driven") for flavour in flavours]


if __name__ == "__main__":
    tested = list(filter(is_tested, all_kernels()))
    far = [other(each, far=True) for each in filter(is_tested_from_afar, tested)]
    refined = [other(each, refined=True) for each in filter(is_refined, tested)]
    both = [other(each, far=True, refined=True) for each in filter(refined_from_afar, tested)]
    compile_kernels([*far, *refined, *both, *coupled(), *driven(), *tested])
