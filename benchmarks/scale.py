"""More machines: the same bits anywhere, what a call costs, sweeps, faults, training, a week of gradients, 1,000 nodes.

Nodes of Ray are processes of this machine (``ray.cluster_utils``). Needs two cores that nobody else uses.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import common
import numpy as np
import shard_problems
from common import Result
from sweep_targets import warm_up

import pullback as pb
from pullback.scale import Shards, sweep
from pullback.scale.sweep import Plan, run
from pullback.scale.workers import Pool

X = np.linspace(-1, 1, 1000)
SPACE = {"k": [0.3, 0.6], "method.rate": [0.05, 0.1]}
# Nodes of Ray find there what is in the folder of shared helpers.
PATHS = os.pathsep.join(filter(None, [str(Path(shard_problems.__file__).parent), os.environ.get("PYTHONPATH")]))


@contextlib.contextmanager
def nodes(count: int):
    """The address of a Ray cluster of so many nodes with one CPU each, and the cluster; None without Ray."""
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError:
        yield None
        return
    os.environ["PYTHONPATH"] = PATHS
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.others = [cluster.add_node(num_cpus=1) for _ in range(count - 1)]
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def bits(quick: bool):
    """The gradient of 16 shards of acrobots, by controls and masses."""
    given = np.full((20, 1), 0.3), np.array([0.0, 1.0, 1.2])
    found = {}
    with nodes(2) as cluster:
        places = {"1 worker": {"workers": 1}, "2 workers": {"workers": 2}}
        if cluster is not None:
            places["2 Ray nodes"] = {"workers": 2, "address": cluster.address}
        for name, options in places.items():
            with Shards(shard_problems.pendulums, shards=16, **options) as shards:
                found[name] = shards.gradient(*given)
    one = found["1 worker"]
    for name in ("2 workers", "2 Ray nodes"):
        same = all(np.array_equal(found[name][part], one[part]) for part in one) if name in found else None
        yield Result(f"gradient of 16 shards, 1 worker = {name}: bit for bit", same, "", "== 1")


def overhead(quick: bool):
    """Time of a call of shards that do next to nothing, over their number; with 1,000 numbers in and out."""
    with nodes(2) as cluster:
        for name, must in (("local", "<= 1"), ("Ray", "<= 3")):
            if name == "Ray" and cluster is None:
                yield Result("overhead per shard call, Ray", None, "ms", must, "", "absent")
                continue
            options = {"address": cluster.address} if name == "Ray" else {}
            with Shards(shard_problems.quadratic, shards=16, workers=2, **options) as shards:
                seconds = common.interleave({name: partial(shards.gradient, X)}, repeats=3 if quick else 15)
            yield Result(f"overhead per shard call, {name}", 1e3 * seconds[name] / 16, "ms", must)


def sweeps(quick: bool):
    """16 runs of throw, on workers that have started and have loaded their kernels."""
    rates, length = np.geomspace(0.05, 0.2, 4 if quick else 16), {"iterations": 5 if quick else 30}
    points = [{"method.first": float(rate), "seed": 0} for rate in rates]
    with nodes(2) as cluster, tempfile.TemporaryDirectory() as folder:
        places = {"1": {"workers": 1}, "2 workers": {"workers": 2}}
        if cluster is not None:
            places["2 Ray nodes"] = {"workers": 2, "address": cluster.address}
        seconds, rows = {}, {}
        for name, options in places.items():
            with Pool(**options) as pool:
                plan = (pool.share(Plan("throw", length, 0.0, "cpu")),)
                for part in (points[:2], points):  # the first to warm up
                    jobs = [(point, f"{folder}/{name}/{len(part)}/{k}") for k, point in enumerate(part)]
                    began = time.perf_counter()
                    rows[name] = sorted(pool.run(run, jobs, plan), key=lambda row: row[0])
                    seconds[name] = time.perf_counter() - began
        for name, must in (("2 workers", "<= 0.6"), ("2 Ray nodes", "<= 0.65")):
            ratio = seconds[name] / seconds["1"] if name in seconds else None
            note = f"{seconds['1']:.0f} s one after the other; without start-up"
            yield Result(f"sweep of {len(points)} runs of throw: {name} / one after the other", ratio, "ratio", must,
                         "", note)  # fmt: skip
        same = all(found == rows["1"] and all("metric" in row for _, row in found) for found in rows.values())
        yield Result("sweep of throw: the same rows everywhere", same, "", "== 1")


DRIVER = """
import sys
sys.path[:0] = {path!r}
from sweep_targets import warm_up
from pullback.scale import sweep
if __name__ == "__main__":
    sweep(warm_up, {space!r}, out={out!r}, seeds=2, workers=2)
