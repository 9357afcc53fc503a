"""The peers, on the same robot and the same work: MuJoCo's C stepping, Pinocchio, MJX and Newton.

Every function raises `Absent` with the reason where a peer is not installed or cannot take the robot; a benchmark
lists it as absent and never guesses. Robots are taken without constraints (contacts, limits, friction loss,
equalities), unless a function is asked for contacts.

The gradient peers differentiate one and the same function. The controls `(steps, nu)` go through a rollout to

    loss = 1/2 |q_T - q_home|^2 + 1/2 |v_T|^2        (stored coordinates, q_home = mj_model.qpos0)

`python benchmarks/peers_check.py` prints how well they agree with MuJoCo on a quadruped.
"""

import copy
import functools
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import interleave
from oracles import mujoco_run, unconstrained


class Absent(Exception):
    """A peer that cannot take part, and why."""


def _import(name: str) -> Any:
    """A peer's package. Its import may fail in any way (a broken binary is an OSError), so all of them mean absent."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise Absent(f"cannot import {name}: {type(error).__name__}: {error}") from error


# MuJoCo


@dataclass(frozen=True)
class Steps:
    """Plain stepping by a peer: `call()` runs `steps` steps of every world from the same start, `how` says by what."""

    call: Callable[[], object]
    steps: int
    seconds_a_step: float
    how: str


def mujoco_steps(mj_model, q0, v0, controls, *, repeats: int = 5, contacts: bool = False) -> Steps:
    """The faster of MuJoCo's two ways to step without Python in between, on one thread.

    `q0 (nq,)`, `v0 (nv,)`, `controls (T, nu)`: one world, through `mujoco.rollout` or through `mj_step(nstep=T)`. The
    latter holds the mean control, since only `rollout` takes one a step. With a world axis, `q0 (worlds, nq)`,
    `v0 (worlds, nv)`, `controls (T, worlds, nu)`, there is only `rollout`. `seconds_a_step` is for one world.
    With `contacts` the model is taken as it is, constraints, solver and all.
    """
    mujoco = _import("mujoco")
    rollout = _import("mujoco.rollout")
    model = mj_model if contacts else unconstrained(mj_model)
    data = mujoco.MjData(model)
    q0, v0, controls = (np.asarray(x, dtype=np.float64) for x in (q0, v0, controls))
    single = q0.ndim == 1
    worlds = 1 if single else len(q0)
    steps = len(controls)

    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    starts = np.empty((worlds, mujoco.mj_stateSize(model, full)))
    for start, q, v in zip(starts, q0.reshape(worlds, -1), v0.reshape(worlds, -1), strict=True):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_getState(model, data, start, full)
    by_world = np.ascontiguousarray(controls.reshape(steps, worlds, model.nu).transpose(1, 0, 2))
    states = np.empty((worlds, steps, starts.shape[1]))
    sensors = np.empty((worlds, steps, model.nsensordata))
    roller = rollout.Rollout(nthread=0)  # on the calling thread

    def by_rollout():
        roller.rollout(
            [model] * worlds,
            [data],
            starts,
            by_world if model.nu else None,
            nstep=steps,
            skip_checks=True,
            state=states,
            sensordata=sensors,
        )
        return states

    def by_mj_step():
        mujoco.mj_setState(model, data, starts[0], full)
        data.ctrl[:] = by_world[0].mean(axis=0)
        mujoco.mj_step(model, data, nstep=steps)
        return data

    ways = {"mujoco.rollout": by_rollout}
    if single:
        ways[f"mj_step(nstep={steps})"] = by_mj_step
    # After a warning (a state that blows up) `rollout` stops stepping and `mj_step` starts again from the home pose:
    # neither would be a fair time.
    for name, way in list(ways.items()):
        mujoco.mj_resetData(model, data)
        way()
        if any(warning.number for warning in data.warning):
            del ways[name]
    if not ways:
        raise ValueError("the motion is unstable under these controls: nothing to time")
    seconds = interleave(ways, repeats=repeats)
    how = min(seconds, key=seconds.get)
    return Steps(call=ways[how], steps=steps, seconds_a_step=seconds[how] / (steps * worlds), how=how)


def mujoco_rollout(mj_model, q0, v0, controls) -> tuple[np.ndarray, np.ndarray]:
    """The final `(q, v)` of one world by plain `mj_step`, without constraints: what the peers are checked against."""
    q, v = mujoco_run(mj_model, np.asarray(q0)[None], np.asarray(v0)[None], np.asarray(controls)[:, None])
    return q[-1, 0], v[-1, 0]


def mujoco_loss(mj_model, q0, v0, controls) -> float:
    """The common loss by plain `mj_step`."""
    q, v = mujoco_rollout(mj_model, q0, v0, controls)
    return 0.5 * float(np.sum((q - mj_model.qpos0) ** 2) + np.sum(v**2))


# Pinocchio


def pinocchio_model(mj_model, *, free_flyer: bool = False):
    """Pinocchio's model of the tree in `mj_model`: see `testing/pinocchio_trees.py`."""
    if mj_model.ntendon and np.any(mj_model.tendon_armature):
        raise Absent("pinocchio has no armature of tendons")
    return _import("pinocchio_trees").pinocchio_model(mj_model, free_flyer=free_flyer)


