"""Joint angles of a whole robot that bring several of its sites to their targets, many postures at once.

Plans are made on maps of what each limb reaches. Whether the robot can do all of it at the same time is found here:
damped least squares on all joints, within their limits, from a usual posture and then from random ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np

from pullback.core.arrays import to_numbers
from pullback.core.checks import check_number, check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.core.quadratic import newton_step
from pullback.dynamics import Articulated, center_of_mass, jacobian, kinematics
from pullback.model import FREE, Model
from pullback.model.tangent import difference, integrate, tangent_of_coordinates
from pullback.reach.ik import Joints, Solutions, from_starts
from pullback.reach.spaces import space
from pullback.spatial import quat_conj, quat_log, quat_mul

ROTATION = 0.3  # weight of a rotation by one radian beside a distance of one metre [m/rad]
POSTURE = 0.01  # weight of the usual posture beside that of a target; it costs about 0.1 mm of accuracy [1]
LARGEST = 0.5  # entry of one step [m, rad]
SPREAD = 0.5  # of the random postures that are tried after the usual one [rad]
OVER_SUPPORT = 0.03  # the centre of mass may be so far from the line between the feet: half a sole's width [m]


class Postures(NamedTuple):
    """Configurations (n, nq), and how well each serves its targets."""

    q: np.ndarray
    reached: np.ndarray  # (n,) bool: every target within the tolerances, and balanced where that was asked for
    off: dict[str, np.ndarray]  # by site, (n,) [m]; NaN where it has no target
    turned: dict[str, np.ndarray]  # by site, (n,) [rad]; NaN where it has no target, or one that is a point
    unbalanced: np.ndarray  # (n,) how far the centre of mass is from over the support [m]; zero if it was not asked for


def find_postures(
    model: Model,
    targets: Mapping[str, np.ndarray],
    *,
    usual=None,
    balance: tuple[str, str] | None = None,
    tolerance: float = 1e-3,
    turn_tolerance: float = 5e-3,
    iterations: int = 40,
    starts: int = 4,
    seed: int = 0,
) -> Postures:
    """Finds n postures whose sites are at their targets.

    targets:        by the name of a site: points (n, 3) [m] or poses (n, 7), position and quaternion, in the world; a
                    row of NaN is no target
    usual:          (nq,) or (n, nq): where to start, and what to stay near; the model's home if None
    balance:        two sites on the soles: the centre of mass must be over the line between them, within 3 cm
    tolerance:      a site that is nearer is at its target [m]
    turn_tolerance: the same for its orientation [rad]
    starts:         how many to try: the first from the usual posture, the others at random around it
    """
    wanted = {name: _checked(model, name, target) for name, target in targets.items()}
    count = {len(target) for target in wanted.values()}
    if len(count) != 1 or 0 in count:
        raise PullbackError(f"targets must have the same number of rows, at least one, not {sorted(count)}")
    (n,) = count
    for name, allowed in (("tolerance", tolerance), ("turn_tolerance", turn_tolerance)):
        check_number(allowed, name)
    iterations = check_whole(iterations, "iterations")
    usual = to_numbers(model.home.q if usual is None else usual, "usual")
    if usual.shape not in ((model.nq,), (n, model.nq)):
        raise PullbackError(f"usual has shape {usual.shape}, but ({model.nq},) or ({n}, {model.nq}) is needed")
    usual = np.broadcast_to(usual.astype(float), (n, model.nq))
    if balance is not None:
        _check_balance(model, balance)
    work = _Work(model, tuple(wanted), balance, tolerance, turn_tolerance)
    stacked = np.stack([*wanted.values()], axis=1)  # (n, sites, 7)
    rng = np.random.default_rng(check_seed(seed))

    def search(start: int, left: np.ndarray) -> Solutions:
        first = usual[left] if start == 0 else work.scattered(usual[left], rng)
        q = work.improved(first, usual[left], stacked[left], iterations)
        error = work.errors(q, stacked[left]).worst
        return Solutions(q, error <= 1.0, error)

    found = from_starts(usual.copy(), work.errors(usual, stacked).worst, starts, search)
    return work.rated(found.q, stacked)


class _Errors(NamedTuple):
    off: np.ndarray  # (n, sites, 3) [m]
    turned: np.ndarray  # (n, sites, 3) [rad]
    fall: np.ndarray  # (n, 2) what the centre of mass lacks [m]
    worst: np.ndarray  # (n,) in terms of what is allowed [1]


class _Work:
    """Damped least squares for some sites of one robot."""

    def __init__(self, model: Model, sites, balance, tolerance: float, turn_tolerance: float):
        self.model, self.sites, self.balance = model, sites, balance
        self.tolerance, self.turn_tolerance = tolerance, turn_tolerance
        self.system = Articulated(model, contact=None)
        self.index = [model.sites.names.index(name) for name in sites]
        self.joints = Joints(model, range(model.njoint))

    def errors(self, q: np.ndarray, targets: np.ndarray) -> _Errors:
        system = self.system.in_worlds(len(q))
        poses = kinematics(system, q, of="site").value
        off = targets[..., :3] - poses[:, self.index, :3]
        turned = quat_log(quat_mul(targets[..., 3:], quat_conj(poses[:, self.index, 3:])))
        fall = self._fall(system, q, poses)
        worst = np.concatenate(
            [
                np.nan_to_num(np.linalg.norm(off, axis=2)) / self.tolerance,
                np.nan_to_num(np.linalg.norm(turned, axis=2)) / self.turn_tolerance,
                np.linalg.norm(fall, axis=1, keepdims=True) / self.tolerance,
            ],
            axis=1,
        ).max(axis=1)
        return _Errors(off, turned, fall, worst)

    def _fall(self, system: Articulated, q: np.ndarray, poses: np.ndarray) -> np.ndarray:
        """From the centre of mass to the nearest point (n, 2) that is over the support [m]."""
        if self.balance is None:
            return np.zeros((len(q), 2))
        a, b = (poses[:, self.model.sites.names.index(name), :2] for name in self.balance)
        at = center_of_mass(system, q).value[:, :2]
        along = np.sum((at - a) * (b - a), axis=1) / np.maximum(np.sum((b - a) ** 2, axis=1), 1e-12)
        away = a + np.clip(along, 0.0, 1.0)[:, None] * (b - a) - at
        length = np.linalg.norm(away, axis=1, keepdims=True)
        return away * np.maximum(length - OVER_SUPPORT, 0.0) / np.maximum(length, 1e-12)

    def improved(self, q: np.ndarray, usual: np.ndarray, targets: np.ndarray, iterations: int) -> np.ndarray:
        """Postures (n, nq) nearer to their targets."""
        q, active = q.copy(), np.arange(len(q))
        for _ in range(iterations):
            here = self.errors(q[active], targets[active])
            moving = here.worst > 1.0
            active = active[moving]
            if not len(active):
                break
            here = _Errors(*(field[moving] for field in here))
            q[active] = self.joints.clamp(integrate(self.model, q[active], self._step(q[active], usual[active], here)))
        return q

    def _step(self, q: np.ndarray, usual: np.ndarray, here: _Errors) -> np.ndarray:
        """Least squares, damped by the error that is left; joints that push against their limit are left out."""
        system = self.system.in_worlds(len(q))
        rotation, translation = np.split(jacobian(system, q, of="site", names=self.sites).value, 2, axis=2)
        rows = np.concatenate([translation, ROTATION * rotation], axis=2)
        wanted = np.concatenate([here.off, ROTATION * here.turned], axis=2)
        rows = np.where(np.isnan(wanted)[..., None], 0.0, rows).reshape(len(q), -1, self.model.nv)
        wanted = np.nan_to_num(wanted).reshape(len(q), -1)
        if self.balance is not None:
            rows = np.concatenate([rows, self._fall_rows(system, q, here.fall)], axis=1)
            wanted = np.concatenate([wanted, here.fall], axis=1)
        pull = np.einsum("nij,ni->nj", rows, wanted) + POSTURE**2 * difference(self.model, q, usual)
        curvature = rows.transpose(0, 2, 1) @ rows
        damping = POSTURE**2 + 0.5 * np.sum(wanted**2, axis=1)
        curvature[:, np.arange(self.model.nv), np.arange(self.model.nv)] += damping[:, None]
        free = ~self.joints.blocked(q, pull)
        step = newton_step(curvature, -pull, free)
        return step * np.minimum(1.0, LARGEST / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-12))

    def _fall_rows(self, system: Articulated, q: np.ndarray, fall: np.ndarray) -> np.ndarray:
        """How the centre of mass moves with the joints (n, 2, nv), where it is not over the support."""
        found = center_of_mass(system, q)
        rows = [
            tangent_of_coordinates(self.model, q, found.pullback(np.tile(axis, (len(q), 1)), wants_params=False).q)
            for axis in np.eye(3)[:2]
        ]
        falls = np.any(fall != 0, axis=1)
        return np.where(falls[:, None, None], np.stack(rows, axis=1), 0.0)

    def scattered(self, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Random postures around others (n, nq); a floating base moves a fifth as far."""
        step = rng.normal(scale=SPREAD, size=(len(q), self.model.nv))
        for joint in np.flatnonzero(self.model.joint_type == FREE):
            step[:, self.model.joint_v[joint] : self.model.joint_v[joint] + 6] *= 0.2
        return self.joints.clamp(integrate(self.model, q, step))

    def rated(self, q: np.ndarray, targets: np.ndarray) -> Postures:
        """Postures (n, nq) with their errors."""
        here = self.errors(q, targets)
        off, turned = np.linalg.norm(here.off, axis=2), np.linalg.norm(here.turned, axis=2)
        by_site = (dict(zip(self.sites, error.T, strict=True)) for error in (off, turned))
        return Postures(q, here.worst <= 1.0, *by_site, np.linalg.norm(here.fall, axis=1))


