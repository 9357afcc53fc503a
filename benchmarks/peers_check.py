"""How well the peers agree with MuJoCo, and with each other, on a quadruped: python benchmarks/peers_check.py"""

from collections.abc import Callable

import mujoco
import numpy as np
from common import interleave
from peers import (
    Absent,
    mjx_gradient,
    mujoco_loss,
    mujoco_steps,
    newton_gradient,
    pinocchio_model,
    unconstrained,
)


def quadruped() -> str:
    """A free base and twelve hinges, four legs of hip, thigh and shin. No contacts in effect, one motor a hinge."""
    legs, motors = [], []
    for name, x, y in (("fl", 0.2, 0.1), ("fr", 0.2, -0.1), ("hl", -0.2, 0.1), ("hr", -0.2, -0.1)):
        legs.append(f"""
      <body name="{name}_hip" pos="{x} {y} 0">
        <joint name="{name}_hip" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 {0.8 * y} 0" size="0.03" mass="0.6"/>
        <body name="{name}_thigh" pos="0 {0.8 * y} 0">
          <joint name="{name}_thigh" axis="0 1 0"/>
          <geom type="capsule" fromto="0 0 0 -0.05 0 -0.2" size="0.025" mass="1.0"/>
          <body name="{name}_shin" pos="-0.05 0 -0.2">
            <joint name="{name}_shin" axis="0 1 0"/>
            <geom type="capsule" fromto="0 0 0 0.05 0 -0.2" size="0.02" mass="0.3"/>
          </body>
        </body>
      </body>""")
        motors += [f'<motor joint="{name}_{part}" gear="5"/>' for part in ("hip", "thigh", "shin")]
    return f"""
<mujoco model="quadruped">
  <option timestep="0.002"><flag constraint="disable"/></option>
  <default><joint armature="0.01"/><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="base" pos="0 0 0.5">
      <freejoint/>
      <geom type="box" size="0.25 0.1 0.05" mass="6"/>{"".join(legs)}
    </body>
  </worldbody>
  <actuator>{"".join(motors)}</actuator>
</mujoco>"""


def relative_error(a, b) -> float:
    """Largest difference over the largest entry of the reference `b` (the difference itself where `b` is zero)."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) or 1.0))


def random_state(mj_model, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random `(q, v)` around the home pose, quaternions of length one."""
    q = mj_model.qpos0.copy()
    mujoco.mj_integratePos(mj_model, q, rng.normal(size=mj_model.nv), 1.0)
    return q, rng.normal(size=mj_model.nv)


def qacc(mj_model, q, v, tau) -> np.ndarray:
    """MuJoCo's acceleration under `tau` alone: no constraints, no passive forces, no actuators."""
    model = unconstrained(mj_model)
    bits = mujoco.mjtDisableBit
    model.opt.disableflags |= bits.mjDSBL_SPRING | bits.mjDSBL_DAMPER | bits.mjDSBL_ACTUATION
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
    mujoco.mj_forward(model, data)
    return data.qacc.copy()


def pinocchio_errors(mj_model, rng: np.random.Generator, *, step: float = 1e-6) -> dict[str, float]:
    """Relative errors of Pinocchio against MuJoCo: the acceleration, and its derivatives by central differences."""
    robot = pinocchio_model(mj_model)
    q, v = random_state(mj_model, rng)
    tau = rng.normal(size=mj_model.nv)

    def along(dq, dv, dtau):
        moved = q.copy()
        mujoco.mj_integratePos(mj_model, moved, dq, 1.0)
        return qacc(mj_model, moved, v + dv, tau + dtau)

    errors = {"a": relative_error(robot.aba(q, v, tau), qacc(mj_model, q, v, tau))}
    zero, basis = np.zeros(mj_model.nv), np.eye(mj_model.nv)
    exact = robot.aba_derivatives(q, v, tau)
    for slot, (name, matrix) in enumerate(zip(("da/dq", "da/dv", "da/dtau"), exact, strict=True)):
        columns = []
        for e in basis:
            moves = [zero, zero, zero]
            moves[slot] = step * e
            columns.append((along(*moves) - along(*(-m for m in moves))) / (2 * step))
        errors[name] = relative_error(matrix, np.column_stack(columns))
    return errors


def self_check(steps: int = 20):
    """Prints how each peer agrees with MuJoCo on the quadruped, and its time a step."""
    xml = quadruped()
    mj_model = mujoco.MjModel.from_xml_string(xml)
    rng = np.random.default_rng(0)
    q0, v0 = random_state(mj_model, rng)
    controls = rng.normal(size=(steps, mj_model.nu))

    long = mujoco_steps(mj_model, q0, v0, np.repeat(controls[:1], 500, axis=0))
    print(f"MuJoCo {mujoco.__version__}: {1e6 * long.seconds_a_step:.1f} µs a step by {long.how}")

    try:
        errors = pinocchio_errors(mj_model, rng)
        print("Pinocchio: relative error " + ", ".join(f"{name} {e:.1e}" for name, e in errors.items()))
        import pinocchio as pin

        robot = pinocchio_model(mj_model, free_flyer=True)
        q, v = robot.to_pinocchio(q0, v0)
        tau = np.zeros(mj_model.nv)
        times = interleave(
            {
                "aba": lambda: pin.aba(robot.model, robot.data, q, v, tau),
                "aba derivatives": lambda: pin.computeABADerivatives(robot.model, robot.data, q, v, tau),
            },
            repeats=5,
        )
        print("  " + ", ".join(f"{name} {1e6 * s:.1f} µs" for name, s in times.items()) + " (free flyer)")
    except Absent as absent:
        print(f"Pinocchio: absent: {absent}")

    loss = mujoco_loss(mj_model, q0, v0, controls)
    direction = rng.normal(size=controls.shape)
    h = 1e-4
    slope = (
        mujoco_loss(mj_model, q0, v0, controls + h * direction)
        - mujoco_loss(mj_model, q0, v0, controls - h * direction)
    ) / (2 * h)

    def report(name: str, f: Callable, set_up: float):
        value, gradient = f(q0, v0, controls)
        found = float(np.sum(np.asarray(gradient) * direction))
        seconds = interleave({name: lambda: np.asarray(f(q0, v0, controls)[1])}, repeats=5)[name]
        print(
            f"{name}: relative error loss {abs(float(value) - loss) / loss:.1e}, directional derivative "
            f"{abs(found - slope) / abs(slope):.1e}; {1e6 * seconds / steps:.0f} µs a step, set-up {set_up:.1f} s"
        )

    try:
        report("MJX", *mjx_gradient(mj_model, steps))
        worlds = 16
        f, set_up = mjx_gradient(mj_model, steps, worlds=worlds)
        many = [np.tile(x, (worlds, 1)) for x in (q0, v0)] + [np.repeat(controls[:, None], worlds, axis=1)]
        seconds = interleave({"": lambda: f(*many)[1].block_until_ready()}, repeats=5)[""]
        print(f"  {worlds} worlds: {1e6 * seconds / steps / worlds:.0f} µs a step and world, set-up {set_up:.1f} s")
    except Absent as absent:
        print(f"MJX: absent: {absent}")

    try:
        report("Newton, a solver a step", *newton_gradient(xml, steps))
        report("Newton, one solver", *newton_gradient(xml, steps, solver_a_step=False))
    except Absent as absent:
        print(f"Newton: absent: {absent}")


if __name__ == "__main__":
    self_check()
