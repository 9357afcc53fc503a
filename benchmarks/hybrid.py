"""What do networks inside a System cost, are their gradients right, and what do they learn?

Without data: bits and gradients of every hybrid, a swimmer whose water is unknown (MuJoCo's fluid is the reality), a
fit that is killed and resumed, and what torch between steps costs. With ``--tosses FILE``, a cube from tosses of a real
one: ``rows`` (n, 13) and ``lengths`` as ``pullback.tasks.cube_toss.read_tosses`` has them; the last sixth is held out.
Peers are MuJoCo with its own defaults, and a torch perceptron as the dynamics.

Run: python benchmarks/hybrid.py [--json FILE] [--quick] [--tosses FILE] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np
import torch
from common import Result, interleave, main

import pullback as pb
from pullback import neural
from pullback.plan import minimise
from pullback.tasks import cube_toss, learned, motor_lag, swimmer

TOSSES = Path("shared/data/cube_tosses.npz")


# --- bits and gradients ----------------------------------------------------------------------------------------------


def robots() -> dict[str, neural.Hybrid]:
    """A hybrid of every kind, on the sample quadruped in the air: a free joint and twelve hinges."""
    plain = pb.Articulated(pb.load(pb.robots.quadruped()), contact=None)
    hips = plain.model.joint_names[1:4]
    return {
        "control": neural.Residual(plain, (4,), adds="control", reads=("v", "u")),
        "force": neural.Residual(plain, (4,), adds="force", reads=("q", "v")),
        "wrench": neural.Residual(plain, (4,), adds="wrench", on=("trunk",), reads=("q", "position", "v")),
        "dissipative force": neural.Residual(plain, (4,), adds="force", form="dissipative", on=hips, reads=("v",)),
        "conservative force": neural.Residual(plain, (4,), adds="force", form="conservative", reads=("q", "position")),
        "actuator": neural.Actuator(plain, (6,), torque_scale=5.0),
        "actuator, in kernels": neural.Actuator(plain, (6,), torque_scale=5.0, where="kernel"),
        "control, in kernels": neural.Residual(plain, (4,), adds="control", reads=("v", "u"), where="kernel"),
        "force, in kernels": neural.Residual(plain, (4,), adds="force", reads=("q", "v"), where="kernel"),
        "actuator, LSTM": neural.Actuator(plain, neural.LSTM(hidden=3), torque_scale=5.0),
        "law": neural.Law(plain, (4,), parameter="damping", entries=slice(6, 9), reads=("v",)),
    }


def bits(quick: bool) -> Iterator[Result]:
    """A last layer of zeros, and gradients by all weights."""
    plain = pb.Articulated(pb.load(pb.robots.quadruped()))
    options = {"reads": ("q", "v", "u"), "adds": "force"}
    hybrids = [neural.Residual(plain, (32, 32), **options, where=where) for where in ("torch", "kernel")]
    controls = np.random.default_rng(0).normal(size=(20 if quick else 200, 1, plain.nu))
    first, *runs = [pb.rollout(system, system.state(), controls) for system in (plain, *hybrids)]
    apart = max(np.abs(a - b).max() for run in runs for a, b in zip(first.states, run.states, strict=True))
    note = "with contact; through torch and in kernels"
    yield Result("hybrid with a last layer of zeros against the plain System", apart, "", "== 0", note=note)
    worst = {}
    for name, system in robots().items():
        weights, rng = system.networks[0].weights, np.random.default_rng(1)
        for weight in weights:
            system.params[weight] = 0.3 * rng.normal(size=system.params[weight].shape)
        state = system.state(v=0.3 * rng.normal(size=plain.nv))
        report = pb.check_system(system, state, rollout_steps=1, names=(*weights, "q", "v"), tolerance=np.inf)
        worst[name] = max(row.error for row in report.rows)
        print(f"{name}: {worst[name]:.2g} of {sum(row.entries for row in report.rows)} entries", file=sys.stderr)
    yield Result("check_system, all weights of every hybrid", max(worst.values()), "", "<= 1e-6", note=", ".join(worst))
    yield Result(
        "torch and in-kernel paths apart",
        paths_apart(quick),
        "",
        "<= 1e-12",
        note="a step and its gradients by weights and state, relative to the largest number, 12 joints, 6-32-32-1",
    )


def paths_apart(quick: bool) -> float:
    """The largest difference of one step and its gradients, from random states in the air and on the feet."""
    worst, rng = 0.0, np.random.default_rng(2)
    worlds = 4 if quick else 32
    plain = pb.Articulated(pb.load(pb.robots.quadruped()), worlds=worlds)
    pair = [neural.Actuator(plain, (32, 32), torque_scale=5.0, where=where) for where in ("torch", "kernel")]
    state = pair[0].state(v=rng.normal(size=(worlds, pair[0].nv)))
    state = state._replace(memory=rng.normal(size=state.memory.shape))
    targets = pair[0].default_controls(1) + rng.normal(size=(1, worlds, 12))
    runs = [pb.rollout(system, state, targets) for system in pair]
    bars = [run.pullback(q_bar=np.ones_like(run.q[-1]), v_bar=np.ones_like(run.v[-1])) for run in runs]
    sides = [[*run.states, *bar.state, bar.controls, *bar.params.values()] for run, bar in zip(runs, bars, strict=True)]
    for a, b in zip(*sides, strict=True):
        worst = max(worst, np.abs(a - b).max(initial=0.0) / max(np.abs(a).max(initial=0.0), 1e-3))
    return worst


# --- a swimmer in water that the model does not have ------------------------------------------------------------------


def of_motions(system, motions) -> float:
    """The error of a swimmer over whole motions [m]."""
    return learned.HeldOut(system, motions, swimmer.apart, (), 1).error()


def water(quick: bool) -> Iterator[Result]:
    known, unseen = swimmer.experiment()
    recordings = [neural.Recording(states, controls) for states, controls in known]
    system = swimmer.hybrid()
    plain = system.system
    joints = dict(zip(plain.model.joint_names, range(plain.nv), strict=True))
    plain.params["damping"] = np.maximum(plain.params["damping"], 0.05)
    damping = {f"damping of {name}": ("damping", dof) for name, dof in joints.items()}
    best = np.inf
    for windows in ((20,), (20, 100)):
        fitted = neural.fit(plain, recordings, physics=damping, windows=windows, iterations=5 if quick else 30)
        best = min(best, of_motions(fitted.system, unseen))
    stages, iterations = ((10,), 5) if quick else ((10, 40), 40)
    found = neural.fit(
        system, recordings, windows=stages, iterations=iterations, most_windows=64, penalty=1e-8,
        watch=lambda stage, progress: print(f"{stage} {progress.metrics[-1]:.3g}", file=sys.stderr),
    )  # fmt: skip
    error = of_motions(found.system, unseen)
    note = f"{error:.3g} m against {best:.3g} m, two motions held out"
    yield Result("swimmer: error over 5 s, hybrid / best plain fit", error / best, "ratio", "<= 0.1", note=note)


def motors(quick: bool) -> Iterator[Result]:
    """A quadruped on a stand whose motors lag, saturate and rub: what was found of them, and targets made with it."""
    task = motor_lag.motor_lag()
    known, unseen = motor_lag.experiment()
    servos, every = motor_lag.plain(), slice(None)
    physics = {
        "stiffness": [("gain", (every, 0)), ("bias", (every, 1))], "servo damping": ("bias", (every, 2)),
        "damping": ("damping", every), "armature": ("armature", every),
    }  # fmt: skip
    recordings = [neural.Recording(states, targets) for states, targets in known]
    options = {"noise": np.repeat(motor_lag.NOISE, servos.nu), "most_windows": 60}
    fits = []
    for windows in ((40,), (10, 40)):
        fit = neural.fit(servos, recordings, physics=physics, windows=windows, iterations=3 if quick else 12, **options)
        fits.append((task.metric.error(fit.system), fit.system))
    best, fitted = min(fits, key=lambda pair: pair[0])
    cheap = task.but(metric=lambda run: np.zeros(run.system.worlds))
    found = minimise(cheap, task.begin()[0], task.method, iterations=20 if quick else task.iterations)
    hybrid = task.system.in_worlds(1)
    for name, value in task.metric.found(task.run(found.x)).items():
        hybrid.params[name] = value
    error = task.metric.error(hybrid)
    note = f"{error:.3g} rad against {best:.3g} rad, {len(unseen)} motions held out, on a stand"
    yield Result("motor-lag: error of 2 s held out, hybrid / plain fit", error / best, "ratio", "<= 0.2", note=note)
    wanted = motor_lag.swings(np.random.default_rng(100))[: 100 if quick else 400]
    judged = {}
    for name, system in {"hybrid": hybrid, "plain fit": fitted, "servos": servos}.items():
        targets = motor_lag.controller(system, wanted, 10 if quick else 100)
        judged[name] = motor_lag.apart(motor_lag.move(targets).q, wanted)
    judged["none"] = motor_lag.apart(motor_lag.move(wanted[:-1]).q, wanted)
    note = ", ".join(f"{name}: {value:.3g} rad" for name, value in judged.items())
    ratio = judged["hybrid"] / judged["plain fit"]
    figure = "motor-lag: targets found in the hybrid, judged in the real one / those found in the plain fit"
    yield Result(figure, ratio, "ratio", note=f"angles to follow for {len(wanted) * motor_lag.DT:.2g} s; {note}")


# --- a real cube ------------------------------------------------------------------------------------------------------


def cube(quick: bool) -> Iterator[Result]:
    if not TOSSES.exists():
        yield Result("cube: half width", None, "%", "<= 5", note="no data: give --tosses FILE")
        return
    tosses = cube_toss.read_tosses(TOSSES)
    at = round(len(tosses) * 5 / 6)
    known, unseen = tosses[: 20 if quick else at], tosses[at:]
    options = {"noise": cube_toss.NOISE, "windows": (8,), "iterations": 3 if quick else 6}
    # a guess that is a third too wide, with twice the friction
    guess = cube_toss.cube(1.33 * cube_toss.HALF, 2 * cube_toss.FRICTION)
    shape = cube_toss.physics()
    bounce = {"restitution": shape.pop("restitution")}
    fitted = neural.fit(guess, known, physics=shape, most_windows=150, **options)
    # Bounces are seen by windows that hold an impact and what follows it; shape and friction stay as they are.
    longer = {**options, "windows": (30,)}
    bounced = neural.fit(fitted.system, known, physics=bounce, most_windows=100, **longer)
    print(bounced, file=sys.stderr)
    print(fitted, file=sys.stderr)
    values = dict(zip(fitted.physics.labels, fitted.physics.values, strict=True))
    half = np.array([values[f"half edge {axis}"] for axis in "xyz"])
    worst = 100 * np.abs(half / cube_toss.HALF - 1)
    of = f"{len(known)} tosses, against 0.0524 m"
    yield Result("cube: half width", 100 * abs(half.mean() / cube_toss.HALF - 1), "%", "<= 5", note=of)
    corner = 100 * np.linalg.norm(half - cube_toss.HALF) / (np.sqrt(3) * cube_toss.HALF)
    yield Result(
        "cube: corners", corner, "%", "<= 5", note=f"of their distance from the middle; worst edge {worst.max():.2g} %"
    )
    i = fitted.physics.labels.index("friction")
    interval = f"95 % interval {fitted.physics.low[i]:.3g} to {fitted.physics.high[i]:.3g}; published 0.18"
    yield Result("cube: friction", values["friction"], "", note=interval)
    yield Result("cube: restitution", bounced.physics.values[0], "", note="published 0.125")

    system = cube_toss.hybrid(bounced.system)
    learned = neural.fit(system, known, most_windows=120, **{**longer, "windows": (15,)}, penalty=1e-4)
    errors = {
        "hybrid": cube_toss.errors_of(learned.system, unseen),
        "fitted physics": cube_toss.errors_of(bounced.system, unseen),
        "MuJoCo's defaults": mujoco_errors(unseen),
        "torch perceptron": perceptron_errors(known, unseen, 50 if quick else 1500),
    }
    for what, column, unit in (("position", 0, "m"), ("rotation", 1, "rad")):
        means = {name: float(np.mean(each[:, column])) for name, each in errors.items()}
        others = min(value for name, value in means.items() if name != "hybrid")
        figure = f"cube, held out: mean {what} error over a toss"
        for name, value in means.items():
            yield Result(f"{figure}, {name}", value, unit, note=f"{len(unseen)} tosses")
        yield Result(f"{figure}, hybrid / best other", means["hybrid"] / others, "ratio", "< 1")


def mujoco_errors(tosses) -> np.ndarray:
    """Of MuJoCo with the published numbers and its own defaults otherwise."""
    model = mujoco.MjModel.from_xml_string(cube_toss.cube_file())
    found = []
    for toss in tosses:
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = toss.states.q[0], toss.states.v[0]
        q = [data.qpos.copy()]
        for _ in range(toss.rows - 1):
            mujoco.mj_step(model, data)
            q.append(data.qpos.copy())
        found.append(cube_toss.toss_errors(np.array(q), toss.states.q))
    return np.array(found)


def perceptron_errors(known, unseen, iterations: int) -> np.ndarray:
    """Of a network that gives the change of velocity from the state, and coordinates that follow the velocity."""
    torch.manual_seed(0)
    pairs = [(features(toss.states.q, toss.states.v), toss.states.v) for toss in known]
    x = np.concatenate([f[:-1] for f, _ in pairs])
    y = np.concatenate([np.diff(v, axis=0) for _, v in pairs])
    centre, spread, size = x.mean(0), x.std(0) + 1e-6, y.std(0) + 1e-9
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], 128), torch.nn.Tanh(), torch.nn.Linear(128, 128), torch.nn.Tanh(),
        torch.nn.Linear(128, 6),
    ).double()  # fmt: skip
    inputs, wanted = torch.tensor((x - centre) / spread), torch.tensor(y / size)
    optimiser = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(iterations):
        rows = torch.randint(len(inputs), (512,))
        loss = ((net(inputs[rows]) - wanted[rows]) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model, found = pb.load(cube_toss.cube_file()), []
    for toss in unseen:
        q, v = toss.states.q[:1].copy(), toss.states.v[:1].copy()
        path = [q[0]]
        for _ in range(toss.rows - 1):
            with torch.no_grad():
                v = v + net(torch.tensor((features(q, v) - centre) / spread)).numpy() * size
            q = pb.model.tangent.integrate(model, q, v / cube_toss.RATE)
            path.append(q[0])
        found.append(cube_toss.toss_errors(np.array(path), toss.states.q))
    return np.array(found)


def features(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Of the perceptron: height, rotation and velocities, as the hybrid's network has them."""
    state = pb.State(torch.tensor(q), torch.tensor(v))
    return cube_toss.height_rotation_and_speed(state, None).numpy()


