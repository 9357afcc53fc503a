"""Random robots as MJCF, and random states of them.

Everything a Model can hold turns up: every joint type, several joints on a body, welded and massless bodies, trees on
static bodies, off-centre anchors, refs, springs, dampers, armature, gravity compensation, every kind of actuator with
ranges of control and force, and a fluid. `random_tree(seed)` is the same for the same seed.
"""

from __future__ import annotations

import mujoco
import numpy as np

KINDS = ("free", "ball", "hinge", "slide")
DOFS = {"free": 6, "ball": 3, "hinge": 1, "slide": 1}


def random_tree(
    seed: int,
    *,
    bodies: int | None = None,
    joints: tuple[str, ...] = KINDS,
    actuators: str = "any",
    passive: bool = True,
    limits: bool = True,
    fluid: bool = False,
    integrator: str = "Euler",
    eulerdamp: bool = True,
    timestep: float = 0.002,
    touching: bool = False,
) -> str:
    """MJCF of a random robot, with constraints switched off unless it is ``touching``.

    bodies:    how many (2 to 9 by chance if None)
    joints:    the types that may turn up
    actuators: "any" kind on some joints, one plain "motor" a degree of freedom (in the order of v), or "none"
    passive:   springs, dampers and gravity compensation
    limits:    ranges of controls, of actuators' forces and of joints' actuator forces, tight enough to be hit
    fluid:     density, viscosity and wind
    touching:  a floor, shapes that meet it and each other, joint limits and friction losses
    """
    options = (joints, actuators, passive, limits, fluid, integrator, eulerdamp, timestep, touching)
    return _Builder(seed, *options).document(bodies)


