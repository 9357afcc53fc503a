"""Arrays on their way in: what is taken, what is refused, and what the messages say."""

import numpy as np
import pytest
import torch
import warp as wp

import pullback as pb
from pullback.core.arrays import check_device, check_precision, checked, first_not_finite, from_device, to_device

AXES = ("worlds", "nq")


def take(x, precision="float64"):
    return checked(x, (2, 3), precision, "q", AXES)


@pytest.mark.parametrize(
    "given",
    [
        np.arange(6).reshape(2, 3),
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.arange(6.0, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        [[0, 1, 2], [3, 4, 5]],
        ((0, 1, 2), (3.0, 4, 5)),
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0, requires_grad=True).reshape(2, 3),
        wp.array(np.arange(6.0).reshape(2, 3), dtype=wp.float32, device="cpu"),
    ],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_what_is_taken(given, precision):
    array = take(given, precision)
    assert array.dtype == precision and array.flags.c_contiguous
    np.testing.assert_array_equal(array, np.arange(6.0).reshape(2, 3))


def test_truth_values_are_numbers():
    np.testing.assert_array_equal(take(np.eye(2, 3, dtype=bool)), np.eye(2, 3))


@pytest.mark.parametrize(
    "given, message",
    [
        (np.zeros((3, 2)), r"q has shape \(3, 2\), but \(worlds=2, nq=3\)"),
        (np.zeros(3), r"q has shape \(3,\)"),
        (None, "q cannot be read"),
        ("zero", "q cannot be read"),
        (np.zeros((2, 3), complex), "q .*complex"),
        ([["a"] * 3] * 2, "q cannot be read"),
        ([[0.0] * 3, [0.0]], "q cannot be read"),
        (np.full((2, 3), None), "q .*object"),
        (np.zeros((2, 3), "datetime64[s]"), "q .*datetime"),
        ([[0, 1, np.nan], [0, 0, 0]], "q is not finite at worlds 0, nq 2: it is nan"),
        ([[0, 1, 0], [-np.inf, 0, np.nan]], "q is not finite at worlds 1, nq 0: it is -inf"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(pb.PullbackError, match=message):
        take(given)


def test_what_does_not_fit_single_precision():
    with np.errstate(over="ignore"), pytest.raises(pb.PullbackError, match="worlds 1, nq 1"):
        take([[0, 0, 0], [0, 1e39, 0]], "float32")


def test_a_number_without_axes_keeps_none():
    assert checked(2.0, (), "float64", "density", ()).shape == ()


def test_large_numbers_are_finite():
    """Their squares are not; nor is the sum of those."""
    assert first_not_finite(np.array([[1e200, -1e308]])) is None
    assert first_not_finite(np.array([[1e30, 1e38]], np.float32)) is None
    assert first_not_finite(np.array([[1e200, np.nan]])) == (0, 1)
    assert first_not_finite(np.array([[0.0, 1.0], [np.inf, 0.0]])) == (1, 0)
    assert first_not_finite(np.zeros((0, 3))) is None


def test_precisions():
    assert (
        check_precision("float32") == check_precision(np.float32) == check_precision(np.dtype("float32")) == "float32"
    )
    assert check_precision(float) == "float64"
    for wrong in ("float16", "half", np.int32):
        with pytest.raises(pb.PullbackError, match="float64"):
            check_precision(wrong)


def test_devices(capfd):
    assert check_device("cpu") == "cpu"
    if not wp.is_cuda_available():
        with pytest.raises(pb.PullbackError, match="'cuda' is not available here; there is: cpu"):
            check_device("cuda")
        assert capfd.readouterr().err == ""  # none of Warp's own
    with pytest.raises(pb.PullbackError, match="'tpu' is not available here; there is: cpu"):
        check_device("tpu")


def test_the_cpu_shares_memory():
    array = np.arange(6.0).reshape(2, 3)
    device = to_device(array, "float64", "cpu")
    back = from_device(device)
    array[0, 0] = 7.0
    assert back[0, 0] == 7.0


def test_the_error_is_a_value_error():
    assert issubclass(pb.PullbackError, ValueError)
