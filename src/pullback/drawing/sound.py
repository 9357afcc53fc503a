"""Whether a drawing is sound: its fields come from files of strangers, and from Systems of users."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

KINDS = ("plane", "sphere", "capsule", "cylinder", "box", "mesh")
# Kinds of dtypes, as NumPy calls them, of the fields that are not simply numbers.
DTYPES = {
    "U": ("title", "shape_kind", "paint_unit"),
    "b": ("body_moves",),
    "iu": ("paint", "worlds", "shape_mesh", "shape_body", "mesh_faces", "mesh_sizes", "contact_frame"),
}
SHAPES = {  # the first field with an axis of some name says how long it is
    **{"title": (), "worlds": (), "paint_unit": (), "times": ("frames",), "body_moves": ("bodies",)},
    **{"poses": ("frames", "copies", "bodies", 7), "body_com": ("bodies", 3)},
    **{"shape_kind": ("shapes",), "shape_size": ("shapes", 3), "shape_mesh": ("shapes",), "shape_body": ("shapes",)},
    **{"shape_pos": ("shapes", 3), "shape_quat": ("shapes", 4), "shape_colours": ("shapes", 2, 4)},
    **{"mesh_vertices": ("vertices", 3), "mesh_faces": ("faces", 3), "mesh_sizes": ("meshes", 2)},
    **{"contact_frame": ("contacts",), "contact_pos": ("contacts", 3), "contact_force": ("contacts", 3)},
    **{"body_gradients": ("frames", "bodies", 3), "losses": ("iterations",), "camera": (2, 3)},
    **{"paint": ("frames", "vertices"), "paint_range": (2,), "face_times": ("faces", 2)},
}
MAY_BE_EMPTY = ("body_gradients", "camera", "paint", "paint_range", "face_times")


def problem(held: Mapping[str, np.ndarray], prefix: str = "") -> str:
    """What is wrong with the fields of a drawing, arrays by name, or "". prefix: of the names in the message."""
    for name, array in held.items():
        if array.dtype.kind not in next((kinds for kinds, names in DTYPES.items() if name in names), "iuf"):
            return f"{prefix}{name} holds {array.dtype}"
    sizes: dict = {}
    for name, wanted in SHAPES.items():
        array = held[name]
        if array.ndim == len(wanted):
            for size, axis in zip(array.shape, wanted, strict=True):
                sizes.setdefault(axis, size)
        shape = tuple(sizes.get(axis, axis) for axis in wanted)
        absent = name in MAY_BE_EMPTY and array.ndim == len(wanted) and not len(array)
        if array.shape != shape and not absent:
            return f"{prefix}{name} has shape {array.shape}, not {shape}"
        if array.dtype.kind == "f" and not np.isfinite(array).all() and name != "losses":
            return f"{prefix}{name} is not finite"
    if not sizes["frames"] or not 1 <= held["worlds"] <= sizes["copies"] or np.any(np.diff(held["times"]) <= 0):
        return "there must be frames, their times rising, and worlds"
    if not set(held["shape_kind"].tolist()) <= set(KINDS):
        return f"a shape is one of {', '.join(KINDS)}"
    if len(held["paint"]) and not len(held["paint_range"]):
        return "paint needs a paint_range"
    vertices, faces = held["mesh_sizes"].T
    inside = (
        _within(held["shape_body"], sizes["bodies"])
        and _within(held["shape_mesh"][held["shape_kind"] == "mesh"], sizes["meshes"])
        and np.all(held["mesh_sizes"] >= 0)
        and (vertices.sum(), faces.sum()) == (sizes["vertices"], sizes["faces"])
        and _within(held["mesh_faces"], np.repeat(vertices, faces)[:, None])
        and _within(held["contact_frame"], sizes["frames"])
        and np.all(np.diff(held["contact_frame"]) >= 0)
    )
    return "" if inside else "an index in it leads nowhere"


def _within(index: np.ndarray, count) -> bool:
    return bool(np.all((index >= 0) & (index < count)))
