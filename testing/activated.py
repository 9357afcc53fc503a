"""Random robots whose actuators have activations, and MuJoCo's motion of them."""

from __future__ import annotations

import mujoco
import numpy as np
from oracles import NoOracle, relative_error, unconstrained
from trees import random_states, random_tree

import pullback as pb

DYNAMICS = ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT")


def random_activated(seed: int, **how) -> mujoco.MjModel:
    """A random tree (see ``trees``) of which every actuator has one of the activations, or none; at least one has."""
    rng = np.random.default_rng(seed)
    spec = mujoco.MjSpec.from_string(random_tree(seed, **how))
    for number, actuator in enumerate(spec.actuators):
        kind = DYNAMICS[int(rng.integers(1, 4)) if number == 0 else int(rng.integers(0, 4))]
        actuator.dyntype = getattr(mujoco.mjtDyn, f"mjDYN_{kind}")
        if kind == "NONE":
            continue
        actuator.dynprm[0] = rng.uniform(0.005, 0.1)
        actuator.actearly = bool(rng.random() < 0.4)
        if rng.random() < 0.5:
            actuator.actlimited, actuator.actrange = True, np.sort(rng.normal(size=2))
    return spec.compile()


def mujoco_motion(m: mujoco.MjModel, q, v, act, controls, *, free: bool = True) -> tuple[np.ndarray, ...]:
    """q, v and act (steps + 1, worlds, ...) by ``mj_step``; ``free`` of constraints or with them."""
    m = unconstrained(m) if free else m
    data = mujoco.MjData(m)
    found = [np.empty((len(controls) + 1, *np.shape(x))) for x in (q, v, act)]
    for world in range(len(q)):
        mujoco.mj_resetData(m, data)
        data.qpos[:], data.qvel[:], data.act[:] = q[world], v[world], act[world]
        for t in range(len(controls) + 1):
            for rows, x in zip(found, (data.qpos, data.qvel, data.act), strict=True):
                rows[t, world] = x
            if t < len(controls):
                data.ctrl[:] = controls[t, world]
                mujoco.mj_step(m, data)
        if any(warning.number for warning in data.warning):
            raise NoOracle(f"MuJoCo warns about world {world}: it may have gone on from another state")
    return tuple(found)


def random_motion_error(
    m: mujoco.MjModel, seed: int, *, act: tuple[float, float], control: tuple[float, float]
) -> float:
    """How far 8 steps of three worlds are from MuJoCo's, without constraints; NoOracle where it warns.

    act, control: mean and spread of activations and controls
    """
    model, rng, worlds = pb.load(m), np.random.default_rng(seed), 3
    q, v = random_states(m, rng, worlds)
    activations, controls = rng.normal(*act, (worlds, m.na)), rng.normal(*control, (8, worlds, m.nu))
    theirs = mujoco_motion(m, q, v, activations, controls)
    system = pb.Articulated(model, contact=None, worlds=worlds)
    assert model.na == m.na
    run = pb.rollout(system, system.state(q, v, activations), controls)
    return max(relative_error(ours, exact) for ours, exact in zip(run.states, theirs, strict=True))


def muscle_law(rng: np.random.Generator) -> np.ndarray:
    """Numbers of a muscle for gainprm or biasprm; the force is positive, or follows from the file."""
    low, lmin = rng.uniform(0.6, 0.9), rng.uniform(0.4, 0.8)
    force = rng.uniform(1, 8) if rng.random() < 0.5 else -1.0
    law = [low, low + rng.uniform(0.2, 0.6), force, rng.uniform(5, 40), lmin, rng.uniform(1.2, 1.8)]
    return np.array([*law, rng.uniform(1, 5), rng.uniform(0.5, 2), rng.uniform(1.1, 1.6), 0.0])


