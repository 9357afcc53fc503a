"""Shapes that move and push elastic bodies: gradients, momentum, what they do, and what is refused."""

import numpy as np
import pytest
from soft_bodies import masses, moving, shaken, surrounded
from soft_shapes import Driven

import pullback as pb
from pullback import soft
from pullback.core.trees import leaves

RUBBER = soft.StableNeoHookean(young=2e4, density=1e3, viscosity=20.0)


# --- gradients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.0, 0.3])
def test_every_gradient_is_right(size):
    """Also by poses and velocities, of shapes that stand still and of those that turn and move; all sorts at once."""
    system = surrounded()
    driven = Driven(system)
    start = shaken(system, 3, size=0.0, speed=0.1)
    report = pb.check_system(driven, start, driven.control(np.zeros((1, 0)), moving(system, size=size)))
    names = {"x", "v", "impulse", "control", "friction", "contact_stiffness", "shear", "density", "gravity"}
    assert names <= {row.field for row in report.rows}
    for row in report.rows:
        assert row.status == "agrees" and row.largest > 0.0 and row.error < 1e-6, row


def test_gradients_of_several_steps_and_worlds():
    system = surrounded(worlds=2)
    driven = Driven(system)
    start = shaken(system, 4, size=0.0, speed=0.05)
    first = moving(system, seed=1, size=0.05)
    controls, now = [], dict(first)
    for step in range(3):
        path = soft.carried.carry_on(first["pose"], first["twist"], system.dt, 4)[0]
        now["pose"] = path[step]
        controls.append(driven.control(np.zeros((2, 0)), now))
    names = ("x", "v", "impulse", "control", "friction", "contact_stiffness", "density")
    report = pb.check_system(driven, start, np.stack(controls), rollout_steps=3, names=names)
    for row in report.rows:
        assert row.status == "agrees" and row.largest > 0.0 and row.error < 1e-6, row


def test_checkpoints_holds_and_torch_change_nothing():
    import torch

    import pullback.torch as pbt

    system = surrounded()
    start = shaken(system, 5, size=0.0, speed=0.05)
    inputs = {name: np.stack([x] * 2) for name, x in moving(system, size=0.05).items()}
    inputs["pose"][1] = soft.carried.carry_on(inputs["pose"][0], inputs["twist"][0], 2 * system.dt, 2)[0][1]
    given = {"steps": 2, "hold": 2, "inputs": inputs}
    bars = {"x_bar": np.ones((3, *start.x.shape)), "impulse_bar": np.ones((3, *start.impulse.shape))}
    found = [pb.rollout(system, start, checkpoint_every=k, **given).pullback(**bars) for k in (1, 2)]
    arrays = [[*leaves(b.state), *b.params.values(), *b.inputs.values()] for b in found]
    assert np.abs(found[0].inputs["twist"]).max() > 0 and np.abs(found[0].inputs["pose"]).max() > 0
    for a, b in zip(*arrays, strict=True):
        np.testing.assert_array_equal(a, b)
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in inputs.items()}
    state = soft.ShapedElasticState(*map(torch.tensor, start))
    states = pbt.rollout(system, state, torch.zeros((2, 1, 0), dtype=torch.float64), inputs=tensors, hold=2)
    (states.x.sum() + states.impulse.sum()).backward()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor.grad.numpy(), found[0].inputs[name])


