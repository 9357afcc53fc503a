"""Gradients of particles against central differences: every state, control and parameter."""

import math

import numpy as np
import pytest

import pullback as pb
from pullback import soft
from pullback.core.system import Bars, Named

ALWAYS = {"x", "v", "C", "F", "Jp", "shear", "lame", "density", "viscosity", "gravity", "control", "strength"}
KINDS = {
    "neo-Hookean": soft.NeoHookean(young=6.0, poisson=0.25, density=1.3, viscosity=0.02),
    "corotated": soft.Corotated(young=6.0, poisson=0.25, density=1.3, viscosity=0.02),
    "water": soft.Water(bulk=5.0, density=1.1, exponent=7.0, viscosity=0.03),
    "Hencky": soft.Hencky(young=6.0, poisson=0.25, density=1.3, viscosity=0.02),
    "von Mises": soft.VonMises(young=6.0, poisson=0.25, density=1.3, viscosity=0.02, yield_stress=0.7),
    "sand": soft.Sand(young=6.0, poisson=0.25, density=1.3, viscosity=0.02, friction_angle=0.4),
    "snow": soft.Snow(
        young=6.0, poisson=0.25, density=1.3, viscosity=0.02, compression=0.1, stretch=0.1, hardening=3.0
    ),
}


def walls(dim, kind):
    """Two that overlap in a corner, or none."""
    up, across = np.eye(dim)[-1], np.eye(dim)[0]
    second = soft.Wall([0.55] * dim, -across, 0.1)
    return {
        "free": [],
        "slip": [soft.Wall([0.3] * dim, up + 0.2 * across, 0.0)],
        "Coulomb": [soft.Wall([0.3] * dim, up + 0.2 * across, 0.4), second],
        "sticky": [soft.Wall([0.3] * dim, up, math.inf), second],
        "clamped": [soft.Wall([0.3] * dim, up, clamped=True), second],
    }[kind]


def crowd(dim, material, wall, **options):
    """A few particles that share cells, some of them of another kind and without muscle; some behind walls."""
    points = np.random.default_rng(0).uniform(0.3, 0.6, (10, dim)) - 0.12 * np.eye(dim)[-1]
    muscle = soft.Muscle(np.arange(1, dim + 1), 0.7)
    other = soft.NeoHookean(young=5.0, poisson=0.3, density=1.0)
    bodies = [soft.Body(points[:7], material, 0.02, muscle), soft.Body(points[7:], other, 0.015)]
    settings = {"dx": 1 / 16, "cells": (16,) * dim, "dt": 1e-2, "walls": walls(dim, wall), "worlds": 4 - dim}
    return soft.Particles(bodies, **settings | options)


OWN = {"von Mises": {"yield_stress"}, "sand": {"friction_angle"}, "snow": {"compression", "stretch", "hardening"}}


def motion(system, seed=0):
    """Into walls, along them, and away."""
    random = np.random.default_rng(seed)
    shape = (system.worlds, system.n, system.dim)
    v = 0.5 * random.normal(size=shape) - 0.8 * np.eye(system.dim)[-1]
    C = random.normal(size=(*shape, system.dim))
    F = np.eye(system.dim) + 0.1 * random.normal(size=C.shape)
    return system.state(v=v, C=C, F=F), random.normal(size=(system.worlds, system.nu))


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
    """Where all singular values agree, and nothing moves. Sand at rest is at the tip of its cone, a kink: it is pressed."""
    system = crowd(dim, KINDS[material], "free")
    start = system.state(F=(0.97 if material == "sand" else 1.0) * np.eye(dim))
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
