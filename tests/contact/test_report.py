"""Contacts for people to look at: points, normals and forces, against MuJoCo's and against weights."""

import mujoco
import numpy as np
import pytest

import pullback as pb

PILE = """
<mujoco>
  <option timestep="0.002" cone="{cone}"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body pos="0 0 0.098"><freejoint/><geom name="ball" type="sphere" size="0.1" condim="6"/></body>
    <body pos="0.21 0 0.099"><freejoint/><geom name="brick" type="box" size="0.12 0.1 0.1"/></body>
    <body pos="0.2 0.02 0.248"><freejoint/><geom name="bar" type="capsule" size="0.05 0.1" euler="0 90 0"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_forces_are_mujocos(cone):
    model = pb.load(PILE.format(cone=cone))
    m = model.mujoco
    m.opt.tolerance, m.opt.iterations = 1e-14, 500
    v = np.random.default_rng(0).normal(size=model.nv) * 0.2
    system = pb.Articulated(model)
    (found,) = system.contacts(system.state(None, v[None]))
    data = mujoco.MjData(m)
    data.qvel[:] = v
    mujoco.mj_forward(m, data)
    assert len(found) == data.ncon > 4
    for contact in range(data.ncon):
        expected = data.contact[contact]
        frame, force = expected.frame.reshape(3, 3), np.zeros(6)
        mujoco.mj_contactForce(m, data, contact, force)
        near = np.flatnonzero(np.all(np.abs(found.pos - expected.pos) < 1e-9, axis=1))
        near = [k for k in near if set(found.geom_ids[k]) == set(expected.geom)]
        assert len(near) == 1
        (k,) = near
        sign = 1 if found.geom_ids[k][0] == expected.geom[0] else -1
        np.testing.assert_allclose(found.dist[k], expected.dist, atol=1e-12)
        np.testing.assert_allclose(sign * found.normal[k], frame[0], atol=1e-9)
        np.testing.assert_allclose(sign * found.force[k], frame.T @ force[:3], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(sign * found.moment[k], frame.T @ force[3:], rtol=1e-7, atol=1e-7)
        assert found.geoms[k] == tuple(model.geoms.names[g] for g in found.geom_ids[k])
    assert np.abs(found.moment).max() > 1e-6


@pytest.mark.parametrize("contact", [pb.ContactConvex(), pb.ContactImpulse(), pb.ContactCompliant()])
def test_at_rest_forces_carry_the_weight(contact):
    model = pb.load(
        '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.1"><freejoint/>'
        '<geom name="brick" type="box" size="0.1 0.1 0.1" mass="2"/></body></worldbody></mujoco>'
    )
    system = pb.Articulated(model, contact, worlds=2)
    run = pb.rollout(system, system.state(), steps=1500, checkpoint_every=100)
    for points in run.contacts(1499):
        assert len(points) == 4
        np.testing.assert_allclose(points.force.sum(axis=0), [0, 0, 2 * 9.81], atol=1e-3)
        np.testing.assert_allclose(points.normal, np.tile([0.0, 0.0, 1.0], (4, 1)), atol=1e-6)
    every = pb.rollout(system, system.state(), steps=1500)
    for step in (0, 137, 1499):
        for a, b in zip(run.contacts(step), every.contacts(step), strict=True):
            assert np.array_equal(a.force, b.force) and np.array_equal(a.pos, b.pos)


def test_what_has_no_contacts_says_so():
    model = pb.load(PILE.format(cone="elliptic"))
    system = pb.Articulated(model, contact=None)
    with pytest.raises(pb.PullbackError, match="no contacts"):
        system.contacts(system.state())
    run = pb.rollout(pb.Articulated(model), pb.Articulated(model).state(), steps=3)
    for step in (-4, 3, 1.0, True):
        with pytest.raises(pb.PullbackError, match="from 0 to 2"):
            run.contacts(step)
    with pytest.raises(pb.PullbackError, match="no steps"):
        pb.rollout(pb.Articulated(model), pb.Articulated(model).state(), steps=0).contacts(0)


@pytest.mark.parametrize("every", [1, 2])
def test_steps_count_from_the_end_too(every):
    system = pb.Articulated(pb.load(PILE.format(cone="elliptic")))
    run = pb.rollout(system, system.state(), steps=5, checkpoint_every=every)
    for step in range(5):
        for a, b in zip(run.contacts(step), run.contacts(step - 5), strict=True):
            np.testing.assert_array_equal(a.pos, b.pos)
            np.testing.assert_array_equal(a.force, b.force)
