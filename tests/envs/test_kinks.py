"""Kinks of rewards: the gradient on either side is that of differences there, and is another on the other side."""

import pytest

torch = pytest.importorskip("torch")

from pullback.envs.cartpole import CartPole  # noqa: E402
from pullback.envs.environment import EnvState  # noqa: E402
from pullback.envs.runner import height_reward  # noqa: E402


def sides(function, kink: float, away: float = 1e-3) -> list[float]:
    """Gradients just below and above a kink, each checked against differences that stay on its side."""
    found = []
    for at in (kink - away, kink + away):
        x = torch.tensor([at], dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(function(x).sum(), x)
        for h in (1e-4, 1e-5, 1e-6):
            ahead, behind = (float(function(torch.tensor([at + side * h], dtype=torch.float64))) for side in (1, -1))
            assert (ahead - behind) / (2 * h) == pytest.approx(float(gradient), rel=1e-6, abs=1e-8)
        found.append(float(gradient))
    return found


def test_height_rewards():
    reward = lambda z: height_reward(z, 0.5, tolerance=0.1, cap=0.3, slope=2.0)  # noqa: E731
    assert sides(reward, 0.6) == pytest.approx([0.4, 2.0])  # below, -200 y² falls towards it
    assert sides(reward, 0.9) == pytest.approx([2.0, 0.0])  # nothing more is gained beyond the cap
    assert sides(reward, -0.4) == pytest.approx([0.0, 399.6])  # nor lost, a metre below


def test_the_cart_pole_s_angle_turns_over_where_it_hangs():
    env = CartPole(dtype="float64")

    def angle(hanging):
        q = torch.stack([torch.zeros_like(hanging), hanging], dim=1)
        return env.angle(EnvState(env.system.state_type(q, torch.zeros_like(q)), None, {}, None)) ** 2

    below, above = sides(angle, 0.0)
    assert below == pytest.approx(-above, rel=1e-9) and abs(above) > 6  # towards upright on either side
