"""Bodies of which some corners part while others hit: energy, and gradients."""

import numpy as np
import pytest

import pullback as pb

FLAT = """<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><geom type="plane" size="5 5 .1" condim="1"/>
  <body pos="0 0 .0999"><freejoint/><geom type="box" size=".1 .1 .1" mass="1" condim="1"/></body></worldbody>
  </mujoco>"""


@pytest.mark.parametrize("restitution", [0.5, 1.0])
def test_corners_that_part_do_not_add_energy(restitution):
    """A box lies on a plane, some corners part and others hit: what parts may be pushed back, but not stopped."""
    model = pb.load(FLAT)
    contact = pb.ContactImpulse(sweeps=200, restitution=restitution, erp=0.0, rest_speed=0.0)
    system = pb.Articulated(model, contact, worlds=100)
    v = np.random.default_rng(0).normal(size=(100, 6)) * [1, 1, 1, 5, 5, 5]
    after = system.step(system.state(v=v)).v
    energies = [(x**2 * [1, 1, 1, *(3 * [0.2**2 / 6])]).sum(axis=1) for x in (v, after)]
    assert np.all(energies[1] <= energies[0] * (1 + 1e-6))
    if restitution == 1:
        np.testing.assert_allclose(energies[1], energies[0], rtol=1e-4)


def test_gradients_of_corners_that_part():
    """By the velocity and the restitution, where one corner hits and others part."""
    model = pb.load(FLAT)
    v = np.array([[0.3, -0.2, -0.1, 4.0, -2.2, 1.0]])
    bar = np.random.default_rng(1).normal(size=(1, 6))

    def loss(speed, e) -> float:
        system = pb.Articulated(model, pb.ContactImpulse(sweeps=50, erp=0.0, restitution=0.7))
        run = pb.rollout(system, system.state(v=speed), steps=2, params={"restitution": np.full(2, e)})
        return float(np.sum(bar * run.v[-1])), run

    _, run = loss(v, 0.7)
    grads = run.pullback(v_bar=bar)
    way = np.random.default_rng(2).normal(size=(1, 6))
    for exact, move in (
        (float(np.sum(grads.state.v * way)), lambda h: loss(v + h * way, 0.7)[0]),
        (float(grads.params.restitution.sum()), lambda h: loss(v, 0.7 + h)[0]),
    ):
        errors = [abs((move(h) - move(-h)) / (2 * h) - exact) for h in (1e-4, 1e-5, 1e-6)]
        assert min(errors) < 1e-7 * max(abs(exact), 1.0) and abs(exact) > 1e-3
