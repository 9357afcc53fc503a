"""NumPy archives (.npz) from untrusted sources: their size is checked before unpacking, and pickles are refused."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

# The most that an archive may unpack to, because a small file can declare any number of zeros. [bytes]
LARGEST = 2**30
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_arrays(path: Path, wanted: Callable[[str], bool] = bool, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays of an archive whose names satisfy ``wanted``. A ValueError says what is wrong with the archive."""
    total, names = 0, []
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if not wanted(name):
                continue
            with archive.open(member) as file:
                header = HEADERS.get(np.lib.format.read_magic(file))
                if header is None:
                    raise ValueError(f"{name} is written in a format that is not known")
                shape, _, dtype = header(file)
            size = math.prod(shape) * dtype.itemsize
            total += size
            if size < 0 or size > member.file_size:
                raise ValueError(f"{name} declares {size} bytes, more than it holds")
            if total > largest:
                raise ValueError(f"its arrays take more than {largest / 2**30:.3g} GiB")
            names.append(name)
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in names}
