"""Random files and states, whole and broken ones, for benchmarks/fuzz.py: what anybody may hand to the library.

A case is its number: the same file, states and options each time. Cases of a family have kernels in common, so that
thousands of them need few.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from trees import random_tree

import pullback as pb

# What a number in a file may be replaced by.
BROKEN = (
    *("nan", "inf", "-inf", "1e400", "-1", "0", "-0", "1e30", "-1e30", "1e308", "1e-308", "5e-324", "1e-30", "1e10"),
    *(
        "",
        " ",
        "x",
        "true",
        "1 2",
        "1 2 3 4 5 6 7 8 9 10 11 12 13",
        "0 0 0",
        "0 0 0 0",
        "1e5",
        "2147483648",
        "-2147483649",
    ),
    *("0x10", "1,5", "٣", "1e", "--1", "&lt;", "../../etc/passwd", "body0", "world"),
)
EXTREME = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 1e154, 1e20, 1e8, 1e3, 1e-300, 5e-324)
SHAPES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}
ROUND = ("sphere", "capsule")
TETRAHEDRON = "0 0 0  .2 0 0  0 .2 0  0 0 .2"


@dataclass(frozen=True)
class Family:
    """Robots whose kernels are the same, or one of few.

    contact:   of pb.Articulated
    shapes:    that they are made of
    dims:      condim
    touching:  whether anything touches
    adds:      what a file has more, by functions of (random, file)
    options:   of pb.Articulated
    """

    contact: Any = "model"
    shapes: tuple[str, ...] = tuple(SHAPES)
    dims: tuple[int, ...] = (1, 3)
    touching: bool = True
    adds: tuple[Callable, ...] = ()
    options: dict = field(default_factory=dict)


@dataclass
class Case:
    """What is done with a file.

    text:     of the file
    broken:   whether something is wrong with it
    ignore:   of pb.load
    worlds, steps:  of a rollout
    random:   for states and the like
    """

    number: int
    family: str
    text: str
    broken: bool
    ignore: tuple[str, ...]
    worlds: int
    steps: int
    random: np.random.Generator


def names(root: ET.Element, tag: str, **kinds) -> list[str]:
    return [x.get("name") for x in root.iter(tag) if x.get("name") and all(x.get(k) in v for k, v in kinds.items())]


def numbers(random: np.random.Generator, low: float, high: float, size: int = 1) -> str:
    return " ".join(f"{x:.17g}" for x in random.uniform(low, high, size))


def section(root: ET.Element, tag: str) -> ET.Element:
    found = root.find(tag)
    return ET.SubElement(root, tag) if found is None else found


def pick(random: np.random.Generator, items):
    return items[int(random.integers(len(items)))]


# --- what families add ------------------------------------------------------------------------------------------------


def sites(random, root: ET.Element) -> list[str]:
    """One on each body."""
    made = []
    for body in [*root.iter("body")]:
        made.append(f"site{len(made)}")
        ET.SubElement(body, "site", name=made[-1], pos=numbers(random, -0.2, 0.2, 3))
    return made


def tendon_forces(random, coupled: bool) -> dict[str, str]:
    found = {"stiffness": numbers(random, 0, 20), "damping": numbers(random, 0, 1)}
    if random.random() < 0.3:
        found["armature"] = numbers(random, 0, 0.1)
    if coupled and random.random() < 0.4:
        found["frictionloss"] = numbers(random, 0, 1)
    return found


def fixed_tendons(random, root: ET.Element, coupled: bool = True) -> None:
    joints = names(root, "joint", type=("hinge", "slide"))
    if not joints:
        return
    tendons = section(root, "tendon")
    for k in range(int(random.integers(1, 3))):
        limit = {"range": f"{numbers(random, -0.3, 0)} {numbers(random, 0.01, 0.3)}"} if coupled and k else {}
        one = ET.SubElement(tendons, "fixed", name=f"tendon{k}", **tendon_forces(random, coupled), **limit)
        for joint in random.permutation(joints)[:3]:
            ET.SubElement(one, "joint", joint=str(joint), coef=numbers(random, -1, 1))
    if coupled and len(joints) > 1 and random.random() < 0.5:
        one, other = random.permutation(joints)[:2]
        ET.SubElement(section(root, "equality"), "joint", joint1=str(one), joint2=str(other),
                      polycoef=numbers(random, -0.5, 0.5, 5))  # fmt: skip
    if random.random() < 0.5:
        ET.SubElement(section(root, "actuator"), "motor", tendon="tendon0", gear=numbers(random, -5, 5))


def spatial_tendons(random, root: ET.Element) -> None:
    made = sites(random, root)
    if len(made) < 2:
        return
    one = ET.SubElement(section(root, "tendon"), "spatial", name="path", **tendon_forces(random, False))
    for name in random.permutation(made)[:4]:
        ET.SubElement(one, "site", site=str(name))


def loops(random, root: ET.Element) -> None:
    bodies = names(root, "body")
    for _ in range(int(random.integers(1, 3))):
        one, other = (pick(random, bodies) for _ in range(2))
        if one == other:
            continue
        if random.random() < 0.5:
            ET.SubElement(section(root, "equality"), "connect", body1=one, body2=other,
                          anchor=numbers(random, -0.2, 0.2, 3))  # fmt: skip
        else:
            ET.SubElement(section(root, "equality"), "weld", body1=one, body2=other)


def site_actuators(random, root: ET.Element) -> None:
    for name in sites(random, root)[:2]:
        ET.SubElement(section(root, "actuator"), "general", site=name, gear=numbers(random, -1, 1, 6),
                      biastype="affine", biasprm="0 -1 -0.1")  # fmt: skip


def sweeps(random, root: ET.Element) -> None:
    root.find("option").set("noslip_iterations", str(int(random.integers(1, 5))))


def mesh(random, root: ET.Element) -> None:
    ET.SubElement(section(root, "asset"), "mesh", name="tetrahedron", vertex=TETRAHEDRON)
    body = pick(random, [*root.iter("body")])
    ET.SubElement(body, "geom", type="mesh", mesh="tetrahedron", density="500")


def field_of_heights(random, root: ET.Element) -> None:
    heights = " ".join(numbers(random, 0, 1) for _ in range(12))
    ET.SubElement(
        section(root, "asset"), "hfield", name="hills", nrow="3", ncol="4", size="2 2 .3 .1", elevation=heights
    )
    ET.SubElement(root.find("worldbody"), "geom", type="hfield", hfield="hills", pos="0 0 -0.6")


FAMILIES = {
    "smooth": Family(None, touching=False),
    "float32": Family(None, touching=False, options={"dtype": "float32"}),
    "smooth tendons": Family(None, touching=False, adds=(lambda r, x: fixed_tendons(r, x, False),)),
    "smooth paths": Family(None, touching=False, adds=(spatial_tendons,)),
    "sites": Family(None, touching=False, adds=(site_actuators,)),
    "convex": Family(),
    "convex, six rows": Family(dims=(1, 3, 4, 6)),
    "convex, meshes": Family(adds=(mesh,)),
    "convex, heights": Family(adds=(field_of_heights,)),
    "impulse": Family("impulse"),
    "compliant": Family("compliant"),
    "longrange": Family("longrange", shapes=("sphere", "capsule", "box", "cylinder")),
    "convex, tendons": Family(shapes=ROUND, adds=(fixed_tendons,)),
    "convex, loops": Family(shapes=ROUND, adds=(loops,)),
    "convex, tendons and loops": Family(shapes=ROUND, adds=(fixed_tendons, loops)),
    "convex, paths": Family(shapes=ROUND, adds=(spatial_tendons,)),
    "noslip": Family(adds=(sweeps,)),
}
# Kernels that are there for the tests: what has others is loaded and made, and not stepped.
STEPPED = {
    *("float64.contact_free", "float32.contact_free", "float64.contact_free_tendons", "float64.contact_free_spatial"),
    *(
        "float64.contact_free_sites",
        "float64.convex",
        "float64.convex_round",
        "float64.convex6",
        "float64.convex6_round",
    ),
    *("float64.convex_round_tendons", "float64.convex_round_loops", "float64.convex_round_tendons_loops"),
    *("float64.convex_round_spatial", "float64.convex_noslip", "float64.convex6_noslip", "float64.convex_round_noslip"),
    *("float64.impulse_model", "float64.impulse_model_round", "float64.compliant", "float64.compliant_round"),
    "float64.longrange_round",
}


def reshaped(random, root: ET.Element, family: Family) -> None:
    """Geoms of bodies in the family's shapes."""
    for geom in root.iter("geom"):
        if geom.get("type") == "plane":
            continue
        kind = pick(random, family.shapes)
        geom.set("type", kind)
        geom.set("size", numbers(random, 0.03, 0.12, SHAPES[kind]))
        geom.set("condim", str(pick(random, family.dims)))
        if random.random() < 0.2:
            geom.set("solref", f"{numbers(random, 0.01, 0.1)} {numbers(random, 0.3, 1.5)}")
        if random.random() < 0.2:
            geom.set("margin", numbers(random, 0, 0.05))


