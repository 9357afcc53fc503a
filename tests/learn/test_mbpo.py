"""Model-based policy optimisation: the ensemble on a system that is known, and what rollouts leave behind."""

import pytest

torch = pytest.importorskip("torch")

from pullback.envs import make  # noqa: E402
from pullback.learn import MBPO  # noqa: E402
from pullback.learn.mbpo import Ensemble  # noqa: E402

SMALL = {
    "worlds": 4,
    "window": 3,
    "random_steps": 40,
    "batch": 40,
    "ahead": 5,
    "hidden": (16, 16),
    "updates_per_step": 0.5,
}
SMALL |= {"model_hidden": (32, 32), "rollouts": 50, "model_passes": 2}
NOISE = 0.05


def known(rows: int, seed: int = 0) -> dict:
    """x' = x + 0.2 a + noise, y' = y + 0.1 x y, r = x - a²; it terminates where x' > 0.5."""
    generator = torch.Generator().manual_seed(seed)
    seen = 2 * torch.rand(rows, 2, generator=generator) - 1
    action = 2 * torch.rand(rows, 1, generator=generator) - 1
    x, y = seen.unbind(1)
    noise = NOISE * torch.randn(rows, generator=generator)
    after = torch.stack([x + 0.2 * action[:, 0] + noise, y + 0.1 * x * y], dim=1)
    reward, ends = x - action[:, 0] ** 2, (after[:, 0] > 0.5).float()
    return {"seen": seen, "action": action, "after": after, "reward": reward, "terminated": ends}


def ensemble(**options) -> Ensemble:
    method = MBPO(**SMALL | {"batch": 256, "model_passes": 40} | options)
    generator = torch.Generator().manual_seed(0)
    return Ensemble(method, 2, 1, generator=generator, dtype=torch.float32, device="cpu")


def fitted(model: Ensemble, rows: dict):
    generator = torch.Generator().manual_seed(1)
    return model.fit(lambda index: {name: x[index] for name, x in rows.items()}, len(rows["reward"]), generator)


@pytest.fixture(scope="module")
def model() -> Ensemble:
    model = ensemble(model_rate=3e-3)
    fitted(model, known(3000))
    return model


def test_the_ensemble_learns_means_deviations_and_termination(model):
    rows = known(1000, seed=5)
    inputs, targets = model.pairs(rows)
    with torch.no_grad():
        mean, log_variance, logit = model.predict(inputs)
    clean = targets.clone()
    clean[:, 0] = 0.2 * rows["action"][:, 0]
    found = model.target_mean + model.target_deviation * mean[model.elite].mean(0)
    assert torch.all((found - clean).square().mean(0).sqrt() < 0.1 * targets.std(0))
    deviation = (model.target_deviation * torch.exp(0.5 * log_variance[model.elite])).mean(dim=(0, 1))
    assert abs(deviation[0] / NOISE - 1) < 0.2 and torch.all(deviation[1:] < 0.2 * targets.std(0)[1:])
    sure = (clean[:, 0] + rows["seen"][:, 0] - 0.5).abs() > 4 * NOISE
    said = logit[model.elite].mean(0).sigmoid() > 0.5
    assert torch.equal(said[sure], rows["terminated"][sure] > 0.5) and 0 < said.float().mean() < 1


def test_samples_belong_to_their_rows_and_vary_as_the_system_does(model):
    rows = known(1000, seed=6)
    found = model.sample(rows["seen"], rows["action"], torch.Generator().manual_seed(0))
    assert torch.equal(found["seen"], rows["seen"]) and found["terminated"].max() <= 1
    assert float((found["reward"] - rows["reward"]).square().mean().sqrt()) < 0.1 * rows["reward"].std()
    noise = found["after"][:, 0] - rows["seen"][:, 0] - 0.2 * rows["action"][:, 0]
    assert abs(noise.std() / NOISE - 1) < 0.2 and abs(noise.mean()) < 0.2 * NOISE
    assert float((found["after"] - rows["after"])[:, 1].abs().mean()) < 0.02


def test_networks_differ_and_the_held_out_rows_are_not_learnt_from():
    model, asked = ensemble(model_passes=2), []
    rows = known(500)

    def spy(index):
        asked.append(index)
        return {name: x[index] for name, x in rows.items()}

    _, passes = model.fit(spy, 500, torch.Generator().manual_seed(0))
    first, *parts = asked
    assert passes == 2 and len(first) == 500
    assert all(torch.all(part % 5 != 0) for part in parts)
    for network in range(7):  # each row that is not held out once in each pass
        seen = torch.cat([part[network] for part in parts])
        assert torch.equal(torch.bincount(seen, minlength=500), 2 * (torch.arange(500) % 5 != 0))
    assert not torch.equal(parts[0][0], parts[0][1])


def test_the_elites_are_those_that_are_right():
    model, rows = ensemble(model_passes=1, model_rate=1e-9), known(500)
    matrix, bias = model.network.shapes[-2:]
    size = matrix[1] * matrix[2]
    start = model.network.flat.numel() - bias[0] * bias[2] - matrix[0] * size
    for wrong in (1, 4):
        model.network.flat.data[start + wrong * size : start + (wrong + 1) * size] *= 100
    fitted(model, rows)
    assert sorted(model.elite.tolist()) == [0, 2, 3, 5, 6]


def test_fitting_stops_when_it_no_longer_helps():
    model, rows = ensemble(model_passes=100, model_rate=1e-9), known(500)
    assert fitted(model, rows)[1] <= 6


def test_a_batch_is_real_by_a_twentieth():
    learner = MBPO(**SMALL).begin(make("pendulum-1"), 0)
    learner.update(0.0)
    batch = learner.draw(7)
    assert batch["after"].shape == (7, 40, learner.env.observation_size) and "jacobian" not in batch
    real = {tuple(x) for x in learner.memory.columns["after"][: len(learner.memory)].tolist()}
    for rows in batch["after"].tolist():
        assert [tuple(row) in real for row in rows] == [True, True] + [False] * 38


def test_rollouts_stop_where_they_terminate():
    learner = MBPO(**SMALL, lengths=(0.0, 1.0, 3, 3)).begin(make("pendulum-1"), 0)
    learner.simulate(20)
    networks, _, outputs = learner.model.network.shapes[-1]
    bias = learner.model.network.flat.data[-networks * outputs :].view(networks, outputs)
    counts = {}
    for logit in (-50.0, 50.0):
        bias[:, -1] = logit  # of termination
        before = learner.predicted.added
        learner.imagine(3)
        counts[logit] = learner.predicted.added - before
    assert counts == {-50.0: 150, 50.0: 50}


def test_rollouts_grow():
    method = MBPO(lengths=(0.2, 0.6, 1, 9))
    assert [method.length(p) for p in (0.0, 0.2, 0.4, 0.6, 1.0)] == [1, 1, 5, 9, 9]
