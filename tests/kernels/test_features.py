"""The adjoint of contact geometry, against differences of a model of its own: all features and shapes that own them.

The model finds where two features touch by Newton's method on the distance of their points (where neither is a PLANE),
or by meeting lines with planes; it knows nothing of curvatures or shares. A whole batch of contacts, each a little off
the same one, is found at once.
"""

import itertools
from dataclasses import dataclass, replace

import mujoco
import numpy as np
import pytest
import warp as wp

from pullback.kernels import specialise

shapes = specialise("float64", "shapes")
POINT, LINE, PLANE, CIRCLE, ELLIPSOID = shapes.POINT, shapes.LINE, shapes.PLANE, shapes.CIRCLE, shapes.ELLIPSOID
CUT, FACE, LEFT, RIGHT = shapes.CUT, shapes.FACE, shapes.CIRCLE_LEFT, shapes.CIRCLE_RIGHT
CIRCLE_CUT = shapes.CIRCLE_CUT
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
    CIRCLE_CUT: (CYLINDER,),
    FACE: (CYLINDER, BOX, MESH),
}
FREE = (POINT, LINE, CIRCLE, ELLIPSOID)
ON_PLANE = (POINT, LINE, PLANE, CIRCLE, LEFT, RIGHT, ELLIPSOID, CUT, CIRCLE_CUT, FACE)
PAIRS = [(a, b) for a in FREE for b in FREE]
PAIRS += [(PLANE, b) for b in ON_PLANE] + [(b, PLANE) for b in ON_PLANE if b != PLANE]
NAMES = {
    **{POINT: "point", LINE: "line", PLANE: "plane", CIRCLE: "circle", ELLIPSOID: "ellipsoid", CUT: "cut"},
    **{FACE: "face", LEFT: "left", RIGHT: "right", CIRCLE_CUT: "circle cut"},
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
    if tip.kind in (CIRCLE, LEFT, RIGHT, CIRCLE_CUT):
        a = turn(tip.R, tip.edge)
        out = unit(-n - dot(-n, a)[:, None] * a)
        third = {LEFT: 2 * np.pi / 3, RIGHT: -2 * np.pi / 3}.get(tip.kind, 0.0)
        x = x + tip.size[:, :1] * turn(rotation(third * a), out)
    if tip.kind == ELLIPSOID:
        local = tip.size**2 * turn(np.swapaxes(tip.R, -1, -2), -n)
        x = x + turn(tip.R, local) / np.sqrt(-dot(n, turn(tip.R, local)))[:, None]
    if tip.kind in (CUT, CIRCLE_CUT):
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
        cut = partner in (CUT, CIRCLE_CUT)
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
        if kind == CIRCLE_CUT:
            pin = np.zeros(3)
            offset = offset + rng.uniform(-0.5, 0.5) * axis
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
        if base.kind == PLANE and tip.kind in (CUT, CIRCLE_CUT):
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


# --- the adjoint in a kernel -----------------------------------------------------------------------


def evaluator(precision: str):
    """Contacts and cotangents (n, 13) of position, distance, normal and tangents to gradients (n, 18)."""
    scalar, f = specialise(precision, "scalar"), specialise(precision, "features")
    real, vec3, vec6, mat33 = scalar.real, scalar.vec3, scalar.vec6, scalar.mat33
    adjoint, make = f.contact_adjoint, specialise(precision, "shapes").feature

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(
        label: wp.array2d(dtype=int),  # shapes, kinds, along
        vector: wp.array2d(dtype=vec3),  # sizes, edges, pins, pos, normal, and bars
        number: wp.array2d(dtype=real),  # dist and its bar
        R: wp.array2d(dtype=mat33),
        wrench: wp.array2d(dtype=vec6),
        size_bar: wp.array2d(dtype=vec3),
    ):
        i = wp.tid()
        w1, w2, z1, z2 = adjoint(
            label[i, 0], R[i, 0], vector[i, 0], make(label[i, 2], vector[i, 2], vector[i, 4]),
            label[i, 1], R[i, 1], vector[i, 1], make(label[i, 3], vector[i, 3], vector[i, 5]),
            vector[i, 6], vector[i, 7], number[i, 0], label[i, 4],
            vector[i, 8], number[i, 1], vector[i, 9], vector[i, 10], vector[i, 11],
        )  # fmt: skip
        wrench[i, 0] = w1
        wrench[i, 1] = w2
        size_bar[i, 0] = z1
        size_bar[i, 1] = z2

    def call(contacts: list[Contact], bars: np.ndarray) -> np.ndarray:
        label, vector, number, R = [], [], [], []
        for c, b in zip(contacts, bars, strict=True):
            sides = (c.s1, c.s2)
            label.append([*(s.shape for s in sides), *(s.kind for s in sides), c.along])
            vector.append([*(s.size for s in sides), *(s.R @ s.edge for s in sides), *(s.pin for s in sides)])
            vector[-1] += [c.pos, c.normal, b[:3], b[4:7], b[7:10], b[10:]]
            number.append([c.dist, b[3]])
            R.append([s.R for s in sides])
        inputs = [wp.array(np.array(label, dtype=np.int32), dtype=int, device="cpu")] + [
            wp.array(np.array(x).astype(precision), dtype=t, device="cpu")
            for x, t in ((vector, vec3), (number, real), (R, mat33))
        ]
        n = len(contacts)
        outputs = [wp.zeros((n, 2), dtype=t, device="cpu") for t in (vec6, vec3)]
        wp.launch(evaluate, dim=n, inputs=inputs, outputs=outputs, device="cpu")
        return np.concatenate([x.numpy().reshape(n, -1) for x in outputs], axis=1).astype(float)

    return call


@pytest.fixture(scope="module")
def double():
    return evaluator("float64")


@pytest.fixture(scope="module")
def single():
    return evaluator("float32")


BLOCKS = {"motion 1": slice(0, 6), "motion 2": slice(6, 12), "sizes 1": slice(12, 15), "sizes 2": slice(15, 18)}
STEPS = (2e-3, 1e-3, 5e-4, 2.5e-4, 1e-4)


def differences(contact: Contact, bar: np.ndarray) -> np.ndarray:
    """Gradients (steps, 18) of the pairing with bar, by differences of fourth order."""
    stencil = np.array([-2.0, -1.0, 1.0, 2.0])
    weights = np.array([1.0, -8.0, 8.0, -1.0]) / 12
    offsets = np.einsum("h,s,pq->hpsq", STEPS, stencil, np.eye(18)).reshape(-1, 18)
    pos, dist, n, t1, t2 = contact.found(*contact.moved(offsets))
    loss = np.concatenate([pos, dist[:, None], n, t1, t2], axis=1) @ bar
    return loss.reshape(len(STEPS), 18, 4) @ weights / np.array(STEPS)[:, None]


def errors(contact: Contact, bar: np.ndarray, gradient: np.ndarray) -> dict[str, float]:
    """Relative errors of the blocks of a gradient, each at its best step."""
    exact = differences(contact, bar)
    whole = np.abs(gradient).max()
    return {
        name: float(
            np.min(np.abs(exact[:, k] - gradient[k]).max(axis=1)) / max(np.abs(gradient[k]).max(), 0.03 * whole)
        )
        for name, k in BLOCKS.items()
    }


def draws(kind1: int, kind2: int, repeat: int = 2) -> tuple[list[Contact], np.ndarray]:
    """Contacts of two kinds with every pair of owners, and cotangents."""
    rng = np.random.default_rng([kind1, kind2])
    contacts = []
    for owners in itertools.product(OWNERS[kind1], OWNERS[kind2], range(repeat)):
        contact = next(c for _ in range(100) if is_steady(c := random_contact(rng, kind1, kind2, *owners[:2])))
        contacts.append(contact)
    return contacts, rng.normal(size=(len(contacts), 13))


@pytest.mark.parametrize(("kind1", "kind2"), PAIRS, ids=lambda k: NAMES[k])
def test_the_model_reproduces_the_contact_it_was_made_for(kind1, kind2):
    for c in draws(kind1, kind2)[0]:
        pos, dist, n, _t1, _t2 = c.found(*c.moved(np.zeros((1, 18))))
        np.testing.assert_allclose(pos[0], c.pos, atol=1e-13)
        np.testing.assert_allclose(dist[0], c.dist, atol=1e-13)
        np.testing.assert_allclose(n[0], c.normal, atol=1e-13)


@pytest.mark.parametrize(("kind1", "kind2"), PAIRS, ids=lambda k: NAMES[k])
def test_gradients_of_motions_and_sizes(double, kind1, kind2):
    contacts, bars = draws(kind1, kind2)
    for c, bar, gradient in zip(contacts, bars, double(contacts, bars), strict=True):
        found = errors(c, bar, gradient)
        assert max(found.values()) <= 1e-8, (found, c)


@pytest.mark.parametrize(("kind1", "kind2"), PAIRS, ids=lambda k: NAMES[k])
def test_single_precision(double, single, kind1, kind2):
    contacts, bars = draws(kind1, kind2)
    exact, found = double(contacts, bars), single(contacts, bars)
    for k in BLOCKS.values():
        scale = np.maximum(np.abs(exact[:, k]).max(axis=1), 0.03 * np.abs(exact).max(axis=1))
        assert (np.abs(found - exact)[:, k].max(axis=1) / scale).max() < 1e-4


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


def test_lines_that_meet(double):
    """Nothing is special about capsules whose axes cross: their normal comes from the axes, not from the gap."""
    contacts, bars = draws(LINE, LINE)
    met = []
    for c in contacts:
        span = c.dist + c.s1.radius + c.s2.radius
        s1, s2 = (replace(s, c=s.c + sign * span / 2 * c.normal) for s, sign in ((c.s1, 1), (c.s2, -1)))
        met.append(Crossing(s1, s2, c.pos, c.normal, c.dist - span, c.along))
    for c, bar, gradient in zip(met, bars, double(met, bars), strict=True):
        np.testing.assert_allclose(c.found(*c.moved(np.zeros((1, 18))))[0][0], c.pos, atol=1e-13)
        found = errors(c, bar, gradient)
        assert max(found.values()) <= 1e-8, (found, c)


# --- where the contact is not determined -----------------------------------------------------------


def degenerate() -> dict[str, Contact]:
    rng = np.random.default_rng(5)
    z = np.array([0.0, 0.0, 1.0])

    def contact(kind1, kind2, owner1, owner2, dist=None, **changes) -> Contact:
        c = next(c for _ in range(100) if is_steady(c := random_contact(rng, kind1, kind2, owner1, owner2)))
        c = replace(c, dist=c.dist if dist is None else dist(c))
        return replace(c, **{k: replace(getattr(c, k), **change(c)) for k, change in changes.items()})

    def touching(c: Contact) -> float:
        return -float(c.s1.radius + c.s2.radius)

    def like_first(c: Contact) -> dict:
        return {"R": c.s1.R, "edge": c.s1.edge}

    def upright(c: Contact) -> dict:
        R = axes_with(np.random.default_rng(0), 2, c.normal)
        return {"R": R, "edge": z}

    def ball(c: Contact) -> dict:
        return {"size": np.full(3, 0.25)}

    return {
        "two balls in one place": contact(POINT, POINT, SPHERE, SPHERE, touching),
        "two corners in one place": contact(POINT, POINT, MESH, MESH, lambda c: 0.0),
        "a ball on a line": contact(POINT, LINE, SPHERE, CAPSULE, touching),
        "parallel lines": contact(LINE, LINE, CAPSULE, CAPSULE, s2=like_first),
        "parallel lines in one place": contact(LINE, LINE, CAPSULE, CAPSULE, touching, s2=like_first),
        "a point in a centre of curvature": contact(POINT, ELLIPSOID, MESH, ELLIPSOID_SHAPE, lambda c: -0.25, s2=ball),
        "a rim with the normal along its axis": contact(POINT, CIRCLE, SPHERE, CYLINDER, s2=upright),
        "an upright cylinder": contact(PLANE, CIRCLE, PLANE_SHAPE, CYLINDER, s2=upright),
        "a third of a turn": contact(PLANE, LEFT, PLANE_SHAPE, CYLINDER, s2=upright),
        "an edge in its side plane": contact(
            PLANE, CUT, BOX, BOX, s2=lambda c: {"R": c.s1.R, "edge": np.cross(c.s1.edge, c.s1.face)}
        ),
        "a face along the normal": contact(PLANE, FACE, BOX, BOX, s2=lambda c: {"R": c.s1.R, "edge": c.s1.edge}),
        "an ellipsoid of no size": contact(
            PLANE, ELLIPSOID, PLANE_SHAPE, ELLIPSOID_SHAPE, s2=lambda c: {"size": np.zeros(3)}
        ),
    }


DEGENERATE = degenerate()


@pytest.mark.parametrize("name", DEGENERATE)
def test_gradients_stay_finite_where_the_contact_is_not_determined(double, single, name):
    rng = np.random.default_rng(1)
    c = replace(DEGENERATE[name], along=0)
    # Exactly, and as rounding may have it.
    near = [replace(c, dist=c.dist + e * rng.normal()) for e in (0.0, 1e-17, 1e-16)]
    bars = np.repeat(rng.normal(size=(1, 13)), len(near), axis=0)
    for evaluate in (double, single):
        gradient = evaluate(near, bars)
        assert np.isfinite(gradient).all() and np.abs(gradient).max() < 100
        # The shares still add up to the whole.
        np.testing.assert_allclose(gradient[:, 3:6] + gradient[:, 9:12], bars[:, :3], atol=1e-4)


def test_an_undetermined_normal_is_fixed_to_the_base(double):
    """As if the base were a PLANE."""
    rng = np.random.default_rng(2)
    for name in ("two balls in one place", "two corners in one place", "parallel lines in one place", "parallel lines"):
        c = DEGENERATE[name]
        bars = rng.normal(size=(1, 13))
        flat = replace(c, s1=replace(c.s1, kind=PLANE, shape=SPHERE))  # a SPHERE, so that it keeps its radius
        np.testing.assert_allclose(double([c], bars)[:, :12], double([flat], bars)[:, :12], atol=1e-13)


def test_a_rim_that_is_upright_up_to_rounding(double):
    """Its point is where rounding says, and stays there."""
    c = replace(DEGENERATE["an upright cylinder"], along=0)
    out = np.array([0.6, -0.8, 0.0])
    tilted = replace(c, normal=-unit(c.s2.R @ (1e-14 * out - [0.0, 0.0, 1.0])))
    fixed = replace(tilted, s2=replace(c.s2, kind=POINT, pin=c.s2.pin + out))
    bars = np.random.default_rng(1).normal(size=(1, 13))
    np.testing.assert_allclose(double([tilted], bars), double([fixed], bars), atol=0.2)


def test_nan_is_handed_on(double):
    for kind1, kind2 in PAIRS:
        contacts, bars = draws(kind1, kind2, 1)
        for k in range(13):
            spoilt = bars[:1].copy()
            spoilt[0, k] = np.nan
            assert np.isnan(double(contacts[:1], spoilt)[0, :12]).any()
        for spoilt in (replace(contacts[0], dist=np.nan), replace(contacts[0], normal=contacts[0].normal * np.nan)):
            assert np.isnan(double([spoilt], bars[:1])[0, :12]).any()


# --- tangents --------------------------------------------------------------------------------------


def tangents(precision: str, normal: np.ndarray, along: np.ndarray, R2: np.ndarray) -> np.ndarray:
    """(n, 2, 3)"""
    scalar = specialise(precision, "scalar")
    vec3, mat33, frame = scalar.vec3, scalar.mat33, specialise(precision, "features").contact_frame

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(n: wp.array(dtype=vec3), a: wp.array(dtype=int), R: wp.array(dtype=mat33), t: wp.array2d(dtype=vec3)):
        i = wp.tid()
        t1, t2 = frame(n[i], a[i], R[i])
        t[i, 0] = t1
        t[i, 1] = t2

    out = wp.zeros((len(normal), 2), dtype=vec3, device="cpu")
    inputs = [wp.array(x.astype(precision), dtype=t, device="cpu") for x, t in ((normal, vec3), (R2, mat33))]
    along = wp.array(along.astype(np.int32), dtype=int, device="cpu")
    wp.launch(evaluate, dim=len(normal), inputs=[inputs[0], along, inputs[1]], outputs=[out], device="cpu")
    return out.numpy().astype(float)


PLANE_AND_CAPSULE = """
<mujoco><worldbody>
  <body name="floor" mocap="true"><geom type="plane" size="1 1 1"/></body>
  <body><freejoint/><geom type="capsule" size="0.1 0.3"/></body>
</worldbody></mujoco>
"""
BALLS = """
<mujoco><worldbody>
  <geom type="sphere" size="1"/>
  <body><freejoint/><geom type="sphere" size="1"/></body>
</worldbody></mujoco>
"""


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_tangents_are_those_of_mujoco(precision):
    rng = np.random.default_rng(3)
    found = []
    model = mujoco.MjModel.from_xml_string(BALLS)
    data = mujoco.MjData(model)
    directions = np.concatenate([rng.normal(size=(100, 3)), np.eye(3), -np.eye(3)])
    for direction in directions:
        data.qpos[:3] = unit(direction)
        mujoco.mj_forward(model, data)
        found.append((data.contact[0].frame.reshape(3, 3).copy(), 0, np.eye(3)))
    model = mujoco.MjModel.from_xml_string(PLANE_AND_CAPSULE)
    data = mujoco.MjData(model)
    for k in range(50):
        # At first a capsule that stands upright on level ground.
        data.mocap_quat[0] = unit(rng.normal(size=4)) if k > 0 else [1, 0, 0, 0]
        data.qpos[3:7] = unit(rng.normal(size=4)) if k > 0 else [1, 0, 0, 0]
        mujoco.mj_forward(model, data)
        found.append((data.contact[0].frame.reshape(3, 3).copy(), 1, data.geom_xmat[1].reshape(3, 3).copy()))
    frames, along, R2 = (np.array(x) for x in zip(*found, strict=True))
    assert len(frames) == 156
    t = tangents(precision, frames[:, 0], along, R2)
    np.testing.assert_allclose(t, frames[:, 1:], atol=1e-12 if precision == "float64" else 1e-5)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_tangents_where_the_axis_is_along_the_normal(precision):
    """MuJoCo takes axis x as it is; here it is made orthogonal, or replaced where it is the normal."""
    rng = np.random.default_rng(4)
    normal = unit(np.concatenate([np.eye(3), -np.eye(3), rng.normal(size=(50, 3))]))
    R2 = np.stack([axes_with(rng, 2, n * rng.choice([-1.0, 1.0])) for n in normal])
    t = tangents(precision, normal, np.ones(len(normal), dtype=int), R2)
    full = np.concatenate([normal[:, None], t], axis=1)
    np.testing.assert_allclose(
        full @ np.swapaxes(full, 1, 2),
        np.tile(np.eye(3), (len(normal), 1, 1)),
        atol=1e-12 if precision == "float64" else 1e-5,
    )
    assert (np.linalg.det(full) > 0).all()
    np.testing.assert_allclose(t[2, 0], [1.0, 0.0, 0.0], atol=1e-6)
