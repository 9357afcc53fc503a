"""Elastic bodies: what is conserved, closed forms, what is refused."""

import math
import pickle

import numpy as np
import pytest
from soft_bodies import bar, cube, flag, masses, shaken

import pullback as pb
from pullback import soft
from pullback.soft.elastic_mesh import hinge_weights, hinges_of

# --- conservation -----------------------------------------------------------------------------------


def test_momentum_of_a_free_body_stays_for_a_thousand_steps():
    for make in (bar, flag):
        system = make(fixed=(), handles=(), damping=0.0, gravity=(0, 0, 0), wind=(0, 0, 0))
        if "drag" in system.params:
            system.params["drag"] = 0.0
        start = shaken(system, 0)
        states = system.steps(start, np.zeros((1000, 1, 0)), keep_every=1000)
        momentum = masses(system) @ states.v[:, 0]
        assert np.abs(momentum[0]).max() > 1e-3
        np.testing.assert_allclose(momentum[1], momentum[0], rtol=0, atol=1e-12)
        assert np.abs(states.v[1] - states.v[0]).max() > 1e-2


def test_a_free_body_falls_as_it_should():
    system = bar(fixed=(), handles=(), damping=0.0, gravity=(0.0, 0.0, -2.0))
    run = pb.rollout(system, system.state(), steps=50)
    fall = 2.0 * system.dt**2 * 50 * 51 / 2
    np.testing.assert_allclose(run.final.x, system.state().x - [0, 0, fall], atol=1e-11)


@pytest.mark.parametrize("make", [bar, flag])
def test_a_body_by_itself_never_gains_energy(make):
    """Kinetic and elastic; backward Euler takes some away in every step."""
    system = make(fixed=(), handles=(), damping=0.0, gravity=(0, 0, 0), wind=(0, 0, 0))
    states = pb.rollout(system, shaken(system, 1), steps=60).states
    mass = masses(system)
    energy = [
        0.5 * mass @ np.sum(v**2, axis=1) + elastic_energy(system, x)
        for x, v in zip(states.x[:, 0], states.v[:, 0], strict=True)
    ]
    assert energy[0] > 2 * energy[-1] > 0
    assert np.all(np.diff(energy) < 0)


def elastic_energy(system, x) -> float:
    """By the formulas of the materials, independent of the kernels."""
    body = system.bodies[0]
    shear, lame = body.material.numbers[:2]
    elements = body.tets if isinstance(body, soft.Solid) else body.triangles
    rest, now = (p[elements[:, 1:]] - p[elements[:, :1]] for p in (body.points, x))
    if isinstance(body, soft.Solid):
        F = np.swapaxes(np.linalg.solve(rest, now), 1, 2)
        content, square, J = np.abs(np.linalg.det(rest)) / 6, np.sum(F**2, axis=(1, 2)), np.linalg.det(F)
        bulk = lame + 5 / 6 * shear
        W = 2 / 3 * shear * (square - 3 - np.log((square + 1) / 4)) + bulk / 2 * (J - 1) ** 2 - shear * (J - 1)
        return content @ W
    metric_rest, metric = (a @ np.swapaxes(a, 1, 2) for a in (rest, now))
    content = np.sqrt(np.linalg.det(metric_rest)) / 2
    C = np.linalg.solve(metric_rest, metric)
    J = np.sqrt(np.linalg.det(C))
    W = shear / 2 * (np.trace(C, axis1=1, axis2=2) - 2) - shear * (J - 1) + (lame + shear) / 2 * (J - 1) ** 2
    hinges = hinges_of(body.triangles)
    bend = np.einsum("ha,hax->hx", hinge_weights(body.points, hinges), x[hinges])
    return content @ W + body.material.bending / 2 * np.sum(bend**2)


# --- closed forms -----------------------------------------------------------------------------------


def at_rest(system, start=None, steps=1):
    """Where forces are in balance: a step of many hours."""
    return pb.rollout(system, start or system.state(), steps=steps).final.x[0]


