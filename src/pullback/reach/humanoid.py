"""A robot on two feet: its postures over given footsteps and handholds, and its maps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pullback.core.checks import check_kind, check_path, check_seed
from pullback.core.errors import PullbackError
from pullback.model import Model, load
from pullback.model.robots import humanoid
from pullback.reach.maps import ReachabilityMap
from pullback.reach.progress import progress_bar
from pullback.reach.spaces import space
from pullback.reach.walking import SE2, Plan, middle, on_floor
from pullback.reach.whole_body import Postures, clearance, find_postures
from pullback.version import __version__

CONTACT = 5e-3  # a planned contact that is reached to within this is reached [m]
LEG = ("thigh", "shank", "sole_inner", "sole_outer")
CROUCH = 0.35  # of hips and ankles; the knees have twice that [rad]
ELBOW = 0.6  # off the singularity of a straight arm [rad]
STANCES, HANDS = 4000, 2500  # samples of a foot map and of a hand map
PADDED = 1.3  # the box of samples against what is asked about [1]
STANCES_PER_HAND = 5  # from which all a point must be reached
QUICK = {"starts": 2, "iterations": 25}  # of samples: what takes longer counts as out of reach
CHUNK = 500  # samples worked on at once


@dataclass(frozen=True)
class Humanoid:
    """Which parts of a robot walk and hold.

    usual:    (nq,) a posture to stay near, its floating base as if the stance's frame were the world's
    apart:    pairs of geoms that must not touch
    strides:  from and to of the right foot as seen from the left one (2, 3) [m, m, rad]: the robot could do the splits,
              but what it is asked to do is walking
    holds:    from and to of the left hand as seen from the stance's frame (2, 3) [m]
    """

    model: Model
    usual: np.ndarray
    feet: tuple[str, str] = ("left_foot", "right_foot")  # sites on the soles, x forward
    hands: tuple[str, str] = ("left_hand", "right_hand")  # sites
    apart: tuple[tuple[str, str], ...] = ()
    strides: tuple = ((-0.45, -0.5, -0.7), (0.45, -0.12, 0.7))
    holds: tuple = ((-0.7, -0.3, 0.5), (0.9, 1.0, 1.5))

    def postures(
        self, left: np.ndarray, right: np.ndarray, hand=None, *, hand_side: str = "left", balance: bool = False,
        near=None, **options,
    ) -> Postures:  # fmt: skip
        """Postures over feet (n, 3) each, with a hand at points (n, 3) [m], NaN where it has none.

        balance: the centre of mass is over the feet, too
        near:    (n, nq) to start from; the usual posture over each stance if None
        options: of :func:`find_postures`
        """
        targets = {self.feet[0]: on_floor(left), self.feet[1]: on_floor(right)}
        if hand is not None:
            targets[self.hands[0 if hand_side == "left" else 1]] = hand
        usual = self.over(middle(left, right)) if near is None else near
        found = find_postures(self.model, targets, usual=usual, balance=self.feet if balance else None, **options)
        found.reached[found.reached] = clearance(self.model, found.q[found.reached], self.apart) > 0
        return found

    def over(self, frames: np.ndarray) -> np.ndarray:
        """The usual posture (n, nq) over frames on the floor (n, 3)."""
        q = np.tile(self.usual, (len(frames), 1))
        q[:, :2] = SE2.compose(frames, [*self.usual[:2], 0.0])[:, :2]
        q[:, 3:7] = on_floor(frames)[:, 3:]
        return q


def sample_humanoid() -> Humanoid:
    """The sample humanoid, with slightly bent knees."""
    model = load(humanoid())
    usual = np.array(model.home.q)
    at = {name: int(q) for name, q in zip(model.joint_names, model.joint_q, strict=True)}
    for side in ("left", "right"):
        usual[at[f"{side}_hip_flexion"]] = usual[at[f"{side}_ankle_dorsiflexion"]] = CROUCH
        usual[at[f"{side}_knee_flexion"]] = 2 * CROUCH
        usual[at[f"{side}_elbow_flexion"]] = ELBOW
    ankle = float(model.body_pos[model.body_names.index("left_foot")][2])
    knee = float(model.body_pos[model.body_names.index("left_shank")][2])
    usual[2] += (1 - np.cos(CROUCH)) * (ankle + knee)
    return Humanoid(model, usual, apart=tuple((f"left_{a}", f"right_{b}") for a in LEG for b in LEG))


# --- plans ------------------------------------------------------------------------------------------------------------


class Check(NamedTuple):
    """The result of checking a plan by inverse kinematics."""

    postures: Postures  # of all moments of the plan
    contacts: int  # planned: two feet and perhaps a hand at each moment
    reached: int  # of them, within 5 mm, in a posture within the joint limits
    worst: float  # the largest distance of a contact from its place [m]
    apart: float  # the smallest distance of legs [m]

    @property
    def share(self) -> float:
        return self.reached / self.contacts


def check_plan(robot: Humanoid, plan: Plan, *, balance: bool = False, seed: int = 0) -> Check:
    """Finds a posture of the whole robot at every moment of a plan."""
    check_kind(robot, Humanoid, "robot", "sample_humanoid()")
    check_kind(plan, Plan, "plan", "Footsteps(...).plan()")
    hand = None if np.isnan(plan.hand).all() else plan.hand
    found = robot.postures(plan.left, plan.right, hand, hand_side=plan.hand_side, balance=balance, seed=seed)
    off = np.stack([*found.off.values()], axis=1)
    planned = np.isfinite(off)
    balanced = (found.unbalanced <= CONTACT)[:, None]
    apart = clearance(robot.model, found.q, robot.apart)
    good = planned & balanced & (apart > 0)[:, None] & (np.nan_to_num(off) <= CONTACT)
    return Check(found, int(planned.sum()), int(good.sum()), float(np.nanmax(off)), float(apart.min()))


# --- maps -------------------------------------------------------------------------------------------------------------


class Maps(NamedTuple):
    """Reachability maps of a robot's right foot relative to its left one, and of its left hand relative to both
    feet."""

    foot: ReachabilityMap  # in SE2
    hand: ReachabilityMap  # in R3


def humanoid_maps(
    robot: Humanoid | None = None, *, balance: bool = False, folder: Path | None = None, seed: int = 0,
    progress: bool = True,
) -> Maps:  # fmt: skip
    """The maps of a robot, learned once, in less than a minute, and cached in a folder.

    balance:  a stance counts as reached only if the centre of mass can be over its feet
    folder:   where maps are kept; $XDG_CACHE_HOME/pullback or ~/.cache/pullback if None
    """
    robot, seed = sample_humanoid() if robot is None else robot, check_seed(seed)
    check_kind(robot, Humanoid, "robot", "sample_humanoid()")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pullback"
    kept = cache if folder is None else check_path(folder, "folder")
    paths = [kept / f"{part}-{_fingerprint(robot, balance, seed)}.npz" for part in ("foot", "hand")]
    if all(path.is_file() for path in paths):
        return Maps(*map(ReachabilityMap.load, paths))
    try:
        kept.mkdir(parents=True, exist_ok=True)  # an error now rather than after the work
    except OSError as error:
        raise PullbackError(
            f"cannot keep maps in {str(kept)!r}: {error.strerror}; set XDG_CACHE_HOME or folder="
        ) from None
    options = {"balance": balance, "seed": seed}
    with progress_bar("learning what the humanoid reaches", STANCES + HANDS, progress) as advance:
        stances, reached = sample_stances(robot, STANCES, **options, advance=advance)
        points, held = sample_hands(robot, stances[reached], HANDS, **options, advance=advance)
    maps = Maps(ReachabilityMap("SE2").fit(stances, reached), ReachabilityMap("R3").fit(points, held))
    for one, path in zip(maps, paths, strict=True):
        one.save(path)
    return maps


def _fingerprint(robot: Humanoid, balance: bool, seed: int) -> str:
    """Changes with all that the maps are made from."""
    mj = robot.model.mujoco
    arrays = (mj.body_pos, mj.body_quat, mj.body_mass, mj.body_ipos, mj.jnt_type, mj.jnt_pos, mj.jnt_axis,
              mj.jnt_range, mj.site_pos, mj.site_quat, mj.geom_type, mj.geom_size, mj.geom_pos, mj.geom_quat,
              robot.usual)  # fmt: skip
    settings = (robot.feet, robot.hands, robot.apart, robot.strides, robot.holds, balance, seed, STANCES, HANDS,
                STANCES_PER_HAND, PADDED, sorted(QUICK.items()), __version__)  # fmt: skip
    made = hashlib.sha256(repr(settings).encode())
    for array in arrays:
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


# --- samples ----------------------------------------------------------------------------------------------------------


def sample_stances(
    robot: Humanoid, n: int = STANCES, *, balance: bool = False, seed: int = 0, advance=lambda done: None
) -> tuple[np.ndarray, np.ndarray]:
    """Poses of the right foot from the left one (n, 3), and whether a posture was found for each (n,).

    What is longer than the robot's strides counts as out of reach. advance(done) is called now and then.
    """

    def reached(right: np.ndarray) -> np.ndarray:
        return robot.postures(np.zeros_like(right), right, balance=balance, **QUICK, seed=seed).reached

    return _sampled(reached, n, robot.strides, seed, advance)


def sample_hands(
    robot: Humanoid, stances: np.ndarray, n: int = HANDS, *, balance: bool = False, seed: int = 0,
    advance=lambda done: None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Points of the left hand from the stance's frame (n, 3) [m], and whether it reaches each, whatever the stance.

    stances: (m, 3) right feet from left ones. A point is reached if it is from each of STANCES_PER_HAND of them, which
             are as different as can be.
    """
    chosen = _different(np.asarray(stances, dtype=float), STANCES_PER_HAND)

    def reached(at: np.ndarray) -> np.ndarray:
        able = np.ones(len(at), dtype=bool)
        for stance in chosen:
            right = np.tile(stance, (int(able.sum()), 1))
            frames = middle(np.zeros_like(right), right)
            left, right = SE2.relative(frames, np.zeros_like(right)), SE2.relative(frames, right)
            able[able] = robot.postures(left, right, at[able], balance=balance, **QUICK, seed=seed).reached
        return able

    return _sampled(reached, n, robot.holds, seed, advance)


