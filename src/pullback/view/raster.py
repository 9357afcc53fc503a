"""Warp kernels that turn triangles into a picture on the CPU, where there is no display and no graphics driver.

A triangle's corners are given in pixels, with a third number, ``near``, that is larger the nearer a corner is and
linear over the picture: one over the depth in perspective, and minus the depth for the parallel rays of a light.
Colours are linear in light.
"""

import warp as wp

NOTHING = -1e30  # near, where no triangle is


@wp.struct
class Layer:
    """What is nearest in each pixel (height, width)."""

    near: wp.array2d(dtype=float)
    face: wp.array2d(dtype=int)
    spot: wp.array2d(dtype=wp.vec2)  # weights of the second and third corner there


@wp.struct
class Faces:
    """Triangles in the world."""

    at: wp.array2d(dtype=wp.vec3)  # (faces, 3) corners [m]
    normal: wp.array2d(dtype=wp.vec3)  # (faces, 3)
    colour: wp.array(dtype=wp.vec4)  # (faces,) RGBA


@wp.struct
class Light:
    """Parallel light, and how far it gets: a picture of the scene as the light sees it."""

    towards: wp.vec3
    right: wp.vec3
    up: wp.vec3
    centre: wp.vec3
    half: float  # of the width of the picture [m]
    near: wp.array2d(dtype=float)


@wp.struct
class Floor:
    """A plane with squares; half sizes of zero are endless, and then it dissolves with the distance from ``centre``."""

    at: wp.vec3
    x: wp.vec3
    y: wp.vec3
    normal: wp.vec3
    half: wp.vec2
    even: wp.vec4
    odd: wp.vec4
    centre: wp.vec3
    square: float  # [m]
    reach: float  # [m]


@wp.struct
class Eye:
    at: wp.vec3
    right: wp.vec3
    up: wp.vec3
    back: wp.vec3
    tan: float  # of half of the vertical field of view


@wp.kernel(enable_backward=False)
def rasterise(corners: wp.array2d(dtype=wp.vec3), layer: Layer):
    """All triangles, one after the other, in a single thread: the CPU runs a launch in one."""
    height, width = layer.near.shape[0], layer.near.shape[1]
    for t in range(corners.shape[0]):
        a, b, c = corners[t, 0], corners[t, 1], corners[t, 2]
        area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        if area == 0.0:
            continue
        first_x = wp.max(int(wp.ceil(wp.min(wp.min(a[0], b[0]), c[0]) - 0.5)), 0)
        first_y = wp.max(int(wp.ceil(wp.min(wp.min(a[1], b[1]), c[1]) - 0.5)), 0)
        last_x = wp.min(int(wp.floor(wp.max(wp.max(a[0], b[0]), c[0]) - 0.5)), width - 1)
        last_y = wp.min(int(wp.floor(wp.max(wp.max(a[1], b[1]), c[1]) - 0.5)), height - 1)
        for y in range(first_y, last_y + 1):
            for x in range(first_x, last_x + 1):
                px, py = float(x) + 0.5, float(y) + 0.5
                v = ((px - a[0]) * (c[1] - a[1]) - (py - a[1]) * (c[0] - a[0])) / area
                w = ((b[0] - a[0]) * (py - a[1]) - (b[1] - a[1]) * (px - a[0])) / area
                if v >= 0.0 and w >= 0.0 and v + w <= 1.0:
                    near = a[2] + v * (b[2] - a[2]) + w * (c[2] - a[2])
                    if near > layer.near[y, x]:
                        layer.near[y, x] = near
                        layer.face[y, x] = t
                        layer.spot[y, x] = wp.vec2(v, w)


@wp.func
def open_texel(light: Light, row: int, column: int, height: float):
    """One where light reaches up to this height, else zero."""
    size = light.near.shape[0]
    if column < 0 or row < 0 or column >= size or row >= size or light.near[row, column] <= height:
        return 1.0
    return 0.0


@wp.func
def lit(light: Light, at: wp.vec3, normal: wp.vec3):
    """Share of the light that reaches a point, softened over a few texels."""
    size = light.near.shape[0]
    texel = 2.0 * light.half / float(size)
    off = at + normal * (1.5 * texel) - light.centre
    column = int(wp.floor((wp.dot(off, light.right) / light.half * 0.5 + 0.5) * float(size)))
    row = int(wp.floor((wp.dot(off, light.up) / light.half * 0.5 + 0.5) * float(size)))
    height = wp.dot(off, light.towards) + texel
    corners = (
        open_texel(light, row - 2, column - 2, height)
        + open_texel(light, row - 2, column + 2, height)
        + open_texel(light, row + 2, column - 2, height)
        + open_texel(light, row + 2, column + 2, height)
        + open_texel(light, row, column, height)
    )
    if corners == 5.0 or corners == 0.0:  # far from any edge of a shadow, as most places are
        return corners / 5.0
    open = float(0.0)
    for j in range(-2, 3):
        for i in range(-2, 3):
            open += open_texel(light, row + j, column + i, height)
    return open / 25.0


