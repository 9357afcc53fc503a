"""Bodies that touch each other and themselves: that nothing passes through anything, what is conserved, gradients."""

import pickle

import numpy as np
import pytest
from soft_bodies import GAP, bar, flag, shaken, towel, two_cubes
from test_elastic import masses

import pullback as pb
from pullback import soft
from pullback.soft.self_contact import crossed

OF_ALL = {"x", "v", "gravity", "damping", "contact_stiffness", "self_friction"}
OF_SOLIDS = OF_ALL | {"shear", "lame", "density", "viscosity"}
OF_CLOTHS = OF_ALL | {"cloth_shear", "cloth_lame", "cloth_density", "cloth_viscosity", "bending", "drag", "wind"}


def touching(system) -> int:
    """How many pairs rubbed in the last step."""
    return int(system._stepper.work.touch.rub_count.numpy().max())


def tangles(system, x) -> int:
    """How many edges go through triangles at positions x (n, 3), by trying all."""
    edges, faces = system.surfaces.edges, system.surfaces.faces
    return sum(int(crossed(x[edge], x[faces[~np.isin(faces, edge).any(axis=1)]]).sum()) for edge in edges)


# --- gradients --------------------------------------------------------------------------------------


def check(system, start, fields, controls=None, quiet=(), tolerance=1e-6):
    report = pb.check_system(system, start, controls, rollout_steps=2, seed=1)
    assert {row.field for row in report.rows} == fields
    for row in report.rows:
        assert row.field in quiet or (row.status == "agrees" and row.largest > 0.0), row.field
        assert row.error <= tolerance, row.field


@pytest.mark.parametrize("tilt", [0.01, 0.2])
@pytest.mark.parametrize("moves", [False, True])
def test_gradients_of_two_solids(tilt, moves):
    """By an edge that is nearly parallel to a face, or by a corner; at rest, or as one slides over the other."""
    system = two_cubes(tilt, apart=0.6)
    start = system.state()
    if moves:
        start.v[0, 8:] += np.array([0.3, 0.1, -0.2]) + 0.05 * np.random.default_rng(2).normal(size=(8, 3))
    check(system, start, OF_SOLIDS)
    assert touching(system) > 0


@pytest.mark.parametrize("speed", [0.0, 0.1])
@pytest.mark.parametrize("shift", [(0.013, 0.007), (3e-4, -2e-4)])
def test_gradients_of_folded_cloth(shift, speed):
    """With edges that cross, and with some that lie nearly in line and push less; fixed vertices and handles touch."""
    system, x = towel(shift=shift, fixed=[0], handles=[[4]])
    random = np.random.default_rng(3)
    x += 1e-4 * random.normal(size=x.shape)
    controls = 0.05 * random.normal(size=(2, 1, 3))
    check(system, system.state(x, speed * random.normal(size=x.shape)), OF_CLOTHS | {"control"}, controls)
    assert touching(system) > 0


def test_gradients_where_nothing_touches():
    system, _ = towel()
    check(system, shaken(system, 1, size=1e-3), OF_CLOTHS, quiet={"contact_stiffness", "self_friction"})
    assert touching(system) == 0


def test_gradients_over_many_steps_by_differences():
    """Through impact, sliding and separation, along random directions in all that there is."""
    system = two_cubes(0.2, apart=2.0, damping=0.3, fixed=np.arange(4))
    start = system.state()
    start.v[0, 8:] = [0.4, 0.1, -0.5]
    random = np.random.default_rng(4)
    x_bar, v_bar = random.normal(size=start.x.shape), 0.01 * random.normal(size=start.x.shape)

    def loss(x, v, params):
        final = system.steps(system.state(x, v), np.zeros((25, 1, 0)), keep_every=25, params=params)
        return np.sum(x_bar[0] * final.x[-1]) + np.sum(v_bar[0] * final.v[-1])

    run = pb.rollout(system, start, steps=25)
    assert touching(system) > 0
    bars = run.pullback(x_bar=x_bar, v_bar=v_bar)
    given = {"x": start.x[0], "v": start.v[0]} | {name: np.asarray(value) for name, value in system.params.items()}
    slopes = {"x": bars.state.x[0], "v": bars.state.v[0]} | dict(bars.params)
    for name, value in given.items():
        way = random.normal(size=value.shape)
        expected = np.sum(slopes[name] * way)
        size = max(np.abs(value).max(), 0.1)
        errors = []
        for step in (1e-5 * size, 1e-6 * size, 1e-7 * size):
            ends = []
            for moved in (value + step * way, value - step * way):
                both = given | {name: moved}
                ends.append(loss(both["x"], both["v"], {k: p for k, p in both.items() if k not in "xv"}))
            errors.append(abs((ends[0] - ends[1]) / (2 * step) - expected) / np.linalg.norm(slopes[name]))
        assert np.linalg.norm(slopes[name]) > 0 and min(errors) < 1e-6, name


