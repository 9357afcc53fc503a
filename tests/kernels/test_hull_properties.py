"""The four properties of a contact potential that gradients can rely on (Ye, Wu, Pan and Komura, 2026), each over
thousands of random pairs of all shapes; and that each test fails where its property is broken.

barrier:        not negative, and infinite exactly where hulls touch
smooth:         its second derivatives are continuous where hulls are apart
non-prehensile: the force on every point of a hull is a (u - v), a > 0, u in that hull and v in the other
non-vanishing:  the force is nowhere zero
"""

import itertools

import numpy as np
import pytest
from hulls import KINDS, Found, Hull, evaluate, separated

LENGTH = 0.5
PAIRS = list(itertools.combinations_with_replacement(KINDS, 2))


def random_pairs(seed: int, each: int, low: float, high: float) -> list[tuple[Hull, Hull]]:
    rng = np.random.default_rng(seed)
    gaps = np.exp(rng.uniform(np.log(low), np.log(high), (len(PAIRS), each)))
    return [separated(rng, kinds, gap) for kinds, row in zip(PAIRS, gaps, strict=True) for gap in row]


def counts(pairs) -> np.ndarray:
    """The largest number of points of the two hulls of each pair."""
    return np.array([max(len(a.points), len(b.points)) for a, b in pairs])