def random_muscles(seed: int, **how) -> mujoco.MjModel:
    """The same robots, of which most actuators have gains or biases of muscles; with a thruster at a site."""
    rng = np.random.default_rng(seed)
    spec = mujoco.MjSpec.from_string(random_tree(seed, **how))
    for actuator in spec.actuators:
        turns = actuator.trntype == mujoco.mjtTrn.mjTRN_JOINTINPARENT or spec.joint(actuator.target).type in (
            mujoco.mjtJoint.mjJNT_BALL,
            mujoco.mjtJoint.mjJNT_FREE,
        )
        if turns and how.get("integrator") == "implicitfast":
            continue
        actuator.lengthrange = np.sort(rng.normal(size=2))
        if rng.random() < 0.7:
            actuator.gaintype, actuator.gainprm = mujoco.mjtGain.mjGAIN_MUSCLE, muscle_law(rng)
            actuator.ctrlspec = 0  # what its control means to a servo
        if rng.random() < 0.6:
            actuator.biastype, actuator.biasprm = mujoco.mjtBias.mjBIAS_MUSCLE, muscle_law(rng)
        if rng.random() < 0.7:
            actuator.dyntype, actuator.actearly = mujoco.mjtDyn.mjDYN_MUSCLE, bool(rng.random() < 0.3)
            actuator.dynprm[:3] = rng.uniform(0.005, 0.05), rng.uniform(0.02, 0.1), rng.choice([0, 0.3])
    body = spec.bodies[-1]
    body.add_site(name="jet", pos=0.1 * rng.normal(size=3), quat=rng.normal(size=4))
    jet = spec.add_actuator(trntype=mujoco.mjtTrn.mjTRN_SITE, target="jet", gear=rng.normal(size=6))
    jet.dyntype, jet.dynprm[0] = mujoco.mjtDyn.mjDYN_FILTER, 0.05
    return spec.compile()


def random_actuators(seed: int, **how) -> mujoco.MjModel:
    """The same robots with actuators between sites, servos and feedback on ball and free joints, and a tendon that
    limits the force of its actuators; one of them has an activation."""
    rng = np.random.default_rng(seed)
    spec = mujoco.MjSpec.from_string(random_tree(seed, **how))
    trn = mujoco.mjtTrn
    spec.worldbody.add_site(name="site0", pos=rng.normal(size=3), quat=rng.normal(size=4))
    bodies = [body for body in spec.bodies if body.name != "world"]
    for number, body in enumerate(bodies, start=1):
        body.add_site(name=f"site{number}", pos=0.1 * rng.normal(size=3), quat=rng.normal(size=4))
    some_site = lambda: f"site{rng.integers(0, len(bodies) + 1)}"  # noqa: E731

    def affine(scale: float = 0.3):
        bias = np.array([rng.normal(), -scale * rng.random(), -0.2 * rng.random(), *[0] * 7])
        gain = np.array([rng.normal(), *[0] * 9])
        kinds = {"gaintype": mujoco.mjtGain.mjGAIN_AFFINE, "biastype": mujoco.mjtBias.mjBIAS_AFFINE}
        limits = {"forcelimited": bool(rng.random() < 0.3), "forcerange": (-0.5, 0.6)}
        return {"gainprm": gain, "biasprm": bias, **kinds, **limits}

    def gear(linear: float, angular: float) -> np.ndarray:
        return np.concatenate([linear * rng.normal(size=3), angular * rng.normal(size=3)])

    jet = spec.add_actuator(trntype=trn.mjTRN_SITE, target=some_site(), gear=gear(1, 0.3), **affine())
    jet.dyntype, jet.dynprm[0] = mujoco.mjtDyn.mjDYN_FILTER, 0.05
    for parts in ((1, 0), (0, 0.3), (1, 0.3)):
        sites = {"target": some_site(), "refsite": some_site()}
        spec.add_actuator(trntype=trn.mjTRN_SITE, gear=gear(*parts), **sites, **affine())
    for rod in (0.2, 3.0):
        sites = {"target": some_site(), "slidersite": some_site(), "cranklength": rod}
        spec.add_actuator(trntype=trn.mjTRN_SLIDERCRANK, gear=gear(1, 0), **sites, **affine())
    servo = spec.add_actuator(trntype=trn.mjTRN_SITE, target=some_site(), refsite=some_site(), gear=gear(0, 0.2))
    servo.set_to_position(kp=rng.uniform(0.5, 2), kv=0.1)
    scalar = []
    for joint in list(spec.joints):
        if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            scalar.append(joint.name)
            continue
        where = {"target": joint.name, "trntype": rng.choice([int(trn.mjTRN_JOINT), int(trn.mjTRN_JOINTINPARENT)])}
        spec.add_actuator(**{**where, "trntype": trn(int(where["trntype"]))}, gear=gear(0.5, 0.2), **affine())
        if joint.type == mujoco.mjtJoint.mjJNT_BALL:
            servo = spec.add_actuator(trntype=trn.mjTRN_JOINT, target=joint.name, gear=gear(0.3, 0))
            servo.set_to_position(kp=rng.uniform(0.5, 2), kv=0.05)
    if scalar:
        tendon = spec.add_tendon(name="held", actfrclimited=True, actfrcrange=(-0.4, 0.3))
        for name in scalar:
            tendon.wrap_joint(name, rng.normal())
        for _ in range(2):
            spec.add_actuator(trntype=trn.mjTRN_TENDON, target="held", gear=gear(1, 0), **affine())
    return spec.compile()
