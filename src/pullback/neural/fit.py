"""Fitting of physical parameters and weights together to measured motions, by shooting over windows that grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pullback.core.arrays import to_numbers, to_numpy
from pullback.core.checks import check_kind, check_number, check_seed, check_whole, shown
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.system import System
from pullback.core.trees import leaves, row, tree_map
from pullback.core.wrapper import Wrapper
from pullback.neural.hybrid import weights_of
from pullback.neural.recording import Recording, Windows, cut
from pullback.neural.unknowns import Unknowns
from pullback.plan import LBFGS, Estimate, Found, GaussNewton, Method, Progress, estimate, minimise
from pullback.rollout import Run, rollout

# The most variables for which Gauss-Newton is the default: its matrix has as many rows and columns.
GAUSS_NEWTON_UP_TO = 800
# The most windows per stage; of more, evenly spaced ones are used.
MOST_WINDOWS = 256


@dataclass(frozen=True)
class Fit:
    """The result of a fit.

    system:    the System with the fitted parameters
    physics:   estimates of the physical parameters with confidence intervals, or None if there were none
    stages:    the progress for each length of windows; its metric is the error on held-out windows
    lengths:   rows of the windows of each stage
    errors:    root mean square of the residuals over the longest windows, in units of the noise: before and after, on
               fitted and on held-out windows
    """

    system: System
    physics: Estimate | None
    stages: tuple[Progress, ...]
    lengths: tuple[int, ...]
    errors: dict[str, float]

    def __str__(self) -> str:
        lines = [f"{name:<20}{value:.4g}" for name, value in self.errors.items()]
        return "\n".join([*lines, *([self.physics.table()] if self.physics else [])])


def fit(
    system: System,
    recordings: Recording | Sequence[Recording],
    *,
    physics: Mapping[str, Any] | None = None,
    weights: Sequence[str] | None = None,
    windows: Sequence[int] = (5, 20),
    noise: Any = None,
    held_out: float = 0.2,
    penalty: float = 1e-6,
    method: Method | None = None,
    iterations: int = 60,
    patience: int = 10,
    most_windows: int = MOST_WINDOWS,
    confidence: float = 0.95,
    seed: int = 0,
    checkpoint: Path | str | None = None,
    watch: Callable[[int, Progress], None] | None = None,
) -> Fit:
    """Fits weights and physical parameters together, so that motions from recorded states follow the recordings.

    Each window starts in a recorded state and is compared with all of its later rows, in the tangent space, in units
    of the noise. Windows grow from stage to stage: short ones are easy to follow, long ones show slow effects. Each
    stage keeps the variables with the smallest error on held-out data, and stops when that no longer improves.

    system:       with one world; with or without networks
    recordings:   of its motions: see :class:`Recording`
    physics:      by label, a parameter and the entries that share a factor, {"mass": ("mass", 1)}, or a list of such
                  pairs. Entries that are all zero share an offset instead, as do ("com", 1, "sum")
    weights:      names of parameters that are fitted entry by entry; None: the weights of all networks
    windows:      rows of the windows, stage by stage
    noise:        standard deviation of each entry of the tangent (n,), [dq; dv] of a robot, or one number; None: the
                  standard deviation of each over the recordings
    held_out:     fraction of the recordings, or of a single recording's rows, that is held out
    penalty:      factor of half the sum of the squared weights, which is added to half the mean square of the residuals
    method:       None: Gauss-Newton if the System has Jacobians and there are few variables, else LBFGS
    iterations:   the most per stage
    patience:     stops a stage after this many iterations without a smaller held-out error
    most_windows: the most windows per stage
    confidence:   of the intervals of physical parameters, which allow for all weights to vary; None are given if there
                  are fewer windows than parameters
    checkpoint:   a path prefix for one file per stage. A killed fit that gets it again continues with the same bits
    watch:        called with the stage and its progress after every iteration
    """
    check_kind(system, System, "system", "neural.Residual(system, (32, 32))")
    if system.worlds != 1:
        raise PullbackError(f"the System of a fit has one world, not {system.worlds}")
    recordings = [recordings] if isinstance(recordings, Recording) else list(recordings)
    for recording in recordings:
        check_kind(recording, Recording, "a recording", "neural.Recording(pb.State(q, v), controls)")
    if not recordings:
        raise PullbackError("give at least one recording")
    lengths = tuple(check_whole(n, "a window") for n in ([windows] if isinstance(windows, int) else windows))
    held_out = check_number(held_out, "held_out", above=None, least=0.0)
    if not lengths or held_out >= 1:
        raise PullbackError(f"windows are lengths and held_out a share below one, not {windows!r} and {held_out!r}")
    penalty, seed = check_number(penalty, "penalty", least=0.0), check_seed(seed)

    given = [recording.fitted(plain_of(system)) for recording in recordings]
    hold = given[0][2]
    if odd := [r.name for r, (_, _, other) in zip(recordings, given, strict=True) if other != hold]:
        raise PullbackError(f"{odd[0]} has another rate than {recordings[0].name}: fit recordings of one rate")
    motions = [with_memory(system, *each) for each in given]
    known, unseen = _split(motions, held_out, seed)
    if hasattr(system, "calibrated") and system.ranges is None:
        before = [tree_map(lambda x: x[:-1], states) for states, _ in known]
        joined = tree_map(lambda *x: np.concatenate(x)[:, None], *before)
        system = system.calibrated(joined, np.concatenate([controls for _, controls in known])[:, None])
    unknowns = Unknowns(system, physics, tuple(weights_of(system) if weights is None else weights))
    scale = _scale(system, known, noise)
    if method is None:
        few = system.has_jacobians and len(unknowns.first) <= GAUSS_NEWTON_UP_TO
        method = GaussNewton(tolerance=1e-6) if few else LBFGS()

    x, stages, problem, problems = unknowns.first, [], None, []
    for stage, length in enumerate(lengths):
        training, held = (cut(part, length, most_windows) for part in (known, unseen))
        if training is None:
            longest = max(len(controls) for _, controls in known)
            raise PullbackError(f"a window of {length} rows is longer than every recording: the longest has {longest}")
        problem = WindowLoss(system, unknowns, training, held, hold, 1.0 / scale, penalty)
        problems.append(problem)
        file = None if checkpoint is None else Path(f"{checkpoint}.{stage}.npz")
        report = None if watch is None else (lambda progress, stage=stage: watch(stage, progress))
        low, high = unknowns.bounds()
        options = {
            "low": low,
            "high": high,
            "iterations": iterations,
            "patience": patience,
            "seed": seed,
            "by_metric": held is not None,
        }
        stages.append(minimise(problem, x, method, checkpoint=file, watch=report, **options))
        x = stages[-1].x
    fitted = system.in_worlds(1)
    for name, value in unknowns.params(x).items():
        fitted.params[name] = value
    errors = {}
    for when, point in (("before", unknowns.first), ("after", x)):
        errors[f"fitted, {when}"], errors[f"held out, {when}"] = problem.errors(point)
    known_physics = problem.estimate(x, confidence) if unknowns.count else None
    return Fit(fitted, known_physics, tuple(stages), lengths, errors)


class WindowLoss:
    """Half the mean square of the residuals of windows, and ``penalty`` times half the sum of the squared weights: a
    :class:`~pullback.plan.Problem`. Its metric is the root mean square over held-out windows.

    inverse:  (n,) one over the noise of each entry of the tangent; zero for entries that were not recorded
    """

    def __init__(
        self,
        system: System,
        unknowns: Unknowns,
        training: Windows,
        held: Windows | None,
        hold: int,
        inverse: np.ndarray,
        penalty: float,
    ):
        self.unknowns, self.hold, self.inverse, self.penalty = unknowns, hold, inverse, penalty
        self.training, self.held = training, held
        self.wide = {id(w): system.in_worlds(w.worlds) for w in (training, held) if w is not None}
        self.count = training.worlds * len(training.controls) * int(np.count_nonzero(inverse))
        self.penalties = np.where(np.arange(len(unknowns.first)) < unknowns.count, 0.0, penalty)

    def __call__(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False) -> Found:
        found = [self._at(x, wants_gradients or wants_curvature, wants_curvature) for x in points]
        losses, gradients, metrics, curvatures, reasons = zip(*found, strict=True)
        return Found(
            np.array(losses),
            np.stack(gradients) if wants_gradients or wants_curvature else None,
            np.array(metrics),
            np.stack(curvatures) if wants_curvature else None,
            reason=reasons[0],
        )

    def run(self, x: np.ndarray, windows: Windows) -> Run:
        """The windows simulated from their recorded initial states."""
        system, options = self.wide[id(windows)], {"params": self.unknowns.params(x), "hold": self.hold}
        return rollout(system, row(windows.states, 0), windows.controls, on_failure="mask", **options)

    def residuals(self, run: Run, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Differences (rows, worlds, n) of the states after the first from the recorded ones, and in units of noise."""
        later = slice(1, None)
        apart = run.system.difference(row(windows.states, later), row(run.states, later), leading=2)
        return apart, apart * self.inverse

    def _at(self, x: np.ndarray, wants_gradient: bool, wants_curvature: bool):
        nothing = np.full(len(x), np.nan), np.inf, np.full((len(x), len(x)), np.nan)
        try:
            run = self.run(x, self.training)
            if np.any(run.status.failed):
                return np.inf, *nothing, next(iter(run.status.reasons.values()))
            apart, residuals = self.residuals(run, self.training)
            loss = float(np.sum(residuals**2)) / (2 * self.count) + float(self.penalties @ x**2) / 2
            gradient = curvature = None
            if wants_curvature:
                gradients, curvature = self._least_squares(x, run, apart, residuals)
                gradient, curvature = (
                    gradients.sum(axis=0) / self.count,
                    curvature / self.count + np.diag(self.penalties),
                )
            elif wants_gradient:
                gradient = self._gradient(x, run, apart, residuals) / self.count
            if gradient is not None:
                gradient = gradient + self.penalties * x
            return loss, gradient, self.held_error(x, loss), curvature, ""
        except PullbackError as error:  # an invalid point, such as a negative friction
            return np.inf, *nothing, str(error)

    def held_error(self, x: np.ndarray, loss: float) -> float:
        """The metric: the error on held-out windows, or on the fitted ones if none are held out."""
        if self.held is None:
            return float(np.sqrt(2 * loss))
        return self.error(x, self.held)

    def error(self, x: np.ndarray, windows: Windows) -> float:
        """Root mean square of the residuals; infinite if a window fails."""
        run = self.run(x, windows)
        if np.any(run.status.failed):
            return np.inf
        residuals = self.residuals(run, windows)[1]
        return float(np.sqrt(np.mean(residuals[..., self.inverse > 0] ** 2)))

    def errors(self, x: np.ndarray) -> tuple[float, float]:
        """The errors on fitted and on held-out windows."""
        return self.error(x, self.training), np.nan if self.held is None else self.error(x, self.held)

    def _gradient(self, x, run: Run, apart: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """The gradient of half the sum of squared residuals, by one pullback."""
        by_end = run.system.difference_jacobian(apart)
        tangent_bar = np.einsum("twij,twi->twj", by_end, residuals * self.inverse)
        states = tree_map(to_numpy, run.states)
        bars = run.system.state_bar(states, np.concatenate([np.zeros_like(tangent_bar[:1]), tangent_bar]))
        pulled = run.pullback(**{f"{name}_bar": bar for name, bar in bars._asdict().items()})
        if np.any(overflown := pulled.status.failed & ~run.status.failed):
            raise GradientOverflow(pulled.status.reasons[int(np.argmax(overflown))])
        return self.unknowns.pull(x, pulled.params)

    def _least_squares(self, x, run: Run, apart: np.ndarray, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Jᵀr of every window (worlds, n), and JᵀJ of all, from sensitivities S' = A S + P along the windows."""
        by_end = run.system.difference_jacobian(apart) * self.inverse[:, None]
        every = run.timesteps()
        gradients, curvature = np.zeros((run.system.worlds, len(x))), np.zeros((len(x), len(x)))
        moved = np.zeros((run.system.worlds, apart.shape[-1], len(x)))
        for part in run.system.jacobians(every.states, every.controls, run.params, self.unknowns.names):
            driven = self.unknowns.pull(x, part.params)
            for t in range(len(part.A)):
                moved = part.A[t] @ moved + driven[t]
                step = part.first + t + 1
                if step % self.hold == 0:
                    at = step // self.hold - 1
                    jacobian = by_end[at] @ moved
                    gradients += np.einsum("wm,wmn->wn", residuals[at], jacobian)
                    rows = jacobian.reshape(-1, len(x))
                    curvature += rows.T @ rows
        if not (np.all(np.isfinite(gradients)) and np.all(np.isfinite(curvature))):
            raise GradientOverflow("sensitivities grew beyond the precision: use shorter windows")
        return gradients, curvature

    def estimate(self, x: np.ndarray, confidence: float) -> Estimate | None:
        """Estimates of the physical parameters, with all weights free to vary too.

        The residuals of a window share the noise of its initial state, so only different windows are independent. With
        g the gradient of each window, the covariance is H⁻¹ (Σ g gᵀ) H⁻¹ (Huber, 1967), not noise² H⁻¹.
        """
        windows, n = self.training.worlds, self.unknowns.count
        if not self.wide[id(self.training)].has_jacobians or windows <= n + 1:
            return None
        run = self.run(x, self.training)
        if np.any(run.status.failed):
            return None
        apart, residuals = self.residuals(run, self.training)
        gradients, curvature = self._least_squares(x, run, apart, residuals)
        inverse = np.linalg.pinv(curvature + np.diag(self.penalties * self.count), rcond=1e-14, hermitian=True)[:n]
        spread = inverse @ (gradients - gradients.mean(axis=0)).T  # of physics, by every window
        covariance = spread @ spread.T * windows / (windows - 1)
        noise = float(np.sum(residuals**2)) / max(self.count - len(x), 1)
        known = noise * np.linalg.pinv(covariance, rcond=1e-14, hermitian=True)
        options = {"labels": self.unknowns.labels, "natural": self.unknowns.natural, "confidence": confidence}
        return estimate(x[:n], noise * (windows - n) / 2, known, windows, **options)


def plain_of(system: System) -> System:
    """The System inside all networks, whose states are recorded."""
    while isinstance(system, Wrapper):
        system = system.system
    return system


def with_memory(system: System, states, controls: np.ndarray, hold: int):
    """Recorded states (rows, ...) with the memory that the System would have in each, and the controls after them.

    It starts at the first row whose memory is known.
    """
    if not hasattr(system, "recorded"):
        return states, controls
    states = system.recorded(states, controls, hold)
    return states, controls[len(controls) + 1 - len(leaves(states)[0]) :]


def _split(motions: list, share: float, seed: int) -> tuple[list, list]:
    """The motions to fit, and those to hold out: some recordings, or the end of a single one."""
    if not share:
        return motions, []
    if len(motions) == 1:
        states, controls = motions[0]
        at = len(controls) - max(1, round(share * len(controls)))
        if at < 1:
            raise PullbackError(f"a recording of {len(controls) + 1} rows is too short to hold out a share of it")
        known = tree_map(lambda x: x[: at + 1], states), controls[:at]
        return [known], [(tree_map(lambda x: x[at:], states), controls[at:])]
    count = min(max(1, round(share * len(motions))), len(motions) - 1)
    chosen = set(np.random.default_rng(seed).permutation(len(motions))[:count].tolist())
    parts = [[m for i, m in enumerate(motions) if (i in chosen) == wanted] for wanted in (False, True)]
    return parts[0], parts[1]


def _scale(system: System, motions: list, noise) -> np.ndarray:
    """The noise (n,) of the tangent's entries; infinite for those that were not recorded."""
    plain = plain_of(system)
    start = row(motions[0][0], slice(0, 1))
    total, size = (s.difference(x, x).shape[-1] for s, x in ((system, start), (plain, _inner(system, start))))
    if noise is None:
        moved = np.concatenate([plain.difference(_repeated(_inner(system, s)), _inner(system, s)) for s, _ in motions])
        moved = np.where(np.isfinite(moved), moved, 0.0)
        scale = np.maximum(np.std(moved, axis=0), 0.0)
        scale = np.where(scale > 0, scale, 1.0)
    else:
        scale = to_numbers(noise, "noise").astype(float)
        if scale.shape not in ((), (size,)) or not np.all(scale > 0):
            raise PullbackError(f"noise must be positive: one number or ({size},), not {shown(noise)}")
        scale = np.broadcast_to(scale, size)
    return np.concatenate([scale, np.full(total - size, np.inf)])


def _inner(system: System, states):
    """The states of the System inside all networks."""
    while isinstance(system, Wrapper):
        states, system = system._split(states)[0] if hasattr(system, "_split") else states, system.system
    return states


def _repeated(states):
    """The first state, repeated for all rows."""
    return tree_map(lambda x: np.broadcast_to(x[:1], x.shape), states)
