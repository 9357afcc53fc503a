import numpy as np
import pytest

import pullback as pb


class Springs(pb.System):
    """Point masses on springs in plain NumPy, with no more than the contract asks for."""

    dtype, device = "float64", "cpu"
    worlds, nq, nv, nu = 2, 3, 3, 3
    h = 0.1  # [s]

    def __init__(self):
        self.params = {"stiffness": np.array([1.0, 2.0, 3.0])}  # [N/m]

    def step(self, state, control, params=None):
        k = {**self.params, **(params or {})}["stiffness"]
        v = state.v + self.h * (control - k * np.sin(state.q))
        return pb.State(state.q + self.h * v, v)

    def pullback(self, state, control, next_bar, params=None):
        k = {**self.params, **(params or {})}["stiffness"]
        v_bar = next_bar.v + self.h * next_bar.q
        k_bar = -self.h * np.sum(v_bar * np.sin(state.q), axis=0)
        q_bar = next_bar.q - self.h * v_bar * k * np.cos(state.q)
        return pb.Bars(pb.State(q_bar, v_bar), self.h * v_bar, {"stiffness": k_bar})


@pytest.fixture
def springs():
    return Springs()
