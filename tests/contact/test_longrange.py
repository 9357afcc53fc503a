"""Contact with long range: where bodies rest, that nothing passes through anything, what is refused, and from how far
away there is a gradient."""

import numpy as np
import pytest

import pullback as pb

FLOOR = '<geom name="floor" type="plane" size="5 5 .1"/>'
KINDS = {
    "ball": '<geom name="ball" size=".1" mass="1"/>',
    "box": '<geom name="box" type="box" size=".1 .12 .08" pos=".01 -.02 .03" mass="1.3"/>',
    "rod": '<geom name="rod" type="capsule" size=".05 .1" euler="20 10 5" mass=".7"/>',
    "can": '<geom name="can" type="cylinder" size=".08 .1" euler="5 10 5" mass=".9"/>',
}


def scene(world: str, option: str = 'timestep="0.01"') -> str:
    smooth = '<default><geom condim="1"/></default>'
    return f"<mujoco><option {option}/>{smooth}<worldbody>{world}</worldbody></mujoco>"


def free(kind: str, pos: str) -> str:
    return f'<body name="{kind}" pos="{pos}"><freejoint/>{KINDS[kind]}</body>'


def system_of(world: str, contact=None, option='timestep="0.01"', **settings) -> pb.Articulated:
    return pb.Articulated(pb.load(scene(world, option)), contact or pb.ContactLongRange(), **settings)


def random_states(system: pb.Articulated, count: int, fastest: float, seed: int = 0) -> pb.State:
    """Four free bodies in four of eight cells, in random poses, with velocities of up to ``fastest`` [m/s]."""
    rng = np.random.default_rng(seed)
    q, v = np.zeros((count, 28)), np.zeros((count, 24))
    for world in range(count):
        speed = np.exp(rng.uniform(np.log(0.1), np.log(fastest)))
        for body, cell in enumerate(rng.permutation(8)[:4]):
            corner = np.array([0.6 * (cell & 1) - 0.3, 0.6 * (cell >> 1 & 1) - 0.3, 0.3 + 0.6 * (cell >> 2)])
            turn, way = rng.normal(size=4), rng.normal(size=3)
            q[world, 7 * body : 7 * body + 7] = [
                *(corner + rng.uniform(-0.04, 0.04, 3)),
                *(turn / np.linalg.norm(turn)),
            ]
            v[world, 6 * body : 6 * body + 3] = speed * way / np.linalg.norm(way)
            v[world, 6 * body + 3 : 6 * body + 6] = rng.normal(size=3) * min(30.0, 10 * speed)
    return system.state(q, v)


def test_a_box_rests_at_the_gap_that_was_asked_for():
    for gap in (1e-3, 1e-4):
        contact = pb.ContactLongRange(gap=gap, length=0.1)
        box = '<body pos="0 0 .11"><freejoint/><geom type="box" size=".1 .1 .1" mass="2"/></body>'
        system = system_of(FLOOR + box, contact)
        run = pb.rollout(system, system.state(), steps=200)
        np.testing.assert_allclose(run.final.q[0, 2] - 0.1, gap, rtol=0.06)
        assert np.abs(run.final.v).max() < 1e-4
        points = run.contacts(-1)[0]
        assert points.geoms == (("floor", "geom 1"),)
        np.testing.assert_allclose(points.force, [[0, 0, 2 * 9.81]], atol=1e-3)
        np.testing.assert_allclose(points.dist, run.final.q[0, 2] - 0.1, rtol=1e-6)


def test_a_stack_of_planks_has_gaps_by_the_law():
    """The gap of two faces that carry the weight W is √(2 μ L / W)."""
    planks = "".join(
        f'<body pos="0 0 {0.2 * i + 0.101 + 0.002 * i}"><freejoint/><geom type="box" size="1 .2 .1" mass=".16"/></body>'
        for i in range(5)
    )
    contact = pb.ContactLongRange(gap=1e-3, length=1.0)
    system = system_of(FLOOR + planks, contact, option='timestep="0.04"')
    run = pb.rollout(system, system.state(), steps=60)
    heights = run.final.q[0, 2::7]
    gaps = np.diff(heights, prepend=-0.1) - 0.2
    carried = 0.16 * 9.81 * np.arange(5, 0, -1)
    mass = np.array([0.16, *[0.08] * 4])  # reduced; the floor is infinitely heavy
    law = np.sqrt(2 * mass * 9.81 * 1e-6 / 2 / carried)
    np.testing.assert_allclose(gaps, law, rtol=0.05)
    np.testing.assert_allclose(run.final.q[0, 0::7], 0, atol=1e-6)


