"""Are gradients through contact right? Differences of one step, and MuJoCo's own linearisation; part of contact.py."""

import dataclasses

import mujoco
import numpy as np
from common import Result
from contact_scenes import FLOOR, MODELS, MUJOCO, contact_states, free_body, gymnasium_model, scene
from oracles import precise

import pullback as pb
from pullback.rollout.check import WrongGradient

# --- check_system -----------------------------------------------------------------------------------------------------

# Depths are a fraction of a millimetre: steps much longer than those leave the contact. Relative to what is varied. [1]
WIDTHS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
TOLERANCE = {"convex": 1e-6, "impulse": 1e-7, "compliant": 1e-7}

BOX = 'type="box" size="0.1 0.08 0.06" mass="1.3" friction="0.7"'
PILE = (
    free_body("low", BOX, "0 0 0.06")
    + free_body("rod", 'type="capsule" size="0.05 0.1" mass="0.6"', "0 0 0.17", 'euler="90 20 0"')
    + free_body("ball", 'size="0.07" mass="0.5"', "0.16 0.02 0.07")
    + free_body("can", 'type="cylinder" size="0.06 0.08" mass="0.7"', "-0.16 0.01 0.08")
    + free_body("top", BOX, "0.02 0 0.28", 'euler="2 1 10"')
)
# A hinge, a slide and a ball joint, each a little beyond its limit.
LIMITED = """<body><joint axis="0 1 0" range="-20 30"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
  <body pos="0.3 0 0"><joint type="slide" axis="1 0 0" range="-0.05 0.1"/>
    <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03"/>
    <body pos="0.2 0 0"><joint type="ball" range="0 40"/><geom type="capsule" fromto="0 0 0 0.1 0.1 0" size="0.03"/>
    </body></body></body>"""


# A box with a rod that swings on it, so that everything matters even where the box itself lies still.
BOX_AND_ROD = f"""<body name="box"><freejoint/><geom name="box" {BOX}/><body pos="0.02 0 0.06">
  <joint axis="0.3 1 0" damping="0.02"/><geom type="capsule" fromto="0 0 0 0.1 0.03 0.15" size="0.02" mass="0.3"
  contype="0" conaffinity="0"/></body></body>"""


def situations() -> dict[str, tuple[str, np.ndarray, np.ndarray]]:
    """MJCF, q and v by name. The box has all its corners in the floor, by unlike depths but at rest."""
    flat, tilted = scene(FLOOR + BOX_AND_ROD), scene(FLOOR + BOX_AND_ROD, gravity=(3, 1, -9))
    still = np.array([0, 0, 0, 0, 0, 0, 0.5])
    slides, leaves = np.array([1, 0.4, 0, 0.1, 0.05, 0.3, 0.5]), np.array([0.3, 0.1, 0.8, 0.3, -0.2, 0.3, 0.5])

    def box(depth: float, tilt: float = 1e-3) -> np.ndarray:
        quat = np.array([1, tilt, 2 * tilt, 0.3])
        return np.array([0.1, -0.05, 0.06 - depth, *(quat / np.linalg.norm(quat)), 0.3])

    return {
        "rest": (flat, box(2e-3, 0.0), still),
        "sticking": (tilted, box(2e-3), still),
        "sliding": (flat, box(2e-3), slides),
        "separating": (flat, box(3e-4), leaves),
        "many contacts": _pile(),
        "joint limits": _limits(),
    }


def _pile() -> tuple[str, np.ndarray, np.ndarray]:
    """Five bodies, just after they have met."""
    text = scene(FLOOR + PILE)
    m = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(m)
    mujoco.mj_step(m, data, 60)
    return text, data.qpos.copy(), data.qvel.copy()


def _limits() -> tuple[str, np.ndarray, np.ndarray]:
    turn, quat = np.array([0.3, 0.2, 0.6]), np.zeros(4)
    mujoco.mju_axisAngle2Quat(quat, turn / np.linalg.norm(turn), np.radians(42))
    q = np.array([np.radians(31), -0.052, *quat])
    return scene(LIMITED), q, np.array([0.3, -0.2, 0.1, 0.2, 0.1])


def uneven(system: pb.Articulated) -> pb.Articulated:
    """Of two surfaces the larger friction counts: where both are the same there is a kink. Make all differ a little."""
    for name in {"friction", "restitution", "contact_stiffness", "contact_dissipation"} & set(system.params):
        value = system.params[name]
        factors = 1 + 0.02 * np.arange(len(value))
        system.params[name] = value * factors.reshape(-1, *[1] * (value.ndim - 1))
    return system


def checks(quick: bool):
    for name, contact in MODELS.items():
        for title, (text, q, v) in situations().items():
            must = f"<= {TOLERANCE[name]:g}"
            figure = f"check_system, {name}, {title}: worst best error"
            try:
                system = uneven(pb.Articulated(pb.load(text), contact=contact))
                names = {"q", "v", "friction", "joint_range"} & {"q", "v", *system.params} if quick else None
                report = pb.check_system(system, system.state(q, v), steps=WIDTHS, seed=3, names=names)
            except WrongGradient as error:
                report = error.report
            except pb.PullbackError as error:
                yield Result(figure, None, "", must, "", f"error: {error}")
                continue
            row = report.worst
            wrong = [f"{r.field} {r.error:.1e}" for r in report.rows if r.status == "WRONG"]
            note = f"wrong: {', '.join(wrong)}" if wrong else f"{row.field}, {row.worst}"
            yield Result(figure, row.error, "", must, "", note)


