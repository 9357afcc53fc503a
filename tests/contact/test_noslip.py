"""MuJoCo's sweeps against slip: steps against MuJoCo's, and gradients against central differences."""

import gradients as at
import mujoco
import numpy as np
import pytest
from gradients import BODIES, SHAPES, STATE, check, uneven
from scenes import ARMS, BOXES, next_states, objects, scene
from tendon_robots import HAND, scattered
from trees import lived_states

import pullback as pb

CONES = ("pyramidal", "elliptic")
each_cone = pytest.mark.parametrize("cone", CONES)
# Of the largest change of velocity. MuJoCo ends its search for an elliptic cone's multiplier at 1e-10. Found: 3e-9.
ACCURACY = 1e-8
LOSSY = '<joint armature="0.02" damping="0.1" frictionloss="0.2"/>'


def noslip(cone: str, sweeps: int = 3, tolerance: float = 0.0, more: str = "") -> str:
    return f'cone="{cone}" noslip_iterations="{sweeps}" noslip_tolerance="{tolerance}" {more}'


def assert_same(xml: str, states: int = 64, *, effect: float = 1e-3, accuracy: float = ACCURACY, **options) -> None:
    """As MuJoCo, in states of a motion; and that is another step than without the sweeps, by ``effect``."""
    model = pb.load(xml)
    m = model.mujoco
    q, v, controls = lived_states(m, np.random.default_rng(0), states, kick=0.5)
    system = pb.Articulated(model, worlds=states, **options)
    ours = system.step(system.state(q, v), controls).v
    theirs = next_states(m, q, v, controls)[1]
    plain = mujoco.MjModel.from_xml_string(xml)
    plain.opt.noslip_iterations = 0
    size = np.abs(theirs - v).max(axis=1)
    assert np.max(np.abs(next_states(plain, q, v, controls)[1] - theirs).max(axis=1) / size) > effect
    assert np.max(np.abs(ours - theirs).max(axis=1) / size) < accuracy


# against MuJoCo


@each_cone
@pytest.mark.parametrize("sweeps", [1, 3, 20])
@pytest.mark.parametrize("world", ["boxes", "arms"])
def test_the_steps_of_mujoco(cone, sweeps, world):
    xml = {"boxes": (BOXES, ""), "arms": (ARMS, LOSSY)}[world]
    assert_same(scene(xml[0], option=noslip(cone, sweeps, 1e-6), default=xml[1]))


@each_cone
@pytest.mark.parametrize("island", ["enable", "disable"])
@pytest.mark.parametrize("tolerance", [0.1, 1e-3])
def test_islands_end_their_sweeps_when_little_is_won(cone, island, tolerance):
    """With a tolerance this large, one more sweep or one fewer would be seen."""
    assert_same(objects(option=noslip(cone, 20, tolerance), flag=f'island="{island}"'), 128)


@each_cone
def test_every_number_of_rows(cone):
    """Contacts with 1, 3, 4 and 6 rows at the same time; impratio makes friction of cones stiffer, and slip smaller."""
    xml = objects(option=noslip(cone, 4, 0.0, 'impratio="3"'), body='friction="0.6 0.02 0.01"')
    for name, dim in (("ball", 6), ("box", 4), ("can", 1), ("rod", 3), ("floor", 1)):
        xml = xml.replace(f'geom name="{name}"', f'geom name="{name}" condim="{dim}"')
    assert_same(xml)


@pytest.mark.parametrize("integrator", ["implicitfast", "RK4"])
def test_other_integrators(integrator):
    assert_same(scene(ARMS, option=noslip("elliptic", 3, 0.0, f'integrator="{integrator}"'), default=LOSSY))


