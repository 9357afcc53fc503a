"""A named problem: a System, its initial state, decision variables, a loss, and a metric with its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, partial, wraps
from typing import Any, NamedTuple

import numpy as np

from pullback.core.arrays import checked, to_numbers, to_numpy
from pullback.core.bars import Bars
from pullback.core.checks import check_kind
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.renamed import renamed
from pullback.core.system import System
from pullback.core.trees import is_state, leaves, tree_map
from pullback.plan import LBFGS, Estimate, Expansion, Found, Linearisation, Method, QuadraticLoss, estimate
from pullback.rollout import Run, rollout
from pullback.tasks.linearised import linearised
from pullback.tasks.loss import Loss, as_loss, checked_loss
from pullback.tasks.residuals import Residuals, by_world
from pullback.tasks.variables import Variables


class Curves(NamedTuple):
    """Curves to plot of a solution: named ``values`` (n,) over x (n,)."""

    name: str  # of the picture
    x: np.ndarray
    values: Mapping[str, np.ndarray]
    xlabel: str
    ylabel: str


@dataclass(frozen=True)
class Camera:
    """Where a picture is taken from [m], and what it looks at."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self):
        for name in ("eye", "target"):
            checked(getattr(self, name), (3,), "float64", f"{name} of a Camera", ("axis",))


class Origin(NamedTuple):
    """The call that made a task, and those of its fields that are functions written inside the one that was called."""

    make: Callable
    args: tuple
    options: dict
    functions: dict[str, Callable]


def task_factory(make):
    """Decorates a function that makes tasks whose losses are functions inside it, which pickle cannot find.

    Such a task pickles as its other fields and the call that made it.
    """

    @wraps(make)
    def made(*args, **options):
        task = make(*args, **options)
        values = {one.name: getattr(task, one.name) for one in fields(task)}
        functions = {name: x for name, x in values.items() if "<locals>" in getattr(x, "__qualname__", "")}
        return replace(task, origin=Origin(made, args, options, functions))

    return made


class FromFactory:
    """What :func:`task_factory` needs of a dataclass: a field ``origin``."""

    def __reduce__(self):
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        origin = held.pop("origin")
        if "start" in held:  # which may be on a GPU
            held["start"] = tree_map(to_numpy, held["start"])
        if origin is None:
            return _remake, (type(self), None, held)
        held = {name: x for name, x in held.items() if x is not origin.functions.get(name, origin)}
        return _remake, (type(self), origin[:3], held)


def _remake(kind: type, call: tuple | None, held: dict):
    if call is None:
        return kind(**held)
    make, args, options = call
    return replace(make(*args, **options), **held)


