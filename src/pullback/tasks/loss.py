"""What a loss gives, and losses that can be weighed and added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import to_numpy
from pullback.core.errors import PullbackError
from pullback.core.trees import is_state, leaves, tree_map
from pullback.plan import Expansion
from pullback.rollout import Run
from pullback.rollout.run import LAST, NONE, Cotangent
from pullback.tasks.residuals import Residuals


class Loss(NamedTuple):
    """A loss (worlds,) and its cotangents by field of the state, e.g. ``Loss(values, {"q_bar": ..., "v_bar": ...})``.

    Cotangents have the shapes that ``run.pullback`` takes: (steps + 1, worlds, n), or (worlds, n) for the last state.
    A loss that depends on the controls themselves, on effort say, also gives that cotangent (steps, worlds, nu). One
    that depends on parameters themselves, as the place of a hand does on the length of an arm, gives a function that
    returns cotangents by name, which is called if parameters are decision variables.
    """

    values: np.ndarray
    bars: Mapping[str, Any]
    controls_bar: np.ndarray | None = None
    params_bar: Callable[[], Mapping[str, np.ndarray]] | None = None


class Term:
    """A loss of a run that can be weighted and added to others: ``10 * Position("tip", goal) + 0.01 * Effort()``.

    A class of your own needs ``__call__(run)``, which returns a :class:`Loss`, and for iLQR ``expand(run)``.
    """

    __array_ufunc__ = None  # so that a NumPy number times a term is a term

    def __call__(self, run: Run) -> Loss:
        raise NotImplementedError

    def expand(self, run: Run) -> Expansion:
        """The loss around a trajectory in one world, for iLQR."""
        raise PullbackError(f"iLQR needs a loss to second order, which {type(self).__name__} does not have: use LBFGS")

    def __mul__(self, weight: float) -> Sum:
        return Sum(tuple((weight * own, part) for own, part in _parts(self)))

    __rmul__ = __mul__

    def __add__(self, other) -> Sum:
        return Sum((*_parts(self), *_parts(other)))

    def __radd__(self, other) -> Sum:
        if isinstance(other, int) and other == 0:  # the built-in sum begins there
            return Sum(_parts(self))
        return Sum((*_parts(other), *_parts(self)))


@dataclass(frozen=True)
class Sum(Term):
    """Losses of the same run, each with its weight. Parts are terms, or functions of a run that return a Loss."""

    parts: tuple[tuple[float, Callable[[Run], Loss | Residuals]], ...]

    def __post_init__(self):
        for weight, part in self.parts:
            if not np.isfinite(weight):
                raise PullbackError(f"the weight of {_name(part)} is {weight!r}, but must be a finite number")

    def __call__(self, run: Run) -> Loss:
        losses = [(weight, as_loss(part(run), run)) for weight, part in self.parts]
        values = sum(weight * np.asarray(one.values, dtype=float) for weight, one in losses)
        names = dict.fromkeys(name for _, one in losses for name in one.bars)
        bars = {
            name: _added(name, [(w, one.bars[name]) for w, one in losses if name in one.bars], run) for name in names
        }
        of_controls = [weight * to_numpy(one.controls_bar) for weight, one in losses if one.controls_bar is not None]
        direct = [(weight, one.params_bar) for weight, one in losses if one.params_bar is not None]

        def params_bar() -> dict[str, np.ndarray]:
            found = [(weight, bars_of()) for weight, bars_of in direct]
            every = dict.fromkeys(name for _, bars in found for name in bars)
            return {name: sum(weight * bars[name] for weight, bars in found if name in bars) for name in every}

        return Loss(values, bars, sum(of_controls) if of_controls else None, params_bar if direct else None)

    def expand(self, run: Run) -> Expansion:
        expansions = []
        for weight, part in self.parts:
            if not hasattr(part, "expand"):
                raise PullbackError(f"iLQR needs a loss to second order, which {_name(part)} does not have: use LBFGS")
            expansions.append([weight * field for field in part.expand(run)])
        return Expansion(*(sum(fields) for fields in zip(*expansions, strict=True)))

    def goals(self, run: Run):
        """The states that the first part with a goal for all of them wants: a sketch for iLQR."""
        for _, part in self.parts:
            if hasattr(part, "goals"):
                return part.goals(run)
        raise PullbackError("a sketch needs a goal for every state: make Tracking a part of the loss")


def checked_loss(found) -> Loss | Residuals:
    """What a loss function returned, if it is one of these."""
    if not isinstance(found, Loss | Residuals):
        raise PullbackError(
            "a loss must return Loss(values, bars), values (worlds,) and cotangents by name such as {'q_bar': ...}, or "
            f"Residuals, not {type(found).__name__}; TorchLoss and JaxLoss find the cotangents by themselves"
        )
    return found


def as_loss(found: Loss | Residuals, run: Run) -> Loss:
    """What a loss function returned as a Loss, with a cotangent of some field of the state."""
    if isinstance(found, Residuals):
        return Loss(found.losses(), found.bars(run))
    if found.bars:
        return found
    nothing = tree_map(lambda x: np.zeros(x.shape[1:]), run.states)
    return found._replace(bars={f"{nothing._fields[0]}_bar": nothing[0]})


def _parts(term) -> tuple:
    if isinstance(term, Sum):
        return term.parts
    if not callable(term):
        raise PullbackError(f"{term!r} is no loss: add terms such as Effort(), or functions of a run")
    return ((1.0, term),)


def _name(part) -> str:
    return type(part).__name__ if isinstance(part, Term) else getattr(part, "__name__", repr(part))


def _added(name: str, weighted: list[tuple[float, Any]], run: Run):
    """The weighted sum of cotangents of one field, each in any of the forms that ``run.pullback`` takes."""
    parts = [(weight, run.cotangents(name, bar)) for weight, bar in weighted]
    ends = all(bar.form in (NONE, LAST) for _, bars in parts for bar in (leaves(bars) if is_state(bars) else [bars]))

    def rows(weight: float, bar: Cotangent, kept) -> np.ndarray:
        return weight * (run.last_bar(bar, kept) if ends else run.every_bar(bar, kept))

    kept = getattr(run.states, name.removesuffix("_bar"))
    if not is_state(kept):
        return sum(rows(weight, bar, kept) for weight, bar in parts)
    summed = [tree_map(partial(rows, weight), bars, kept) for weight, bars in parts]
    return tree_map(lambda *each: sum(each), *summed)
