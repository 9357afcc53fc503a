"""A contact model from outside the library: a class, a file of kernels, and nothing else."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback.contact import Contact
from pullback.contact.params import constant
from pullback.core.params import Parameter, positive
from pullback.rollout.check import AGREES

BALL = """<mujoco><option timestep="0.001"/><worldbody><geom type="plane" size="1 1 1"/>
  <body pos="0 0 0.2"><freejoint/><geom size="0.1" mass="2"/></body></worldbody></mujoco>"""


@dataclass(frozen=True, kw_only=True)
class Spring(Contact):
    """Depth is resisted by stiffness · depth [N/m]."""

    kernels: ClassVar[str] = str(Path(__file__).with_name("spring_kernels.py"))

    stiffness: float = 2e3

    def parameters(self, scene):
        stiffness = Parameter("N/m", (), np.asarray(self.stiffness), positive, **constant("custom", 0))
        return super().parameters(scene) | {"contact_spring": stiffness}


def test_ball_bounces_as_on_a_spring():
    system = pb.Articulated(pb.load(BALL), Spring())
    run = pb.rollout(system, system.state(), np.zeros((600, 1, 0)))
    z, v, heights = 0.2, 0.0, [0.2]
    for _ in range(600):
        v += 1e-3 * (max(0.1 - z, 0.0) * 2e3 / 2 - 9.81)
        z += 1e-3 * v
        heights.append(z)
    assert min(heights) < 0.06 and heights[400] > 0.199  # it has been deep in, and is up again
    np.testing.assert_allclose(run.q[:, 0, 2], heights, rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 5])
def test_gradients(steps):
    system = pb.Articulated(pb.load(BALL), Spring())
    state = system.state([0.1, 0.2, 0.07, 0.9, 0.1, -0.2, 0.3], [0.3, 0.1, -0.2, 1, 2, 3])
    report = pb.check_system(system, state, rollout_steps=steps)
    assert report["contact_spring"].status == AGREES and report["contact_spring"].largest > 0
    assert report["geom_size"].largest > 0


def test_what_is_its_own():
    system = pb.Articulated(pb.load(BALL), Spring(stiffness=500.0))
    assert system.params["contact_spring"] == 500
    with pytest.raises(pb.PullbackError, match="'contact_spring' must be positive"):
        system.params["contact_spring"] = -1.0
    assert "contact_spring" not in pb.Articulated(pb.load(BALL)).params
