"""Where two features touch, by a model that knows nothing of curvatures or shares; and random contacts to try it on.

It finds the contact by Newton's method on the distance of the features' points (where neither is a PLANE), or by
meeting lines with planes. A whole batch of contacts, each a little off the same one, is found at once.
"""

from dataclasses import dataclass, replace

import numpy as np

from pullback.kernels import specialise

shapes = specialise("float64", "collision.shapes")
POINT, LINE, PLANE, CIRCLE, ELLIPSOID = shapes.POINT, shapes.LINE, shapes.PLANE, shapes.CIRCLE, shapes.ELLIPSOID
CUT, FACE, LEFT, RIGHT = shapes.CUT, shapes.FACE, shapes.CIRCLE_LEFT, shapes.CIRCLE_RIGHT
PLANE_SHAPE, SPHERE, CAPSULE, BOX = shapes.PLANE_SHAPE, shapes.SPHERE, shapes.CAPSULE, shapes.BOX
ELLIPSOID_SHAPE, CYLINDER, MESH = shapes.ELLIPSOID_SHAPE, shapes.CYLINDER, shapes.MESH

OWNERS = {
    POINT: (SPHERE, CAPSULE, CYLINDER, BOX, MESH),
    LINE: (CAPSULE, CYLINDER, BOX, MESH),
    PLANE: (PLANE_SHAPE, CYLINDER, BOX, MESH),
    CIRCLE: (CYLINDER,),
    LEFT: (CYLINDER,),
    RIGHT: (CYLINDER,),
    ELLIPSOID: (ELLIPSOID_SHAPE,),
    CUT: (CAPSULE, CYLINDER, BOX, MESH),
    FACE: (CYLINDER, BOX, MESH),
}


@dataclass
class Side:
    """One shape, or a batch of it: what is touched of it is given in its own axes."""

    shape: int
    kind: int
    c: np.ndarray  # (..., 3) position
    R: np.ndarray  # (..., 3, 3) axes
    size: np.ndarray  # (..., 3)
    edge: np.ndarray  # (3,)
    pin: np.ndarray  # (3,)
    place: np.ndarray  # (3,) a point of the core (centre, of a round one) at the size it was made with
    made: np.ndarray  # (3,) that size
    face: np.ndarray  # (3,) outward normal of a PLANE

    @property
    def radius(self) -> np.ndarray:
        inflated = self.shape in (SPHERE, CAPSULE) or (self.shape == CYLINDER and self.kind == LINE)
        return self.size[..., 0] * inflated

    @property
    def core(self) -> np.ndarray:
        """A point of the core, in the world."""
        growth = self.size - self.made
        if self.shape != BOX:
            growth = np.stack([growth[..., 0], growth[..., 0], growth[..., 1]], axis=-1)
        return self.c + turn(self.R, self.place + self.pin * growth)


