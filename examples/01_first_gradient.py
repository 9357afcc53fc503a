"""A first gradient: how a pole's final angle depends on the forces on its cart and on its mass.

Run: python examples/01_first_gradient.py
"""

import numpy as np

import pullback as pb

model = pb.load(pb.robots.cartpole())  # or the path of an MJCF or URDF file
system = pb.Articulated(model)

start = system.state()  # hanging at rest
controls = np.full((200, 1, 1), 0.5)  # 0.5 N on the cart for one second: (steps, worlds, nu)
run = pb.rollout(system, start, controls)

angle = run.q[-1, 0, 1]
grads = run.pullback(q_bar=[[0.0, 1.0]])  # d loss / d (last q); here the loss is the angle

print(f"pole angle after 1 s:       {angle:+.4f} rad")
print(f"d angle / d first force:    {grads.controls[0, 0, 0]:+.6f} rad/N")
print(f"d angle / d last force:     {grads.controls[-1, 0, 0]:+.6f} rad/N")
print(f"d angle / d start angle:    {grads.state.q[0, 1]:+.4f}")
print(f"d angle / d mass of pole:   {grads.params['mass'][model.body_names.index('pole')]:+.4f} rad/kg")
