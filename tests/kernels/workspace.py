"""What kernels under test read and write: arrays, hulls of meshes, contacts; and random rotations."""

import numpy as np
import warp as wp

from pullback.kernels import specialise
from pullback.spatial import quat_matrix

READ = ("pos", "normal", "dist", "along", "feature1", "feature2", "approach")


def upload(values, dtype, precision: str) -> wp.array:
    """A Warp array on the CPU; real numbers in this precision, whole ones as they are."""
    values = np.asarray(values)
    values = values.astype(precision) if values.dtype.kind == "f" else values
    return wp.array(np.ascontiguousarray(values), dtype=dtype, device="cpu")


def put_hulls(mesh, hulls: dict[str, np.ndarray], precision: str) -> None:
    """Fills the kernels' struct Mesh."""
    vec3 = specialise(precision, "spatial.scalar").vec3
    for name, values in hulls.items():
        floats = values.dtype.kind == "f"
        setattr(mesh, name, upload(values if floats else values.astype("i4"), vec3 if floats else int, precision))


def contact_workspace(precision: str, most: int, poses: int):
    """The kernels' struct Contacts, that holds so many contacts of each pose."""
    scalar, shapes = specialise(precision, "spatial.scalar"), specialise(precision, "collision.shapes")
    types = {"count": int, "pair": int, "pos": scalar.vec3, "normal": scalar.vec3, "dist": scalar.real, "along": int}
    types |= dict.fromkeys(("feature1", "feature2"), shapes.Feature) | {"approach": shapes.Approach}
    contacts = shapes.Contacts()
    for name, dtype in types.items():
        setattr(contacts, name, wp.zeros((1 if name == "count" else most, poses), dtype=dtype, device="cpu"))
    return contacts


def found_contacts(contacts) -> dict[str, np.ndarray]:
    """The contacts of every pose, padded: arrays ``[pose, contact]``, and how many there are of each, ``count``."""
    found = {name: getattr(contacts, name).numpy().swapaxes(0, 1) for name in READ}
    return found | {"count": contacts.count.numpy()[0]}


def rotations(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random rotation matrices (n, 3, 3)."""
    return quat_matrix(rng.normal(size=(n, 4)))
