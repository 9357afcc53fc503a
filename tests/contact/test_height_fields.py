"""Shapes on height fields: the contacts and the motion are MuJoCo's, and the gradients are right."""

import mujoco
import numpy as np
import pytest
from scenes import next_states, worst_world

import pullback as pb

ROWS, COLUMNS = 7, 9
SHAPES = {
    "sphere": 'type="sphere" size="0.12"',
    "capsule": 'type="capsule" size="0.06 0.15"',
    "ellipsoid": 'type="ellipsoid" size="0.15 0.1 0.06"',
    "cylinder": 'type="cylinder" size="0.1 0.08"',
    "box": 'type="box" size="0.1 0.15 0.06"',
    "mesh": 'type="mesh" mesh="stone"',
}


def hills(*shapes: str, margin: float = 0.0, flat: bool = False) -> str:
    """Shapes, each a free body, above a field that leans; they do not touch each other."""
    rng = np.random.default_rng(5)
    heights = np.zeros((ROWS, COLUMNS)) if flat else rng.uniform(0, 1, (ROWS, COLUMNS))
    stone = rng.normal(size=(12, 3)) * [0.1, 0.07, 0.05]
    bodies = "".join(
        f'<body pos="{0.3 * i} 0 0.5"><freejoint/><geom {SHAPES[s]} mass="1" contype="2" margin="{margin}"/></body>'
        for i, s in enumerate(shapes)
    )
    return f"""<mujoco><option timestep="0.002" ccd_tolerance="1e-13" ccd_iterations="400"/><asset>
      <hfield name="hills" nrow="{ROWS}" ncol="{COLUMNS}" size="1 0.8 0.3 0.2"
        elevation="{" ".join(f"{x:.6g}" for x in heights.ravel())}"/>
      <mesh name="stone" vertex="{" ".join(f"{x:.6g}" for x in stone.ravel())}"/></asset><worldbody>
      <geom name="hills" type="hfield" hfield="hills" pos="0.1 0.2 0.05" euler="5 -8 20" contype="1" conaffinity="2"/>
      {bodies}</worldbody></mujoco>"""


def random_states(model: pb.Model, count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    bodies = model.nbody - 1
    q = np.empty((count, bodies, 7))
    q[:, :, :3] = rng.uniform([-1.0, -0.7, 0.05], [1.2, 1.1, 0.45], (count, bodies, 3))
    q[:, :, 3:] = rng.normal(size=(count, bodies, 4))
    q[:, :, 3:] /= np.linalg.norm(q[:, :, 3:], axis=2, keepdims=True)
    return q.reshape(count, -1), 0.5 * rng.normal(size=(count, 6 * bodies))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("margin", [0.0, 0.02])
def test_contacts_are_those_of_mujoco(shape, margin):
    """One with each prism, in order. Of boxes and meshes without a margin MuJoCo ends its search before the depth is
    known, so that its distances are too small: the number of contacts is compared there."""
    model = pb.load(hills(shape, margin=margin))
    q, v = random_states(model, 150)
    system = pb.Articulated(model, worlds=150)
    bound = 1e-3 if shape in ("ellipsoid", "cylinder") else 1e-6
    data = mujoco.MjData(model.mujoco)
    several, apart = 0, 0
    for ours, place in zip(system.contacts(system.state(q, v)), q, strict=True):
        data.qpos[:] = place
        mujoco.mj_forward(model.mujoco, data)
        assert len(ours.dist) == data.ncon
        several += data.ncon > 2
        if data.ncon == 0:
            continue
        if shape in ("box", "mesh") and margin == 0:
            assert (ours.dist <= data.contact.dist + 1e-9).all()
            continue
        apart += np.sum(ours.dist > 0)
        assert abs(ours.dist - data.contact.dist).max() < bound
        assert np.linalg.norm(ours.normal - data.contact.frame[:, :3], axis=1).max() < 10 * bound
        assert np.linalg.norm(ours.pos - data.contact.pos, axis=1).max() < bound
    assert several > 20 and (apart > 20 or margin == 0)


def test_the_motion_is_that_of_mujoco():
    """Of shapes that are no deeper than in use: MuJoCo's solver does not balance dozens of rows that push hard."""
    model = pb.load(hills("sphere", "capsule"))
    q, v = random_states(model, 800)
    system = pb.Articulated(model, worlds=800)
    depth = [-found.dist.min() if len(found.dist) > 1 else np.inf for found in system.contacts(system.state(q, v))]
    some = np.array(depth) < 0.02
    assert some.sum() > 15
    q, v, controls = q[some], v[some], np.zeros((some.sum(), 0))
    system = pb.Articulated(model, worlds=len(q))
    _, exact_v, active = next_states(model.mujoco, q, v, controls)
    assert np.mean(active > 0) > 0.5
    ours = system.step(system.state(q, v), controls)
    assert worst_world(ours.v - v, exact_v - v) < 1e-8


def test_a_sphere_on_flat_ground_touches_every_triangle_around_a_point():
    """As in MuJoCo: six contacts in one place."""
    model = pb.load(hills("sphere", flat=True))
    system = pb.Articulated(model)
    field = model.mujoco.geom("hills")
    data = mujoco.MjData(model.mujoco)
    mujoco.mj_forward(model.mujoco, data)
    R, x = data.geom_xmat[field.id].reshape(3, 3), data.geom_xpos[field.id]
    q = np.concatenate([x + R @ [0.25, 0.8 / 3, 0.119], [1, 0, 0, 0]])
    (found,) = system.contacts(system.state(q[None]))
    assert len(found.dist) == 6
    assert abs(found.dist + 0.001).max() < 1e-12 and np.ptp(found.pos, axis=0).max() < 1e-12


@pytest.mark.parametrize("model", [pb.ContactConvex(), pb.ContactCompliant()], ids=["convex", "compliant"])
def test_gradients(model):
    """With the placement of the field and of the shapes, and their sizes."""
    loaded = pb.load(hills("sphere", "capsule", "box"))
    system = pb.Articulated(loaded, model)
    states = random_states(loaded, 30, 3)
    every = pb.Articulated(loaded, model, worlds=30)
    counts = [len(found.dist) for found in every.contacts(every.state(*states))]
    best = int(np.argmax(counts))
    assert counts[best] > 5
    state = system.state(states[0][None, best], states[1][None, best])
    report = pb.check_system(system, state, np.zeros((1, 0)), steps=(1e-4, 3e-5, 1e-5, 1e-6), tolerance=5e-6)
    for name in ("q", "v", "geom_pos", "geom_quat", "geom_size", "friction"):
        assert report[name].largest > 1e-9, name
