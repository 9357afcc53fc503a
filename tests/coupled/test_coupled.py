"""Robots among particles: momentum, gradients, weight, and what is refused."""

import copy
import pickle

import numpy as np
import pytest
from coupled_scenes import FINGERS, finger, floating, in_motion, particle_momentum, robot_momentum, tumbling

import pullback as pb
import pullback.dynamics
from pullback import soft
from pullback.core.trees import leaf_names, leaves, row, tree_map

# --- momentum --------------------------------------------------------------------------------------------------------


def test_robot_and_particles_keep_their_momentum():
    """Linear and angular about the origin, to rounding, of bodies that tumble, one with shapes off its centre."""
    coupled = floating()
    run = pb.rollout(coupled, tumbling(coupled), steps=60)
    at = [row(run.states, t) for t in range(61)]
    robot = np.array([robot_momentum(coupled.robot, state.robot) for state in at])
    both = robot + np.array([particle_momentum(coupled.soft, state.soft) for state in at])
    size = np.abs(robot).max()
    assert np.abs(robot - robot[0]).max() > 0.1 * size
    np.testing.assert_allclose(both, both[:1].repeat(61, axis=0), rtol=0, atol=1e-14 * size)
    np.testing.assert_allclose(-run.final.soft.impulse.sum(axis=1), (robot[0] - robot[-1]), rtol=0, atol=1e-14 * size)


def test_chains_get_what_the_particles_lose():
    """A step of a chain adds what its shapes got to the momentum that it would have had in the same place."""
    coupled = finger()
    robot = coupled.robot
    robot.params["damping"] = 0.0  # the palm's joint is in the world: what it holds is nobody's momentum
    state, control = in_motion(coupled)
    coupled = pb.Coupled(robot, coupled._bare, shapes=FINGERS[3:], friction=0.4)  # the ball that floats, and the floor
    after = coupled.step(coupled.state(state.robot, state.soft._replace(impulse=np.zeros((1, 2, 6)))), control)
    alone = robot.step(state.robot, control[:, : robot.nu])
    place = state.robot.q
    gained = robot_momentum(robot, pb.State(place, after.robot.v)) - robot_momentum(robot, pb.State(place, alone.v))
    given = after.soft.impulse[:, 0]
    assert np.abs(given).max() > 1e-3
    np.testing.assert_allclose(gained, given, rtol=0, atol=1e-13)


def test_a_cube_on_a_tray_weighs_what_it_weighs():
    """Once it lies still, the spring under the tray carries both."""
    tray = pb.load(
        """<mujoco><option timestep="0.01"/><worldbody><body name="tray" pos="0.3 0.3 0.2">
        <joint name="up" type="slide" axis="0 0 1" stiffness="400" damping="30"/>
        <geom name="tray" type="box" size="0.2 0.2 0.05" mass="1"/>
        </body></worldbody></mujoco>"""
    )
    material = soft.NeoHookean(young=1e4, poisson=0.3, density=500.0, viscosity=20.0)
    cube = soft.block((0.225, 0.225, 0.265), (0.375, 0.375, 0.415), (6, 6, 6), material)
    particles = soft.Particles(cube, dx=0.05, cells=(12, 12, 14), dt=2e-3)
    coupled = pb.Coupled(pb.Articulated(tray), particles, shapes="tray", friction=0.5)
    run = pb.rollout(coupled, coupled.state(), steps=300, checkpoint_every=300)
    mass = 500.0 * 0.15**3
    assert run.final.robot.q[0, 0] == pytest.approx(-(1.0 + mass) * 9.81 / 400, rel=2e-3)
    assert np.abs(run.final.soft.v).max() < 0.01


# --- gradients -------------------------------------------------------------------------------------------------------


def test_every_gradient_is_right_in_motion():
    coupled = finger()
    report = pb.check_system(coupled, *in_motion(coupled))
    assert {"robot.q", "soft.F", "control", "robot.com", "robot.joint_axis", "soft.shape_size"} <= {
        line.field for line in report.rows
    }
    for line in report.rows:
        assert line.status in ("agrees", "kink") and line.largest > 0.0 and line.error < 1e-6, line


def test_every_gradient_is_right_at_rest():
    """Where the robot lies against particles that do not move yet, and all starts to fall."""
    coupled = finger(friction=np.inf)
    state = coupled.state()
    control = np.zeros((1, coupled.nu))
    names = ("robot.q", "robot.v", "soft.x", "soft.v", "soft.F", "control", "robot.mass", "robot.gravity", "soft.lame")
    report = pb.check_system(coupled, state, control, names=names)
    for line in report.rows:
        assert line.status in ("agrees", "kink") and line.error < 1e-6, line
        assert line.largest > 0.0 or line.field == "soft.lame", line  # nothing is strained


