"""Nodes as vectors of the processor: Warp's own loops over four or eight numbers are not made into one instruction.

Names end with the numbers per node, as in ``axpy8``. On CUDA they are plain loops, and additions to nodes are atomic.
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


def adding(lanes: int) -> str:
    """The body of a function that adds p x + q y to node n; on CUDA one of many threads does."""
    kind = "float" if real is wp.float32 else "double"
    size = lanes * (4 if real is wp.float32 else 8)
    return f"""
    #if defined(__CUDA_ARCH__)
    for (int i = 0; i < {lanes}; ++i) atomicAdd(&a.data[n].c[i], p * x.c[i] + q * y.c[i]);
    #else
    typedef {kind} lanes __attribute__((vector_size({size}), aligned(4), may_alias));
    lanes* const node = (lanes*)&a.data[n];
    *node = q * *(const lanes*)&y + (p * *(const lanes*)&x + *node);
    #endif
    """


@wp.func_native(adding(4))
def add4(a: wp.array(dtype=vec4), n: int, p: real, x: vec4, q: real, y: vec4):
    """Adds p x + q y to node n."""


@wp.func_native(adding(8))
def add8(a: wp.array(dtype=vec8), n: int, p: real, x: vec8, q: real, y: vec8):
    """Adds p x + q y to node n."""


@wp.func(inline=True)
def sum8(x: vec8):
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))


@wp.func(inline=True)
def add_row4(a: wp.array(dtype=vec4), n: int, w: vec3, m: vec3, x: vec4, y: vec4):
    """Adds w x + m y to three nodes from n on."""
    add4(a, n, w[0], x, m[0], y)
    add4(a, n + 1, w[1], x, m[1], y)
    add4(a, n + 2, w[2], x, m[2], y)


@wp.func(inline=True)
def add_row8(a: wp.array(dtype=vec8), n: int, w: vec3, m: vec3, x: vec8, y: vec8):
    """Adds w x + m y to three nodes from n on."""
    add8(a, n, w[0], x, m[0], y)
    add8(a, n + 1, w[1], x, m[1], y)
    add8(a, n + 2, w[2], x, m[2], y)
