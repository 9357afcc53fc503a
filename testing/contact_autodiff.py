"""The residuals of :mod:`pullback.dexterous` written a second time, in torch, for fingertips, a box and a table.

Everything is one function of the weights, so that autodiff gives what the blocks are compared with.
"""

import math

import numpy as np
import torch

from pullback.dexterous import ContactProblem
from pullback.dexterous.consistency import ANGLE, LENGTH, SPEED
from pullback.dexterous.task import SEEN_SPEED, SEEN_SPIN


def tensor(x):
    return torch.from_numpy(np.array(x, dtype=float))


def matrix(q):
    w, x, y, z = q.unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def mul(a, b):
    aw, av, bw, bv = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    return torch.cat([aw * bw - (av * bv).sum(-1, keepdim=True), aw * bv + bw * av + torch.linalg.cross(av, bv)], -1)


def exp(phi):
    angle = torch.sqrt((phi * phi).sum(-1, keepdim=True) + 1e-300)
    return torch.cat([torch.cos(angle / 2), torch.sin(angle / 2) / angle * phi], -1)


def log(q):
    q = torch.where(q[..., :1] < 0, -q, q)
    size = torch.sqrt((q[..., 1:] ** 2).sum(-1, keepdim=True) + 1e-300)
    return 2 * torch.atan2(size, q[..., :1]) / size * q[..., 1:]


def residuals(problem: ContactProblem):
    """A function of the weights (n,) that gives all residuals of a problem, divided by the root of its samples."""
    task, batch, goal, policy = problem.task, problem.batch, problem.goal, problem.policy
    scene, w, friction = task.scene, problem.consistency.weights, task.friction
    tips, dt, n, heavy = len(scene.hand.tips), scene.dt, scene.n, scene.weight
    assert scene.table and scene.free and n == 3 * tips
    half, radius = tensor(scene.shape.shapes[0].shape.half), scene.hand.ball_radii[0]
    inertia, mass = tensor(np.diag(scene.inertia)), tensor(batch.mass)[:, None]
    usual = problem.consistency.usual
    usual_p, usual_f = (tensor(part) for part in (scene.split(usual).p, scene.split(usual).f))
    corners = tensor(problem.consistency.balls[0])

    def function(weights):
        first = weights[: policy.first.size].reshape(policy.first.shape)
        second = weights[policy.first.size :].reshape(policy.second.shape)
        start = batch.start
        q, at, quat, v, om = (tensor(part) for part in (start.q, start.at, start.quat, start.v, start.omega))
        rows = [w.weights * math.sqrt(len(q)) * weights]

        def add(value, weight):
            rows.append((weight * value).reshape(-1))

        def solids(t):
            R = matrix(quat)
            add(at - tensor(goal.at[t]), w.place / LENGTH)
            add(log(mul(tensor(goal.quat[t]) * tensor([1, -1, -1, -1]), quat)), w.turn / ANGLE)
            centre = q.reshape(-1, tips, 3)
            local = (centre - at[:, None]) @ R
            over = local.abs() - half
            beyond = torch.clamp(over, min=0)
            out = torch.sqrt((beyond**2).sum(-1) + 1e-300)
            near = torch.where(out > 1e-100, out, over.amax(-1)) - radius
            high = centre[..., 2] - radius
            down = (at[:, None] + corners @ R.transpose(-1, -2))[..., 2]
            for d in (near, high, down):
                add(torch.clamp(-d, min=0), w.collision / LENGTH)
            for d in (near, high):
                add(torch.clamp(problem.consistency.margin - d, min=0), w.avoid / LENGTH)
            low, up = tensor(scene.hand.low), tensor(scene.hand.high)
            add(q - torch.clamp(q, low, up), w.limit / ANGLE)

        for t in range(task.frames):
            solids(t)
            R, phase = matrix(quat), t / task.frames
            clock = tensor([2 * phase - 1, math.cos(2 * math.pi * phase), 1.0]).expand(len(q), 3)
            home = tensor(scene.hand.home), tensor(scene.home[0])
            seen = [
                (q - home[0]) / 0.1,
                10 * (at - home[1]),
                R[..., 0],
                R[..., 1],
                v / SEEN_SPEED,
                om / SEEN_SPIN,
                clock,
            ]
            h = torch.tanh(torch.cat(seen, -1) @ first.T)
            u = tensor(policy.usual) + tensor(policy.scale) * (torch.cat([h, torch.ones_like(h[:, :1])], -1) @ second.T)
            rates, contacts = u[:, :n], u[:, n:].reshape(-1, tips + 1, 3, 3)
            p, s, f = contacts.unbind(-2)
            new_v = v + dt * ((R @ f.sum(-2)[..., None])[..., 0] / (scene.mass * mass) + tensor(scene.gravity))
            torque = torch.linalg.cross(p, f).sum(-2) / mass - torch.linalg.cross(om, inertia * om)
            new_om = om + dt * torque / inertia
            velocity = torch.cat([rates.reshape(-1, tips, 3), torch.zeros_like(p[:, :1])], 1)
            point = torch.cat([q.reshape(-1, tips, 3), torch.zeros_like(p[:, :1])], 1) + s
            d = (point - at[:, None]) @ R - p
            slip = (velocity - new_v[:, None]) @ R - torch.linalg.cross(new_om[:, None].expand_as(p), p)
            tall = torch.tensor([w.distance] * tips + [w.table_distance], dtype=torch.float64)[:, None, None]
            add(d[..., :, None] * f[..., None, :] * tall, 1 / (LENGTH * heavy))
            add(slip[:, :-1, :, None] * f[:, :-1, None, :], w.slip / (SPEED * heavy))
            add(torch.clamp(-(slip[:, -1] * f[:, -1]).sum(-1), min=0), w.dissipation / (SPEED * heavy))
            add(p - torch.clamp(p, -half, half), w.shape / LENGTH)
            size = torch.sqrt((s[:, :-1] ** 2).sum(-1, keepdim=True))
            add(torch.clamp(size - radius, min=0) * s[:, :-1] / size, w.shape / LENGTH)
            add(torch.clamp(s[:, -1, 2], min=0), w.shape / LENGTH)
            share = p[:, :-1] / half
            way = share.sign() * (share.abs() / share.abs().amax(-1, keepdim=True).detach()) ** 15 / half
            normal = torch.cat([-way / way.norm(dim=-1, keepdim=True), R[:, None, 2]], 1)
            along = (f * normal).sum(-1)
            across = (f - along[..., None] * normal).norm(dim=-1)
            behind = friction * across <= -along
            cone = torch.clamp((across - friction * along) / math.hypot(1, friction), min=0)
            add(torch.where(behind, f.norm(dim=-1), cone), w.cone / heavy)
            add(torch.clamp(heavy * goal.least_grip[t] - along[:, :-1], min=0), w.grip / heavy)
            length = d[:, :-1].norm(dim=-1, keepdim=True)
            add(torch.clamp(1 - length / problem.consistency.margin, min=0) * slip[:, :-1], w.slip_near / SPEED)
            add(p - usual_p, w.point / LENGTH)
            add(s[:, :-1], w.point / LENGTH)
            add(f - usual_f, w.force / heavy)
            add(rates, w.rate / SPEED)
            noise = tensor(batch.noise[t])
            q, at = q + dt * rates + noise[:, :n], at + dt * new_v + noise[:, n : n + 3]
            quat = mul(exp(noise[:, n + 3 :]), mul(quat, exp(dt * new_om)))
            v, om = new_v, new_om
        solids(task.frames)
        return torch.cat(rows) / math.sqrt(len(q))

    return function
