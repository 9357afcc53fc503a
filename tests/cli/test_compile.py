"""``pullback compile``: what a robot needs, all that there is, and nothing twice."""

import json
import re
from pathlib import Path

import numpy as np

import pullback as pb
from pullback import kernels
from pullback.cli import compile, main
from pullback.core import launch
from pullback.dynamics import energy

SOURCES = Path(kernels.__file__).parent


def test_everything_that_is_launched_is_compiled():
    """A new module of kernels has to be in the list."""
    files = [file for file in SOURCES.glob("*/*.py") if re.search(r"^@wp\.kernel", file.read_text(), re.M)]
    found = {
        file.stem if file.parent.name in ("contact", "elastic", "soft") else f"{file.parent.name}.{file.stem}"
        for file in files
    }
    listed = {each.name for each in compile.all_kernels()}
    assert listed | compile.ON_DEMAND == found | {"raster"}
    assert not listed & compile.ON_DEMAND
    assert len(set(compile.all_kernels())) == len(compile.all_kernels())
    assert {str(each).split(".")[0] for each in compile.all_kernels(["float32"])} == {"float32", "raster"}


def test_a_robot_needs_what_is_compiled_for_it(monkeypatch):
    """All that a simulation, its gradients, contacts and algorithms launch, and no more."""
    loaded, load = set(), launch.load

    def recorded(module, *where):
        loaded.add(module.name.removeprefix("pullback.kernels."))
        return load(module, *where)

    monkeypatch.setattr(launch, "load", recorded)
    for robot, contact in (("pendulum", None), ("quadruped", "model")):
        system = pb.Articulated(pb.load(getattr(pb.robots, robot)()), contact)
        run = pb.rollout(system, system.state(), steps=2)
        run.pullback(v_bar=np.ones((1, system.nv)))
        energy(system, run.final.q, run.final.v)
        if contact:
            run.contacts(-1)
        assert loaded == set(map(str, compile.kernels_of(system)))
        loaded.clear()


def test_from_the_command_line(capsys):
    """Twice: what the first one did not find in the cache, the second one does."""
    command = ["compile", "pendulum", "--contact", "none", "--dtype", "float64", "--jobs", "1", "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    needed = {"float64.contact_free.step", "float64.contact_free.step_adjoint", "float64.tree.algorithms"}
    assert set(first["compiled"] + first["cached"]) == needed and first["device"] == "cpu"
    assert main(command[:-1]) == 0
    assert "compiled: 0 modules of kernels" in capsys.readouterr().out