# MJX


def mjx_gradient(mj_model, steps: int, *, worlds: int | None = None, contacts: bool = False) -> tuple[Callable, float]:
    """`(f, compile_seconds)`; `f(q0, v0, controls)` gives `(loss, d loss / d controls)` by reverse mode on the CPU.

    `q0 (nq,)`, `v0 (nv,)`, `controls (steps, nu)`; with `worlds`, `q0 (worlds, nq)`, `v0 (worlds, nv)`, `controls
    (steps, worlds, nu)`, and the losses are `(worlds,)`. In float64, which is switched on for the whole process.
    Results are JAX arrays: call `f(...)[1].block_until_ready()` when timing. With `contacts` constraints stay on, and
    the solver takes one iteration: more are a loop of unknown length, which JAX cannot differentiate backwards.
    """
    mujoco = _import("mujoco")
    jax = _import("jax")
    mjx = _import("mujoco.mjx")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    start = time.perf_counter()
    model = copy.copy(mj_model) if contacts else unconstrained(mj_model)
    if contacts:
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        model.opt.iterations, model.opt.ls_iterations = 1, 4
    if not np.any(model.dof_damping):
        # MJX would factorise M a second time for damping that is not there; MuJoCo's C code skips it by itself.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    try:
        cpu = jax.devices("cpu")[0]
        model_x = mjx.put_model(model, device=cpu, impl="jax")
        data_x = mjx.make_data(model, device=cpu, impl="jax")
    except Exception as error:
        raise Absent(f"MJX cannot take this model: {type(error).__name__}: {error}") from error
    home = jnp.asarray(model.qpos0)

    def loss(controls, q0, v0):
        def advance(data, control):
            return mjx.step(model_x, data.replace(ctrl=control)), None

        last, _ = jax.lax.scan(advance, data_x.replace(qpos=q0, qvel=v0), controls)
        return 0.5 * jnp.sum((last.qpos - home) ** 2) + 0.5 * jnp.sum(last.qvel**2)

    gradient = jax.value_and_grad(loss)
    batch = () if worlds is None else (worlds,)
    if worlds is not None:
        gradient = jax.vmap(gradient, in_axes=(1, 0, 0), out_axes=(0, 1))

    def shape(*size):
        return jax.ShapeDtypeStruct(size, jnp.float64)

    arguments = shape(steps, *batch, model.nu), shape(*batch, model.nq), shape(*batch, model.nv)
    with jax.default_device(cpu):
        compiled = jax.jit(gradient).lower(*arguments).compile()
    seconds = time.perf_counter() - start

    def f(q0, v0, controls):
        return compiled(*(jnp.asarray(x, jnp.float64) for x in (controls, q0, v0)))

    return f, seconds


# Newton


