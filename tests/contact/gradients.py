"""Places to check gradients at, for any contact model: bodies that rest, stick, slide and part, robots, limits."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
from scenes import ARMS, BOXES, limits, scene
from trees import lived_states

import pullback as pb
from pullback.rollout.check import AGREES

# Some short enough not to leave a piece of a motion that is smooth only piece by piece, some long enough to lift small
# gradients of parameters above rounding: the best counts.
STEPS = (1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7)
TOLERANCE = 1e-7
# Gradients of parameters are often small beside the velocities whose rounding hides them. Found: about 1e-6 at most.
PARAMETERS = 5e-6
STATE, SHAPES = ("q", "v"), ("geom_pos", "geom_quat", "geom_size")
BODIES = ("mass", "com", "inertia", "armature", "damping")
# Nothing that is compared may be zero, or as good as that.
LEAST = 1e-9

Place = tuple[pb.Articulated, pb.State, np.ndarray | None]


def check(system, state, control=None, *, matter=(), idle=(), tolerance=PARAMETERS, **options):
    """check_system raises where a gradient is wrong. What matters must have one that is not zero, the idle must not.

    Those of the state and of controls are held to TOLERANCE; ``tolerance`` is that of parameters.
    """
    report = pb.check_system(system, state, control, tolerance=tolerance, **{"steps": STEPS, **options})
    for row in report.rows:
        if row.field in (*STATE, "control"):
            assert row.error <= max(TOLERANCE, 0.1 * tolerance), row
    for name in matter:
        assert report[name].status == AGREES and report[name].largest > LEAST, f"{name}: {report[name]}"
    for name in idle:
        assert report[name].largest == 0, f"{name} matters"
    return report


def uneven(system: pb.Articulated, seed: int = 0) -> pb.Articulated:
    """The larger of two coefficients that are the same is a kink: make those of all shapes differ."""
    rng = np.random.default_rng(seed)
    names = ("friction", "pair_friction", "restitution", "contact_stiffness", "contact_dissipation")
    for name in (*names, "limit_stiffness", "limit_dissipation"):
        if name in system.params:
            value = system.params[name]
            system.params[name] = value * rng.uniform(0.8, 1.2, value.shape)
    return system


# Free bodies on a floor that leans, pushed and turned by motors. Armature and damping are not at their bound, zero.
FREE = """
  <geom type="plane" size="9 9 1" pos="0 0 0.01" euler="4 -6 0" friction="0.3" {floor}/>
  <body pos="0 0 0.11"><joint name="ball" type="free" armature="0.01" damping="0.05"/>
    <geom size="0.1" pos="0.01 0 0" mass="1" friction="0.7" {geom}/></body>
  <body pos="1 0 0.165" euler="90 0 20"><joint name="rod" type="free" armature="0.01" damping="0.05"/>
    <geom type="capsule" size="0.05 0.1" mass="1" friction="0.8" {geom}/></body>
  <body pos="2 0 0.27" euler="4 -6 0"><joint name="box" type="free" armature="0.01" damping="0.05"/>
    <geom type="box" size="0.1 0.08 0.05" mass="1" friction="0.6" {geom}/></body>"""
MOTORS = "".join(f'<motor joint="{name}" gear="1 0.5 0 0.01 0.02 0.05"/>' for name in ("ball", "rod", "box"))
PUSH = np.array([1.0, -0.8, 0.9])


def free_bodies(contact, *, floor: str = "", geom: str = "", option: str = "", worlds: int = 1) -> pb.Articulated:
    world = FREE.format(floor=floor, geom=geom)
    xml = scene(world, option=option, rest=f"<actuator>{MOTORS}</actuator>")
    return uneven(pb.Articulated(pb.load(xml), contact, worlds=worlds))


def settled(system: pb.Articulated, control: np.ndarray, steps: int = 400) -> pb.State:
    """Free bodies after a while, pressed in by a millimetre: farther than finite differences move them."""
    controls = np.tile(control, (steps, system.worlds, 1))
    final = pb.rollout(system, system.state(), controls, checkpoint_every=steps).final
    return pb.State(final.q - np.tile([0, 0, 1e-3, 0, 0, 0, 0], system.nq // 7), final.v)


def kicked(state: pb.State, size, seed: int = 0) -> pb.State:
    """The same place at other velocities; ``size`` of each of the six numbers of a free body."""
    rng = np.random.default_rng(seed)
    return pb.State(state.q, state.v + rng.normal(size=state.v.shape) * np.tile(size, state.v.shape[1] // 6))


def at_rest(contact, **options) -> Place:
    system = free_bodies(contact, **options)
    return system, settled(system, np.zeros(3)), np.zeros((1, 3))


def pushed(contact, **options) -> Place:
    """Pushed, but the box does not slide."""
    system = free_bodies(contact, **options)
    return system, settled(system, PUSH, 200), PUSH[None]


def sliding(contact, steps: int = 150, **options) -> Place:
    system = free_bodies(contact, **options)
    state = kicked(settled(system, np.zeros(3), steps), [1, 1, 0.02, 9, 9, 9])
    return system, state, PUSH[None]


def parting(contact, **options) -> Place:
    system = free_bodies(contact, **options)
    start = settled(system, np.zeros(3), 100)
    return system, pb.State(start.q, start.v + np.tile([0.1, 0, 0.3, 0.3, 0.2, 0.1], 3)), PUSH[None]


def in_the_margin(contact, **options) -> Place:
    """Above the floor and coming down: contacts push before surfaces touch."""
    system = free_bodies(contact, floor='margin="0.1"', **options)
    start = system.state()
    up = np.tile([0, 0, 0.02, 0, 0, 0, 0], 3)
    return (
        system,
        kicked(pb.State(start.q + up, start.v - np.tile([0, 0, 12, 0, 0, 0], 3)), [5, 5, 1, 2, 2, 2]),
        PUSH[None],
    )


def pile(contact, **options) -> Place:
    """Boxes on boxes: a dozen contacts at once."""
    model = pb.load(scene(BOXES, **options))
    q, v, _ = lived_states(model.mujoco, np.random.default_rng(4), 2, kick=0.2)
    system = uneven(pb.Articulated(model, contact, worlds=2))
    return system, system.state(q, v), None


def arms(contact, option: str = "") -> Place:
    """Two robots that touch each other, the floor and a ball."""
    model = pb.load(scene(ARMS, option=option, default='<joint armature="0.02" damping="0.1"/>'))
    q, v, _ = lived_states(model.mujoco, np.random.default_rng(1), 3)
    system = uneven(pb.Articulated(model, contact, worlds=3))
    return system, system.state(q, v), None


# A trunk that floats with two legs of two joints each, which cross; and a hand on a ball joint that touches the trunk.
CROSSED = """
  <geom type="plane" size="9 9 1" friction="0.5"/>
  <body pos="0 0 0.485"><joint type="free" armature="0.01" damping="0.05"/>
    <geom type="capsule" size="0.08 0.1" euler="0 90 0" mass="2" friction="0.6"/>
    <body pos="0.1 0.05 -0.05"><joint name="a" axis="0 1 0"/><joint name="b" axis="1 0 0"/>
      <geom type="capsule" fromto="0 0 0 -0.1 0 -0.2" size="0.04" mass="0.5" friction="0.7"/>
      <body pos="-0.1 0 -0.2"><joint name="c" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 -0.02 -0.05 -0.215" size="0.03" mass="0.3" friction="0.8"/></body></body>
    <body pos="-0.1 -0.04 -0.05"><joint name="d" axis="0 1 0"/><joint name="e" axis="1 0 0"/>
      <geom type="capsule" fromto="0 0 0 0.1 0.02 -0.2" size="0.04" mass="0.5" friction="0.9"/>
      <body pos="0.1 0.02 -0.2"><joint name="f" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.03 0.02 -0.215" size="0.03" mass="0.3" friction="0.65"/></body></body>
    <body pos="0 0.2 0.05"><joint type="slide" axis="0 0 1"/><geom size="0.02" mass="0.1" contype="0" conaffinity="0"/>
      <body><joint type="ball"/><geom type="capsule" fromto="0 0 0 0.02 -0.08 -0.03" size="0.035" mass="0.2"/></body>
    </body></body>"""


def self_contact(contact, option: str = "") -> Place:
    """Bodies of one tree against each other: legs that cross, a hand on the trunk; and both feet on the floor."""
    servo = "".join(f'<position joint="{j}" kp="5"/>' for j in "abcdef")
    default = '<joint armature="0.02" damping="0.1"/>'
    xml = scene(CROSSED, option=option, default=default, rest=f"<actuator>{servo}</actuator>")
    system = uneven(pb.Articulated(pb.load(xml), contact, worlds=2))
    state, rng = crossed_state(system, 3)
    return system, state, 0.1 * rng.normal(size=(2, 6))


def crossed_state(system: pb.Articulated, seed: int) -> tuple[pb.State, np.random.Generator]:
    """Near the home pose, where no edge or end of a shape is exactly beside another."""
    rng = np.random.default_rng(seed)
    q = system.model.q0 + 0.01 * rng.normal(size=(system.worlds, system.nq)) * (np.arange(system.nq) > 2)
    return system.state(q, 0.3 * rng.normal(size=(system.worlds, system.nv))), rng


def touching_bodies(system: pb.Articulated, state: pb.State) -> set[tuple[int, int]]:
    """Which bodies touch in world 0, by MuJoCo."""
    m = system.model.mujoco
    data = mujoco.MjData(m)
    data.qpos[:] = state.q[0]
    mujoco.mj_forward(m, data)
    return {tuple(sorted(map(int, m.geom_bodyid[pair]))) for pair in data.contact.geom}


def at_limits(contact, joint: str = "", speed: float = 0.3, option: str = "") -> Place:
    """A hinge, a slide, a ball joint and a hinge, beyond their limits, moving in, out and along."""
    model = pb.load(limits(f'armature="0.02" damping="0.03" {joint}', option=option))
    system = uneven(pb.Articulated(model, contact, worlds=4))
    rng = np.random.default_rng(0)
    q = np.tile(model.q0, (4, 1))
    q[:, 0], q[:, 1], q[:, 6] = [-0.4, 0.6, -0.4, 0.6], [0.12, 0.12, -0.07, -0.07], [-0.3, 0.4, 0.4, -0.3]
    axis = rng.normal(size=(4, 3))
    q[:, 3:6] = 0.4 * axis / np.linalg.norm(axis, axis=1, keepdims=True)  # 0.82 rad, beyond 40 degrees
    q[:, 2] = np.sqrt(1 - 0.16)
    return system, system.state(q, speed * rng.normal(size=(4, 6))), None


def with_losses(contact, loss: float, v, option: str = "") -> Place:
    model = pb.load(limits(f'armature="0.02" damping="0.03" frictionloss="{loss}"', option=option))
    system = pb.Articulated(model, contact)
    q = np.array(model.q0)
    q[:2] = 0.05
    return system, system.state(q, v), None


# Servos whose gain and bias depend on velocity: implicitfast takes that part, and damping, at the end of the step.
SERVOS = """<actuator>
  <general joint="a" gear="1.5" gaintype="affine" biastype="affine" gainprm="2 0.3 -0.8" biasprm="0.1 -5 -1.5"/>
  <velocity joint="b" kv="2"/><velocity joint="c" kv="1"/><position joint="d" kp="20" kv="1"/>
  <general joint="e" gear="0.7" gaintype="affine" biastype="affine" gainprm="1 0.1 0.5" biasprm="0 -1 -2"/>
  </actuator>"""


def servoed(contact, integrator: str) -> Place:
    option = f'integrator="{integrator}"'
    xml = scene(CROSSED, option=option, default='<joint armature="0.02" damping="0.4"/>', rest=SERVOS)
    system = uneven(pb.Articulated(pb.load(xml), contact))
    state, rng = crossed_state(system, 6)
    return system, state, rng.normal(size=(1, 5))


PAIRS = """<contact>
  <pair geom1="floor" geom2="ball" condim="3" friction="0.8 0.8 0.05 0.02 0.03"/>
  <pair geom1="ball" geom2="other" condim="3" friction="0.5 0.5 0.03 0 0" margin="0.02"/></contact>"""


def explicit_pairs(contact) -> Place:
    world = """<geom name="floor" type="plane" size="1 1 1" pos="0 0 0.01"/>
      <body pos="0 0 0.1"><joint type="free" armature="0.01"/><geom name="ball" size="0.1"/></body>
      <body pos="0.19 0.02 0.1"><joint type="free" armature="0.01"/><geom name="other" size="0.1"/></body>"""
    system = uneven(pb.Articulated(pb.load(scene(world, rest=PAIRS)), contact))
    return system, system.state(None, [5.0, 0.2, -0.3, 1, 9, 3, -0.4, 3, 0.1, -2, 1, 30]), None


# --- rollouts: what must hold to the last bit ----------------------------------------------------------


def motion(contact, worlds: int = 4, steps: int = 25, **options):
    """Robots and a ball that tumble about: contacts begin, slide and end in every world."""
    model = pb.load(scene(ARMS, default='<joint armature="0.02" frictionloss="0.05"/>'))
    q, v, _ = lived_states(model.mujoco, np.random.default_rng(7), worlds)
    system = pb.Articulated(model, contact, worlds=worlds, **options)
    rng = np.random.default_rng(8)
    shape = (steps + 1, worlds)
    bars = {"q_bar": rng.normal(size=(*shape, model.nq)), "v_bar": rng.normal(size=(*shape, model.nv))}
    return system, system.state(q, v), np.zeros((steps, worlds, 0)), bars


def flat(bars) -> dict[str, np.ndarray]:
    return {"q": bars.state.q, "v": bars.state.v, **bars.params}


def assert_same_bits(found: dict, exact: dict) -> None:
    assert set(found) == set(exact)
    for name, value in exact.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def assert_checkpoints_change_nothing(contact) -> None:
    system, state, controls, bars = motion(contact)
    last = {name: bar[-1] for name, bar in bars.items()}
    end = flat(pb.rollout(system, state, controls).pullback(**last))
    assert np.abs(end["friction"]).max() > 0
    for every in (1, 7, 25):
        run = pb.rollout(system, state, controls, checkpoint_every=every)
        assert_same_bits(flat(run.pullback(**last)), end)


def assert_deterministic(contact) -> None:
    first, second = (motion(contact) for _ in range(2))
    results = [pb.rollout(system, state, controls) for system, state, controls, _ in (first, second)]
    np.testing.assert_array_equal(results[0].q, results[1].q)
    grads = [flat(run.pullback(**one[3])) for run, one in zip(results, (first, second), strict=True)]
    assert_same_bits(*grads)
    # and a System that has worked before: nothing of earlier motions is left in its workspace
    again = pb.rollout(first[0], *first[1:3])
    assert_same_bits(flat(again.pullback(**first[3])), grads[1])


def assert_worlds_apart(contact) -> None:
    system, state, controls, bars = motion(contact, threads=1)
    run = pb.rollout(system, state, controls)
    together = run.pullback(**bars)
    other = pb.Articulated(system.model, contact)
    total = 0.0
    for world in range(4):
        alone = pb.rollout(other, pb.State(state.q[[world]], state.v[[world]]), controls[:, [world]])
        np.testing.assert_array_equal(alone.q[:, 0], run.q[:, world])
        one = alone.pullback(**{name: bar[:, [world]] for name, bar in bars.items()})
        np.testing.assert_array_equal(one.state.q[0], together.state.q[world])
        np.testing.assert_array_equal(one.state.v[0], together.state.v[world])
        total = total + one.params.friction
    np.testing.assert_allclose(together.params.friction, total, rtol=1e-12, atol=1e-12 * np.abs(total).max())


def assert_params_are_optional(contact, *, accuracy: float = 1e-11) -> None:
    system, state, controls, bars = motion(contact)
    run = pb.rollout(system, state, controls)
    part, full = run.pullback(**bars, wants_params=False), run.pullback(**bars)
    assert np.abs(full.state.q).max() > 0 and not part.params
    np.testing.assert_allclose(part.state.q, full.state.q, rtol=accuracy, atol=accuracy)
    np.testing.assert_allclose(part.state.v, full.state.v, rtol=accuracy, atol=accuracy)


def assert_no_axis_is_no_harm(contact) -> None:
    """Was wrong: the gradient divided by the angle of a ball joint, which is zero in its home pose: NaN, and no error.

    Within the margin of its limit, that is: there the limit has a row, and only then an axis is asked for.
    """
    joint = '<joint type="ball" range="0 1" margin="0.05"/>'
    system = pb.Articulated(
        pb.load(scene(f'<body>{joint}<geom size="0.1" pos="0.3 0 0" contype="0"/></body>')), contact
    )
    state = system.state()
    assert np.all(np.isfinite(system.step(state).v))
    bars = system.pullback(state, None, pb.State(np.ones((1, 4)), np.ones((1, 3))))
    assert np.all(np.isfinite(bars.state.q)) and np.all(np.isfinite(bars.state.v))
    assert np.abs(bars.state.q).max() > 0 and np.abs(bars.state.v).max() > 0


def assert_a_parameter_a_world(contact, names: tuple[str, ...]) -> None:
    """Gradients of three sets of parameters at once, against differences and against each world alone."""
    worlds = 3
    make: Callable = lambda n: free_bodies(contact, worlds=n)  # noqa: E731
    system, alone = make(worlds), make(1)
    rng = np.random.default_rng(6)
    for name in names:
        value = alone.params[name]
        system.params[name] = value * rng.uniform(0.9, 1.1, (worlds, *value.shape))
    state = kicked(settled(system, np.zeros(3), 100), [1, 1, 0.1, 2, 2, 2])
    control = np.tile(PUSH, (worlds, 1))
    check(system, state, control, matter=names, names=names)
    bars = system.pullback(state, control, pb.State(np.ones((worlds, 21)), np.ones((worlds, 18))))
    for world in range(worlds):
        params = {name: system.params[name][world] for name in names}
        bar = pb.State(np.ones((1, 21)), np.ones((1, 18)))
        one = alone.pullback(pb.State(state.q[[world]], state.v[[world]]), control[[world]], bar, params)
        np.testing.assert_array_equal(bars.state.q[world], one.state.q[0])
        for name in names:
            np.testing.assert_array_equal(bars.params[name][world], one.params[name], err_msg=name)


def assert_single_precision_is_near(contact, share: float) -> None:
    found = {}
    for dtype in ("float64", "float32"):
        system, state, controls, bars = motion(contact, steps=5, dtype=dtype)
        found[dtype] = flat(pb.rollout(system, state, controls).pullback(**bars))
        assert all(x.dtype == dtype for x in found[dtype].values())
    for name, exact in found["float64"].items():
        if np.any(exact):
            assert np.abs(found["float32"][name] - exact).max() < share * np.abs(exact).max(), name


def assert_linearize_is_the_pullback(place: Place) -> None:
    system, state, control = place
    A, B = system.linearize(state, control)
    nq, nv = system.nq, system.nv
    for row in (0, nv // 2, nv - 1):
        bar = np.zeros((1, nv))
        bar[0, row] = 1
        bars = system.pullback(state, control, pb.State(np.zeros((1, nq)), bar))
        scale = np.abs(A[0]).max()
        np.testing.assert_allclose(A[0, nv + row, nv:], bars.state.v[0], rtol=1e-12, atol=1e-13 * scale)
        np.testing.assert_allclose(B[0, nv + row], bars.control[0], rtol=1e-12, atol=1e-13 * scale)
