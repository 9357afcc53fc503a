"""Gradients where cylinders, capsules, boxes and meshes lie along each other, through a whole step."""

import numpy as np
import pytest
from scenes import scene

import pullback as pb

CORNERS = " ".join(f"{x} {y} {z}" for x in (-0.3, 0.31) for y in (-0.2, 0.22) for z in (-0.1, 0.12))
BASES = {
    "box": 'type="box" size="0.3 0.2 0.1"',
    "mesh": 'type="mesh" mesh="block"',
    "cylinder": 'type="cylinder" size="0.3 0.1"',
}
# Placed on a base whose top is 0.1 m above its middle, a little aslant, with one end over the edge.
LYING = {
    "rod": ('type="capsule" size="0.05 0.2"', "0.2 0.02 {top}", "90.8 0 0", 0.05),
    "can": ('type="cylinder" size="0.06 0.15"', "0.2 0.05 {top}", "91.5 0 70", 0.06),
    "upright can": ('type="cylinder" size="0.1 0.06"', "0.22 0.03 {top}", "1.5 -1 10", 0.06),
    "brick": ('type="mesh" mesh="block"', "0.2 0.1 {top}", "1.5 -2 30", 0.1),
}
# A capsule on a box has a function of its own; of a can's side on a cap MuJoCo makes one contact.
APART = {("box", "rod"), ("cylinder", "can")}
PAIRS = [(base, thing) for base in BASES for thing in LYING if (base, thing) not in APART]


def pile(base: str, thing: str) -> str:
    shape, place, turn, height = LYING[thing]
    top = height + (0.12 if base == "mesh" else 0.1) - 0.006
    return scene(
        f"""<body><freejoint/>
          <geom name="base" {BASES[base]} mass="3" contype="1" conaffinity="2" friction="0.6"/></body>
        <body pos="{place.format(top=top)}" euler="{turn}"><freejoint/>
          <geom name="thing" {shape} mass="1" contype="2" conaffinity="1" friction="0.8"/></body>""",
        rest=f'<asset><mesh name="block" vertex="{CORNERS}"/></asset>',
    )


@pytest.mark.parametrize(("base", "thing"), PAIRS, ids=lambda x: x)
def test_gradients(base, thing):
    system = pb.Articulated(pb.load(pile(base, thing)))
    rng = np.random.default_rng(1)
    state = system.state(v=0.3 * rng.normal(size=(1, 12)))
    (found,) = system.contacts(state)
    assert 2 <= len(found.dist) <= 4 and found.force[:, 0].min() < found.force[:, 0].max()
    report = pb.check_system(
        system, state, np.zeros((1, 0)), steps=(1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7), tolerance=5e-6
    )
    for name in ("q", "v", "geom_pos", "geom_quat", "friction", *(["geom_size"] if thing != "brick" else [])):
        assert report[name].largest > 1e-9, name
    assert report["q"].error < 1e-7
