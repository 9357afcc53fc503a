"""Random robots in which everything that a step knows comes together.

Joints with curved springs and gravity compensation, tendons through joints and through space, equality constraints of
all kinds, actuators with activations on joints, tendons and sites, a mocap body that leads another, limits, friction
losses, contacts and MuJoCo's sweeps against slip. ``random_mixture(seed)`` is the same for the same seed.
"""

from __future__ import annotations

import mujoco
import numpy as np
from activated import DYNAMICS
from trees import random_tree

KINDS = ("tendons", "spatial", "sites", "activations", "loops", "noslip", "curved", "mocap", "fluid")
SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


def random_mixture(seed: int, kinds: tuple[str, ...] = KINDS, *, integrator: str = "Euler", **how) -> mujoco.MjModel:
    """A random tree that touches (see ``trees``), of spheres and capsules, with something of each of these kinds."""
    rng = np.random.default_rng(seed)
    text = random_tree(seed, touching=True, integrator=integrator, timestep=0.004, **how)
    return _Mixture(mujoco.MjSpec.from_string(text), rng, kinds, integrator).spec.compile()


class _Mixture:
    def __init__(self, spec: mujoco.MjSpec, rng: np.random.Generator, kinds: tuple[str, ...], integrator: str):
        self.spec, self.rng, self.implicit = spec, rng, integrator == "implicitfast"
        self.bodies = [body for body in spec.bodies if body.name not in ("", "world")]
        self.delete_slides_on_balls()
        self.joints = [joint for joint in spec.joints if joint.type in SCALAR]
        for geom in spec.geoms:
            if geom.type == mujoco.mjtGeom.mjGEOM_BOX:
                geom.type = mujoco.mjtGeom.mjGEOM_CAPSULE
        spec.option.cone = int(rng.integers(2))
        spec.option.impratio = float(rng.choice([1.0, 3.0]))
        if "sites" in kinds or "spatial" in kinds:
            self.sites = [self.site(body, f"{body.name} {side}") for body in self.bodies for side in "ab"]
            self.sites.append(self.site(spec.worldbody, "post"))
        for kind in KINDS:  # in their order: later ones use what earlier ones made
            if kind in kinds:
                getattr(self, f"add_{kind}")()

    def delete_slides_on_balls(self) -> None:
        """Those of one body: MuJoCo takes the ball's centre to move along, where it differentiates Jacobians."""
        for body in self.bodies:
            kinds = [joint.type for joint in body.joints]
            if mujoco.mjtJoint.mjJNT_BALL in kinds:
                for joint in body.joints[kinds.index(mujoco.mjtJoint.mjJNT_BALL) + 1 :]:
                    for actuator in [each for each in self.spec.actuators if each.target == joint.name]:
                        self.spec.delete(actuator)
                    self.spec.delete(joint)

    def vector(self, size: float, count: int = 3) -> np.ndarray:
        return size * self.rng.normal(size=count)

    def site(self, body, name: str):
        return body.add_site(name=name, pos=self.vector(0.15), quat=self.vector(1.0, 4))

    def two(self, of: list):
        first, second = self.rng.choice(len(of), 2, replace=False)
        return of[first], of[second]

    def furnish(self, tendon, length: float) -> None:
        """Springs, losses and limits of a tendon that is about so long."""
        rng = self.rng
        if rng.random() < 0.6:
            tendon.stiffness[0] = rng.uniform(1, 10)
            tendon.springlength = length + np.sort(self.vector(0.05, 2))
        tendon.damping[0] = rng.choice([0.0, 0.2])
        tendon.frictionloss = rng.choice([0.0, 0.1])
        tendon.armature = rng.choice([0.0, 0.02])
        if rng.random() < 0.5:
            tendon.limited, tendon.range = True, [length - rng.uniform(0, 0.2), length + rng.uniform(0.01, 0.2)]

    def pull(self, kind: str, target: str, size: int = 1) -> None:
        """An actuator with feedback, where implicitfast can take it."""
        rng = self.rng
        speed = 0.0 if self.implicit and size > 1 else 1.0
        actuator = self.spec.add_actuator(name=f"{len(self.spec.actuators)} {target}", target=target)
        actuator.trntype = getattr(mujoco.mjtTrn, f"mjTRN_{kind}")
        actuator.gear[:size] = self.vector(1.0, size)
        actuator.gainprm[:3] = [rng.uniform(0.5, 3), rng.uniform(-0.5, 0.5), -speed * rng.uniform(0, 0.2)]
        actuator.gaintype = mujoco.mjtGain.mjGAIN_AFFINE
        if size == 1:
            actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
            actuator.biasprm[:3] = [rng.uniform(-0.3, 0.3), -rng.uniform(0, 3), -rng.uniform(0, 0.3)]
        if rng.random() < 0.3:
            actuator.forcelimited, actuator.forcerange = True, [-2.0, 2.0]

    def add_tendons(self) -> None:
        if len(self.joints) < 2:
            return
        for number in range(2):
            tendon = self.spec.add_tendon(name=f"sum {number}")
            for joint in self.two(self.joints):
                tendon.wrap_joint(joint.name, self.rng.uniform(0.3, 1.5))
            self.furnish(tendon, 0.0)
        self.pull("TENDON", "sum 0")
        first, second = self.two(self.joints)
        self.equality("JOINT", first.name, second.name, self.vector(0.3, 5))
        self.equality("TENDON", "sum 0", "sum 1", self.vector(0.3, 5))

    def add_spatial(self) -> None:
        for number in range(2):
            tendon = self.spec.add_tendon(name=f"path {number}")
            chosen = self.rng.choice(len(self.sites), 3, replace=False)
            for i in chosen:
                tendon.wrap_site(self.sites[i].name)
            if self.rng.random() < 0.5:
                tendon.wrap_pulley(2.0)
                for site in self.two(self.sites):
                    tendon.wrap_site(site.name)
            self.furnish(tendon, 0.8)
        self.pull("TENDON", "path 0")

    def add_sites(self) -> None:
        for _ in range(2):
            self.pull("SITE", self.sites[int(self.rng.integers(len(self.sites) - 1))].name, 6)

    def add_activations(self) -> None:
        for number, actuator in enumerate(self.spec.actuators):
            kind = DYNAMICS[1 + number % 3] if number < 2 else DYNAMICS[int(self.rng.integers(4))]
            actuator.dyntype = getattr(mujoco.mjtDyn, f"mjDYN_{kind}")
            if kind == "NONE":
                continue
            actuator.dynprm[0] = self.rng.uniform(0.01, 0.1)
            actuator.actearly = bool(self.rng.random() < 0.4)
            if self.rng.random() < 0.4:
                actuator.actlimited, actuator.actrange = True, [-0.6, 0.6]

    def equality(self, kind: str, first: str, second: str, data, objects: str | None = None) -> None:
        equality = self.spec.add_equality(type=getattr(mujoco.mjtEq, f"mjEQ_{kind}"), name1=first, name2=second)
        equality.objtype = getattr(mujoco.mjtObj, f"mjOBJ_{objects or kind}")
        equality.data[: len(data)] = data
        equality.solref = [self.rng.uniform(0.01, 0.1), self.rng.uniform(0.5, 1.5)]

    def add_loops(self) -> None:
        if len(self.bodies) > 1:
            first, second = self.two(self.bodies)
            self.equality("CONNECT", first.name, second.name, self.vector(0.2), "BODY")
        weld = np.zeros(11)
        weld[:3], weld[10] = self.vector(0.1), 0.7
        self.equality("WELD", self.bodies[0].name, "world", weld, "BODY")

    def add_noslip(self) -> None:
        self.spec.option.noslip_iterations = int(self.rng.integers(1, 8))

    def add_curved(self) -> None:
        for joint in self.spec.joints:
            if self.rng.random() < 0.6:
                joint.stiffness[:] = [self.rng.uniform(0, 3), *self.vector(2.0, 2)]
                joint.damping[:] = [self.rng.uniform(0, 0.3), *np.abs(self.vector(0.05, 2))]

    def add_mocap(self) -> None:
        lead = self.spec.worldbody.add_body(name="lead", mocap=True, pos=self.vector(0.2), quat=self.vector(1.0, 4))
        lead.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.07, 0, 0])
        weld = np.zeros(11)
        weld[:3], weld[3:10], weld[10] = self.vector(0.1), [*self.vector(0.1), 1, *self.vector(0.2)], 0.5
        self.equality("WELD", "lead", self.bodies[-1].name, weld, "BODY")

    def add_fluid(self) -> None:
        if not self.implicit:
            option = self.spec.option
            option.density, option.viscosity, option.wind = self.rng.uniform(1, 30), 0.5, self.vector(1.0)
