"""Systems with impulses for tests against closed forms: what they are made of, and how they are run."""

import numpy as np
from scenes import scene

import pullback as pb

G = 9.81
FLOOR = '<geom name="floor" type="plane" size="9 9 1" friction="{}"/>'
# With a margin, corners that lift by rounding are still contacts in the next step, and what rests does not rattle.
STEADY = FLOOR.replace("<geom", '<geom margin="0.001"')
EXACT = {"cfm": 1e-14, "slop": 0.0}  # hardly any softness, so that closed forms hold to rounding
BALL = '<body name="ball"><freejoint/><geom name="ball" size="0.1" mass="{}"/></body>'
BLOCK = (
    '<body name="block"><freejoint/><geom name="block" type="box" size="0.1 0.1 0.02" mass="1.5" friction="{}"/></body>'
)


def impulse(world: str, *, option: str = "", rest: str = "", default: str = "", timestep=0.004, worlds=1, **settings):
    xml = scene(world, option=option, rest=rest, default=default, timestep=timestep)
    return pb.Articulated(pb.load(xml), contact=pb.ContactImpulse(**settings), worlds=worlds)


def run(system, q, v=None, *, steps: int, control=None) -> pb.Run:
    """A rollout from given coordinates; nothing pulls back here, but all states are kept."""
    controls = np.tile(np.zeros(system.nu) if control is None else control, (steps, system.worlds, 1))
    return pb.rollout(system, system.state(q, v), controls)


def apart(*places) -> np.ndarray:
    """Coordinates of free bodies that are not turned."""
    return np.concatenate([[*x, 1, 0, 0, 0] for x in places])