def broken(random, text: str) -> str:
    """A file with something wrong in it: numbers, names, elements, or letters."""
    way = random.random()
    if way < 0.06:
        start, length = int(random.integers(len(text))), int(random.integers(1, 200))
        return text[:start] + text[start + length :]
    if way < 0.12:
        letters = list(text)
        for _ in range(int(random.integers(1, 6))):
            letters[int(random.integers(len(letters)))] = chr(int(random.integers(1, 1000)))
        return "".join(letters)
    root = ET.fromstring(text)
    for _ in range(int(pick(random, (1, 1, 1, 2, 5)))):
        parents = [x for x in root.iter() if len(x)]
        if way < 0.22 and parents:  # an element that is left out, or twice there, or elsewhere
            parent = pick(random, parents)
            child = pick(random, [*parent])
            choice = random.random()
            if choice < 0.4:
                parent.remove(child)
            else:
                (parent if choice < 0.7 else pick(random, parents)).append(ET.fromstring(ET.tostring(child)))
            continue
        elements = [x for x in root.iter() if x.attrib]
        one = pick(random, elements)
        name = pick(random, [*one.attrib])
        parts = one.get(name).split()
        value = pick(random, BROKEN)
        if len(parts) > 1 and random.random() < 0.8:
            parts[int(random.integers(len(parts)))] = value
            value = " ".join(parts)
        one.set(name, value)
    return ET.tostring(root, encoding="unicode")


