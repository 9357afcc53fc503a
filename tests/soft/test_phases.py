"""Particles as on CUDA, by one launch per phase: the same kernels run on the CPU, and compile for a GPU."""

import numpy as np
import pytest
import warp as wp

import pullback as pb
from pullback import soft
from pullback.core.arrays import full_shape, to_numpy
from pullback.core.trees import leaf_names, leaves
from pullback.kernels import SoftFlavour, specialise
from pullback.soft.stepper import Phases

SOLID = {"young": 2e3, "poisson": 0.3, "density": 1000.0}


def plane(material=None, **options):
    muscle = soft.Muscle(direction=(0.0, 1.0), strength=300.0)
    body = soft.block((0.3, 0.2), (0.5, 0.4), (9, 9), material or soft.NeoHookean(**SOLID), muscle=muscle)
    floor = soft.Wall(point=(0.0, 0.15), normal=(0.0, 1.0), friction=0.5)
    return soft.Particles([body], **{"dx": 1 / 20, "cells": (21, 21), "dt": 5e-3, "walls": [floor]} | options)


def space(material):
    body = soft.block((0.3, 0.3, 0.2), (0.5, 0.5, 0.4), (5, 5, 5), material)
    floor = soft.Wall(point=(0.0, 0.0, 0.18), normal=(0.0, 0.0, 1.0), friction=0.4)
    return soft.Particles([body], dx=1 / 16, cells=(17, 17, 17), dt=1e-3, walls=[floor])


def by_phases(system):
    system._stepper = Phases(system)
    return system


def arrays(system, v, steps=12, on_failure="raise", **options):
    """All that a run and its gradient give."""
    random = np.random.default_rng(0)
    controls = random.uniform(-1, 1, size=(steps, system.worlds, system.nu))
    run = pb.rollout(system, system.state(v=v), controls, on_failure=on_failure, **options)
    x_bar, F_bar = (random.normal(size=full_shape(x)) for x in (run.final.x, run.final.F))
    bars = run.pullback(x_bar=x_bar, F_bar=F_bar)
    named = {n: to_numpy(x) for n, x in zip(leaf_names(run.states), leaves(run.states), strict=True)}
    named |= {f"{n}_bar": to_numpy(x) for n, x in zip(leaf_names(bars.state), leaves(bars.state), strict=True)}
    named |= {f"{n}_bar": x for n, x in bars.params.items()}
    if run.status is not None:
        named |= {"failed at": run.status.step, "gradient failed": bars.status.failed}
    return named | {"controls_bar": bars.controls}


def compare(found, wanted):
    assert found.keys() == wanted.keys()
    for name, x in wanted.items():
        scale = np.abs(x).max(initial=1e-9)
        np.testing.assert_allclose(found[name], x, rtol=0, atol=1e-11 * scale, err_msg=name)
    assert min(np.abs(wanted[name]).max() for name in ("x_bar", "v_bar", "F_bar", "density_bar")) > 0


@pytest.mark.parametrize("every", [1, 5])
def test_in_the_plane_with_muscles(every):
    v = np.random.default_rng(1).normal(size=(2, 81, 2))
    given = {"v": v, "checkpoint_every": every}
    compare(arrays(by_phases(plane(worlds=2)), **given), arrays(plane(worlds=2), **given))


MATERIALS = [soft.Water(bulk=2e3, density=1000.0), soft.Snow(**SOLID), soft.VonMises(**SOLID, yield_stress=100.0)]


@pytest.mark.parametrize("material", MATERIALS, ids=lambda x: type(x).__name__)
def test_in_space(material):
    compare(arrays(by_phases(space(material)), (0.3, 0.0, -1.0)), arrays(space(material), (0.3, 0.0, -1.0)))


def test_worlds_that_fail_are_the_same():
    v = np.zeros((2, 81, 2))
    v[1] = (20.0, 0.0)
    given = {"v": v, "steps": 30, "on_failure": "mask"}
    found, wanted = arrays(by_phases(plane(worlds=2)), **given), arrays(plane(worlds=2), **given)
    assert wanted["failed at"][1] > 0 > wanted["failed at"][0]
    compare(found, wanted)
    with pytest.raises(pb.SimulationError, match=r"particle \d+ of body 0 in world 1 left the grid at step \d+"):
        pb.rollout(by_phases(plane(worlds=2)), plane(worlds=2).state(v=v), steps=30)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_they_compile_for_a_gpu(dtype, tmp_path):
    """Without one. What the compiler refuses would be an error here."""
    module = specialise(SoftFlavour(dtype, 3), "phases")
    wp.compile_aot_module(wp.get_module(module.__name__), arch=90, module_dir=tmp_path, use_ptx=True)
    assert list(tmp_path.glob("*.ptx"))
