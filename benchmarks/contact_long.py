"""Do things stay where they are put? Do bodies that nothing drives gain energy or momentum? Part of contact.py.

Drift is the largest distance that the origin of a body moves once things have settled.
"""

import mujoco
import numpy as np
from common import Result
from contact_scenes import FLOOR, MODELS, MUJOCO, attempt, free_body, quadruped, scene, stance
from oracles import precise

import pullback as pb

# --- at rest ----------------------------------------------------------------------------------------------------------

SETTLE = 2.0  # [s]
ROOM = 128  # contacts: ten boxes on one another may have eight each
LEAST_DRIFT = 1e-6  # below this a drift is compared as if it were this [m]
CUBE = 'type="box" size="0.05 0.05 0.05" mass="0.5"'
FINGER = """<body name="{0}" pos="{1} 0 0.3"><joint name="{0}" type="slide" axis="1 0 0" damping="5"/>
  <geom type="box" size="0.02 0.04 0.04" mass="0.2"/></body>"""


def stack(boxes: int = 10) -> tuple[pb.Model, np.ndarray]:
    world = "".join(free_body(f"box {i}", CUBE, f"0 0 {0.05 + 0.1 * i:.17g}") for i in range(boxes))
    return pb.load(scene(FLOOR + world)), np.zeros(0)


def grip() -> tuple[pb.Model, np.ndarray]:
    """A cube in the air between two fingers that are pressed together with 20 N."""
    world = FINGER.format("left", -0.07) + FINGER.format("right", 0.07) + free_body("cube", CUBE, "0 0 0.3")
    motors = '<actuator><motor joint="left"/><motor joint="right"/></actuator>'
    return pb.load(scene(FLOOR + world, rest=motors)), np.array([20.0, -20.0])


def standing() -> tuple[pb.Model, np.ndarray]:
    model = pb.load(quadruped(servos=True))
    return model, stance(model)


SCENES = {"a stack of 10 boxes": stack, "a cube in a grip": grip, "a quadruped that stands": standing}


def places(m: mujoco.MjModel, q: np.ndarray) -> np.ndarray:
    """(bodies, 3) [m]"""
    data = mujoco.MjData(m)
    data.qpos[:] = q
    mujoco.mj_kinematics(m, data)
    return data.xpos.copy()


def largest_drift(m: mujoco.MjModel, before: np.ndarray, after: np.ndarray) -> float:
    return float(np.linalg.norm(places(m, after) - places(m, before), axis=1).max())


def our_drift(model: pb.Model, contact, control: np.ndarray, seconds: float) -> float:
    system = pb.Articulated(model, contact=contact)
    settle, steps = (round(time / model.timestep) for time in (SETTLE, seconds))
    settled = pb.rollout(system, system.state(), np.tile(control, (settle, 1, 1)), checkpoint_every=settle).final
    end = pb.rollout(system, settled, np.tile(control, (steps, 1, 1)), checkpoint_every=steps).final
    return largest_drift(model.mujoco, settled.q[0], end.q[0])


def mujoco_drift(model: pb.Model, control: np.ndarray, seconds: float) -> float:
    m = precise(model.mujoco)
    data = mujoco.MjData(m)
    data.qpos[:] = model.home.q
    data.ctrl[:] = control
    mujoco.mj_step(m, data, round(SETTLE / m.opt.timestep))
    settled = data.qpos.copy()
    mujoco.mj_step(m, data, round(seconds / m.opt.timestep))
    return largest_drift(m, settled, data.qpos)


def drift(quick: bool):
    seconds = 1.0 if quick else 10.0
    for title, make in SCENES.items():
        model, control = make()
        theirs = mujoco_drift(model, control, seconds)

        def with_impulse(figure, model=model, control=control):
            value = our_drift(model, pb.ContactImpulse(max_contacts=ROOM), control, seconds)
            yield Result(figure, 1e3 * value, "mm", "<= 1", "", f"MuJoCo's: {1e3 * theirs:.2g} mm")  # noqa: B023

        def with_convex(figure, model=model, control=control, theirs=theirs):
            value = our_drift(model, pb.ContactConvex(max_contacts=ROOM), control, seconds)
            off = abs(value - theirs) / max(theirs, LEAST_DRIFT)
            yield Result(figure, off, "", "<= 0.01", MUJOCO, f"{1e3 * value:.4g} against {1e3 * theirs:.4g} mm")

        yield from attempt(f"{title}, {seconds:g} s, impulse: drift", with_impulse, "<= 1")
        yield from attempt(f"{title}, {seconds:g} s, convex: drift against MuJoCo's", with_convex, "<= 0.01")


# --- in motion --------------------------------------------------------------------------------------------------------

CHAIN = """<body pos="0 0 0.6" euler="20 70 0"><freejoint/><geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.03"/>
  <body pos="0 0 0.2"><joint type="ball"/><geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.03"/>
    <body pos="0 0 0.2"><joint type="ball"/><geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.03"/></body></body>
  </body>"""
PASSIVE = {  # MJCF of the world, and the velocity at the start
    "a tumbling box": (free_body("box", CUBE, "0 0 0.3", 'euler="20 30 0"'), [1.0, 0.3, 0, 3.0, 2.0, 1.0]),
    "a falling chain": (CHAIN, [0.2, 0.1, 0, 1.0, 0.5, 0, 0.3, 0.2, 0, 0, 0.4, 0.1]),
    "a sliding block": (free_body("box", CUBE, "0 0 0.05"), [2.0, 0.5, 0, 0, 0, 1.0]),
}


