"""Motion under impulses, against closed forms: bounces, momentum, rest, what the sweeps reach."""

import numpy as np
import pytest
from impulses import BALL, EXACT, FLOOR, STEADY, G, apart, impulse, run
from scenes import gymnasium_robot, scene

import pullback as pb
from pullback.dynamics import energy

# two bodies


def balls(*, masses=(1.0, 1.0), radii=(0.1, 0.1), geom: str = "", **settings) -> pb.Articulated:
    """Free balls in empty space."""
    body = '<body><freejoint/><geom size="{}" mass="{}" {}/></body>'
    world = "".join(body.format(r, m, geom) for r, m in zip(radii, masses, strict=True))
    return impulse(world, option='gravity="0 0 0"', **settings)


def head_on() -> tuple[pb.Articulated, pb.State]:
    system = balls(restitution=1.0, **EXACT)
    return system, system.state(apart((0, 0, 0), (0.2, 0, 0)), [1.0, 0, 0, 0, 0, 0, -0.5, 0, 0, 0, 0, 0])


def test_equal_balls_swap_their_velocities():
    system, state = head_on()
    after = system.step(state).v[0]
    np.testing.assert_allclose(after[[0, 6]], [-0.5, 1.0], rtol=1e-12)
    np.testing.assert_allclose(np.delete(after, [0, 6]), 0, atol=1e-12)


def test_the_jacobian_of_a_swap_is_a_swap():
    system, state = head_on()
    swap = [[0, 1], [1, 0]]
    A, _ = system.linearize(state)
    np.testing.assert_allclose(A[0][np.ix_([12, 18], [12, 18])], swap, atol=1e-12)
    # by the pullback of a rollout: the balls are far apart again after the first step
    motion = pb.rollout(system, state, steps=5)
    np.testing.assert_allclose(motion.v[-1, 0, [0, 6]], [-0.5, 1.0], rtol=1e-12)
    for row, x in enumerate((0, 6)):
        bar = np.zeros((1, 12))
        bar[0, x] = 1
        np.testing.assert_allclose(motion.pullback(v_bar=bar).state.v[0, [0, 6]], swap[row], atol=1e-12)


