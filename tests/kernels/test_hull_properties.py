"""The four properties of a contact potential that gradients can rely on (Ye, Wu, Pan and Komura, 2026), each over
thousands of random pairs of all shapes; and that each test fails where its property is broken.

barrier:        not negative, and infinite exactly where hulls touch
smooth:         its second derivatives are continuous where hulls are apart
non-prehensile: the force on every point of a hull is a (u - v), a > 0, u in that hull and v in the other
non-vanishing:  the force is nowhere zero
"""

import numpy as np
import pytest
from hull_properties import LENGTH, jumps, leaks, pulls, random_pairs, vanishes
from hulls import Hull, evaluate

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
