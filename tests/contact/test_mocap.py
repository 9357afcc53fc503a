"""Bodies that are moved from outside: poses as inputs, against MuJoCo, and their gradients."""

import mujoco
import numpy as np
import pytest
from oracles import precise, relative_error

import pullback as pb

MOVED = """<mujoco><option timestep="0.004" integrator="{integrator}"/><worldbody><geom type="plane" size="3 3 1"/>
<body name="pusher" mocap="true" pos="-0.3 0 0.15" euler="10 20 30">
  <geom type="sphere" size="0.08" pos="0.02 0 0"/>
  <body name="blade" pos="0.1 0 0" euler="0 10 0"><geom type="capsule" fromto="0 -0.2 0 0 0.2 0" size="0.03"/></body>
</body>
<body name="lead" mocap="true" pos="0.5 0.5 0.5"/>
<body name="box" pos="-0.02 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
<body name="arm" pos="0.5 0.5 0.5"><freejoint/><geom size="0.05" mass="0.3"/>
  <body name="tool" pos="0.1 0 0"><joint axis="0 1 0" damping="0.01"/>
    <geom size="0.04" pos="0.1 0 0" mass="0.1"/></body>
</body></worldbody>
<equality><weld body1="lead" body2="arm" solref="0.05 1"/></equality></mujoco>"""


def poses_of(m, steps: int, rng) -> np.ndarray:
    """Where the pusher pushes the box and the lead leads the arm: (steps, 1, 2, 7), of quaternions of any length."""
    found = np.empty((steps, 1, 2, 7))
    start = np.concatenate([m.body_pos[[1, 3]], m.body_quat[[1, 3]]], axis=1)
    share = np.linspace(0, 1, steps)[:, None]
    for k in range(2):
        turn = start[k, 3:] + share * 0.6 * rng.normal(size=4)
        shift = np.array([0.25, 0.05, -0.03]) if k == 0 else 0.2 * rng.normal(size=3)
        found[:, 0, k] = np.concatenate([start[k, :3] + share * shift, turn * (1 + share)], axis=1)
    return found


def assert_like_mujoco(m, run, poses) -> int:
    """Step by step from the states of the run; how many constraint rows were active at most."""
    m = precise(m)
    data, rows = mujoco.MjData(m), 0
    for t in range(len(poses)):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:] = run.q[t, 0], run.v[t, 0]
        data.mocap_pos[:], data.mocap_quat[:] = poses[t, 0, :, :3], poses[t, 0, :, 3:]
        mujoco.mj_step(m, data)
        rows = max(rows, data.nefc)
        ours, theirs = ((v - run.v[t, 0]) / m.opt.timestep for v in (run.v[t + 1, 0], data.qvel))
        assert relative_error(ours, theirs) <= 1e-9
    return rows


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_what_is_moved_moves_others_as_in_mujoco(integrator):
    model = pb.load(MOVED.format(integrator=integrator))
    m, system = model.mujoco, pb.Articulated(model)
    assert system.inputs["mocap"] == (2, 7) and system._flavour.mocap
    poses = poses_of(m, 150, np.random.default_rng(0))
    run = pb.rollout(system, system.state(), steps=150, inputs={"mocap": poses})
    assert assert_like_mujoco(m, run, poses) > 6 + 4
    still = pb.rollout(system, system.state(), steps=150)
    assert np.abs(run.final.q - still.final.q)[0, [0, 7]].min() > 0.02
    # Without poses bodies are where the file has them.
    home = np.concatenate([m.body_pos[[1, 3]], m.body_quat[[1, 3]]], axis=1)
    same = pb.rollout(system, system.state(), steps=20, inputs={"mocap": np.tile(home, (20, 1, 1, 1))})
    np.testing.assert_allclose(same.final.q, still.q[20], atol=1e-12)


def test_gradients():
    """Of a rollout in contact, by all poses at once, and by the rest as ever."""
    model, rng = pb.load(MOVED.format(integrator="Euler")), np.random.default_rng(1)
    system = pb.Articulated(model)
    poses = poses_of(model.mujoco, 60, np.random.default_rng(0))
    begin = pb.rollout(system, system.state(), steps=60, inputs={"mocap": poses}).final
    poses = np.repeat(poses[-1:], 3, axis=0) + 1e-4 * rng.normal(size=(3, 1, 2, 7))
    assert any(
        "pusher" in model.body_names[model.geoms.body[g]]
        for c in system.contacts(begin, inputs={"mocap": poses[0]})[0].geom_ids
        for g in c
    )
    q_bar, v_bar = rng.normal(size=begin.q.shape), rng.normal(size=begin.v.shape)

    def loss(poses, params=None, state=begin) -> float:
        run = pb.rollout(system, state, steps=3, inputs={"mocap": poses}, params=params)
        return float(np.sum(run.final.q * q_bar) + np.sum(run.final.v * v_bar))

    run = pb.rollout(system, begin, steps=3, inputs={"mocap": poses})
    grads = run.pullback(q_bar=q_bar, v_bar=v_bar)
    assert grads.inputs.mocap.shape == poses.shape
    for some in (np.s_[..., 0, :3], np.s_[..., 0, 3:], np.s_[..., 1, :3], np.s_[..., 1, 3:]):
        turn = np.zeros_like(poses)
        turn[some] = rng.normal(size=turn[some].shape)
        slopes = [(loss(poses + h * turn) - loss(poses - h * turn)) / (2 * h) for h in (1e-5, 1e-6, 1e-7)]
        found = np.sum(grads.inputs.mocap * turn)
        assert abs(found) > 1e-3 and min(abs(found - s) for s in slopes) <= 1e-6 * abs(found), some
    # What is welded to a moved body has parameters of its own; those of the moved body have no effect.
    blade, pusher = model.body_names.index("blade"), model.body_names.index("pusher")
    assert not grads.params.body_pos[[pusher, blade + 1]].any() and grads.params.body_pos[blade].any()
    turn, h = np.zeros((model.nbody, 3)), 1e-6
    turn[blade] = rng.normal(size=3)
    ends = [loss(poses, {"body_pos": model.body_pos + side * turn}) for side in (h, -h)]
    assert np.sum(grads.params.body_pos * turn) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)


def test_who_has_this_input():
    model = pb.load(MOVED.format(integrator="Euler"))
    assert "mocap" not in pb.Articulated(model, refine=1e-3).inputs
    assert "mocap" not in pb.Articulated(pb.load(pb.robots.quadruped())).inputs
    system = pb.Articulated(model)
    with pytest.raises(pb.PullbackError, match="mocap"):
        pb.rollout(system, system.state(), steps=2, inputs={"mocap": np.zeros((2, 1, 1, 7))})