def test_a_cantilever_bends_as_beam_theory_says():
    """By Timoshenko, with linear elements: the error falls with the square of their size."""
    length, side, young, density, gravity = 0.4, 0.1, 1e6, 1000.0, 0.1
    inertia, weight = side**4 / 12, density * gravity * side**2
    beam = weight * length**4 / (8 * young * inertia) + weight * length**2 / (2 * 5 / 6 * young / 2 * side**2)
    errors = []
    for n in (2, 4, 8):
        material = soft.StableNeoHookean(young=young, poisson=0.0, density=density)
        body = soft.solid_block((0, 0, 0), (length, side, side), (4 * n, n, n), material)
        fixed, tip = (np.flatnonzero(np.isclose(body.points[:, 0], x)) for x in (0.0, length))
        x = at_rest(soft.Elastic(body, dt=1e4, gravity=(0, 0, -gravity), fixed=fixed))
        errors.append(1 + (x[tip, 2] - body.points[tip, 2]).mean() / beam)
    assert errors[2] < 0.06
    assert errors[0] / errors[1] > 2.4 and errors[1] / errors[2] > 3.2


@pytest.mark.parametrize("kind", [soft.Membrane, soft.StVKMembrane])
def test_hanging_cloth_is_stretched_by_its_weight(kind):
    """Free to get narrower, by rho g L²/(2 E); to the first order in the strain, 5e-5."""
    length, young, density, gravity = 1.0, 200.0, 0.3, 0.1
    body = soft.sheet(
        (0, 0, 0), (0.05, 0, 0), (0, 0, -length), (1, 20), kind(young=young, poisson=0.0, density=density)
    )
    top = np.flatnonzero(np.isclose(body.points[:, 2], 0.0))
    x = at_rest(soft.Elastic(body, dt=1e3, gravity=(0, 0, -gravity), fixed=top))
    assert -length - x[:, 2].min() == pytest.approx(density * gravity * length**2 / (2 * young), rel=3e-4)


def test_a_cable_hangs_in_a_catenary():
    """A strip that does not stretch, between two points: its sag, to the second order in the size of elements."""
    length, span = 1.0, 0.8
    low, high = 0.05, 10.0
    for _ in range(100):  # 2 a sinh(span/(2 a)) = length
        a = (low + high) / 2
        low, high = (a, high) if 2 * a * math.sinh(span / 2 / a) > length else (low, a)
    sag, errors = a * (math.cosh(span / 2 / a) - 1), []
    for n in (20, 40):
        body = soft.sheet((0, 0, 0), (length, 0, 0), (0, 0.02, 0), (n, 1), soft.StVKMembrane(young=1e5, density=0.3))
        ends = np.flatnonzero(np.isclose(body.points[:, 0] % length, 0.0))
        system = soft.Elastic(body, dt=1.0, damping=50.0, fixed=ends)
        x, u = body.points.copy(), body.points[:, 0] / length
        x[:, 0], x[:, 2] = u * span, -math.sqrt(length**2 - span**2) * np.minimum(u, 1 - u)  # like a V, not stretched
        run = pb.rollout(system, system.state(x), steps=60)
        assert np.abs(run.final.v).max() < 1e-9
        errors.append(-run.final.x[0, :, 2].min() / sag - 1)
    assert 0 < errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("angle", [0.0, 0.5, 1.0, math.pi / 2])