def lowest(gap: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whatever the plane, a point of one hull is nearer to it than half of the gap."""
    return 2 * LENGTH / (points * gap)


# --- what is tested: violations (pairs,) ---------------------------------------------------------------


def leaks(pairs, found: Found) -> np.ndarray:
    """Where the potential is less than a barrier would be, or more than that of two points at this distance."""
    # what is found first is most of the distance, at least nine tenths
    least = lowest(found.gap / 0.9, counts(pairs))
    most = 4 * (1 + np.sqrt(LENGTH / found.gap)) ** 2
    return ~((found.value >= least) & (found.value >= 0) & (found.value <= most * (1 + 1e-9)))


def jumps(pairs, potential) -> np.ndarray:
    """Where the Hessian, along a short line, changes by more than it does along a half and a quarter of it."""
    rng = np.random.default_rng(7)
    ways = [rng.normal(size=3) for _ in pairs]
    before = potential(pairs)
    reach = 1e-2 * np.minimum(before.gap, 1.0)

    def moved(share: float) -> np.ndarray:
        there = [
            (Hull(a.points + share * d * w / np.linalg.norm(w), a.radius), b)
            for (a, b), d, w in zip(pairs, reach, ways, strict=True)
        ]
        return potential(there).hessian[:, 3:6, 3:6]

    start = before.hessian[:, 3:6, 3:6]
    whole, half, quarter = (np.abs(moved(share) - start).max(axis=(1, 2)) for share in (1.0, 0.5, 0.25))
    rounding = 1e-9 * np.abs(start).max(axis=(1, 2))
    return (half > 0.8 * whole + rounding) | (quarter > 0.8 * half + rounding)


def pulls(pairs, found: Found) -> np.ndarray:
    """Where a force is not along u - v, with u and v the means of the hulls' points weighted with the forces."""
    wrong = np.zeros(len(pairs), bool)
    for i, ((a, b), forces) in enumerate(zip(pairs, found.forces, strict=True)):
        sizes = np.linalg.norm(forces, axis=1)
        ahead, behind = forces[: len(a.points)], forces[len(a.points) :]
        u = np.average(a.points, axis=0, weights=sizes[: len(a.points)])
        v = np.average(b.points, axis=0, weights=sizes[len(a.points) :])
        way = (u - v) / np.linalg.norm(u - v)
        along = np.concatenate([ahead @ way, -(behind @ way)])
        wrong[i] = np.any(along < sizes * (1 - 1e-9))
    return wrong


def vanishes(found: Found) -> np.ndarray:
    return np.array([np.min(np.linalg.norm(forces, axis=1)) < 1e-12 for forces in found.forces])


# --- they hold ----------------------------------------------------------------------------------------


def test_barrier():
    pairs = random_pairs(0, 150, 1e-6, 1e2)
    found = evaluate(pairs, LENGTH)
    assert found.found.all()
    assert not leaks(pairs, found).any()


def test_smooth():
    pairs = random_pairs(1, 100, 1e-3, 1e1)
    assert not jumps(pairs, lambda where: evaluate(where, LENGTH)).any()


def test_smooth_where_features_change():
    """A box slides over the edge of another, from face on face to edge on edge: closest features jump."""
    corners = np.stack(np.meshgrid([-1, 1], [-1, 1], [-1, 1]), -1).reshape(8, 3) * [0.5, 0.5, 0.1]
    places = np.linspace(-1.3, 1.3, 521)
    pairs = [(Hull(corners + [x, 0.02, 0.25], 0.0), Hull(corners, 0.0)) for x in places]
    hessian = evaluate(pairs, LENGTH).hessian[:, 3:6, 3:6].reshape(len(places), 9)
    second = np.abs(np.diff(hessian, 2, axis=0)).max(axis=1)
    first = np.abs(np.diff(hessian, axis=0)).max(axis=1)
    assert second.max() < 0.2 * first.max()  # a jump would be as large as the first difference


def test_non_prehensile():
    pairs = random_pairs(2, 150, 1e-3, 1e2)
    assert not pulls(pairs, evaluate(pairs, LENGTH)).any()


def test_non_vanishing():
    pairs = random_pairs(3, 150, 1e-6, 1e4)
    assert not vanishes(evaluate(pairs, LENGTH)).any()


# --- and are missed where they are broken ---------------------------------------------------------------


def test_a_leak_is_noticed():
    pairs = random_pairs(0, 20, 1e-6, 1e2)
    found = evaluate(pairs, LENGTH)
    assert leaks(pairs, found._replace(value=np.minimum(found.value, 100.0))).any()


def test_a_kink_in_the_force_is_noticed():
    pairs = random_pairs(1, 100, 1e-3, 1e1)
    level = np.median(evaluate(pairs, LENGTH).value)

    def with_kink(where):
        found = evaluate(where, LENGTH)
        more = found.value > level  # as of max(P - level, 0)²: only the second derivative jumps
        forces = np.array([f[: len(a.points)].sum(axis=0) for (a, _), f in zip(where, found.forces, strict=True)])
        hessian = found.hessian.copy()
        hessian[more, 3:6, 3:6] += 2 * np.einsum("ni,nj->nij", forces, forces)[more]
        return found._replace(hessian=hessian)

    # pairs where the level is crossed
    ready = [
        pair for pair, value in zip(pairs, evaluate(pairs, LENGTH).value, strict=True) if abs(value / level - 1) < 0.05
    ]
    near = [(Hull(a.points, a.radius), b) for a, b in ready for _ in range(20)]
    assert jumps(near, with_kink).any()
    assert not jumps(near, lambda where: evaluate(where, LENGTH)).any()


@pytest.mark.parametrize("share", [1e-3, 0.3])
def test_a_pull_is_noticed(share):
    pairs = random_pairs(2, 10, 1e-3, 1e2)
    found = evaluate(pairs, LENGTH)
    aside = [
        f + share * np.linalg.norm(f, axis=1)[:, None] * np.roll(f, 1, axis=1) / np.abs(f).max() for f in found.forces
    ]
    assert pulls(pairs, found._replace(forces=aside)).mean() > 0.9


def test_a_cut_off_is_noticed():
    pairs = random_pairs(3, 20, 1e-6, 1e4)
    found = evaluate(pairs, LENGTH)
    cut = [f * (gap < 10.0) for f, gap in zip(found.forces, found.gap, strict=True)]
    assert vanishes(found._replace(forces=cut)).any()
