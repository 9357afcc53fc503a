"""Where a convex shape touches a height field: one contact with each prism that is near, in MuJoCo's order.

A prism stands below one of the two triangles of a cell of the grid: (r + 1, c - 1), (r, c - 1), (r + 1, c), or the last
two and (r, c). For the general solver it is a mesh of six corners, the three at the bottom first.
"""

import warp as wp

from ..spatial.algebra import column
from ..spatial.scalar import real, vec3
from .convex_gap import nearest
from .convex_pairs import approach_of
from .shapes import MESH, Contacts, Pair, Shape, Shapes, add_contact
from .support import core_radius, support

# No pair has more contacts, as in MuJoCo.
MOST_OF_PAIR = wp.constant(50)
THIRD = wp.constant(real(1.0 / 3.0))


@wp.func
def extent(shapes: Shapes, s: Shape, origin: vec3, n: vec3):
    """How far a shape reaches along n from a point."""
    p, _vertex = support(shapes.mesh, s, n, s.first)
    return wp.dot(p - origin, n) + core_radius(s)


@wp.func
def prism_of(shapes: Shapes, field: Shape, i: int, row: int, column: int, part: int):
    """The prism below the first (0) or second (1) triangle of the cell that ends at a column, in its place."""
    grid = shapes.grid[i]
    size = shapes.grid_size[i]
    s = Shape()
    s.kind = MESH
    s.R = field.R
    s.first = field.first + 6 * (2 * (row * (grid[1] - 1) + column - 1) + part)
    s.end = s.first + 6
    x = real(column) - real(2 - part) * THIRD
    y = real(row) + real(2 - part) * THIRD
    centre = vec3(
        real(2.0) * size[0] * x / real(grid[1] - 1) - size[0],
        real(2.0) * size[1] * y / real(grid[0] - 1) - size[1],
        real(-0.5) * size[2],
    )
    s.x = field.x + field.R * centre
    return s


@wp.func
def cell_below(least: real, half: real, points: int):
    """Number of the last grid line below a coordinate."""
    return wp.clamp(int(wp.floor((least + half) / (real(2.0) * half) * real(points - 1))), 0, points - 1)


@wp.func
def cell_above(most: real, half: real, points: int):
    return wp.clamp(int(wp.ceil((most + half) / (real(2.0) * half) * real(points - 1))), 0, points - 1)


@wp.func
def height_field_pair(c: Contacts, pair: Pair, shapes: Shapes, i: int, s1: Shape, s2: Shape):
    """The contacts of height field i with any convex shape."""
    grid = shapes.grid[i]
    size = shapes.grid_size[i]
    origin = s1.x
    s1.x = vec3()
    s2.x -= origin
    ex = column(s1.R, 0)
    ey = column(s1.R, 1)
    up = column(s1.R, 2)
    reach = pair.reach
    x_min = -extent(shapes, s2, vec3(), -ex) - reach
    x_max = extent(shapes, s2, vec3(), ex) + reach
    y_min = -extent(shapes, s2, vec3(), -ey) - reach
    y_max = extent(shapes, s2, vec3(), ey) + reach
    z_min = -extent(shapes, s2, vec3(), -up) - reach
    beside = x_min > size[0] or x_max < -size[0] or y_min > size[1] or y_max < -size[1]
    first_row = cell_below(y_min, size[1], grid[0])
    last_row = cell_above(y_max, size[1], grid[0])
    first_column = cell_below(x_min, size[0], grid[1])
    last_column = cell_above(x_max, size[0], grid[1])
    before = c.count[0, pair.slot]
    if not beside:
        for row in range(first_row, last_row):
            for k in range(2 * first_column + 2, 2 * last_column + 2):
                prism = prism_of(shapes, s1, i, row, k / 2, k % 2)
                top = real(-1e30)
                for m in range(3, 6):
                    top = wp.max(top, shapes.mesh.vertex[prism.first + m][2])
                below = top - real(0.5) * size[2] < z_min
                if not below and c.count[0, pair.slot] - before < MOST_OF_PAIR:
                    best, in_reach = nearest(shapes.mesh, prism, s2, reach)
                    if in_reach:
                        near = approach_of(origin, prism, s2, best)
                        add_contact(c, pair, near.dist, near.pos, near.normal, 0, near.feature1, near.feature2)
