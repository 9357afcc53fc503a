"""Maps: values as NumPy and scikit-learn have them, exact gradients, files without pickles, errors that say why."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from random_maps import poses_of, random_map

import pullback as pb
from pullback.reach import ReachabilityMap, space

NAMES = ("R2", "SO2", "SE2", "R3", "SO3", "SE3")


def labels_of(name, poses):
    """Half a space of features, bent: smooth, and both classes occur."""
    features = space(name).features(poses)
    return features[:, 0] + 0.5 * features[:, 1] ** 2 < 0.2


def by_numpy(rmap, poses):
    h, held = rmap.space.features(poses), rmap.fitted
    if rmap.kind == "svm":
        square = np.sum((h[:, None] - held.centres) ** 2, axis=-1)
        return np.exp(-held.gamma * square) @ held.weights - held.rho
    for weight, bias in zip(held.weights, held.biases, strict=True):
        z = h @ weight.T + bias
        h = 0.5 * (z + np.sqrt(z**2 + 4))
    return z[:, 0]


def central_differences(rmap, poses, h):
    """Of fourth order."""
    columns = []
    for axis in np.eye(rmap.space.tangent_size):
        f = [rmap.decision_function(rmap.space.integrate(poses, k * h * axis)) for k in (2, 1, -1, -2)]
        columns.append((-f[0] + 8 * f[1] - 8 * f[2] + f[3]) / (12 * h))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("kind", ("svm", "network"))
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name, kind):
    rmap, poses = random_map(name, kind), poses_of(name, 37)
    value, gradient = rmap.evaluate(poses)
    np.testing.assert_allclose(value, by_numpy(rmap, poses), rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(value, rmap.decision_function(poses))
    assert np.max(np.abs(gradient), axis=0).min() > 0.01  # zeros would not pass below
    for h in (1e-2, 3e-3, 1e-3):
        np.testing.assert_allclose(gradient, central_differences(rmap, poses, h), atol=100 * h**4 + 1e-10)


@pytest.mark.parametrize("kind", ("svm", "network"))
def test_a_batch_is_its_rows(kind):
    rmap, poses = random_map("SE3", kind), poses_of("SE3", 33)
    value, gradient = rmap.evaluate(poses)
    for n in (1, 7, 8, 9, 32):  # on both sides of the number of lanes
        part = rmap.evaluate(poses[:n])
        np.testing.assert_array_equal(part[0], value[:n])
        np.testing.assert_array_equal(part[1], gradient[:n])
    assert rmap.evaluate(poses[:0])[1].shape == (0, 6)


@pytest.mark.parametrize("kind", ("svm", "network"))
def test_large_batches_and_threads_of_the_user(kind):
    """Cores share a large batch, and calls from several threads do not disturb each other."""
    rmap, poses = random_map("SE3", kind), poses_of("SE3", 1003)
    value, gradient = rmap.evaluate(poses)
    np.testing.assert_allclose(value, by_numpy(rmap, poses), rtol=1e-11, atol=1e-11)
    parts = [poses[first : first + 59] for first in range(0, 1003, 59)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(rmap.evaluate, parts))
    np.testing.assert_array_equal(np.concatenate([one for one, _ in found]), value)
    np.testing.assert_array_equal(np.concatenate([one for _, one in found]), gradient)


@pytest.mark.parametrize("kind", ("svm", "network"))
def test_single_precision(kind):
    double, single = (random_map("SE3", kind, dtype).evaluate(poses_of("SE3", 50)) for dtype in ("float64", "float32"))
    assert single[0].dtype == np.float32
    for a, b in zip(double, single, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_a_quaternion_may_have_any_length_and_sign():
    rmap, poses = random_map("SE3", "svm"), poses_of("SE3", 9)
    other = poses * np.array([1, 1, 1, -3, -3, -3, -3.0])
    for a, b in zip(rmap.evaluate(poses), rmap.evaluate(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_far_away_nothing_blows_up():
    rmap = random_map("R3", "svm")
    value, gradient = rmap.evaluate([[1e3, 0, 0], [0, -1e8, 0]])
    np.testing.assert_allclose(value, -rmap.fitted.rho)
    np.testing.assert_allclose(gradient, 0, atol=1e-90)


# --- fitting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_support_vectors_are_those_of_scikit_learn(name):
    from sklearn import svm

    s, poses, queries = space(name), poses_of(name, 400), poses_of(name, 50, seed=1)
    labels = labels_of(name, poses)
    ours = ReachabilityMap(name, gamma=2.0, nu=0.1, reduce=False).fit(poses, labels)
    theirs = svm.NuSVC(gamma=2.0, nu=0.1).fit(s.features(poses), labels)
    np.testing.assert_allclose(
        ours.decision_function(queries), theirs.decision_function(s.features(queries)), atol=1e-9
    )
    ours = ReachabilityMap(name, gamma=2.0, nu=0.1, reduce=False).fit(poses)
    theirs = svm.OneClassSVM(gamma=2.0, nu=0.1).fit(s.features(poses))
    np.testing.assert_allclose(
        ours.decision_function(queries), theirs.decision_function(s.features(queries)), atol=1e-9
    )


@pytest.mark.parametrize("kind", ("svm", "network"))
def test_what_is_learnt_holds_elsewhere(kind):
    poses, queries = poses_of("SE2", 3000), poses_of("SE2", 3000, seed=1)
    labels, truth = (np.linalg.norm(x[:, :2], axis=1) < 0.6 + 0.2 * np.cos(x[:, 2]) for x in (poses, queries))
    rmap = ReachabilityMap("SE2", kind, steps=400).fit(poses, labels)
    assert rmap.score(queries, truth) > 0.9
    again = ReachabilityMap("SE2", kind, steps=400).fit(poses, labels)
    np.testing.assert_array_equal(rmap.decision_function(queries), again.decision_function(queries))


def test_reducing_support_vectors_costs_little():
    poses, queries = poses_of("R3", 4000), poses_of("R3", 4000, seed=1)
    labels, truth = (np.linalg.norm(x, axis=1) < 0.8 for x in (poses, queries))
    whole = ReachabilityMap("R3", nu=0.1, reduce=False).fit(poses, labels)
    reduced = ReachabilityMap("R3", nu=0.1, centres=120).fit(poses, labels)
    assert len(whole.fitted.weights) > 300 and len(reduced.fitted.weights) == 120
    assert reduced.score(queries, truth) > whole.score(queries, truth) > 0.9


def test_infinity_is_out_of_reach():
    """Also where most samples are reachable, and the offset of an SVM would say otherwise."""
    poses = poses_of("R2", 1000)
    rmap = ReachabilityMap("R2").fit(poses, np.linalg.norm(poses, axis=1) > 0.5)
    assert rmap.decision_function([[50.0, 0.0]])[0] < -1 and rmap.decision_function([[0.8, 0.8]])[0] > 0


def test_labels_may_be_written_as_in_scikit_learn():
    poses = poses_of("R2", 300)
    labels = labels_of("R2", poses)
    a, b = (ReachabilityMap("R2").fit(poses, x) for x in (labels, np.where(labels, 1, -1)))
    np.testing.assert_array_equal(a.decision_function(poses), b.decision_function(poses))


def test_score_is_intersection_over_union():
    rmap = random_map("R2", "svm")
    poses = poses_of("R2", 200)
    said, truth = rmap.predict(poses), labels_of("R2", poses)
    right, false, missed = np.sum(said & truth), np.sum(said & ~truth), np.sum(~said & truth)
    assert min(right, false, missed) > 0
    assert rmap.score(poses, truth) == right / (right + false + missed)


# --- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ("svm", "network"))
def test_saved_and_loaded(kind, tmp_path):
    rmap, poses = random_map("SE3", kind), poses_of("SE3", 20)
    rmap.save(tmp_path / "map.npz")
    again = ReachabilityMap.load(tmp_path / "map.npz")
    assert (again.space, again.kind) == (rmap.space, kind)
    for a, b in zip(rmap.evaluate(poses), again.evaluate(poses), strict=True):
        np.testing.assert_array_equal(a, b)
    single = ReachabilityMap.load(tmp_path / "map.npz", dtype="float32")
    assert single.decision_function(poses).dtype == np.float32


def test_a_loaded_map_needs_neither_torch_nor_scikit_learn(tmp_path):
    random_map("SE3", "network").save(tmp_path / "map.npz")
    program = (
        "import sys, numpy as np, pullback as pb\n"
        "rmap = pb.reach.ReachabilityMap.load('map.npz')\n"
        "print(rmap.evaluate(np.eye(7)[3:4])[0])\n"
        "assert not {'torch', 'sklearn', 'scipy'} & set(sys.modules), set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def broken(tmp_path, **changes):
    path = tmp_path / "map.npz"
    random_map("SE3", "svm").save(path)
    with np.load(path) as file:
        arrays = {**file, **changes}
    np.savez(path, **{name: x for name, x in arrays.items() if x is not None})
    return path


FILES = {
    "not there": (lambda folder: folder / "none.npz", "there is no file"),
    "text": (lambda folder: (folder / "a.npz").write_text("hello") and folder / "a.npz", "is no reachability map"),
    "another format": (lambda folder: broken(folder, format=np.array("x")), "is no reachability map: it says x"),
    "something else": (lambda folder: broken(folder, format=None), "map: ReachabilityMap.save did not write it"),
    "another space": (lambda folder: broken(folder, space=np.array("R2")), "centres have shape"),
    "an unknown kind": (lambda folder: broken(folder, kind=np.array("tree")), "is no reachability map"),
    "without weights": (lambda folder: broken(folder, weights=None), "is no reachability map"),
    "NaN": (lambda folder: broken(folder, rho=np.array(np.nan)), "not finite"),
    "a pickle": (lambda folder: broken(folder, rho=np.array([{}], object)), "is no reachability map"),
    "a weight alone": (lambda folder: broken(folder, weights=np.array(1.0)), "is no reachability map"),
    "two gammas": (lambda folder: broken(folder, gamma=np.ones(2)), "is no reachability map"),
    "a gamma that makes it grow": (lambda folder: broken(folder, gamma=np.array(-1.0)), "gamma is -1"),
    "letters": (lambda folder: broken(folder, weights=np.array([*"abcdefg"])), "is no reachability map"),
    "one array": (lambda folder: np.save(folder / "a.npy", np.ones(3)) or folder / "a.npy", "is no reachability map"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_map(kind, tmp_path):
    make, message = FILES[kind]
    with pytest.raises(pb.PullbackError, match=message):
        ReachabilityMap.load(make(tmp_path))


@pytest.mark.parametrize(
    "changes", ({"bias0": np.array(1.0)}, {"bias0": np.ones((5, 2))}, {"bias0": np.array([*"abcde"])})
)
def test_a_file_that_is_no_network(changes, tmp_path):
    random_map("SE3", "network").save(tmp_path / "map.npz")
    with np.load(tmp_path / "map.npz") as file:
        np.savez(tmp_path / "broken.npz", **{**file, **changes})
    with pytest.raises(pb.PullbackError, match="is no reachability map"):
        ReachabilityMap.load(tmp_path / "broken.npz")


def test_bytes_that_are_not_as_they_were(tmp_path):
    """Also where that cannot be unpacked any more."""
    path = tmp_path / "map.npz"
    random_map("SE3", "svm").save(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            ReachabilityMap.load(path)  # or it was in a date, and did no harm
        except pb.PullbackError as error:
            assert "\n" not in str(error)


# --- bad input ---------------------------------------------------------------------------------------

POSES = poses_of("SE3", 30)
BAD = {
    "an unknown kind": (lambda: ReachabilityMap("SE3", "forest"), "kind='forest' is not known"),
    "an unknown space": (lambda: ReachabilityMap("E3"), "there is no space 'E3'"),
    "a negative gamma": (lambda: ReachabilityMap(gamma=-1.0), "gamma must be a number above 0"),
    "nu of one": (lambda: ReachabilityMap(nu=1.0), "nu must be below 1"),
    "no layers": (lambda: ReachabilityMap(kind="network", hidden=()), "hidden must be the units of at least one layer"),
    "not fitted": (lambda: ReachabilityMap().evaluate(POSES), "is not fitted"),
    "nothing to save": (lambda: ReachabilityMap().save("x.npz"), "nothing to save"),
    "no poses": (lambda: ReachabilityMap().fit(POSES[:0]), "cannot be made of 0 poses"),
    "one class": (lambda: ReachabilityMap().fit(POSES, np.ones(30, bool)), "all poses are reachable"),
    "the other class": (lambda: ReachabilityMap().fit(POSES, np.zeros(30, bool)), "no pose is reachable"),
    "labels too short": (lambda: ReachabilityMap().fit(POSES, np.ones(3, bool)), r"must be \(n,\) = \(30,\)"),
    "labels that are no labels": (lambda: ReachabilityMap().fit(POSES, np.full(30, 0.5)), "booleans, not"),
    "a network of one class": (lambda: ReachabilityMap(kind="network").fit(POSES), "learns from both classes"),
    "too few of one": (lambda: ReachabilityMap(nu=0.5).fit(POSES, np.arange(30) < 2), "nu=0.5 is too large where 6.7%"),
    "NaN": (lambda: random_map("R2", "svm").evaluate([[0, 0], [np.nan, 0]]), "row 1 of poses is not finite"),
    "no rotation": (lambda: random_map("SO3", "svm").evaluate(np.zeros((1, 4))), "row 0 of poses has no length"),
    "out of all bounds": (lambda: random_map("R3", "network").evaluate([[1e200, 0, 0]]), "beyond 1e"),
    "gamma in words": (lambda: ReachabilityMap(gamma="large"), "gamma must be a number above 0"),
    "half a centre": (lambda: ReachabilityMap(centres=2.5), "centres must be a whole number of at least 1, not 2.5"),
    "a layer without brackets": (lambda: ReachabilityMap(hidden=64), "hidden must be the units"),
    "half a unit": (lambda: ReachabilityMap(hidden=(2.5,)), "hidden units must be a whole number"),
    "ten steps": (lambda: ReachabilityMap(steps=10), "steps must be a whole number of at least 20"),
    "a negative seed": (lambda: ReachabilityMap(seed=-1), "seed must be a whole number of at least 0"),
    "a seed in words": (lambda: ReachabilityMap(seed="one"), "seed must be a whole number"),
    "too large a seed": (lambda: ReachabilityMap(seed=2**63), "seed must be a whole number of at most"),
    "a list for a space": (lambda: ReachabilityMap(["R2"]), "there is no space"),
    "a list for a kind": (lambda: ReachabilityMap("R2", ["svm"]), "is not known"),
    "nowhere to save": (lambda: random_map("R2", "svm").save("/nowhere/at/all.npz"), "cannot write"),
    "equal poses": (lambda: ReachabilityMap().fit(np.tile(POSES[:1], (30, 1)), np.arange(30) < 15), "are the same"),
    "nothing to score": (lambda: random_map("R3", "svm").score([[1e3, 0, 0]], [False]), "nothing to score"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(kind):
    call, message = BAD[kind]
    with pytest.raises(pb.PullbackError, match=message):
        call()
