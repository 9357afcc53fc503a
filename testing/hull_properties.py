"""Where one of the four properties of a contact potential is violated (Ye, Wu, Pan and Komura, 2026)."""

import itertools

import numpy as np
from hulls import KINDS, Found, Hull, separated

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
