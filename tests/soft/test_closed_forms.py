"""Particles against what is known without them: a beam that bends, water that rests, sand that begins to slide."""

import math

import numpy as np
import pytest

from pullback import soft


@pytest.mark.parametrize(("cells", "within"), [(3, 0.12), (5, 0.05)])
def test_a_cantilever_bends_as_timoshenko_says(cells, within):
    """Let go, it swings around its rest: the largest deflection is twice w L⁴/(8 E' I) + w L²/(2 k G A), E' that of
    plane strain and k = 5/6, as Timoshenko says. With more cells over its height it comes nearer."""
    young, poisson, length, height, density, g = 1e4, 0.3, 0.3, 0.05, 10.0, 1.0
    dx = height / cells
    start = 0.05 + 6 * dx
    solid = soft.NeoHookean(young=young, poisson=poisson, density=density)
    along = round((length + 6 * dx) / dx) * 2
    body = soft.block((0.05, 0.15), (0.05 + along * dx / 2, 0.15 + height), (along, 2 * cells), solid)
    clamp = soft.Wall((start, 0.0), (1.0, 0.0), clamped=True)
    counts = (int(0.5 / dx) + 4, int(0.25 / dx) + 4)
    options = {"dx": dx, "origin": (0.05 - 3 * dx, 0.0), "gravity": (0.0, -g), "walls": [clamp], "threads": 1}
    system = soft.Particles([body], cells=counts, dt=0.55 * dx / math.sqrt(1.35 * young / density), **options)
    load, free = density * height * g, body.points[:, 0].max() + dx / 4 - start
    wanted = load * free**4 / 8 / (young / (1 - poisson**2) * height**3 / 12)
    wanted += load * free**2 / (2 * 5 / 6 * system.params["shear"][0] * height)
    steps = int(0.2 / system.dt)
    states = system.steps(system.state(), np.zeros((steps, 1, 0)), keep_every=steps // 40)
    tip = body.points[:, 0] > body.points[:, 0].max() - 1e-9
    drop = (states.x[0, 0, tip, 1] - states.x[:, 0, tip, 1]).mean(axis=1)
    assert 5 < np.argmax(drop) < len(drop) - 2, "it swings back"
    assert drop.max() / 2 == pytest.approx(wanted, rel=within)


def test_water_at_rest_stays_at_rest():
    """With hydrostatic pressure nothing moves, and the pressure stays: its slope is density times g."""
    dx, bulk, density, g, gamma = 1 / 32, 1e5, 1000.0, 9.81, 7.0
    water = soft.Water(bulk=bulk, density=density, exponent=gamma, viscosity=2.0)
    body = soft.block((4 * dx, 4 * dx), (14 * dx, 20 * dx), (20, 32), water)
    walls = soft.room((4 * dx, 4 * dx), (14 * dx, 2.0))
    system = soft.Particles([body], dx=dx, cells=(19, 30), dt=0.6 * dx / math.sqrt(bulk / density), walls=walls)
    depth = 20 * dx - body.points[:, 1]
    J = (1 + gamma * density * g * depth / bulk) ** (-1 / gamma)
    start = system.state(F=np.sqrt(J)[:, None, None] * np.eye(2))
    steps = int(0.25 / system.dt)
    states = system.steps(start, np.zeros((steps, 1, 0)), keep_every=steps)
    J = np.linalg.det(states.F[1, 0])
    pressure = bulk / gamma * (J**-gamma - 1)
    inside = (depth > 3 * dx) & (depth < 14 * dx)
    slope = np.polyfit(depth[inside], pressure[inside], 1)[0]
    assert slope == pytest.approx(density * g, rel=0.05)
    assert np.abs(states.x[1] - states.x[0]).max() < 0.5 * dx


@pytest.mark.parametrize(("tilt", "slides"), [(-4.0, False), (4.0, True)])
def test_sand_slides_beyond_its_friction_angle(tilt, slides):
    """A layer on a rough slope, some degrees less or more steep than the angle at which it begins to slide.

    In the plane Drucker and Prager's cone is Mohr and Coulomb's with sin phi' = sqrt(2) alpha. Sand that yields without
    a change of volume slides at tan theta = sin phi' (Davis, 1968).
    """
    dx, g, angle = 1 / 40, 9.81, math.radians(35.0)
    alpha = math.sqrt(2 / 3) * 2 * math.sin(angle) / (3 - math.sin(angle))
    slope = math.atan(math.sqrt(2) * alpha) + math.radians(tilt)
    sand = soft.Sand(young=1e6, poisson=0.3, density=1600.0, friction_angle=angle)
    body = soft.block((0.2, 4 * dx), (2.0, 10 * dx), (144, 12), sand)
    floor = [soft.Wall((0.0, 4 * dx), (0.0, 1.0), math.inf)]
    gravity = (g * math.sin(slope), -g * math.cos(slope))
    settings = {"dx": dx, "cells": (110, 16), "dt": 0.5 * dx / math.sqrt(1.35e6 / 1600), "gravity": gravity}
    system = soft.Particles([body], walls=floor, **settings)
    depth = 10 * dx - body.points[:, 1]
    pressed = -1600.0 * g * math.cos(slope) * depth / (system.params["lame"][0] + 2 * system.params["shear"][0])
    F = np.tile(np.eye(2), (system.n, 1, 1))
    F[:, 1, 1] += pressed
    steps = int(0.6 / system.dt)
    states = system.steps(system.state(F=F), np.zeros((steps, 1, 0)), keep_every=steps)
    middle = np.abs(body.points[:, 0] - 1.0) < 0.3
    moved = (states.x[1] - states.x[0])[0, middle, 0].mean()
    assert moved > 2 * dx if slides else abs(moved) < 0.25 * dx