def test_bending_energy_of_a_cylinder(angle):
    """D/2 times the square of the curvature, by area, on a mesh of equilateral triangles."""
    n, radius = 40, 2.0
    points = np.array([(i + j % 2 / 2, j * math.sqrt(3) / 2, 0.0) for j in range(n) for i in range(n)]) / n
    i, j = (a.ravel() for a in np.meshgrid(range(n - 1), range(n - 1)))
    a, b, c, d = j * n + i, j * n + i + 1, (j + 1) * n + i, (j + 1) * n + i + 1
    even = (j % 2 == 0)[:, None]
    one = np.where(even, np.stack([a, b, c], 1), np.stack([a, b, d], 1))
    other = np.where(even, np.stack([b, d, c], 1), np.stack([a, d, c], 1))
    body = soft.Cloth(points, np.concatenate([one, other]), soft.Membrane(young=1.0, density=1.0))
    along = points @ [math.cos(angle), math.sin(angle), 0.0]
    across = points @ [-math.sin(angle), math.cos(angle), 0.0]
    rolled = np.stack([radius * np.sin(along / radius), across, radius * np.cos(along / radius)], axis=1)
    hinges = hinges_of(body.triangles)
    bend = np.einsum("ha,hax->hx", hinge_weights(points, hinges), rolled[hinges])
    area = len(body.triangles) * math.sqrt(3) / 4 / n**2
    assert 0.5 * np.sum(bend**2) / area == pytest.approx(0.5 / radius**2, rel=0.03)  # edges of the boundary do not bend


def test_small_strains_are_hookes():
    """Both materials of a solid have the same forces where it is hardly deformed."""
    systems = [bar(kind, gravity=(0, 0, 0), damping=0.0) for kind in (soft.StableNeoHookean, soft.StVK)]
    random = 1e-7 * np.random.default_rng(0).normal(size=systems[0].state().x.shape)
    moved = [system.step(system.state(system.state().x + random)).v for system in systems]
    assert np.abs(moved[0]).max() > 1e-6
    np.testing.assert_allclose(*moved, rtol=0, atol=1e-5 * np.abs(moved[0]).max())


# --- contact ----------------------------------------------------------------------------------------

PLANE = soft.Shape.plane((0, 0, 0), (0, 0, 1), friction=0.3)


def test_a_cube_at_rest_on_the_floor_is_carried():
    system = soft.Elastic(cube(), dt=0.01, shapes=[soft.Shape.plane((0, 0, 0), (0, 0, 1))], damping=20.0)
    final = pb.rollout(system, system.state(), steps=300).final
    assert np.abs(final.v).max() < 1e-6
    y = np.maximum(final.x[0, :, 2], 1e-9) / system.gap
    push = np.where(y < 1, 1e3 * system.gap * (1 - y) * (-2 * np.log(y) + (1 - y) / y), 0.0)
    assert push.sum() == pytest.approx(9.81 * masses(system).sum(), rel=1e-4)


@pytest.mark.parametrize("slope", [0.2, 0.5])
def test_friction_holds_or_brakes_on_a_slope(slope):
    """Coulomb's 0.3: on the lesser slope the cube stays, on the steeper one it slides with g (sin - 0.3 cos)."""
    angle = math.atan(slope)
    gravity = 9.81 * np.array([math.sin(angle), 0.0, -math.cos(angle)])
    body = cube(soft.StableNeoHookean)
    system = soft.Elastic(body, dt=2e-3, shapes=[PLANE], gravity=gravity)
    states = pb.rollout(system, system.state(), steps=400).states
    speed = (masses(system) @ states.v[:, 0] / masses(system).sum())[:, 0]
    if slope < 0.3:
        assert abs(np.mean(speed[200:])) < system.slip  # it wobbles, and creeps: friction is rounded below this
    else:
        expected = 9.81 * (math.sin(angle) - 0.3 * math.cos(angle))
        assert (speed[-1] - speed[200]) / (200 * system.dt) == pytest.approx(expected, rel=0.02)


def test_nothing_enters_a_shape_however_fast():
    shapes = [PLANE, soft.Shape.capsule((-0.2, 0, 0.05), (0.2, 0, 0.05), 0.02)]
    body = soft.sheet((-0.1, -0.1, 0.12), (0.2, 0, 0), (0, 0.2, 0), (6, 6), soft.Membrane(young=100.0, density=0.2))
    system = soft.Elastic(body, dt=0.02, shapes=shapes)
    states = pb.rollout(system, system.state(v=(0, 0, -20.0)), steps=30).states
    assert min(shape.distance(states.x[:, 0]).min() for shape in shapes) > 0
    assert states.x[-1, 0, :, 2].max() > 0.06  # some of it hangs over the capsule