def test_nothing_passes_through_anything():
    """Steps of 10 ms at up to 100 m/s, between bodies of 0.2 m. Every state is one that a step may begin from."""
    system = system_of(FLOOR + "".join(free(kind, f"{i} 0 1") for i, kind in enumerate(KINDS)), worlds=100)
    run = pb.rollout(system, random_states(system, 100, 100.0), steps=4, on_failure="mask")
    assert not run.status.failed.any(), run.status.reasons
    assert np.isfinite(run.q).all() and np.isfinite(run.v).all()
    for points in run.contacts(-1):
        assert len(points) == 10 and (points.dist > 0).all() and (points.force[:4, 2] > 0).all()


def test_momentum_is_exchanged_and_no_energy_gained():
    """A ball at 20 m/s, 0.4 m per step of twice its size, hits another in the middle: both go on as one would."""
    balls = free("ball", "0 0 1") + '<body pos=".5 0 1"><freejoint/><geom size=".1" mass="1"/></body>'
    system = system_of(balls, option='timestep="0.02" gravity="0 0 0"')
    run = pb.rollout(system, system.state(v=[20.0, *[0] * 11]), steps=5)
    total = run.v[:, 0, 0] + run.v[:, 0, 6]
    np.testing.assert_allclose(total, 20.0, rtol=1e-9)
    assert run.final.q[0, 0] < run.final.q[0, 7] - 0.2
    np.testing.assert_allclose(run.final.v[0, [0, 6]], 10.0, rtol=0.15)
    energy = (run.v[:, 0, 0] ** 2 + run.v[:, 0, 6] ** 2) / 2
    assert (np.diff(energy) <= 1e-3).all()  # what the potential gives back as they part


def test_pieces_of_a_trajectory_are_the_same_bit_for_bit():
    world = FLOOR + "".join(free(kind, f"{0.4 * i} 0 .3") for i, kind in enumerate(KINDS))
    system = system_of(world)
    start = random_states(system, 1, 5.0, seed=3)
    whole, cut = (pb.rollout(system, start, steps=12, checkpoint_every=k) for k in (1, 4))
    bar = np.random.default_rng(0).normal(size=(1, system.nv))
    grads, pieces = (run.pullback(v_bar=bar) for run in (whole, cut))
    assert (whole.final.q == cut.final.q).all()
    assert (grads.state.q == pieces.state.q).all() and (grads.params.gap == pieces.params.gap).all()


def test_there_is_a_gradient_before_anything_touches():
    balls = free("ball", "0 0 1") + '<body pos="3 1 1"><freejoint/><geom size=".1" mass="1"/></body>'
    model = pb.load(scene(balls, 'timestep="0.02" gravity="0 0 0"'))
    bar = np.zeros((1, 14))
    bar[0, 7] = 1.0  # how far the other ball goes
    for contact, sees in ((pb.ContactConvex(), False), (pb.ContactLongRange(), True)):
        system = pb.Articulated(model, contact)
        run = pb.rollout(system, system.state(), steps=20)
        slope = run.pullback(q_bar=bar).state.v[0, 0]
        assert (slope > 0) if sees else (slope == 0)


def test_joint_limits_are_never_passed():
    arm = """<body pos="0 0 1"><joint name="hip" axis="0 1 0" range="-40 40"/>
      <geom type="capsule" size=".03 .2" pos="0 0 -.2"/>
      <body pos="0 0 -.45"><joint type="slide" axis="0 0 1" range="-.1 .1"/><geom size=".05"/></body></body>"""
    contact = pb.ContactLongRange(limit_gap=0.05)
    system = system_of(arm, contact, option='timestep="0.01"')
    run = pb.rollout(system, system.state(v=[30.0, 5.0]), steps=200)
    assert np.abs(run.q[:, 0, 0]).max() < np.radians(40) and np.abs(run.q[:, 0, 1]).max() < 0.1
    assert np.abs(run.q[:, 0, 0]).max() > np.radians(36)
    with pytest.raises(pb.PullbackError, match="'hip' is at or beyond its limit in world 0 at step 0"):
        system.step(system.state([1.0, 0.0]))


@pytest.mark.parametrize("height", [0.05, 0.1])
def test_bodies_that_overlap_are_named(height):
    system = system_of(FLOOR + free("ball", f"0 0 {height}"))
    with pytest.raises(
        pb.SimulationError, match="geom 'floor' and geom 'ball', of bodies 'world' and 'ball', touch or"
    ):
        system.step(system.state())
    run = pb.rollout(system, system.state(), steps=3, on_failure="mask")
    assert run.status.failed.all() and "'ball'" in run.status.reasons[0]


def test_overlap_of_two_hulls_is_named():
    system = system_of(free("box", "0 0 1") + free("can", ".1 0 1"))
    with pytest.raises(pb.SimulationError, match="geom '(box|can)' and geom '(box|can)'"):
        system.step(system.state())


# --- friction ----------------------------------------------------------------------------------------------


