"""Whatever is given to a public name, what cannot be used is a PullbackError of one line."""

import numpy as np
import pytest

import pullback as pb
from pullback import dexterous, learn, neural, soft
from pullback.envs import Random
from pullback.reach import ReachabilityMap, check_place, check_plan, humanoid_maps, inverse
from pullback.reach.sqp import minimise
from pullback.tasks import TASKS, Camera, Controls, Factors, Parameters, Tracking, solve
from pullback.view import (
    Viewer,
    body_gradients,
    draw_run,
    export,
    load_motion,
    plot_curve,
    plot_front,
    plot_intervals,
    plot_lines,
    plot_slice,
    save_motion,
    write_page,
)  # fmt: skip

WRONG = [None, 3, -1.5, float("nan"), "x", [], ["a"], {}, {"x": 1}, object(), np.full(3, np.nan), np.zeros((9, 9)), ()]
LABELS = {"title": "t", "xlabel": "x", "ylabel": "y"}


@pytest.fixture(scope="module")
def run():
    system = pb.Articulated(pb.load(pb.robots.cartpole()))
    return pb.rollout(system, system.state(), steps=3)


@pytest.fixture(scope="module")
def racecar():
    return TASKS["racecar"]()


def calls(run, racecar) -> dict:
    """By what is given wrongly: a function of it, and what of WRONG is right there."""
    system, drawing = run.system, draw_run(run)
    picture = lambda **options: export(drawing, "a.png", **{"frames": 1, "size": (16, 16), **options})  # noqa: E731
    film = lambda **options: export(drawing, "a.gif", **{"frames": 2, "size": (16, 16), **options})  # noqa: E731
    return {
        "load": (pb.load, ()),
        "load anywhere": (lambda x: pb.load(pb.robots.cartpole(), anywhere=x), ()),
        "contact": (lambda x: pb.Articulated(system.model, x), (0,)),
        "dtype": (lambda x: pb.Articulated(system.model, dtype=x), (0,)),
        "parameter": (lambda x: system.params[x], ()),
        "rollout": (lambda x: pb.rollout(x, system.state(), steps=2), ()),
        "rollout state": (lambda x: pb.rollout(system, x, steps=2), ()),
        "check_system": (pb.check_system, ()),
        "check control": (lambda x: pb.check_system(system, control=x, names=("v",)), (0,)),
        "check seed": (lambda x: pb.check_system(system, seed=x, names=("v",)), (1,)),
        "check steps": (lambda x: pb.check_system(system, steps=x, names=("v",)), (0, 1)),
        "check rollout_steps": (lambda x: pb.check_system(system, rollout_steps=x, names=("v",)), (1,)),
        "check tolerance": (lambda x: pb.check_system(system, tolerance=x, names=("v",)), (0, 1)),
        "check names": (lambda x: pb.check_system(system, names=x), (0, 5, 7, 12)),
        "pushforward": (lambda x: run.pushforward(params=x), ()),
        "wants_params": (lambda x: run.pullback(q_bar=np.ones((1, 2)), wants_params=x), ()),
        "chain": (pb.robots.chain, (1,)),
        "pendulum": (pb.robots.pendulum, (1,)),
        "draw_run": (draw_run, ()),
        "draw_run bars": (lambda x: draw_run(run, bars=x), (0, 7)),
        "body_gradients": (lambda x: body_gradients(x, [0], q_bar=np.ones((1, 2))), ()),
        "export": (lambda x: export(x, "a.png"), ()),
        "export path": (lambda x: export(drawing, x), ()),
        "export frames": (lambda x: picture(frames=x), (0, 1)),
        "export size": (lambda x: picture(size=x), (0,)),
        "export layers": (lambda x: picture(layers=x), (5, 7, 12)),
        "export fps": (lambda x: film(fps=x), (0, 1)),
        "export speed": (lambda x: film(speed=x), (1,)),
        "load_motion": (load_motion, ()),
        "save_motion": (lambda x: save_motion(x, drawing), (4,)),
        "save_motion drawing": (lambda x: save_motion("a.npz", x), (0,)),
        "write_page": (lambda x: write_page("a.html", x), ()),
        "plot_curve": (lambda x: plot_curve("a.png", x, **LABELS), ()),
        "plot_lines": (lambda x: plot_lines("a.png", [1.0, 2.0], x, **LABELS), ()),
        "plot_lines x": (lambda x: plot_lines("a.png", x, {"a": [1.0, 2.0]}, **LABELS), ()),
        "plot_front": (lambda x: plot_front("a.png", x, [True], labels=("a", "b"), title=""), ()),
        "plot_front labels": (lambda x: plot_front("a.png", [[1.0, 2.0]], [True], labels=x, title=""), ()),
        "plot_intervals": (lambda x: plot_intervals("a.png", ["a"], x, [0.0], [2.0], title="", xlabel=""), ()),
        "plot_intervals truth": (
            lambda x: plot_intervals("a.png", ["a"], [1.0], [0.0], [2.0], title="", xlabel="", truth=x), (0,)
        ),
        "save a map": (ReachabilityMap("R3").save, ()),
        "load a map": (ReachabilityMap.load, ()),
        "check_plan": (lambda x: check_plan(x, x), ()),
        "check_place": (lambda x: check_place(run.system.model, "cart", "pole", x), ()),
        "tip": (lambda x: inverse(run.system.model, "cart", x, np.zeros((1, 3)), "R3"), ()),
        "options": (lambda x: minimise(None, {}, x), (0,)),
        "plot_slice": (lambda x: plot_slice("a.png", x, at=np.zeros(3), ranges=[(0, 1), (0, 1)]), ()),
        "humanoid_maps": (lambda x: humanoid_maps(folder=x), (0, 4)),
        "Controls scale": (lambda x: Controls(5, scale=x).begin(system), (0, 1)),
        "Controls start": (lambda x: Controls(5, start=x).begin(system), (1, 2)),
        "Parameters": (lambda x: Parameters(5, x).begin(system), ()),
        "Factors": (lambda x: Factors(5, x).begin(system), ()),
        "Camera": (Camera, ()),
        "Tracking": (lambda x: Tracking(x, np.ones(4))(run), ()),
        "Tracking weights": (lambda x: Tracking(system.state(), x)(run), (1,)),
        "solve": (solve, ()),
        "solve seed": (lambda x: solve(racecar, iterations=1, seed=x), (1,)),
        "task": (lambda x: racecar(x, True), ()),
        "hop": (lambda x: TASKS["hop"](seed=x), (1,)),
        "footsteps": (lambda x: TASKS["footsteps"](seed=x), (1,)),
        **{
            f"task {name}": (lambda x, name=name: racecar.but(**{name: x}), right)
            for name, right in {"find": (), "system": (), "method": (), "start": ()}.items()
        },
    }  # fmt: skip


