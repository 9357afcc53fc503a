"""Gradients through MuJoCo's soft convex contact, against central differences: at rest, sticking, sliding, lifting."""

import gradients as at
import mujoco
import numpy as np
import pytest
from oracles import precise
from scenes import ARMS, BOXES, gymnasium_robot, limits, scene
from trees import lived_states

import pullback as pb
from pullback.rollout.check import AGREES, KINK

# Short enough not to leave a piece of a motion that is smooth only piece by piece, long enough to be above rounding.
STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
CONES = ("pyramidal", "elliptic")
STATE, SHAPES = ("q", "v"), ("geom_pos", "geom_quat", "geom_size")
BODIES, MATERIALS = ("mass", "com", "inertia", "armature", "damping"), ("friction", "solref", "solimp")
each_cone = pytest.mark.parametrize("cone", CONES)


def check(system, state, control=None, *, matter, idle=(), kinks=(), **options):
    """check_system raises where a gradient is wrong. What matters must have one that is not zero, the idle must not."""
    names = {*matter, *idle}
    report = pb.check_system(system, state, control, steps=STEPS, names=names, **options)
    for name in matter:
        status = KINK if name in kinks else AGREES
        assert report[name].status == status and report[name].largest > 0, f"{name}: {report[name].status}"
    for name in idle:
        assert report[name].largest == 0, f"{name} matters"
    return report


# Free bodies on a floor, pushed and turned by motors. Armature and damping are not at their bound, which is zero, and
# the impedance varies over a width that is not tiny against finite differences.
PUSHED = """
  <geom type="plane" size="9 9 1" pos="0 0 0.01" euler="{tilt}" {geom} {floor}/>
  <body pos="0 0 0.11" euler="10 20 30"><joint name="ball" type="free" armature="0.01" damping="0.05"/>
    <geom size="0.1" pos="0.01 0 0" mass="1" {geom} friction="0.7 0.4 0.3"/></body>
  <body pos="1 0 0.06" euler="90 0 20"><joint name="rod" type="free" armature="0.01" damping="0.05"/>
    <geom type="capsule" size="0.05 0.1" mass="1" {geom} friction="0.8 0.3 0.35"/></body>
  <body pos="2 0 0.06" euler="0 0 30"><joint name="box" type="free" armature="0.01" damping="0.05"/>
    <geom type="box" size="0.1 0.08 0.05" mass="1" {geom} friction="0.6 0.35 0.4"/></body>"""
MOTORS = "".join(f'<motor joint="{name}" gear="1 0.5 0 0.01 0.02 0.05"/>' for name in ("ball", "rod", "box"))


def pushed(
    cone: str,
    *,
    softness: str = 'solimp="0.7 0.95 0.02 0.4 2"',
    condim: int = 3,
    floor: str = "",
    option: str = "",
    tilt: str = "4 -6 0",
    worlds: int = 1,
) -> pb.Articulated:
    geom = f'condim="{condim}" {softness}'
    world = PUSHED.format(geom=geom, floor=f'friction="0.3 0.005 0.005" {floor}', tilt=tilt)
    rest = f"<actuator>{MOTORS}</actuator>"
    return pb.Articulated(pb.load(scene(world, option=f'cone="{cone}" {option}', rest=rest)), worlds=worlds)


def kicked(state: pb.State, seed: int, *, along: float = 1.0, up: float = 0.1) -> pb.State:
    """At random velocities, so that bodies slide, spin and roll."""
    rng = np.random.default_rng(seed)
    return pb.State(state.q, state.v + rng.normal(size=state.v.shape) * np.tile([along, along, up, 2, 2, 2], 3))


def settled(system: pb.Articulated, control: np.ndarray, steps: int = 600) -> pb.State:
    controls = np.tile(control, (steps, system.worlds, 1))
    return pb.rollout(system, system.state(), controls, checkpoint_every=steps).final


SATISFIED, STICKS, SLIDES = 0, 1, 4  # states of a row in MuJoCo


def regimes(system: pb.Articulated, state: pb.State, control: np.ndarray) -> set[str]:
    """What the contacts of world 0 do, by MuJoCo's solver: "sticks", "slides" or "lifts"."""
    m = precise(system.model.mujoco)
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.ctrl[:] = state.q[0], state.v[0], control
    mujoco.mj_forward(m, data)
    found = set()
    for k in range(data.ncon):
        contact = data.contact[k]
        rows = data.efc_state[contact.efc_address :][: 2 * (contact.dim - 1) if m.opt.cone == 0 else 1]
        if np.all(rows == SATISFIED):
            found.add("lifts")
        else:
            found.add("sticks" if np.all(rows == STICKS) else "slides")
    return found


PUSH = np.array([1.0, -0.8, 0.9])