class _Builder:
    def __init__(self, seed, joints, actuators, passive, limits, fluid, integrator, eulerdamp, timestep, touching):
        self.rng = np.random.default_rng(seed)
        self.touching = touching
        self.joints, self.actuators, self.passive, self.limits = tuple(joints), actuators, passive, limits
        self.fluid, self.integrator, self.eulerdamp, self.timestep = fluid, integrator, eulerdamp, timestep
        self.made: list[tuple[str, str]] = []  # kind and name of every joint

    # chance

    def coin(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def number(self, low: float, high: float) -> str:
        return f"{self.rng.uniform(low, high):.17g}"

    def vector(self, scale: float, size: int = 3) -> str:
        return " ".join(f"{x:.17g}" for x in scale * self.rng.normal(size=size))

    # the tree

    def document(self, bodies: int | None) -> str:
        count = int(self.rng.integers(2, 10)) if bodies is None else bodies
        # Each body hangs on the world (a tree of its own) or on one made before it; MJCF wants them depth first.
        parent = [0] + [0 if self.coin(0.2) else int(self.rng.integers(0, i + 1)) for i in range(1, count)]
        children = [[i + 1 for i in range(count) if parent[i] == above] for above in range(count + 1)]
        world = "".join(self.body(i, children, on_world=True) for i in children[0])
        if not self.made:  # every body came out welded
            self.joints = tuple(k for k in self.joints if k != "free") or self.joints
            world += f"<body>{self.joint(self.joints[0], 0)}{self.inertial()}</body>"
        flag = "" if self.eulerdamp else ' eulerdamp="disable"'
        fluid = (
            f'density="{self.number(1, 50)}" viscosity="{self.number(0.1, 2)}" wind="{self.vector(1.0)}"'
            if self.fluid
            else ""
        )
        gravity, default = self.vector(5.0), '<default><geom contype="0" conaffinity="0"/></default>'
        flag += ' constraint="disable"'
        if self.touching:
            gravity, default, flag = f"{self.vector(1.0, 2)} -9.81", "", flag.replace(' constraint="disable"', "")
            world = f'<geom type="plane" size="5 5 1" pos="0 0 -0.3" friction="{self.number(0.2, 1.2)}"/>{world}'
        return f"""<mujoco>
  <compiler angle="radian"/>
  <option timestep="{self.timestep}" integrator="{self.integrator}" gravity="{gravity}" {fluid}><flag{flag}/></option>
  {default}
  <worldbody>{world}
  </worldbody>
  <actuator>{"".join(self.actuator_elements())}
  </actuator>
</mujoco>"""

    def body(self, index: int, children: list[list[int]], *, on_world: bool) -> str:
        kinds = self.joint_kinds(on_world)
        placed = f'name="body{index}" pos="{self.vector(0.3)}" quat="{self.vector(1.0, 4)}"'
        if self.passive and self.coin(0.3):
            placed += f' gravcomp="{self.number(0.1, 1.5)}"'
        joints = "".join(self.joint(kind, index) for kind in kinds)
        inertia = self.inertial() if kinds or self.coin(0.8) else ""  # a frame without mass
        below = "".join(self.body(i, children, on_world=False) for i in children[index])
        return f"\n    <body {placed}>{joints}{inertia}{below}</body>"

    def joint_kinds(self, on_world: bool) -> list[str]:
        """Joints of one body, in order. MuJoCo wants a free joint alone, and no rotation after a ball."""
        if on_world and "free" in self.joints and self.coin(0.35):
            return ["free"]
        scalar = [kind for kind in self.joints if kind in ("hinge", "slide")]
        ball = "ball" in self.joints
        chance = self.rng.random()
        if chance < 0.12 or (on_world and chance > 0.85):  # welded; to the world, it is a stand for what it carries
            return []
        if ball and (chance < 0.35 or not scalar):
            if not scalar:
                return ["ball"]
            before = [self.pick(scalar) for _ in range(self.pick([0, 0, 1, 2]))]
            after = ["slide"] * self.pick([0, 0, 1]) if "slide" in scalar else []
            return [*before, "ball", *after]
        if not scalar:
            return []
        if set(scalar) == {"hinge", "slide"} and chance < 0.45:
            return ["hinge", "slide", "hinge"]
        return [self.pick(scalar) for _ in range(self.pick([1, 1, 1, 2, 3]))]

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def joint(self, kind: str, body: int) -> str:
        name = f"{kind}{len(self.made)}"
        self.made.append((kind, name))
        # every joint has armature: several in one body may line up, and then nothing else resists them
        parts = [f'name="{name}" type="{kind}" armature="{self.number(0.01, 0.1)}"']
        scalar = kind in ("hinge", "slide")
        if kind != "free":
            parts.append(f'pos="{self.vector(0.15)}"')
        if scalar:
            parts.append(f'axis="{self.vector(1.0)}"')
            if self.coin():
                parts.append(f'ref="{self.number(-0.6, 0.6)}"')
        if self.passive:
            if self.coin(0.6):
                parts.append(f'damping="{self.number(0.02, 0.5)}"')
            if self.coin():
                parts.append(f'stiffness="{self.number(0.5, 8)}"')
                if scalar:
                    parts.append(f'springref="{self.number(-0.6, 0.6)}"')
        if self.limits and scalar and self.actuators != "motor" and self.coin(0.3):
            parts.append(f'actuatorfrcrange="{self.number(-3, -0.5)} {self.number(0.5, 3)}"')
        if self.touching and kind != "free":
            if self.coin(0.4):
                parts.append(f'range="{"0" if kind == "ball" else self.number(-0.5, -0.1)} {self.number(0.1, 0.5)}"')
            if self.coin(0.3):
                parts.append(f'frictionloss="{self.number(0.02, 0.5)}"')
        return f"<joint {' '.join(parts)}/>"

    def inertial(self) -> str:
        if self.touching:
            kind, size = self.pick(["sphere", "capsule", "box"]), [self.number(0.04, 0.12) for _ in range(3)]
            size = " ".join(size[: {"sphere": 1, "capsule": 2, "box": 3}[kind]])
            place = f'pos="{self.vector(0.05)}" quat="{self.vector(1.0, 4)}" friction="{self.number(0.2, 1.2)}"'
            return f'<geom type="{kind}" size="{size}" mass="{self.number(0.3, 3)}" {place}/>'
        if self.coin(0.4):
            size = " ".join(self.number(0.05, 0.2) for _ in range(3))
            place = f'pos="{self.vector(0.1)}" quat="{self.vector(1.0, 4)}"'
            return f'<geom type="box" size="{size}" mass="{self.number(0.3, 3)}" {place}/>'
        # the inertia of a cloud of points: nothing else is sure to be that of a body
        points, weights = 0.15 * self.rng.normal(size=(5, 3)), self.rng.uniform(0.1, 0.6, size=5)
        points -= np.average(points, axis=0, weights=weights)
        spread = np.einsum("p,pi,pj->ij", weights, points, points)
        J = np.trace(spread) * np.eye(3) - spread
        full = " ".join(f"{x:.17g}" for x in (J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]))
        return f'<inertial pos="{self.vector(0.1)}" mass="{weights.sum():.17g}" fullinertia="{full}"/>'

    # actuators

    def actuator_elements(self) -> list[str]:
        if self.actuators == "none":
            return []
        if self.actuators == "motor":
            unit = lambda n, d: " ".join("1" if i == d else "0" for i in range(n))  # noqa: E731
            return [
                f'\n    <motor joint="{name}" gear="{unit(6, d)}"/>'
                for kind, name in self.made
                for d in range(DOFS[kind])
            ]
        return [self.actuator(kind, name) for kind, name in self.made for _ in range(self.pick([0, 1, 1, 2]))]

    def actuator(self, kind: str, joint: str) -> str:
        turning = kind in ("ball", "free")
        where = f'{"jointinparent" if self.coin(0.3) else "joint"}="{joint}"'
        gear = f'gear="{self.vector(1.0, {"ball": 3, "free": 6}.get(kind, 1))}"'
        ranges = []
        if self.limits and self.coin(0.4):
            ranges.append(f'ctrlrange="{self.number(-1, -0.2)} {self.number(0.2, 1)}"')
        if self.limits and self.coin(0.4):
            ranges.append(f'forcerange="{self.number(-3, -0.5)} {self.number(0.5, 3)}"')
        common = " ".join([where, gear, *ranges])
        # feedback of velocities of ball and free joints, implicit under implicitfast, is in ``activated``
        feels_velocity = not (turning and self.integrator == "implicitfast")
        options = ["motor", "affine"]
        if not turning:
            options.append("position")
        if feels_velocity:
            options += ["velocity", "damper"] if self.limits else ["velocity"]  # a damper has a range of control
        choice = self.pick(options)
        if choice == "motor":
            return f"\n    <motor {common}/>"
        if choice == "position":
            return f'\n    <position {common} kp="{self.number(1, 10)}" kv="{self.number(0, 1)}"/>'
        if choice == "velocity":
            return f'\n    <velocity {common} kv="{self.number(0.1, 2)}"/>'
        if choice == "damper":
            return f'\n    <damper {where} {gear} kv="{self.number(0.1, 2)}" ctrlrange="0 {self.number(0.2, 1)}"/>'
        gain = [self.number(-2, 2), self.number(-1, 1), self.number(-0.5, 0) if feels_velocity else "0"]
        bias = [self.number(-1, 1), self.number(-2, 0), self.number(-1, 0) if feels_velocity else "0"]
        prm = f'gainprm="{" ".join(gain)}" biasprm="{" ".join(bias)}"'
        return f'\n    <general {common} gaintype="affine" biastype="affine" {prm}/>'


