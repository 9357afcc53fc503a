"""Identify the friction of a table, then slide a box to a target with one push.

Both use gradients through contact. First the friction is identified from a few pushes, after which the box's resting
position was measured with noise. Then the push is optimised: two forces and a torque that act for a fifth of a second,
such that the box comes to rest at the target with the desired yaw. Each of its four corners may stick or slide at every
moment.

Run: python examples/04_slide_a_box.py [--quick]
"""

import argparse

import numpy as np

import pullback as pb

PUSHED, WATCHED = 50, 250  # steps of 4 ms: the push lasts 0.2 s, and after 1 s the box lies still
TRUE_FRICTION, FIRST_GUESS = 0.31, 0.6
NOISE = 1e-3  # standard deviation of a measured place [m] and angle [rad]
TARGET = np.array([[0.55, 0.25, 1.2]])  # [m, m, rad]

SCENE = f"""<mujoco><option timestep="0.004"/>
  <worldbody>
    <geom name="table" type="plane" size="2 2 0.1" friction="0.01"/>
    <body name="box" pos="0 0 0.0499"><freejoint name="box"/>
      <geom name="box" type="box" size="0.1 0.06 0.05" mass="1.5" friction="{FIRST_GUESS}"/></body>
  </worldbody>
  <actuator>
    <motor name="push along x" joint="box" gear="1 0 0 0 0 0"/>
    <motor name="push along y" joint="box" gear="0 1 0 0 0 0"/>
    <motor name="turn" joint="box" gear="0 0 0 0 0 1"/>
  </actuator></mujoco>"""


def slide(model: pb.Model, pushes: np.ndarray, friction: float):
    """Where the box comes to rest after each push (worlds, 3) [N, N, N·m], and how that depends on everything.

    Returns poses (worlds, 3) [m, m, rad] and their derivatives by the push (worlds, 3, 3) and by friction (worlds, 3).
    """
    system = pb.Articulated(model, pb.ContactImpulse(), worlds=len(pushes))
    mixed = np.tile(system.params["friction"], (len(pushes), 1, 1))  # an entry a world, and so a gradient a world
    mixed[:, 1, 0] = friction  # the box's; of two surfaces in contact the larger coefficient counts
    controls = np.zeros((WATCHED, len(pushes), 3))
    controls[:PUSHED] = pushes
    run = pb.rollout(system, system.state(), controls, params={"friction": mixed})

    q = run.final.q
    w, z = q[:, 3], q[:, 6]  # of the quaternion: the box lies flat, turned by 2 atan(z / w)
    by_push, by_friction = [], []
    for coordinate in range(3):  # a pullback for each number of the pose
        q_bar = np.zeros_like(q)
        if coordinate < 2:
            q_bar[:, coordinate] = 1.0
        else:
            q_bar[:, 3], q_bar[:, 6] = -2 * z / (w**2 + z**2), 2 * w / (w**2 + z**2)
        grads = run.pullback(q_bar=q_bar)
        by_push.append(grads.controls[:PUSHED].sum(axis=0))
        by_friction.append(grads.params.friction[:, 1, 0])
    poses = np.stack([q[:, 0], q[:, 1], 2 * np.arctan2(z, w)], axis=1)
    return poses, np.stack(by_push, axis=1), np.stack(by_friction, axis=1)


def identify(model: pb.Model, pushes: np.ndarray, measured: np.ndarray, iterations: int) -> float:
    """Gauss-Newton for one number, from all pushes at once."""
    friction = FIRST_GUESS
    for k in range(iterations):
        poses, _, by_friction = slide(model, pushes, friction)
        off = poses - measured
        print(f"{k:4}   friction {friction:.4f}   mean squared error {np.mean((off / NOISE) ** 2):12.2f}")
        better = friction - np.sum(by_friction * off) / np.sum(by_friction**2)
        friction = float(np.clip(better, 0.5 * friction, 2 * friction))
    return friction


def aim(model: pb.Model, friction: float, iterations: int) -> np.ndarray:
    """Newton's method for the push. A step that does not help is halved: where the box stops is a kink nearby."""
    push = np.array([[8.0, 2.0, 0.3]])  # enough to slide: a push that friction holds would have no gradient
    poses, by_push, _ = slide(model, push, friction)
    for k in range(iterations):
        off = poses - TARGET
        print(f"{k:4}   push {push[0, 0]:6.2f} N {push[0, 1]:6.2f} N {push[0, 2]:6.3f} N·m   loss {np.sum(off**2):.3e}")
        step = -np.linalg.solve(by_push[0], off[0])
        for _ in range(8):
            poses, by_push, _ = slide(model, push + step, friction)
            if np.sum((poses - TARGET) ** 2) < np.sum(off**2):
                break
            step = step / 2
        push = push + step
    return push


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer iterations")
    iterations = 8 if parser.parse_args().quick else 10

    model = pb.load(SCENE)
    random = np.random.default_rng(0)
    pushes = random.uniform([8.0, -4.0, -0.6], [16.0, 4.0, 0.6], (8, 3))
    measured = slide(model, pushes, TRUE_FRICTION)[0] + NOISE * random.standard_normal((8, 3))

    print("friction, from eight pushes (a mean squared error of 1 is the noise itself)")
    friction = identify(model, pushes, measured, iterations)
    print(f"found {friction:.4f}, true {TRUE_FRICTION}\n\nthe push that slides the box to {TARGET[0]}")
    push = aim(model, friction, iterations)

    reached = slide(model, push, TRUE_FRICTION)[0][0]  # on the real table
    print(f"on the real table the box comes to rest at {reached.round(3)}")
    good = abs(friction / TRUE_FRICTION - 1) < 0.02 and np.abs(reached - TARGET).max() < 0.02
    print("success: within 2 cm and 0.02 rad of the target" if good else "no success")


if __name__ == "__main__":
    main()
