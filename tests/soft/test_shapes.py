"""Shapes that move through particles: gradients, momentum, and what they do to what they push."""

import numpy as np
import pytest
from crowds import motion
from soft_shapes import HOLDS, SHAPES, Driven, among, moving

import pullback as pb
from pullback import soft
from pullback.core.trees import leaves

JELLY = soft.NeoHookean(young=1e4, poisson=0.3, density=1000.0)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("hold", HOLDS)
def test_every_gradient_is_right(kind, hold):
    """By every particle, pose, velocity, size and friction; the impulse has a cotangent too."""
    system = among([kind], hold, worlds=1)
    start, control = motion(system)
    driven = Driven(system)
    names = ("x", "v", "C", "F", "impulse", "control", "density", "gravity", "shape_size", "shape_friction")
    report = pb.check_system(driven, start, driven.control(control, moving(system)), names=names)
    still = {"shape_friction"} if hold in ("sticky", "clamped") else set()
    still |= {"shape_size"} if kind == "plane" else set()
    for row in report.rows:
        if row.field in still:
            assert row.largest == 0.0
        else:
            assert row.status in ("agrees", "kink") and row.largest > 0.0 and row.error < 1e-6, row


def test_shapes_that_overlap_each_other_and_walls():
    system = among(["box", "sphere", "plane"], wall="Coulomb", worlds=2)
    start, control = motion(system, seed=1)
    driven = Driven(system)
    control = driven.control(control, moving(system, seed=1))
    report = pb.check_system(driven, start, np.stack([control] * 3), rollout_steps=3)
    for row in report.rows:
        assert row.status in ("agrees", "kink") and row.largest > 0.0, row