def heap(seed: int) -> str:
    """Bodies of several shapes each, and explicit pairs among them: the order of contacts is not that of shapes."""
    rng = np.random.default_rng(seed)
    bodies = ""
    for b in range(4):
        geoms = ""
        for i in range(3):
            pos = " ".join(f"{x:.3f}" for x in rng.normal(size=3) * 0.15)
            shape = ("sphere", "capsule", "box")[(b + i) % 3]
            geoms += f'<geom name="g{b}{i}" type="{shape}" size="0.12 0.1 0.08" pos="{pos}"/>'
        bodies += f'<body pos="{0.1 * b} 0 {0.2 + 0.15 * b}"><freejoint/>{geoms}</body>'
    pairs = "".join(f'<pair geom1="{a}" geom2="{b}" condim="3"/>' for a, b in (("g32", "g00"), ("g12", "floor")))
    return f'<geom name="floor" type="plane" size="5 5 1"/>{bodies}', f"<contact>{pairs}</contact>"


@each_cone
def test_contacts_have_their_turns_in_the_order_of_mujoco(cone):
    """After a single sweep, forces depend on the order: in the opposite one they are others."""
    world, rest = heap(1)
    xml = scene(world, option=noslip(cone, 1), rest=rest)
    assert_same(xml)
    model = pb.load(xml)
    q, v, controls = lived_states(model.mujoco, np.random.default_rng(0), 32, kick=0.5)
    system, turned = (pb.Articulated(model, worlds=32) for _ in range(2))
    ranks = turned._scene.pair_ranks.max() - turned._scene.pair_ranks
    for lane in turned._lanes:
        lane.rows.noslip.rank.assign(ranks.astype(np.int32))
    steps = [each.step(each.state(q, v), controls).v for each in (system, turned)]
    assert np.abs(steps[0] - steps[1]).max() > 1e-4


def slipping_hand(integrator: str = "Euler") -> str:
    """Tendons with friction loss and armature, one of which joins the tips of two fingers, and equality constraints,
    which the sweeps leave as they are.
    """
    xml = HAND.format(integrator=integrator).replace('frictionloss="0.003"', 'frictionloss="0.2"')
    xml = xml.replace('frictionloss="0.002"', 'frictionloss="0.6"')
    tips = '<joint joint="c1" coef="1"/><joint joint="e1" coef="-0.7"/>'
    xml = xml.replace("</tendon>", f'<fixed name="tips" frictionloss="0.3">{tips}</fixed></tendon>')
    return xml.replace("<option ", '<option noslip_iterations="4" noslip_tolerance="0" ')


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_friction_loss_of_tendons(integrator):
    model = pb.load(slipping_hand(integrator))
    q, v, controls = scattered(model.mujoco, 64, size=0.3, speed=0.02)
    system = pb.Articulated(model, worlds=64)
    ours = system.step(system.state(q, v), controls).v
    theirs = next_states(model.mujoco, q, v, controls)[1]
    model.mujoco.opt.noslip_iterations = 0
    plain = next_states(model.mujoco, q, v, controls)[1]
    assert np.abs(plain - theirs).max() > 1e-5 * np.abs(theirs - v).max()
    np.testing.assert_allclose(ours, theirs, atol=1e-10 * np.abs(theirs - v).max())


def test_single_precision():
    assert_same(scene(BOXES, option=noslip("elliptic", 3, 1e-6)), dtype="float32", accuracy=0.02, effect=0.05)


@each_cone
def test_contact_forces_are_those_after_the_sweeps(cone):
    model = pb.load(scene(BOXES, option=noslip(cone, 5)))
    m = model.mujoco
    q, v, _ = lived_states(m, np.random.default_rng(0), 8, kick=0.5)
    system = pb.Articulated(model, worlds=8)
    state = system.state(q, v)
    for world, contacts in enumerate(system.contacts(state)):
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:] = q[world], v[world]
        mujoco.mj_forward(m, data)
        total, wrench = np.zeros(3), np.zeros(6)
        for k in range(data.ncon):
            mujoco.mj_contactForce(m, data, k, wrench)
            total += data.contact[k].frame.reshape(3, 3).T @ wrench[:3]
        np.testing.assert_allclose(contacts.force.sum(axis=0), total, rtol=1e-6, atol=1e-6 * np.abs(total).max())


