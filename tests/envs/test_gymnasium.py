"""Environments through Gymnasium: against its own SyncVectorEnv, its checker and its wrappers."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from falling import Falling, pushes
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import pullback.envs as envs
from pullback import PullbackError
from pullback.envs.gymnasium import Env, VectorEnv, identifier

MODES = list(AutoresetMode)


class Failing(Falling):
    """The simulation of world 1 fails at the third step, and the reward there is not a number."""

    def _simulate(self, physics, control, hold):
        self.steps = getattr(self, "steps", 0) + 1
        after, failed = super()._simulate(physics, control, hold)
        return after, failed | (torch.arange(self.worlds) == 1) & (self.steps == 3)

    def reward(self, before, action, after):
        bad = (torch.arange(self.worlds) == 1) & (after.age == 3)
        return {"angle": torch.where(bad, torch.nan, after.physics.q[:, 0])}


# --- registration -----------------------------------------------------------------------------------


def test_every_environment_is_registered():
    assert identifier("half-cheetah") == "pullback/HalfCheetah-v0"
    assert identifier("pendulum-3") == "pullback/Pendulum3-v0"
    assert gymnasium.make("pullback.envs:pullback/Pendulum1-v0").spec.max_episode_steps == 100
    for name, maker in envs.ENVS.items():
        spec = gymnasium.spec(identifier(name))
        assert spec.kwargs == {"env": name} and spec.max_episode_steps == getattr(maker, "func", maker).limit
        assert spec.to_json()


@pytest.mark.filterwarnings("ignore:.*A Box observation space")
@pytest.mark.parametrize("name", envs.ENVS)
def test_gymnasiums_checker_passes(name):
    check_env(gymnasium.make(identifier(name)).unwrapped)


def steps_until_truncated(env, most=130):
    env.reset(seed=0)
    for step in range(1, most + 1):
        _, _, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape, np.float32))
        assert not np.any(terminated)
        if np.all(truncated):
            return step
    return None


def test_the_time_limit_is_applied_once_and_can_be_changed():
    name = "pullback/Pendulum1-v0"
    assert steps_until_truncated(gymnasium.make(name)) == 100
    assert steps_until_truncated(gymnasium.make(name, max_episode_steps=20)) == 20
    assert steps_until_truncated(gymnasium.make(name, max_episode_steps=120)) == 120
    assert steps_until_truncated(gymnasium.make(name, max_episode_steps=-1)) is None
    assert steps_until_truncated(gymnasium.make_vec(name, num_envs=2)) == 100
    assert steps_until_truncated(gymnasium.make_vec(name, num_envs=2, max_episode_steps=120)) == 120
    assert steps_until_truncated(Env("pendulum-1")) == 100


def test_the_package_does_not_need_gymnasium():
    code = 'import sys; sys.modules["gymnasium"] = None; import pullback.envs as e; e.make("pendulum-1")'
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_make_vec_takes_modes_and_options():
    for mode in (*MODES, "SameStep"):
        env = gymnasium.make_vec("pullback/Pendulum1-v0", num_envs=3, autoreset_mode=mode, spread=0.1)
        assert env.metadata["autoreset_mode"] is AutoresetMode(mode)
        assert env.reset(seed=1)[0].std(axis=0).max() > 0
        assert env.observation_space.shape == (3, 4) and env.action_space.shape == (3, 1)
        assert env.observation_space.dtype == env.action_space.dtype == np.float32


# --- episodes -------------------------------------------------------------------------------------------


def same_infos(ours, theirs):
    """Equal wherever a mask is true; entries that nobody has may be left out."""
    for name in {name for name in (*ours, *theirs) if not name.startswith("_")}:
        mask = ours.get(f"_{name}", np.zeros(1, bool))
        assert np.array_equal(mask, theirs.get(f"_{name}", np.zeros_like(mask))), name
        if not mask.any():
            continue
        if isinstance(ours[name], dict):
            same_infos(ours[name], theirs[name])
        else:
            for x, y in zip(ours[name][mask], theirs[name][mask], strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("mode", MODES)
def test_like_gymnasiums_vector_of_single_environments(mode):
    """Starts are fixed, so that only actions tell the worlds apart: both take the same steps, ends and resets."""
    worlds = 5
    ours = VectorEnv(Falling(worlds), autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: Env(Falling())] * worlds, autoreset_mode=mode)
    np.testing.assert_array_equal(ours.reset(seed=0)[0], theirs.reset(seed=0)[0])
    ends = np.zeros(2)
    for action in pushes(worlds, 40):
        one, other = ours.step(action), theirs.step(action)
        for x, y in zip(one[:4], other[:4], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)
            assert x.dtype == y.dtype or x.dtype == np.float32
        same_infos(one[4], other[4])
        ends += one[2].sum(), one[3].sum()
        ended = one[2] | one[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            with pytest.raises(PullbackError, match="reset_mask"):
                ours.step(action)
            again = [env.reset(options={"reset_mask": ended.copy()})[0] for env in (ours, theirs)]
            np.testing.assert_allclose(*again, rtol=1e-6)
    assert (ends >= 5).all()  # of both sorts


def test_the_last_observation_is_the_one_before_the_reset():
    """Against the Environment itself, stepped by hand."""
    plain = Falling(4)
    env = VectorEnv(Falling(4), autoreset_mode="SameStep")
    start, _ = env.reset(seed=0)
    state, random = plain.reset(plain.random(0)), plain.random(0)
    seen_ends = 0
    for action in pushes(4, 20):
        after = plain.step(state, torch.tensor(action), random)
        seen, reward, terminated, truncated, infos = env.step(action)
        last, ended = plain.observe(after.state).numpy(), after.done.numpy()
        assert np.array_equal(terminated, after.terminated) and np.array_equal(truncated, after.truncated)
        assert not (terminated & truncated).any()
        np.testing.assert_array_equal(reward, after.reward)
        np.testing.assert_array_equal(seen, np.where(ended[:, None], start, last))
        assert ("final_obs" in infos) == ended.any()
        for world in np.flatnonzero(ended):
            np.testing.assert_array_equal(infos["final_obs"][world], last[world])
            assert not np.array_equal(last[world], start[world])
            assert infos["final_info"]["metrics"]["angle"][world] == after.state.physics.q[world, 0]
        seen_ends += ended.sum()
        state = plain.reset_where(after.done, after.state, random)
    assert seen_ends >= 6


def test_a_masked_reset_leaves_other_worlds_bit_for_bit():
    env, twin = (VectorEnv("pendulum-2", 4, spread=0.3, autoreset_mode="Disabled") for _ in range(2))
    first, _ = env.reset(seed=3)
    twin.reset(seed=3)
    push = np.full((4, 2), 0.3, np.float32)
    before, *_ = env.step(push)
    twin.step(push)
    mask = np.array([False, True, False, True])
    after, _ = env.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(after[~mask], before[~mask])
    assert (after[mask] != before[mask]).any(axis=1).all() and (after[mask] != first[mask]).any(axis=1).all()
    assert env.episodes.state.age.tolist() == [1, 0, 1, 0]
    one, other = env.step(push), twin.step(push)
    for x, y in zip(one[:2], other[:2], strict=True):
        np.testing.assert_array_equal(x[~mask], y[~mask])
        assert (x[mask] != y[mask]).all(axis=-1).any() if x.ndim == 1 else (x[mask] != y[mask]).any()


def test_seeds():
    def run(seed):
        env = VectorEnv(Falling(3, spread=0.2), autoreset_mode="SameStep")
        return [env.reset(seed=seed)[0], *(env.step(action)[0] for action in pushes(3, 25))]

    one, again, other = run(7), run(7), run(8)
    np.testing.assert_array_equal(one, again)  # resets included
    assert (np.array(one) != np.array(other)).any(axis=(1, 2)).all()
    plain = Falling(3, spread=0.2)
    np.testing.assert_array_equal(one[0], plain.observe(plain.reset(plain.random(7))))
    env = VectorEnv(Falling(3, spread=0.2))
    unseeded = [env.reset()[0], env.reset()[0], VectorEnv(Falling(3, spread=0.2)).reset()[0]]
    assert not np.array_equal(unseeded[0], unseeded[1]) and not np.array_equal(unseeded[0], unseeded[2])


def test_failed_worlds_end_without_a_reward():
    env = VectorEnv(Failing(3), autoreset_mode="SameStep")
    env.reset(seed=0)
    push = np.zeros((3, 1), np.float32)
    for _ in range(2):
        assert not env.step(push)[4]["failed"].any()
    _, reward, terminated, truncated, infos = env.step(push)
    assert terminated.tolist() == [False, True, False] and not truncated.any()
    assert infos["final_info"]["failed"][1] and reward[1] == 0 and reward[0] != 0
    assert infos["final_info"]["reward_terms"]["angle"][1] == 0
    assert env.episodes.state.age.tolist() == [3, 0, 3] and np.isfinite(env.step(push)[0]).all()


# --- what comes out ---------------------------------------------------------------------------------------


def test_tensors_and_arrays_are_the_same_numbers():
    with_arrays, with_tensors = (VectorEnv(Falling(3), autoreset_mode="SameStep", tensors=x) for x in (False, True))
    pairs = [(with_arrays.reset(seed=0)[0], with_tensors.reset(seed=0)[0])]
    for action in pushes(3, 12):
        one, other = with_arrays.step(action), with_tensors.step(torch.tensor(action))
        pairs += zip(one[:4], other[:4], strict=True)
        pairs.append((one[4]["metrics"]["angle"], other[4]["metrics"]["angle"]))
        if "final_obs" in one[4]:
            mask = other[4]["_final_obs"]
            pairs.append((np.stack(one[4]["final_obs"][mask.numpy()]), other[4]["final_obs"][mask]))
    for array, tensor in pairs:
        assert isinstance(array, np.ndarray) and isinstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(array, tensor)


def test_arrays_are_copies_and_tensors_are_not():
    class Bare(Falling):
        def observe(self, state):
            return state.physics.q

    for tensors in (False, True):
        env = VectorEnv(Bare(2), tensors=tensors)
        seen, _ = env.reset(seed=0)
        seen[:] = 5
        assert (env.episodes.state.physics.q == 5).all() == tensors


def test_reward_terms_add_up_to_the_reward():
    env = VectorEnv("pendulum-1", 2)
    env.reset(seed=0)
    _, reward, _, _, infos = env.step(np.ones((2, 1), np.float32))
    terms = infos["reward_terms"]
    assert terms["approach"].min() > 0
    np.testing.assert_allclose(terms["approach"] + terms["end"], reward)


def test_float64_simulation_gives_float32_arrays():
    env = VectorEnv("pendulum-1", 2, dtype="float64")
    assert env.reset(seed=0)[0].dtype == np.float32
    assert env.step(np.zeros((2, 1)))[0] in env.observation_space


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_gymnasiums_wrappers(mode):
    env = RecordEpisodeStatistics(VectorEnv(Falling(3), autoreset_mode=mode))
    env.reset(seed=0)
    returns, expected = np.zeros(3), []
    for action in pushes(3, 30):
        _, reward, terminated, truncated, infos = env.step(action)
        returns += reward
        for world in np.flatnonzero(terminated | truncated):
            assert infos["episode"]["r"][world] == pytest.approx(returns[world], rel=1e-5)
            expected.append(returns[world])
            returns[world] = 0
    assert len(expected) >= 6 and env.episode_count == len(expected)

    env = DictInfoToList(VectorEnv(Falling(3), autoreset_mode=mode))
    env.reset(seed=0)
    infos = env.step(pushes(3, 1)[0])[4]
    assert [info["metrics"]["angle"] < 0 for info in infos] == [True, True, False]


def test_actions_beyond_the_space_are_clipped():
    env, twin = VectorEnv("pendulum-1", 1), VectorEnv("pendulum-1", 1)
    env.reset(seed=0), twin.reset(seed=0)
    np.testing.assert_array_equal(env.step(np.array([[7.0]]))[0], twin.step(np.array([[1.0]]))[0])
    assert env.episodes.state.action.tolist() == [[1.0]]  # which some environments observe


# --- bad input ------------------------------------------------------------------------------------------


def begun(env):
    env.reset(seed=0)
    return env


class Shapeless(Falling):
    def reward(self, before, action, after):
        return after.physics.q


class NotANumber(Falling):
    def reward(self, before, action, after):
        return torch.where(after.age == 2, torch.nan, after.physics.q[:, 0])


BAD = {
    "shape": (
        lambda: begun(VectorEnv("pendulum-1", 2)).step(np.zeros((2, 3))),
        "shape (2, 3), but (worlds=2, actions=1)",
    ),
    "single": (lambda: begun(Env("pendulum-1")).step(np.zeros(2)), "has shape (2,), but (1,) is needed"),
    "nan": (lambda: begun(VectorEnv("pendulum-1", 2)).step([[0.0], [np.nan]]), "the action of world 1 of 'pendulum-1'"),
    "words": (lambda: begun(Env("pendulum-1")).step("up"), "actions must be an array of numbers"),
    "no reset": (lambda: VectorEnv("pendulum-1", 2).step(np.zeros((2, 1))), "reset() must come before"),
    "mode": (lambda: VectorEnv("pendulum-1", 2, autoreset_mode="Never"), "'NextStep', 'SameStep', 'Disabled'"),
    "option": (lambda: VectorEnv("pendulum-1", 2).reset(options={"mask": 1}), "no option 'mask'; there is reset_mask"),
    "mask": (
        lambda: begun(VectorEnv("pendulum-1", 2)).reset(options={"reset_mask": np.ones(3, bool)}),
        "booleans of shape (2,)",
    ),
    "integers": (
        lambda: begun(VectorEnv("pendulum-1", 2)).reset(options={"reset_mask": np.ones(2, int)}),
        "booleans of shape (2,)",
    ),
    "name": (lambda: VectorEnv("pendulum-9", 2), "there is no environment 'pendulum-9'"),
    "worlds": (lambda: VectorEnv("pendulum-1", 0), "worlds must be"),
    "limit": (lambda: VectorEnv("pendulum-1", 2, max_episode_steps=0), "max_episode_steps must be"),
    "late options": (lambda: VectorEnv(Falling(2), spread=0.1), "spread: options are for names"),
    "reward's shape": (lambda: begun(VectorEnv(Shapeless(2))).step(np.zeros((2, 1))), "reward"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_line(kind):
    call, message = BAD[kind]
    with pytest.raises(PullbackError) as error:
        call()
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_reward_that_is_not_finite_is_named():
    env = begun(VectorEnv(NotANumber(2)))
    env.step(np.zeros((2, 1)))
    with pytest.raises(PullbackError, match="reward 'reward'.* in world 0 at control step 2"):
        env.step(np.zeros((2, 1)))


def test_actions_of_worlds_that_start_again_are_not_looked_at():
    env = begun(VectorEnv(Falling(2), autoreset_mode="NextStep"))
    ended = np.zeros(2, bool)
    while not ended.any():
        _, _, terminated, truncated, _ = env.step(np.array([[-1.0], [1.0]]))
        ended = terminated | truncated
    assert ended.tolist() == [True, False]
    _, reward, terminated, truncated, infos = env.step(np.array([[np.nan], [1.0]]))
    assert reward[0] == 0 and reward[1] != 0 and not (terminated | truncated)[0]
    assert infos["_metrics"].tolist() == [False, True]


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_there_are_no_pictures():
    with pytest.raises(TypeError, match="pullback view"):
        gymnasium.make("pullback/Pendulum1-v0", render_mode="rgb_array")