def energies(m: mujoco.MjModel, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(steps,) of one world [J]"""
    m.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(m)
    found = []
    for data.qpos[:], data.qvel[:] in zip(q, v, strict=True):
        mujoco.mj_fwdPosition(m, data)
        mujoco.mj_energyPos(m, data)
        mujoco.mj_energyVel(m, data)
        found.append(data.energy.sum())
    return np.array(found)


def growth(world: str, v: list[float], contact, timestep: float, time: float) -> tuple[float, float]:
    """How far the energy rises above that of the start, and above the least so far, against what is lost in all."""
    model = pb.load(scene(FLOOR + world, timestep=timestep))
    system = pb.Articulated(model, contact=contact)
    run = pb.rollout(system, system.state(None, np.array(v)), steps=round(time / timestep))
    m = mujoco.MjModel.from_xml_string(scene(world, timestep=timestep))  # without the floor: no contacts to be found
    energy = energies(m, run.q[:, 0], run.v[:, 0])
    lost = float(energy[0] - energy.min())
    return max(0.0, float(energy.max() - energy[0])) / lost, float(
        np.max(energy - np.minimum.accumulate(energy))
    ) / lost


def energy(quick: bool):
    """Energy is kinetic and of height alone: soft contacts store some and give it back, which is a rise, no growth."""
    time, h = 0.5 if quick else 2.0, 2e-3
    for title, (world, v) in PASSIVE.items():
        for name, contact in MODELS.items():

            def figures(figure, world=world, v=v, contact=contact):
                (coarse, rise), (fine, fine_rise) = (growth(world, v, contact, step, time) for step in (h, h / 2))
                note = (
                    f"growth {coarse:.1e} and {fine:.1e} at dt = {1e3 * h:g} and {500 * h:g} ms, against all that is "
                )
                note += f"lost; largest rise in between {rise:.1e} and {fine_rise:.1e}"
                # A motion whose energy never exceeds that of the start has nothing that could fall.
                ratio = 0.0 if max(coarse, fine) <= 1e-12 else fine / max(coarse, 1e-12)
                yield Result(figure, ratio, "ratio", "<= 0.6", "", note)

            yield from attempt(f"{title}, {name}: growth of energy at dt/2 against dt", figures, "<= 0.6")


# Cubes: a body with unlike moments of inertia gains energy in free flight with this integrator, as in MuJoCo.
THROWN = {
    "a cube": free_body("box", CUBE, "0 0 0.5"),
    "four cubes": "".join(
        free_body(f"box{i}", f'type="box" size="{size} {size} {size}" mass="{mass}"', place)
        for i, (size, mass, place) in enumerate(
            [(0.1, 1, "0 0 0.4"), (0.1, 0.2, "0.05 0.02 0.75"), (0.1, 5, "0 0.04 1.1"), (0.08, 1, "-0.03 0 1.5")]
        )
    ),
}


def rise(world: str, restitution: float, timestep: float, throws: int) -> float:
    """How far the energy rises above the least so far, against that of the start; the worst of some random throws."""
    model = pb.load(scene(FLOOR + world, timestep=timestep))
    system = pb.Articulated(model, contact=pb.ContactImpulse(restitution=restitution, max_contacts=ROOM), worlds=throws)
    size = np.tile([1, 1, 1, 5, 5, 5], model.nv // 6)
    start = system.state(v=size * np.random.default_rng(0).normal(size=(throws, model.nv)))
    run = pb.rollout(system, start, steps=round(1.0 / timestep))
    found = 0.0
    for i in range(throws):
        m = mujoco.MjModel.from_xml_string(scene(world, timestep=timestep))
        energy = energies(m, run.q[:, i], run.v[:, i])
        found = max(found, float(np.max(energy - np.minimum.accumulate(energy)) / energy[0]))
    return found


def thrown(quick: bool):
    throws, h = 6 if quick else 60, 2e-3
    for title, world in THROWN.items():
        for e in (0.5, 0.8, 0.9, 1.0):

            def figures(figure, world=world, e=e):
                coarse, middle, fine = (rise(world, e, step, throws) for step in (h, h / 2, h / 4))
                note = f"against all that it has at the start; {coarse:.1e} at 2 ms, {middle:.1e} at 1 ms"
                yield Result(figure, fine, "", "<= 0.005", "", note)

            title_of = f"{title} thrown {throws} times, impulse, friction 1, restitution {e:g}, dt 0.5 ms"
            yield from attempt(f"{title_of}: rise of energy", figures, "<= 0.005")


def momentum(quick: bool):
    """Two bodies that meet in the void, off centre and with friction."""
    world = free_body("left", CUBE, "-0.2 0 0", 'euler="20 10 40"') + free_body(
        "right", 'type="capsule" size="0.05 0.08" mass="0.8"', "0.2 0.03 0.02", 'euler="70 30 0"'
    )
    v = np.array([1.5, 0.1, 0, 1.0, 2.0, 0.5, -0.5, 0, 0.1, 0.3, -1.0, 0.7])
    for name, contact in MODELS.items():

        def figures(figure, contact=contact):
            model = pb.load(scene(world, gravity=(0, 0, 0)))
            system = pb.Articulated(model, contact=contact)
            run = pb.rollout(system, system.state(None, v), steps=300)
            mass = model.mujoco.body_mass[1:]
            linear = run.v[:, 0].reshape(-1, 2, 6)[:, :, :3] * mass[:, None]
            total = linear.sum(axis=1)
            change = np.abs(linear - linear[0]).max()
            off = np.abs(total - total[0]).max() / np.abs(linear).sum(axis=(1, 2)).max()
            note = f"the impact changes that of each by {change:.2f} N·s" if change > 1e-3 else "they did not meet"
            yield Result(figure, off if change > 1e-3 else None, "", "<= 1e-12", "", note)

        yield from attempt(f"linear momentum of two bodies that collide, {name}: relative error", figures, "<= 1e-12")
