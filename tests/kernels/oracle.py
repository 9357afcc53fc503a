"""What MuJoCo finds where two shapes touch, and how far shapes reach."""

import mujoco
import numpy as np

PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 0, 2, 3, 4, 5, 6, 7
NAMES = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}


def name_of(types) -> str:
    return f"{NAMES[types[0]]}-{NAMES[types[1]]}"


class Oracle:
    """MuJoCo's contacts of two shapes whose poses and sizes are written straight into its arrays.

    ``points``: the corners (n, 3) of each shape that is a mesh. Its iterative solver goes on until rounding stops it.
    """

    def __init__(self, types, points=(None, None), multi=False):
        asset, geoms = "", ""
        for i, t in enumerate(types):
            shape = 'size="1 1 1"'
            if t == MESH:
                asset += f'<mesh name="m{i}" vertex="{" ".join(f"{v:.17g}" for v in points[i].ravel())}"/>'
                shape = f'mesh="m{i}"'
            geom = f'<geom name="g{i}" type="{NAMES[t]}" {shape}/>'
            geoms += geom if t == PLANE else f"<body><freejoint/>{geom}</body>"
        self.types = types
        several = "enable" if multi else "disable"
        self.m = mujoco.MjModel.from_xml_string(
            f"""<mujoco><asset>{asset}</asset>
            <option ccd_tolerance="1e-13" ccd_iterations="400"><flag multiccd="{several}"/></option>
            <worldbody>{geoms}</worldbody><contact><pair geom1="g0" geom2="g1"/></contact></mujoco>"""
        )
        self.d = mujoco.MjData(self.m)
        mujoco.mj_forward(self.m, self.d)
        self.m.geom_rbound[:] = [0 if t == PLANE else 1e3 for t in types]  # everything passes the broad phase

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
            found.append({"pos": d.contact.pos.copy(), "dist": d.contact.dist.copy()})
            found[-1] |= {"normal": frame[:, 0].copy(), "tangent": frame[:, 1].copy()}
        return found


def extent(kind, size, R, u, points=None) -> np.ndarray:
    """How far a shape reaches along u from its centre."""
    v = np.einsum("nji,nj->ni", R, u)
    flat = np.linalg.norm(v[:, :2], axis=1)
    match kind:
        case 0:
            return np.zeros(len(u))
        case 2:
            return size[:, 0]
        case 3:
            return size[:, 0] + size[:, 1] * abs(v[:, 2])
        case 4:
            return np.linalg.norm(size * v, axis=1)
        case 5:
            return size[:, 0] * flat + size[:, 1] * abs(v[:, 2])
        case 7 if points is not None:
            return (v @ points.T).max(axis=1)
        case _:
            return (size * abs(v)).sum(axis=1)
