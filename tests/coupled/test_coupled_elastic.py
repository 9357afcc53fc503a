"""Robots among elastic bodies: momentum, gradients, weight, and what is refused."""

import copy
import pickle

import numpy as np
import pytest
from coupled_elastic import FINGERS, block, finger, floating, flying, in_motion
from coupled_scenes import robot_momentum
from soft_bodies import masses

import pullback as pb
from pullback import soft
from pullback.core.trees import leaf_names, leaves, row, tree_map


def test_robot_and_bodies_keep_their_momentum():
    """Linear, to the rounding of implicit steps, while two bodies that turn squeeze a block between them and fly off;
    and the robot gets what the shapes got, about the origin too."""
    coupled = floating()
    run = pb.rollout(coupled, flying(coupled), steps=60)
    at = [row(run.states, t) for t in range(61)]
    robot = np.array([robot_momentum(coupled.robot, state.robot)[0] for state in at])
    bodies = np.array([masses(coupled.soft) @ state.soft.v[0] for state in at])
    both, size = robot[:, 3:] + bodies, np.abs(robot).max()
    assert np.abs(robot[:, 3:] - robot[0, 3:]).max() > 0.1 * size
    assert np.all(np.abs(run.final.soft.impulse[0, :, 3:]).max(axis=-1) > 1e-3)
    np.testing.assert_allclose(both, both[:1].repeat(61, axis=0), rtol=0, atol=1e-12)
    lost = robot - robot[0]
    np.testing.assert_allclose(run.soft.impulse[:, 0].sum(axis=1), lost, rtol=0, atol=1e-14 * size)


def test_a_ball_on_a_cushion_weighs_what_it_weighs():
    """Once all lies still, the floor of the file carries both."""
    ball = pb.load(
        """<mujoco><option timestep="0.004"/><worldbody>
        <geom name="floor" type="plane" size="1 1 0.1" pos="0 0 -0.052"/>
        <body pos="0.006 0.004 0.093"><joint name="up" type="slide" axis="0 0 1" damping="5"/>
        <geom name="ball" type="sphere" size="0.04" mass="0.4"/></body></worldbody></mujoco>"""
    )
    cushion = soft.Elastic(block((4, 4, 2)), dt=4e-3, gap=4e-3, damping=5.0)
    coupled = pb.Coupled(pb.Articulated(ball, None), cushion, shapes=("ball", "floor"), friction=0.5)
    run = pb.rollout(coupled, coupled.state(), steps=300, checkpoint_every=299)
    push = (run.final.soft.impulse - run.soft.impulse[-2])[0, :, 5] / coupled.dt
    assert push[0] == pytest.approx(9.81 * 0.4, rel=2e-3)
    assert push[1] == pytest.approx(-9.81 * (0.4 + 0.5), rel=2e-3)
    assert run.final.robot.q[0, 0] < -1e-3 and abs(run.final.robot.v[0, 0]) < 1e-4


def test_every_gradient_is_right():
    """Every parameter of both, where the robot touches bodies with three shapes."""
    coupled = finger()
    state, control = in_motion(coupled)
    assert np.all(np.any(coupled.step(state, control).soft.impulse != 0, axis=-1))
    report = pb.check_system(coupled, state, control)
    assert {"robot.q", "soft.x", "soft.impulse", "control", "robot.com", "robot.joint_axis", "soft.friction"} <= {
        line.field for line in report.rows
    }
    for line in report.rows:
        assert line.status in ("agrees", "kink") and line.largest > 0.0 and line.error < 1e-6, line


def test_gradients_at_rest():
    coupled = finger()
    names = ("robot.q", "robot.v", "soft.x", "soft.v", "control", "robot.mass", "soft.contact_stiffness", "soft.shear")
    for line in pb.check_system(coupled, coupled.state(), np.zeros((1, coupled.nu)), names=names).rows:
        assert line.status in ("agrees", "kink") and line.largest > 0.0 and line.error < 1e-6, line


def test_rollouts_of_several_worlds_and_steps():
    coupled = finger(worlds=2)
    state, control = in_motion(coupled, seed=3, speed=0.03)
    names = ("robot.q", "robot.v", "soft.x", "soft.v", "soft.impulse", "control", "robot.mass", "soft.friction")
    report = pb.check_system(coupled, state, np.stack([control] * 3), rollout_steps=3, names=names)
    for line in report.rows:
        assert line.status in ("agrees", "kink") and line.largest > 0.0 and line.error < 1e-6, line


