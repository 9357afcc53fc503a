"""Gradients of particles against central differences: every state, control and parameter."""

import numpy as np
import pytest
from crowds import KINDS, crowd, motion, rest

import pullback as pb
from pullback import soft
from pullback.core.bars import Bars, Named

ALWAYS = {"x", "v", "C", "F", "Jp", "shear", "lame", "density", "viscosity", "gravity", "control", "strength"}
OWN = {"von Mises": {"yield_stress"}, "sand": {"friction_angle"}, "snow": {"compression", "stretch", "hardening"}}


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("material", KINDS)
@pytest.mark.parametrize("wall", ["free", "Coulomb"])
def test_every_gradient_is_right(dim, material, wall):
    system = crowd(dim, KINDS[material], wall)
    report = pb.check_system(system, *motion(system))
    expected = ALWAYS | OWN.get(material, set()) | ({"friction"} if wall == "Coulomb" else set())
    assert {row.field for row in report.rows} == expected
    for row in report.rows:
        assert row.status == "agrees" and row.largest > 0.0 and row.error < 1e-7, row


@pytest.mark.parametrize("wall", ["slip", "sticky", "clamped"])
def test_every_wall_is_right(wall):
    system = crowd(2, KINDS["corotated"], wall)
    report = pb.check_system(system, *motion(system, seed=1))
    for row in report.rows:
        assert row.status == "agrees" or row.field == "friction", row


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("material", KINDS)
def test_gradients_at_rest(dim, material):
    """Where nothing moves and all singular values agree."""
    system = crowd(dim, KINDS[material], "free")
    start = rest(system, material)
    names = ("x", "v", "C", "F", "control", "gravity")
    report = pb.check_system(system, start, np.zeros((system.worlds, 1)), names=names)
    for row in report.rows:
        assert row.status == "agrees" and row.largest > 0.0 and row.error < 1e-7, row


def test_gradients_of_what_differs_between_worlds():
    system = crowd(2, KINDS["neo-Hookean"], "Coulomb")
    for name, value in list(system.params.items()):
        system.params[name] = np.stack([value, 1.03 * np.asarray(value)])
    state, control = motion(system)
    report = pb.check_system(system, state, np.stack([control] * 3), rollout_steps=3)
    for row in report.rows:
        assert row.status == "agrees" and row.largest > 0.0, row


def test_a_wrong_gradient_would_be_found(monkeypatch):
    """The checks above fail on zeros, for any of the parameters."""
    system = crowd(2, KINDS["neo-Hookean"], "Coulomb")
    pullback = type(system).pullback
    for name in system.params:

        def forgetful(self, *args, name=name, **rest):
            bars = pullback(self, *args, **rest)
            return Bars(bars.state, bars.control, Named(bars.params | {name: np.zeros_like(bars.params[name])}))

        monkeypatch.setattr(type(system), "pullback", forgetful)
        with pytest.raises(pb.PullbackError, match=name):
            pb.check_system(system, *motion(system), names=[name])


def test_single_precision_agrees():
    system = crowd(2, KINDS["corotated"], "Coulomb", dtype="float32")
    pb.check_system(system, *motion(system))


def test_a_long_rollout_has_the_gradient_of_differences():
    """By activation and stiffness, over 300 steps and across contact with a floor."""
    muscle = soft.Muscle((0.0, 1.0), 2.0)
    body = soft.block(
        (0.3, 0.26), (0.5, 0.4), (8, 6), soft.Corotated(young=30.0, poisson=0.25, density=1.0), muscle=muscle
    )
    floor = [soft.Wall((0.0, 0.25), (0.0, 1.0), 0.5)]
    system = soft.Particles([body], dx=1 / 32, cells=(33, 33), dt=2e-3, gravity=(0.0, -2.0), walls=floor)
    controls = np.sin(0.05 * np.arange(300))[:, None, None]
    moved = np.random.default_rng(0).normal(size=controls.shape)

    def loss(u, shear):
        states = system.steps(system.state(), u, keep_every=300, params={"shear": shear})
        return states.x[-1, 0, :, 0].mean() + states.x[-1, 0, :, 1].max()

    shear = np.array(system.params["shear"])
    run = pb.rollout(system, system.state(), controls, checkpoint_every="sqrt")
    x_bar = np.zeros((1, system.n, 2))
    x_bar[..., 0] = 1 / system.n
    x_bar[0, np.argmax(run.final.x[0, :, 1]), 1] = 1.0
    grads = run.pullback(x_bar=x_bar)
    for exact, up, down, h in (
        (np.sum(grads.controls * moved), (controls + 1e-6 * moved, shear), (controls - 1e-6 * moved, shear), 1e-6),
        (grads.params.shear[0], (controls, shear + 1e-5), (controls, shear - 1e-5), 1e-5),
    ):
        assert abs(exact) > 1e-6
        assert (loss(*up) - loss(*down)) / (2 * h) == pytest.approx(exact, rel=1e-4)