# --- accelerations ----------------------------------------------------------------------------------------------------

ROBOTS = ("ant", "hopper", "half_cheetah", "walker2d", "humanoid", "pusher", "quadruped")


def robot(name: str) -> pb.Model | None:
    return pb.load(pb.robots.quadruped()) if name == "quadruped" else gymnasium_model(name)


def accelerations(quick: bool):
    """From one step of Euler's without implicit damping; an error is against the largest acceleration of the state."""
    count = 200 if quick else 1000
    for name in ROBOTS:
        figure = f"qacc with contact, {name}: 99.9th percentile of the relative error"
        model = robot(name)
        if model is None:
            yield Result(figure, None, "", "<= 1e-6", MUJOCO, "absent: Gymnasium is not installed")
            continue
        q, v, controls, contacts = contact_states(model.mujoco, np.random.default_rng(0), count)
        explicit = dataclasses.replace(model, integrator="euler", implicit_damping=False)
        system = pb.Articulated(explicit, contact=pb.ContactConvex(), worlds=count)
        try:
            ours = (system.step(system.state(q, v), controls).v - v) / model.timestep
        except pb.PullbackError as error:
            yield Result(figure, None, "", "<= 1e-6", MUJOCO, f"error: {error}")
            continue
        m = precise(model.mujoco, euler=True)
        data = mujoco.MjData(m)
        errors = np.empty(count)
        for i in range(count):
            mujoco.mj_resetData(m, data)
            data.qpos[:], data.qvel[:], data.ctrl[:] = q[i], v[i], controls[i]
            mujoco.mj_forward(m, data)
            errors[i] = np.abs(ours[i] - data.qacc).max() / max(1.0, np.abs(data.qacc).max())
        note = f"{count} states, {contacts.mean():.1f} contacts on average, {contacts.max()} at most; "
        note += f"median {np.median(errors):.1e}, worst {errors.max():.1e}"
        yield Result(figure, float(np.quantile(errors, 0.999)), "", "<= 1e-6", MUJOCO, note)


# --- linearize --------------------------------------------------------------------------------------------------------

WIDTH = 1e-6  # of MuJoCo's differences


def active_rows(data: mujoco.MjData) -> tuple:
    return data.ncon, tuple(data.contact.geom.ravel()), tuple(data.efc_type), tuple(data.efc_state)


def is_steady(m: mujoco.MjModel, q: np.ndarray, v: np.ndarray, control: np.ndarray) -> bool:
    """Whether the same contacts and rows are active in every state that differences visit, and thrice as far away."""
    data = mujoco.MjData(m)

    def rows(dq, dv, du):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = q, v + dv, control + du
        mujoco.mj_integratePos(m, data.qpos, dq, 1.0)
        mujoco.mj_forward(m, data)
        return active_rows(data)

    still, idle = np.zeros(m.nv), np.zeros(m.nu)
    here = rows(still, still, idle)
    for step in (-3 * WIDTH, 3 * WIDTH):
        for e in step * np.eye(m.nv):
            if rows(e, still, idle) != here or rows(still, e, idle) != here:
                return False
        if any(rows(still, still, e) != here for e in step * np.eye(m.nu)):
            return False
    return True


def linearisation(quick: bool):
    for name in ("quadruped", "ant", "humanoid"):
        figure = f"linearize with contact, {name}: relative error"
        model = robot(name)
        if model is None:
            yield Result(figure, None, "", "<= 1e-4", MUJOCO, "absent: Gymnasium is not installed")
            continue
        model = dataclasses.replace(model, integrator="euler")
        m = precise(model.mujoco)
        m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        count = 15 if quick else 100
        q, v, controls, contacts = contact_states(model.mujoco, np.random.default_rng(1), count)
        controls *= 0.9  # away from the ends of their ranges, where MuJoCo's differences are one-sided
        steady = np.array([is_steady(m, *state) for state in zip(q, v, controls, strict=True)])
        q, v, controls = q[steady], v[steady], controls[steady]
        system = pb.Articulated(model, contact=pb.ContactConvex(), worlds=len(q))
        A, B = system.linearize(system.state(q, v), controls)
        data = mujoco.MjData(m)
        errors = []
        for i in range(len(q)):
            mujoco.mj_resetData(m, data)
            data.qpos[:], data.qvel[:], data.ctrl[:] = q[i], v[i], controls[i]
            theirs = np.zeros_like(A[i]), np.zeros_like(B[i])
            mujoco.mjd_transitionFD(m, data, WIDTH, 1, *theirs, None, None)
            errors.append(max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip((A[i], B[i]), theirs, strict=True)))
        note = f"{len(q)} states, {contacts[steady].mean():.1f} contacts on average, median {np.median(errors):.1e}; "
        note += f"{count - len(q)} of {count} left out, where a contact or row comes or goes nearby"
        yield Result(figure, max(errors), "", "<= 1e-4", f"{MUJOCO}, mjd_transitionFD", note)