def test_checkpoints_and_torch_change_nothing():
    import torch

    import pullback.torch as pbt

    coupled = finger()
    state, control = in_motion(coupled)
    controls = np.stack([control] * 3)
    found = []
    for cut in (1, 2):
        run = pb.rollout(coupled, state, controls, hold=2, checkpoint_every=cut)
        bars = {"robot_bar": tree_map(np.ones_like, state.robot), "soft_bar": tree_map(np.ones_like, state.soft)}
        found.append(run.pullback(**bars))
    for a, b in zip(*([*leaves(x.state), x.controls, *x.params.values()] for x in found), strict=True):
        np.testing.assert_array_equal(a, b)
    tensors = tree_map(lambda x: torch.tensor(x, requires_grad=True), state)
    states = pbt.rollout(coupled, tensors, torch.tensor(controls), hold=2)
    sum(x[-1].sum() for x in leaves(states)).backward()
    for name, tensor, bar in zip(leaf_names(state), leaves(tensors), leaves(found[0].state), strict=True):
        np.testing.assert_array_equal(tensor.grad.numpy(), bar, err_msg=name)


def test_parameters_travel_with_copies():
    coupled = finger()
    coupled.params["soft.friction"] = 0.1
    coupled.params["soft.shear"] = 2 * coupled.params["soft.shear"]
    state, control = in_motion(coupled)
    expected = coupled.step(state, control)
    assert np.abs(expected.soft.v - finger().step(state, control).soft.v).max() > 1e-4
    for other in (copy.deepcopy(coupled), pickle.loads(pickle.dumps(coupled)), coupled.in_worlds(1)):
        for a, b in zip(leaves(other.step(state, control)), leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)
    elastic = finger()._bare
    elastic.params["shear"] = 1e4
    made = pb.Coupled(finger().robot, elastic, shapes="tip", friction=0.7)
    np.testing.assert_array_equal(made.params["soft.shear"], [1e4])
    np.testing.assert_array_equal(made.params["soft.friction"], [0.7])


def test_both_are_drawn():
    from pullback.view import draw_run

    coupled = finger()
    state, control = in_motion(coupled)
    run = pb.rollout(coupled, state, np.stack([control] * 4))
    drawing = draw_run(run)
    assert drawing.problem() == ""
    np.testing.assert_allclose(drawing.mesh_motion[-1].min(axis=0), run.final.soft.x[0].min(axis=0), atol=1e-6)
    assert drawing.paint_unit == "strain" and list(drawing.shape_kind).count("mesh") == 1
    pushed = drawing.contact_frame == 1
    given = (run.soft.impulse[2, 0, :, 3:] - run.soft.impulse[1, 0, :, 3:]) / 0.01
    np.testing.assert_allclose(drawing.contact_force[pushed], given[np.any(given != 0, axis=-1)])


def test_failures_say_whose_they_are_and_what_cannot_be_coupled_is_refused():
    coupled = finger(worlds=2)
    state, control = in_motion(coupled)
    inside = state.soft.x.copy()
    inside[1, 3, 2] = -0.06
    with pytest.raises(pb.SimulationError, match="the elastic bodies: vertex 3 .block. in world 1 .*shape 2") as raised:
        pb.rollout(coupled, state._replace(soft=state.soft._replace(x=inside)), control[None])
    assert raised.value.worlds == (1,) and raised.value.step == 0
    robot, elastic = coupled.robot, coupled._bare
    ring = soft.Elastic(**elastic._settings() | {"shapes": soft.Shape.plane((0, 0, -1), (0, 0, 1))})
    for match, given in (
        ("the elastic bodies around a robot are in space, and without shapes of their own", ring),
        ("whole multiple of that of the elastic bodies", soft.Elastic(**elastic._settings() | {"dt": 0.003})),
    ):
        with pytest.raises(pb.PullbackError, match=match):
            pb.Coupled(robot, given, shapes=FINGERS)
    can = pb.load(
        """<mujoco><option timestep="0.01"/><worldbody><body><freejoint/><geom name="can" type="cylinder"
        size="0.1 0.1" mass="1"/></body></worldbody></mujoco>"""
    )
    alone = soft.Elastic(**elastic._settings() | {"worlds": 1})
    with pytest.raises(
        pb.PullbackError, match="geom 'can' is of type 'cylinder', which Elastic cannot feel: use plane"
    ):
        pb.Coupled(pb.Articulated(can, None), alone, shapes="can")
    with pytest.raises(pb.PullbackError, match=r"soft=ShapedElasticState\(x, v, impulse\)"):
        coupled.step((state.robot, (state.soft.x,)))
