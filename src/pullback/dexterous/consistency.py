"""All residuals of a batch of trajectories, as blocks: the curvature and gradient of every frame.

The rows of a contact depend on eighteen numbers, the vectors of :mod:`pullback.dexterous.terms`. Their squares are
summed up there, and the 18 × 18 block is taken to states and outputs by one linear map, so that neither time nor memory
depends on the number of rows. Lengths count in centimetres and forces in weights of the object: terms of like size are
then worth as much.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pullback.dexterous import terms
from pullback.dexterous.scene import Batch, Scene, States
from pullback.dexterous.shapes import Shape
from pullback.spatial import cross_matrix, unit_quat_matrix

LENGTH, SPEED, ANGLE = 0.01, 0.1, 0.1  # what residuals count as one [m], [m/s], [rad]
LOCAL = {name: slice(3 * k, 3 * k + 3) for k, name in enumerate(("d", "w", "f", "p", "s", "turn"))}


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Of residuals in their units: LENGTH, SPEED, ANGLE, and the weight of the object.

    The first block are those of consistency, which training raises to their values; the others hold from the start.
    """

    distance: float = 0.1  # distance times force
    table_distance: float = 0.3  # the same, of the table
    slip: float = 0.01  # slip times force
    dissipation: float = 0.03  # power that the table would put in
    cone: float = 1.0  # force outside the cone of friction
    shape: float = 0.2  # contact points outside of their shapes
    collision: float = 0.2  # penetration
    slip_near: float = 0.01
    grip: float = 0.1  # what normal forces lack

    place: float = 0.05
    turn: float = 0.05
    let_go: float = 0.3  # forces of tips when they shall have let go
    avoid: float = 0.001  # distances less than a margin
    limit: float = 0.1  # joints beyond their limits
    balance: float = 0.0  # torque of tips that press equally, which squeezed in a trial would turn the object
    edge: float = 0.0  # contact points of tips in the rims of faces
    point: float = 2e-4  # contact points away from their usual places
    force: float = 0.01
    rate: float = 0.002  # of joints
    weights: float = 1e-3  # of the network

    CONSISTENCY = (
        "distance",
        "table_distance",
        "slip",
        "dissipation",
        "cone",
        "shape",
        "collision",
        "slip_near",
        "grip",
    )

    def ramped(self, share: float) -> Weights:
        """With a share of consistency."""
        return replace(self, **{name: share * getattr(self, name) for name in self.CONSISTENCY})


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The target of a batch, at the states (frames + 1, samples, ...), the first of which is the initial state.

    at, quat:   of the object: [m] and (..., 4)
    least_grip: normal force of every tip in each frame (frames,), in weights of the object
    let_go:     whether tips shall put no force on it in a frame (frames,)
    """

    at: np.ndarray
    quat: np.ndarray
    least_grip: np.ndarray
    let_go: np.ndarray


@dataclass
class Blocks:
    """Curvature and gradient of half the mean of squares, by tangents of states and by outputs.

    xx, x:  of all states (frames + 1, samples, nx, nx), (frames + 1, samples, nx)
    zz, z:  of state and outputs of every frame (frames, samples, nx + nu, nx + nu), (frames, samples, nx + nu)
    shares: of the loss, by the name of the term
    """

    loss: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)
    xx: np.ndarray | None = None
    x: np.ndarray | None = None
    zz: np.ndarray | None = None
    z: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """The residuals of a scene.

    shape:        of the object, or of the object of every sample
    friction:     of the cone that proposed forces stay in, less than in the simulator that they are tried in [1]
    margin:       within which links avoid the object, and do not slip on it [m]
    rim:          how wide the rims of faces are that contact points avoid [m]
    usual:        (nu,) what the policy puts out without reason for anything else
    """

    scene: Scene
    shape: Shape
    weights: Weights
    friction: float
    usual: np.ndarray
    margin: float = 0.01
    rim: float = 0.01

    @cached_property
    def balls(self) -> tuple[np.ndarray, np.ndarray]:
        return self.shape.balls()

    @cached_property
    def balls_and_core(self) -> tuple[np.ndarray, np.ndarray]:
        """With the largest ball about the middle: of two boxes of one size in one place, corners touch and no more."""
        centres, radii = self.balls
        core = -self.shape.distance(np.zeros_like(centres[..., 0, :]))[0][..., None]
        return np.concatenate([centres, 0 * centres[..., :1, :]], axis=-2), np.concatenate([radii, core], axis=-1)

    def __call__(self, x: States, u: np.ndarray, batch: Batch, goal: Goal, slopes=None) -> Blocks:
        """Of states (frames + 1, samples, ...) and outputs (frames, samples, nu); curvature only with the slopes A and
        B of the steps."""
        found, scene = Blocks(), self.scene
        samples = u.shape[1]
        if slopes is not None:
            lead, nz = u.shape[:2], scene.nx + scene.nu
            found.xx, found.x = (
                np.zeros((len(x.q), samples, scene.nx, scene.nx)),
                np.zeros((len(x.q), samples, scene.nx)),
            )
            found.zz, found.z = np.zeros((*lead, nz, nz)), np.zeros((*lead, nz))
        pose = scene.hand.pose(x.q)
        self._states(found, x, pose, goal)
        self._proposals(found, x, u, pose, goal, slopes)
        found.loss /= samples
        found.shares = {name: value / samples for name, value in found.shares.items()}
        if slopes is not None:
            for block in (found.xx, found.x, found.zz, found.z):
                block /= samples
        return found

    # --- states -------------------------------------------------------------------------------------------------------

    def _states(self, found: Blocks, x: States, pose, goal: Goal) -> None:
        scene, w, n = self.scene, self.weights, self.scene.n
        where = {"q": slice(0, n), "x": slice(n, n + 3), "turn": slice(n + 3, n + 6)}

        def add(name: str, rows: terms.Rows, weight: float) -> None:
            self._add(found, name, rows * weight, where, found.xx, found.x)

        add("place", terms.place(x.at, goal.at), w.place / LENGTH)
        add("turn", terms.turned(x.quat, goal.quat), w.turn / ANGLE)
        add("limit", terms.limits(x.q, scene.hand.low, scene.hand.high), w.limit / ANGLE)
        wants = found.xx is not None
        distance, by = self.clearance(x, pose, wants)
        for pair, d in distance.items():
            slopes = by.get(pair, {})
            add("collision", terms.closer(d, slopes, 0.0), w.collision / LENGTH)
            if pair.startswith("hand"):
                add("avoid", terms.closer(d, slopes, self.margin), w.avoid / LENGTH)

    def clearance(self, x: States, pose, wants_slopes: bool = True):
        """Distances (..., m) between solids by the names of the pair [m], and their slopes by state."""
        scene, hand = self.scene, self.scene.hand
        turn = unit_quat_matrix(x.quat)
        bodies, radii = hand.ball_bodies, hand.ball_radii
        centres = hand.points(pose, bodies, hand.ball_centres)
        local = (centres - x.at[..., None, :]) @ turn
        near, out = (np.moveaxis(found, 0, 2) for found in self.shape.distance(np.moveaxis(local, -2, 0)))
        distances = {"hand and object": near - radii, "hand and table": centres[..., 2] - radii}
        J = hand.jacobians(pose, bodies, centres)[0] if wants_slopes else None
        slopes = {}
        if wants_slopes:
            world = out @ np.swapaxes(turn, -1, -2)
            slopes["hand and object"] = {
                "q": (world[..., None, :] @ J)[..., 0, :],
                "x": -world,
                "turn": np.cross(out, local),
            }
            slopes["hand and table"] = {"q": J[..., 2, :]}
        for support in scene.supports:
            pair = f"{support.name} and object"
            at, r = self.balls if support.name == "table" else self.balls_and_core
            shift = at @ np.swapaxes(turn, -1, -2)
            near, out = support.shape.distance(shift + x.at[..., None, :] - support.at)
            distances[pair] = near - r
            if wants_slopes:
                down = out @ turn  # its normal in the object's frame
                slopes[pair] = {"x": out, "turn": np.cross(np.broadcast_to(at, down.shape), down)}
            if support.name == "table":
                continue
            near, out = support.shape.distance(centres - support.at)
            distances[f"hand and {support.name}"] = near - radii
            corners, its_radii = support.shape.balls()
            local = (corners + support.at - x.at[..., None, :]) @ turn
            near, inner = (np.moveaxis(found, 0, 2) for found in self.shape.distance(np.moveaxis(local, -2, 0)))
            distances[f"corners of {support.name} and object"] = near - its_radii
            if wants_slopes:
                slopes[f"hand and {support.name}"] = {"q": (out[..., None, :] @ J)[..., 0, :]}
                slopes[f"corners of {support.name} and object"] = {
                    "x": -inner @ np.swapaxes(turn, -1, -2),
                    "turn": np.cross(inner, local),
                }
        return distances, slopes

    # --- contacts -----------------------------------------------------------------------------------------------------

    def _proposals(self, found: Blocks, x: States, u: np.ndarray, pose, goal: Goal, slopes) -> None:
        scene, w, heavy = self.scene, self.weights, self.scene.weight
        given = scene.split(u)
        usual = scene.split(self.usual)
        before, after = (States(*(part[where] for part in x)) for where in (slice(None, -1), slice(1, None)))
        turn = unit_quat_matrix(before.quat)
        least = heavy * goal.least_grip[:, None] * np.ones(u.shape[1])
        for k in range(scene.contacts):
            support = scene.support(k)
            p, s, f = (part[..., k, :] for part in (given.p, given.s, given.f))
            d, slip, chain = self._geometry(k, before, after, given, turn, pose, slopes)
            shape = scene.hand.tip_shapes[k] if support is None else support.shape
            if support is not None:
                inward = turn[..., 2, :]  # the world's vertical in the object's frame
                bend = {"turn": cross_matrix(inward)}
            else:
                normal, slope = self.shape.normal(p)
                inward, bend = -normal, {"p": -slope}
            rows = {
                "distance": terms.times_force(d, f, "d")
                * ((w.distance if support is None else w.table_distance) / (LENGTH * heavy)),
                "shape of object": terms.within(self.shape, p, "p") * (w.shape / LENGTH),
                "shape of hand": terms.within(shape, s, "s") * (w.shape / LENGTH),
                "cone": terms.cone(f, inward, bend, self.friction) * (w.cone / heavy),
                "point": terms.near(p, usual.p[k], "p") * (w.point / LENGTH),
                "force": terms.near(f, usual.f[k], "f") * (w.force / heavy),
            }
            if support is not None:
                rows["dissipation"] = terms.dissipation(slip, f) * (w.dissipation / (SPEED * heavy))
            else:
                if w.edge:
                    rows["edge"] = terms.off_edges(self.shape, p, "p", self.rim) * (w.edge / LENGTH)
                rows["slip"] = terms.times_force(slip, f, "w") * (w.slip / (SPEED * heavy))
                rows["point of hand"] = terms.near(s, usual.s[k], "s") * (w.point / LENGTH)
                rows["slip near"] = terms.slip_near(slip, d, self.margin) * (w.slip_near / SPEED)
                if np.any(goal.let_go):
                    rows["let go"] = terms.near(f, 0.0, "f") * (w.let_go * goal.let_go[:, None] / heavy)
                if np.any(goal.least_grip > 0):
                    rows["grip"] = terms.grip(f, inward, bend, least) * (w.grip / heavy)
            H, g = (
                (None, None) if slopes is None else (np.zeros((*p.shape[:-1], 18, 18)), np.zeros((*p.shape[:-1], 18)))
            )
            for name, one in rows.items():
                self._add(found, name, one, LOCAL, H, g)
            if slopes is not None:
                found.zz += np.swapaxes(chain, -1, -2) @ (H @ chain)
                found.z += (g[..., None, :] @ chain)[..., 0, :]
        if w.balance:
            points = [given.p[..., k, :] for k in range(len(scene.hand.tips))]
            twist = terms.untwisted(points, [self.shape.normal(p) for p in points]) * (w.balance / LENGTH)
            where = {}
            for k in range(len(points)):
                column = scene.columns(k)[0]
                where[f"p{k}"] = slice(scene.nx + column.start, scene.nx + column.stop)
            self._add(found, "balance", twist, where, found.zz, found.z)
        where = {"u": slice(scene.nx, scene.nx + scene.n)}
        rate = terms.near(given.rates, 0.0, "u") * (w.rate / SPEED)
        self._add(found, "rate", rate, where, found.zz, found.z)

    def contacts(self, x: States, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances (frames, samples, contacts) between the two points of each contact [m], and inward normals (..., 3)
        of the surface itself, without round edges, in the object's frame."""
        scene, given = self.scene, self.scene.split(u)
        before, after = (States(*(part[where] for part in x)) for where in (slice(None, -1), slice(1, None)))
        turn, pose = unit_quat_matrix(before.quat), scene.hand.pose(x.q)
        found = [self._geometry(k, before, after, given, turn, pose, None)[0] for k in range(scene.contacts)]
        normals = -np.moveaxis(self.shape.distance(np.moveaxis(given.p, -2, 0))[1], 0, -2)
        normals[..., len(scene.hand.tips) :, :] = turn[..., None, 2, :]
        return np.linalg.norm(np.stack(found, axis=-2), axis=-1), normals

    def _geometry(self, k: int, before: States, after: States, given, turn, pose, slopes):
        """Distance and slip of a contact (frames, samples, 3) in the object's frame, and how its eighteen numbers move
        with state and outputs (frames, samples, 18, nx + nu)."""
        scene, hand, n, nx = self.scene, self.scene.hand, self.scene.n, self.scene.nx
        support = scene.support(k)
        back = np.swapaxes(turn, -1, -2)
        p, s = given.p[..., k, :], given.s[..., k, :]
        if support is not None:
            point, velocity = s + support.at, np.zeros_like(s)
        else:
            bodies = [hand.tip_bodies[k]]
            frames = type(pose)(*(part[:-1] for part in vars(pose).values()))
            points = hand.points(frames, bodies, s[..., None, :])
            J, W = hand.jacobians(frames, bodies, points)
            point, velocity = points[..., 0, :], (J[..., 0, :, :] @ given.rates[..., None])[..., 0]
        y = ((point - before.at)[..., None, :] @ turn)[..., 0, :]
        a = ((velocity - after.v)[..., None, :] @ turn)[..., 0, :]
        d, slip = y - p, a - np.cross(after.omega, p)
        if slopes is None:
            return d, slip, None
        A, B = slopes
        chain = np.zeros((*p.shape[:-1], 18, nx + scene.nu))
        D, S = chain[..., LOCAL["d"], :], chain[..., LOCAL["w"], :]  # views
        at, rot = slice(n, n + 3), slice(n + 3, n + 6)
        columns = dict(zip("psf", (slice(nx + c.start, nx + c.stop) for c in scene.columns(k)), strict=True))
        for name, column in columns.items():
            chain[..., LOCAL[name], column] = np.eye(3)
        chain[..., LOCAL["turn"], rot] = np.eye(3)
        after_step = np.concatenate([A, B], axis=-1)[..., n + 6 :, :]
        S += -back @ after_step[..., :3, :] + cross_matrix(p) @ after_step[..., 3:, :]
        D[..., at], D[..., rot], D[..., columns["p"]] = -back, cross_matrix(y), -np.eye(3)
        S[..., rot] += cross_matrix(a)
        S[..., columns["p"]] -= cross_matrix(after.omega)
        if support is not None:
            D[..., columns["s"]] = back
            return d, slip, chain
        link = back @ frames.turn[..., hand.tip_bodies[k], :, :]
        D[..., :n], D[..., columns["s"]] = back @ J[..., 0, :, :], link
        S[..., :n] += back @ hand.velocity_slopes(J, W, given.rates)[..., 0, :, :]
        S[..., nx : nx + n] += back @ J[..., 0, :, :]
        spin = (W[..., 0, :, :] @ given.rates[..., None])[..., 0]
        S[..., columns["s"]] += back @ cross_matrix(spin) @ frames.turn[..., hand.tip_bodies[k], :, :]
        return d, slip, chain

    @staticmethod
    def _add(found: Blocks, name: str, rows: terms.Rows, where: dict[str, slice], H, g) -> None:
        """Adds rows to loss, curvature and gradient."""
        loss = float(np.sum(rows.value**2)) / 2
        found.loss += loss
        found.shares[name] = found.shares.get(name, 0.0) + loss
        if H is None:
            return
        for a, one in rows.slopes.items():
            g[..., where[a]] += (rows.value[..., None, :] @ one)[..., 0, :]
            for b, other in rows.slopes.items():
                H[..., where[a], where[b]] += np.swapaxes(one, -1, -2) @ other