def test_gradients_between_shapes_that_move():
    """A folded towel is pressed between two plates, layer against layer; the gradient is by how they move."""
    plates = [soft.Shape.box((0.05, 0.03, z), (0.2, 0.2, 0.02), friction=0.5) for z in (-0.025, 0.0274)]
    system, x = towel(shapes=plates, gravity=(0, 0, 0))
    steps, random = 6, np.random.default_rng(8)
    twist, pose = np.zeros((steps, 1, 2, 6)), np.tile(system.shapes_at_rest["pose"], (steps, 1, 1, 1))
    twist[:, 0, :, 5] = [0.05, -0.05]
    pose[:, 0, :, 2] += np.arange(steps)[:, None] * system.dt * twist[:, 0, :, 5]

    def run(twist):
        return pb.rollout(system, system.state(x), steps=steps, inputs={"pose": pose, "twist": twist})

    pressed = run(twist)
    assert touching(system) > 0 and np.abs(pressed.final.impulse[0, :, 5]).min() > 1e-3
    x_bar, way = random.normal(size=pressed.final.x.shape), random.normal(size=twist.shape)
    slope = np.sum(pressed.pullback(x_bar=x_bar).inputs["twist"] * way)
    ahead, behind = (np.sum(x_bar * run(twist + step * way).final.x) for step in (1e-6, -1e-6))
    assert abs(slope) > 1e-3 and (ahead - behind) / 2e-6 == pytest.approx(slope, rel=1e-6)


# --- nothing passes through anything ------------------------------------------------------------------


def test_a_cloth_that_falls_into_folds_never_goes_through_itself():
    """It stands upright, and collapses."""
    material = soft.Membrane(young=100.0, density=0.2, bending=1e-5, viscosity=0.02, drag=0.05)
    body = soft.sheet((0, 0, 0.01), (0, 0.2, 0), (0, 0, 0.3), (7, 10), material, name="cloth")
    floor = soft.Shape.plane((0, 0, 0), (0, 0, 1), friction=0.5)
    options = {"dt": 0.01, "shapes": [floor], "gap": 4e-3, "contact_stiffness": 20.0, "tolerance": 1e-8}
    system = soft.Elastic(body, self_contact=True, self_friction=0.3, **options)
    start = system.state(body.points + 2e-3 * np.random.default_rng(7).normal(size=body.points.shape))
    states = pb.rollout(system, start, steps=300).states
    assert touching(system) > 20
    assert all(tangles(system, x) == 0 for x in states.x[::10, 0])
    blind = soft.Elastic(body, **options)
    assert max(tangles(system, x) for x in pb.rollout(blind, start, steps=300).states.x[::50, 0]) > 0


def test_two_solids_that_collide_fast_do_not_pass_and_keep_their_momentum():
    """10 m/s: 100 mm per step, as much as the cubes are wide."""
    system = two_cubes(0.3, apart=20.0, cells=2, gravity=(0, 0, 0), self_friction=0.2)
    n = system.vertices_of(0).stop
    start = system.state()
    start.v[0, n:] = [0.3, -0.2, -10.0]
    states = pb.rollout(system, start, steps=100).states
    assert all(tangles(system, x) == 0 for x in states.x[:, 0])
    assert np.all(states.x[:, 0, n:, 2].mean(axis=1) > states.x[:, 0, :n, 2].mean(axis=1))
    momentum = np.einsum("n,snk->sk", masses(system), states.v[:, 0])
    assert np.abs(momentum[0]).max() > 1.0 and np.abs(states.v[-1, 0, :n, 2].mean()) > 1.0
    np.testing.assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), rtol=0, atol=1e-10)