def newton_gradient(
    mjcf_xml: str, steps: int, *, solver_a_step: bool = True, contacts: bool = False, contacts_at_most: int = 16
) -> tuple[Callable, float]:
    """`(f, set_up_seconds)`; `f(q0, v0, controls)` gives `(loss, d loss / d controls)` through `SolverFeatherstone`.

    One world, CPU, float32 (Newton has no other), `wp.Tape`. `q0 (nq,)`, `v0 (nv,)` in MuJoCo's coordinates; `controls
    (steps, nu)` are those of motors on hinges and slides (`<motor joint=...>`), with no range applied to them.
    The loss is the common one where the free body's centre of mass is at its origin: Newton's velocity is that of the
    centre of mass. Damping is explicit here and implicit in MuJoCo, so a damped robot agrees only to first order in dt.

    The solver keeps its mass matrix and factor in itself and overwrites them every step, while the tape needs those of
    each step. One solver for the whole rollout therefore gives a wrong gradient; `solver_a_step` gives each its own.

    With `contacts` they are found anew in every step, and act as springs that are explicit: with the stiffness, damping
    and friction that Newton sets by default a foot of 0.3 kg blows up at this timestep, so softer ones are taken.

    `set_up_seconds` includes the first gradient, and with it what Warp compiles. That is all of it only where Warp's
    kernel cache is empty (point WARP_CACHE_PATH at an empty folder before Python starts).
    """
    mujoco = _import("mujoco")
    wp = _import("warp")
    newton = _import("newton")
    mj_model = mujoco.MjModel.from_xml_string(mjcf_xml)
    rows, gears = _motors(mj_model)

    start = time.perf_counter()
    try:
        builder = newton.ModelBuilder()
        builder.add_mjcf(mjcf_xml)
        # Constraints off: Newton's limits are springs. Contacts are off if none are passed to `step`.
        builder.joint_limit_ke = [0.0] * len(builder.joint_limit_ke)
        builder.joint_limit_kd = [0.0] * len(builder.joint_limit_kd)
        if contacts:
            shapes = len(builder.shape_material_ke)
            builder.shape_material_ke = [2e4] * shapes  # [N/m]
            builder.shape_material_kd = [50.0] * shapes  # [N·s/m]
            builder.shape_material_kf = [20.0] * shapes  # [N·s/m]
        model = builder.finalize(device="cpu", requires_grad=True)
        if contacts:
            model.rigid_contact_max = contacts_at_most  # by default it works through a thousand
    except Exception as error:
        raise Absent(f"Newton cannot take this model: {type(error).__name__}: {error}") from error
    joints = _newton_joints(newton, model, mj_model)
    drive, distance, square = _newton_kernels()

    dt = float(mj_model.opt.timestep)
    states = [model.state() for _ in range(steps + 1)]
    forces = [model.control() for _ in range(steps)]
    solvers = [
        newton.solvers.SolverFeatherstone(model, angular_damping=0.0) for _ in range(steps if solver_a_step else 1)
    ]
    pipeline = newton.CollisionPipeline(model) if contacts else None
    touching = [pipeline.contacts() if contacts else None for _ in range(steps)]
    home, _ = joints(mj_model.qpos0, np.zeros(mj_model.nv))
    home = wp.array(home, dtype=float, device="cpu")
    rows = wp.array(rows, dtype=int, device="cpu")
    gears = wp.array(gears, dtype=float, device="cpu")
    inputs = wp.zeros((steps, mj_model.nu), dtype=float, device="cpu", requires_grad=True)
    loss = wp.zeros(1, dtype=float, device="cpu", requires_grad=True)

    def f(q0, v0, controls):
        q, v = joints(q0, v0)
        states[0].joint_q.assign(q)
        states[0].joint_qd.assign(v)
        inputs.assign(np.asarray(controls, dtype=np.float32))
        loss.zero_()
        if contacts:  # which are found from the poses of bodies
            newton.eval_fk(model, states[0].joint_q, states[0].joint_qd, states[0])
        tape = wp.Tape()
        with tape:
            for t in range(steps):
                if contacts:
                    pipeline.collide(states[t], touching[t])
                wp.launch(
                    drive,
                    dim=mj_model.nu,
                    inputs=[t, inputs, rows, gears],
                    outputs=[forces[t].joint_f],
                    device="cpu",
                )
                solvers[t % len(solvers)].step(states[t], states[t + 1], forces[t], touching[t], dt)
            last = states[-1]
            wp.launch(distance, mj_model.nq, inputs=[last.joint_q, home], outputs=[loss], device="cpu")
            wp.launch(square, mj_model.nv, inputs=[last.joint_qd], outputs=[loss], device="cpu")
        tape.backward(loss)
        result = float(loss.numpy()[0]), inputs.grad.numpy().copy()
        tape.zero()
        return result

    f(mj_model.qpos0, np.zeros(mj_model.nv), np.zeros((steps, mj_model.nu)))
    return f, time.perf_counter() - start


