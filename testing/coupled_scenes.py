"""Robots among a few particles, for checks of momentum and of gradients."""

import numpy as np

import pullback as pb
from pullback import soft

# Bodies whose inertia is that of a ball, about the origin of their frames: a step of Euler keeps their momentum.
FLOATING = """
<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body name="dumbbell" pos="0.45 0.45 0.62"><freejoint/>
    <inertial pos="0 0 0" mass="0.05" diaginertia="2e-4 2e-4 2e-4"/>
    <geom name="left" type="sphere" pos="-0.1 0 -0.02" size="0.07"/>
    <geom name="right" type="box" pos="0.1 0.02 0" size="0.05 0.06 0.04" euler="20 10 0"/>
  </body>
  <body name="ball" pos="0.45 0.3 0.3"><freejoint/>
    <geom name="ball" type="sphere" size="0.06" mass="0.03"/>
  </body>
</worldbody></mujoco>"""

# A finger of two links, one of them a ball joint, whose tip and palm are among the particles; and one that floats.
FINGER = """
<mujoco><option timestep="0.01"/><compiler angle="radian"/><worldbody>
  <geom name="floor" type="plane" size="1 1 0.1" pos="0 0 0.13"/>
  <body name="palm" pos="0.36 0.43 0.5">
    <joint name="lift" type="slide" axis="0 0.1 1" damping="0.1"/>
    <geom name="palm" type="box" size="0.05 0.04 0.03" pos="0 0 0.02" euler="0.2 0.1 0.3" mass="0.3"/>
    <body name="link" pos="0 0 -0.05">
      <joint name="swing" type="hinge" axis="0 1 0.2" stiffness="0.2" damping="0.01"/>
      <geom name="link" type="capsule" fromto="0 0 0 0.06 0 -0.1" size="0.03" mass="0.2"/>
      <body name="tip" pos="0.06 0 -0.1">
        <joint name="wrist" type="ball" damping="0.01"/>
        <geom name="tip" type="cylinder" size="0.04 0.05" pos="0.01 0 -0.05" euler="0.3 0.1 0" mass="0.1"/>
      </body>
    </body>
  </body>
  <body name="float" pos="0.5 0.47 0.42"><freejoint/>
    <geom name="float" type="sphere" size="0.07" pos="0.01 0.02 0" mass="0.2"/>
  </body>
</worldbody><actuator>
  <motor joint="lift" gear="2"/><position joint="swing" kp="0.5"/>
</actuator></mujoco>"""
FINGERS = ("palm", "link", "tip", "float", "floor")


def floating(steps_in_one: int = 5, **options) -> pb.Coupled:
    """Two bodies that nothing holds beside a cube of jelly, without gravity."""
    robot = pb.Articulated(pb.load(FLOATING), None)
    jelly = soft.block((0.35, 0.35, 0.35), (0.55, 0.55, 0.55), (7, 7, 7), soft.NeoHookean(young=50.0, density=4.0))
    settings = {"dx": 0.05, "cells": (19,) * 3, "dt": robot.dt / steps_in_one, "gravity": np.zeros(3)}
    particles = soft.Particles(jelly, **settings | options)
    return pb.Coupled(robot, particles, shapes=("left", "right", "ball"), friction=0.4)


def finger(worlds: int = 1, dtype: str = "float64", friction=0.4, steps_in_one: int = 3, contact=None) -> pb.Coupled:
    """Particles that share cells, between a finger, something that floats and a floor."""
    robot = pb.Articulated(pb.load(FINGER), contact, worlds=worlds, dtype=dtype)
    points = np.random.default_rng(0).uniform(0.3, 0.55, (8, 3)) - np.array([0.0, 0.0, 0.1])
    muscle = soft.Muscle((1.0, 2.0, 3.0), 0.7)
    material = soft.NeoHookean(young=6.0, poisson=0.25, density=1.3, viscosity=0.02)
    body = soft.Body(points, material, 0.02, muscle)
    settings = {"dx": 1 / 16, "cells": (16,) * 3, "dt": robot.dt / steps_in_one}
    particles = soft.Particles(body, **settings, worlds=worlds, dtype=dtype)
    return pb.Coupled(robot, particles, shapes=FINGERS, friction=friction)


def tumbling(coupled: pb.Coupled):
    """Of ``floating``: its bodies fly at the jelly, and turn."""
    random = np.random.default_rng(1)
    v = np.concatenate([[0.0, 0.0, -0.6], random.normal(size=3), [0.0, 0.3, 0.3], random.normal(size=3)])
    particles = coupled.soft.state(v=0.1 * random.normal(size=(coupled.soft.n, 3)))
    return coupled.state(coupled.robot.state(v=v), particles)


def in_motion(coupled: pb.Coupled, seed: int = 0):
    """A state in which everything moves, and a control."""
    random = np.random.default_rng(seed)
    robot, particles = coupled.robot, coupled.soft
    q = robot.state().q + 0.03 * random.normal(size=(coupled.worlds, robot.nq))
    shape = (coupled.worlds, particles.n, 3)
    moving = particles.state(
        v=0.5 * random.normal(size=shape),
        C=random.normal(size=(*shape, 3)),
        F=np.eye(3) + 0.1 * random.normal(size=(*shape, 3)),
    )
    state = coupled.state(robot.state(q, 0.5 * random.normal(size=(coupled.worlds, robot.nv))), moving)
    return state, random.normal(size=(coupled.worlds, coupled.nu))


def particle_momentum(particles: soft.Particles, state) -> np.ndarray:
    """(worlds, 6) angular about the origin, and linear; the velocity gradients of particles count too."""
    mass = np.concatenate([body.material.density * body.volume for body in particles.bodies])[:, None, None]
    spread = particles.dx**2 / 4
    moment = np.sum(mass * (state.x[..., None] * state.v[..., None, :] + spread * state.C.swapaxes(-1, -2)), axis=1)
    spin = moment - moment.swapaxes(-1, -2)
    linear = np.sum(mass[..., 0] * state.v, axis=1)
    return np.concatenate([spin[:, [1, 2, 0], [2, 0, 1]], linear], axis=1)


def robot_momentum(robot: pb.Articulated, state) -> np.ndarray:
    """(worlds, 6) angular about the origin, and linear."""
    found = pb.dynamics.momentum(robot, state.q, state.v).value
    centre = pb.dynamics.center_of_mass(robot, state.q).value
    return found + np.concatenate([np.cross(centre, found[:, 3:]), np.zeros_like(found[:, 3:])], axis=1)
