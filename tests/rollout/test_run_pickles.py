"""Runs that are pickled or copied have the same gradients, bit for bit."""

import copy
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import thermal


def articulated(every) -> pb.Run:
    system = pb.Articulated(pb.load(pb.robots.quadruped()), "compliant", worlds=2)
    system.params["damping"] = 1.1 * system.params["damping"]
    random = np.random.default_rng(0)
    mass = system.params["mass"] * random.uniform(0.9, 1.1, (2, 1))
    controls = random.uniform(-1, 1, (12, 2, system.nu))
    return pb.rollout(system, system.state(), controls, checkpoint_every=every, params={"mass": mass})


def heat(every) -> pb.Run:
    mesh = thermal.block((4e-3, 3e-3, 2e-3), (4, 3, 2))
    path = thermal.Toolpath([0.0, 1.0], [(0.5e-3, 1e-3, 2e-3), (3e-3, 1e-3, 2e-3)], [1.0, 0.0])
    system = thermal.Heat(mesh, thermal.inconel_718(), path, dt=0.02, worlds=2)
    return pb.rollout(system, system.state(), steps=12, checkpoint_every=every, params={"absorptivity": 0.4})


@pytest.mark.parametrize("make", [copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))], ids=["copy", "pickle"])
@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("simulate", [articulated, heat])
def test_a_run_that_is_pickled(simulate, every, make):
    run = simulate(every)
    run.system.params[next(iter(run.system.params))] = 1.01 * next(iter(run.system.params.values()))  # not the run's
    twin = make(run)
    name = run.states._fields[0]
    bar = np.random.default_rng(1).standard_normal(run.states[0].shape[1:])
    ours, theirs = (one.pullback(**{f"{name}_bar": bar}) for one in (run, twin))
    assert np.array_equal(run.states[0], twin.states[0]) and np.array_equal(run.kept, twin.kept)
    pairs = [*zip(ours.state, theirs.state, strict=True), (ours.controls, theirs.controls)]
    pairs += [(ours.params[key], theirs.params[key]) for key in ours.params]
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert sum(np.any(a) for a, _ in pairs) > 4
