"""Meshes of triangles in contact with long range: gradients, that nothing passes through anything, holes that a hull
would close, and what is refused."""

import numpy as np
import pytest
from gradients import check
from meshes import asset, ball, free, of_mesh, scene, torus

import pullback as pb

FLOOR = '<geom name="floor" type="plane" size="5 5 .1" zaxis=".1 .2 1"/>'
BUMPY = asset("bumpy", ball(1, 0.1))
RING = asset("ring", torus(8, 5))
SMALL = asset("small", ball(0))
ASIDE = 'pos=".01 -.02 .015" euler="10 20 30"'
BOX, ROD = 'type="box" size=".05 .06 .04"', 'type="capsule" size=".03 .06"'
CAN = 'type="cylinder" size=".04 .06"'
ARM = """<body pos="0 0 1" euler="3 4 5"><joint axis="0 1 .1"/>
  <geom type="capsule" size=".04 .1" pos=".2 0 0" euler="0 90 0"/>
  <body pos=".5 0 0"><joint axis="0 1 0"/><joint type="slide" axis="1 0 .2"/>
    <geom type="mesh" mesh="small" mass=".5" pos=".01 .02 .03"/></body></body>"""
PLACES = {  # meshes, world, blend
    "plane and sphere": (BUMPY, FLOOR + of_mesh("bumpy", "0 0 .3", ASIDE) + free('size=".06"', ".02 .01 .5"), 0.5),
    "box": (SMALL, of_mesh("small", "0 0 .3", ASIDE) + free(BOX, ".02 .01 .49"), 0.05),
    "rod": (SMALL, of_mesh("small", "0 0 .3", ASIDE) + free(ROD, ".02 .01 .53"), 0.5),
    "can": (SMALL, of_mesh("small", "0 0 .3", ASIDE) + free(CAN, ".02 .01 .49"), 0.05),
    "two meshes": (SMALL + RING, of_mesh("small", "0 0 .3", ASIDE) + of_mesh("ring", ".05 .02 .54", ASIDE), 0.5),
    "arm": (SMALL, free('size=".05"', ".5 0 1.2") + ARM, 0.05),
}
NAMES = ("q", "v", "gap", "length", "geom_pos", "geom_quat")


def system_of(assets: str, world: str, option: str = 'timestep="0.01"', worlds: int = 1, **settings) -> pb.Articulated:
    contact = pb.ContactLongRange(meshes="triangles", **settings)
    return pb.Articulated(pb.load(scene(assets, world, option)), contact, worlds=worlds)


@pytest.mark.parametrize("name", PLACES)
def test_every_gradient(name):
    """All parameters at the first place; those of shapes at the others."""
    assets, world, blend = PLACES[name]
    system = system_of(assets, world, gap=0.05, blend=blend)
    state = system.state(v=0.3 * np.random.default_rng(0).normal(size=system.nv))
    sizes = () if name == "two meshes" else ("geom_size",)
    names = {} if name == "plane and sphere" else {"names": (*NAMES, *sizes)}
    check(system, state, matter=(*NAMES[2:], *sizes), tolerance=1e-6, **names)


def test_gradients_in_contact():
    """A mesh on another, and that on a plane, after they have come down."""
    world = '<geom type="plane" size="5 5 .1"/>' + of_mesh("small", "0 0 .11") + free('size=".05"', ".01 0 .27")
    system = system_of(SMALL, world, gap=2e-3)
    state = pb.rollout(system, system.state(), steps=15).final
    assert (system.contacts(state)[0].dist < 5e-3).sum() >= 2
    state = system.state(state.q[0], state.v[0] + 0.01 * np.random.default_rng(0).normal(size=system.nv))
    check(system, state, matter=("gap", "length"), tolerance=1e-6, names=("q", "v", "gap", "length"))


def test_a_ball_falls_through_a_ring_and_a_hull_would_stop_it():
    world = '<geom type="mesh" mesh="ring"/>' + free('name="ball" size=".03" mass=".2"', ".003 .002 .3")
    ring = asset("ring", torus(12, 6), 0.2)
    ends = []
    for meshes in ("triangles", "hull"):
        contact = pb.ContactLongRange(gap=1e-3, meshes=meshes)
        system = pb.Articulated(pb.load(scene(ring, world)), contact)
        ends.append(pb.rollout(system, system.state(), steps=60).final.q[0, 2])
    assert ends[0] < -0.5 and ends[1] > 0.05


def test_nothing_passes_through_anything():
    """Steps of 10 ms at up to 30 m/s. Every state is one that a step may begin from."""
    world = of_mesh("bumpy") + of_mesh("ring", "1 0 0") + free('type="box" size=".05 .06 .04"', "0 1 0")
    system = system_of(BUMPY + RING, world, worlds=20, option='timestep="0.01" gravity="0 0 0"')
    rng = np.random.default_rng(0)
    q, v = np.zeros((20, 21)), np.zeros((20, 18))
    for k in range(20):
        for body, place in enumerate(rng.permutation(np.array([[0, 0, 0], [0.4, 0, 0], [0, 0.4, 0.1]]))):
            turn = rng.normal(size=4)
            q[k, 7 * body : 7 * body + 7] = *place, *(turn / np.linalg.norm(turn))
            v[k, 6 * body : 6 * body + 3] = rng.normal(size=3) - 5 * place
            v[k, 6 * body + 3 : 6 * body + 6] = 5 * rng.normal(size=3)
        v[k] *= np.exp(rng.uniform(np.log(0.1), np.log(10.0)))
    run = pb.rollout(system, system.state(q, v), steps=5, on_failure="mask")
    assert not run.status.failed.any(), run.status.reasons
    for points in run.contacts(-1):
        assert len(points) == 3 and (points.dist > 0).all()
        assert (np.einsum("ki,ki->k", points.force, points.normal) > 0).all()
    assert np.isfinite(run.v).all() and np.abs(run.v[-1] - run.v[0]).max() > 0.1


