"""Reachability maps: f(pose) > 0 where the tip can be, and f is smooth."""

from __future__ import annotations

import dataclasses
import os

import numpy as np

from pullback.core.archives import read_arrays
from pullback.core.arrays import check_device, check_precision, to_numpy
from pullback.core.checks import check_number, check_path, check_seed, check_whole
from pullback.core.errors import PullbackError
from pullback.core.files import whole_file
from pullback.reach.launch import Evaluator
from pullback.reach.network import HIDDEN, LEAST_STEPS, STEPS, Network, fit_network
from pullback.reach.spaces import space as space_of
from pullback.reach.svm import ONE_CLASS, TWO_CLASSES, Settings, SupportVectors, fit_support_vectors

KINDS = {"svm": SupportVectors, "network": Network}
# What a file of a map begins with, so that other files are told from it; the number changes with the format.
FORMAT = "pullback reachability map 1"


class ReachabilityMap:
    """A function of poses that is positive where they can be reached, with its gradient.

    space:   "R2", "SO2", "SE2", "R3", "SO3" or "SE3"
    kind:    "svm" (scikit-learn; one class or two) or "network" (torch; two classes)
    gamma:   of the kernel exp(-gamma |difference of features|²) of an SVM [1/m²]; None: the default of the space
    nu:      bound on the share of samples on the wrong side of an SVM [1]; None: the default of the space
    centres: how many support vectors an SVM of two classes keeps; None: the default of the space
    reduce:  False: keep all, and their weights, as scikit-learn found them
    hidden:  units of the hidden layers of a network
    steps:   of its training, each on a random batch
    seed:    of its first weights and its batches, and of the choice of centres
    progress:  whether to show a bar, on a terminal
    dtype, device:  of the evaluation: "float64" or "float32"; "cpu", "cuda", ...

    As in scikit-learn, ``fit`` returns the map and ``decision_function`` is positive inside. Neither scikit-learn nor
    torch is needed once a map is fitted.
    """

    def __init__(
        self,
        space: str = "SE3",
        kind: str = "svm",
        *,
        gamma: float | None = None,
        nu: float | None = None,
        centres: int | None = None,
        reduce: bool = True,
        hidden: tuple[int, ...] = HIDDEN,
        steps: int = STEPS,
        seed: int = 0,
        progress: bool = True,
        dtype: str = "float64",
        device: str = "cpu",
    ):
        self.space = space_of(space)
        if not isinstance(kind, str) or kind not in KINDS:
            raise PullbackError(f"kind={kind!r} is not known: use {' or '.join(map(repr, KINDS))}")
        self.kind = kind
        self.gamma, self.nu, self.centres, self.reduce = gamma, nu, centres, reduce
        for name, number in (("gamma", gamma), ("nu", nu)):
            if number is not None:
                check_number(number, name)
        if nu is not None and nu >= 1:
            raise PullbackError(f"nu must be below 1, not {nu!r}")
        if centres is not None:
            check_whole(centres, "centres")
        if np.ndim(hidden) != 1 or not len(hidden):
            raise PullbackError(f"hidden must be the units of at least one layer, such as {HIDDEN}, not {hidden!r}")
        self.hidden = tuple(check_whole(units, "hidden units") for units in hidden)
        self.steps, self.seed, self.progress = check_whole(steps, "steps", LEAST_STEPS), check_seed(seed), progress
        self.dtype, self.device = check_precision(dtype), check_device(device)
        self.fitted = self._evaluator = None

    def __repr__(self) -> str:
        return f"ReachabilityMap({self.space.name!r}, {self.kind!r}, {'fitted' if self.fitted else 'not fitted'})"

    def fit(self, poses, reachable=None) -> ReachabilityMap:
        """Learn from poses (n, sample size) and whether each is reachable (n,); without that all of them are."""
        poses = self.space.check(poses)
        if len(poses) < 2:
            raise PullbackError(f"a map cannot be made of {len(poses)} poses: sample some thousands")
        labels = None if reachable is None else _labels(reachable, len(poses))
        features = self.space.features(poses)
        if self.kind == "svm":
            options = {"reduce": self.reduce, "seed": self.seed, "progress": self.progress}
            fitted = fit_support_vectors(features, labels, self._settings(labels), **options)
        elif labels is None:
            raise PullbackError("a network learns from both classes: fit(poses, reachable), or kind='svm' for one")
        else:
            options = {"hidden": self.hidden, "steps": self.steps, "seed": self.seed, "progress": self.progress}
            fitted = fit_network(features, labels, **options)
        self._hold(fitted)
        return self

    def _settings(self, labels: np.ndarray | None) -> Settings:
        """What was asked for, and the defaults of the space for the rest."""
        usual = (ONE_CLASS if labels is None else TWO_CLASSES)[self.space.name]
        asked = {"gamma": self.gamma, "nu": self.nu, "centres": self.centres}
        return dataclasses.replace(usual, **{name: value for name, value in asked.items() if value is not None})

    def _hold(self, fitted) -> None:
        self.fitted = fitted
        self._evaluator = Evaluator(*fitted.kernel(self.space), self.space, dtype=self.dtype, device=self.device)

    def _evaluate(self, poses, wants_gradient: bool):
        if self._evaluator is None:
            raise PullbackError("this map is not fitted: call fit(poses, reachable) or load one")
        return self._evaluator(self.space.check(poses), wants_gradient=wants_gradient)

    def decision_function(self, poses):
        """Values (n,) at poses (n, sample size): positive where they can be reached."""
        return self._evaluate(poses, wants_gradient=False)[0]

    def predict(self, poses):
        """Whether poses (n, sample size) can be reached (n,) bool."""
        return to_numpy(self.decision_function(poses)) > 0

    def evaluate(self, poses):
        """Values (n,) and gradients (n, tangent size) [1/m, 1/rad] at poses (n, sample size)."""
        return self._evaluate(poses, wants_gradient=True)

    def score(self, poses, reachable) -> float:
        """Intersection over union of what is and what is predicted to be reachable: TR / (TR + FR + FU)."""
        predicted = self.predict(poses)
        truth = _labels(reachable, len(predicted), both=False)
        either = np.sum(predicted | truth)
        if not either:
            raise PullbackError("none of these poses is reachable, nor predicted to be: there is nothing to score")
        return float(np.sum(predicted & truth) / either)

    def save(self, path: str | os.PathLike) -> None:
        """Write the map to an .npz file, which holds plain arrays and no pickles."""
        if self.fitted is None:
            raise PullbackError("this map is not fitted: there is nothing to save")
        arrays = self.fitted.arrays()
        with whole_file(path) as partial, open(partial, "wb") as file:
            np.savez_compressed(file, format=FORMAT, space=self.space.name, kind=self.kind, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike, *, dtype: str = "float64", device: str = "cpu") -> ReachabilityMap:
        """The map that was saved in a file."""
        path = check_path(path)
        if not path.is_file():
            raise PullbackError(f"there is no file {path}")
        try:
            arrays = read_arrays(path)
            if "format" not in arrays:
                raise ValueError("ReachabilityMap.save did not write it")
            if str(arrays["format"]) != FORMAT:
                raise ValueError(f"it says {arrays['format']}")
            name, kind = str(arrays["space"]), str(arrays["kind"])
            fitted = KINDS[kind].of_arrays(arrays, space_of(name))
            if not all(np.isfinite(x).all() for x in fitted.arrays().values()):
                raise ValueError("a number in it is not finite")
        except Exception as error:  # what unpacking a broken file raises, nobody has listed
            raise PullbackError(f"{path} is no reachability map: {error}") from None
        self = cls(name, kind, dtype=dtype, device=device)
        self._hold(fitted)
        return self


def _labels(reachable, n: int, *, both: bool = True) -> np.ndarray:
    """(n,) bool, of which some are true and some false if ``both`` are needed."""
    labels = to_numpy(reachable)
    if labels.shape != (n,) or labels.dtype.kind not in "biu":
        raise PullbackError(f"reachable must be (n,) = ({n},) booleans, not {labels.shape} {labels.dtype}")
    labels = labels > 0  # 1 and 0, or 1 and -1
    if both and labels.all():
        raise PullbackError("all poses are reachable: sample others too, or fit(poses) alone, with kind='svm'")
    if both and not labels.any():
        raise PullbackError("no pose is reachable: there is nothing to learn from")
    return labels
