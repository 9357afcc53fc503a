"""Reachability maps: are they right, smooth and fast? Part of reach.py.

Robots: a planar arm of three links, the foot of the sample humanoid as seen from the other foot, flat on the ground,
and the sample arm of seven joints. Poses are labelled by ``pb.reach.sample``, half of them reachable.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path

import numpy as np
from common import Result, interleave, one_core, version

import pullback as pb
from pullback.reach import ReachabilityMap, Samples
from pullback.reach.svm import FIRST_SAMPLES, TWO_CLASSES

PLANAR = """
<mujoco model="planar">
  <default><geom type="capsule" size="0.02" contype="0" conaffinity="0"/><joint axis="0 0 1"/></default>
  <worldbody><body name="base">
    <body name="upper"><joint name="shoulder" range="-150 150"/><geom fromto="0 0 0 0.4 0 0"/>
      <body name="fore" pos="0.4 0 0"><joint name="elbow" range="-120 120"/><geom fromto="0 0 0 0.3 0 0"/>
        <body name="hand" pos="0.3 0 0"><joint name="wrist" range="-120 120"/><geom fromto="0 0 0 0.2 0 0"/>
          <site name="tip" pos="0.2 0 0"/>
        </body></body></body></body></worldbody>
</mujoco>
"""
LIMBS = {
    "planar arm R2": (lambda: PLANAR, ("base", "tip", "R2"), {}),
    "humanoid foot SE2": (pb.robots.humanoid, ("left_foot", "right_foot", "SE2"), {"through": "pelvis"}),
    "7-DoF arm R3": (pb.robots.arm, ("base", "tip", "R3"), {}),
    "7-DoF arm SE3": (pb.robots.arm, ("base", "tip", "SE3"), {}),
}
TRAINING = {"planar arm R2": 100_000, "humanoid foot SE2": 100_000, "7-DoF arm R3": 100_000, "7-DoF arm SE3": 300_000}
MUST = {"planar arm R2": 0.97, "humanoid foot SE2": 0.95, "7-DoF arm R3": 0.95, "7-DoF arm SE3": 0.90}
HELD_OUT = 20_000
QUERIES = 10_000
CLEARLY_OUTSIDE = 0.05  # in features [m and 1]
SKLEARN = version("scikit-learn", "scikit-learn")


@functools.cache
def samples(name: str, quick: bool) -> tuple[Samples, Samples]:
    """To learn from, and to score with."""
    source, limb, options = LIMBS[name]
    held_out = HELD_OUT // 10 if quick else HELD_OUT
    n = TRAINING[name] // (20 if quick else 1)
    return pb.reach.sample(pb.load(source()), *limb, n=n + held_out, seed=0, **options).split(n)


@functools.cache
def fitted(name: str, kind: str, quick: bool) -> tuple[ReachabilityMap, float]:
    """A map with default settings, and how long it took [s]."""
    train, _ = samples(name, quick)
    start = time.perf_counter()
    rmap = ReachabilityMap(train.space.name, kind, **({"steps": 1000} if quick else {}))
    return rmap.fit(train.poses, train.reachable), time.perf_counter() - start


def iou(said: np.ndarray, truth: np.ndarray) -> float:
    return np.sum(said & truth) / np.sum(said | truth)


# --- sampling ---------------------------------------------------------------------------------------------------------


def sampling(quick: bool):
    model = pb.load(pb.robots.arm())
    n = 20_000 if quick else 500_000
    pb.reach.sample(model, "base", "tip", n=200)  # compiles
    for what, unreachable in (("reachable, by forward kinematics", False), ("half unreachable, by inverse", True)):
        start = time.perf_counter()
        pb.reach.sample(model, "base", "tip", n=n, seed=1, unreachable=unreachable)
        seconds = time.perf_counter() - start
        note = "two cores, within joint limits, no overlap with the floor"
        yield Result(f"500,000 SE3 samples of a 7-DoF arm, {what}", seconds * 500_000 / n, "s", "<= 60", note=note)


# --- accuracy ---------------------------------------------------------------------------------------------------------


def baselines(train: Samples, test: Samples) -> dict[str, float]:
    """IoU of what needs no training."""
    from scipy.spatial import Delaunay
    from sklearn.neighbors import KNeighborsClassifier

    features, wanted = train.space.features(train.poses), train.space.features(test.poses)
    found = {}
    for name, k in (("nearest neighbour", 1), ("k-NN, k = 5", 5), ("k-NN, k = 15", 15)):
        said = KNeighborsClassifier(k, n_jobs=1).fit(features, train.reachable).predict(wanted)
        found[name] = iou(said, test.reachable)
    # In twelve dimensions there is no hull: in SE3 it is that of positions, and orientations count for nothing.
    size = {"SE3": 3}.get(train.space.name, train.space.sample_size)
    hull = Delaunay(train.poses[train.reachable][:20_000, :size])
    found["convex hull"] = iou(hull.find_simplex(test.poses[:, :size]) >= 0, test.reachable)
    return found


def accuracy(quick: bool):
    for name in LIMBS:
        train, test = samples(name, quick)
        scores = {}
        for kind in ("svm", "network"):
            rmap, seconds = fitted(name, kind, quick)
            scores[kind] = rmap.score(test.poses, test.reachable)
            size = f"{len(rmap.fitted.weights)} centres" if kind == "svm" else f"layers of {rmap.hidden}"
            yield Result(f"IoU, {name}: {kind}", scores[kind], "", note=f"{size}, fitted in {seconds:.0f} s")
        others = baselines(train, test)
        for other, score in others.items():
            yield Result(f"IoU, {name}: {other}", score, "", peer=SKLEARN if "hull" not in other else "Qhull in SciPy")
        note = f"on {len(test)} held-out poses, of {len(train)} learnt"
        yield Result(f"IoU, {name}: better of SVM and network", max(scores.values()), "", f">= {MUST[name]}", note=note)
        yield Result(
            f"IoU, {name}: that less the best baseline", max(scores.values()) - max(others.values()), "", "> 0"
        )
    yield from evenly_drawn(quick)
    yield from reduction(quick)


def evenly_drawn(quick: bool):
    """Positions and orientations evenly in the box, as inverse kinematics labels them: none by forward kinematics."""
    source, limb, options = LIMBS["7-DoF arm SE3"]
    reach = pb.reach.Limb(pb.load(source()), *limb, **options)
    rng = np.random.default_rng(2)
    box = reach.space.bounds(reach.random(1000, rng)[0], 1.2)
    poses = reach.space.random(2000 if quick else HELD_OUT, box, rng)
    truth = reach.solve(poses, starts=20, rng=rng).reached
    note = f"{truth.mean():.0%} of them reachable; more of these are near the boundary"
    for kind in ("svm", "network"):
        score = fitted("7-DoF arm SE3", kind, quick)[0].score(poses, truth)
        yield Result(f"IoU, 7-DoF arm SE3, evenly drawn poses: {kind}", score, "", note=note)


def reduction(quick: bool):
    """What is lost, or won, by reducing scikit-learn's support vectors and fitting their weights to all samples."""
    for name in LIMBS:
        train, test = samples(name, quick)
        some, _ = train.split(FIRST_SAMPLES)
        whole = ReachabilityMap(some.space.name, reduce=False).fit(some.poses, some.reachable)
        reduced, _ = fitted(name, "svm", quick)
        gain = reduced.score(test.poses, test.reachable) - whole.score(test.poses, test.reachable)
        sizes = f"{len(reduced.fitted.weights)} centres for {len(whole.fitted.weights)}"
        note = f"{sizes}, and {len(train)} samples for {len(some)}"
        yield Result(f"IoU, {name}: reduced SVM less scikit-learn's", gain, "", note=note)


