"""Contacts of convex shapes that have no closed answer, against MuJoCo's solver with its tolerance set tight."""

import mujoco
import numpy as np
import pytest
import warp as wp

from pullback.kernels import specialise

SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 2, 3, 4, 5, 6, 7
NAMES = {2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
PAIRS = [
    (SPHERE, ELLIPSOID),
    (SPHERE, MESH),
    (CAPSULE, ELLIPSOID),
    (CAPSULE, CYLINDER),
    (CAPSULE, MESH),
    (ELLIPSOID, ELLIPSOID),
    (ELLIPSOID, CYLINDER),
    (ELLIPSOID, BOX),
    (ELLIPSOID, MESH),
    (CYLINDER, CYLINDER),
    (CYLINDER, BOX),
    (CYLINDER, MESH),
    (BOX, MESH),
    (MESH, MESH),
]
MOST = 16  # room for the contacts of a pair


def mesh_points(name: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    match name:
        case "tetrahedron":
            return np.array([[0.3, 0, -0.1], [-0.2, 0.25, -0.1], [-0.2, -0.25, -0.1], [0, 0, 0.3]])
        case "cube":
            return 0.2 * np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
        case _:
            p = rng.normal(size=(60, 3))
            return p / np.linalg.norm(p, axis=1, keepdims=True) * [0.3, 0.2, 0.15] * rng.uniform(0.8, 1, (60, 1))


class Oracle:
    """MuJoCo's contacts of two shapes whose poses and sizes are written straight into its arrays."""

    def __init__(self, types, meshes=("hull", "tetrahedron"), multi=False):
        asset = "".join(
            f'<mesh name="{name}" vertex="{" ".join(f"{v:.17g}" for v in mesh_points(name).ravel())}"/>'
            for name in sorted(set(meshes))
        )
        geoms = ""
        for i, t in enumerate(types):
            shape = f'mesh="{meshes[i]}"' if t == MESH else 'size="1 1 1"'
            geoms += f'<body><freejoint/><geom name="g{i}" type="{NAMES[t]}" {shape}/></body>'
        self.types = types
        self.m = mujoco.MjModel.from_xml_string(
            f"""<mujoco><asset>{asset}</asset>
            <option ccd_tolerance="1e-13" ccd_iterations="400"><flag multiccd="{"enable" if multi else "disable"}"/></option>
            <worldbody>{geoms}</worldbody><contact><pair geom1="g0" geom2="g1"/></contact></mujoco>"""
        )
        self.d = mujoco.MjData(self.m)
        mujoco.mj_forward(self.m, self.d)
        self.m.geom_rbound[:] = 1e3

    def hulls(self):
        """The convex hulls of both shapes, one after the other, as kernels want them; and where each begins."""
        m = self.m
        lists = {"neighbour": [], "face": [], "corner": []}
        vertex, begin, faces = [np.zeros((0, 3))], [0], 0
        for g in range(2):
            if self.types[g] == MESH:
                k = m.geom_dataid[g]
                graph = m.mesh_graph[m.mesh_graphadr[k] :]
                n = graph[0]
                first, ids, rest = graph[2 : 2 + n], graph[2 + n : 2 + 2 * n], graph[2 + 2 * n :]
                base = sum(map(len, vertex))
                corner_of = {int(v): base + i for i, v in enumerate(ids)}
                # Numbers in MuJoCo's tables: corners count from the mesh's first one, faces likewise.
                v0, p0, pn = m.mesh_vertadr[k], m.mesh_polyadr[k], m.mesh_polynum[k]
                lists["neighbour"] += [base + rest[a : a + np.argmax(rest[a:] < 0)] for a in first]
                lists["face"] += [
                    faces + m.mesh_polymap[m.mesh_polymapadr[v0 + v] :][: m.mesh_polymapnum[v0 + v]] for v in ids
                ]
                lists["corner"] += [
                    np.array([corner_of[int(v)] for v in m.mesh_polyvert[a : a + c]])
                    for a, c in zip(m.mesh_polyvertadr[p0 : p0 + pn], m.mesh_polyvertnum[p0 : p0 + pn], strict=True)
                ]
                vertex.append(m.mesh_vert[v0 + ids].astype(float))
                faces += pn
            begin.append(sum(map(len, vertex)))
        hull = {"vertex": np.concatenate(vertex)}
        # MuJoCo's own normals are good to single precision.
        around = [hull["vertex"][c] - hull["vertex"][c].mean(axis=0) for c in lists["corner"]]
        normal = np.array([np.cross(p, np.roll(p, -1, axis=0)).sum(axis=0) for p in around]).reshape(-1, 3)
        hull["face_normal"] = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        for name, items in lists.items():
            hull[f"first_{name}"] = np.cumsum([0, *map(len, items)])
            hull[name] = np.concatenate(items) if items else np.zeros(0, int)
        return hull, begin

    def __call__(self, x, R, size, reach):
        m, d = self.m, self.d
        found = []
        for i in range(len(reach)):
            for g in range(2):
                if self.types[g] != MESH:
                    m.geom_size[g] = size[g, i]
            m.pair_margin[0] = reach[i]
            d.geom_xpos[:] = x[:, i]
            d.geom_xmat[:] = R[:, i].reshape(2, 9)
            mujoco.mj_collision(m, d)
            frame = d.contact.frame.reshape(-1, 3, 3)
            found.append(
                {"pos": d.contact.pos.copy(), "normal": frame[:, 0].copy(), "dist": d.contact.dist.copy()}
            )
        return found


def compile_pair(precision: str):
    """A function that collides a batch of pairs."""
    s = specialise(precision, "shapes")
    n = specialise(precision, "convex_pairs")
    real, vec3, mat33 = n.real, n.vec3, n.mat33
    Contacts, Shapes, convex_pair = s.Contacts, s.Shapes, n.convex_pair

    @wp.kernel(enable_backward=False, module="unique")
    def collide(
        kind: wp.vec2i,
        begin: wp.vec3i,
        reach: wp.array(dtype=real),
        x: wp.array2d(dtype=vec3),
        R: wp.array2d(dtype=mat33),
        size: wp.array2d(dtype=vec3),
        shapes: Shapes,
        c: Contacts,
    ):
        i = wp.tid()
        convex_pair(
            c, i, 0, reach[i], shapes,
            kind[0], begin[0], begin[1], x[0, i], R[0, i], size[0, i],
            kind[1], begin[1], begin[2], x[1, i], R[1, i], size[1, i],
        )  # fmt: skip

    def call(types, x, R, size, reach, hulls):
        """The contacts of every pose, padded: arrays ``[pose, contact]``, and how many there are of each."""
        hull, begin = hulls
        count = len(reach)
        shapes = Shapes()
        for name, values in hull.items():
            floats = values.dtype.kind == "f"
            dtype = vec3 if floats else int
            array = wp.array(values.astype(precision if floats else "i4"), dtype=dtype, device="cpu")
            setattr(shapes.mesh, name, array)
        c = Contacts()
        for name, dtype, items in (
            ("count", int, 1),
            ("pair", int, MOST),
            ("pos", vec3, MOST),
            ("normal", vec3, MOST),
            ("dist", real, MOST),
            ("along", int, MOST),
            ("feature1", s.Feature, MOST),
            ("feature2", s.Feature, MOST),
        ):
            setattr(c, name, wp.zeros((items, count), dtype=dtype, device="cpu"))
        put = [
            wp.array(np.ascontiguousarray(a.astype(precision)), dtype=t, device="cpu")
            for a, t in ((reach, real), (x, vec3), (R, mat33), (size, vec3))
        ]
        wp.launch(collide, count, inputs=[wp.vec2i(*types), wp.vec3i(*begin), *put, shapes, c], device="cpu")
        out = {k: getattr(c, k).numpy() for k in ("pos", "normal", "dist", "along", "feature1", "feature2")}
        return {k: v.swapaxes(0, 1) for k, v in out.items()} | {"count": c.count.numpy()[0]}

    return call


def rotations(rng, n) -> np.ndarray:
    q = rng.normal(size=(n, 4))
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    return np.stack(
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
         2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
         2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=-1,
    ).reshape(n, 3, 3)  # fmt: skip


def extent(kind, size, R, u, points) -> np.ndarray:
    """How far a shape reaches along u from its centre."""
    v = np.einsum("nji,nj->ni", R, u)
    flat = np.linalg.norm(v[:, :2], axis=1)
    match kind:
        case 2:
            return size[:, 0]
        case 3:
            return size[:, 0] + size[:, 1] * abs(v[:, 2])
        case 4:
            return np.linalg.norm(size * v, axis=1)
        case 5:
            return size[:, 0] * flat + size[:, 1] * abs(v[:, 2])
        case 6:
            return (size * abs(v)).sum(axis=1)
        case _:
            return (v @ points.T).max(axis=1)


def gap(types, x, R, size, hulls, n) -> np.ndarray:
    """Gap of two shapes along n."""
    hull, begin = hulls
    points = [hull["vertex"][begin[g] : begin[g + 1]] for g in range(2)]
    reach1 = extent(types[0], size[0], R[0], n, points[0])
    reach2 = extent(types[1], size[1], R[1], -n, points[1])
    return np.einsum("ni,ni->n", x[1] - x[0], n) - reach1 - reach2


def random_poses(types, hulls, n, seed=0, smallest=0.03, depth=(0.0, 1.1)):
    """Poses and sizes of shapes that touch, overlap or nearly touch, and how far apart they may be."""
    rng = np.random.default_rng(seed)
    R = np.stack([rotations(rng, n), rotations(rng, n)])
    size = np.exp(rng.uniform(np.log(smallest), np.log(0.5), (2, n, 3)))
    x = rng.uniform(-1, 1, (2, n, 3))
    u = rng.normal(size=(n, 3))
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    x[1] = x[0]
    x[1] += (-gap(types, x, R, size, hulls, u) * rng.uniform(*depth, n))[:, None] * u
    return x, R, size, np.full(n, 0.2)
