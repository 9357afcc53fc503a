"""Gradients through contact with long range against differences, by every parameter: at rest, sliding, far, stacked,
articulated, at joint limits, through substeps."""

import numpy as np
import pytest
from gradients import check
from test_longrange import FLOOR, random_states, system_of

import pullback as pb

LEANING = FLOOR.replace('size="5 5 .1"', 'size="5 5 .1" zaxis=".1 .2 1"')
SHAPES = {
    "ball": '<geom size=".1" pos=".01 .02 .03" mass="1"/>',
    "box": '<geom type="box" size=".1 .12 .08" pos=".01 -.02 .03" mass="1.3"/>',
    "rod": '<geom type="capsule" size=".05 .1" euler="20 10 5" mass=".7"/>',
    "can": '<geom type="cylinder" size=".08 .1" euler="5 10 5" mass=".9"/>',
}
ARM = """<body name="a1" pos="0 0 1" euler="3 4 5">
  <joint axis="0 1 .1" pos=".01 .02 .03" damping=".1" {hinge}/>
  <geom type="capsule" size=".04 .15" pos=".2 0 0" euler="0 90 0" mass="1"/>
  <body name="a2" pos=".5 0 0"><joint axis="0 1 0" armature=".01"/><joint type="slide" axis="1 0 0.2" {slide}/>
    <geom type="box" size=".1 .05 .04" pos=".1 0 0" mass=".5"/>
    <body name="a3" pos=".3 0 .05"><joint type="ball" pos=".01 0 0"/>
      <geom type="capsule" size=".03 .1" pos="0 0 .1" mass=".3"/></body></body></body>"""
LIMITED = ARM.format(hinge='range="-1 30" frictionloss=".3"', slide='range="-.01 .2"')
ARM = ARM.format(hinge="", slide="")
OWN = ("gap", "length", "geom_pos", "geom_quat", "geom_size")
LAWS = ("joint_range", "limit_gap", "limit_force", "frictionloss", "joint_slip_speed")


def body(kind: str, pos: str) -> str:
    return f'<body pos="{pos}" euler="10 20 30"><freejoint/>{SHAPES[kind]}</body>'


def rough(world: str) -> str:
    """With friction, and coefficients that are not the same: the larger of two counts."""
    for i in range(world.count("<geom ")):
        world = world.replace("<geom ", f'<Geom condim="3" friction="{0.5 + 0.07 * i} 0 0" ', 1)
    return world.replace("<Geom ", "<geom ")


def moving(system: pb.Articulated, seed: int, speed: float = 1.0, steps: int = 0) -> pb.State:
    start = system.state(v=speed * np.random.default_rng(seed).normal(size=system.nv))
    return pb.rollout(system, start, steps=steps).final if steps else start


FOUR = body("box", "0 0 .4") + body("rod", "0 .1 .9") + body("can", ".4 .1 .9") + body("ball", "-.4 .1 .5")
PLACES = {
    "far": (LEANING + FOUR, {"gap": 0.05}, {}),
    "rest": (FLOOR + body("box", "0 0 .4") + body("rod", "0 .1 .9"), {}, {"steps": 60, "speed": 0.3}),
    "sliding": (LEANING + body("box", "0 0 .3"), {"gap": 1e-3}, {"steps": 60, "speed": 0.3}),
    "fast": (LEANING + FOUR, {"substep_share": 0.25}, {"steps": 3, "speed": 8.0}),
    "articulated": (LEANING + ARM + body("ball", ".4 .1 .5"), {"gap": 0.05}, {}),
    "rough": (rough(LEANING + FOUR), {"gap": 0.03, "slip_speed": 0.1}, {}),
    "rough arm": (rough(LEANING + ARM + body("ball", ".4 .1 .7")), {"gap": 0.03, "slip_speed": 0.1}, {}),
    "rough rest": (rough(FLOOR + body("box", "0 0 .3")), {"gap": 1e-3}, {"steps": 40, "speed": 0.3}),
    "limits": (LEANING + LIMITED + body("ball", ".4 .1 .5"), {"gap": 0.01, "limit_gap": 0.1}, {}),
}


@pytest.mark.parametrize("name", PLACES)
def test_every_gradient(name):
    world, settings, start = PLACES[name]
    system = system_of(world, pb.ContactLongRange(**settings))
    matter = OWN if name in ("far", "articulated", "limits", "rough", "rough arm") else ()
    for seed in range(2):
        laws = LAWS if name == "limits" else ("friction", "slip_speed") if "rough" in name else ()
        check(system, moving(system, seed, **start), matter=(*matter, *laws), tolerance=1e-6)


def test_a_stack():
    planks = "".join(
        f'<body pos="0 0 {0.2 * i + 0.101 + 0.002 * i}"><freejoint/><geom type="box" size=".3 .2 .1" mass=".5"/></body>'
        for i in range(3)
    )
    system = system_of(FLOOR + planks, pb.ContactLongRange(gap=1e-3))
    rng = np.random.default_rng(0)
    settled = pb.rollout(system, system.state(), steps=60).final
    state = system.state(settled.q[0], settled.v[0] + 0.01 * rng.normal(size=system.nv))
    check(system, state, tolerance=1e-6, matter=("gap", "mass", "geom_size"))


def test_forces_and_wrenches_applied():
    system = system_of(LEANING + body("box", "0 0 .3"), pb.ContactLongRange(gap=0.02))
    state = moving(system, 0)
    rng = np.random.default_rng(1)
    inputs = {"force": rng.normal(size=(1, 6)), "wrench": rng.normal(size=(1, 2, 6))}
    q_bar, v_bar = rng.normal(size=(1, 7)), rng.normal(size=(1, 6))
    bars = system.pullback(state, None, pb.State(q_bar, v_bar), inputs=inputs).inputs
    h = 1e-5
    for name, value in inputs.items():
        for index in np.ndindex(value.shape):
            losses = []
            for side in (h, -h):
                moved = {**inputs, name: value.copy()}
                moved[name][index] += side
                after = system.step(state, inputs=moved)
                losses.append(np.sum(q_bar * after.q) + np.sum(v_bar * after.v))
            np.testing.assert_allclose(bars[name][index], (losses[0] - losses[1]) / (2 * h), rtol=1e-5, atol=1e-8)


def test_a_rollout():
    system = system_of(LEANING + FOUR, pb.ContactLongRange(gap=0.02))
    check(
        system, random_states(system, 1, 2.0, seed=5), tolerance=1e-6, rollout_steps=5, names=("q", "v", "gap", "mass")
    )
