"""The joints between a base and a tip: forward and inverse kinematics for many poses at once."""

from __future__ import annotations

from functools import cached_property

import mujoco
import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS, check_device, check_precision, to_device, to_numpy
from pullback.core.checks import check_kind
from pullback.core.errors import PullbackError
from pullback.dynamics.tree import zeros_struct
from pullback.kernels import specialise
from pullback.model import BALL, FREE, HINGE, SLIDE, Model
from pullback.reach.ik import Joints
from pullback.reach.launch import Batches
from pullback.reach.spaces import space

SE3 = space("SE3")
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])


class Chain(Joints):
    """The joints from ``base`` to ``tip``, two sites or bodies of a model by name (sites are looked up first).

    The tip must hang from the base. Where it does not, as one foot of a humanoid seen from the other, ``through`` names
    the body that both hang from: the chain then goes up from the base to that body, and down to the tip. ``position``
    and ``orientation`` say which of them inverse kinematics has targets for.
    """

    def __init__(
        self,
        model: Model,
        base: str,
        tip: str,
        *,
        through: str | None = None,
        position: bool = True,
        orientation: bool = True,
        dtype: str = "float64",
        device: str = "cpu",
    ):
        check_kind(model, Model, "model", "pullback.load('robot.xml')")
        self.base, self.tip = base, tip
        self.position, self.orientation = position, orientation
        self.dtype, self.device = check_precision(dtype), check_device(device)
        self.signs, joints, self.fixed = route(model, base, tip, through)
        super().__init__(model, joints)
        for j, kind, high in zip(self.joints, self.kinds, self.high, strict=True):
            if kind == FREE:
                raise PullbackError(
                    f"{tip!r} does not hang from {base!r}: between them is the free joint {model.joint_names[j]!r}, "
                    "with which anything can be reached"
                )
            if kind == SLIDE and np.isinf(high):
                raise PullbackError(f"joint {model.joint_names[j]!r} slides without end: give it a range")
        self.home = model.home.q[self.in_model]
        self._batches = Batches(self._workspace, self.device)

    def whole(self, q: np.ndarray) -> np.ndarray:
        """Coordinates of the model (n, nq of the model): at home, but for the joints of the chain."""
        full = np.tile(self.model.home.q, (len(q), 1))
        full[:, self.in_model] = q
        return full

    def forward(self, q: np.ndarray) -> np.ndarray:
        """Poses (n, 7) of the tip in the frame of the base, at joint coordinates q (n, nq)."""
        (poses,) = self._run("chain_poses", len(q), (q,), (), [(len(q), 7)])
        return poses

    def inverse(
        self, targets: np.ndarray, starts: np.ndarray, *, poses: np.ndarray | None = None, tolerance: float,
        iterations: int,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Joint coordinates (n, nq) for poses ``targets`` (n, 7), and how far off they are (n,) [m and rad, together].

        starts: joint coordinates to begin with, one for each target; or any number of them, if ``poses`` (7 each) says
        where they lead to: each target then begins with the nearest. What is less than ``tolerance`` off is not
        improved.
        """
        known = np.zeros((0, 7)) if poses is None else poses
        options = (PRECISIONS[self.dtype](tolerance), iterations)
        n = len(targets)
        q, error = self._run("chain_inverse", n, (targets, starts, known), options, [(n, self.nq), (n,)])
        return q, error

    def _run(self, kernel: str, n: int, arrays: tuple, options: tuple, shapes: list[tuple]) -> list[np.ndarray]:
        """Results of these shapes, of a kernel that is given arrays and options."""
        given = [to_device(np.ascontiguousarray(x, self.dtype), self.dtype, self.device) for x in arrays]
        results = tuple(wp.empty(shape, dtype=PRECISIONS[self.dtype], device=self.device) for shape in shapes)
        kernel = getattr(specialise(self.dtype, "reach.chain"), kernel)
        self._batches.run(kernel, n, (self._struct, *given, *options), results)
        return [to_numpy(x).astype(float) for x in results]

    def _workspace(self, slots: int) -> tuple:
        sizes = {"q": self.nq, "trial": self.nq, "step": self.nv, "S": self.nv, "trial_S": self.nv}
        shapes = {name: (size, slots) for name, size in sizes.items()}
        return (zeros_struct(specialise(self.dtype, "reach.chain").ChainWorkspace, shapes, self.device),)

    @cached_property
    def _struct(self):
        """The kernels' Chain."""
        kernels, tree = specialise(self.dtype, "reach.chain"), specialise(self.dtype, "tree.structs")
        ints = lambda x: wp.array(np.asarray(x, np.int32), dtype=wp.int32, device=self.device)  # noqa: E731
        reals = lambda x, kind: wp.array(np.asarray(x, self.dtype), dtype=kind, device=self.device)  # noqa: E731
        real = PRECISIONS[self.dtype]
        chain = kernels.Chain()
        types = {BALL: int(tree.BALL), SLIDE: int(tree.SLIDE), HINGE: int(tree.HINGE)}
        chain.kind = ints([types[int(kind)] for kind in self.kinds])
        chain.sign = reals(self.signs, real)
        chain.axis = reals(self.model.joint_axis[self.joints], kernels.vec3)
        chain.pos = reals(self.fixed[:, :3], kernels.vec3)
        chain.quat = reals(self.fixed[:, 3:], kernels.vec4)
        chain.q, chain.v = ints(self.first_q), ints(self.first_v)
        chain.q0 = reals(np.where(self.kinds == BALL, 0.0, self.model.q0[self.model.joint_q[self.joints]]), real)
        chain.low, chain.high = reals(self.low, real), reals(self.high, real)
        chain.nq, chain.nv = self.nq, self.nv
        chain.wants_position, chain.wants_orientation = int(self.position), int(self.orientation)
        return chain


def route(model: Model, base: str, tip: str, through: str | None) -> tuple[list[int], list[int], np.ndarray]:
    """Signs and joints from base to tip, and the fixed transforms (joints + 1, 7) before each and after the last."""
    data = mujoco.MjData(model.mujoco)  # in the pose of the file, in which no joint does anything
    mujoco.mj_kinematics(model.mujoco, data)

    def in_world(body: int, pos: np.ndarray, quat: np.ndarray = IDENTITY) -> np.ndarray:
        return SE3.compose([*data.xpos[body], *data.xquat[body]], [*pos, *quat])

    base_frame, tip_frame = frame_of(model, base), frame_of(model, tip)
    up, down = path(model, base, base_frame[0], tip, tip_frame[0], through)
    of_body = [np.flatnonzero(model.joint_body == body).tolist() for body in range(model.nbody)]
    climbed, descended = [j for body in up for j in of_body[body][::-1]], [j for body in down for j in of_body[body]]
    joints = climbed + descended
    if not joints:
        raise PullbackError(f"there is no joint between {base!r} and {tip!r}: nothing can move")
    anchors = [in_world(model.joint_body[j], model.joint_pos[j]) for j in joints]
    frames = np.stack([in_world(*base_frame), *anchors, in_world(*tip_frame)])
    return [-1] * len(climbed) + [1] * len(descended), joints, SE3.relative(frames[:-1], frames[1:])


def frame_of(model: Model, name: str) -> tuple[int, np.ndarray, np.ndarray]:
    """The body that a site or body is fixed to, and its position and orientation there."""
    check_kind(name, str, "the name of a site or body")
    if name in model.sites.names:
        i = model.sites.names.index(name)
        return int(model.sites.body[i]), model.sites.pos[i], model.sites.quat[i]
    if name in model.body_names:
        return model.body_names.index(name), np.zeros(3), IDENTITY
    known = ", ".join((*model.sites.names, *model.body_names))
    raise PullbackError(f"there is no site or body {name!r}; there are {known}")


def path(
    model: Model, base: str, base_body: int, tip: str, tip_body: int, through: str | None
) -> tuple[list[int], list[int]]:
    """Bodies to climb from the base, and bodies to go down to the tip: each one's joints lead to its parent."""
    above_base, above_tip = ancestors(model, base_body), ancestors(model, tip_body)
    top = base_body if through is None else frame_of(model, through)[0]
    common = next(body for body in above_base if body in above_tip)
    name = model.body_names[common]
    if through is not None and top != common:
        raise PullbackError(f"the path from {base!r} to {tip!r} goes through {name!r}, not through {through!r}")
    if top not in above_tip:
        hint = f"; both hang from {name!r}: pass through={name!r} to go that way" if common else ""
        raise PullbackError(f"{tip!r} does not hang from {base!r}{hint}")
    return above_base[: above_base.index(top)], above_tip[: above_tip.index(top)][::-1]


def ancestors(model: Model, body: int) -> list[int]:
    """A body and all that carry it, down to the world."""
    found = [body]
    while found[-1]:
        found.append(int(model.body_parent[found[-1]]))
    return found
