"""Poses that a robot's tip can and cannot reach, to learn a map from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.core.checks import check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.model import Model
from pullback.reach.limb import STARTS, Limb
from pullback.reach.progress import progress_bar
from pullback.reach.spaces import Space

# Unreachable poses are drawn from the box of this many reachable ones, grown by this factor.
BOX_POSES, BOX_PAD = 1000, 1.2
# Poses per update of the progress bar, and poses after which a class that is rarer than RAREST is an error.
BATCH = 20_000
GIVE_UP_AFTER = 200_000
RAREST = 1e-4  # share of all poses [1]


@dataclass(frozen=True)
class Samples:
    """Poses in the frame of the base, in random order."""

    space: Space
    poses: np.ndarray  # (n, sample size)
    reachable: np.ndarray  # (n,) bool

    def __len__(self) -> int:
        return len(self.poses)

    def split(self, n: int) -> tuple[Samples, Samples]:
        """The first n, and the rest: to learn from, and to score with."""
        parts = (slice(None, n), slice(n, None))
        first, second = (Samples(self.space, self.poses[part], self.reachable[part]) for part in parts)
        return first, second


def sample(
    model: Model,
    base: str,
    tip: str,
    space: str | Space = "SE3",
    *,
    n: int = 10_000,
    seed: int = 0,
    unreachable: bool = True,
    starts: int = STARTS,
    box: np.ndarray | None = None,
    progress: bool = True,
    **options,
) -> Samples:
    """n poses of ``tip`` in the frame of ``base``, two sites or bodies by name, and whether each can be reached.

    Half of them are unreachable, or none if ``unreachable`` is False. Poses are drawn uniformly from the box that the
    tip reaches, grown by 1.2, with any orientation, and labelled by inverse kinematics from up to ``starts`` starts
    each; when enough unreachable ones are found, the reachable ones among them are topped up by forward kinematics of
    random joint angles. Joint limits are respected, and so are collisions where the file says what may touch. Joints
    that are not between base and tip stay at home.

    ``box``, (2, dimensions) [m], is the one to draw from, where several calls are to share it.

    ``options`` are those of :class:`Limb`: through, level, collisions, dtype, device. A bar shows the progress, unless
    ``progress`` is False or nobody looks (no terminal).
    """
    n, starts, rng = check_whole(n, "n", 2), check_whole(starts, "starts"), np.random.default_rng(check_seed(seed))
    limb = Limb(model, base, tip, space, **options)
    with progress_bar(f"{tip} from {base}", n, progress) as advance:
        if not unreachable:
            return Samples(limb.space, _by_forward(limb, n, rng, advance), np.ones(n, bool))
        box = box_of(limb, rng) if box is None else box
        inside, outside = _by_inverse(limb, n // 2, box, starts, rng, advance)
        inside = inside[: n - n // 2]
        advance(len(inside))
        more = _by_forward(limb, n - n // 2 - len(inside), rng, advance)
    poses = np.concatenate([inside, more, outside])
    order = rng.permutation(n)
    return Samples(limb.space, poses[order], (np.arange(n) < n - n // 2)[order])


def box_of(limb: Limb, rng: np.random.Generator) -> np.ndarray:
    """The box (2, dimensions) [m] that a limb reaches, grown by 1.2."""
    return limb.space.bounds(_by_forward(limb, BOX_POSES, rng), BOX_PAD)


def _by_forward(limb: Limb, n: int, rng: np.random.Generator, advance=lambda done: None) -> np.ndarray:
    """n reachable poses (n, sample size)."""
    found, count, tried = [np.zeros((0, limb.space.sample_size))], 0, 0
    while count < n:
        size = min(BATCH, max(BOX_POSES, n - count))
        poses, _ = limb.random(size, rng)
        found.append(poses)
        tried += size
        advance(min(len(poses), n - count))
        count += len(poses)
        if tried >= GIVE_UP_AFTER and count < RAREST * tried:
            raise PullbackError(_why_none(limb, tried, rng))
    return np.concatenate(found)[:n]


def _why_none(limb: Limb, tried: int, rng: np.random.Generator) -> str:
    """Why hardly any of many random configurations is of use."""
    chain = limb.chain
    start = f"hardly any of {tried} random configurations brings {chain.tip!r}"
    if not limb.holds or (limb.touch is not None and not limb.touch.are_free(chain.random(BOX_POSES, rng)).any()):
        return (
            f"{start} anywhere without a collision, most often of {limb.worst_pair(rng)}: exclude pairs that always "
            "touch, or pass collisions=False"
        )
    return (
        f"{start} to the height {limb.level[2]:.3g} m over {chain.base!r} with the tilt of `level`: pass "
        "as level= a pose that it reaches"
    )


def _by_inverse(
    limb: Limb, n: int, box: np.ndarray, starts: int, rng: np.random.Generator, advance
) -> tuple[np.ndarray, np.ndarray]:
    """n unreachable poses drawn from a box, and the reachable ones among those drawn."""
    inside, outside, count, tried = [], [], 0, 0
    share = 0.5  # of the poses drawn that cannot be reached, as far as is known
    while count < n:
        size = int(np.clip(1.1 * (n - count) / share, 64, BATCH))
        poses = limb.space.random(size, box, rng)
        reached = limb.solve(poses, starts=starts, rng=rng).reached
        inside.append(poses[reached])
        outside.append(poses[~reached])
        tried += size
        new = int((~reached).sum())
        advance(min(new, n - count))
        count += new
        share = max(count / tried, 1e-3)
        if tried >= GIVE_UP_AFTER and count < RAREST * tried:
            raise PullbackError(
                f"all but {count} of {tried} poses of {limb.chain.tip!r} in {limb.space.name} can be reached: there is "
                "nothing to tell apart; pass unreachable=False"
            )
    return np.concatenate(inside), np.concatenate(outside)[:n]
