"""Arrays at the public interface: NumPy on the CPU, Warp on CUDA. Arrays from users are checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import warp as wp

from pullback.core.errors import PullbackError
from pullback.core.launch import start_warp

PRECISIONS = {"float32": wp.float32, "float64": wp.float64}
ITEM_SIZES = {"float32": 4, "float64": 8}  # [bytes]
# Warp holds the strides of an array as int32. [bytes]
LONGEST_STRIDE = 2**31 - 1
FEWER = "use fewer worlds or steps, or checkpoint_every"
# Arrays up to this size are allocated without a check of the free memory. [bytes]
SMALL = 2**28


def check_precision(dtype) -> str:
    """The name of a supported precision: "float32" or "float64"."""
    try:
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    except (TypeError, ValueError):
        name = str(dtype).removeprefix("torch.")
    if not isinstance(name, str) or name not in PRECISIONS:
        raise PullbackError(f"dtype {name!r} is not supported: use 'float64' or 'float32'")
    return name


def check_device(device) -> str:
    """The name of a device Warp can use here, such as "cpu" or "cuda:0"."""
    start_warp()
    try:
        if str(device).startswith("cuda") and not wp.is_cuda_available():  # Warp would print errors of its own first
            raise RuntimeError("there is no CUDA device")
        return str(wp.get_device(None if device is None else str(device)))
    except Exception as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        raise PullbackError(f"device {device!r} is not available here; there is: {known}") from error


def to_numpy(x) -> np.ndarray:
    """A NumPy view or copy of a NumPy, Warp or torch array, or of nested lists."""
    if isinstance(x, wp.array):
        return x.numpy()
    if hasattr(x, "detach"):  # torch
        return x.detach().cpu().numpy()
    return np.asarray(x)


def to_numbers(x, name: str) -> np.ndarray:
    """x as a NumPy array of numbers, or an error."""
    try:
        array = to_numpy(x)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"its dtype is {array.dtype}")
    except (TypeError, ValueError) as error:
        raise PullbackError(f"{name} cannot be read as an array of numbers: {error}") from error
    return array


def first_not_finite(x: np.ndarray) -> tuple[int, ...] | None:
    """Index of the first NaN or infinity."""
    # The sum of squares takes one pass and no temporary array; the slow search runs only if something is wrong.
    if np.isfinite(np.vdot(x, x)):
        return None
    bad = np.argwhere(~np.isfinite(x))
    return tuple(int(i) for i in bad[0]) if len(bad) else None


def square_sum(arrays: list) -> float:
    """The sum of all squares; not finite if an entry is not, or if the squares overflow.

    Arrays on a GPU are summed there, and the result is read once.
    """
    here = [to_numpy(x) for x in arrays if not isinstance(x, wp.array) or x.device.is_cpu]
    there = [x.contiguous().flatten() for x in arrays if isinstance(x, wp.array) and not x.device.is_cpu and x.size]
    total = sum(float(np.vdot(x, x)) for x in here if x.dtype.kind == "f")
    return total + (float(_square_sums(there).numpy().sum()) if there else 0.0)


def _square_sums(flat: list[wp.array]) -> wp.array:
    """The sum of squares of each array, on their device."""
    sums = wp.empty(len(flat), dtype=flat[0].dtype, device=flat[0].device)
    for i, x in enumerate(flat):
        wp.utils.array_inner(x, x, out=sums[i : i + 1])
    return sums


def checked(x, shape: tuple[int, ...], precision: str, name: str, axes: tuple[str, ...]) -> np.ndarray:
    """x as a contiguous NumPy array of this shape and precision, or an error that says what is wrong.

    ``axes`` names the axes for the message, e.g. ("worlds", "nq").
    """
    array = to_numbers(x, name)
    if array.shape != shape:
        wanted = ", ".join(f"{axis}={size}" for axis, size in zip(axes, shape, strict=True))
        raise PullbackError(f"{name} has shape {tuple(array.shape)}, but ({wanted}) is needed")
    if array.dtype != precision:
        with np.errstate(over="ignore"):  # a number too large for the precision becomes infinite, and is found below
            array = array.astype(precision)
    # The flat reshape in between gives axes of length one the stride that Warp expects.
    array = np.ascontiguousarray(array).reshape(-1).reshape(shape)
    bad = first_not_finite(array)
    if bad is not None:
        where = ", ".join(f"{axis} {i}" for axis, i in zip(axes, bad, strict=True))
        worlds = np.argwhere(~np.isfinite(array))[:, axes.index("worlds")] if "worlds" in axes else ()
        raise PullbackError(f"{name} is not finite at {where}: it is {array[bad]}", worlds=np.unique(worlds))
    return array


def to_device(array: np.ndarray, precision: str, device: str, dtype=None) -> wp.array:
    """A Warp array with a contiguous NumPy array's numbers: a view on the CPU, a copy on CUDA."""
    if device != "cpu" or dtype is not None or not array.size:
        return wp.array(array, dtype=dtype or PRECISIONS[precision], device=device, copy=device != "cpu")
    # The same view made from its address takes half the time, which matters in single steps.
    address = array.__array_interface__["data"][0]
    view = wp.array(ptr=address, dtype=PRECISIONS[precision], shape=array.shape, device=device)
    view.lent_by = array  # keeps the memory alive
    return view


def from_device(array: wp.array):
    """The array that a user gets: a NumPy view on the CPU, the Warp array itself on CUDA."""
    return array.numpy() if array.device.is_cpu else array