@renamed(figure="metric", judged="evaluate_at_end")
@dataclass(frozen=True, kw_only=True)
class Task(FromFactory):
    """A System, an initial state, decision variables, a loss, and a metric that decides when the task is solved.

    name, about:  of the task; ``about`` in one line
    system:       with one world
    start:        its initial state; or several, (motions, ...), for trajectories with the same variables, whose losses
                  are added
    find:         the decision variables: :class:`Controls`, :class:`InitialState`, :class:`Parameters`, ...
    loss:         of a run: a weighted sum of terms such as :class:`Position` and :class:`Effort`; a torch or JAX
                  function by :class:`TorchLoss` or :class:`JaxLoss`; or a function that returns a :class:`Loss` or
                  :class:`Residuals`. Runs may have several worlds
    metric:       of a run, (worlds,): the error, in ``unit``; the worst trajectory counts
    target:       the task is solved if the metric is at most this
    evaluate_at_end: the metric is evaluated at the end only and does not stop the optimisation, e.g. if it needs the
                  true solution
    truth:        true values of the variables, (n,), if known, for comparison with an estimate
    method:       the recommended method
    iterations:   maximum number of iterations
    easier:       tasks to solve before this one, each from the solution of the one before: see :func:`solve`
    until_solved: as an easier task, stop as soon as the metric reaches the target
    baseline:     a method without gradients, tuned to this task, for comparison
    camera:       for pictures
    ghost:        coordinates (nq,) of the goal, drawn translucent
    checkpoint_every: which states a run keeps, as for :func:`pb.rollout`; loss and metric see no others
    curves:       a function of the run of the solution that returns curves to plot
    origin:       set by :func:`task_factory`
    """

    name: str
    about: str
    system: System
    start: Any
    find: Variables
    loss: Callable[[Run], Loss | Residuals]
    metric: Callable[[Run], np.ndarray]
    target: float
    unit: str = ""
    evaluate_at_end: bool = False
    truth: np.ndarray | None = None
    method: Method = field(default_factory=LBFGS)
    iterations: int = 100
    easier: tuple[Task, ...] = ()
    until_solved: bool = False
    baseline: Method | None = None
    baseline_iterations: int = 500
    camera: Camera | None = None
    ghost: np.ndarray | None = None
    checkpoint_every: int = 1
    curves: Callable[[Run], list[Curves]] | None = None
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __post_init__(self):
        check_kind(self.system, System, "system of a task", "pb.Articulated(model)")
        check_kind(self.find, Variables, "find of a task", "Controls(steps)")
        check_kind(self.method, Method, "method of a task", "LBFGS()")
        if not is_state(self.start) or any(np.ndim(to_numpy(leaf)) < 1 for leaf in leaves(self.start)):
            raise PullbackError("start of a task must be a state: make one with system.state(...)")
        if self.system.worlds != 1:
            raise PullbackError(f"the System of a task has one world, not {self.system.worlds}")
        system = self.system
        # Systems of a few worlds are asked for again and again, and take longer to make than to step.
        made = cache(lambda worlds: system if worlds == 1 else system.in_worlds(worlds))
        object.__setattr__(self, "in_worlds", made)

    def begin(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first guess and the bounds of the variables, (n,) each."""
        return self.find.begin(self.system)

    @property
    def motions(self) -> int:
        """How many trajectories a point has."""
        return len(leaves(self.start)[0])

    def start_in(self, copies: int):
        """The initial states of so many copies."""
        return tree_map(lambda x: np.concatenate([to_numpy(x)] * copies), self.start)

    def starting(self, state) -> Task:
        """The same task from another state."""
        return self.but(start=state)

    def window(self, state, steps: int) -> Task:
        """The same task, which finds Controls, from another state and over so many steps."""
        return self.but(start=state, find=replace(self.find, steps=steps, start=0.0))

    def but(self, **changes) -> Task:
        """The same task with other fields; copies of the System are shared if it stays the same."""
        task = replace(self, **changes)
        if task.system is self.system:
            object.__setattr__(task, "in_worlds", self.in_worlds)
        return task

    def part(self, motions: slice) -> Task:
        """The same task with some of its trajectories: losses and gradients of parts add up to those of all."""
        if not hasattr(self.loss, "part"):
            raise PullbackError(
                f"the loss of {self.name!r} cannot be divided by trajectories: it needs a method part(motions), which "
                "pullback.tasks.Recording has"
            )
        start = tree_map(lambda x: to_numpy(x)[motions], self.start)
        return self.but(start=start, find=self.find.part(motions), loss=self.loss.part(motions))

    def run(self, points: np.ndarray) -> Run:
        """The trajectories of points (n,) or (k, n): k · motions worlds, those of a point side by side."""
        return self._run(self._points(points))

    def _run(self, points: np.ndarray, **options) -> Run:
        system = self.in_worlds(len(points) * self.motions)
        each = self._each(points)
        start = self.find.initial_states(system, self.start_in(len(points)), each)
        controls, params = self.find.decode(system, each)
        options |= {"checkpoint_every": self.checkpoint_every, "inputs": self.find.inputs(system, each) or None}
        return rollout(system, start, controls, params=params or None, **options)

    @cached_property
    def _size(self) -> int:
        return len(self.begin()[0])

    def _points(self, points) -> np.ndarray:
        """Points (n,) or (k, n) as (k, n)."""
        given = to_numbers(points, "points").astype(float)
        if given.ndim not in (1, 2) or given.shape[-1] != self._size or not len(given):
            raise PullbackError(f"points have shape {given.shape}, but (n={self._size},) or (k, n) is needed")
        return np.atleast_2d(given)

    def _each(self, points: np.ndarray) -> np.ndarray:
        """Points (k, n) for every trajectory."""
        return np.repeat(points, self.motions, axis=0)

    def _by_point(self, x: np.ndarray) -> np.ndarray:
        """(k · motions, ...) as (k, motions, ...)."""
        x = np.asarray(x, dtype=float)
        return x.reshape(-1, self.motions, *x.shape[1:])

    def __call__(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False) -> Found:
        """Losses, gradients and metrics of points (k, n)."""
        found = self.simulated(points, wants_gradients, wants_curvature)
        return found if found.pull is None else found.pull()

    def simulated(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool = False) -> Found:
        """The same with gradients left for later: what :func:`pullback.plan.minimise` asks for."""
        points, wanted = self._points(points), (wants_gradients, wants_curvature)
        try:
            return self._simulated(points, *wanted)
        except PullbackError as error:
            return self._without(error, points, *wanted)

    def _simulated(self, points: np.ndarray, wants_gradients: bool, wants_curvature: bool) -> Found:
        run = self._run(points, on_failure="mask")
        failed = self._by_point(run.status.failed).any(axis=1)
        if np.all(failed):
            return _nothing(points, wants_gradients, wants_curvature, next(iter(run.status.reasons.values())))
        with np.errstate(**{"all": "ignore"} if np.any(failed) else {}):  # what led to failure may be huge
            loss = checked_loss(self.loss(run))
            losses, metrics = (np.where(failed, np.inf, x) for x in (self._losses(run, loss), self._metrics(run)))
        if wants_curvature and not isinstance(loss, Residuals):
            raise PullbackError("Gauss-Newton needs a task whose loss gives Residuals: use another method")

        def pull() -> Found:
            try:
                gradients, curvatures = (self._least_squares if wants_curvature else self._shooting)(points, run, loss)
            except PullbackError as error:
                return self._without(error, points, wants_gradients, wants_curvature)
            gradients[failed] = np.nan
            return Found(losses, gradients, metrics, curvatures)

        return Found(losses, None, metrics, pull=pull if wants_gradients or wants_curvature else None)

    def _without(self, error: PullbackError, points: np.ndarray, wants_gradients: bool, wants_curvature: bool) -> Found:
        """What there is to say of the other points, where an error names the worlds that were refused or have failed.

        An error that names no world is one of the task.
        """
        others = ~np.isin(np.arange(len(points)), np.array(error.worlds, dtype=int) // self.motions)
        if np.all(others):
            raise error
        found = _nothing(points, wants_gradients, wants_curvature, str(error))
        if np.any(others):
            part = self(points[others], wants_gradients, wants_curvature)
            for name in ("losses", "gradients", "metrics", "curvatures"):
                if getattr(found, name) is not None:
                    getattr(found, name)[others] = getattr(part, name)
        return found

    def _losses(self, run: Run, loss: Loss | Residuals) -> np.ndarray:
        values = loss.losses() if isinstance(loss, Residuals) else _per_world(loss.values, run, "loss")
        return self._by_point(values).sum(axis=1)

    def _metrics(self, run: Run) -> np.ndarray:
        return self._by_point(_per_world(self.metric(run), run, "metric")).max(axis=1)

    def bars(self, run: Run) -> Mapping[str, Any]:
        """The cotangents of the loss by the states of a run, as ``run.pullback`` takes them."""
        return as_loss(self.loss(run), run).bars

    def _shooting(self, points: np.ndarray, run: Run, loss: Loss | Residuals) -> tuple[np.ndarray, None]:
        """Gradients (k, n), and no curvatures."""
        loss = as_loss(loss, run)
        pulled = self._pulled(run, loss.bars)
        if loss.controls_bar is not None:
            pulled = replace(pulled, control=to_numpy(pulled.control) + to_numpy(loss.controls_bar))
        if loss.params_bar is not None and self.find.wants_params:
            direct = loss.params_bar()
            pulled = replace(pulled, params={name: bar + direct.get(name, 0.0) for name, bar in pulled.params.items()})
        return self._by_point(self.find.pull(run.system, self._each(points), pulled)).sum(axis=1), None

    def _pulled(self, run: Run, bars: Mapping[str, Any]) -> Bars:
        """The cotangents of what went into a run; an error where those of a world that went well are not finite."""
        pulled = run.pullback(**bars, wants_params=self.find.wants_params)
        if run.status is not None and np.any(overflown := pulled.status.failed & ~run.status.failed):
            worlds = np.flatnonzero(overflown)
            raise GradientOverflow(pulled.status.reasons[int(worlds[0])], worlds=worlds)
        return pulled

    def _least_squares(self, points: np.ndarray, run: Run, residuals: Residuals) -> tuple[np.ndarray, np.ndarray]:
        """Gradients (k, n) and curvatures (k, n, n), both from the Jacobian of the residuals."""
        jacobians = self._jacobians(points, run, residuals)  # (k · motions, m, n)
        gradients = self._by_point(np.einsum("wm,wmn->wn", by_world(residuals.values), jacobians)).sum(axis=1)
        curvatures = self._by_point(jacobians.transpose(0, 2, 1) @ jacobians).sum(axis=1)
        return gradients, curvatures

    def _jacobians(self, points: np.ndarray, run: Run, residuals: Residuals) -> np.ndarray:
        """Of the residuals by the variables (k · motions, m, n), in the way that takes the fewest trajectories."""
        system, rows = run.system, residuals.values.shape[0] * residuals.values.shape[2]
        # A push costs a pullback per number of the tangent; differences take two trajectories per variable.
        most = system.difference(run.final, run.final).shape[-1] if system.has_jacobians else points.shape[1]
        if rows < most:
            pulled = (self._pulled(run, one.bars(run)) for one in residuals.each())
            return np.stack([self.find.pull(system, self._each(points), bars) for bars in pulled], axis=1)
        if system.has_jacobians:
            return residuals.by_variables(run.pushforward(**self.find.push(system, self._each(points))))
        return np.concatenate([self._differences(number, point) for number, point in enumerate(points)])

    def linearise(self, x: np.ndarray) -> Linearisation:
        """The loss around a point x (n,), for :class:`~pullback.plan.MatrixFreeGaussNewton`.

        It must be :class:`Residuals`, or, of one trajectory, terms that iLQR could minimise.
        """
        points = self._points(x)
        run = self._run(points)
        if isinstance(self.loss, QuadraticLoss) and self.motions == 1:
            loss = float(self.loss(run).values[0])
            found = Expansion(*(part[:, None] for part in self.loss.expand(run)))
        else:
            residuals = checked_loss(self.loss(run))
            if not isinstance(residuals, Residuals):
                raise PullbackError(
                    "matrix-free Gauss-Newton needs a loss that gives Residuals or is made of terms such as StateGoal: "
                    "use another method"
                )
            if not run.system.has_jacobians:  # a matrix of differences, which is small where there is one
                jacobian = np.concatenate(list(self._jacobians(points, run, residuals)))
                rows = by_world(residuals.values).ravel()
                return Linearisation.of(rows, lambda d: jacobian @ d, lambda r_bar: r_bar @ jacobian)
            loss, found = float(residuals.losses().sum()), residuals.expand(run)
        return linearised(run, self.find.push(run.system, self._each(points)), loss, found)

    def _differences(self, number: int, x: np.ndarray) -> np.ndarray:
        """The same at one point, (motions, m, n): central differences of 2n points, run side by side."""
        _, low, high = self.begin()
        move = np.finfo(self.system.dtype).eps ** (1 / 3) * np.maximum(1, np.abs(x))
        up, down = np.minimum(x + move, high), np.maximum(x - move, low)
        count = len(x)
        beside = np.tile(x, (2 * count, 1))
        beside[np.arange(2 * count), np.tile(np.arange(count), 2)] = np.concatenate([up, down])
        try:
            values = by_world(self.loss(self.run(beside)).values)  # (2n · motions, m)
        except PullbackError as error:
            message = f"there are no differences beside a point: {error}"
            raise GradientOverflow(message, world=number * self.motions) from None
        above, below = values.reshape(2, count, self.motions, -1)
        wide = np.where(up > down, up - down, np.inf)  # a variable that its bounds hold moves nothing
        return ((above - below) / wide[:, None, None]).transpose(1, 2, 0)

    def estimate(self, x: np.ndarray, **options) -> Estimate:
        """How well the variables are known at a minimum x (n,) of a loss that is :class:`Residuals`."""
        x = np.asarray(x, dtype=float)
        found = self(x[None], True, True)
        if not np.isfinite(found.losses[0]):
            raise PullbackError("there is no estimate where the trajectory cannot be simulated")
        count = self.loss(self.run(x)).count
        labels = self.find.labels(self.system)
        natural = partial(self.find.natural, self.system)
        return estimate(x, found.losses[0], found.curvatures[0], count, labels=labels, natural=natural, **options)


def _nothing(points: np.ndarray, wants_gradients: bool, wants_curvature: bool, reason: str) -> Found:
    """Of points (k, n) that cannot be evaluated."""
    count, size = points.shape
    gradients = np.full((count, size), np.nan) if wants_gradients or wants_curvature else None
    curvatures = np.full((count, size, size), np.nan) if wants_curvature else None
    return Found(np.full(count, np.inf), gradients, np.full(count, np.inf), curvatures, reason=reason)


def _per_world(values, run: Run, name: str) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.shape != (run.system.worlds,):
        raise TypeError(
            f"{name} of a task must give one number per world, shape ({run.system.worlds},), not shape {values.shape}"
        )
    return values
