"""What is too large is an error before anything is allocated, and a System works on in a process that was forked."""

import os
import signal
import time

import numpy as np
import pytest
import torch

import pullback as pb
from pullback.core import arrays
from pullback.dynamics.tree import zeros_struct
from pullback.kernels import Flavour, specialise

ARM = pb.load(pb.robots.arm())
QUADRUPED = pb.load(pb.robots.quadruped())


def refusal(make) -> str:
    """The message, which must be one line and come within a second."""
    began = time.process_time()
    with pytest.raises(pb.PullbackError) as error:
        make()
    assert time.process_time() - began < 1
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_of_states_that_kernels_cannot_step_over(dtype):
    worlds = 2**31 // (ARM.nq * np.dtype(dtype).itemsize) + 1
    message = refusal(lambda: pb.Articulated(ARM, contact=None, worlds=worlds, dtype=dtype))
    assert f"{worlds} worlds" in message and "2 GiB" in message


def test_a_row_of_controls_that_kernels_cannot_step_over():
    motors = "".join(f'<motor name="m{i}" joint="j"/>' for i in range(40))
    hinge = '<body><joint name="j"/><geom size=".1"/></body>'
    model = pb.load(f"<mujoco><worldbody>{hinge}</worldbody><actuator>{motors}</actuator></mujoco>")
    assert "2 GiB" in refusal(lambda: pb.Articulated(model, contact=None, worlds=2**31 // (40 * 8) + 1))


def test_a_block_of_a_workspace_that_kernels_cannot_step_over(monkeypatch):
    monkeypatch.setattr(arrays, "memory_left", lambda device: 2**60)
    rows = specialise(Flavour("float64", "impulse_model", True), "rows").Rows
    shapes = {name: (1, 2**16, 2**16) for name in rows.vars}
    assert "2 GiB" in refusal(lambda: zeros_struct(rows, shapes, "cpu"))


@pytest.mark.parametrize("contact", [pb.ContactConvex, pb.ContactImpulse, pb.ContactCompliant])
@pytest.mark.parametrize("count", [10**9, 10**18])
def test_contacts_for_which_there_is_no_memory(contact, count):
    assert "max_contacts" in refusal(lambda: pb.Articulated(QUADRUPED, contact(max_contacts=count)))


def test_worlds_for_which_there_is_no_memory():
    assert "fewer worlds" in refusal(lambda: pb.Articulated(ARM, worlds=10**9))


def test_a_trajectory_for_which_there_is_no_memory(monkeypatch):
    monkeypatch.setattr(arrays, "memory_left", lambda device: 2**30)
    system = pb.Articulated(ARM, contact=None, worlds=100)
    assert "checkpoint_every" in refusal(lambda: pb.rollout(system, system.state(), steps=10**6))


def test_precisions_of_every_library():
    import jax.numpy as jnp

    for dtype in (np.float32, np.dtype("float32"), torch.float32, jnp.float32, "float32"):
        assert arrays.check_precision(dtype) == "float32"
    for dtype in (np.float64, torch.float64, jnp.float64, "float64"):
        assert arrays.check_precision(dtype) == "float64"
    for dtype in (torch.int32, torch.float16, np.int64, "f4", 3):
        with pytest.raises(pb.PullbackError, match="not supported"):
            arrays.check_precision(dtype)


def in_child(work, seconds: int = 20) -> int:
    """The exit status of a forked process that works, and is killed if that takes too long."""
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_systems_work_in_a_forked_process():
    system = pb.Articulated(ARM, contact=None, worlds=4, threads=2)
    chain = pb.reach.chain.Chain(ARM, "base", "tip")
    angles = chain.random(8, np.random.default_rng(0))

    def gradients():
        run = pb.rollout(system, system.state(), steps=5)
        return run.pullback(q_bar=np.ones((4, ARM.nq))).state.q

    def poses():
        return chain.forward(angles)

    still = pb.thermal.Toolpath([0.0, 1.0], np.zeros((2, 3)), [0.0, 0.0])
    part = pb.thermal.block((0.01, 0.01, 0.01), (10, 10, 10))
    heat = pb.thermal.Heat(part, pb.thermal.steel_316l(), still, dt=0.01, threads=2)  # two cores that share a world

    def temperatures():
        return pb.rollout(heat, heat.state(300.0 + 1e4 * part.nodes[:, 0]), steps=3).T

    expected = gradients(), poses(), temperatures()

    def work():
        assert np.array_equal(gradients(), expected[0]) and np.array_equal(poses(), expected[1])
        assert np.array_equal(temperatures(), expected[2])

    assert in_child(work) == 0
    with system._crew.lock:  # as if another thread were in the middle of a launch
        assert in_child(work) == 0