"""


def faults(quick: bool):
    """Workers killed, drivers killed and nodes removed at random moments: the table is the one without faults."""
    count, draw, same = (
        3 if quick else 20,
        random.Random(0),
        {"worker killed": 0, "driver killed": 0, "node removed": 0},
    )
    with tempfile.TemporaryDirectory() as folder:
        whole = sweep(warm_up, SPACE, seeds=2, workers=2, out=Path(folder) / "whole", progress=False)
        table = (whole.folder / "table.csv").read_bytes()
        for number in range(count):
            marks = Path(folder) / f"marks {number}"
            marks.mkdir()
            out = Path(folder) / f"worker {number}"
            target = partial(warm_up, deadly=str(marks))
            sweep(target, SPACE, seeds=2, workers=2, out=out, progress=False)
            same["worker killed"] += (out / "table.csv").read_bytes() == table and len(list(marks.iterdir())) == 2

            out, script = Path(folder) / f"driver {number}", Path(folder) / f"driver-{number}.py"
            path = [str(Path(__file__).parents[1] / "testing")]
            script.write_text(DRIVER.format(path=path, space=SPACE, out=str(out)))
            driver = subprocess.Popen([sys.executable, str(script)])
            while not (out / "sweep.json").exists() and driver.poll() is None:
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 3))
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
            subprocess.run([sys.executable, str(script)], check=True)
            same["driver killed"] += (out / "table.csv").read_bytes() == table
        for name in ("worker killed", "driver killed"):
            yield Result(f"{name} in a sweep: same table, of {count}", same[name], "", f"== {count}")
        with nodes(2) as cluster:
            for _ in range(count if cluster is not None else 0):
                with Shards(shard_problems.quadratic, shards=16, workers=2, address=cluster.address) as shards:
                    wanted = shards.gradient(X)
                    if not cluster.others:
                        cluster.others.append(cluster.add_node(num_cpus=1))
                    cluster.remove_node(cluster.others.pop())
                    found = shards.gradient(X)
                    same["node removed"] += found[0] == wanted[0] and np.array_equal(found[1], wanted[1])
                cluster.others.append(cluster.add_node(num_cpus=1))
                cluster.wait_for_nodes()
            value = None if cluster is None else same["node removed"]
            yield Result(f"node removed between two gradients: same bits, of {count}", value, "", f"== {count}")


def training(quick: bool):
    """Ant, the same updates on one worker and two: the networks and the return are the same, to the last bit."""
    from pullback import scale

    options = {"updates": 5 if quick else 200, "shards": 2, "evaluations": 1, "starts": 16, "seed": 0}
    found = {workers: scale.train("ant", "sapo", workers=workers, **options) for workers in (1, 2)}
    ratio = found[2].seconds / found[1].seconds
    same = found[1].best == found[2].best
    note = f"{found[1].seconds:.0f} s with one, return {found[1].best:.4g}"
    yield Result("ant trained with 2 workers: time to the same return / 1 worker", ratio, "ratio", "<= 0.65", "", note)
    yield Result("ant trained with 1 and 2 workers: the same return", same, "", "== 1")


def week(quick: bool):
    """Resident memory over many gradients of a cart-pole, after the first hundredth of them."""
    calls = 20_000 if quick else 1_000_000
    system = pb.Articulated(pb.load(pb.robots.cartpole()), contact=None)
    state, control, bar = system.state(), np.ones((1, 1)), system.state()

    def some(count: int) -> int:
        for _ in range(count):
            system.pullback(state, control, bar)
        return common._status_bytes("VmRSS")

    before = some(max(calls // 100, 5000))
    grown = some(calls) - before
    yield Result(f"resident memory after {calls:,} gradient calls, growth", grown / 1e6, "MB", "<= 20")


# --- on paper ---------------------------------------------------------------------------------------------------------


def simulated(nodes: int, cores: int, shards: int, work: float, spread: float, call: float, send: float, rng) -> float:
    """Seconds of a gradient: the driver sends to one worker after the other, whoever is idle takes the next shard.

    work:    of a shard [s]; each takes that times a log-normal number of deviation ``spread``
    call:    of the driver per shard [s], which is serial; send: of the arguments to a node [s], serial too
    """
    workers = nodes * cores
    free = send * (1 + np.arange(workers) // cores)  # nodes are given the arguments one after the other
    driver, end = 0.0, 0.0
    for factor in np.exp(spread * rng.standard_normal(shards)):
        worker = int(np.argmin(free))
        driver = max(driver, free[worker]) + call
        free[worker] = driver + work * factor
        end = max(end, free[worker])
    return end + call * workers  # answers of the last round


def paper(quick: bool):
    """1,000 nodes of 16 cores and 10⁶ worlds: efficiency by a simulation with costs that are measured here."""
    system = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None, worlds=64, threads=1)

    def gradient():
        run = pb.rollout(system, system.state(), steps=200)
        run.pullback(q_bar=np.ones_like(run.q[-1]))

    gradient()
    world = common.interleave({"": gradient}, repeats=3)[""] / 64
    with Shards(shard_problems.quadratic, shards=16, workers=2) as shards:
        call = common.interleave({"": partial(shards.gradient, X)}, repeats=3)[""] / 16
    rng, worlds, cores, numbers = np.random.default_rng(0), 1_000_000, 16, 100_000
    for count in (10, 100, 1000):
        best = None
        for size in (16, 64, 256, 1024):
            shards = worlds // size
            seconds = simulated(count, cores, shards, size * world, 0.1, call, 8 * numbers / 1.25e9, rng)
            efficiency = worlds * world / (seconds * count * cores)
            best = max(best or (0, 0), (efficiency, size))
        note = f"{best[1]} worlds per shard; {1e3 * world:.2f} ms per world, {1e3 * call:.2f} ms per call, 10 Gbit/s"
        yield Result(f"simulated, {count} nodes of 16 cores, 10⁶ worlds: efficiency", best[0], "ratio", "", "", note)


if __name__ == "__main__":
    common.main(
        {"bits": bits, "overhead": overhead, "sweeps": sweeps, "faults": faults, "training": training, "week": week,
         "paper": paper}
    )  # fmt: skip