def turn(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", R, x)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, axis=-1)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def rotation(phi: np.ndarray) -> np.ndarray:
    """Rotation matrices (..., 3, 3) of rotation vectors."""
    angle = np.linalg.norm(phi, axis=-1)[..., None, None]
    x, y, z = np.moveaxis(phi / np.where(angle[..., 0] > 0, angle[..., 0], 1.0), -1, 0)
    o = 0 * x
    hat = np.moveaxis(np.array([[o, -z, y], [z, o, -x], [-y, x, o]]), (0, 1), (-2, -1))
    return np.eye(3) + np.sin(angle) * hat + (1 - np.cos(angle)) * hat @ hat


# --- the model -------------------------------------------------------------------------------------


def on_core(s: Side, a: np.ndarray):
    """Point of a free feature at parameters a (B, k), its first (k, B, 3) and second derivatives (k, k, B, 3)."""
    x = s.core
    if s.kind == LINE:
        e = turn(s.R, s.edge)
        return x + a * e, e[None], 0 * e[None, None]
    if s.kind == CIRCLE:
        c, n, o = np.cos(a[:, 0]), np.sin(a[:, 0]), 0 * a[:, 0]
        out, way = (s.size[:, :1] * turn(s.R, np.stack(v, axis=-1)) for v in ([c, n, o], [-n, c, o]))
        return x + out, way[None], -out[None, None]
    if s.kind == ELLIPSOID:
        c, n, C, N = np.cos(a[:, 0]), np.sin(a[:, 0]), np.cos(a[:, 1]), np.sin(a[:, 1])
        o = 0 * c

        def image(*v):
            return turn(s.R, s.size * np.stack(v, axis=-1))

        first = np.stack([image(c * C, c * N, -n), image(-n * N, n * C, o)])
        mixed = image(-c * N, c * C, o)
        second = np.stack([[image(-n * C, -n * N, -c), mixed], [mixed, image(-n * C, -n * N, o)]])
        return x + image(n * C, n * N, c), first, second
    return x, np.zeros((0, *x.shape)), np.zeros((0, 0, *x.shape))


def parameters(s: Side, x: np.ndarray) -> np.ndarray:
    """Of the point x of an unmoved free feature."""
    local = s.R.T @ (x - s.core)
    if s.kind == LINE:
        return np.array([local @ s.edge])
    if s.kind == CIRCLE:
        return np.array([np.arctan2(local[1], local[0])])
    if s.kind == ELLIPSOID:
        y = local / s.size
        return np.array([np.arccos(y[2]), np.arctan2(y[1], y[0])])
    return np.zeros(0)


def touch_free(s1: Side, s2: Side, a: np.ndarray, sign: float):
    """Position, normal and distance, from a guess (k,) at the parameters of either feature one after the other."""
    k = {LINE: 1, CIRCLE: 1, ELLIPSOID: 2}.get(s1.kind, 0)
    a = np.tile(a, (len(s1.c), 1))
    for _ in range(50):
        x1, J1, H1 = on_core(s1, a[:, :k])
        x2, J2, H2 = on_core(s2, a[:, k:])
        gap = x2 - x1
        J = np.concatenate([-J1, J2])
        H = np.einsum("ibk,jbk->bij", J, J)
        H[:, :k, :k] -= np.einsum("ijbk,bk->bij", H1, gap)
        H[:, k:, k:] += np.einsum("ijbk,bk->bij", H2, gap)
        step = np.linalg.solve(H, np.einsum("ibk,bk->bi", J, gap)[..., None])[..., 0]
        a = a - step
        if np.abs(step).max(initial=0.0) < 1e-14:
            break
    else:
        raise AssertionError("no convergence")
    x1, *_ = on_core(s1, a[:, :k])
    x2, *_ = on_core(s2, a[:, k:])
    span = sign * np.linalg.norm(x2 - x1, axis=-1)
    n = (x2 - x1) / span[:, None]
    pos = 0.5 * (x1 + s1.radius[:, None] * n + x2 - s2.radius[:, None] * n)
    return pos, n, span - s1.radius - s2.radius


def meet(x: np.ndarray, e: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Where the line through x along e meets the plane through y with normal s."""
    return x + e * (dot(s, y - x) / dot(s, e))[..., None]


def touch_plane(base: Side, tip: Side):
    """Position, outward normal of the base, and distance."""
    n, y, x = turn(base.R, base.face), base.core, tip.core
    if tip.kind in (CIRCLE, LEFT, RIGHT):
        a = turn(tip.R, tip.edge)
        out = unit(-n - dot(-n, a)[:, None] * a)
        third = {LEFT: 2 * np.pi / 3, RIGHT: -2 * np.pi / 3}.get(tip.kind, 0.0)
        x = x + tip.size[:, :1] * turn(rotation(third * a), out)
    if tip.kind == ELLIPSOID:
        local = tip.size**2 * turn(np.swapaxes(tip.R, -1, -2), -n)
        x = x + turn(tip.R, local) / np.sqrt(-dot(n, turn(tip.R, local)))[:, None]
    if tip.kind == CUT:
        x = meet(x, turn(tip.R, tip.edge), y, turn(base.R, base.edge))
    if tip.kind == FACE:
        x = meet(y, n, x, turn(tip.R, tip.edge))
    dist = dot(n, x - y) - tip.radius
    return x - (tip.radius + 0.5 * dist)[:, None] * n, n, dist


def frame(n: np.ndarray, along: int, R2: np.ndarray):
    start = np.where(np.abs(n[:, 1:2]) < 0.5, [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    start = R2[:, :, 2] if along else start
    t1 = unit(start - dot(start, n)[:, None] * n)
    return t1, np.cross(n, t1)


@dataclass
class Contact:
    s1: Side
    s2: Side
    pos: np.ndarray
    normal: np.ndarray
    dist: float
    along: int

    def found(self, s1: Side, s2: Side):
        """What becomes of the contact when its shapes become these."""
        if s1.kind == PLANE:
            pos, n, dist = touch_plane(s1, s2)
        elif s2.kind == PLANE:
            pos, n, dist = touch_plane(s2, s1)
            n = -n
        else:
            r1, r2 = self.s1.radius, self.s2.radius
            x1, x2 = self.pos - (r1 + self.dist / 2) * self.normal, self.pos + (r2 + self.dist / 2) * self.normal
            guess = np.concatenate([parameters(self.s1, x1), parameters(self.s2, x2)])
            pos, n, dist = touch_free(s1, s2, guess, np.sign(self.dist + r1 + r2))
        return pos, dist, n, *frame(n, self.along, s2.R)

    def moved(self, change: np.ndarray):
        """Sides after changes (B, 18): rotation about pos, displacement, of either; sizes of either."""

        def side(s: Side, motion: np.ndarray, growth: np.ndarray) -> Side:
            Q = rotation(motion[:, :3])
            return replace(s, c=self.pos + turn(Q, s.c - self.pos) + motion[:, 3:], R=Q @ s.R, size=s.size + growth)

        return side(self.s1, change[:, :6], change[:, 12:15]), side(self.s2, change[:, 6:12], change[:, 15:])


class Crossing(Contact):
    """Two lines that may meet."""

    def found(self, s1: Side, s2: Side):
        e1, e2 = turn(s1.R, s1.edge), turn(s2.R, s2.edge)
        n = unit(np.cross(e1, e2))
        n *= np.sign(n[:1] @ self.normal)
        x1 = meet(s1.core, e1, s2.core, np.cross(n, e2))
        x2 = meet(s2.core, e2, s1.core, np.cross(n, e1))
        dist = dot(n, x2 - x1) - s1.radius - s2.radius
        pos = 0.5 * (x1 + s1.radius[:, None] * n + x2 - s2.radius[:, None] * n)
        return pos, dist, n, *frame(n, self.along, s2.R)


# --- random contacts -------------------------------------------------------------------------------


def axes_with(rng: np.random.Generator, k: int, e: np.ndarray) -> np.ndarray:
    """Random axes whose axis k is e."""
    R = np.linalg.qr(np.column_stack([e, rng.normal(size=(3, 2))]))[0]
    R[:, 0] = e
    R[:, 2] *= np.sign(np.linalg.det(R))
    return np.roll(R, k, axis=1)


def signs(rng: np.random.Generator, *axes: int) -> np.ndarray:
    pin = np.zeros(3)
    pin[list(axes)] = rng.choice([-1.0, 1.0], size=len(axes))
    return pin


def on_rim(rng: np.random.Generator) -> np.ndarray:
    """Pin of a place on the rim of a cylinder."""
    return np.array([*unit(rng.normal(size=2)), rng.choice([-1.0, 1.0])])


def random_size(rng: np.random.Generator, shape: int) -> np.ndarray:
    size = rng.uniform(0.2, 0.6, size=3)
    return size if shape != MESH else 0 * size


def random_side(rng, shape: int, kind: int, partner: int, outward: np.ndarray, x: np.ndarray, size: np.ndarray):
    """A side of which the core's point x is touched, where the outward normal is as given."""
    edge, pin, face = np.zeros(3), np.zeros(3), np.zeros(3)
    place = rng.uniform(-0.5, 0.5, size=3)  # of the core in the shape's axes
    offset = np.zeros(3)  # from there to x, in the world
    R = axes_with(rng, 0, unit(rng.normal(size=3)))
    k = int(rng.integers(3)) if shape in (BOX, MESH) else 2
    if kind == POINT:
        pin = {CAPSULE: signs(rng, 2), CYLINDER: on_rim(rng), BOX: signs(rng, 0, 1, 2)}.get(shape, pin)
    elif kind == LINE:
        R = axes_with(rng, k, unit(np.cross(outward, rng.normal(size=3))))
        edge = np.eye(3)[k] * rng.choice([-1.0, 1.0])
        offset = rng.uniform(-0.5, 0.5) * R @ edge
        if shape == BOX:
            pin = signs(rng, *({0, 1, 2} - {k}))
    elif kind == PLANE:
        R = axes_with(rng, k, outward)
        face = np.eye(3)[k]
        along = (k + 1) % 3
        edge = np.eye(3)[along]
        if shape == MESH:  # a side that leans
            edge = unit(edge + 0.3 * face)
        cut = partner == CUT
        offset = np.zeros(3) if partner == FACE else np.cross(outward, rng.normal(size=3))
        if cut:
            offset = 0.4 * R[:, k - 1]
        if shape == CYLINDER:  # a chord of the rim is a little nearer than its ends
            pin = np.array([0.98 if cut else 0.0, 0.0, 1.0])
            pin = on_rim(rng) if partner == FACE else pin
        if shape == BOX:
            pin = signs(rng, *({0, 1, 2} if partner == FACE else {k, along} if cut else {k}))
    elif kind == CUT:
        edge = np.eye(3)[k]
        if shape == CYLINDER:  # a chord of the rim
            edge, pin = np.array([0.0, 1.0, 0.0]), signs(rng, 0, 2) * [0.98, 0.0, 1.0]
        offset = rng.uniform(-0.5, 0.5) * R @ edge
        if shape == BOX:
            pin = signs(rng, *({0, 1, 2} - {k}))
    elif kind == FACE:
        R = axes_with(rng, k, unit(outward + 0.5 * rng.normal(size=3)))
        edge = np.eye(3)[k]
        offset = np.cross(R @ edge, rng.normal(size=3))
        if shape in (CYLINDER, BOX):
            pin = signs(rng, k)
    elif kind == ELLIPSOID:
        place = np.zeros(3)
        local = size**2 * (R.T @ outward)
        offset = R @ local / np.sqrt(outward @ R @ local)
    else:  # a rim
        pin = signs(rng, 2)
        edge = pin if rng.random() < 0.5 else -pin
        axis = R @ edge
        third = {LEFT: 2 * np.pi / 3, RIGHT: -2 * np.pi / 3}.get(kind, 0.0)
        offset = size[0] * rotation(third * axis) @ unit(outward - (outward @ axis) * axis)
    if kind in (LINE, PLANE) and partner == PLANE:  # a point fixed to it
        offset = np.zeros(3)
    side = Side(shape, kind, np.zeros(3), R, size, edge, pin, place, size, face)
    return replace(side, c=x - offset - side.core)


def random_contact(rng: np.random.Generator, kind1: int, kind2: int, owner1: int, owner2: int) -> Contact:
    normal, pos = unit(rng.normal(size=3)), rng.normal(size=3)
    sizes = random_size(rng, owner1), random_size(rng, owner2)
    probe = [
        Side(o, k, *np.zeros((2, 3)), z, *np.zeros((5, 3))).radius
        for o, k, z in ((owner1, kind1, sizes[0]), (owner2, kind2, sizes[1]))
    ]
    # Surfaces apart or overlapping; so are cores, if they are the surfaces.
    span = rng.choice([-1.0, 1.0]) * rng.uniform(0.1, 0.2) if sum(probe) == 0 else rng.uniform(0.5, 1.2) * sum(probe)
    dist = span - sum(probe)
    s1 = random_side(rng, owner1, kind1, kind2, normal, pos - (dist / 2 + probe[0]) * normal, sizes[0])
    s2 = random_side(rng, owner2, kind2, kind1, -normal, pos + (dist / 2 + probe[1]) * normal, sizes[1])
    # A leaning side plane passes through the pierced point, not through the one below it.
    for base, tip, n in ((s1, s2, normal), (s2, s1, -normal)):
        if base.kind == PLANE and tip.kind == CUT:
            s = base.R @ base.edge
            way = np.cross(n, np.cross(s, n))
            base.c = base.c + way * (s @ (span * n)) / (s @ way)
    return Contact(s1, s2, pos, normal, dist, int(rng.integers(2)))


def is_steady(c: Contact) -> bool:
    """Whether differences can be exact: no number of the contact changes by more than 20 times a change of the shapes.

    That is so far from parallel lines and centres of curvature, and where no tangent jumps.
    """
    if c.along and abs(c.normal @ c.s2.R[:, 2]) > 0.9:
        return False
    h = 5e-3
    try:
        found = c.found(*c.moved(np.concatenate([np.zeros((1, 18)), h * np.eye(18), -h * np.eye(18)])))
    except AssertionError:
        return False
    return all(np.abs(x - x[0]).max() < 20 * h for x in found)