@wp.func
def shaded(albedo: wp.vec3, normal: wp.vec3, at: wp.vec3, to_eye: wp.vec3, light: Light, glossy: bool):
    """Linear colours: the light, a sky that is brighter above, and a little shine."""
    key = wp.max(wp.dot(normal, light.towards), 0.0)
    if key > 0.0:
        key = key * lit(light, at, normal)
    above = 0.5 * normal[2] + 0.5
    sky = wp.vec3(0.30, 0.29, 0.29) * (1.0 - above) + wp.vec3(0.50, 0.53, 0.58) * above
    colour = wp.cw_mul(albedo, sky + key * wp.vec3(0.72, 0.70, 0.66))
    if glossy:
        halfway = wp.normalize(to_eye + light.towards)
        shine = wp.pow(wp.max(wp.dot(normal, halfway), 0.0), 48.0) * key
        edge = 1.0 - wp.max(wp.dot(normal, to_eye), 0.0)
        colour = colour + 0.22 * shine * wp.vec3(1.0, 1.0, 1.0) + 0.10 * edge * edge * edge * edge * sky
    return colour


@wp.func
def surface_colour(layer: Layer, faces: Faces, y: int, x: int, eye: Eye, light: Light):
    """Of the triangle in a pixel."""
    t, spot = layer.face[y, x], layer.spot[y, x]
    # The weights are those in the picture; in perspective those on the triangle differ, by little for small ones.
    u = 1.0 - spot[0] - spot[1]
    at = u * faces.at[t, 0] + spot[0] * faces.at[t, 1] + spot[1] * faces.at[t, 2]
    normal = wp.normalize(u * faces.normal[t, 0] + spot[0] * faces.normal[t, 1] + spot[1] * faces.normal[t, 2])
    to_eye = wp.normalize(eye.at - at)
    flat = wp.cross(faces.at[t, 1] - faces.at[t, 0], faces.at[t, 2] - faces.at[t, 0])
    if wp.dot(flat, to_eye) < 0.0:  # the inside of an open mesh
        normal = -normal
    colour = faces.colour[t]
    return shaded(wp.vec3(colour[0], colour[1], colour[2]), normal, at, to_eye, light, True)


@wp.func
def square_wave(x: float, width: float):
    """The mean of a wave of +1 and -1, two long, over a pixel as wide as ``width``."""
    before, after = 0.5 * (x - 0.5 * width), 0.5 * (x + 0.5 * width)
    rise = wp.abs(after - wp.floor(after) - 0.5) - wp.abs(before - wp.floor(before) - 0.5)
    return 2.0 * rise / width


@wp.kernel(enable_backward=False)
def shade(
    solid: Layer,
    solid_faces: Faces,
    clear: Layer,
    clear_faces: Faces,
    floors: wp.array(dtype=Floor),
    eye: Eye,
    light: Light,
    image: wp.array2d(dtype=wp.vec3),
):
    """Linear colours from the layers of what is solid and what is see-through, and the floors. One pixel a thread."""
    y, x = wp.tid()
    height, width = image.shape[0], image.shape[1]
    across = (2.0 * (float(x) + 0.5) - float(width)) / float(height) * eye.tan
    upward = (1.0 - 2.0 * (float(y) + 0.5) / float(height)) * eye.tan
    ray = across * eye.right + upward * eye.up - eye.back  # its length along the view is one: near is 1 / factor
    high = wp.clamp(0.5 + 0.5 * upward / eye.tan, 0.0, 1.0)
    colour = wp.vec3(0.60, 0.66, 0.74) * (1.0 - high) + wp.vec3(0.92, 0.94, 0.97) * high

    nearest = float(NOTHING)
    if solid.face[y, x] >= 0:
        nearest = solid.near[y, x]
        colour = surface_colour(solid, solid_faces, y, x, eye, light)
    for k in range(floors.shape[0]):
        floor = floors[k]
        facing = wp.dot(ray, floor.normal)
        above = wp.dot(eye.at - floor.at, floor.normal)
        if facing < 0.0 and above > 0.0:  # from below, a floor must not hide the robot
            factor = -above / facing
            at = eye.at + factor * ray
            p, q = wp.dot(at - floor.at, floor.x), wp.dot(at - floor.at, floor.y)
            inside = (floor.half[0] <= 0.0 or wp.abs(p) <= floor.half[0]) and (
                floor.half[1] <= 0.0 or wp.abs(q) <= floor.half[1]
            )
            if inside and 1.0 / factor > nearest:
                pixel = 2.0 * eye.tan / float(height) * factor * wp.length(ray)
                grazing = wp.max(-facing / wp.length(ray), 0.05)
                wide = wp.max(pixel / floor.square, 1e-4)
                deep = wp.max(pixel / (floor.square * grazing), 1e-4)
                odd = 0.5 - 0.5 * square_wave(p / floor.square, wide) * square_wave(q / floor.square, deep)
                tint = (1.0 - odd) * floor.even + odd * floor.odd
                albedo = wp.vec3(tint[0], tint[1], tint[2])
                seen = shaded(albedo, floor.normal, at, -wp.normalize(ray), light, False)
                away = wp.clamp((wp.length(at - floor.centre) / floor.reach - 0.3) / 0.7, 0.0, 1.0)
                strength = tint[3] * (1.0 - away * away * (3.0 - 2.0 * away))
                colour = (1.0 - strength) * colour + strength * seen
                nearest = 1.0 / factor
    if clear.face[y, x] >= 0 and clear.near[y, x] > nearest:
        alpha = clear_faces.colour[clear.face[y, x]][3]
        colour = (1.0 - alpha) * colour + alpha * surface_colour(clear, clear_faces, y, x, eye, light)
    image[y, x] = colour