def test_friction_brakes_what_slides():
    """A piece of cloth far from the edges of the one below, where it has come to rest, is pushed along."""
    material = soft.Membrane(young=100.0, density=0.2)
    table = soft.Cloth([(-1, -1, 0), (1, -1, 0), (0, 1, 0)], [[0, 1, 2]], material, name="table")
    piece = soft.sheet((0, 0, 0.0027), (0.03, 0, 0), (0, 0.03, 0), (1, 1), material, name="piece")
    options = {"fixed": [0, 1, 2], "gap": GAP, "contact_stiffness": 0.2, "self_contact": True, "self_friction": 0.3}
    system = soft.Elastic([table, piece], dt=2e-3, **options)
    rest = system.steps(system.state(), np.zeros((300, 1, 0)), keep_every=300, params={"damping": 50.0})
    assert touching(system) == 4 and np.abs(rest.v[-1]).max() < 1e-4
    states = pb.rollout(system, system.state(rest.x[-1], [0.3, 0, 0] * (np.arange(7) > 2)[:, None]), steps=40).states
    speed = states.v[:, 0, 3:, 0].mean(axis=1)
    assert (speed[0] - speed[-1]) / (40 * system.dt) == pytest.approx(0.3 * 9.81, rel=0.01)


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_a_handle_pushes_what_is_in_its_way(speed):
    """Slower than what is in its way can evade in a step, and faster: it gets there, and nothing is in it."""
    material = soft.Membrane(young=50.0, density=0.2, bending=1e-5)
    sheet = soft.sheet((-0.15, -0.15, 0.0), (0.3, 0, 0), (0, 0.3, 0), (6, 6), material, name="sheet")
    block = soft.solid_block((-0.02, -0.03, 0.02), (0.03, 0.03, 0.06), (1, 1, 1), soft.StVK(young=1e5, density=1e3))
    corners = np.flatnonzero(np.abs(sheet.points[:, :2]).min(axis=1) > 0.14)
    held = np.arange(49, 57)
    options = {"gap": 3e-3, "contact_stiffness": 50.0, "self_contact": True}
    system = soft.Elastic([sheet, block], dt=0.01, fixed=corners, handles=[held], gravity=(0, 0, 0), **options)
    steps = int(round(0.08 / (speed * 0.01)))
    states = pb.rollout(system, system.state(), np.tile([0, 0, -speed], (steps, 1, 1))).states
    np.testing.assert_allclose(states.x[-1, 0, held], system.state().x[0, held] - [0, 0, 0.08], atol=1e-12)
    assert all(tangles(system, x) == 0 for x in states.x[:, 0])
    assert states.x[-1, 0, 24, 2] < -0.06  # the middle of the sheet, below the block


# --- what is refused, and what changes nothing --------------------------------------------------------


def test_a_start_that_intersects_names_who():
    system, x = towel(worlds=2)
    start = system.state()
    x[:, 2] *= -1
    x[9, 2] = 0.004
    start.x[1] = x
    with pytest.raises(
        pb.SimulationError, match=r"bodies intersect in world 1 at step 0: the edge of vertices \d+ and "
    ):
        pb.rollout(system, start, steps=2)
    run = pb.rollout(system, start, steps=2, on_failure="mask")
    assert run.status.failed.tolist() == [False, True]
    np.testing.assert_array_equal(run.final.x[1], start.x[1])
    assert np.abs(run.final.x[0] - start.x[0]).max() > 0


def test_a_start_inside_of_another_body_is_refused():
    material = soft.StVK(young=1e4, density=1e3)
    small = soft.solid_block((0.08, 0.05, 0.05), (0.09, 0.06, 0.06), (1, 1, 1), material, name="stone")
    large = soft.solid_block((0, 0, 0), (0.2, 0.2, 0.2), (1, 1, 1), material, name="cake")
    system = soft.Elastic([large, small], dt=0.01, self_contact=True)
    with pytest.raises(
        pb.SimulationError, match=r"vertex 8 \(stone\) is inside of another body; start with all surfaces"
    ):
        system.step(system.state())