# --- gradients --------------------------------------------------------------------------------------------------------


def difference_error(rmap: ReachabilityMap, poses: np.ndarray) -> float:
    """The largest error of a gradient against differences of fourth order, relative to the largest gradient."""
    _, gradient = rmap.evaluate(poses)
    errors = []
    for h in (1e-3, 3e-4, 1e-4, 3e-5):
        columns = []
        for axis in np.eye(rmap.space.tangent_size):
            near, far = ([rmap.decision_function(rmap.space.integrate(poses, s * k * h * axis)) for s in (1, -1)]
                         for k in (1, 2))  # fmt: skip
            columns.append((8 * (near[0] - near[1]) - (far[0] - far[1])) / (12 * h))
        errors.append(np.max(np.abs(np.stack(columns, axis=1) - gradient)))
    return min(errors) / np.max(np.abs(gradient))


def gradients(quick: bool):
    worst = {}
    for name in LIMBS:
        _, test = samples(name, quick)
        for kind in ("svm", "network"):
            worst[f"{name}, {kind}"] = difference_error(fitted(name, kind, quick)[0], test.poses[:500])
    for name, error in worst.items():
        yield Result(f"gradient against differences, float64: {name}", error, "", "<= 1e-6")
    yield from lead_inside(quick)


def lead_inside(quick: bool):
    """Do gradients at unreachable poses lead to the nearest reachable one that is known?"""
    from scipy.spatial import KDTree

    for name in LIMBS:
        train, test = samples(name, quick)
        known = train.poses[train.reachable][:50_000]
        outside = test.poses[~test.reachable][:2000]
        far, nearest = KDTree(train.space.features(known)).query(train.space.features(outside))
        way = train.space.difference(outside, known[nearest])
        for kind in ("svm", "network"):
            _, gradient = fitted(name, kind, quick)[0].evaluate(outside)
            share = np.mean((np.sum(gradient * way, axis=1) > 0)[far > CLEARLY_OUTSIDE])
            figure = f"gradients that lead towards the nearest reachable pose: {name}, {kind}"
            yield Result(figure, share, "", note=f"of poses farther than {CLEARLY_OUTSIDE} from it")


