"""What a motion conserves, and at which order of the timestep it does so."""

import numpy as np
import pytest
from trees import random_states, random_tree

import pullback as pb

ORDER = {"Euler": 1, "implicitfast": 1, "RK4": 4}
TUMBLER = """<mujoco><option integrator="{integrator}" timestep="{timestep}" gravity="0 0 0"/><worldbody><body>
  {joint}<inertial pos="{com}" mass="2" fullinertia="0.1 0.2 0.25 0.02 -0.01 0.03"/></body></worldbody></mujoco>"""
PENDULUM = """<mujoco><option integrator="{integrator}" timestep="{timestep}"/><worldbody><body>
  <joint axis="0 1 0"/><geom size="0.05" mass="1" pos="0.3 0 -0.5"/>
  <body pos="0.6 0 -1"><joint type="ball"/><geom type="box" size="0.1 0.05 0.2" mass="1" pos="0.1 0 -0.2"/></body>
  </body></worldbody></mujoco>"""

FLOATING = """<mujoco><option gravity="0 0 0" integrator="{integrator}" timestep="{timestep}"/><worldbody><body>
  <freejoint/><geom type="box" size="0.1 0.2 0.3" pos="0.05 0 0.1"/><body pos="0.3 0 0">
  <joint axis="0 1 0" pos="0 0 0.1" damping="1" stiffness="5"/><geom type="box" size="0.1 0.02 0.1"/>
  <body pos="0.2 0 0"><joint type="ball" stiffness="3"/><geom type="box" size="0.1 0.05 0.1" pos="0.1 0 0"/>
  </body></body></body></worldbody></mujoco>"""


def advanced(xml: str, integrator: str, timestep: float, time: float, q=None, v=None, **slots) -> tuple:
    """The model, and its state after ``time``."""
    model = pb.load(xml.format(integrator=integrator, timestep=timestep, **slots))
    system = pb.Articulated(model, contact=None)
    start = system.state(model.q0 if q is None else q, v)
    steps = round(time / timestep)
    return system, pb.rollout(system, start, steps=steps, checkpoint_every=max(1, steps)).final


def energy(system: pb.Articulated, state: pb.State) -> float:
    return float(pb.dynamics.energy(system, state.q, state.v).value.sum())


def orders(values: list[float]) -> np.ndarray:
    """Of convergence to zero, from errors at timesteps that halve."""
    return np.log2(np.abs(values[:-1]) / np.abs(values[1:]))


@pytest.mark.parametrize("integrator", ORDER)
def test_energy_of_a_double_pendulum(integrator):
    v = np.array([1.0, 0.5, -2.0, 1.5])
    drift = []
    for timestep in (0.02, 0.01, 0.005):
        system, end = advanced(PENDULUM, integrator, timestep, 0.4, v=v)
        drift.append(energy(system, end) - energy(system, system.state(system.model.q0, v)))
    # the energy of Runge-Kutta is off by one order less than its motion, if at all
    assert np.all(orders(drift) > ORDER[integrator] - 0.35), drift
    assert abs(drift[-1]) < {1: 0.3, 4: 1e-6}[ORDER[integrator]]


@pytest.mark.parametrize("joint", ["<freejoint/>", '<joint type="ball" pos="0.1 0.2 -0.1"/>'], ids=["free", "ball"])
def test_a_tumbling_body_under_runge_kutta(joint):
    """A rigid body on its own: RK4 is of fourth order in rotations too, where adding up angular velocities is not."""
    v = np.array([0.3, -0.2, 0.5, 4.0, 1.0, -2.0])[-3 if "ball" in joint else 0 :]
    slots = {"joint": joint, "com": "0.05 0.1 -0.1"}
    reference_system, reference = advanced(TUMBLER, "RK4", 1e-3, 0.8, v=v, **slots)
    start = reference_system.state(reference_system.model.q0, v)
    energies, poses = [], []
    for timestep in (0.04, 0.02, 0.01):
        system, end = advanced(TUMBLER, "RK4", timestep, 0.8, v=v, **slots)
        energies.append(energy(system, end) - energy(system, start))
        poses.append(np.linalg.norm(end.q - reference.q))
    assert np.all(orders(poses) > 3.7), poses
    assert np.all(orders(energies) > 3.5), energies
    assert abs(energies[-1]) < 1e-6 * energy(reference_system, start)


@pytest.mark.parametrize("integrator", ORDER)
def test_convergence_to_the_same_motion(integrator):
    """Every integrator tends to the motion that RK4 finds with a small step, at its own order."""
    v = np.array([1.0, 0.5, -2.0, 1.5])
    _, reference = advanced(PENDULUM, "RK4", 5e-4, 0.4, v=v)
    off = []
    for timestep in (0.02, 0.01, 0.005):
        _, end = advanced(PENDULUM, integrator, timestep, 0.4, v=v)
        off.append(np.linalg.norm(end.q - reference.q) + np.linalg.norm(end.v - reference.v))
    assert np.all(np.abs(orders(off) - ORDER[integrator]) < 0.5), off


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_momentum_of_trees_that_float(integrator):
    """Without gravity and with inner forces alone, nothing changes the linear or the angular momentum."""
    drift = []
    for timestep in (0.004, 0.002, 0.001):
        model = pb.load(FLOATING.format(integrator=integrator, timestep=timestep))
        q, v = random_states(model.mujoco, np.random.default_rng(0), 1)
        system = pb.Articulated(model, contact=None)
        run = pb.rollout(system, system.state(q, v), steps=round(0.2 / timestep))
        before, after = (pb.dynamics.momentum(system, run.q[t], run.v[t]).value for t in (0, -1))
        assert np.abs(before).max() > 0.1
        drift.append(np.abs(after - before).max())
    assert np.all(orders(drift) > ORDER[integrator] - 0.35), drift


@pytest.mark.parametrize("seed", range(3))
def test_damping_only_takes_energy(seed):
    model = pb.load(random_tree(seed, actuators="none", integrator="RK4", timestep=1e-3))
    system = pb.Articulated(model)
    system.params["gravcomp"] = np.zeros(model.nbody)  # that would be a force of its own
    system.params["damping"] = model.dof_damping + 0.2
    q, v = random_states(model.mujoco, np.random.default_rng(seed), 1)
    run = pb.rollout(system, system.state(q, v), steps=200)
    values = [energy(system, pb.State(run.q[t], run.v[t])) for t in range(0, 201, 20)]
    assert np.all(np.diff(values) < 0)