def _sampled(
    reached: Callable[[np.ndarray], np.ndarray], n: int, box, seed: int, advance: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Samples (n, 3) in and around a box (2, 3), and whether they are reached (n,): false of those outside."""
    low, high = np.asarray(box, dtype=float)
    samples = np.random.default_rng(seed).uniform(*space("R3").bounds((low, high), PADDED), size=(n, 3))
    found = np.zeros(n, dtype=bool)
    inside = np.flatnonzero(np.all((samples >= low) & (samples <= high), axis=1))
    advance(n - len(inside))
    for first in range(0, len(inside), CHUNK):
        chunk = inside[first : first + CHUNK]
        found[chunk] = reached(samples[chunk])
        advance(len(chunk))
    if not found.any():
        raise PullbackError("nothing is within this robot's reach: check its feet, hands and usual posture")
    return samples, found


def _different(stances: np.ndarray, count: int) -> np.ndarray:
    """Stances (count, 3), each as far as can be from those before; the first is the one in the middle."""
    scaled = (stances - stances.mean(axis=0)) / np.ptp(stances, axis=0)
    kept = [int(np.argmin(np.linalg.norm(scaled, axis=1)))]
    away = np.full(len(stances), np.inf)
    while len(kept) < min(count, len(stances)):
        away = np.minimum(away, np.linalg.norm(scaled - scaled[kept[-1]], axis=1))
        kept.append(int(np.argmax(away)))
    return stances[kept]
