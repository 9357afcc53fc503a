"""Archives from strangers: what they declare is counted before anything is unpacked."""

import time
import zipfile

import numpy as np
import pytest

import pullback as pb
from pullback.core.archives import read_arrays
from pullback.plan.loop import load_checkpoint
from pullback.view.motion import load_motion


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def write(path, **members: bytes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def a_gigabyte_and_more(path, name: str):
    """Of zeros, which take a megabyte."""
    rows = 2**30 // 2**20 + 8
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as file:
        file.write(header((rows * 2**20,), "|u1"))
        for _ in range(rows):
            file.write(bytes(2**20))
    return path


READERS = {
    "draw_poses": (load_motion, "motion file"),
    "space": (pb.reach.ReachabilityMap.load, "reachability map"),
    "progress_x": (lambda path: load_checkpoint(path, {}), "checkpoint"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("lie", [header((10**10,)), header((1,), "<U400000000"), header((2**40, 2**40, 2**40))])
def test_what_declares_more_than_it_holds(tmp_path, name, lie):
    reader, what = READERS[name]
    path = write(tmp_path / "lie.npz", **{name: lie})
    began = time.process_time()
    with pytest.raises(pb.PullbackError, match=what) as error:
        reader(path)
    assert time.process_time() - began < 1
    assert "more than it holds" in str(error.value) and "\n" not in str(error.value)


def test_what_unpacks_to_gigabytes(tmp_path):
    path = a_gigabyte_and_more(tmp_path / "zeros.npz", "draw_poses")
    assert path.stat().st_size < 2 * 2**20
    began = time.process_time()
    with pytest.raises(pb.PullbackError, match="more than 1 GiB"):
        load_motion(path)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("data", [b"text", b"\x93NUMPY\x09\x00", header((1,), "|O") + bytes(8), header((-1,))])
def test_what_is_no_array(tmp_path, data):
    with pytest.raises(pb.PullbackError, match="motion file"):
        load_motion(write(tmp_path / "odd.npz", draw_poses=data))


def test_what_is_wanted_is_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(3), text=np.array("ü"), empty=np.zeros((0, 3)))
    arrays = read_arrays(tmp_path / "a.npz", lambda name: name != "x")
    assert set(arrays) == {"text", "empty"} and str(arrays["text"]) == "ü" and arrays["empty"].shape == (0, 3)