def memory_left(device: str) -> int:
    """The most memory that an array could have [bytes]: all of a GPU, or what the system or container has free."""
    if device != "cpu":
        return wp.get_device(device).total_memory
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        left = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except OSError:  # not Linux
        left = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    try:
        left.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such file, or no limit in it
        pass
    return min(left, default=2**63)


def require_memory(size: int, device: str, what: str, remedy: str) -> None:
    """Raises an error if ``size`` [bytes] are not available: allocating them would end the process, not the call."""
    if size > SMALL and size > (left := memory_left(device)):
        raise PullbackError(
            f"{what} takes {size / 2**30:.3g} GiB, but there are {left / 2**30:.3g} GiB on {device}: {remedy}"
        )


def require_strides(shape: tuple[int, ...], itemsize: int, what: str, remedy: str) -> None:
    """Raises an error if kernels could not index an array of this shape."""
    stride = itemsize * math.prod(shape[1:])
    if stride > LONGEST_STRIDE:
        raise PullbackError(
            f"{what} makes rows of {stride / 2**30:.3g} GiB, and kernels work on rows of less than 2 GiB: {remedy}"
        )
    if max(shape, default=0) > LONGEST_STRIDE:
        raise PullbackError(f"{what} makes {max(shape)} rows, and kernels count to 2³¹: {remedy}")


def require_space(shape: tuple[int, ...], dtype, device: str, what: str = "", remedy: str = FEWER) -> None:
    """Raises an error if an array of this shape could not be allocated, or could not be indexed by kernels."""
    itemsize = ITEM_SIZES.get(dtype) or wp.types.type_size_in_bytes(dtype)
    size = itemsize * math.prod(shape)
    if size > SMALL:
        what = what or f"an array of shape {tuple(shape)}"
        require_strides(shape, itemsize, what, remedy)
        require_memory(size, device, what, remedy)


def empty(shape: tuple[int, ...], precision: str, device: str) -> wp.array:
    require_space(shape, precision, device)
    if device == "cpu":
        return to_device(np.empty(shape, precision), precision, device)
    return wp.empty(shape, dtype=PRECISIONS[precision], device=device)


def zeros(shape: tuple[int, ...], precision: str, device: str) -> wp.array:
    require_space(shape, precision, device)
    if device == "cpu":
        return to_device(np.zeros(shape, precision), precision, device)
    return wp.zeros(shape, dtype=PRECISIONS[precision], device=device)


def as_reals(array: wp.array, steps: int, worlds: int, precision: str) -> wp.array:
    """A view of an array of vectors, or of more axes, as numbers (steps, worlds, n)."""
    kind = PRECISIONS[precision]
    size = array.size * wp.types.type_size_in_bytes(array.dtype) // wp.types.type_size_in_bytes(kind)
    view = wp.array(ptr=array.ptr, dtype=kind, shape=(steps, worlds, size // (steps * worlds)), device=array.device)
    view.owner = array  # keeps the memory alive
    return view


def as_items(array, dtype, axes: int) -> wp.array:
    """A view of a contiguous array as a Warp array of items (vectors or matrices) with ``axes`` axes."""
    if isinstance(array, wp.array):
        address, device = array.ptr, array.device
    else:
        address, device = array.__array_interface__["data"][0], "cpu"
    view = wp.array(ptr=address, dtype=dtype, shape=array.shape[:axes], device=device)
    view.lent_by = array  # keeps the memory alive
    return view


def full_shape(x) -> tuple[int, ...]:
    """The shape of an array including the axes of its items. Warp's arrays have at most four axes, so states with more
    are stored as arrays of vectors or matrices."""
    items = getattr(x.dtype, "_shape_", ()) if isinstance(x, wp.array) else ()
    return (*x.shape, *items)


def as_numbers(array: wp.array) -> wp.array:
    """A view of an array of items as numbers, with the items' axes last."""
    dtype = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    view = wp.array(ptr=array.ptr, dtype=dtype, shape=full_shape(array), device=array.device)
    view.owner = array  # keeps the memory alive
    return view


def upload_per_world(array: np.ndarray, dtype, worlds: int, precision: str, device: str) -> wp.array:
    """A Warp array [world, item] of type ``dtype`` from (1 or worlds, items, ...). Short items are padded with zeros.

    A value that all worlds share is stored once, with a stride of zero along worlds.
    """
    if wp.types.type_is_vector(dtype):
        array = array if array.ndim == 3 else array[..., None]
        array = np.pad(array, ((0, 0), (0, 0), (0, dtype._length_ - array.shape[2])))
    base = wp.array(np.ascontiguousarray(array, dtype=precision), dtype=dtype, device=device, ndim=2)
    if len(array) == worlds:
        return base
    shared = wp.array(
        ptr=base.ptr, dtype=dtype, shape=(worlds, base.shape[1]), strides=(0, base.strides[1]), device=device
    )
    shared.owner = base  # keeps the memory alive
    return shared


def upload(kind, arrays: Mapping[str, np.ndarray], device: str):
    """A kernels' struct of type ``kind``, filled with arrays of the same names."""
    struct = kind()
    for name, array in arrays.items():
        field = kind.vars[name].type
        number = wp.dtype_to_numpy(getattr(field.dtype, "_wp_scalar_type_", field.dtype))
        array = np.ascontiguousarray(array, dtype=number)
        setattr(struct, name, wp.array(array, dtype=field.dtype, ndim=field.ndim, device=device))
    return struct
