"""Footsteps planned without a map, to compare with: the joint angles of pelvis and legs are the variables.

For each stance there are 18 numbers: the pose of the pelvis and the angles of twelve joints. The foot that stands must
be where it was put in the stance before (6 equations), the one that steps must be flat on the floor (3), and joints
must stay within their limits. Goal, smoothing and obstacles are as with the map; so are the optimiser, its options and
its QP solver. All poses and Jacobians of a linearisation are computed in one launch each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import pullback as pb
from pullback.dynamics import jacobian, kinematics
from pullback.model.tangent import integrate
from pullback.reach import Footsteps, sample_humanoid
from pullback.reach.sqp import FIXED, Constraint, Linearised, Options, Poses, Problem, Rows, Solution, minimise
from pullback.reach.walking import SE2, middle
from pullback.spatial import log_jacobian, quat_conj, quat_log, quat_mul

SITES = ("left_foot", "right_foot")


class LegSpace:
    """Configurations of a humanoid of which the pelvis and the legs move."""

    def __init__(self, model):
        self.model = model
        legs = [j for j, name in enumerate(model.joint_names) if any(part in name for part in ("hip", "knee", "ankle"))]
        self.joint_q, self.joint_v = model.joint_q[legs], model.joint_v[legs]
        self.dofs = np.concatenate([np.arange(6), self.joint_v])
        self.low, self.high = model.mujoco.jnt_range[legs].T
        self.tangent_size = len(self.dofs)

    def integrate(self, q: np.ndarray, steps: np.ndarray) -> np.ndarray:
        full = np.zeros((len(q), self.model.nv))
        full[:, self.dofs] = steps
        return integrate(self.model, q, full)


@dataclass
class JointAnglePlan:
    solution: Solution
    miss: float  # of the goal [m, rad]
    tolerance: float
    seconds: float

    @property
    def solved(self) -> bool:
        return self.solution.feasible and self.miss <= self.tolerance


class JointAngleFootsteps:
    """The problem of a :class:`Footsteps`, its map left out."""

    def __init__(self, problem: Footsteps):
        self.given, self.walk, robot = problem, problem.walk, sample_humanoid()
        self.robot, self.space = robot, LegSpace(robot.model)
        self.system = pb.Articulated(robot.model, contact=None, worlds=problem.steps)
        size, n = self.space.tangent_size, problem.steps
        self.columns = np.arange(n * size).reshape(n, size)
        self.stands = np.where(self.walk.is_left[1:-1], 0, 1)  # which site, in each stance
        self.goal, self.soles = np.array(problem.goal), np.asarray(problem.soles, dtype=float)

    def start(self) -> Poses:
        """The usual posture over the feet of the map's own first guess."""
        feet = self.walk.all_feet(self.given.guesses()[0])
        return {"q": self.robot.over(middle(feet[1:-1], feet[2:]))}

    def problem(self) -> Problem:
        return Problem({"q": self.space}, self._linearise)

    def linearise_once(self) -> None:
        self._linearise(self.start())

    def _linearise(self, poses: Poses) -> Linearised:
        q, steps = poses["q"], np.arange(len(poses["q"]))
        at = kinematics(self.system, q, of="site").value
        at = np.stack([at[:, self.robot.model.sites.names.index(name)] for name in SITES], axis=1)
        moves = jacobian(self.system, q, of="site", names=SITES).value[..., self.space.dofs]  # (n, 2, 6, size)
        standing, stepping = at[steps, self.stands], at[steps, 1 - self.stands]
        by_stands, by_steps = moves[steps, self.stands], moves[steps, 1 - self.stands]

        feet = np.concatenate([self.walk.fixed, self._on_floor(stepping)])
        by_q = by_steps[:, [3, 4, 2]]  # x, y and the turn about z
        residuals = [
            Rows(SE2.difference(feet[-1], self.goal), np.tile(self.columns[-1], (3, 1)), -by_q[-1]),
            self._through_feet(self.walk.smooth(feet, self.given.smoothing), by_q),
        ]
        clear = self.walk.clear(feet, self.given.obstacles, self.given.margin, self.soles)
        constraints = [Constraint(self._through_feet(d.rows, by_q), d.name) for d in clear]
        stays, flat = self._stays(standing, stepping, by_stands, by_steps), self._flat(stepping, by_steps)
        return Linearised(residuals, [stays, flat, *self._limits(q), *constraints])

    def _on_floor(self, poses: np.ndarray) -> np.ndarray:
        w, x, y, z = poses[:, 3:].T
        return np.stack([poses[:, 0], poses[:, 1], np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))], axis=1)

    def _through_feet(self, rows: Rows, by_q: np.ndarray) -> Rows:
        """Rows in steps of the feet as rows in steps of the joints that bring them there."""
        foot, entry = np.divmod(rows.columns, 3)
        fixed = rows.columns == FIXED
        chained = np.where(fixed[..., None], 0.0, rows.entries[..., None] * by_q[foot, entry])
        columns = np.where(fixed[..., None], FIXED, self.columns[foot])
        return Rows(rows.values, columns.reshape(len(columns), -1), chained.reshape(len(columns), -1))

    def _stays(self, stands, steps, by_stands, by_steps) -> Constraint:
        """The foot that stands is where it was put in the stance before, or at the start."""
        x, y, yaw = self.walk.fixed[1]
        first = np.array([[x, y, 0.0, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]])
        before = np.concatenate([first, steps[:-1]])
        turn = quat_log(quat_mul(stands[:, 3:], quat_conj(before[:, 3:])))
        values = np.concatenate([turn, stands[:, :3] - before[:, :3]], axis=1).ravel()
        earlier = np.concatenate([np.full((1, self.space.tangent_size), FIXED), self.columns[:-1]])
        by_before = np.concatenate([np.zeros_like(by_steps[:1]), by_steps[:-1]])
        # Both turn about the world's axes: one from the left of what the logarithm is of, the other from its right.
        bent = log_jacobian(turn)
        by_stands = np.concatenate([bent.transpose(0, 2, 1) @ by_stands[:, :3], by_stands[:, 3:]], axis=1)
        by_before = np.concatenate([bent @ by_before[:, :3], by_before[:, 3:]], axis=1)
        columns = np.repeat(np.concatenate([self.columns, earlier], axis=1), 6, axis=0)
        entries = np.concatenate([by_stands, -by_before], axis=2).reshape(len(columns), -1)
        return Constraint(Rows(values, columns, entries), lambda _: "a foot slides", equal=True)

    def _flat(self, steps, by_steps) -> Constraint:
        """Height, roll and pitch of the foot that steps: the tilt of its z axis, and how that turns."""
        w, x, y, z = steps[:, 3:].T
        up = np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], axis=1)
        turning = by_steps[:, :3]
        tilt = np.cross(turning.transpose(0, 2, 1), up[:, None]).transpose(0, 2, 1)[:, :2]
        values = np.concatenate([steps[:, 2:3], up[:, :2]], axis=1).ravel()
        entries = np.concatenate([by_steps[:, 5:6], tilt], axis=1).reshape(-1, self.space.tangent_size)
        return Constraint(
            Rows(values, np.repeat(self.columns, 3, axis=0), entries), lambda _: "a foot is not flat", equal=True
        )

    def _limits(self, q: np.ndarray) -> list[Constraint]:
        angles = q[:, self.space.joint_q]
        columns = self.columns[:, 6:].reshape(-1, 1)
        one = np.ones_like(columns, dtype=float)
        return [
            Constraint(Rows((angles - self.space.low).ravel(), columns, one), lambda _: "a joint is beyond its limit"),
            Constraint(
                Rows((self.space.high - angles).ravel(), columns, -one), lambda _: "a joint is beyond its limit"
            ),
        ]

    def plan(self, options: Options | None = None) -> JointAnglePlan:
        began = time.perf_counter()
        found = minimise(self.problem(), self.start(), options)
        q = found.poses["q"]
        sites = kinematics(self.system, q, of="site").value
        last = sites[-1:, self.robot.model.sites.names.index(SITES[1 - self.stands[-1]])]
        miss = float(np.linalg.norm(SE2.difference(self._on_floor(last)[0], self.goal)))
        return JointAnglePlan(found, miss, self.given.tolerance, time.perf_counter() - began)
