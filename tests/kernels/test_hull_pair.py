"""The potential of two rounded hulls against 50 digits near touch, closed forms and differences."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hulls import KINDS, Hull, centre_of, evaluate, exact_value, hull, separated

PAIRS = list(itertools.combinations_with_replacement(KINDS, 2))


def test_two_spheres_have_a_closed_form():
    rng = np.random.default_rng(0)
    length, gaps = 0.7, np.geomspace(1e-6, 1e3, 30)
    pairs, radii = [], rng.uniform(0.2, 1, (30, 2))
    for g, (a, b) in zip(gaps, radii, strict=True):
        direction = rng.normal(size=3)
        place = rng.normal(size=3) + direction / np.linalg.norm(direction) * (a + b + g)
        pairs.append(
            (Hull(place[None], a), Hull((place - direction / np.linalg.norm(direction) * (a + b + g))[None], b))
        )
    found = evaluate(pairs, length)
    assert found.found.all()
    np.testing.assert_allclose(found.gap, gaps, rtol=1e-8)
    root = np.sqrt(length / gaps)
    np.testing.assert_allclose(found.value, 4 * (1 + root) ** 2, rtol=1e-9)
    sizes = np.array([np.linalg.norm(f[0]) for f in found.forces])
    np.testing.assert_allclose(sizes, 4 * (root + root**2) / gaps, rtol=1e-8)


def shifted(side: int, index: int, step: mp.mpf):
    """Moves one hull by a rigid motion (0 to 2: rotation, 3 to 5: translation), rotations to second order."""

    def move(points, origin):
        result = [[list(x) for x in rows] for rows in points]
        for x in result[side]:
            if index >= 3:
                x[index - 3] += step
            else:
                y = [x[i] - origin[i] for i in range(3)]
                j, k = (index + 1) % 3, (index + 2) % 3
                x[j] = origin[j] + mp.cos(step) * y[j] - mp.sin(step) * y[k]
                x[k] = origin[k] + mp.sin(step) * y[j] + mp.cos(step) * y[k]
        return result

    return move


@pytest.mark.parametrize(("gap", "force_tol", "hessian_tol"), [(1e-3, 1e-8, 1e-6), (1e-6, 1e-8, 1e-6)])
def test_forces_and_hessian_near_touch_with_50_digits(gap, force_tol, hessian_tol):
    rng, length = np.random.default_rng(1), 0.5
    pairs = [separated(rng, kinds, gap) for kinds in PAIRS]
    found = evaluate(pairs, length)
    assert found.found.all()
    with mp.workdps(50):
        h = mp.mpf(10) ** -15 * mp.mpf(gap)
        for i, pair in enumerate(pairs):
            side, index = int(rng.integers(2)), int(rng.integers(6))
            value = lambda step: exact_value(pair, length, found.origin[i], found.plane[i], shifted(side, index, step))  # noqa: B023, E731
            plus, middle, minus = value(h), value(mp.mpf(0)), value(-h)
            slope, curve = float((plus - minus) / (2 * h)), float((plus - 2 * middle + minus) / h**2)
            points = pair[side].points - centre_of(*pair)
            count = len(pair[0].points)
            forces = found.forces[i][:count] if side == 0 else found.forces[i][count:]
            wrench = np.concatenate([np.cross(points, forces).sum(axis=0), forces.sum(axis=0)])
            assert abs(-wrench[index] - slope) <= force_tol * np.abs(wrench).max(), (gap, i)
            assert abs(found.value[i] - float(middle)) <= 1e-8 * float(middle)
            hessian = found.hessian[i, 6 * side + index, 6 * side + index]
            if index < 3:  # points move on circles: f·(ω × (ω × x))
                axis = np.eye(3)[index]
                hessian -= np.sum(forces * np.cross(axis, np.cross(axis, points)))
            diagonal = np.abs(np.diagonal(found.hessian[i]))[6 * side + 3 * (index // 3) :][:3].max()
            assert abs(hessian - curve) <= hessian_tol * diagonal, (gap, i)


@pytest.mark.parametrize("gap", [0.1, 1.0, 30.0])
def test_forces_and_hessian_are_the_slopes_of_the_value(gap):
    rng, length, h = np.random.default_rng(2), 0.5, 1e-5
    pairs = [separated(rng, kinds, gap) for kinds in PAIRS]
    found = evaluate(pairs, length)
    for i, (ahead, behind) in enumerate(pairs):
        # the origin must stay where it is, so both hulls move apart by the same amount
        for axis in range(3):
            d = h * np.eye(3)[axis]
            both = [
                (Hull(ahead.points + s * d, ahead.radius), Hull(behind.points - s * d, behind.radius)) for s in (1, -1)
            ]
            moved = evaluate(both, length)
            count = len(ahead.points)
            force = found.forces[i][:count].sum(axis=0)[axis] - found.forces[i][count:].sum(axis=0)[axis]
            slope = (moved.value[0] - moved.value[1]) / (2 * h)
            assert abs(-force - slope) <= 1e-8 * found.value[i] + 1e-6 * abs(force)
            slopes = [(f[:count].sum(axis=0), f[count:].sum(axis=0)) for f in moved.forces]
            ahead_slope, behind_slope = (-(slopes[0][k] - slopes[1][k]) / (2 * h) for k in range(2))
            H = found.hessian[i]
            column = H[:, 3 + axis] - H[:, 9 + axis]
            largest = np.abs(H).max()
            np.testing.assert_allclose(column[3:6], ahead_slope, atol=1e-6 * largest)
            np.testing.assert_allclose(column[9:12], behind_slope, atol=1e-6 * largest)


def test_overlap_is_noticed():
    rng = np.random.default_rng(3)
    pairs = []
    for kinds in PAIRS:
        for _ in range(20):
            ahead, behind = separated(rng, kinds, 0.5)
            weights = [rng.dirichlet(np.ones(len(h.points))) for h in (ahead, behind)]
            inner = weights[0] @ ahead.points - weights[1] @ behind.points
            pairs.append((Hull(ahead.points - inner, ahead.radius), behind))  # they share a point
    assert (evaluate(pairs, 0.5).gap <= 1e-12).all()


def test_a_plane_is_found_at_every_gap_and_size():
    rng = np.random.default_rng(4)
    for size in (1e-3, 1.0, 1e3):
        for gap in np.geomspace(1e-6, 1e3, 10):
            pairs = [separated(rng, kinds, gap * size, size) for kinds in PAIRS for _ in range(12)]
            found = evaluate(pairs, 0.5 * size)
            assert (found.gap > 0).all(), (size, gap)
            assert found.found.all(), (size, gap)


def test_a_shape_alone_is_as_large_as_it_says():
    for kind in KINDS:
        assert np.ptp(hull(np.random.default_rng(5), kind, 2.0).points, axis=0).max() < 20
