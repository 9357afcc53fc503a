"""Gradients without contact: which velocity of the cue ball sends the other ball to its goal?

In the initial guess nothing touches and the cue ball stands still. With MuJoCo's contact the gradient is exactly zero
there. With ``ContactLongRange`` all shapes repel each other slightly at any distance, and gradient descent finds the
other ball. With MuJoCo's steps, a surrogate gradient with long-range forces in the backward pass only does so too.

Run: python examples/10_billiards.py
"""

import numpy as np

import pullback as pb

BALL = """<body name="{name}" pos="{pos} 0.1">
  <joint type="slide" axis="1 0 0" damping="0.5"/><joint type="slide" axis="0 1 0" damping="0.5"/>
  <geom size="0.1" mass="1" condim="1"/></body>"""
BALLS = BALL.format(name="cue", pos="0 0") + BALL.format(name="target", pos="0.8 0.3")
XML = f"""<mujoco><option timestep="0.04" gravity="0 0 0"/><worldbody>{BALLS}</worldbody></mujoco>"""
STEPS, NEAR = 100, 0.05  # timesteps; distance from the goal at which the task is solved [m]
GOAL = np.array([0.7, 0.6])  # of the target ball, from where it starts [m]

model = pb.load(XML)


def loss_and_slope(system: pb.Articulated, velocity: np.ndarray) -> tuple[float, np.ndarray]:
    """The squared distance of the target ball from its goal [m²], and its gradient by the cue ball's velocity."""
    run = pb.rollout(system, system.state(v=[*velocity, 0, 0]), steps=STEPS)
    off = run.final.q[0, 2:] - GOAL
    grads = run.pullback(q_bar=np.array([[0, 0, *(2 * off)]]))
    return float(off @ off), grads.state.v[0, :2]


def solve(system: pb.Articulated) -> None:
    """Adam from a cue ball at rest, which does not mind that the first gradients are small."""
    velocity, mean, square = np.zeros(2), np.zeros(2), np.zeros(2)
    for iteration in range(1, 301):
        loss, slope = loss_and_slope(system, velocity)
        if loss < NEAR**2:
            print(f"success: {np.sqrt(loss) * 100:.1f} cm from the goal after {iteration - 1} iterations")
            break
        mean, square = 0.3 * mean + 0.7 * slope, 0.5 * square + 0.5 * slope**2
        step = mean / (1 - 0.3**iteration) / np.sqrt(square / (1 - 0.5**iteration) + 1e-30)
        velocity = velocity - 0.05 * step
    print(f"the cue ball starts with {velocity} m/s")


for contact in (pb.ContactConvex(), pb.ContactLongRange(gap=1e-3), pb.ContactConvex(far=pb.Far())):
    system = pb.Articulated(model, contact)
    loss, slope = loss_and_slope(system, np.zeros(2))
    name = type(contact).__name__ + (", surrogate" if system.surrogate else "")
    print(f"{name}: loss {loss:.3f} m², gradient of a cue ball at rest {slope} m·s")
    if np.any(slope):
        solve(system)
