"""``import pullback`` is quiet and light, and compiling kernels is one line."""

import os
import subprocess
import sys

import pytest
import warp as wp

import pullback as pb
from pullback.core import launch
from pullback.kernels import Flavour, specialise

HEAVY = (
    "torch", "jax", "matplotlib", "sklearn", "scipy", "viser", "rich", "pullback.reach", "pullback.thermal",
    "pullback.envs", "pullback.learn", "pullback.neural",
)  # fmt: skip
KERNEL = """
import warp as wp
from pullback.core.launch import launch, start_warp

@wp.kernel
def double(x: wp.array(dtype=float)):
    x[wp.tid()] *= 2.0

if __name__ == "__main__":
    start_warp()
    x = wp.ones(3, device="cpu")
    launch(double, 3, [x], "cpu")
    print(x.numpy())
"""
USER = """
import pullback as pb
system = pb.Articulated(pb.load(pb.robots.cartpole()), contact=None)
run = pb.rollout(system, system.state(), steps=3)
import warp as wp
assert wp.config.log_level == wp.LOG_INFO, "a user's setting was changed"
"""


def run(program: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_a_quiet_and_light_import():
    done = run(f"import sys, pullback; sys.exit([name for name in {HEAVY} if name in sys.modules] or None)")
    assert (done.stdout, done.stderr) == ("", "")


def test_what_is_imported_when_it_is_used():
    assert {"envs", "learn", "neural", "reach", "thermal"} <= set(dir(pb))
    assert {"neural", "reach", "thermal"} <= set(pb.__all__)
    run("""
import sys
import pullback as pb
assert pb.reach.ReachabilityMap and pb.neural.Residual
assert "torch" not in sys.modules
assert pb.envs.Environment and pb.learn.train
from pullback import thermal
assert pb.thermal is thermal and thermal.Heat
from pullback import *
load, reach.ReachabilityMap
""")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = pb.nothing


def test_quiet_use():
    """Neither Warp's banner nor its list of modules, nor its word on a computer without CUDA."""
    done = run(USER)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Compiling kernels ")]
    assert (done.stdout, lines) == ("", [])


def test_warp_speaks_when_asked():
    done = run("import warp as wp\nwp.config.log_level = wp.LOG_DEBUG\n" + USER.split("import warp")[0])
    assert "Warp" in done.stdout and "initialized" in done.stdout and "Module pullback.kernels." in done.stdout


def test_a_compilation_is_one_line(tmp_path):
    """On standard error, when it happens and never again."""
    script = tmp_path / "doubling.py"
    script.write_text(KERNEL)

    def launched() -> str:
        environment = os.environ | {"WARP_CACHE_PATH": str(tmp_path / "cache")}
        command = [sys.executable, str(script)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout == "[2. 2. 2.]\n"
        return done.stderr

    first = launched()
    assert first.startswith("Compiling kernels __main__ for cpu (first use") and first.count("\n") == 1
    assert launched() == ""


@pytest.mark.parametrize("level, lines", [(wp.LOG_INFO, 1), (wp.LOG_WARNING, 0)])
def test_the_line_can_be_switched_off(monkeypatch, capsys, level, lines):
    monkeypatch.setattr(launch, "_is_cached", lambda *_: False)
    monkeypatch.setattr(launch, "_loaded", set())
    monkeypatch.setattr(wp.config, "log_level", level)
    module = wp.get_module(specialise(Flavour("float64"), "step").__name__)
    assert launch.load(module, "cpu") and not launch.load(module, "cpu")
    out, err = capsys.readouterr()
    assert out == "" and err.count("Compiling kernels float64.contact_free.step for cpu") == err.count("\n") == lines