def test_more_contacts_than_there_is_room_for_are_an_error():
    system, x = towel(max_contacts=2)
    with pytest.raises(
        pb.SimulationError, match=r"more contacts .* than the 2 .* raise it: soft.Elastic\(max_contacts="
    ):
        pb.rollout(system, system.state(x), steps=2)
    assert two_cubes().max_contacts > 100 and bar().max_contacts == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"self_contact": 1}, "self_contact must be a bool"),
        ({"self_friction": 0.3}, "self_contact=True"),
        ({"max_contacts": 9}, "self_contact=True"),
        ({"self_contact": True, "max_contacts": 0}, "max_contacts must be a whole number of at least 1"),
        ({"self_contact": True, "self_friction": -1}, "self_friction must"),
        ({"self_contact": True, "gap": 0.2}, r"too large for this mesh: vertex \d+ is 0.0707 m from the edge across"),
    ],
)
def test_what_is_given_is_checked(change, message):
    with pytest.raises(pb.PullbackError, match=message):
        flag(**change)


def test_handles_that_cannot_pass_are_an_error():
    """Two bodies that are moved against each other leave no way out."""
    system = two_cubes(apart=0.9, fixed=np.arange(8), handles=[np.arange(8, 16)])
    with pytest.raises(pb.SimulationError, match="did not converge in world 0"):
        pb.rollout(system, system.state(), np.tile([0, 0, -1.0], (2, 1, 1)))


def test_worlds_threads_checkpoints_and_copies_change_nothing():
    system, x = towel(worlds=3)
    random = np.random.default_rng(5)
    start = system.state(x, 0.1 * random.normal(size=(3, *x.shape)))
    runs = [pb.rollout(s, start, steps=6) for s in (system, towel(worlds=3, threads=2)[0])]
    runs += [pb.rollout(pickle.loads(pickle.dumps(system)), start, steps=6, checkpoint_every=4)]
    bars = [run.pullback(x_bar=run.final.x) for run in runs]
    for run, other in zip(runs[1:], bars[1:], strict=True):
        np.testing.assert_array_equal(run.final.x, runs[0].final.x)
        np.testing.assert_array_equal(other.state.x, bars[0].state.x)
        np.testing.assert_array_equal(other.params.self_friction, bars[0].params.self_friction)
    alone = pb.rollout(system.in_worlds(1), soft.ElasticState(*(a[1:2] for a in start)), steps=6)
    np.testing.assert_array_equal(alone.final.x[0], runs[0].final.x[1])
    assert touching(system) > 0


@pytest.mark.parametrize("make", [bar, flag])
def test_bodies_that_touch_nothing_move_as_without(make):
    blind, seeing = make(), make(self_contact=True)
    start = shaken(blind, 6)
    controls = 0.1 * np.random.default_rng(6).normal(size=(20, 1, 3))
    runs = [pb.rollout(system, start, controls) for system in (blind, seeing)]
    np.testing.assert_allclose(runs[1].x, runs[0].x, rtol=0, atol=1e-12)
    assert "contact_stiffness" not in blind.params and "self_friction" in seeing.params


def test_single_precision_follows_double():
    runs, bars = [], []
    for dtype in ("float64", "float32"):
        system, x = towel(dtype=dtype)
        runs.append(pb.rollout(system, system.state(x), steps=4))
        bars.append(runs[-1].pullback(x_bar=np.ones_like(runs[-1].final.x)))
    assert runs[1].x.dtype == np.float32 and np.abs(runs[0].final.x - x).max() > GAP
    np.testing.assert_allclose(runs[1].final.x, runs[0].final.x, atol=2e-4)
    np.testing.assert_allclose(bars[1].state.v, bars[0].state.v, atol=2e-2 * np.abs(bars[0].state.v).max())
    assert bars[0].params.self_friction != 0.0
    np.testing.assert_allclose(bars[1].params.self_friction, bars[0].params.self_friction, rtol=2e-2)