def test_a_hold_moves_shapes_on():
    """As the same motion given step by step."""
    system = surrounded()
    start = shaken(system, 6, size=0.0, speed=0.05)
    still = moving(system, size=0.1)
    held = pb.rollout(system, start, steps=1, hold=3, inputs={name: x[None] for name, x in still.items()})
    path, twist = soft.carried.carry_on(still["pose"], still["twist"], system.dt, 3)
    each = pb.rollout(system, start, steps=3, inputs={"pose": path, "twist": twist})
    np.testing.assert_allclose(held.final.x, each.final.x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(held.final.impulse, each.final.impulse, rtol=0, atol=1e-11)


# --- forces and momentum --------------------------------------------------------------------------------------------


def test_shapes_get_the_momentum_that_vertices_lose():
    """Linear, and about the origin the moment of all forces at the vertices: to rounding, in every step."""
    system = surrounded(gravity=(0, 0, 0))
    mass = masses(system)[:, None]
    start = shaken(system, 7, size=0.0, speed=0.2)
    twist = np.repeat(moving(system, size=0.1)["twist"][None], 20, axis=0)
    pose = soft.carried.carry_on(system.shapes_at_rest["pose"][None], twist[0], system.dt, 20)[0]
    run = pb.rollout(system, start, steps=20, inputs={"pose": pose, "twist": twist})
    given = np.diff(run.impulse[:, 0], axis=0).sum(axis=1)
    change = mass * np.diff(run.v[:, 0], axis=0)
    assert np.all(np.abs(run.final.impulse).max(axis=-1) > 1e-3)
    np.testing.assert_allclose(given[:, 3:], -change.sum(axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(given[:, :3], -np.cross(run.x[1:, 0], change).sum(axis=1), rtol=0, atol=1e-12)


def test_shapes_that_are_told_to_stand_still_do():
    system = surrounded()
    start = shaken(system, 8, size=0.0, speed=0.1)
    still = pb.rollout(system, start, steps=3)
    at_rest = {name: np.repeat(x[None, None], 3, axis=0) for name, x in system.shapes_at_rest.items()}
    told = pb.rollout(system, start, steps=3, inputs=at_rest)
    for a, b in zip(leaves(still.final), leaves(told.final), strict=True):
        np.testing.assert_array_equal(a, b)


def on_a_floor(friction: float, twist, steps: int, dt: float = 0.01):
    """A block of rubber on a floor that moves; what it weighs on each vertex is small against contact stiffness."""
    floor = soft.Shape.plane((0, 0, 0), (0, 0, 1), friction=friction)
    block = soft.solid_block((-0.05, -0.05, 0.0015), (0.05, 0.05, 0.0515), (2, 2, 1), RUBBER)
    system = soft.Elastic(block, dt=dt, shapes=[floor], gap=2e-3, slip=1e-4, contact_stiffness=1e4, threads=1)
    rest = pb.rollout(system, system.state(), steps=60).final
    twist = np.broadcast_to(np.asarray(twist, float), (1, 1, 6))
    pose, twist = soft.carried.carry_on(system.shapes_at_rest["pose"][None], twist, dt, steps)
    start = rest._replace(v=np.zeros_like(rest.v), impulse=np.zeros_like(rest.impulse))
    return system, pb.rollout(system, start, steps=steps, inputs={"pose": pose, "twist": twist})


def test_a_belt_takes_along_what_lies_on_it():
    """By Coulomb's law: friction g t, until it is as fast as the belt."""
    _, run = on_a_floor(0.2, [0, 0, 0, 1.0, 0, 0], 20)
    assert run.v[-1, 0, :, 0].mean() == pytest.approx(0.2 * 9.81 * 0.2, rel=0.03)
    _, run = on_a_floor(0.6, [0, 0, 0, 0.3, 0, 0], 60)
    assert run.v[-1, 0, :, 0].mean() == pytest.approx(0.3, rel=1e-2)


def test_a_turntable_turns_what_lies_on_it():
    """By as much as it turns itself, but for the creep below ``slip``: friction is in the axes of the shape."""
    _, run = on_a_floor(0.8, [0, 0, 1.0, 0, 0, 0], 100)
    start, end = (run.x[t, 0, :, :2] for t in (20, 100))
    turned = [np.angle(np.sum((x @ [1, 1j]) * np.conj(run.x[0, 0, :, :2] @ [1, 1j]))) for x in (start, end)]
    assert turned[1] - turned[0] == pytest.approx(0.8, rel=5e-3)


def test_a_floor_carries_what_lies_on_it_up_and_gets_its_weight():
    _, run = on_a_floor(0.5, [0, 0, 0, 0, 0, 0.5], 80)
    mass = 1e3 * 0.1 * 0.1 * 0.05
    assert run.v[-1, 0, :, 2].mean() == pytest.approx(0.5, abs=1e-5)  # it still swings a little
    got = (run.impulse[80, 0, 0] - run.impulse[60, 0, 0]) / 0.2
    assert got[5] == pytest.approx(-9.81 * mass, rel=1e-4)


@pytest.mark.parametrize("speed", [1.0, 30.0])
def test_nothing_passes_through_a_shape_however_fast_it_moves(speed):
    """A ball, and a plate that moves farther in a step than it is thick: they take the curtain along."""
    curtain = soft.sheet((-0.15, 0, 0), (0.3, 0, 0), (0, 0, 0.3), (8, 8), soft.Membrane(young=300.0, density=0.2))
    place = (0.013, -0.07, 0.16)
    ball = soft.Shape.sphere(place, 0.06, friction=0.2)
    if speed > 10:
        ball = soft.Shape.box(place, (0.3, 0.02, 0.3), friction=0.2)
    system = soft.Elastic(curtain, dt=5e-3, shapes=[ball], gap=4e-3, threads=1)
    steps = 8 if speed > 10 else 60
    pose, twist = soft.carried.carry_on(
        system.shapes_at_rest["pose"][None], np.array([[[0, 0, 0, 0, speed, 0]]]), system.dt, steps
    )
    run = pb.rollout(system, system.state(), steps=steps, inputs={"pose": pose, "twist": twist})
    end = ball.moved_to(pose[-1, 0, 0] + [0, speed * system.dt, 0, 0, 0, 0, 0])
    assert end.distance(run.final.x[0]).min() > 0
    middle = np.argmin(np.linalg.norm(curtain.points - ball.position * [1, 0, 1], axis=1))
    assert run.final.x[0, middle, 1] > end.position[1]
    assert run.final.impulse[0, 0, 4] < -1e-4


def squeeze(speed: float, steps: int):
    block = soft.solid_block((-0.05, -0.05, -0.05), (0.05, 0.05, 0.05), (2, 2, 2), RUBBER)
    jaws = [soft.Shape.box((0, 0, z), (0.08, 0.08, 0.02), friction=0.5) for z in (-0.073, 0.073)]
    system = soft.Elastic(block, dt=0.01, shapes=jaws, gap=4e-3, gravity=(0, 0, 0), threads=1)
    twist = np.zeros((1, 2, 6))
    twist[0, :, 5] = (speed, -speed)
    pose, twist = soft.carried.carry_on(system.shapes_at_rest["pose"][None], twist, system.dt, steps)
    return system, pb.rollout(system, system.state(), steps=steps, inputs={"pose": pose, "twist": twist})


def test_a_block_between_two_jaws_is_squeezed():
    _, run = squeeze(0.1, 30)
    height = np.ptp(run.final.x[0, :, 2])
    assert 0.04 < height < 0.05
    np.testing.assert_allclose(run.final.impulse[0, 0, 5], -run.final.impulse[0, 1, 5], rtol=1e-6)
    assert run.final.impulse[0, 0, 5] < -0.1


def test_float32_is_the_same_to_what_it_solves():
    """A residual of 1e-5 of stiffness times size; from rest too, where what friction rubs along is zero."""
    for speed in (0.0, 0.1):
        found = []
        for dtype in ("float64", "float32"):
            system = surrounded(dtype=dtype)
            twist = moving(system, size=0.05)["twist"]
            pose, twist = soft.carried.carry_on(system.shapes_at_rest["pose"][None], twist, system.dt, 3)
            start = shaken(system, 9, size=0.0, speed=speed)
            run = pb.rollout(system, start, steps=3, inputs={"pose": pose, "twist": twist})
            bars = run.pullback(x_bar=np.ones_like(run.final.x))
            assert run.x.dtype == bars.inputs["twist"].dtype == dtype
            assert np.all(np.isfinite(bars.inputs["twist"])) and np.any(bars.inputs["twist"])
            found.append(run.final.x)
        np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-4 * 0.17)


# --- what is drawn, and what is refused -----------------------------------------------------------------------------


def test_shapes_are_drawn_where_they_are():
    from pullback.view import draw_run

    _, run = squeeze(0.1, 10)
    drawing = draw_run(run)
    assert drawing.problem() == ""
    np.testing.assert_allclose(drawing.poses[:, 0, 2, 2], -0.073 + 1e-3 * np.arange(11), atol=1e-7)


def test_what_cannot_be_is_refused():
    with pytest.raises(pb.SimulationError, match="leave no room for vertex .* in step 0: move them less"):
        squeeze(7.5, 1)
    system = surrounded()
    start = system.state()
    inputs = {name: np.repeat(x[None], 2, axis=0) for name, x in moving(system, size=0.0).items()}
    inputs["pose"][1, 0, 0, 2] = 0.05  # the floor jumps into the cube
    with pytest.raises(pb.SimulationError, match="inside of shape 0, a plane, by 0.0.* at step 1: .*as their twist"):
        pb.rollout(system, start, steps=2, inputs=inputs)
    run = pb.rollout(system, start, steps=2, inputs=inputs, on_failure="mask")
    np.testing.assert_array_equal(run.impulse[2], run.impulse[1])
    assert np.abs(run.impulse[1]).max() > 0
    with pytest.raises(pb.PullbackError, match="quaternion of shape 0 in world 0 at step 0"):
        system.step(start, inputs={"pose": np.zeros((1, 5, 7))})
    with pytest.raises(pb.PullbackError, match=r"ShapedElasticState\(x, v, impulse\)"):
        system.step(soft.ElasticState(start.x, start.v))
