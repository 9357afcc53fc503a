"""Sweep and prune: the same contacts as MuJoCo's, whatever came before, at a cost that follows the contacts."""

import mujoco
import numpy as np
import pytest

import pullback as pb


def crowd(count: int, spread: float, seed: int) -> str:
    """Spheres, capsules and boxes in a cube of this half-width, over a floor."""
    rng = np.random.default_rng(seed)
    shapes = ['type="sphere" size="0.1"', 'type="capsule" size="0.06 0.1"', 'type="box" size="0.1 0.06 0.08"']
    bodies = "".join(
        f'<body pos="{x:.3f} {y:.3f} {z + spread:.3f}" euler="{a:.0f} {b:.0f} 0"><freejoint/>'
        f'<geom {shapes[i % 3]} margin="{0.02 * (i % 2)}"/></body>'
        for i, (x, y, z, a, b) in enumerate(
            np.concatenate([rng.uniform(-spread, spread, (count, 3)), rng.uniform(0, 90, (count, 2))], axis=1)
        )
    )
    return f'<mujoco><worldbody><geom type="plane" size="1 1 1"/>{bodies}</worldbody></mujoco>'


@pytest.mark.parametrize("axis", range(3))
def test_same_pairs_as_mujoco(axis):
    model = pb.load(crowd(24, 0.35, seed=axis))
    system = pb.Articulated(model, pb.ContactConvex(max_contacts=400))
    data = mujoco.MjData(model.mujoco)
    rng = np.random.default_rng(axis)
    stretch = np.ones(3)
    stretch[axis] = 2.0  # so that each axis is swept along once
    pairs = 0
    for _ in range(10):
        q = system.state().q[0].copy().reshape(-1, 7)
        q[:, :3] = (q[:, :3] + rng.normal(size=(len(q), 3)) * 0.1) * stretch
        (found,) = system.contacts(system.state(q.reshape(1, -1)))
        data.qpos[:] = q.ravel()
        mujoco.mj_forward(model.mujoco, data)
        ours = {frozenset(p) for p, d in zip(found.geom_ids.tolist(), found.dist, strict=True) if abs(d) > 1e-9}
        expected = {frozenset(c.geom.tolist()) for c in data.contact if c.exclude == 0 and abs(c.dist) > 1e-9}
        assert ours == expected
        pairs += len(ours)
    assert pairs > 100


def test_the_order_does_not_depend_on_what_came_before():
    model = pb.load(crowd(20, 0.3, seed=5))
    rng = np.random.default_rng(0)
    home = pb.Articulated(model, pb.ContactConvex(max_contacts=400), threads=1)
    q = home.state().q
    fresh = home.contacts(home.state())[0]
    used = pb.Articulated(model, pb.ContactConvex(max_contacts=400), threads=1)
    for _ in range(5):
        shuffled = q.reshape(-1, 7)[rng.permutation(20)].reshape(1, -1)
        used.contacts(used.state(shuffled))
    again = used.contacts(used.state())[0]
    assert len(fresh) > 10 and fresh.geoms == again.geoms
    assert np.array_equal(fresh.pos, again.pos) and np.array_equal(fresh.force, again.force)
