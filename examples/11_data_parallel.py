"""One network, several processes: each simulates its own worlds, and torch averages the gradients.

A crane must bring its load to rest at any goal, and a network computes the forces, as in the PyTorch tutorial. Each
process that torchrun starts simulates a part of the goals, and DistributedDataParallel wraps the network together with
the simulation. On GPUs use the backend "nccl", and device=f"cuda:{rank}" for the System.

Run: torchrun --nproc_per_node=2 examples/11_data_parallel.py
or in one process: python examples/11_data_parallel.py
"""

import os
import sys

import torch
import torch.distributed as dist

import pullback as pb
import pullback.torch as pbt

GOALS, KNOTS, HOLD = 8, 20, 20  # of a batch, over all processes; forces, and steps for which each is held
QUICK = "--quick" in sys.argv
ROUNDS = 40 if QUICK else 120


class Crane(torch.nn.Module):
    """From goals (worlds, 1) [m] to how far cart and load are from them, and from rest, two seconds later."""

    def __init__(self, worlds: int, threads: int):
        super().__init__()
        self.system = pb.Articulated(pb.load(pb.robots.cartpole()), worlds=worlds, threads=threads)
        self.network = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.Tanh(), torch.nn.Linear(64, KNOTS))
        torch.nn.init.zeros_(self.network[2].weight)

    def forward(self, goals):
        home = self.system.state()
        controls = self.network(goals).T[:, :, None].repeat_interleave(HOLD, dim=0)  # (steps, worlds, 1) [N]
        q, v = pbt.rollout(self.system, torch.tensor(home.q), torch.tensor(home.v), controls)
        return torch.cat([q[-1] - torch.cat([goals, torch.zeros_like(goals)], dim=1), v[-1]], dim=1)


def main():
    if "RANK" not in os.environ:  # not by torchrun: one process alone
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)  # the network is small
    torch.manual_seed(0)  # the same network everywhere
    crane = Crane(GOALS // count, threads=max(1, (os.cpu_count() or 1) // count))
    model = torch.nn.parallel.DistributedDataParallel(crane)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, ROUNDS)

    goals, losses = torch.linspace(-0.5, 0.5, GOALS)[:, None], []
    for k in range(ROUNDS):
        loss = (model(goals.chunk(count)[rank]) ** 2).sum(dim=1).mean()
        optimiser.zero_grad()
        loss.backward()  # and here the gradients are averaged over processes
        if k == 0 and rank == 0:
            norm = torch.cat([x.grad.flatten() for x in model.parameters()]).norm()
            print(f"{count} process{'es' * (count > 1)}, gradient {norm:.10f}")
        optimiser.step()
        schedule.step()
        loss = loss.detach() / count
        dist.all_reduce(loss)
        losses.append(loss.item())
        if rank == 0 and k % 20 == 0:
            print(f"{k:4}  loss {losses[-1]:.5f}")

    weights = torch.cat([x.detach().flatten() for x in model.parameters()])
    first = weights.clone()
    dist.broadcast(first, 0)
    assert torch.equal(weights, first), "the processes learned different networks"
    if rank == 0:
        assert losses[-1] < 0.2 * losses[0]
        print(f"success: the loss fell from {losses[0]:.3g} to {losses[-1]:.3g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
