"""A block on which another is put: one more support, which fingers and the block must not enter."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from pullback.core.errors import PullbackError
from pullback.dexterous import Scene, States, To, try_policy
from pullback.model.robots import fingertips
from pullback.spatial import quat_exp
from pullback.tasks.manipulations import BASE_AT, stack, with_object

CUBE = mujoco.mjtGeom.mjGEOM_BOX, (0.03, 0.03, 0.03), 0.01, (0.0, 0.0, 0.03), "cube"


@pytest.fixture(scope="module")
def task():
    return stack()


def near_the_base(task, seed=0):
    """States in which cube, base and tips overlap here and there."""
    random = np.random.default_rng(seed)
    start = task.batch(random, 6, noisy=False).start
    x = States(*(np.repeat(part[None], 4, 0) for part in start))
    at = np.array([*BASE_AT[:2], 0.085]) + 0.01 * random.standard_normal(x.at.shape)
    q = np.tile(np.array([*BASE_AT[:2], 0.07]), 3) + 0.03 * random.standard_normal(x.q.shape)
    return x._replace(at=at, q=q, quat=quat_exp(0.3 * random.standard_normal(x.at.shape))), random


def test_the_base_is_a_support(task):
    scene = task.scene
    assert [support.name for support in scene.supports] == ["table", "base"] and scene.contacts == 5
    np.testing.assert_array_equal(scene.supports[1].at, BASE_AT)
    np.testing.assert_allclose(task.usual()[scene.columns(4)[1]], [0, 0, 0.03], atol=1e-9)
    assert not np.any(task.usual()[scene.columns(4)[2]]) and task.usual()[scene.columns(3)[2]][2] == scene.weight


def test_distances_and_their_slopes(task):
    scene, (x, random) = task.scene, near_the_base(task)
    consistency = task.consistency(task.batch(random, 6, noisy=False))
    d = random.standard_normal((4, 6, scene.nx))
    found, slopes = consistency.clearance(x, scene.hand.pose(x.q))
    assert {"base and object", "hand and base", "corners of base and object"} <= set(found)
    where = {"q": slice(0, scene.n), "x": slice(scene.n, scene.n + 3), "turn": slice(scene.n + 3, scene.n + 6)}
    for pair, distance in found.items():
        if "base" in pair:
            assert distance.min() < 0 < distance.max(), pair
        errors = []
        for h in (1e-5, 1e-6, 1e-7):
            sides = [consistency.clearance(y, scene.hand.pose(y.q), False)[0][pair] for y in
                     (scene.moved(x, sign * h * d) for sign in (1, -1))]  # fmt: skip
            exact = sum((slopes[pair][name] @ d[..., where[name], None])[..., 0] for name in slopes[pair])
            errors.append(np.abs((sides[0] - sides[1]) / (2 * h) - exact).max() / np.abs(exact).max())
        assert min(errors) < 1e-6, pair


def test_a_cube_on_the_base_touches_it_and_nothing_else(task):
    scene = task.scene
    x = task.batch(np.random.default_rng(0), 1, noisy=False).start
    x = x._replace(at=np.array([[*BASE_AT[:2], 0.09]]), quat=np.array([[1.0, 0, 0, 0]]))
    x = States(*(part[None] for part in x))
    found, _ = task.consistency(task.batch(np.random.default_rng(0), 1, noisy=False)).clearance(
        x, scene.hand.pose(x.q), False
    )
    assert found["base and object"].min() == pytest.approx(0, abs=1e-12)
    assert found["corners of base and object"].min() == pytest.approx(0, abs=1e-12)
    assert found["table and object"].min() == pytest.approx(0.06)


def test_a_cube_in_the_place_of_the_base_is_seen(task):
    """Their corners meet, and nothing else says that one is in the other."""
    scene = task.scene
    x = task.batch(np.random.default_rng(0), 1, noisy=False).start
    x = States(*(part[None] for part in x._replace(at=scene.supports[1].at[None], quat=np.array([[1.0, 0, 0, 0]]))))
    consistency = task.consistency(task.batch(np.random.default_rng(0), 1, noisy=False))
    found, _ = consistency.clearance(x, scene.hand.pose(x.q), False)
    assert found["base and object"].min() == pytest.approx(-0.06)
    assert found["corners of base and object"].min() == pytest.approx(0, abs=1e-12)


def test_tips_let_go_in_the_end(task):
    """The residual is there from a phase on, and only for the forces of tips."""
    from pullback.dexterous import ContactProblem

    batch = task.batch(np.random.default_rng(0), 2, noisy=False)
    shares = {}
    for name, one in (("never", replace(task, let_go=2.0)), ("late", task), ("always", replace(task, let_go=0.0))):
        policy = one.fresh_policy(0)
        pressing = replace(policy, usual=policy.usual + 0.05 * (np.arange(len(policy.usual)) == one.scene.n + 6))
        shares[name] = ContactProblem(one, pressing, batch).blocks(policy.weights)[0].shares.get("let go", 0.0)
    late = np.mean(task.phases[:-1] >= task.let_go)
    assert shares["never"] == 0 < shares["late"] < shares["always"]
    assert shares["late"] == pytest.approx(late * shares["always"], rel=0.5)


def test_the_goal_is_above_the_base(task):
    start = task.batch(np.random.default_rng(0), 4, noisy=False).start
    wanted = task.wanted(start, np.linspace(0, 1, 101))
    np.testing.assert_allclose(wanted.at[-1], np.tile([*BASE_AT[:2], 0.09], (4, 1)))
    np.testing.assert_allclose(wanted.at[:20], np.broadcast_to(start.at, (20, 4, 3)))
    over = np.abs(wanted.at[..., 1] - BASE_AT[1]) < 0.055  # the cubes overlap as seen from above
    assert wanted.at[..., 2][over].min() >= 0.09 - 1e-9
    assert isinstance(task.wanted, To) and np.array_equal(wanted.quat[50], start.quat)


def test_a_trial_moves_both_blocks(task):
    """In MuJoCo the base is as free as the cube; Pullback does the same."""
    policy = task.fresh_policy(1)
    options = {"starts": 2, "hold": 0.0, "mode": "corrected"}
    short = replace(task, frames=20)
    ours, theirs = (try_policy(short, policy, plant=plant, **options) for plant in ("pullback", "mujoco"))
    assert theirs.q.shape[-1] == task.scene.n + 14
    np.testing.assert_allclose(theirs.q[0, :, task.scene.n : task.scene.n + 3], np.tile(BASE_AT, (2, 1)))
    assert np.abs(ours.q - theirs.q).max() < 1e-5


def test_a_base_that_is_none():
    model = with_object(fingertips(2), *CUBE)
    with pytest.raises(PullbackError, match="'base', the base, is to be a free body, the one before 'cube'"):
        Scene(model, ["tip1"], dt=0.03, base="base")
