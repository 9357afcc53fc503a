"""Contacts and limits whose distance equals their margin: left out, as in MuJoCo, also 1e-12 to either side of it.

All scenes are of numbers that floating point holds exactly, so that distances are exact too.
"""

import itertools

import numpy as np
import pytest
from scenes import ASSETS, next_states

import pullback as pb

# Both solvers balance forces to rounding, 1e-13 or so of the largest; stiff rows multiply that.
ACCURACY = 1e-9
CUBE = " ".join(f"{x} {y} {z}" for x, y, z in itertools.product((-0.5, 0.5), repeat=3))
# Half a metre high over their middle.
SHAPES = {
    "sphere": 'type="sphere" size=".5"',
    "capsule": 'type="capsule" size=".25 .25"',
    "lying capsule": 'type="capsule" size=".5 .5" quat="1 0 1 0"',
    "ellipsoid": 'type="ellipsoid" size=".25 .25 .5"',
    "cylinder": 'type="cylinder" size=".5 .5"',
    "box": 'type="box" size=".5 .5 .5"',
    "mesh": 'type="mesh" mesh="cube"',
}
PAIRS = [*(("plane", name) for name in SHAPES), *itertools.combinations_with_replacement(SHAPES, 2)]
# Where MuJoCo iterates: it stops with a point that is not the nearest, or keeps other corners of two flat faces. That
# such pairs begin to push where they should is tested by their acceleration along the normal having the same sign.
ITERATED = ("ellipsoid", "cylinder", "mesh")


def iterates(pair) -> bool:
    return "plane" not in pair and pair != ("sphere", "cylinder") and any(name in ITERATED for name in pair)


def one_above_the_other(below: str, above: str, margin: float) -> pb.Model:
    """The upper shape is free, and ``margin`` above the lower."""
    if below == "plane":
        lower = f'<geom type="plane" size="5 5 1" pos="0 0 .5" margin="{margin}"/>'
    else:
        lower = f'<geom {SHAPES[below]} margin="{margin}"/>'
    return pb.load(f"""<mujoco><asset><mesh name="cube" vertex="{CUBE}"/></asset><worldbody>{lower}
      <body pos="0 0 {1 + margin}"><freejoint/><geom {SHAPES[above]}/></body></worldbody></mujoco>""")


def differences(model: pb.Model, q, v, controls=None) -> np.ndarray:
    """(worlds,) of the next velocity from MuJoCo's: the largest, over the largest change of velocity."""
    controls = np.zeros((len(q), model.nu)) if controls is None else controls
    system = pb.Articulated(model, worlds=len(q))
    ours = system.step(system.state(q, v), controls).v
    _q, theirs, _active = next_states(model.mujoco, q, v, controls)
    size = np.abs(theirs - v).max(axis=1, initial=model.mujoco.opt.timestep)
    return np.abs(ours - theirs).max(axis=1, initial=0.0) / size


@pytest.mark.parametrize("margin", [0.0, 0.25])
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_pairs_of_shapes(pair, margin):
    model = one_above_the_other(*pair, margin)
    away = np.array([0.0, -1e-12, 1e-12, -1e-9])
    q = np.repeat(model.q0[None], len(away), axis=0)
    q[:, 2] += away
    v = np.tile([0.1, -0.2, -0.3, 0.1, 0.2, 0.3], (len(away), 1))
    error = differences(model, q, v)
    assert np.all(error[away >= 0] <= ACCURACY)  # none acts
    if not iterates(pair):
        assert np.all(error <= ACCURACY)
    system = pb.Articulated(model, worlds=len(away))
    pushed = system.step(system.state(q, v)).v[:, 2] > v[:, 2]
    np.testing.assert_array_equal(pushed, away < 0)