@pytest.mark.parametrize("restitution", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("masses", [(1.0, 3.0), (1e-3, 50.0)])
def test_unequal_balls(restitution, masses):
    """Newton's law of restitution, in closed form, and the Jacobian of it."""
    system = balls(masses=masses, restitution=restitution, **EXACT)
    state = system.state(apart((0, 0, 0), (0.2, 0, 0)), [2.0, 0, 0, 0, 0, 0, -1.0, 0, 0, 0, 0, 0])
    m1, m2 = masses
    total = m1 + m2
    e = restitution
    jacobian = np.array([[m1 - e * m2, (1 + e) * m2], [(1 + e) * m1, m2 - e * m1]]) / total
    np.testing.assert_allclose(system.step(state).v[0, [0, 6]], jacobian @ [2.0, -1.0], rtol=1e-12, atol=1e-13)
    A, _ = system.linearize(state)
    np.testing.assert_allclose(A[0][np.ix_([12, 18], [12, 18])], jacobian, atol=1e-13)


SHAPES = {
    "balls": ('size="0.1"', 'size="0.13"'),
    "boxes": ('type="box" size="0.1 0.08 0.09"', 'type="box" size="0.07 0.12 0.1"'),
    "a box and a ball": ('type="box" size="0.1 0.08 0.09"', 'size="0.1"'),
    "rods": ('type="capsule" size="0.05 0.1"', 'type="cylinder" size="0.06 0.08"'),
}


def spatial_momentum(m, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Linear momentum and its moment about the origin, without spin; free bodies whose centre is their origin."""
    places, speeds = q.reshape(-1, 7)[:, :3], v.reshape(-1, 6)[:, :3]
    mass = m.body_mass[1:, None]
    return (mass * speeds).sum(axis=0), (mass * np.cross(places, speeds)).sum(axis=0)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("sweeps", [1, 50])
def test_momentum_is_kept(shapes, sweeps):
    """To rounding, however far the sweeps have come, with friction and restitution."""
    masses = (0.7, 2.3)
    bodies = (f'<body><freejoint/><geom {s} mass="{m}"/></body>' for s, m in zip(shapes, masses, strict=True))
    system = impulse("".join(bodies), option='gravity="0 0 0"', sweeps=sweeps, restitution=0.4, worlds=8)
    rng = np.random.default_rng(1)
    q, v = np.zeros((8, 14)), rng.normal(size=(8, 12))
    turns = rng.normal(size=(8, 2, 4))
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    q[:, 3:7], q[:, 10:] = turns[:, 0], turns[:, 1]
    direction = rng.normal(size=(8, 3))
    q[:, 7:10] = 0.17 * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    v[:, 6:9] -= 5 * q[:, 7:10] / 0.17  # towards each other
    state = system.state(q, v)
    after = system.step(state)
    free = pb.Articulated(system.model, contact=None, worlds=8)
    assert np.any(np.abs(after.v - free.step(state).v).max(axis=1) > 0.1)  # they met
    for world in range(8):
        before, _ = spatial_momentum(system.model.mujoco, q[world], v[world])
        behind, _ = spatial_momentum(system.model.mujoco, after.q[world], after.v[world])
        np.testing.assert_allclose(behind, before, rtol=0, atol=1e-12)


def moment_of_momentum_gained(restitution: float, depth: float) -> float:
    """By two balls that spin and overlap, in one step."""
    masses, radii = (0.7, 2.3), (0.1, 0.13)
    system = balls(masses=masses, radii=radii, restitution=restitution, slop=0.0)
    direction = np.array([0.6, 0.48, 0.64])
    q = apart((0, 0, 0), (0.23 - depth) * direction)
    v = np.array([1.0, -0.5, 2, 3, 1, -2, -2, -1, 0.3, 1, 5, 2])
    after = system.step(system.state(q, v))
    assert np.abs(after.v[0] - v).max() > 0.1

    def total(q, v):
        spin = sum(
            0.4 * m * r * r * v[6 * i + 3 : 6 * i + 6] for i, (m, r) in enumerate(zip(masses, radii, strict=True))
        )
        return spatial_momentum(system.model.mujoco, q, v)[1] + spin

    # the angular velocity of a ball is stored in its own frame: turn it back
    turned = np.array(after.v[0])
    for i in range(2):
        w, *u = after.q[0, 7 * i + 3 : 7 * i + 7]
        x = turned[6 * i + 3 : 6 * i + 6]
        turned[6 * i + 3 : 6 * i + 6] = x + 2 * np.cross(u, np.cross(u, x) + w * x)
    return np.abs(total(after.q[0], turned) - total(q, v)).max()


def test_the_moment_of_momentum_of_balls_is_kept():
    """To rounding without a bounce. A bounce moves bodies back to where they touched, but pushes where they are."""
    assert moment_of_momentum_gained(0.0, 1e-3) <= 1e-12
    gained = [moment_of_momentum_gained(0.5, depth) for depth in (1e-3, 1e-4, 1e-5)]
    assert gained[0] < 1e-3 and gained[1] < 0.11 * gained[0] and gained[2] < 0.11 * gained[1]


# a ball and a floor

SLIPPERY = (FLOOR.format(0) + BALL.format(2)).replace("<geom", '<geom condim="1"')


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9, 1.0])
def test_a_bounce(restitution):
    system = impulse(SLIPPERY, restitution=restitution, **EXACT)
    state = system.state(apart((0, 0, 0.1)), [0.3, 0, -2.0, 0, 0, 0])
    up = max(0.0, 2 * restitution - 0.004 * G)  # and then gravity for the whole of the step
    np.testing.assert_allclose(system.step(state).v[0], [0.3, 0, up, 0, 0, 0], atol=1e-13)
    A, _ = system.linearize(state)
    np.testing.assert_allclose(A[0, 8, 8], -restitution, atol=1e-13)


def test_the_larger_restitution_counts():
    system = impulse(SLIPPERY, **EXACT)
    for floor, ball, counts in ((0.2, 0.6, 0.6), (0.7, 0.1, 0.7)):
        state = system.state(apart((0, 0, 0.1)), [0, 0, -2.0, 0, 0, 0])
        after = system.step(state, None, {"restitution": np.array([floor, ball])})
        np.testing.assert_allclose(after.v[0, 2], 2 * counts - 0.004 * G, rtol=1e-12)
        bars = system.pullback(state, None, pb.State(None, [[0, 0, 1.0, 0, 0, 0]]), {"restitution": [floor, ball]})
        np.testing.assert_allclose(bars.params.restitution, [2.0 * (floor > ball), 2.0 * (ball > floor)], atol=1e-12)


def test_slow_bodies_do_not_bounce():
    system = impulse(SLIPPERY, restitution=0.8, rest_speed=0.5, **EXACT)
    for speed, after in ((0.6, 0.48 - 0.004 * G), (0.4, 0.0)):
        state = system.state(apart((0, 0, 0.1)), [0, 0, -speed, 0, 0, 0])
        np.testing.assert_allclose(system.step(state).v[0, 2], after, atol=1e-13)


@pytest.mark.parametrize("timestep", [0.004, 0.001])
def test_a_ball_jumps_back_to_e2_of_its_height(timestep):
    system = impulse(SLIPPERY, restitution=0.7, timestep=timestep, **EXACT)
    height = run(system, apart((0, 0, 1.1)), steps=int(0.8 / timestep)).q[:, 0, 2] - 0.1
    landed = int(np.argmax(height < 0))
    speed = np.sqrt(2 * G)
    assert abs(height[landed:].max() - 0.49) < 2 * speed * timestep


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_the_gradient_of_a_bounce_comes_to_that_of_the_motion(margin):
    """A ball dropped from 1 m higher rises e² m higher. An impulse at the start of the step would say 1 m."""
    e, errors = 0.7, []
    for timestep in (0.004, 0.002, 0.001):
        floor = SLIPPERY.replace('name="floor"', f'name="floor" margin="{margin}"')
        system = impulse(floor, restitution=e, timestep=timestep, worlds=16, **EXACT)
        drop = np.linspace(1.0, 1.1, 16)
        motion = run(system, np.stack([apart((0, 0, 0.1 + z)) for z in drop]), steps=int(0.7 / timestep))
        v = motion.v[-1]
        assert np.all(v[:, 2] > 0)
        q_bar, v_bar = np.zeros((16, 7)), np.zeros((16, 6))
        q_bar[:, 2], v_bar[:, 2] = 1, v[:, 2] / G  # of the height that it rises to, q + v² / 2 g
        found = motion.pullback(q_bar=q_bar, v_bar=v_bar).state.q[:, 2]
        errors.append(np.abs(found - e**2).max())
    assert errors[0] < 0.05 and errors[2] < 0.35 * errors[0]


@pytest.mark.parametrize("margin", [0.0, 0.01])
@pytest.mark.parametrize("light", [1.0, 0.1, 0.01])
def test_a_body_that_is_squeezed_stays_where_it_is(light, margin):
    """A light ball on the floor is hit from above: what the floor answers comes when the blow comes, and nothing gains.

    Was wrong: the blow moved positions from its moment on and the answer from the start of the step.
    """
    falls = '<body pos="0 0 0.301"><joint type="slide" axis="0 0 1"/><geom name="top" size="0.1" mass="10"/></body>'
    world = FLOOR.format(0.5) + BALL.format(light) + falls
    system = impulse(world.replace("<geom", f'<geom margin="{margin}"'), restitution=0.5, sweeps=500)
    motion = run(system, [*apart((0, 0, 0.1)), 0.0], [0, 0, 0, 0, 0, 0, -2.0], steps=50)
    assert np.abs(motion.q[:, 0, 2] - 0.1).max() < 0.015
    kinetic = 0.5 * (light * (motion.v[:, 0, :3] ** 2).sum(axis=1) + 10 * motion.v[:, 0, 6] ** 2)
    height = light * motion.q[:, 0, 2] + 10 * (motion.q[:, 0, 7] + 0.301)
    energy = kinetic + G * height
    assert np.all(energy < 1.02 * energy[0])
    assert motion.v[:, 0, 6].max() > (0.3 if light == 1 else 0)  # it did bounce


def test_few_sweeps_make_no_energy():
    """Was wrong: the guess that everything sticks was not bounded, and few sweeps left what they could not undo."""
    model = pb.load(pb.robots.quadruped())
    rng = np.random.default_rng(0)
    worlds = 40
    q = np.tile(model.home.q, (worlds, 1))
    q[:, 2] += rng.uniform(0, 0.3, worlds)
    q[:, 3:7] += 0.3 * rng.normal(size=(worlds, 4))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    v = rng.normal(size=(worlds, model.nv)) * np.r_[np.ones(6), np.full(model.nv - 6, 5.0)]
    for sweeps in (2, 10, 50):
        system = pb.Articulated(model, pb.ContactImpulse(sweeps=sweeps), worlds=worlds)
        motion = pb.rollout(system, system.state(q, v), steps=150)
        energies = [energy(system, motion.q[t], motion.v[t]).value.sum(axis=1) for t in range(0, 151, 10)]
        assert np.max(np.max(energies, axis=0) - energies[0]) < 20  # of some 150 J; undoing depth is what gives it


def test_bodies_at_rest_lie_away_from_kinks():
    """Gradients there hold for moves of either sign, well beyond finite differences."""
    for shape in ('size="0.1"', 'type="box" size="0.1 0.1 0.1"', 'type="capsule" size="0.1 0.1" euler="90 0 0"'):
        ball = BALL.format(1).replace('size="0.1"', shape)
        system = impulse(FLOOR.format(0.5) + ball)
        rest = run(system, apart((0, 0, 0.1)), steps=1500).final
        report = pb.check_system(system, rest, steps=(1e-5, 1e-6), names=("q", "v"), tolerance=1e-5)
        assert {row.status for row in report.rows} == {"agrees"}


def test_apart_but_within_the_margin_the_gap_closes():
    """A contact that is not there yet does not stop a body before it touches."""
    system = impulse(SLIPPERY.replace('name="floor"', 'margin="0.05"'), **EXACT)
    after = system.step(system.state(apart((0, 0, 0.11)), [0, 0, -10.0, 0, 0, 0]))
    np.testing.assert_allclose(after.q[0, 2], 0.1, rtol=1e-12)
    slow = system.step(system.state(apart((0, 0, 0.14)), [0, 0, -1.0, 0, 0, 0]))
    np.testing.assert_allclose(slow.v[0, 2], -1 - 0.004 * G, rtol=1e-12)
    # what meets within the step bounces in it
    springy = system.step(system.state(apart((0, 0, 0.11)), [0, 0, -10.0, 0, 0, 0]), None, {"restitution": [0.9, 0.9]})
    touch = 0.01 / (10 + 0.004 * G)
    np.testing.assert_allclose(springy.v[0, 2], 0.9 * (10 + touch * G) - (0.004 - touch) * G, rtol=1e-12)
    np.testing.assert_allclose(springy.q[0, 2], 0.1 + (0.004 - touch) * springy.v[0, 2], rtol=1e-12)


def test_depth_is_undone_by_a_share_in_a_step():
    system = impulse(SLIPPERY, option='gravity="0 0 0"', erp=0.25, **EXACT)
    state = system.state(apart((0, 0, 0.09)))
    after = system.step(state)
    np.testing.assert_allclose(0.1 - after.q[0, 2], 0.01 * 0.75, rtol=1e-9)
    np.testing.assert_allclose(after.v[0, 2], 0.25 * 0.01 / 0.004, rtol=1e-9)


def test_softness_gives_way():
    """At rest, erp / h · depth is the softness times the impulse of the weight in a step."""
    system = impulse(SLIPPERY, cfm=1e-2, erp=0.2, slop=0.0)
    depth = 0.1 - run(system, apart((0, 0, 0.1)), steps=400).q[-1, 0, 2]
    np.testing.assert_allclose(depth, 1e-2 * 2 * G * 0.004 * 0.004 / 0.2, rtol=1e-6)


def test_a_little_depth_is_left_alone():
    """A body sinks in by the slop, and rests there; what is deeper is undone to there."""
    system = impulse(SLIPPERY, slop=1e-3, cfm=1e-14)
    for height in (0.1, 0.0985):
        motion = run(system, apart((0, 0, height)), steps=800)
        np.testing.assert_allclose(0.1 - motion.q[-1, 0, 2], 1e-3, rtol=1e-6)
        assert abs(motion.v[-1, 0, 2]) < 1e-9


# robots


LEG = """<body pos="{x} {y} 0"><joint name="hip{n}" axis="1 0 0"/><joint name="thigh{n}" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 {dx} {dy} -0.15" size="0.03" mass="0.3" contype="0"/>
  <body pos="{dx} {dy} -0.15"><joint name="knee{n}" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.15" size="0.03" mass="0.2" contype="0"/></body></body>"""


def table(*, floor: str = STEADY, **settings) -> pb.Articulated:
    """A robot on four legs of three joints, which servos hold."""
    corners = enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1)))
    legs = "".join(LEG.format(n=n, x=0.2 * i, y=0.15 * j, dx=0.05 * i, dy=0.05 * j) for n, (i, j) in corners)
    trunk = '<geom type="box" size="0.2 0.15 0.05" mass="5" contype="0"/>'
    world = f'{floor.format(1)}<body pos="0 0 0.33"><freejoint/>{trunk}{legs}</body>'
    servo = "".join(f'<position joint="{j}{n}" kp="200"/>' for n in range(4) for j in ("hip", "thigh", "knee"))
    default = '<joint damping="0.5" armature="0.01"/>'
    return impulse(world, rest=f"<actuator>{servo}</actuator>", default=default, timestep=0.002, **settings)


