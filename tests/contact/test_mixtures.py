"""Robots in which tendons, loops, activations, actuators at sites, curved springs, mocap bodies, contacts and sweeps
against slip come together: against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from mechanisms import MECHANISMS, mechanism
from mixed import KINDS, random_mixture
from oracles import precise
from trees import shaken

import pullback as pb
from pullback.rollout.check import AGREES

WORLDS = 12


def states_of(m: mujoco.MjModel, count: int, seed: int):
    """q, v, act and controls (count, ...) along a motion, and poses of mocap bodies near those of the file."""
    rng, kept = np.random.default_rng(seed), []
    for data in shaken(m, rng, 100, every=4, restart=8, kick=0.5):
        kept.append((data.qpos.copy(), data.qvel.copy(), data.act.copy(), data.ctrl.copy()))
        if len(kept) == count:
            break
    moved = m.body_mocapid >= 0
    poses = np.tile(np.concatenate([m.body_pos[moved], m.body_quat[moved]], axis=1), (count, 1, 1))
    return *(np.array(column) for column in zip(*kept, strict=True)), poses + 0.1 * rng.normal(size=poses.shape)


def stepped(m: mujoco.MjModel, q, v, act, controls, poses) -> tuple[np.ndarray, np.ndarray]:
    """MuJoCo's next v and act."""
    data, vs, acts = mujoco.MjData(m), np.empty_like(v), np.empty_like(act)
    for k in range(len(q)):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = q[k], v[k], act[k], controls[k]
        data.mocap_pos[:], data.mocap_quat[:] = poses[k, :, :3], poses[k, :, 3:]
        mujoco.mj_step(m, data)
        vs[k], acts[k] = data.qvel, data.act
    return vs, acts


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "RK4"])
@pytest.mark.parametrize("seed", [0, 2, 4, 11, 18, 22, 26])
def test_robots_with_everything_move_as_in_mujoco(seed, integrator):
    model = pb.load(random_mixture(seed, integrator=integrator))
    m = precise(model.mujoco)
    q, v, act, controls, poses = states_of(m, WORLDS, seed)
    system = pb.Articulated(model, worlds=WORLDS)
    assert all(getattr(system._flavour, kind) for kind in KINDS if kind != "fluid")
    ours = system.step(system.state(q, v, act), controls, inputs={"mocap": poses})
    their_v, their_act = stepped(m, q, v, act, controls, poses)
    size = np.abs(their_v - v).max(axis=1)
    errors = np.abs(ours.v - their_v).max(axis=1) / size
    # In its sweeps MuJoCo ends the search for friction on an elliptic cone at 1e-10 N², much of what light loads have.
    assert np.median(errors) < 1e-8 and np.max(errors) < (1e-4 if m.opt.cone else 1e-8)
    np.testing.assert_allclose(ours.act, their_act, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "kinds, integrator",
    [(("tendons", "loops", "fluid"), "Euler"), (("tendons", "noslip", "fluid"), "Euler")]
    + [(("tendons", "loops", "fluid"), "implicit")],
)
@pytest.mark.parametrize("seed", [1, 3])
def test_gradients(kinds, integrator, seed):
    model = pb.load(random_mixture(seed, kinds, bodies=3, integrator=integrator))
    q, v, _act, controls, _poses = states_of(precise(model.mujoco), 4, seed)
    system = pb.Articulated(model)
    report = pb.check_system(system, system.state(q[-1], v[-1]), controls[-1:])
    for field in ("q", "v", "control", "mass", "com", "tendon_coef", "fluid_density"):
        assert report[field].status == AGREES and report[field].largest > 1e-6, report[field]


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_close_at_home(name):
    """And nothing overlaps by more than feet and cubes stand in the floor."""
    model = pb.load(mechanism(name))
    data = mujoco.MjData(model.mujoco)
    mujoco.mj_forward(model.mujoco, data)
    assert np.abs(data.efc_pos[: data.ne]).max(initial=0.0) < 1e-9 and data.contact.dist.min(initial=0.0) > -0.003
    assert model.nu > 0