def test_gradients_where_the_robot_has_contacts_too():
    """Its geoms are then where parameters put them, and the floor holds it."""
    coupled = finger(contact="model")
    state, control = in_motion(coupled)
    low = state.robot.q.copy()
    low[0, -7:-4] = (0.5, 0.47, 0.185)  # what floats is in the floor by 15 mm
    state = state._replace(robot=pb.State(low, state.robot.v))
    assert len(coupled.robot.contacts(state.robot)[0]) >= 1
    names = ("robot.q", "robot.v", "soft.x", "robot.geom_pos", "robot.geom_quat", "robot.com")
    for line in pb.check_system(coupled, state, control, names=names).rows:
        assert line.status in ("agrees", "kink") and line.largest > 0.0 and line.error < 1e-6, line


def test_rollouts_of_several_worlds_and_steps():
    coupled = finger(worlds=2, steps_in_one=2)
    state, control = in_motion(coupled, seed=3)
    names = ("robot.q", "robot.v", "soft.x", "soft.v", "soft.impulse", "control", "robot.mass", "soft.gravity")
    report = pb.check_system(coupled, state, np.stack([control] * 3), rollout_steps=3, names=names)
    for line in report.rows:
        assert line.status in ("agrees", "kink") and line.largest > 0.0 and line.error < 1e-6, line


def test_forces_of_others_act_besides():
    """A rollout's own inputs, with gradients."""
    coupled = finger()
    state, control = in_motion(coupled)
    random = np.random.default_rng(4)
    inputs = {"force": random.normal(size=(1, 1, coupled.robot.nv)), "wrench": random.normal(size=(1, 1, 5, 6))}
    bar = coupled.state_type(pb.State(None, random.normal(size=(1, coupled.robot.nv))), None)

    def pushed(**changed):
        run = pb.rollout(coupled, state, control[None], inputs=inputs | changed)
        return run, np.sum(run.final.robot.v * bar.robot.v)

    run, _ = pushed()
    grads = run.pullback(robot_bar=bar.robot)
    for name, x in inputs.items():
        along, step = random.normal(size=x.shape), 1e-4
        numeric = (pushed(**{name: x + step * along})[1] - pushed(**{name: x - step * along})[1]) / (2 * step)
        assert np.sum(grads.inputs[name] * along) == pytest.approx(numeric, rel=1e-8) and abs(numeric) > 1e-3


def test_linearize_is_the_tangent_of_a_step():
    coupled = finger(steps_in_one=2)
    state, control = in_motion(coupled)
    A, B = coupled.linearize(state, control)
    random = np.random.default_rng(2)
    n = 2 * coupled.robot.nv
    moved, step = random.normal(size=A.shape[-1]), 1e-6
    change = random.normal(size=coupled.nu)

    def after(sign):
        v = state.robot.v + sign * step * moved[None, coupled.robot.nv : n]
        q = _moved(coupled.robot, state.robot.q, sign * step * moved[: coupled.robot.nv])
        flat, parts = sign * step * moved[n:], []
        for x in state.soft:
            parts.append(x + flat[: x.size].reshape(x.shape))
            flat = flat[x.size :]
        return coupled.step(coupled.state(pb.State(q, v), soft.ShapedState(*parts)), control + sign * step * change)

    numeric = coupled.difference(after(-1), after(1))[0] / (2 * step)
    found = A[0] @ moved + B[0] @ change
    assert np.abs(found).max() > 1.0
    np.testing.assert_allclose(found, numeric, rtol=0, atol=1e-7 * np.abs(found).max())


def _moved(robot, q, tangent):
    """q ⊕ tangent, as MuJoCo moves it."""
    import mujoco

    found = q[0].astype(float).copy()
    mujoco.mj_integratePos(robot.model.mujoco, found, tangent, 1.0)
    return found[None]


def test_checkpoints_holds_and_torch_change_nothing():
    import torch

    import pullback.torch as pbt

    coupled = finger(steps_in_one=2)
    state, control = in_motion(coupled)
    controls = np.stack([control] * 5)
    bars = {"robot_bar": tree_map(np.ones_like, state.robot), "soft_bar": tree_map(np.ones_like, state.soft)}
    runs = [pb.rollout(coupled, state, controls, hold=2, checkpoint_every=k) for k in (1, 3, "sqrt")]
    found = [run.pullback(**bars) for run in runs]
    for other in found[1:]:
        for a, b in zip(
            [*leaves(found[0].state), found[0].controls, *found[0].params.values()],
            [*leaves(other.state), other.controls, *other.params.values()],
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)
    tensors = tree_map(lambda x: torch.tensor(x, requires_grad=True), state)
    told, mass = torch.tensor(controls, requires_grad=True), torch.tensor(coupled.params["robot.mass"])
    mass.requires_grad_()
    states = pbt.rollout(coupled, tensors, told, hold=2, params={"robot.mass": mass})
    sum(x[-1].sum() for x in leaves(states)).backward()
    for name, tensor, bar in zip(leaf_names(state), leaves(tensors), leaves(found[0].state), strict=True):
        np.testing.assert_array_equal(tensor.grad.numpy(), bar, err_msg=name)
    np.testing.assert_array_equal(told.grad.numpy(), found[0].controls)
    np.testing.assert_array_equal(mass.grad.numpy(), found[0].params["robot.mass"])


