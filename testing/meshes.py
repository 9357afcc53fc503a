"""Closed meshes, made by code, and scenes of them."""

import numpy as np

ICOSAHEDRON = (
    [[0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11], [1, 5, 9], [5, 11, 4], [11, 10, 2], [10, 7, 6]]
    + [[7, 1, 8], [3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9], [4, 9, 5], [2, 4, 11], [6, 2, 10]]
    + [[8, 6, 7], [9, 8, 1]]
)


def grid(rows: int, columns: int) -> np.ndarray:
    """Triangles of a torus of rows · columns vertices."""
    i, j = (x.reshape(-1) for x in np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"))
    at = lambda a, b: (a % rows) * columns + b % columns  # noqa: E731
    corners = at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)
    return np.concatenate([np.stack([corners[k] for k in ring], -1) for ring in ((0, 1, 2), (0, 2, 3))])


def torus(rows: int, columns: int, tube: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Of radius 1 to the middle of its tube: vertices and triangles."""
    u, v = np.meshgrid(np.arange(rows) / rows, np.arange(columns) / columns, indexing="ij")
    u, v = 2 * np.pi * u.reshape(-1), 2 * np.pi * v.reshape(-1)
    away = 1 + tube * np.cos(v)
    return np.stack([away * np.cos(u), away * np.sin(u), tube * np.sin(v)], -1), grid(rows, columns)


def ball(levels: int, bumps: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """An icosahedron of radius 1, every triangle of which is cut in four some times, with bumps: 20 · 4^levels
    triangles."""
    golden = (1 + np.sqrt(5)) / 2
    signs = np.array([[-1, 1], [1, 1], [-1, -1], [1, -1]]) * [1, golden]
    zeros = np.zeros(4)
    x = np.concatenate([np.c_[signs, zeros], np.c_[zeros, signs], np.c_[signs[:, 1], zeros, signs[:, 0]]])
    x, triangles = x[[0, 1, 2, 3, 6, 4, 7, 5, 9, 8, 11, 10]], np.array(ICOSAHEDRON)
    x[[4, 5, 6, 7]] = [[0, -1, golden], [0, 1, golden], [0, -1, -golden], [0, 1, -golden]]
    x[[8, 9, 10, 11]] = [[golden, 0, -1], [golden, 0, 1], [-golden, 0, -1], [-golden, 0, 1]]
    for _ in range(levels):
        edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        edges, which = np.unique(edges, axis=0, return_inverse=True)
        ab, bc, ca = (len(x) + which.reshape(-1, 3)).T
        a, b, c = triangles.T
        x = np.concatenate([x, x[edges].mean(axis=1)])
        triangles = np.concatenate([np.stack(t, -1) for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))])
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    wave = np.sin(5 * x[:, 0]) * np.cos(4 * x[:, 1] + 1) * np.sin(3 * x[:, 2] + 0.5)
    return x * (1 + bumps * wave[:, None]), triangles


def asset(name: str, mesh: tuple[np.ndarray, np.ndarray], size: float = 0.1) -> str:
    vertex, triangles = (" ".join(f"{x:.9g}" for x in array.reshape(-1)) for array in (size * mesh[0], mesh[1]))
    return f'<mesh name="{name}" vertex="{vertex}" face="{triangles}"/>'


def scene(assets: str, world: str, option: str = 'timestep="0.01"') -> str:
    smooth = '<default><geom condim="1"/></default>'
    return f"<mujoco><option {option}/>{smooth}<asset>{assets}</asset><worldbody>{world}</worldbody></mujoco>"


def free(geom: str, pos: str = "0 0 0") -> str:
    return f'<body pos="{pos}"><freejoint/><geom {geom}/></body>'


def of_mesh(name: str, pos: str = "0 0 0", place: str = "") -> str:
    """A free body; ``place`` is that of the mesh in it."""
    return free(f'name="{name}" type="mesh" mesh="{name}" mass="1" {place}', pos)