# --- speed ------------------------------------------------------------------------------------------------------------


def speed(quick: bool):
    for name in LIMBS:
        yield from support_vector_speed(name, quick)
        yield from network_speed(name, quick)


def queries(name: str, quick: bool) -> np.ndarray:
    _, test = samples(name, quick)
    return np.resize(test.poses, (QUERIES, test.poses.shape[1]))


def support_vector_speed(name: str, quick: bool):
    from sklearn.svm import NuSVC

    some, _ = samples(name, quick)[0].split(FIRST_SAMPLES)
    poses = queries(name, quick)
    features = some.space.features(poses)
    whole = ReachabilityMap(some.space.name, reduce=False).fit(some.poses, some.reachable)
    reduced, _ = fitted(name, "svm", quick)
    settings = TWO_CLASSES[some.space.name]
    peer = NuSVC(gamma=settings.gamma, nu=settings.nu, cache_size=1000)
    peer.fit(some.space.features(some.poses), some.reachable)
    apart = np.max(np.abs(peer.decision_function(features) - whole.decision_function(poses)))
    functions = {
        "whole": lambda: whole.evaluate(poses),
        "peer": lambda: peer.decision_function(features),
        "reduced": lambda: reduced.evaluate(poses),
    }
    with one_core():
        seconds = interleave(functions, repeats=3 if quick else 15)
    note = (
        f"{len(peer.support_)} support vectors; values differ by {apart:.0e}; {micro(seconds['whole']):.2f} µs a query"
    )
    ratio = seconds["whole"] / seconds["peer"]
    yield Result(f"value and gradient / values alone, same map, {name}", ratio, "ratio", "<= 0.2", SKLEARN, note)
    note = f"{len(reduced.fitted.weights)} centres, {micro(seconds['reduced']):.2f} µs a query"
    ratio = seconds["reduced"] / seconds["peer"]
    yield Result(f"reduced map, value and gradient / values alone, {name}", ratio, "ratio", "<= 0.2", SKLEARN, note)


def network_speed(name: str, quick: bool):
    poses = queries(name, quick)
    double, _ = fitted(name, "network", quick)
    with tempfile.TemporaryDirectory() as folder:
        double.save(Path(folder) / "map.npz")
        single = ReachabilityMap.load(Path(folder) / "map.npz", dtype="float32")
    functions = {"float64": lambda: double.evaluate(poses), "float32": lambda: single.evaluate(poses)}
    with one_core():
        seconds = interleave(functions, repeats=3 if quick else 15)
    note = f"layers of {double.hidden}, batches of {QUERIES}, one core"
    for dtype, taken in seconds.items():
        figure = f"one query of the network, value and gradient, {name}, {dtype}"
        yield Result(figure, micro(taken), "µs", "<= 2", note=note)


def micro(seconds: float) -> float:
    """Microseconds a query."""
    return 1e6 * seconds / QUERIES


QUESTIONS = {"sampling": sampling, "accuracy": accuracy, "gradients": gradients, "speed": speed}