# --- costs and kills --------------------------------------------------------------------------------------------------


def cost(quick: bool) -> Iterator[Result]:
    """A gradient step of 64 worlds through torch against the plain System's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    plain = pb.Articulated(pb.load(pb.robots.quadruped()), worlds=64)
    driven = neural.Actuator(plain, (32, 32), torque_scale=5.0)
    steps = 5 if quick else 25

    def gradient(system):
        controls, state = system.default_controls(steps), system.state()

        def run():
            made = pb.rollout(system, state, controls)
            made.pullback(q_bar=np.ones_like(made.q[-1]))

        return run

    seconds = interleave({"ours": gradient(driven), "plain": gradient(plain)}, repeats=3 if quick else 9)
    torch.set_num_threads(threads)
    note = f"12 joints, 6-32-32-1, with contact, {steps} steps, all gradients"
    yield Result(
        "gradient step through torch, 64 worlds / plain", seconds["ours"] / seconds["plain"], "ratio", "<= 3", note=note
    )
    for contact, what in (("model", "with contact"), (None, "in the air")):
        robot = pb.Articulated(pb.load(pb.robots.quadruped()), contact, worlds=8, threads=1)
        inside = neural.Actuator(robot, (32, 32), torque_scale=5.0, where="kernel")
        steps = 25 if quick else 200
        pair = {"ours": gradient(inside), "plain": gradient(robot)}
        seconds = interleave(pair, repeats=3 if quick else 15)
        yield Result(
            f"gradient step with an in-kernel actuator network / plain, {what}", seconds["ours"] / seconds["plain"],
            "ratio", "<= 2", note=f"12 joints, 6-32-32-1, tanh, 8 worlds, {steps} steps, all gradients, one core",
        )  # fmt: skip


def resumed(quick: bool) -> Iterator[Result]:
    """A fit that stops in the middle of its second stage, and goes on from its checkpoint."""
    known, _ = swimmer.experiment()
    recordings = [neural.Recording(pb.State(s.q[:101], s.v[:101]), u[:100]) for s, u in known]
    options = {"windows": (5, 10), "iterations": 4, "most_windows": 16}

    class Killed(Exception):
        pass

    def kill(stage, progress):
        if (stage, progress.iterations) == (1, 2):
            raise Killed

    whole = neural.fit(swimmer.hybrid(), recordings, **options)
    with tempfile.TemporaryDirectory() as folder:
        try:
            neural.fit(swimmer.hybrid(), recordings, **options, checkpoint=Path(folder) / "fit", watch=kill)
        except Killed:
            pass
        again = neural.fit(swimmer.hybrid(), recordings, **options, checkpoint=Path(folder) / "fit")
    same = all(np.array_equal(whole.system.params[name], again.system.params[name]) for name in whole.system.params)
    yield Result("killed while fitting, resumed: the same bits", float(same), "", "== 1")


QUESTIONS = {"bits": bits, "water": water, "motors": motors, "cube": cube, "cost": cost, "resumed": resumed}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--tosses", type=Path, default=TOSSES)
    own, rest = parser.parse_known_args()
    TOSSES = own.tosses
    main(QUESTIONS, rest)