def test_shapes_may_stand_still():
    """Without inputs they are where they were made, at rest."""
    system = among(["capsule"], worlds=1)
    start, control = motion(system)
    still = system.step(start, control)
    moved = system.step(start, control, inputs={name: x[None] for name, x in system.shapes_at_rest.items()})
    for a, b in zip(still, moved, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(still.impulse).max() > 0
    pb.check_system(system, start, control, names=("x", "impulse", "shape_size", "shape_friction"))


def momenta(system, state) -> np.ndarray:
    """(worlds, 6) angular about the origin, and linear; of particles, whose velocity gradients count too."""
    mass = np.concatenate([body.material.density * body.volume for body in system.bodies])[:, None, None]
    inertia = system.dx**2 / 4
    moment = np.sum(mass * (state.x[..., None] * state.v[..., None, :] + inertia * state.C.swapaxes(-1, -2)), axis=1)
    spin = moment - moment.swapaxes(-1, -2)
    return np.concatenate(
        [spin[:, 1, 2, None], spin[:, 2, 0, None], spin[:, 0, 1, None], np.sum(mass[..., 0] * state.v, axis=1)], axis=1
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_shapes_get_the_momentum_that_particles_lose(threads):
    """Linear and angular, to rounding, over many steps, of shapes that move and overlap."""
    block = soft.block((0.3, 0.3, 0.3), (0.6, 0.6, 0.6), (10, 10, 10), soft.NeoHookean(young=50.0, density=2.0))
    shapes = [SHAPES[kind](friction=0.5) for kind in ("box", "sphere", "cylinder")]
    settings = {"gravity": np.zeros(3), "threads": threads, "worlds": 1}
    system = soft.Particles([block], dx=1 / 16, cells=(17,) * 3, dt=2e-3, shapes=shapes, **settings)
    assert system._stepper.lanes == threads
    start = system.state(v=np.random.default_rng(0).normal(size=(1000, 3)))
    steps = 60
    random = np.random.default_rng(1)
    twist = 0.3 * random.normal(size=(steps, 1, 3, 6))
    pose = np.repeat(system.shapes_at_rest["pose"][None, None], steps, axis=0)
    pose[..., :3] += system.dt * np.cumsum(twist[..., 3:], axis=0)
    run = pb.rollout(system, start, steps=steps, inputs={"pose": pose, "twist": twist})
    lost = momenta(system, start) - momenta(system, run.final)
    given = run.final.impulse.sum(axis=1)
    assert np.all(np.abs(run.final.impulse).max(axis=-1) > 1e-3)
    np.testing.assert_allclose(given, lost, rtol=0, atol=1e-13)


def test_checkpoints_holds_and_torch_change_nothing():
    import torch

    import pullback.torch as pbt

    system = among(["box", "sphere"], worlds=1, dt=2e-3)
    start, control = motion(system)
    controls = np.stack([control] * 6)
    inputs = {name: np.stack([x] * 6) for name, x in moving(system).items()}
    run = {"hold": 2, "inputs": inputs}
    bars = {"x_bar": np.ones((7, *start.x.shape)), "impulse_bar": np.ones((7, *start.impulse.shape))}
    found = [pb.rollout(system, start, controls, checkpoint_every=k, **run).pullback(**bars) for k in (1, 4, "sqrt")]
    arrays = [[*leaves(b.state), b.controls, *b.params.values(), *b.inputs.values()] for b in found]
    assert np.abs(found[0].inputs["twist"]).max() > 0
    for other in arrays[1:]:
        for a, b in zip(arrays[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in inputs.items()}
    state = soft.ShapedState(*map(torch.tensor, start))
    states = pbt.rollout(system, state, torch.tensor(controls), inputs=tensors, hold=2)
    (states.x.sum() + states.impulse.sum()).backward()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor.grad.numpy(), found[0].inputs[name])


def test_cores_change_rounding_alone():
    block = soft.block((0.2, 0.2, 0.2), (0.7, 0.7, 0.7), (10, 10, 10), JELLY)
    found = []
    for threads in (1, 2):
        shape = soft.Shape.sphere((0.45, 0.45, 0.7), 0.15, friction=0.3)
        settings = {"dx": 1 / 16, "cells": (17,) * 3, "dt": 2e-3, "threads": threads}
        system = soft.Particles([block], shapes=[shape], **settings)
        twist = np.tile([0.0, 0.5, 0.0, 0.0, 0.0, -0.5], (10, 1, 1, 1))
        run = pb.rollout(system, system.state(), steps=10, inputs={"twist": twist})
        grads = run.pullback(impulse_bar=np.ones((1, 1, 6)), x_bar=np.ones((1, 1000, 3)))
        found.append((run.final.impulse, grads.inputs["twist"], grads.params.shape_size, grads.state.x))
    for a, b in zip(*found, strict=True):
        assert np.abs(a).max() > 0
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())


def on_a_floor(friction: float, twist, steps: int, **options):
    """A cube of jelly on a floor that moves, 9.81 m/s² downwards."""
    floor = soft.Shape.plane((0.3, 0.3, 0.2), (0, 0, 1), friction=friction)
    cube = soft.block((0.2, 0.2, 0.215), (0.4, 0.4, 0.415), (8, 8, 8), JELLY)
    settings = {"dx": 0.05, "cells": (30, 13, 13), "dt": 2e-3, "shapes": [floor], "threads": 1}
    system = soft.Particles([cube], **settings | options)
    inputs = {"twist": np.tile(np.asarray(twist, float), (steps, 1, 1, 1))}
    return system, pb.rollout(system, system.state(), steps=steps, inputs=inputs)


def test_a_belt_takes_along_what_lies_on_it():
    """By Coulomb's law: friction g t, until it is as fast as the belt."""
    _, run = on_a_floor(0.2, [0, 0, 0, 1.0, 0, 0], 150)
    assert run.v[-1, 0, :, 0].mean() == pytest.approx(0.2 * 9.81 * 0.3, rel=0.05)
    _, run = on_a_floor(0.6, [0, 0, 0, 0.4, 0, 0], 150)
    assert run.v[-1, 0, :, 0].mean() == pytest.approx(0.4, rel=0.02)


def test_what_lies_on_a_shape_weighs_what_it_weighs():
    """The floor gets m g t, less what the cube still has; and nothing sideways but for friction."""
    system, run = on_a_floor(0.3, np.zeros(6), 300)
    mass = 1000.0 * 0.2**3
    got = run.impulse[300, 0, 0] - run.impulse[100, 0, 0]
    gained = mass * (run.v[300, 0] - run.v[100, 0]).mean(axis=0)
    assert got[5] == pytest.approx(-mass * 9.81 * 0.4 - gained[2], rel=1e-9)
    assert abs(got[3]) < 1e-6 * abs(got[5])


def test_bad_shapes_are_refused():
    block = soft.block((0.3, 0.3), (0.6, 0.6), (4, 4), JELLY)
    grid = {"dx": 1 / 16, "dt": 1e-4}
    ball = soft.Shape.sphere((0.5, 0.5, 0.5), 0.1)
    with pytest.raises(pb.PullbackError, match="in space"):
        soft.Particles([block], cells=(17, 17), shapes=[ball], **grid)
    with pytest.raises(pb.PullbackError, match="a shape must be a Shape"):
        among([]).__class__([block], cells=(17, 17), shapes=[3], **grid)
    system = among(["sphere"], worlds=1)
    inputs = moving(system)
    with pytest.raises(pb.PullbackError, match="quaternion of shape 0 in world 0 at step 0"):
        system.step(system.state(), inputs={**inputs, "pose": np.zeros((1, 1, 7))})
    with pytest.raises(pb.PullbackError, match="no input 'place'"):
        system.step(system.state(), inputs={"place": inputs["pose"]})
    with pytest.raises(pb.PullbackError, match="shape 0: Elastic has"):
        cloth = soft.sheet((0, 0, 1), (1, 0, 0), (0, 1, 0), (2, 2), soft.Membrane(young=10.0, density=0.1))
        soft.Elastic(cloth, dt=0.01, shapes=[soft.Shape.cylinder((0, 0, 0), (0, 0, 0.5), 0.1)])