@each_cone
def test_at_rest(cone):
    system = pushed(cone, tilt="0 0 0")
    state = settled(system, np.zeros(3))
    assert np.abs(state.v).max() < 1e-6
    assert regimes(system, state, np.zeros(3)) == {"sticks"}
    check(system, state, np.zeros((1, 3)), matter=(*STATE, "control", *SHAPES, "solref", "solimp", "mass"))


@each_cone
@pytest.mark.parametrize("condim", [3, 4, 6])
def test_sticking(cone, condim):
    """Pushed, but not hard enough."""
    system = pushed(cone, condim=condim)
    state = settled(system, PUSH)
    assert "sticks" in regimes(system, state, PUSH)
    check(system, state, PUSH[None], matter=(*STATE, "control", *SHAPES, "solref", "solimp", "mass", "com"))


@each_cone
@pytest.mark.parametrize("condim", [1, 3, 4, 6])
def test_sliding(cone, condim):
    """Spinning and rolling are resisted too where the contact has rows for it."""
    system = pushed(cone, condim=condim)
    state = kicked(settled(system, np.zeros(3)), condim, along=0.1 if condim > 3 else 1.0, up=0.02)
    assert "slides" in regimes(system, state, PUSH) or condim == 1
    matter = (*STATE, "control", *SHAPES, "solref", "solimp", *BODIES)
    rubbing = ("friction",)
    check(
        system,
        state,
        PUSH[None],
        matter=matter + (rubbing if condim > 1 else ()),
        idle=() if condim > 1 else rubbing,
    )
    if condim > 3:  # every sort of friction: sliding, torsion and, with six rows, rolling
        bars = system.pullback(state, PUSH[None], pb.State(np.zeros((1, 21)), np.ones((1, 18))))
        assert np.all(np.any(bars.params.friction != 0, axis=0)[: condim // 2])


@each_cone
def test_lifting_off(cone):
    """Faster than the spring pushes: contacts are there, some of them without a force."""
    system = pushed(cone)
    start = settled(system, np.zeros(3))
    for speed in (0.3, 3.0):
        state = pb.State(start.q, start.v + speed * np.tile([0.1, 0, 1, 0.3, 0.2, 0.1], 3))
        found = regimes(system, state, PUSH)
        assert "lifts" in found
        check(system, state, PUSH[None], matter=(*STATE, "control", "mass", "com", "inertia"))


@each_cone
def test_inside_the_margin(cone):
    """Bodies that hover above the floor, coming down: contacts push before they touch."""
    system = pushed(cone, floor='margin="0.1"')
    start = system.state()
    state = pb.State(start.q + np.tile([0, 0, 0.08, 0, 0, 0, 0], 3), start.v + np.tile([3, 1, -0.5, 1, 0.5, 2], 3))
    assert "lifts" not in regimes(system, state, PUSH)
    check(system, state, PUSH[None], matter=(*STATE, "control", *SHAPES, *MATERIALS, *BODIES))


def test_both_sides_of_touching_down():
    """Just above the floor nothing matters but the fall; just below, the contact does."""
    xml = scene(
        '<geom type="plane" size="1 1 1"/><body><freejoint/><geom size="0.1" mass="1"/></body>',
        default='<geom solimp="0.6 0.9 0.02 0.5 2"/>',
    )
    system = at.uneven(pb.Articulated(pb.load(xml)))
    for height, touches in ((0.1 + 1e-4, False), (0.1 - 1e-4, True)):
        state = system.state([0, 0, height, 1, 0, 0, 0], [0.3, 0.1, -1, 1, 2, 3])
        report = pb.check_system(system, state, steps=(1e-5, 1e-6, 1e-7))
        assert (report["friction"].largest > 0) == touches
        assert (report["geom_size"].largest > 0) == touches


# solref, solimp, margins and pairs


SOFTNESS = {
    "direct": 'solref="-800 -25" solimp="0.7 0.95 0.02 0.4 2"',
    "linear": 'solimp="0.5 0.9 0.02 0.5 1"',
    "power": 'solimp="0.4 0.9 0.03 0.6 3.5"',
    "flat": 'solimp="0.8 0.8 0.02 0.5 2"',
}


@each_cone
@pytest.mark.parametrize("softness", SOFTNESS)
def test_softness(cone, softness):
    system = pushed(cone, softness=SOFTNESS[softness], option='impratio="3"')
    state = kicked(settled(system, np.zeros(3)), 1)
    # the power is at its bound where it is one
    matter = (*STATE, *SHAPES, *MATERIALS) if softness != "linear" else (*STATE, *SHAPES, "friction", "solref")
    # of two surfaces the smaller number of a direct solref counts, and these are the same
    check(system, state, matter=matter, kinks=("solref",) if softness == "direct" else ())
    bars = system.pullback(state, None, pb.State(np.zeros((1, 21)), np.ones((1, 18)))).params
    assert np.all(np.any(bars.solref != 0, axis=0))
    assert np.all(np.any(bars.solimp != 0, axis=0)[:2])


@each_cone
def test_explicit_pairs(cone):
    xml = scene(
        """<geom name="floor" type="plane" size="1 1 1" pos="0 0 0.012"/>
        <body pos="0 0 0.1"><joint type="free" armature="0.01"/><geom name="ball" size="0.1"/></body>
        <body pos="0.19 0.02 0.1"><joint type="free" armature="0.01"/><geom name="other" size="0.1"/></body>""",
        option=f'cone="{cone}"',
        rest="""<contact><pair geom1="floor" geom2="ball" condim="6" friction="0.8 0.4 0.05 0.02 0.03" solref="0.03 0.9"
          solreffriction="0.05 1.3" solimp="0.6 0.9 0.02 0.5 2"/>
        <pair geom1="ball" geom2="other" condim="4" friction="0.5 0.7 0.03 0 0" solref="-900 -30" margin="0.02"/>
        </contact>""",
    )
    system = pb.Articulated(pb.load(xml))
    state = system.state(None, [0.5, 0.2, -0.3, 1, 2, 3, -0.4, 0.3, 0.1, -2, 1, 1])
    names = ("pair_friction", "pair_solref", "pair_solimp")
    check(system, state, matter=(*STATE, *SHAPES, *names))


# limits and friction loss

JOINT = 'armature="0.02" damping="0.03" solimplimit="0.6 0.95 0.05 0.4 2"'


@pytest.mark.parametrize("joint", ["", 'margin="0.05"', 'solreflimit="-600 -20"'], ids=["plain", "margin", "direct"])
def test_limits(joint):
    """A hinge, a slide and a ball joint beyond their limits, moving in, out and along."""
    system = pb.Articulated(pb.load(limits(f"{JOINT} {joint}")), worlds=4)
    rng = np.random.default_rng(0)
    q = np.tile(system.model.q0, (4, 1))
    q[:, 0], q[:, 1], q[:, 6] = [-0.4, 0.6, -0.4, 0.6], [0.13, 0.11, -0.06, -0.08], [-0.3, 0.4, 0.4, -0.3]
    axis = rng.normal(size=(4, 3))
    q[:, 3:6] = 0.4 * axis / np.linalg.norm(axis, axis=1, keepdims=True)  # 0.82 rad, beyond 40 degrees
    q[:, 2] = np.sqrt(1 - 0.16)
    for speed in (0.0, 0.3):
        state = system.state(q, speed * rng.normal(size=(4, 6)))
        names = ("joint_range", "limit_solref", "limit_solimp")
        check(system, state, matter=(*STATE, *names, "mass", "com", "inertia", "armature"))
        bars = system.pullback(state, None, pb.State(np.zeros((4, 7)), rng.normal(size=(4, 6))))
        assert np.all(np.any(bars.params.joint_range != 0, axis=1))  # each joint's limit pushed in some world


def test_friction_loss_held_and_moving():
    system = pb.Articulated(pb.load(limits(f'{JOINT} frictionloss="0.3"')), worlds=2)
    v = np.zeros((2, 6))
    v[1] = [1, -1, 2, 1, -1, 2]
    q = np.tile(system.model.q0, (2, 1))
    q[:, :2] = 0.05
    report = check(system, system.state(q, v), matter=(*STATE, "frictionloss", *BODIES))
    assert report["frictionloss"].entries == 6
    held = pb.Articulated(pb.load(limits(f'{JOINT} frictionloss="90"')))
    check(held, held.state(q[0]), matter=(*STATE,), idle=("frictionloss",))


# robots, worlds and integrators


def crowded(m: mujoco.MjModel, least: int, seed: int = 1):
    """The state, of those that a motion passes through, that has the most contacts; at least so many."""
    states = lived_states(m, np.random.default_rng(seed), 12, kick=0.2)
    data, counts = mujoco.MjData(m), []
    for q in states[0]:
        data.qpos[:] = q
        mujoco.mj_forward(m, data)
        counts.append(data.ncon)
    assert max(counts) >= least
    return tuple(x[[np.argmax(counts)]] for x in states)


@pytest.mark.parametrize(
    "cone, integrator",
    [("pyramidal", "Euler"), ("elliptic", "Euler"), ("pyramidal", "implicitfast"), ("elliptic", "implicit")]
    + [("elliptic", "RK4")],
)
def test_arms_that_touch(cone, integrator):
    joint = '<joint armature="0.02" damping="0.1"/><geom solimp="0.6 0.95 0.02 0.5 2"/>'
    model = pb.load(scene(ARMS, option=f'cone="{cone}" integrator="{integrator}"', default=joint))
    q, v, _ = crowded(model.mujoco, 1)
    system = at.uneven(pb.Articulated(model))
    check(system, system.state(q, v), matter=(*STATE, *SHAPES, *BODIES, "solref", "solimp", "body_pos", "joint_axis"))


@pytest.mark.parametrize("integrator", ["implicitfast", "implicit", "RK4"])
def test_free_bodies_with_other_integrators(integrator):
    system = pushed("pyramidal", condim=4, option=f'integrator="{integrator}"')
    state = kicked(settled(system, np.zeros(3)), 2)
    check(system, state, PUSH[None], matter=(*STATE, "control", *SHAPES, *MATERIALS, *BODIES))


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_in_a_fluid(integrator):
    system = pushed("elliptic", option=f'integrator="{integrator}" density="200" viscosity="1" wind="1 0.5 0"')
    state = kicked(settled(system, np.zeros(3), 100), 3)
    fluid = ("fluid_density", "fluid_viscosity", "fluid_box", "wind")
    check(system, state, PUSH[None], matter=(*STATE, "control", *SHAPES, *MATERIALS, *BODIES, *fluid))


def test_many_contacts_at_once():
    model = pb.load(scene(BOXES, default='<geom solimp="0.6 0.95 0.02 0.5 2"/>', option='cone="elliptic"'))
    q, v, _ = crowded(model.mujoco, 8)
    system = at.uneven(pb.Articulated(model))
    check(system, system.state(q, v), matter=(*STATE, *SHAPES, "mass", "com", "solref", "solimp"))


@pytest.mark.parametrize("robot", ["ant", "walker2d"])
def test_gymnasium_robots(robot):
    model = pb.load(gymnasium_robot(robot), ignore=("tendon",))
    q, v, controls = crowded(model.mujoco, 1)
    system = at.uneven(pb.Articulated(model))
    # time constants of some of these lie at two timesteps, a kink
    for name in ("solref", "limit_solref"):
        system.params[name] = system.params[name] * 1.3
    check(system, system.state(q, v), controls, matter=(*STATE, "control", "solref", "solimp", "mass", "geom_size"))


def test_a_parameter_a_world():
    worlds = 3
    system = pushed("elliptic", worlds=worlds)
    rng = np.random.default_rng(6)
    for name in ("friction", "geom_size", "solref", "solimp", "mass", "geom_pos"):
        value = system.params[name]
        system.params[name] = value * rng.uniform(0.9, 1.1, (worlds, *value.shape))
    state = kicked(settled(system, np.zeros(3), 300), 6)
    control = np.tile(PUSH, (worlds, 1))
    names = ("friction", "geom_size", "solref", "solimp", "mass", "geom_pos")
    check(system, state, control, matter=names)
    bars = system.pullback(state, control, pb.State(np.ones((worlds, 21)), np.ones((worlds, 18))))
    alone = pushed("elliptic")
    for world in range(worlds):
        params = {name: system.params[name][world] for name in names}
        one = alone.pullback(
            pb.State(state.q[[world]], state.v[[world]]),
            control[[world]],
            pb.State(np.ones((1, 21)), np.ones((1, 18))),
            params,
        )
        np.testing.assert_array_equal(bars.state.q[world], one.state.q[0])
        for name in names:
            np.testing.assert_array_equal(bars.params[name][world], one.params[name], err_msg=name)


# rollouts


def test_a_rollout():
    system = pushed("elliptic", condim=4)
    state = kicked(settled(system, np.zeros(3)), 9)
    check(system, state, PUSH[None], rollout_steps=8, matter=(*STATE, "control", *SHAPES, *MATERIALS, *BODIES))


def test_checkpoints_do_not_change_a_bit():
    at.assert_checkpoints_change_nothing("model")


def test_runs_are_the_same_bit_for_bit():
    at.assert_deterministic("model")


def test_worlds_do_not_know_of_each_other():
    at.assert_worlds_apart("model")


def test_without_parameters_the_other_gradients_are_the_same_bits():
    at.assert_params_are_optional("model", accuracy=0.0)


def test_single_precision_agrees_with_double():
    at.assert_single_precision_is_near("model", 0.02)


def test_linearize_is_the_pullback_of_unit_cotangents():
    system = pushed("elliptic")
    at.assert_linearize_is_the_pullback((system, settled(system, PUSH, 200), PUSH[None]))


def test_torch_checks_the_gradient_itself():
    import torch

    import pullback.torch as pbt

    system = pushed("elliptic")
    start = settled(system, np.zeros(3))
    kick = np.tile([0.7, 0.4, 0.02, 1, 1, 1], 3)
    given = [start.q, start.v + kick, np.tile(PUSH, (2, 1, 1)), system.params["friction"]]
    inputs = [torch.tensor(np.array(x), requires_grad=True) for x in given]

    def run(q, v, controls, friction):
        return pbt.rollout(system, q, v, controls, params={"friction": friction})

    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-6, rtol=1e-5)