def case(number: int) -> Case:
    """The case of a number."""
    random = np.random.default_rng(np.random.SeedSequence([21, number]))
    name = pick(random, [*FAMILIES])
    family = FAMILIES[name]
    integrator = pick(random, ("Euler", "Euler", "implicitfast", "RK4"))
    text = random_tree(
        int(random.integers(2**31)),
        bodies=int(random.integers(1, 6)),
        fluid=not family.touching and integrator != "implicitfast" and random.random() < 0.2,
        integrator=integrator,
        timestep=float(pick(random, (1e-4, 0.002, 0.005, 0.02))),
        touching=family.touching,
    )
    root = ET.fromstring(text)
    if family.touching:
        reshaped(random, root, family)
    for add in family.adds:
        add(random, root)
    text = ET.tostring(root, encoding="unicode")
    is_broken = bool(random.random() < 0.4)
    if is_broken:
        text = broken(random, text)
    ignore = ("contact",) if random.random() < 0.03 else ()
    worlds, steps = int(random.integers(1, 5)), int(random.integers(1, 9))
    return Case(number, name, text, is_broken, ignore, worlds, steps, random)


def extreme(random, values: np.ndarray) -> np.ndarray:
    """With some entries that no robot has, or as it is."""
    values = np.array(values, dtype=float)
    if values.size and random.random() < 0.3:
        for _ in range(int(random.integers(1, 3))):
            values.flat[int(random.integers(values.size))] = pick(random, EXTREME)
    elif random.random() < 0.2:
        values *= 10.0 ** random.uniform(-3, 6)
    return values


def given(random, system: pb.Articulated, steps: int) -> tuple[dict, np.ndarray, dict]:
    """Fields of a state, controls and parameters."""
    home = system.model.home
    q = np.tile(home.q, (system.worlds, 1)) + 0.3 * random.normal(size=(system.worlds, system.nq))
    fields = {"q": extreme(random, q), "v": extreme(random, random.normal(size=(system.worlds, system.nv)))}
    controls = extreme(random, random.normal(size=(steps, system.worlds, system.nu)))
    params = {}
    if len(system.params) and random.random() < 0.3:
        name = pick(random, [*system.params])
        params[name] = extreme(random, system.params[name])
    return fields, controls, params


def attempt(number: int, steps_with: Callable[[str], None] = lambda kernels: None) -> str:
    """Loads a case, rolls out and pulls back: how far it came. Whatever is not a PullbackError is raised.

    steps_with:  is told of the kernels before they are launched
    """
    one = case(number)
    family, random = FAMILIES[one.family], one.random
    try:
        model = pb.load(one.text, ignore=one.ignore)
    except pb.PullbackError as error:
        return said("refused", error)
    try:
        system = pb.Articulated(model, family.contact, worlds=one.worlds, threads=1, **family.options)
    except pb.PullbackError as error:
        return said("loaded", error)
    if system._flavour.package not in STEPPED:
        return "loaded"
    steps_with(system._flavour.package)
    fields, controls, params = given(random, system, one.steps)
    mask = bool(random.random() < 0.5)
    try:
        state = system.state(**fields)
        run = pb.rollout(system, state, controls, params=params, on_failure="mask" if mask else "raise")
    except pb.PullbackError as error:
        return said("made", error)
    good = ~run.status.failed if mask else np.ones(one.worlds, bool)
    if not (np.isfinite(run.q[:, good]).all() and np.isfinite(run.v[:, good]).all()):
        raise AssertionError("states are not finite, and nobody said so")
    bars = {f"{name}_bar": extreme(random, random.normal(size=getattr(run, name)[-1].shape)) for name in ("q", "v")}
    try:
        grads = run.pullback(**bars)
    except pb.PullbackError as error:
        return said("stepped", error)
    arrays = [grads.controls, *grads.params.values(), *grads.state]
    if not all(np.isfinite(np.asarray(x)).all() for x in arrays):
        raise AssertionError("gradients are not finite, and nobody said so")
    return "pulled back"


def said(stage: str, error: pb.PullbackError) -> str:
    """How far it came, where what was said is one line."""
    text = str(error)
    if not text.strip() or "\n" in text:
        raise AssertionError(f"a message of {len(text)} characters in {text.count(chr(10)) + 1} lines: {text[:200]!r}")
    return stage