# states


def quaternion_starts(m) -> list[int]:
    """Where quaternions start in q, from MuJoCo's model."""
    return [
        int(q) + (3 if kind == 0 else 0) for kind, q in zip(m.jnt_type, m.jnt_qposadr, strict=True) if kind in (0, 1)
    ]


def random_states(m, rng: np.random.Generator, count: int, *, speed: float = 1.0, unit: bool = True):
    """q (count, nq) around the pose of the file and v (count, nv); quaternions of any length if not ``unit``."""
    q = np.tile(m.qpos0, (count, 1))
    for row in q:
        mujoco.mj_integratePos(m, row, rng.normal(size=m.nv), 0.7)
        for i in quaternion_starts(m):
            row[i : i + 4] *= 1.0 if unit else rng.uniform(0.3, 3.0)
    return q, speed * rng.normal(size=(count, m.nv))


def shaken(m, rng: np.random.Generator, moments: int, *, every: int, restart: int, kick: float, weaker: bool = False):
    """MuJoCo's data at moments of a trajectory under random controls, ``every`` steps apart.

    It starts again after ``restart`` moments from a pose moved at random; every other moment is just after a kick
    [m/s or rad/s], which makes bodies slide and lift off. Controls are of all of their range, or ``weaker`` by chance.
    """
    data = mujoco.MjData(m)
    low, high = np.where(m.actuator_ctrllimited.astype(bool)[:, None], m.actuator_ctrlrange, (-1.0, 1.0)).T
    strength = 1.0
    for moment in range(moments):
        if moment % restart == 0:
            mujoco.mj_resetData(m, data)
            mujoco.mj_integratePos(m, data.qpos, 0.2 * rng.normal(size=m.nv), 1.0)
            strength = rng.uniform() if weaker else 1.0
        data.ctrl[:] = strength * rng.uniform(low, high)
        mujoco.mj_step(m, data, every)
        if any(warning.number for warning in data.warning):
            mujoco.mj_resetData(m, data)
            continue
        if moment % 2:
            data.qvel += kick * rng.normal(size=m.nv)
        mujoco.mj_forward(m, data)
        yield data


def lived_states(m, rng: np.random.Generator, count: int, *, every: int = 8, kick: float = 0.5):
    """q (count, nq), v (count, nv) and controls (count, nu) where contacts, limits or losses push."""
    found: list[tuple] = []
    for data in shaken(m, rng, 200 * count, every=every, restart=40, kick=kick):
        if np.abs(data.qfrc_constraint).max() > 1e-3 * np.abs(data.qfrc_smooth).max():
            found.append((data.qpos.copy(), data.qvel.copy(), data.ctrl.copy()))
        if len(found) == count:
            return tuple(np.array(column) for column in zip(*found, strict=True))
    raise AssertionError(f"only {len(found)} of {count} states with a constraint were found")


def touching_robot(seed: int):
    """MJCF of a random robot of one to three bodies; q (nq,), v (nv,) and controls (nu,) at which something pushes it.

    An AssertionError where nothing ever does. Of every two, one is left alone, and may have come to rest.
    """
    rng = np.random.default_rng(seed)
    text = random_tree(seed, bodies=int(rng.integers(1, 4)), touching=True, timestep=0.004)
    m = mujoco.MjModel.from_xml_string(text)
    states = lived_states(m, rng, 1 + seed % 4, kick=0.5 * (seed % 2))
    return text, *(column[-1] for column in states)