@pytest.mark.parametrize(("sweeps", "drift"), [(50, 1e-5), (200, 1e-7)])
def test_a_robot_at_rest_does_not_drift(sweeps, drift):
    system = table(sweeps=sweeps)
    motion = run(system, None, steps=2000)
    assert 0.32 < motion.q[-1, 0, 2] < 0.33  # it stands
    assert np.abs(motion.v[-500:]).max() < drift
    assert np.abs(motion.q[-1] - motion.q[-1000]).max() < drift


def test_without_a_margin_enough_sweeps_are_needed():
    motion = run(table(floor=FLOOR, sweeps=200), None, steps=2000)
    assert np.abs(motion.v[-500:]).max() < 1e-7


def test_an_ant_falls_and_lies():
    text = gymnasium_robot("ant").read_text().replace('integrator="RK4"', 'integrator="Euler"')
    assert "RK4" not in text
    system = pb.Articulated(pb.load(text), pb.ContactImpulse())
    motion = pb.rollout(system, system.state(), steps=400)
    assert np.all(np.isfinite(motion.q)) and 0.05 < motion.q[-1, 0, 2] < 0.7


# sweeps


SPACING = 0.2 - 1e-12  # touching, whichever way rounding goes


def pile(count: int = 6, **settings) -> pb.Articulated:
    """Balls on top of each other without friction."""
    body = '<body><freejoint/><geom size="0.1" mass="1" condim="1"/></body>'
    return impulse(FLOOR.format(0).replace("<geom", '<geom condim="1"') + body * count, erp=0.0, **settings)


