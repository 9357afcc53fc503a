"""Motion under compliant contact, against closed forms: sag, bounces, sliding, creep, stiff surfaces, limits."""

import numpy as np
import pytest
from scenes import gymnasium_robot, limits, scene

import pullback as pb

G = 9.81
FLOOR = '<geom name="floor" type="plane" size="9 9 1" friction="{}"/>'
BALL = '<body name="ball"><freejoint/><geom name="ball" size="0.1" mass="2" friction="{}"/></body>'
BLOCK = (
    '<body name="block"><freejoint/><geom name="block" type="box" size="0.1 0.1 0.02" mass="1.5" friction="{}"/></body>'
)


def compliant(world: str, *, option: str = "", rest: str = "", timestep=0.002, **settings) -> pb.Articulated:
    xml = scene(world, option=option, rest=rest, timestep=timestep)
    return pb.Articulated(pb.load(xml), contact=pb.ContactCompliant(**settings))


def run(system, q, v=None, *, steps: int, control=None, params=None):
    controls = np.tile(np.zeros(system.nu) if control is None else control, (steps, system.worlds, 1))
    return pb.rollout(system, system.state(q, v), controls, params=params)


def place(*x) -> np.ndarray:
    return np.array([*x, 1, 0, 0, 0])


def energy(system: pb.Articulated, motion) -> np.ndarray:
    """Kinetic and potential, of free bodies whose centre is their origin, without that of the surface."""
    m = system.model.mujoco
    total = np.zeros(len(motion.q))
    for i in range(system.nv // 6):
        mass, inertia = m.body_mass[i + 1], m.body_inertia[i + 1]
        v = motion.v[:, 0, 6 * i : 6 * i + 6]
        total += 0.5 * mass * np.sum(v[:, :3] ** 2, axis=1) + 0.5 * np.sum(inertia * v[:, 3:] ** 2, axis=1)
        total += mass * G * motion.q[:, 0, 7 * i + 2]
    return total


# along the normal


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize(("floor", "ball"), [(2e4, 2e4), (1e4, 6e4), (1e5, 1e3)])
def test_static_sag(floor, ball, integrator):
    """Two springs in series under the weight."""
    world = (FLOOR + BALL).replace("{}", "1")
    system = compliant(world, option=f'integrator="{integrator}"', contact_dissipation=2.0, timestep=0.001)
    params = {"contact_stiffness": np.array([floor, ball])}
    motion = run(system, place(0, 0, 0.1), steps=8000, params=params)
    sag = 0.1 - motion.q[-1, 0, 2]
    assert np.abs(motion.v[-1]).max() < 1e-4
    np.testing.assert_allclose(sag, 2 * G * (1 / floor + 1 / ball), rtol=1e-3)


def test_the_weight_of_everything_sinks_in_by_a_millimetre():
    system = compliant((FLOOR + BALL).replace("{}", "1"))
    motion = run(system, place(0, 0, 0.1), steps=4000)
    np.testing.assert_allclose(0.1 - motion.q[-1, 0, 2], 1e-3, rtol=1e-3)


def test_four_corners_share_the_weight():
    system = compliant((FLOOR + BLOCK).replace("{}", "1"), contact_stiffness=2e4)
    motion = run(system, place(0, 0, 0.02), steps=4000)
    np.testing.assert_allclose(0.02 - motion.q[-1, 0, 2], 1.5 * G / 4 / 1e4, rtol=1e-3)


def test_the_force_is_the_law():
    """One step of Runge-Kutta that is so short that the acceleration is the law's."""
    k, d, width, mass = 5e3, 0.7, 1e-4, 2.0
    world = (FLOOR + BALL).replace("{}", "0").replace("<geom", '<geom condim="1"')
    system = compliant(world, option='integrator="RK4"', timestep=1e-7, contact_stiffness=k,
                       contact_dissipation=d, smoothing=width)  # fmt: skip
    for depth in (2e-4, 1e-3, 1e-2):
        for speed in (-3.0, 0.0, 1.0, 2.0):
            state = system.state(place(0, 0, 0.1 - depth), [0, 0, speed, 0, 0, 0])
            force = mass * ((system.step(state).v[0, 2] - speed) / 1e-7 + G)
            expected = k / 2 * depth * max(0.0, 1 - d * speed)
            np.testing.assert_allclose(force, expected, rtol=1e-3, atol=1e-3)
    # no force beyond the smoothing
    far = system.state(place(0, 0, 0.1 + 1.01 * width))
    np.testing.assert_allclose(system.step(far).v[0, 2], -G * 1e-7, rtol=1e-9)
    near = system.state(place(0, 0, 0.1 + 0.9 * width))
    assert system.step(near).v[0, 2] > -G * 1e-7


@pytest.mark.parametrize("stiffness", [1e3, 1e5, 1e7])
@pytest.mark.parametrize("dissipation", [0.0, 0.3, 3.0])
def test_energy_never_grows_in_a_bounce(stiffness, dissipation):
    """Of a ball that falls with spin and bounces about; a surface gives back no more than it took."""
    system = compliant((FLOOR + BALL).replace("{}", "0.5"), contact_stiffness=stiffness,
                       contact_dissipation=dissipation)  # fmt: skip
    motion = run(system, place(0, 0, 0.6), [1.0, 0, 0, 0, 5, 3], steps=3000)
    total = energy(system, motion)
    apart = motion.q[:, 0, 2] > 0.1 + 1e-3  # nothing is stored in the surface
    heights = total[apart]
    assert len(heights) > 100
    assert np.all(np.diff(heights) <= 1e-9 * total[0])
    assert total.max() <= total[0] * (1 + 1e-9)


def test_dissipation_takes_energy():
    """A bounce is lower the larger the dissipation, and with none nearly as high as before."""
    tops = []
    for dissipation in (0.0, 0.1, 0.4, 1.5):
        system = compliant((FLOOR + BALL).replace("{}", "0"), option='integrator="RK4"', timestep=2e-4,
                           contact_dissipation=dissipation, contact_stiffness=2e4)  # fmt: skip
        height = run(system, place(0, 0, 0.4), steps=3200).q[:, 0, 2]
        low = int(np.argmin(height[:1700]))
        tops.append(height[low:].max() - 0.1)
    assert all(later < earlier for earlier, later in zip(tops[:-1], tops[1:], strict=True))
    np.testing.assert_allclose(tops[0], 0.3, rtol=2e-3)


@pytest.mark.parametrize("stiffness", [1e4, 1e5, 1e7, 1e9])
@pytest.mark.parametrize("speed", [0.1, 0.5, 0.9])
def test_a_surface_may_hold_back_but_does_not_turn_around(stiffness, speed):
    """To first order, a force at the end of a step in which a body parts pulls; never so far that it comes back."""
    system = compliant((FLOOR + BALL).replace("{}", "0"), option='gravity="0 0 0"', contact_stiffness=stiffness)
    motion = run(system, place(0, 0, 0.1 - 1.5e-4), [0, 0, speed, 0, 0, 0], steps=20)
    up, height = motion.v[:, 0, 2], motion.q[:, 0, 2]
    assert np.all(up > 0) and np.all(np.diff(height) > 0)
    apart = height > 0.1 + 1e-4
    assert apart[-1]
    assert np.all(up[apart] == up[-1])  # once apart, it is free


# friction


def stopping_distance(slip_speed: float, mu: float = 0.5, speed: float = 1.0, angle: float = 0.0) -> float:
    world = (FLOOR + BLOCK).replace("{}", str(mu))
    system = compliant(world, slip_speed=slip_speed, contact_dissipation=2.0)
    settled = run(system, place(0, 0, 0.02), steps=1000)
    v = [speed * np.cos(angle), speed * np.sin(angle), 0, 0, 0, 0]
    motion = run(system, settled.q[-1, 0], v, steps=700)
    return float(np.linalg.norm(motion.q[-1, 0, :2]))


def test_the_stopping_distance_comes_to_coulombs():
    exact = 1 / (2 * 0.5 * G)
    errors = [abs(stopping_distance(s) - exact) / exact for s in (0.1, 0.03, 0.01, 0.003)]
    # a step of 2 ms takes off a percent by itself
    assert all(later < earlier for earlier, later in zip(errors[:-1], errors[1:], strict=True)), errors
    assert errors[0] > 0.03 and errors[-1] < 0.01


def test_friction_is_the_same_in_every_direction():
    straight = stopping_distance(0.01)
    for angle in np.radians([30, 45, 120]):
        np.testing.assert_allclose(stopping_distance(0.01, angle=angle), straight, rtol=1e-3)


def test_creep_on_a_slope():
    """Friction balances the slope at the speed where it has that share of its strength."""
    mu, slip, angle = 0.8, 0.01, 0.3
    gravity = f'gravity="{G * np.sin(angle)} 0 {-G * np.cos(angle)}"'
    system = compliant((FLOOR + BLOCK).replace("{}", str(mu)), option=gravity, slip_speed=slip)
    speed = run(system, place(0, 0, 0.02), steps=3000).v[-1, 0, 0]
    share = np.tan(angle) / mu
    np.testing.assert_allclose(speed, slip * share / np.sqrt(1 - share**2), rtol=1e-2)


def test_above_the_friction_angle_it_slides():
    mu, angle = 0.3, 0.5
    gravity = f'gravity="{G * np.sin(angle)} 0 {-G * np.cos(angle)}"'
    system = compliant((FLOOR + BLOCK).replace("{}", str(mu)), option=gravity)
    motion = run(system, place(0, 0, 0.02 - 4e-4), steps=500)
    exact = G * (np.sin(angle) - mu * np.cos(angle)) * 0.002 * 500
    np.testing.assert_allclose(motion.v[-1, 0, 0], exact, rtol=0.02)


# stiffness


@pytest.mark.parametrize("stiffness", [1e7, 1e9])
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_stiff_surfaces_are_stable(stiffness, integrator):
    """At 1e7 N/m and 2 ms an explicit step would grow by k h²/m = 20 in each step."""
    world = (FLOOR + BLOCK + BALL).replace("{}", "0.7")
    system = compliant(world, option=f'integrator="{integrator}"', contact_stiffness=stiffness)
    q = np.concatenate([place(0, 0, 0.1), place(0.03, 0.02, 0.4)])
    q[3:7] = np.array([0.98, 0.1, 0.15, 0.05]) / np.linalg.norm([0.98, 0.1, 0.15, 0.05])
    motion = run(system, q, [0.5, 0, 0, 1, 2, 0, 0, 0, 0, 1, 1, 1], steps=1500)
    assert np.abs(motion.v).max() < 30
    assert np.abs(motion.v[-1, 0, :6]).max() < 1e-3  # the block rests; the ball may roll
    total = energy(system, motion)
    assert total.max() <= total[0] * (1 + 1e-6)
    bars = motion.pullback(q_bar=np.ones((1, 14)))
    assert all(np.all(np.isfinite(x)) for x in (bars.state.q, bars.state.v, *bars.params.values()))


# joints

PENDULUM = """<body><joint {}/><geom size="0.05" pos="0.5 0 0" mass="2" contype="0" conaffinity="0"/></body>"""


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize(
    ("joint", "load"),
    [
        ('axis="0 1 0" range="-30 20"', 0.5 * np.cos(np.radians(20))),
        ('type="slide" axis="0 0 -1" range="-0.2 0.1"', 1.0),
        ('type="ball" range="0 20"', 0.5 * np.cos(np.radians(20))),
    ],
    ids=["hinge", "slide", "ball"],
)
def test_a_joint_rests_on_its_limit(joint, load, integrator):
    """It turns into its limit by the moment of the weight over the stiffness."""
    system = compliant(PENDULUM.format(joint), option=f'integrator="{integrator}"', limit_stiffness=5e3,
                       limit_dissipation=5.0)  # fmt: skip
    motion = run(system, None, steps=5000)
    q = motion.q[-1, 0]
    value = 2 * np.arctan2(np.linalg.norm(q[1:]), q[0]) if len(q) == 4 else q[0]
    depth = value - system.model.mujoco.jnt_range[0, 1]
    np.testing.assert_allclose(depth, 2 * G * load / 5e3, rtol=0.02)


def test_limits_hold():
    model = pb.load(limits('damping="0.05" armature="0.01"', timestep=0.002))
    system = pb.Articulated(model, pb.ContactCompliant())
    q = run(system, None, np.random.default_rng(0).normal(size=6), steps=1500).q[:, 0]
    angle = 2 * np.arctan2(np.linalg.norm(q[:, 3:6], axis=1), np.abs(q[:, 2]))
    for values, (low, high) in zip((q[:, 0], q[:, 1], angle, q[:, 6]), model.mujoco.jnt_range, strict=True):
        assert values.min() > low - 0.05 and values.max() < high + 0.05
        assert values.min() < low or values.max() > high  # the limit was reached, and gave way


def lossy(timestep: float) -> pb.Articulated:
    world = '<body><joint name="j" axis="0 0 1" frictionloss="1.5"/><geom size="0.1" pos="0.5 0 0" mass="2"/></body>'
    motor = '<actuator><motor joint="j"/></actuator>'
    return compliant(world, rest=motor, joint_slip_speed=1e-3, timestep=timestep)


def test_friction_loss_brakes():
    """Against its bound; at the end of the step to first order it is a little beyond it, which shorter steps mend."""
    inertia = 2 * (0.25 + 0.4 * 0.01)
    errors = []
    for timestep in (2e-3, 2e-4):
        moved = run(lossy(timestep), [0.0], steps=int(0.4 / timestep), control=[3.0])
        errors.append(abs(moved.v[-1, 0, 0] / (1.5 / inertia * 0.4) - 1))
    assert errors[0] < 0.05 and errors[1] < 0.2 * errors[0]
    held = run(lossy(2e-3), [0.0], steps=500, control=[1.0])
    share = 1 / 1.5
    np.testing.assert_allclose(held.v[-1, 0, 0], 1e-3 * share / np.sqrt(1 - share**2), rtol=1e-3)


# robots


def test_a_robot_comes_to_rest():
    text = gymnasium_robot("ant").read_text()
    for integrator in ("Euler", "RK4"):
        xml = text.replace('integrator="RK4"', f'integrator="{integrator}"')
        system = pb.Articulated(pb.load(xml), pb.ContactCompliant())
        motion = pb.rollout(system, system.state(), steps=400)
        speed, height = np.abs(motion.v[:, 0]).max(axis=1), motion.q[:, 0, 2]
        assert speed.max() > 1 and speed[-1] < 0.1  # it fell, and lies
        assert 0.05 < height[-1] < height[0] - 0.1


# parameters


def test_settings_are_where_parameters_start():
    joint = '<body><joint range="-1 1" frictionloss="1"/><geom size="0.1" pos="3 0 0" mass="1"/></body>'
    system = compliant((FLOOR + BALL).replace("{}", "1") + joint)
    weight = 3 * G
    expected = {
        "contact_stiffness": np.full(3, 2 * weight / 1e-3),
        "contact_dissipation": np.full(3, 1.0),
        "smoothing": 1e-4,
        "slip_speed": 1e-2,
        "limit_stiffness": np.full(2, weight / 1e-2),
        "limit_dissipation": np.full(2, 1.0),
        "limit_smoothing": 1e-3,
        "joint_slip_speed": 1e-2,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(system.params[name], value, err_msg=name)
    other = compliant((FLOOR + BALL).replace("{}", "1"), contact_stiffness=7.0, smoothing=0.5)
    assert np.all(other.params.contact_stiffness == 7) and other.params.smoothing == 0.5
    assert "limit_stiffness" not in other.params and "frictionloss" not in other.params


def test_without_gravity_there_is_a_stiffness_all_the_same():
    system = compliant((FLOOR + BALL).replace("{}", "1"), option='gravity="0 0 0"')
    np.testing.assert_allclose(system.params.contact_stiffness, 2 * 2 * 9.81 / 1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"contact_stiffness": 0.0},
        {"contact_stiffness": -1.0},
        {"contact_stiffness": np.inf},
        {"contact_stiffness": "stiff"},
        {"contact_dissipation": -0.1},
        {"smoothing": 0.0},
        {"smoothing": np.nan},
        {"slip_speed": -1e-2},
        {"slip_speed": True},
        {"limit_stiffness": 0},
        {"limit_dissipation": -1.0},
        {"limit_smoothing": 0.0},
        {"joint_slip_speed": 0.0},
        {"max_contacts": -3},
    ],
    ids=str,
)
def test_bad_settings_are_named(settings):
    with pytest.raises(pb.PullbackError, match=next(iter(settings))):
        pb.ContactCompliant(**settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("contact_stiffness", [1.0, 0.0]),
        ("contact_stiffness", [1.0, np.nan]),
        ("contact_stiffness", [1.0, 2.0, 3.0]),
        ("contact_dissipation", [-1.0, 0.0]),
        ("smoothing", 0.0),
        ("slip_speed", -1.0),
        ("friction", [[0.5, 0, 0], [-0.5, 0, 0]]),
    ],
)
def test_bad_parameters_are_named(name, value):
    system = compliant((FLOOR + BALL).replace("{}", "1"))
    with pytest.raises(pb.PullbackError, match=name):
        system.params[name] = value
    with pytest.raises(pb.PullbackError, match=name):
        system.step(system.state(), None, {name: value})


@pytest.mark.parametrize("condim", [4, 6])
def test_torsional_and_rolling_friction_are_refused(condim):
    world = (FLOOR + BALL).replace("{}", "1").replace("<geom", f'<geom condim="{condim}"', 1)
    with pytest.raises(pb.PullbackError, match=f"condim {condim}, .*ContactCompliant.*ContactConvex"):
        compliant(world)