def test_nothing_is_compiled_for_files_that_do_not_ask():
    asks, does_not = (pb.Articulated(pb.load(scene(ARMS, option=x))) for x in (noslip("elliptic"), ""))
    assert asks._flavour.noslip and not does_not._flavour.noslip
    nothing_rubs = scene(
        '<geom type="plane" size="1 1 1" condim="1"/><body><freejoint/><geom size="1" condim="1"/></body>'
    )
    nothing_rubs = nothing_rubs.replace("<option ", '<option noslip_iterations="9" ')
    assert not pb.Articulated(pb.load(nothing_rubs))._flavour.noslip


@pytest.mark.parametrize("contact", [pb.ContactCompliant(), pb.ContactImpulse()])
def test_other_models_have_none(contact):
    model = pb.load(scene(ARMS, option=noslip("elliptic")))
    with pytest.raises(pb.PullbackError, match=f"noslip_iterations, which {type(contact).__name__}"):
        pb.Articulated(model, contact)


# gradients

CONVEX = pb.ContactConvex()
MATTER = (*STATE, "control", *SHAPES, "solref", "solimp", "mass", "com", "inertia", "armature")


@each_cone
@pytest.mark.parametrize("place", [at.at_rest, at.pushed, at.sliding])
def test_gradients_of_free_bodies(cone, place):
    system, state, control = place(CONVEX, option=noslip(cone))
    check(system, state, control, matter=MATTER[:-3] if place is at.at_rest else MATTER)


@each_cone
def test_gradients_of_torsion_and_rolling(cone):
    system, state, control = at.sliding(CONVEX, option=noslip(cone), geom='condim="6"', floor='condim="6"')
    check(system, state, control, matter=(*MATTER, "friction"))


@each_cone
def test_gradients_in_a_pile(cone):
    check(*at.pile(CONVEX, option=noslip(cone)), matter=(*STATE, *SHAPES, "mass", "friction", "gravity"))


@each_cone
def test_gradients_of_robots_with_friction_loss(cone):
    """Arms that touch; some of their joints are held by friction, others are at its bound."""
    model = pb.load(scene(ARMS, option=noslip(cone), default=LOSSY))
    q, v, _ = lived_states(model.mujoco, np.random.default_rng(1), 3)
    system = uneven(pb.Articulated(model, CONVEX, worlds=3))
    check(system, system.state(q, v), matter=(*STATE, *BODIES, *SHAPES, "frictionloss", "joint_pos"))


LEVER = """<body><joint axis="0 1 0" frictionloss="{loss}" armature="0.05"/>
  <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1" contype="0" conaffinity="0"/></body>"""


@pytest.mark.parametrize("loss, turns", [(0.999, True), (1.001, False)])
def test_gradients_on_both_sides_of_the_bound_of_friction_loss(loss, turns):
    """A lever that its weight turns, or just does not: MuJoCo's solver alone would let it creep."""
    weight = 9.81 * 0.15
    model = pb.load(scene(LEVER.format(loss=loss * weight), option=noslip("elliptic")))
    system = pb.Articulated(model)
    state = system.state(np.zeros(1), np.zeros(1))
    assert (abs(system.step(state).v[0, 0]) > 1e-6) == turns
    if turns:
        check(system, state, matter=("v", "mass", "com", "inertia", "armature", "frictionloss", "gravity"))
    else:  # nothing but the start moves it, and the sweep takes what that gives away
        assert abs(system.step(state).v[0, 0]) < 1e-12
        check(system, state, idle=("mass", "com", "gravity", "frictionloss"))


def test_gradients_of_tendons():
    model = pb.load(slipping_hand())
    q, v, controls = scattered(model.mujoco, 3, seed=2, size=0.3, speed=0.02)
    system = pb.Articulated(model, CONVEX, worlds=3)
    matter = (*STATE, "control", "tendon_coef", "tendon_armature", "tendon_frictionloss", "frictionloss", "mass")
    check(system, system.state(q, v), controls, matter=matter)