def pile_state(system: pb.Articulated) -> pb.State:
    count = system.nv // 6
    return system.state(apart(*((0, 0, 0.1 + SPACING * i) for i in range(count))))


def test_more_sweeps_come_nearer():
    """The answer of a pile at rest is known: nothing moves, and every contact carries what lies on it."""
    left = []
    for sweeps in (2, 5, 20, 100, 800):
        system = pile(sweeps=sweeps, **EXACT)
        left.append(np.abs(system.step(pile_state(system)).v).max())
    assert all(later < earlier for earlier, later in zip(left[:-1], left[1:], strict=True))
    assert left[0] > 1e-3 and left[-1] < 1e-10


def complementarity(before: np.ndarray, after: np.ndarray, h: float = 0.004) -> float:
    """How far the velocities of a pile are from λ ≥ 0, w ≥ 0, λ w = 0, in units of velocity."""
    change = after - before + G * h  # from impulses, by mass
    carried = np.cumsum(change[::-1])[::-1]  # impulse of the contact below each ball
    parting = np.diff(after, prepend=0.0)
    return float(np.abs(np.minimum(carried, parting)).max())


def test_complementarity_is_approached():
    """A ball falls onto a pile: some contacts open, others push."""
    rng = np.random.default_rng(2)
    before = rng.normal(size=6)
    residuals = []
    for sweeps in (2, 10, 50, 1000):
        system = pile(sweeps=sweeps, **EXACT)
        state = pile_state(system)
        v = np.zeros((1, 36))
        v[0, 2::6] = before
        after = system.step(pb.State(state.q, v)).v[0, 2::6]
        residuals.append(complementarity(before, after))
    assert all(later < 0.9 * earlier for earlier, later in zip(residuals[:-1], residuals[1:], strict=True))
    assert residuals[-1] < 1e-12