def _motors(mj_model) -> tuple[np.ndarray, np.ndarray]:
    """The dof and the gear of each motor."""
    mujoco = _import("mujoco")
    on_joint = mj_model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_JOINT)
    plain = (
        (mj_model.actuator_gaintype == int(mujoco.mjtGain.mjGAIN_FIXED))
        & (mj_model.actuator_biastype == int(mujoco.mjtBias.mjBIAS_NONE))
        & (mj_model.actuator_dyntype == int(mujoco.mjtDyn.mjDYN_NONE))
    )
    joints = mj_model.actuator_trnid[:, 0]
    scalar = mj_model.jnt_type[joints] >= int(mujoco.mjtJoint.mjJNT_SLIDE)  # slides and hinges come last
    if not np.all(on_joint & plain & scalar):
        raise Absent(
            "Newton's Featherstone solver takes joint forces: only motors on hinges and slides can be compared"
        )
    return mj_model.jnt_dofadr[joints], mj_model.actuator_gear[:, 0] * mj_model.actuator_gainprm[:, 0]


def _newton_joints(newton, model, mj_model) -> Callable:
    """The map from MuJoCo's `(q, v)` to Newton's `(joint_q, joint_qd)`.

    Newton stores `xyzw`; a free joint's velocity is that of the centre of mass, linear and angular in world axes;
    hinges and slides count from the reference pose.
    """
    mujoco = _import("mujoco")
    kinds = mujoco.mjtJoint
    expected = {
        int(kinds.mjJNT_FREE): newton.JointType.FREE,
        int(kinds.mjJNT_HINGE): newton.JointType.REVOLUTE,
        int(kinds.mjJNT_SLIDE): newton.JointType.PRISMATIC,
    }
    moving = [int(kind) for kind in model.joint_type.numpy() if kind != newton.JointType.FIXED]
    if moving != [int(expected.get(int(kind), -1)) for kind in mj_model.jnt_type]:
        raise Absent("only one free, hinge or slide joint a body is mapped to Newton's coordinates")
    scalar = mj_model.jnt_qposadr[mj_model.jnt_type != int(kinds.mjJNT_FREE)]
    free = [
        (mj_model.jnt_qposadr[j], mj_model.jnt_dofadr[j], mj_model.body_ipos[mj_model.jnt_bodyid[j]])
        for j in range(mj_model.njnt)
        if mj_model.jnt_type[j] == kinds.mjJNT_FREE
    ]

    def convert(q, v):
        q, v = np.array(q, dtype=np.float64), np.array(v, dtype=np.float64)
        q[scalar] -= mj_model.qpos0[scalar]
        for i, j, com in free:
            matrix = np.empty(9)
            mujoco.mju_quat2Mat(matrix, q[i + 3 : i + 7])
            matrix = matrix.reshape(3, 3)
            w = matrix @ v[j + 3 : j + 6]
            v[j : j + 3] += np.cross(w, matrix @ com)
            v[j + 3 : j + 6] = w
            q[i + 3 : i + 7] = q[[i + 4, i + 5, i + 6, i + 3]]
        return q.astype(np.float32), v.astype(np.float32)

    return convert


@functools.cache
def _newton_kernels() -> tuple:
    """Controls to joint forces, and the two halves of the loss."""
    wp = _import("warp")

    @wp.kernel
    def drive(
        t: int,
        controls: wp.array2d(dtype=float),
        dofs: wp.array(dtype=int),
        gears: wp.array(dtype=float),
        joint_f: wp.array(dtype=float),
    ):
        i = wp.tid()
        joint_f[dofs[i]] = gears[i] * controls[t, i]

    @wp.kernel
    def distance(x: wp.array(dtype=float), home: wp.array(dtype=float), loss: wp.array(dtype=float)):
        i = wp.tid()
        d = x[i] - home[i]
        wp.atomic_add(loss, 0, 0.5 * d * d)

    @wp.kernel
    def square(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(loss, 0, 0.5 * x[i] * x[i])

    return drive, distance, square
