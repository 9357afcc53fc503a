"""Training on workers: the windows and gradients of a learner here, and the same bits on any number of workers."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pullback as pb  # noqa: E402
from pullback.cli import main  # noqa: E402
from pullback.core.trees import leaves, tree_map  # noqa: E402
from pullback.envs import make  # noqa: E402
from pullback.learn import SAPO, train  # noqa: E402
from pullback.scale import Shard  # noqa: E402
from pullback.scale import train as train_on_workers  # noqa: E402
from pullback.scale.training import JOINED, SpreadLearner, _Part  # noqa: E402

METHOD = SAPO(worlds=8, hidden=(8, 8), window=5)
LENGTH = {"updates": 4, "starts": 4, "evaluations": 2, "seed": 3}


class Here:
    """Shards in this process."""

    def __init__(self, env, method, count):
        part = _Part(env, replace(method, worlds=method.worlds // count))
        self.count, self.built = count, [part(Shard(k, count)) for k in range(count)]

    def map(self, *args, each):
        return [evaluate(*args, own) for evaluate, own in zip(self.built, each, strict=True)]


@pytest.mark.parametrize("count", [1, 2])
def test_windows_are_those_of_learners_here(count):
    """Each shard's are those of a learner of its worlds, and the loss is the mean over all of them."""
    env = make("pendulum-2", dtype="float64", spread=0.2)
    env.limit = 3  # episodes end within a window
    spread = SpreadLearner(METHOD, env, 0, on=Here(env, METHOD, count))
    own = replace(METHOD, worlds=8 // count)
    starts, randoms = spread.episodes, spread.randoms.clone()
    for _ in range(2):  # the second goes on where the first has ended
        window, ends, losses = spread.gather(), [], []
        for k in range(count):
            worlds = slice(k * own.worlds, (k + 1) * own.worlds)
            alone = own.begin(env, 7)
            sent = {name: x for name, x in spread.state_dict().items() if "terminal" not in name}
            alone.load_state_dict(sent, strict=False)
            alone.episodes = type(starts)(
                tree_map(lambda x, w=worlds: x[w], starts.physics), starts.action[worlds],
                {name: x[worlds] for name, x in starts.extra.items()}, starts.age[worlds],
            )  # fmt: skip
            alone.random.generator.set_state(randoms[k].clone())  # of a view, torch crashes
            alone.entropy_target = spread.entropy_target
            wanted = alone.gather()
            for name in JOINED:
                assert torch.equal(getattr(window, name)[:, worlds], getattr(wanted, name).detach()), name
            for bar, other in zip(window.u_bars, wanted.u_bars, strict=True):
                assert other.abs().max() > 0 and torch.equal(bar[worlds], other / count)
            losses.append(float(wanted.loss.detach()))
            ends.append((alone.episodes, alone.random.generator.get_state()))
        assert float(window.loss) == np.mean(losses)
        assert float(window.log["terminated"] + window.log["truncated"]) > 0
        starts, randoms = spread.episodes, spread.randoms.clone()
        for k, (episodes, random) in enumerate(ends):
            assert torch.equal(random, randoms[k])
            for x, y in zip(leaves(starts.physics), leaves(episodes.physics), strict=True):
                assert torch.equal(x[k * own.worlds : (k + 1) * own.worlds], y)
    assert not torch.equal(randoms[0], randoms[-1]) or count == 1


def test_the_same_bits_on_workers_and_after_an_interruption(tmp_path):
    env = make("pendulum-1", spread=0.2)
    here = train(env, METHOD, begin=partial(SpreadLearner, on=Here(env, METHOD, 2)), **LENGTH)

    def stop(training, progress):
        raise StopIteration

    options = {"make": partial(make, "pendulum-1", spread=0.2), "shards": 2, "workers": 2, "out": tmp_path} | LENGTH
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StopIteration):
        patch.setattr("pullback.learn.training.SAVE_AFTER", -1.0)
        train(env, METHOD, begin=partial(SpreadLearner, on=Here(env, METHOD, 2)), watch=stop, out=tmp_path, **LENGTH)
    found = train_on_workers(env, METHOD, **options)
    for name, x in here.policy.state_dict().items():
        assert torch.equal(x, found.policy.state_dict()[name]), name
    assert [row["reward"] for row in found.log] == [row["reward"] for row in here.log]
    assert len({row["gradient"] for row in here.log}) == 4
    with pytest.raises(pb.PullbackError, match="another environment, method or seed"):
        train_on_workers(env, METHOD, **options | {"shards": 4})


def test_bad_input(capsys, tmp_path):
    with pytest.raises(pb.PullbackError, match="PPO learns on one worker"):
        train_on_workers("pendulum-1", "ppo", updates=1)
    with pytest.raises(pb.PullbackError, match="8 worlds cannot be split equally over 3 shards"):
        train_on_workers("pendulum-1", METHOD, updates=1, shards=3)
    assert main(["train", "pendulum-1", "--shards", "2", "--out", str(tmp_path)]) == 2
    assert "--shards is of a training on workers" in capsys.readouterr().err