def test_one_sweep_works():
    system = impulse(FLOOR.format(0.5) + BALL.format(1), sweeps=1, slop=0.0)
    motion = run(system, apart((0, 0, 0.1)), [1.0, 0, 0, 0, 0, 0], steps=100)
    np.testing.assert_allclose(motion.q[-1, 0, 2], 0.1, atol=1e-5)
    bars = motion.pullback(q_bar=np.ones((1, 7)))
    assert np.all(np.isfinite(bars.state.v)) and np.abs(bars.state.v).max() > 0


# what is refused


def test_runge_kutta_is_refused():
    model = pb.load(scene(FLOOR.format(1) + BALL.format(1), option='integrator="RK4"'))
    with pytest.raises(pb.PullbackError, match="RK4, but ContactImpulse.*implicitfast"):
        pb.Articulated(model, pb.ContactImpulse())


@pytest.mark.parametrize("condim", [4, 6])
def test_torsional_and_rolling_friction_are_refused(condim):
    model = pb.load(scene(FLOOR.format(1).replace("<geom", f'<geom condim="{condim}"') + BALL.format(1)))
    with pytest.raises(pb.PullbackError, match=f"condim {condim}, .*ContactImpulse.*ContactConvex"):
        pb.Articulated(model, pb.ContactImpulse())


@pytest.mark.parametrize(
    "settings",
    [
        {"sweeps": 0},
        {"sweeps": 1.5},
        {"sweeps": True},
        {"erp": -0.1},
        {"erp": 1.1},
        {"cfm": 0.0},
        {"slop": -1e-9},
        {"restitution": 1.5},
        {"restitution": np.nan},
        {"restitution": "much"},
        {"rest_speed": -1.0},
        {"max_contacts": -1},
        {"max_contacts": 2.0},
    ],
    ids=str,
)
def test_bad_settings_are_named(settings):
    with pytest.raises(pb.PullbackError, match=next(iter(settings))):
        pb.ContactImpulse(**settings)


def test_settings_are_where_parameters_start():
    system = impulse(FLOOR.format(1) + BALL.format(1), erp=0.3, cfm=1e-5, slop=1e-3, restitution=0.25)
    assert system.params.erp == 0.3 and system.params.cfm == 1e-5 and system.params.slop == 1e-3
    np.testing.assert_array_equal(system.params.restitution, [0.25, 0.25])
    for name, value in (("erp", 1.5), ("cfm", 0.0), ("slop", -1.0), ("restitution", [0.5, 2.0])):
        with pytest.raises(pb.PullbackError, match=name):
            system.params[name] = value