def test_momentum_is_kept():
    """Meshes whose centres of mass are their bodies' origins, to the float32 that MuJoCo keeps vertices in."""
    world = of_mesh("even") + of_mesh("ring", ".3 .01 .02")
    system = system_of(asset("even", ball(1)) + RING, world, option='timestep="0.01" gravity="0 0 0"')
    run = pb.rollout(system, system.state(v=[2.0, *[0] * 11]), steps=15)
    total = run.v[:, 0, 0:3] + run.v[:, 0, 6:9]
    np.testing.assert_allclose(total, np.tile([2.0, 0, 0], (16, 1)), atol=1e-6)
    assert run.v[-1, 0, 6] > 0.5


def test_pieces_of_a_trajectory_are_the_same_bit_for_bit():
    system = system_of(*PLACES["plane and sphere"][:2])
    start = system.state(v=0.3 * np.random.default_rng(1).normal(size=12))
    whole, cut = (pb.rollout(system, start, steps=12, checkpoint_every=k) for k in (1, 4))
    bar = np.random.default_rng(0).normal(size=(1, 12))
    grads, pieces = (run.pullback(v_bar=bar) for run in (whole, cut))
    assert (whole.final.q == cut.final.q).all()
    assert (grads.state.q == pieces.state.q).all() and (grads.params.gap == pieces.params.gap).all()


def test_a_mesh_rests_on_a_mesh_at_some_gaps():
    world = '<geom type="mesh" mesh="ring"/>' + of_mesh("ring", ".01 .005 .082")
    system = system_of(RING, world, gap=1e-3, length=0.1)
    run = pb.rollout(system, system.state(), steps=40)
    points = run.contacts(-1)[0]
    assert 0.5e-3 < points.dist[0] < 5e-3
    np.testing.assert_allclose(points.force[0, 2], 9.81, rtol=0.3)


def test_on_a_plane_a_mesh_is_its_hull():
    world = FLOOR + of_mesh("ring", "0 0 .3")
    runs = []
    for meshes in ("hull", "triangles"):
        system = pb.Articulated(pb.load(scene(RING, world)), pb.ContactLongRange(meshes=meshes))
        runs.append(pb.rollout(system, system.state(), steps=30).final)
    assert (runs[0].q == runs[1].q).all()


# --- what is refused ----------------------------------------------------------------------------------------


def refused(mesh, match: str) -> None:
    with pytest.raises(pb.PullbackError, match=match):
        system_of(asset("bad", mesh), of_mesh("bad") + free('size=".06"', "1 0 0"))


def test_meshes_that_enclose_nothing_are_refused():
    x, triangles = ball(1)
    refused((x, triangles[1:]), "mesh 'bad' is not closed: .* edges")
    turned = np.concatenate([triangles[:1, ::-1], triangles[1:]])
    refused((x, turned), "mesh 'bad' is not closed")
    flat = x.copy()
    flat[triangles[7, 2]] = (flat[triangles[7, 0]] + flat[triangles[7, 1]]) / 2
    refused((flat, triangles), "triangle 7 of mesh 'bad' has no area")


def test_overlap_is_named():
    system = system_of(BUMPY + RING, of_mesh("bumpy") + of_mesh("ring", ".1 0 0"))
    with pytest.raises(pb.SimulationError, match="geom '(bumpy|ring)' and geom '(bumpy|ring)', of bodies .* touch or"):
        system.step(system.state())
    system = system_of(BUMPY, of_mesh("bumpy") + free('name="round" size=".06"', ".12 0 0"))
    with pytest.raises(pb.SimulationError, match="geom 'round' and geom 'bumpy'"):
        system.step(system.state())


def test_friction_of_triangles_is_refused_but_on_planes():
    rough = scene(SMALL, FLOOR + of_mesh("small", "0 0 .3")).replace('condim="1"', 'condim="3"')
    assert "friction" in pb.Articulated(pb.load(rough), pb.ContactLongRange(meshes="triangles")).params
    world = of_mesh("small") + free('name="round" size=".06"', "1 0 0")
    rough = pb.load(scene(SMALL, world).replace('condim="1"', 'condim="3"'))
    with pytest.raises(pb.PullbackError, match="geom 'round' and geom 'small' have friction, which meshes='triangles'"):
        pb.Articulated(rough, pb.ContactLongRange(meshes="triangles"))
    pb.Articulated(rough, pb.ContactLongRange(meshes="triangles", frictionless=True))


def test_options():
    for wrong in ({"meshes": "spheres"}, {"blend": 0.0}, {"blend": float("nan")}):
        with pytest.raises(pb.PullbackError, match=next(iter(wrong))):
            pb.ContactLongRange(**wrong)