def test_worlds_do_not_know_of_each_other_and_have_parameters_of_their_own():
    two, one = finger(worlds=2), finger()
    state, control = in_motion(two)
    mass = np.stack([one.params["robot.mass"], 1.3 * one.params["robot.mass"]])
    lame = np.stack([one.params["soft.lame"], 0.8 * one.params["soft.lame"]])
    run = pb.rollout(two, state, control[None], params={"robot.mass": mass, "soft.lame": lame})
    grads = run.pullback(
        robot_bar=pb.State(None, np.ones((2, two.robot.nv))), soft_bar=tree_map(np.ones_like, state.soft)
    )
    assert grads.params["robot.mass"].shape == mass.shape and grads.params["soft.lame"].shape == lame.shape
    for w in range(2):
        alone = tree_map(lambda x: x[w : w + 1], state)  # noqa: B023
        other = pb.rollout(one, alone, control[None, w : w + 1], params={"robot.mass": mass[w], "soft.lame": lame[w]})
        for a, b in zip(leaves(run.final), leaves(other.final), strict=True):
            np.testing.assert_allclose(a[w], b[0], rtol=0, atol=1e-13)
        bars = other.pullback(
            robot_bar=pb.State(None, np.ones((1, one.robot.nv))), soft_bar=tree_map(np.ones_like, alone.soft)
        )
        for name in ("robot.mass", "soft.lame"):
            np.testing.assert_allclose(grads.params[name][w], bars.params[name], rtol=1e-9, atol=1e-12)


def test_float32_is_the_same_to_its_rounding():
    double, single = finger(), finger(dtype="float32")
    state, control = in_motion(double)
    small = tree_map(lambda x: x.astype("float32"), state)
    a, b = double.step(state, control), single.step(small, control.astype("float32"))
    for x, y in zip(leaves(a), leaves(b), strict=True):
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, x, rtol=0, atol=2e-5 * max(1.0, np.abs(x).max()))
    bars = [
        system.pullback(at, u, tree_map(np.ones_like, at)).state
        for system, at, u in ((double, state, control), (single, small, control.astype("float32")))
    ]
    for x, y in zip(*map(leaves, bars), strict=True):
        np.testing.assert_allclose(y, x, rtol=0, atol=1e-3 * max(1.0, np.abs(x).max()))


# --- what comes with it ----------------------------------------------------------------------------------------------


def test_parameters_are_those_of_both_and_travel_with_copies():
    coupled = finger()
    assert coupled.params.unit("soft.shear") == "Pa" and "robot.gear" in coupled.params
    coupled.params["robot.mass"] = 2 * coupled.params["robot.mass"]
    coupled.params["soft.shape_friction"] = 0.1
    state, control = in_motion(coupled)
    expected = coupled.step(state, control)
    plain = finger().step(state, control)
    assert np.abs(expected.robot.v - plain.robot.v).max() > 1e-3
    for other in (copy.deepcopy(coupled), pickle.loads(pickle.dumps(coupled)), coupled.in_worlds(1)):
        for a, b in zip(leaves(other.step(state, control)), leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)
    robot, particles = finger().robot, finger()._bare
    robot.params["mass"], particles.params["lame"] = 3 * robot.params["mass"], 2.0
    made = pb.Coupled(robot, particles, shapes="tip")
    np.testing.assert_array_equal(made.params["robot.mass"], robot.params["mass"])
    np.testing.assert_array_equal(made.params["soft.lame"], [2.0])
    with pytest.raises(pb.PullbackError, match="'robot.mass' of 'palm' must be positive"):
        coupled.params["robot.mass"] = -coupled.params["robot.mass"]


