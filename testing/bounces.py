"""Bounces and slides whose trajectories have closed forms, and tossed bodies, for what goes through impacts."""

from __future__ import annotations

import numpy as np

import pullback as pb

GRAVITY = 9.81  # [m/s²]
FRICTION = 0.3
# MuJoCo's contact with a constant impedance is a linear spring and damper.
IMPEDANCE, TIME, RATIO = 0.9, 0.02, 0.2
SURFACE = f'solref="{TIME} {RATIO}" solimp="{IMPEDANCE} {IMPEDANCE} 0.001"'
# Three slides, so that the inverse weight that MuJoCo estimates for the body is the exact one.
AXES = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
DAMPING = 2 / (IMPEDANCE * TIME)  # of the reference [1/s]
STIFFNESS = 1 / (IMPEDANCE * TIME * RATIO) ** 2  # [1/s²]


def bouncing_ball(timestep: float, integrator: str = "Euler") -> pb.Model:
    """A ball above a floor that does not turn; its coordinates are x, y and the height of its lowest point [m]."""
    return pb.load(f"""<mujoco><option timestep="{timestep}" integrator="{integrator}"/><worldbody>
      <geom type="plane" size="5 5 1" condim="1" {SURFACE}/>
      <body>{AXES}<geom type="sphere" size="0.1" pos="0 0 0.1" condim="1" {SURFACE}/></body>
    </worldbody></mujoco>""")


def bounce(height: np.ndarray, time: float) -> np.ndarray:
    """The exact height of the ball that is dropped from a height, in flight after its first bounce [m]."""
    fall = np.sqrt(2 * height / GRAVITY)
    speed = -GRAVITY * fall
    # In contact z'' = -decay z' - spring z - load. The force ends where gravity alone accelerates as much.
    decay, spring, load = IMPEDANCE * DAMPING, IMPEDANCE**2 * STIFFNESS, (1 - IMPEDANCE) * GRAVITY
    rest, half = -load / spring, decay / 2
    turn = np.sqrt(spring - half**2)

    def motion(t):
        wave, quarter = np.cos(turn * t), np.sin(turn * t)
        a, b = -rest, (speed - half * rest) / turn
        z = np.exp(-half * t) * (a * wave + b * quarter)
        v = np.exp(-half * t) * ((b * turn - half * a) * wave - (a * turn + half * b) * quarter)
        return z + rest, v

    low, high = np.zeros_like(height), np.full_like(height, np.pi / turn)
    for _ in range(200):
        middle = (low + high) / 2
        z, v = motion(middle)
        pushes = GRAVITY - DAMPING * v - STIFFNESS * IMPEDANCE * z > 0
        low, high = np.where(pushes, middle, low), np.where(pushes, high, middle)
    z, v = motion(low)
    left = time - fall - low
    assert np.all(left > 0)
    return z + v * left - GRAVITY * left**2 / 2


def bounce_slope(height: np.ndarray, time: float) -> np.ndarray:
    """Its derivative by the height [m/m]: differences of the closed form, right to ten digits."""
    steps = [(bounce(height + e, time) - bounce(height - e, time)) / (2 * e) for e in (1e-4, 2e-4)]
    return (4 * steps[0] - steps[1]) / 3


def sliding_ball(timestep: float, integrator: str = "Euler") -> pb.Model:
    """A ball that slides along a floor without turning; its coordinates are as those of the bouncing ball [m]."""
    return pb.load(f"""<mujoco><option timestep="{timestep}" integrator="{integrator}" cone="elliptic"/><worldbody>
      <geom type="plane" size="5 5 1" friction="{FRICTION}"/>
      <body>{AXES}<geom type="sphere" size="0.1" pos="0 0 0.1" friction="{FRICTION}"/></body>
    </worldbody></mujoco>""")


def slide(speed: np.ndarray, time: float) -> np.ndarray:
    """How far it slides under Coulomb's friction while it does not stop [m]."""
    return speed * time - FRICTION * GRAVITY * time**2 / 2


BODIES = {
    "box": 'type="box" size="0.1 0.07 0.05"',
    "capsule": 'type="capsule" size="0.05 0.1"',
    "cylinder": 'type="cylinder" size="0.07 0.1"',
}


def tossed(body: str, timestep: float, integrator: str = "Euler") -> pb.Model:
    """A box, capsule or cylinder above a floor, MuJoCo's default contact."""
    return pb.load(f"""<mujoco><option timestep="{timestep}" integrator="{integrator}"/><worldbody>
      <geom type="plane" size="5 5 1"/><body pos="0 0 0.4"><freejoint/><geom {BODIES[body]}/></body>
    </worldbody></mujoco>""")


def tosses(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Poses and velocities (count, 7) and (count, 6) of random tosses."""
    rng = np.random.default_rng(0)
    turn = rng.normal(size=(count, 4))
    q = np.column_stack([np.zeros((count, 2)), np.full(count, 0.4), turn / np.linalg.norm(turn, axis=1)[:, None]])
    return q, rng.normal([1.0, 0.3, 0.0, 0.0, 0.0, 0.0], [0.3, 0.3, 0.3, 2.0, 2.0, 2.0], (count, 6))