def calls_that_learn(run) -> dict:
    """The same of networks, policies, soft bodies and goals."""
    system, state = run.system, run.system.state()
    net = neural.perceptron(5, (4,), 1)
    ranges = {name: np.zeros(2) for name in ("low", "centre")} | {name: np.ones(2) for name in ("high", "spread")}
    residual = lambda **x: neural.Residual(system, net, **x)  # noqa: E731
    law = lambda **x: neural.Law(system, (3,), **{"parameter": "gravity", **x})  # noqa: E731
    actuator = lambda **x: neural.Actuator(system, (3,), **x)  # noqa: E731
    policy = lambda **x: learn.Policy(**{"env": "cartpole", "observations": 4, "actions": 1, **x})  # noqa: E731
    evaluate = lambda **x: learn.evaluate(lambda o: o[:, :1], "cartpole", **{"starts": 2, "steps": 1, **x})  # noqa: E731
    particles = soft.Particles(
        soft.block((0.3,) * 3, (0.5,) * 3, (2, 2, 2), soft.NeoHookean(young=2e3, density=1e3)),
        dx=0.1,
        cells=(11,) * 3,
        dt=1e-2,
        shapes=soft.Shape.sphere((0.4, 0.4, 0.2), 0.05),
    )
    return {
        "perceptron inputs": (lambda x: neural.perceptron(x, (3,), 1), (1,)),
        "perceptron hidden": (lambda x: neural.perceptron(2, x, 1), (5, 7, 12)),
        "perceptron outputs": (lambda x: neural.perceptron(2, (3,), x), (1,)),
        "perceptron seed": (lambda x: neural.perceptron(2, (3,), 1, seed=x), (1,)),
        "perceptron zero": (lambda x: neural.perceptron(2, (3,), 1, zero=x), ()),
        "LSTM inputs": (lambda x: neural.LSTM(x), (1,)),
        "LSTM hidden": (lambda x: neural.LSTM(2, x), (1,)),
        "LSTM layers": (lambda x: neural.LSTM(2, 3, x), (1,)),
        "LSTM seed": (lambda x: neural.LSTM(2, 3, 1, seed=x), (1,)),
        "LSTM values": (lambda x: neural.LSTM(2, 3, 1, values=x), (0,)),
        **{f"Ranges {name}": (lambda x, name=name: neural.Ranges(**{**ranges, name: x}), ()) for name in ranges},
        **{f"residual {n}": (lambda x, n=n: residual(**{n: x}), ()) for n in ("reads", "adds", "form", "where")},
        "residual on": (lambda x: residual(on=x), (0,)),
        **{f"law {n}": (lambda x, n=n: law(**{n: x}), ()) for n in ("parameter", "reads", "form")},
        "law seed": (lambda x: law(seed=x), (1,)),
        "actuator history": (lambda x: actuator(history=x), ()),
        "actuator order": (lambda x: actuator(order=x), ()),
        "actuator joints": (lambda x: actuator(joints=x), (0,)),
        "recorded joints": (lambda x: neural.Recording(state, joints=x), (0, 4, 5, 6, 7, 8, 12)),
        "recorded by": (lambda x: neural.read_recordings("nowhere.npz", x), ()),
        "policy env": (lambda x: policy(env=x), (4,)),
        "policy observations": (lambda x: policy(observations=x), (1,)),
        "policy actions": (lambda x: policy(actions=x), (1,)),
        "policy hidden": (lambda x: policy(hidden=x), (5, 7, 12)),
        "policy log_deviation": (lambda x: policy(log_deviation=x), (1, 2)),
        "evaluate seed": (lambda x: evaluate(seed=x), (1,)),
        "evaluate plant": (lambda x: evaluate(plant=x), ()),
        "record seed": (lambda x: learn.record(lambda o: o[:, :1], "cartpole", seed=x, steps=1), (1,)),
        "Random": (lambda x: Random(x, 1, None, "cpu"), (1,)),
        "inputs": (lambda x: particles.step(particles.state(), inputs=x), (0, 7)),
        "wall friction": (lambda x: soft.Wall((0, 0, 0), (0, 0, 1), friction=x), (1,)),
        "wall clamped": (lambda x: soft.Wall((0, 0, 0), (0, 0, 1), clamped=x), ()),
        "shape friction": (lambda x: soft.Shape.sphere((0, 0, 0), 1.0, friction=x), (1,)),
        "shape clamped": (lambda x: soft.Shape.sphere((0, 0, 0), 1.0, clamped=x), ()),
        "Along shift": (lambda x: dexterous.Along(shift=x), ()),
        "Along turn": (lambda x: dexterous.Along(turn=x), ()),
        "Along wait": (lambda x: dexterous.Along(wait=x), ()),
        "Along arrive": (lambda x: dexterous.Along(arrive=x), (1,)),
        "Along own": (lambda x: dexterous.Along(own=x), ()),
        "To at": (dexterous.To, ()),
        "To lift": (lambda x: dexterous.To((0, 0, 0), lift=x), (1,)),
        "GripFrom phase": (lambda x: dexterous.GripFrom(x, 1.0), ()),
        "GripFrom force": (lambda x: dexterous.GripFrom(0.1, x), (1,)),
        "Assortment robot": (dexterous.Assortment, (4,)),
        "Assortment mass": (lambda x: dexterous.Assortment("", mass=x), (1,)),
        "Assortment most": (lambda x: dexterous.Assortment("", most=x), (1,)),
    }  # fmt: skip


@pytest.mark.parametrize("learns", [False, True])
def test_wrong_types(run, racecar, learns, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bare = []
    for name, (call, right) in (calls_that_learn(run) if learns else calls(run, racecar)).items():
        for i, wrong in enumerate(WRONG):
            if i in right:
                continue
            try:
                call(wrong)
                bare.append(f"{name} takes {wrong!r}")
            except pb.PullbackError as error:
                if "\n" in str(error):
                    bare.append(f"{name} of {wrong!r} has several lines")
            except Exception as error:
                bare.append(f"{name} of {wrong!r}: {type(error).__name__}: {error}")
    assert not bare, "\n".join(bare)


def test_a_viewer(run):
    with Viewer(run.system.model, port=8190) as viewer:
        for wrong in (x for i, x in enumerate(WRONG) if i != 0):
            for call in (viewer.show, viewer.play, lambda x: viewer.show(run.q[0], x), viewer.add_sliders):
                with pytest.raises(pb.PullbackError):
                    call(wrong)
    with pytest.raises(pb.PullbackError):
        Viewer(run.system.model, port=-1)