def test_both_are_drawn():
    from pullback.view import draw_run

    coupled = finger(worlds=2)
    state, control = in_motion(coupled)
    run = pb.rollout(coupled, state, np.stack([control] * 4), hold=2)
    drawing = draw_run(run)
    assert drawing.problem() == ""
    assert drawing.points.shape == (5, coupled.soft.n, 3) and drawing.poses.shape[1:3] == (2, 5)
    np.testing.assert_allclose(drawing.points[-1], run.final.soft.x[0], atol=1e-6)
    np.testing.assert_allclose(drawing.times, 0.02 * np.arange(5))
    pushed = drawing.contact_frame == 1
    given = (run.soft.impulse[2, 0, :, 3:] - run.soft.impulse[1, 0, :, 3:]) / 0.02
    np.testing.assert_allclose(drawing.contact_force[pushed], given[np.any(given != 0, axis=-1)])


# --- what cannot go on, and what is refused --------------------------------------------------------------------------


def test_failures_say_whose_they_are():
    coupled = finger(worlds=2)
    state, control = in_motion(coupled)
    fast = state.soft.v.copy()
    fast[1, 3] = (0.0, 0.0, 60.0)
    thrown = state._replace(soft=state.soft._replace(v=fast))
    controls = np.stack([control] * 3)
    with pytest.raises(pb.SimulationError, match="the particles: particle 3 .* in world 1 .*in substep") as raised:
        pb.rollout(coupled, thrown, controls)
    assert raised.value.step in (0, 1, 2) and raised.value.worlds == (1,)
    assert f"at step {raised.value.step}" in str(raised.value)
    run = pb.rollout(coupled, thrown, controls, on_failure="mask")
    alone = pb.rollout(coupled, state, controls)
    assert run.status.failed.tolist() == [False, True] and "the particles" in run.status.reasons[1]
    for a, b in zip(leaves(run.final), leaves(alone.final), strict=True):
        np.testing.assert_array_equal(a[0], b[0])
    grads = run.pullback(robot_bar=tree_map(np.ones_like, state.robot), soft_bar=tree_map(np.ones_like, state.soft))
    assert not np.any(grads.state.soft.x[1]) and np.any(grads.state.soft.x[0])
    v = state.robot.v.copy()
    v[1, 0] = 1e200
    with pytest.raises(pb.SimulationError, match="the robot: geom 'palm' in world 1 .*blew up.*at step 0") as raised:
        pb.rollout(coupled, state._replace(robot=state.robot._replace(v=v)), controls)
    assert raised.value.worlds == (1,)
    controls[1, 0, 0] = 1e308
    with pytest.raises(
        pb.SimulationError, match=r"the robot: the motion blew up in world 0: it grew .*at step 1"
    ) as raised:
        pb.rollout(coupled, state, controls)
    assert raised.value.step == 1 and len(raised.value.states.soft.x) == 2


def test_what_cannot_be_coupled_is_refused():
    coupled = finger()
    robot, particles = coupled.robot, coupled._bare

    def other(**changed):
        return soft.Particles(**particles._settings() | changed)

    def refused(match, robot=robot, particles=particles, shapes="tip", **options):
        with pytest.raises(pb.PullbackError, match=match):
            pb.Coupled(robot, particles, shapes=shapes, **options)

    refused("whole multiple of that of the particles, 0.003 s: use dt=0.0025", particles=other(dt=0.003))
    refused("whole multiple", particles=other(dt=0.0198))
    refused("the robot has worlds=1, but the particles have worlds=2", particles=other(worlds=2))
    refused("the robot has dtype='float64', but", particles=other(dtype="float32"))
    refused("without shapes of their own", particles=other(shapes=[soft.Shape.sphere((0.5, 0.5, 0.5), 0.1)]))
    refused("no geom 'thumb'", shapes=("tip", "thumb"))
    refused("at least one geom", shapes=())
    refused("named once", shapes=("tip", "tip"))
    refused("friction must be", friction=-1.0)
    refused("friction must be", friction=(0.1, 0.2))
    refused("robot must be a Articulated", robot=particles)
    refused("soft must be soft.Particles or soft.Elastic, not Articulated", particles=robot)
    egg = pb.load(
        """<mujoco><option timestep="0.01"/><worldbody><body><freejoint/><geom name="egg" type="ellipsoid"
        size="0.1 0.1 0.2" mass="1"/></body></worldbody></mujoco>"""
    )
    refused("geom 'egg' is of type 'ellipsoid', which Particles cannot feel", pb.Articulated(egg, None), shapes="egg")
    with pytest.raises(pb.PullbackError, match="CoupledState"):
        coupled.step(robot.state())
    with pytest.raises(pb.PullbackError, match="control has shape"):
        coupled.step(coupled.state(), np.zeros((1, 7)))
    with pytest.raises(pb.PullbackError, match="no parameter 'mass'"):
        coupled.step(coupled.state(), params={"mass": 1.0})
    with pytest.raises(pb.PullbackError, match="no input 'pose'"):
        pb.rollout(coupled, coupled.state(), steps=1, inputs={"pose": np.zeros((1, 1, 5, 7))})
