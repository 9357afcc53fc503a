"""Cloth, soft solids and ropes of MJCF, in the air and on a floor."""

from __future__ import annotations

import mujoco
import numpy as np

# A jelly of tetrahedra, a flat cloth, a ball of curved cloth, a solid one whose vertices move along radii, and a rope
# that hangs from an arm which swings.
FLEXES = {
    "solid": """<flexcomp name="soft" type="grid" count="3 3 3" spacing=".07 .06 .08" radius=".005" dim="3" mass="2">
        <elasticity young="5e3" poisson=".3" damping=".02"/>{contact}</flexcomp>""",
    "cloth": """<flexcomp name="soft" type="grid" count="4 3 1" spacing=".07 .06 .08" radius=".005" dim="2" mass="1">
        <elasticity young="3e4" poisson=".2" damping=".02" thickness=".01" elastic2d="both"/>{contact}</flexcomp>""",
    "ball": """<flexcomp name="soft" type="ellipsoid" count="4 4 4" spacing=".07 .06 .08" radius=".005" dim="2"
        mass="1"><elasticity young="3e3" poisson=".2" damping=".02" thickness=".01" elastic2d="both"/>
        {contact}</flexcomp>""",
    "radial": """<flexcomp name="soft" type="ellipsoid" count="4 4 4" spacing=".07 .06 .08" radius=".005" dim="3"
        mass="1" dof="radial"><elasticity young="3e3" poisson=".2" damping=".02"/>{contact}</flexcomp>""",
    "rope": """<body name="arm" pos="0 0 .3"><joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/>
        <flexcomp name="soft" type="grid" count="5 1 1" spacing=".1 .1 .1" pos=".3 0 0" radius=".01" dim="1" mass="1">
        <pin id="0"/><edge stiffness="100" damping="1"/>{contact}</flexcomp></body>""",
}
NO_CONTACT = '<contact selfcollide="none" contype="0" conaffinity="0"/>'
FALL = """<mujoco><option timestep="0.001" cone="{cone}" integrator="{integrator}" tolerance="1e-14" iterations="200"/>
  <worldbody><geom name="floor" type="plane" size="3 3 .1" euler="2 -3 0" friction=".4"/>
  <flexcomp name="soft" type="grid" count="3 3 3" spacing=".1 .1 .1" pos="0 0 .14" radius=".01" dim="3" mass="5"
    euler="20 10 0"><elasticity young="2e4" poisson=".3" damping=".01"/>
    <contact selfcollide="{itself}" friction=".3" solref="0.03 1"/></flexcomp>{more}</worldbody></mujoco>"""
BALL = '<body pos=".02 .03 .35"><freejoint/><geom name="ball" size=".05"/></body>'


def world(kind: str, *, integrator: str = "Euler", flags: str = "") -> str:
    option = f'<option timestep="0.001" integrator="{integrator}">{flags}</option>'
    return f"<mujoco>{option}<worldbody>{FLEXES[kind].format(contact=NO_CONTACT)}</worldbody></mujoco>"


def fall(*, cone="pyramidal", integrator="Euler", itself="none", more="") -> str:
    return FALL.format(cone=cone, integrator=integrator, itself=itself, more=more)


def scattered(m: mujoco.MjModel, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return m.qpos0 + 5e-3 * rng.normal(size=m.nq), 0.3 * rng.normal(size=m.nv)


def grid(count: str, dim: int, elasticity: str, *, floor: bool = False) -> str:
    """A grid of vertices that falls, on a floor that is near or through the air."""
    plane = '<geom type="plane" size="3 3 .1"/>' * floor
    contact = '<contact selfcollide="none"/>' if floor else NO_CONTACT
    return f"""<mujoco><option timestep="0.001"/><worldbody>{plane}
      <flexcomp name="soft" type="grid" count="{count}" spacing=".07 .07 .07" pos="0 0 {0.26 if floor else 2}"
        radius=".005" dim="{dim}" mass="5">{contact}<elasticity {elasticity}/></flexcomp></worldbody></mujoco>"""
