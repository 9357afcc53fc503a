"""Nodes as vectors of the processor: Warp's own loops over four or eight numbers are not made into one instruction.

Names end with the numbers per node, as in ``axpy8``. On CUDA they are plain loops.
"""

import warp as wp

from ..spatial.scalar import real, vec3, vec4
from .structs import vec8


def native(expression: str, lanes: int) -> str:
    """The body of a function that returns a vector, from an expression in vectors ``X`` and numbers ``x``; on CUDA X
    stands for its i-th number."""
    kind = "float" if real is wp.float32 else "double"
    size = lanes * (4 if real is wp.float32 else 8)
    one = expression
    for name in "XYZ":
        one = one.replace(name, f"{name.lower()}.c[i]")
        expression = expression.replace(name, f"(*(const lanes*)&{name.lower()})")
    return f"""
    #if defined(__CUDA_ARCH__)
    wp::vec_t<{lanes}, {kind}> result;
    for (int i = 0; i < {lanes}; ++i) result.c[i] = {one};
    return result;
    #else
    typedef {kind} lanes __attribute__((vector_size({size}), aligned(4), may_alias));
    wp::vec_t<{lanes}, {kind}> result;
    *(lanes*)&result = {expression};
    return result;
    #endif
    """


@wp.func_native(native("a * X", 4))
def scaled4(a: real, x: vec4) -> vec4:
    """a x"""


@wp.func_native(native("a * X", 8))
def scaled8(a: real, x: vec8) -> vec8:
    """a x"""


@wp.func_native(native("a * X + Y", 4))
def axpy4(a: real, x: vec4, y: vec4) -> vec4:
    """a x + y"""


@wp.func_native(native("a * X + Y", 8))
def axpy8(a: real, x: vec8, y: vec8) -> vec8:
    """a x + y"""


@wp.func_native(native("a.c[0] * X + a.c[1] * Y + a.c[2] * Z", 4))
def blend4(a: vec3, x: vec4, y: vec4, z: vec4) -> vec4:
    """The sum of three nodes with weights a."""


@wp.func_native(native("a.c[0] * X + a.c[1] * Y + a.c[2] * Z", 8))
def blend8(a: vec3, x: vec8, y: vec8, z: vec8) -> vec8:
    """The sum of three nodes with weights a."""


@wp.func_native(native("X * Y + Z", 8))
def times8(x: vec8, y: vec8, z: vec8) -> vec8:
    """x y + z, number by number."""


# Arrays of nodes lie one behind the other: no strides.


@wp.func_native("return a.data[n];")
def load4(a: wp.array(dtype=vec4), n: int) -> vec4:
    """Node n."""


@wp.func_native("return a.data[n];")
def load8(a: wp.array(dtype=vec8), n: int) -> vec8:
    """Node n."""


@wp.func_native("a.data[n] = x;")
def store4(a: wp.array(dtype=vec4), n: int, x: vec4):
    """Sets node n."""


@wp.func_native("a.data[n] = x;")
def store8(a: wp.array(dtype=vec8), n: int, x: vec8):
    """Sets node n."""


@wp.func(inline=True)
def sum8(x: vec8):
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))


@wp.func(inline=True)
def add_row4(a: wp.array(dtype=vec4), n: int, w: vec3, m: vec3, x: vec4, y: vec4):
    """Adds w x + m y to three nodes from n on."""
    n0 = axpy4(m[0], y, axpy4(w[0], x, load4(a, n)))
    n1 = axpy4(m[1], y, axpy4(w[1], x, load4(a, n + 1)))
    n2 = axpy4(m[2], y, axpy4(w[2], x, load4(a, n + 2)))
    store4(a, n, n0)
    store4(a, n + 1, n1)
    store4(a, n + 2, n2)


@wp.func(inline=True)
def add_row8(a: wp.array(dtype=vec8), n: int, w: vec3, m: vec3, x: vec8, y: vec8):
    """Adds w x + m y to three nodes from n on."""
    n0 = axpy8(m[0], y, axpy8(w[0], x, load8(a, n)))
    n1 = axpy8(m[1], y, axpy8(w[1], x, load8(a, n + 1)))
    n2 = axpy8(m[2], y, axpy8(w[2], x, load8(a, n + 2)))
    store8(a, n, n0)
    store8(a, n + 1, n1)
    store8(a, n + 2, n2)