@pytest.mark.parametrize("margin", [0.0, 0.125])
@pytest.mark.parametrize("kind", ["hinge", "slide", "ball"])
def test_limits(kind, margin):
    """At the margin of either end; a ball joint's angle is exact only where it is zero, and so its range here."""
    low = {"hinge": -0.5, "slide": -0.5, "ball": 0.0}[kind]
    high = margin if kind == "ball" else 0.75
    model = pb.load(f"""<mujoco><compiler angle="radian"/><worldbody><body><joint type="{kind}" axis="0 1 0"
      limited="true" range="{low} {high}" margin="{margin}"/><geom size=".1" pos=".25 0 .5"/></body></worldbody>
      </mujoco>""")
    if kind == "ball":
        q, v = np.array([[1.0, 0.0, 0.0, 0.0]]), np.array([[-0.1, -0.4, 0.3]])
        expected = np.array([False])
    else:
        ends = np.array([low + margin, high - margin])
        q = (ends[:, None] + np.array([0.0, -1e-12, 1e-12])).reshape(-1, 1)
        v = np.repeat([[-0.4], [0.4]], 3, axis=0)  # towards the limit
        expected = np.array([False, True, False, False, False, True])
    assert np.all(differences(model, q, v) <= ACCURACY)
    system, free = (pb.Articulated(model, worlds=len(q), contact=c) for c in (pb.ContactConvex(), None))
    acts = np.any(system.step(system.state(q, v)).v != free.step(free.state(q, v)).v, axis=1)
    np.testing.assert_array_equal(acts, expected)


def test_the_derivative_at_the_edge_is_that_of_free_flight():
    """The state is on the side where nothing acts; a little lower the derivative is another."""
    model = one_above_the_other("plane", "sphere", 0.0)
    system, free = (pb.Articulated(model, contact=c) for c in (pb.ContactConvex(), None))
    v = np.array([[0.1, -0.2, -0.3, 0.1, 0.2, 0.3]])
    derivative = {}
    for name, s, lower in (("edge", system, 0.0), ("free", free, 0.0), ("lower", system, 1e-9)):
        q = model.q0[None].copy()
        q[0, 2] -= lower
        derivative[name] = s.linearize(s.state(q, v))[0]
    np.testing.assert_allclose(derivative["edge"], derivative["free"], atol=1e-12)
    assert np.abs(derivative["lower"] - derivative["free"]).max() > 0.1


def test_rigid_bodies_that_just_touch_are_in_contact():
    """With impulses: a sphere that lies on a floor, at its margin or none, stays there."""
    for margin in (0.0, 0.25):
        model = one_above_the_other("plane", "sphere", margin)
        for dtype in ("float64", "float32"):
            system = pb.Articulated(model, contact=pb.ContactImpulse(), dtype=dtype)
            assert len(system.contacts(system.state())[0].dist) == 1
            higher = model.q0[None].copy()
            higher[0, 2] += 1e-6
            assert len(system.contacts(system.state(higher))[0].dist) == 0


def test_a_geom_is_where_mujoco_has_it():
    """Within 1e-6 of its body's frame MuJoCo takes a geom to be there: a fraction of a micrometre, and of the force."""
    model = pb.load("""<mujoco><worldbody><geom type="plane" size="5 5 1"/>
      <body pos="0 0 .0999"><freejoint/><inertial pos="0 0 .01" mass="1" diaginertia=".01 .01 .01"/>
        <geom type="box" size=".2 .1 .1" quat="1 3e-7 2e-7 0" pos="2e-7 0 3e-7"/></body></worldbody></mujoco>""")
    assert model.mujoco.geom_sameframe[1]
    assert differences(model, model.q0[None], np.full((1, 6), 0.1)).max() <= ACCURACY


# Gymnasium's robots, as filed


@pytest.mark.parametrize("path", sorted(ASSETS.glob("*.xml")), ids=lambda path: path.stem)
def test_gymnasiums_robots_as_filed(path):
    """From qpos0 and every keyframe, at rest and in motion: point.xml touches the floor exactly, and it may turn."""
    model = pb.load(path)
    m = model.mujoco
    rng = np.random.default_rng(0)
    q = np.concatenate([m.qpos0[None], m.key_qpos])
    v = np.concatenate([np.zeros((1, m.nv)), m.key_qvel])
    controls = np.concatenate([np.zeros((1, m.nu)), m.key_ctrl])
    q = np.repeat(q, 4, axis=0)
    v = np.repeat(v, 4, axis=0)
    controls = np.repeat(controls, 4, axis=0)
    moving = np.arange(len(q)) % 4 > 0
    v[moving] += 0.1 * rng.normal(size=(moving.sum(), m.nv))
    controls[moving] = rng.uniform(-0.2, 0.2, size=(moving.sum(), m.nu))
    assert np.all(differences(model, q, v, controls) <= ACCURACY)