# --- what is refused, and what changes nothing --------------------------------------------------------


def test_an_inverted_element_is_named():
    body = cube()
    tets = body.tets.copy()
    tets[2] = tets[2][[1, 0, 2, 3]]
    with pytest.raises(pb.PullbackError, match="tetrahedron 2 is inverted at rest: swap two corners"):
        soft.Solid(body.points, tets, body.material)
    with pytest.raises(pb.PullbackError, match="triangle 1 has no area"):
        soft.Cloth(np.eye(3), [[0, 1, 2], [0, 1, 1]], soft.Membrane(young=1.0, density=1.0))
    with pytest.raises(pb.PullbackError, match="point 8 belongs to none"):
        soft.Solid(np.vstack([body.points, [[0, 0, 9]]]), body.tets, body.material)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fixed": [99]}, "fixed names a vertex that is not there: there are 8"),
        ({"handles": [[0], [0, 1]]}, "vertex 0 is part of two handles: 0 and 1"),
        ({"fixed": [1], "handles": [[0, 1]]}, "vertex 1 is fixed, and part of handle 0"),
        ({"dt": 0.0}, "dt must be"),
        ({"shapes": [(0, 0, 1)]}, "soft.Shape.plane"),
        ({"gravity": -9.81}, "gravity must be three"),
    ],
)
def test_what_is_given_is_checked(change, message):
    with pytest.raises(pb.PullbackError, match=message):
        soft.Elastic(cube(), **{"dt": 0.01} | change)


def test_a_start_within_a_shape_is_an_error_that_names_the_vertex():
    system = soft.Elastic(cube(), dt=0.01, shapes=[PLANE], worlds=2)
    start = system.state()
    start.x[1, 3, 2] = -0.004
    with pytest.raises(
        pb.SimulationError, match=r"vertex 3 \(cube\) in world 1 .* is inside of shape 0, a plane, by 0.004"
    ):
        pb.rollout(system, start, steps=3)
    run = pb.rollout(system, start, steps=3, on_failure="mask")
    assert run.status.failed.tolist() == [False, True] and "vertex 3" in run.status.reasons[1]
    np.testing.assert_array_equal(run.final.x[1], start.x[1])
    assert np.abs(run.final.x[0] - start.x[0]).max() > 0
    bars = run.pullback(x_bar=np.ones_like(start.x))
    assert np.abs(bars.state.x[0]).max() > 0 and np.abs(bars.state.x[1]).max() == 0


def test_a_step_that_is_not_solved_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr("pullback.soft.elastic_stepper.MOST_NEWTON", 1)
    system = bar()
    with pytest.raises(pb.SimulationError, match=r"did not converge in world 0 at step 0: .* vertex \d+ \(bar\)"):
        pb.rollout(system, shaken(system, 3), steps=2)


def test_single_precision_follows_double():
    for make in (bar, flag):
        runs = [pb.rollout(make(dtype=dtype), make().state(), steps=30) for dtype in ("float64", "float32")]
        assert runs[1].x.dtype == np.float32
        assert np.abs(runs[0].x[-1] - runs[0].x[0]).max() > 4e-3
        np.testing.assert_allclose(runs[1].x[-1], runs[0].x[-1], atol=2e-4)
        bars = [run.pullback(x_bar=np.ones_like(run.x[0])) for run in runs]
        scale = np.abs(bars[0].state.x).max()
        np.testing.assert_allclose(bars[1].state.x, bars[0].state.x, atol=2e-2 * scale)


def test_copies_are_the_same():
    system = flag()
    system.params["bending"] = 1e-3
    other = pickle.loads(pickle.dumps(system))
    start = shaken(system, 5)
    np.testing.assert_array_equal(other.step(start).x, system.step(start).x)
    assert other.params["bending"][0] == 1e-3