def on_slope(slope: float, friction: float, size=".1 .1 .1", **settings) -> pb.Articulated:
    """A box on a plane that leans by atan(slope) towards x, with axes along it, and gravity to match."""
    down = 9.81 / np.hypot(1, slope)
    rough = f'friction="{friction} 0 0" condim="3"'
    world = f'<geom type="plane" size="9 9 1" {rough}/><body pos="0 0 .1005"><freejoint/>'
    world += f'<geom type="box" size="{size}" mass="2" {rough}/></body>'
    option = f'timestep="0.005" gravity="{slope * down} 0 {-down}"'
    return system_of(world, pb.ContactLongRange(gap=5e-4, **settings), option)


def test_a_box_sticks_to_a_slope_or_slides_down():
    """The lag of the first steps is over when velocities are compared."""
    system = on_slope(0.2, 0.5)
    run = pb.rollout(system, system.state(), steps=200)
    share = 0.2 / 0.5  # of the friction there is
    np.testing.assert_allclose(run.final.v[0, 0], 1e-3 * share / np.sqrt(1 - share**2), rtol=0.05)  # it creeps
    np.testing.assert_allclose(run.contacts(-1)[0].force[0, 0], -2 * 9.81 * 0.2 / np.hypot(1, 0.2), rtol=1e-2)
    system = on_slope(0.2, 0.1)
    run = pb.rollout(system, system.state(), steps=200)
    rate = (run.v[200, 0, 0] - run.v[100, 0, 0]) / 0.5
    np.testing.assert_allclose(rate, 9.81 * (0.2 - 0.1) / np.hypot(1, 0.2), rtol=0.02)


def test_a_box_that_turns_comes_to_rest_and_a_smooth_one_does_not():
    for frictionless in (False, True):
        system = on_slope(0.0, 0.4, frictionless=frictionless)
        settled = pb.rollout(system, system.state(), steps=60).final
        run = pb.rollout(system, system.state(settled.q[0], [0.5, 0, 0, 0, 0, 2.0]), steps=100)
        speed = np.abs(run.final.v[0, [0, 5]])
        assert (speed < 1e-2).all() if not frictionless else (speed > 0.49).all()
        assert ("friction" in system.params) is not frictionless


def test_a_ball_that_slides_begins_to_roll():
    world = '<geom type="plane" size="9 9 1"/><body pos="0 0 .101"><freejoint/><geom size=".1" mass="1"/></body>'
    model = pb.load(f'<mujoco><option timestep="0.005"/><worldbody>{world}</worldbody></mujoco>')
    system = pb.Articulated(model, pb.ContactLongRange(gap=1e-3))
    run = pb.rollout(system, system.state(v=[1.0, 0, 0, 0, 0, 0]), steps=200)
    np.testing.assert_allclose(run.final.v[0, 0], 5 / 7, rtol=0.02)
    np.testing.assert_allclose(run.final.v[0, 4] * 0.1, run.final.v[0, 0], rtol=0.02)


# --- what is refused ----------------------------------------------------------------------------------------


def test_what_is_refused():
    with pytest.raises(pb.PullbackError, match="float64.*float32 rounds off"):
        system_of(FLOOR + free("ball", "0 0 1"), dtype="float32")
    with pytest.raises(pb.PullbackError, match="RK4, but ContactLongRange is implicit"):
        system_of(FLOOR + free("ball", "0 0 1"), option='integrator="RK4"')
    egg = '<body pos="0 0 1"><freejoint/><geom name="egg" type="ellipsoid" size=".1 .2 .1"/></body>'
    with pytest.raises(pb.PullbackError, match="geom 'egg' is of type ellipsoid"):
        system_of(FLOOR + egg)
    ball_joint = '<body pos="0 0 1"><joint name="hip" type="ball" range="0 30"/><geom size=".1"/></body>'
    with pytest.raises(pb.PullbackError, match="'hip' limits a ball joint"):
        system_of(ball_joint)
    can = '<body pos="0 0 1"><freejoint/><geom name="can" size=".1" condim="6"/></body>'
    with pytest.raises(pb.PullbackError, match="geom 'can' has condim 6"):
        system_of(FLOOR + can)
    for wrong in (
        {"gap": 0.0},
        {"slip_speed": 0.0},
        {"length": -1.0},
        {"limit_gap": 0},
        {"max_substeps": 0},
        {"max_contacts": 3},
    ):
        with pytest.raises(pb.PullbackError, match=next(iter(wrong))):
            pb.ContactLongRange(**wrong)


def test_without_shapes_it_steps_as_without_contact():
    model = pb.load(pb.robots.pendulum())
    bare, far = pb.Articulated(model, None), pb.Articulated(model, pb.ContactLongRange())
    start = bare.state([0.3], [1.0])
    np.testing.assert_allclose(far.step(start).v, bare.step(start).v, rtol=1e-12)