def _checked(model: Model, name: str, target) -> np.ndarray:
    """A target as poses (n, 7), with NaN for the orientation of a point."""
    _check_site(model, name)
    target = np.atleast_1d(to_numbers(target, f"the target of {name!r}").astype(float))
    is_point = target.shape[-1:] == (3,)
    there = np.where(np.isnan(target).all(axis=-1, keepdims=True), 1.0, target)  # what is no target is not checked
    space("R3" if is_point else "SE3").check(there, f"the target of {name!r}")
    if is_point:
        return np.pad(target, ((0, 0), (0, 4)), constant_values=np.nan)
    return np.concatenate([target[:, :3], target[:, 3:] / np.linalg.norm(target[:, 3:], axis=1, keepdims=True)], axis=1)


def _check_site(model: Model, name) -> None:
    if name not in model.sites.names:
        raise PullbackError(f"there is no site {name!r}; there are {', '.join(model.sites.names) or 'none'}")


def _check_balance(model: Model, balance) -> None:
    if not isinstance(balance, tuple | list) or len(balance) != 2:
        raise PullbackError(f"balance must name two sites on the soles, not {balance!r}")
    for name in balance:
        _check_site(model, name)


def clearance(model: Model, q: np.ndarray, pairs) -> np.ndarray:
    """The smallest distance (n,) between geoms that must not touch, given as pairs of names [m]; negative: overlap.

    Infinite if there are no pairs.
    """
    mj, data = model.mujoco, mujoco.MjData(model.mujoco)
    ids = [[mujoco.mj_name2id(mj, mujoco.mjtObj.mjOBJ_GEOM, name) for name in pair] for pair in pairs]
    found = np.full(len(q), np.inf)
    for row, one in enumerate(q):
        data.qpos[:] = one
        mujoco.mj_kinematics(mj, data)
        found[row] = min((mujoco.mj_geomDistance(mj, data, a, b, 1.0, None) for a, b in ids), default=np.inf)
    return found
