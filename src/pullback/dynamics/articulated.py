"""Articulated bodies as a System."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp

from pullback.contact import CONTACT_NAMES, Contact, ContactConvex, ContactPoints, Far, Scene
from pullback.contact.checks import refuse_unsupported
from pullback.core.arrays import (
    as_reals,
    check_device,
    check_precision,
    checked,
    empty,
    from_device,
    require_space,
    to_device,
    to_numbers,
    to_numpy,
    zeros,
)
from pullback.core.bars import Bars, Named, of_one_step, refuse_overflow
from pullback.core.checks import check_whole
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.kernel_system import KernelSystem
from pullback.core.launch import Crew, Recorder, cores_to_use, launch, shares
from pullback.core.params import NamedParams
from pullback.core.status import Status
from pullback.core.system import State
from pullback.drawing import Drawing
from pullback.dynamics.contacts import contact_workspace, read_contacts, shapes_struct
from pullback.dynamics.health import check_health, set_status
from pullback.dynamics.launch import Lane
from pullback.dynamics.linearize import Jacobians, jacobians, linearize
from pullback.dynamics.params import Cotangents, KernelParams, item_names, parameters
from pullback.dynamics.single import SingleSteps, is_single
from pullback.dynamics.tendons import TendonLayout
from pullback.dynamics.tree import INTEGRATORS, MOST_SLOTS, Layout, is_curved, tree_struct, workspace_struct
from pullback.dynamics.weights import InverseWeights, derived_fields
from pullback.kernels import Flavour, specialise
from pullback.kernels.status import HEALTHY
from pullback.model import BALL, FREE, Model
from pullback.model.tangent import coordinates_of_tangent, difference, difference_jacobian, tangent_of_coordinates


class Articulated(KernelSystem):
    """Robots from a :class:`~pullback.Model`, in ``worlds`` copies that know nothing of each other.

    model:    from :func:`pullback.load`
    contact:  "model": contacts, limits, friction loss and equality constraints as the file says, by
              :class:`ContactConvex`. None: all of them switched off; ``pb.load(..., ignore=("contact",))`` switches off
              contacts alone. Or a contact model; "convex", "impulse", "compliant" and "longrange" are those
              with default arguments.
    worlds:   how many copies
    dtype:    "float64" or "float32"
    device:   "cpu", "cuda", "cuda:1", ...
    threads:  CPU threads the worlds are spread over; as many as there are cores if None
    refine:   tolerance of impacts [m or rad], for gradients of the trajectory instead of those of MuJoCo's steps: where
              contacts or joint limits move, a step is done in substeps, in each of which they move by a quarter of the
              tolerance; those of :class:`ContactConvex` set in over the tolerance, and at the moment of impact. None:
              every step is one step
    """

    has_jacobians = True

    def __init__(
        self,
        model: Model,
        contact: Contact | str | None = "model",
        *,
        worlds: int = 1,
        dtype: str = "float64",
        device: str = "cpu",
        threads: int | None = None,
        refine: float | None = None,
    ):
        if not isinstance(model, Model):
            raise PullbackError(f"model must come from pullback.load, not {type(model).__name__}")
        if isinstance(contact, str) and contact == "model":
            contact = ContactConvex() if model.constraints else None
        elif isinstance(contact, str) and contact in CONTACT_NAMES:
            contact = CONTACT_NAMES[contact]()
        if not (contact is None or isinstance(contact, Contact)):
            names = ", ".join(map(repr, CONTACT_NAMES))
            raise PullbackError(
                f"contact={contact!r} is not known: use 'model' (as the file says), None (off), {names}, or a contact "
                "model such as pullback.ContactConvex()"
            )
        if refine is not None and not 0 < refine < np.inf:
            raise PullbackError(f"refine is a tolerance in metres, a positive number, or None, not {refine!r}")
        if refine is not None and isinstance(contact, Contact) and contact.impulses:
            raise PullbackError(
                f"{type(contact).__name__} finds the moment of impact within a step itself, and its erp is per step: "
                "refine is for contact models with forces"
            )
        if refine is not None and isinstance(contact, Contact) and contact.potential:
            raise PullbackError(
                f"{type(contact).__name__} takes substeps itself where shapes are fast: refine is for contact models "
                "with forces"
            )
        if model.integrator not in INTEGRATORS or not 0 < model.timestep < np.inf:
            raise PullbackError(
                f"a model's integrator is one of {', '.join(INTEGRATORS)} and its timestep positive, not "
                f"{model.integrator!r} and {model.timestep!r}"
            )
        self.model, self.contact = model, contact
        self.worlds = check_whole(worlds, "worlds")
        self.nq, self.nv, self.nu = model.nq, model.nv, model.nu
        self.dtype = check_precision(dtype)
        self.device = check_device(device)
        row = (1, self.worlds, max(self.nq, self.nv, self.nu, 1))
        require_space(
            row, self.dtype, self.device, f"a state of {worlds} worlds", "use fewer worlds, or dtype='float32'"
        )
        self._scene = self._make_scene()
        self._layout = Layout(model)
        self._tendons = TendonLayout(model, self._scene)
        if refine is not None and self._scene is not None and len(self._scene.limited_tendons):
            name = model.tendons.names[self._scene.limited_tendons[0]]
            raise PullbackError(
                f"refine looks for the moment at which joints reach a limit, and tendon {name!r} has one"
            )
        table = parameters(model, self._layout, self._scene, contact, self._tendons)
        self.params = NamedParams(table, self.worlds, item_names(model))
        self._quaternions = [
            (int(q) + 3 * (kind == FREE), name)
            for q, kind, name in zip(model.joint_q, model.joint_type, model.joint_names, strict=True)
            if kind in (FREE, BALL)
        ]
        self.refine = None if contact is None else refine
        self._flavour = Flavour(self.dtype) if contact is None else contact.flavour(self.dtype, self._scene)
        self._flavour = self._flavour._replace(
            refined=self.refine is not None,
            curved=is_curved(model),
            flexes=len(model.flexes.edge) > 0,
            **self._tendons.switches(),
        )
        self._adjoint_flavour = self._flavour._replace(far=self.surrogate is not None)
        weights = self._weights = InverseWeights(model, self._scene, contact, self._tendons)
        self._derived = derived_fields(model, table, weights)
        self._shapes = shapes_struct(self._scene, contact, self._layout, weights, self.dtype, self.device)
        factorised = contact is not None or self._flavour.tendons
        self._tree = tree_struct(model, self._layout, self.dtype, self.device, contact, factorised=factorised)
        self._tree.implicit_damping = int(
            model.integrator == "implicitfast" or (model.integrator == "euler" and model.implicit_damping)
        )
        self._tree.tolerance = self.refine or 0.0
        self._tree.has_fluid = int(bool(model.fluid_density or model.fluid_viscosity))
        self._lanes = self._make_lanes(threads)
        self._spare: list = []  # memory for cotangents of parameters
        self._threads = threads
        self._crew, self._launches = Crew(), Recorder()
        self._nothing_applied = specialise(self.dtype, "tree.applied").Applied()
        self._wide: dict = {}  # what linearize keeps
        self._kept_single: SingleSteps | None = None

    def __repr__(self) -> str:
        return (
            f"Articulated(nq={self.nq}, nv={self.nv}, nu={self.nu}, worlds={self.worlds}, "
            f"dtype={self.dtype!r}, device={self.device!r}"
            + ("" if self.surrogate is None else f", surrogate={self.surrogate!r}")
            + ")"
        )

    @property
    def surrogate(self) -> Far | None:
        """Long range in the backward pass alone, if the contact model has it."""
        return None if self.contact is None else self.contact.far

    def exact(self) -> Articulated:
        if self.surrogate is None:
            return self
        return self._copied(contact=replace(self.contact, far=None))

    def _make_scene(self) -> Scene | None:
        if self.contact is None:
            return None
        scene = Scene.of(self.model)
        refuse_unsupported(self.contact, scene)
        return scene

    def _make_lanes(self, threads: int | None) -> list[Lane]:
        if self.device != "cpu":
            return [self._lane(0, self.worlds, min(self.worlds, MOST_SLOTS), 1)]
        lanes = min(cores_to_use(threads), self.worlds)
        return [self._lane(first, end, 1, lanes) for first, end in shares(self.worlds, lanes)]

    def _lane(self, first: int, end: int, slots: int, lanes: int) -> Lane:
        most = self.max_contacts
        sizes = (slots, most, self.nv, lanes)
        of_rows = (self._tendons, self._weights)
        contacts = contact_workspace(self._scene, self.contact, self._flavour, self.device, *sizes, *of_rows)
        substeps = int(specialise(self._flavour, "refinement").MOST_SUBSTEPS) if self.refine else 0
        workspace = workspace_struct(self.model, self.dtype, self.device, slots, substeps)
        return Lane(first, end, slots, workspace, *contacts)

    @property
    def dt(self) -> float:
        """Timestep [s]."""
        return self.model.timestep

    @property
    def max_contacts(self) -> int:
        """How many contacts the workspace of a world holds."""
        if self.contact is None:
            return 0
        return self.contact.contacts_of(self._scene)

    # --- states and controls -----------------------------------------------------------------------

    def state(self, q=None, v=None) -> State:
        """A state of all worlds: q (worlds, nq) or (nq,) [m, rad, wxyz], v (worlds, nv) or (nv,) [m/s, rad/s].

        What is not given is the model's home pose, at rest.
        """
        home = self.model.home
        if v is None:
            v = home.v if q is None else np.zeros(self.nv)
        fields = []
        for name, value, size in (("q", home.q if q is None else q, self.nq), ("v", v, self.nv)):
            if self._is_here(value):
                fields.append(self._take(value, (self.worlds, size), name, ()))
                continue
            value = to_numbers(value, name)
            if value.ndim == 1:
                value = np.broadcast_to(checked(value, (size,), self.dtype, name, (f"n{name}",)), (self.worlds, size))
            array = checked(value, (self.worlds, size), self.dtype, name, ("worlds", f"n{name}"))
            if name == "q":
                self._check_quaternions(array)
            fields.append(from_device(to_device(array.copy(), self.dtype, self.device)))
        return State(*fields)

    def _check_quaternions(self, q: np.ndarray) -> None:
        for start, joint in self._quaternions:
            squares = np.einsum("wi,wi->w", q[:, start : start + 4], q[:, start : start + 4])
            if len(squares) and squares.min() < 1e-24:
                raise PullbackError(
                    f"the quaternion of joint {joint!r} in world {squares.argmin() % self.worlds} has zero length; "
                    "no rotation is (1, 0, 0, 0)"
                )

    def _take_state(self, state) -> State:
        checked = self._checked_state(state)
        return State(*(x if self._is_here(x) else to_device(x, self.dtype, self.device) for x in checked))

    def _checked_state(self, state) -> State:
        """NumPy arrays, or those on the GPU as they are."""
        if not isinstance(state, tuple) or len(state) != 2:
            raise PullbackError("a state is a pullback.State(q, v): make one with system.state(q, v)")
        if all(self._is_here(x) for x in state):
            sizes = zip(state, (self.nq, self.nv), "qv", strict=True)
            return State(*(self._take(x, (self.worlds, n), s, ()) for x, n, s in sizes))
        q = checked(state[0], (self.worlds, self.nq), self.dtype, "q", ("worlds", "nq"))
        v = checked(state[1], (self.worlds, self.nv), self.dtype, "v", ("worlds", "nv"))
        self._check_quaternions(q)
        return State(q, v)

    def _take_controls(self, controls) -> wp.array:
        steps = len(controls) if hasattr(controls, "__len__") else 0
        shape = (steps, self.worlds, self.nu)
        return self._take(controls, shape, "controls", ("step", "worlds", "nu"))

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """What may act on the robots besides their actuators.

        force:   (nv,) along each degree of freedom [N·m or N]
        wrench:  (nbody, 6) on each body: torque [N·m], then force [N] at its centre of mass, in world axes
        """
        return {"force": (self.nv,), "wrench": (self.model.nbody, 6)}

    def _take_inputs(self, given: Mapping | None):
        """The kernels' Applied, over (CPU) or with (CUDA) the arrays (steps, worlds, ...) that are given."""
        if not given:
            return self._nothing_applied
        module = specialise(self.dtype, "tree.applied")
        applied = module.Applied()
        for name, x in given.items():
            kind = module.Applied.vars[name].type.dtype
            x = x if isinstance(x, wp.array) else to_device(np.ascontiguousarray(x), self.dtype, self.device)
            view = x if x.ndim == 3 else wp.array(ptr=x.ptr, dtype=kind, shape=x.shape[:3], device=x.device)
            view.owner = x  # keeps the memory alive
            setattr(applied, name, view)
            setattr(applied, f"has_{name}", 1)
        return applied

    def _kernel_params_of(self, values: Mapping, like: KernelParams | None = None) -> KernelParams:
        places = (self.worlds, self.dtype, self.device)
        options = {"like": like, "spare": self._spare, "derived": self._derived}
        return KernelParams(self.params.table, values, *places, **options)

    # --- the contract ------------------------------------------------------------------------------

    def step(
        self, state: State, control=None, params: Mapping | None = None, *, inputs: Mapping | None = None
    ) -> State:
        """The state one timestep on. control: (worlds, nu), clamped as the file says; zero if None.

        inputs: forces applied from outside, ``{"force": (worlds, nv), "wrench": (worlds, nbody, 6)}`` or one of them
        """
        states = self.steps(state, self._one_control(control), params=params, inputs=self._one_input(inputs))
        return State(states.q[1], states.v[1])

    def pullback(
        self,
        state: State,
        control,
        next_bar: State,
        params: Mapping | None = None,
        *,
        inputs: Mapping | None = None,
        wants_params: bool = True,
    ) -> Bars:
        """Cotangents of state, control, parameters and inputs from that of the next state, in stored coordinates."""
        controls, inputs = self._one_control(control), self._one_input(inputs)
        # Only quaternions of the next state enter, and those from this step.
        states = self.steps(state, controls, params=params, inputs=inputs)
        final = State(states.q[1], states.v[1])
        backward = self.backward(controls, final, next_bar, params=params, inputs=inputs, wants_params=wants_params)
        backward.through(states, 0, 1)
        return of_one_step(backward.finish(State(states.q[0], states.v[0])))

    def pullback_between(
        self, state: State, control, after: State, next_bar: State, params=None, *, inputs=None, wants_params=True
    ) -> Bars:
        start, controls = State(*(x.reshape((1, *x.shape)) for x in state)), self._one_control(control)
        options = {"params": params, "wants_params": wants_params, "inputs": self._one_input(inputs)}
        return of_one_step(self.step_pullback(start, controls, after, next_bar, **options))

    def linearize(self, state: State, control=None, params: Mapping | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of a step in the tangent space: A (worlds, 2nv, 2nv) and B (worlds, 2nv, nu).

        The state's tangent is [dq; dv], where dq moves q as a velocity would in unit time.
        """
        return linearize(self, state, control, params)

    def difference(self, start: State, end: State, *, leading: int = 1) -> np.ndarray:
        """The tangent [dq; dv] (..., 2nv) at ``start`` that leads to ``end``."""
        moved = difference(self.model, to_numpy(start.q), to_numpy(end.q))
        return np.concatenate([moved, to_numpy(end.v) - to_numpy(start.v)], axis=-1)

    def difference_jacobian(self, apart: np.ndarray) -> np.ndarray:
        result = np.broadcast_to(np.eye(2 * self.nv), (*apart.shape, 2 * self.nv)).copy()
        result[..., : self.nv, : self.nv] = difference_jacobian(self.model, apart[..., : self.nv])
        return result

    def state_bar(self, state: State, tangent_bar: np.ndarray) -> State:
        q_bar = coordinates_of_tangent(self.model, to_numpy(state.q), tangent_bar[..., : self.nv])
        return State(q_bar, tangent_bar[..., self.nv :])

    def tangent_bar(self, state: State, bars: State) -> np.ndarray:
        q_bar = tangent_of_coordinates(self.model, to_numpy(state.q), to_numpy(bars.q))
        return np.concatenate([q_bar, to_numpy(bars.v)], axis=-1)

    def jacobians(
        self, states: State, controls, params: Mapping | None = None, names: tuple[str, ...] = ()
    ) -> Iterator[Jacobians]:
        """The same of every step along a trajectory, and by the parameters named, some steps at a time.

        states: of all steps and one more, as ``steps`` gives them; controls: (steps, worlds, nu).
        """
        return jacobians(self, states, controls, self.hold_params(params), names)

    def contacts(
        self, state: State, control=None, params: Mapping | None = None, *, inputs: Mapping | None = None
    ) -> tuple[ContactPoints, ...]:
        """The contacts of each world in a state, and the forces they exert during the step that follows."""
        if self.contact is None:
            raise PullbackError("this System has no contacts: it was made with contact=None, or its file has none")
        q, v = self._take_state(state)
        controls = self._take_controls(self._one_control(control))
        applied = self._take_inputs(self._one_input(inputs))
        return read_contacts(self, q, v, controls, applied, self.hold_params(params))

    def drawing(self, run, *, ghost=None, bars: Mapping | None = None) -> Drawing:
        """The robots of a run, with contact forces; see :func:`pullback.view.draw_run`."""
        from pullback.dynamics.drawing import draw_robots  # which draws with algorithms that need this module

        return draw_robots(run, ghost=ghost, bars=bars)

    def _settings(self) -> dict[str, Any]:
        names = ("model", "contact", "worlds", "dtype", "device", "refine")
        return {name: getattr(self, name) for name in names} | {"threads": self._threads}

    # --- many steps at once ------------------------------------------------------------------------

    def steps(
        self,
        state: State,
        controls,
        *,
        keep_every: int = 1,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
    ) -> State:
        """Every keep_every-th state and the last: q (rows, worlds, nq), v (rows, worlds, nv). One launch."""
        if keep_every == 1 and is_single(self, controls, inputs):
            single = self._single(hold)
            given = self._checked_state(state), self._checked_controls(controls), self.hold_params(params)
            if states := single.step(self, *given):
                if status is not None:
                    set_status(self, status, single.healthy(), controls, None, hold)
                return states
        start = self._take_state(state)
        controls = self._take_controls(controls)
        kernel_params = self.hold_params(params)
        count = hold * controls.shape[0]
        rows = 1 + -(-count // keep_every)
        q = empty((rows, self.worlds, self.nq), self.dtype, self.device)
        v = empty((rows, self.worlds, self.nv), self.dtype, self.device)
        wp.copy(q, start.q, count=start.q.size)
        wp.copy(v, start.v, count=start.v.size)
        codes = self._healthy()
        self._launch(
            specialise(self._flavour, "step").rollout,
            (self._tree, self._shapes, kernel_params.struct),
            (controls, self._take_inputs(inputs)),
            (0, count, hold, keep_every, q, v, codes),
            with_contacts=True,
        )
        if status is None:
            check_health(self, codes, controls, State(q, v), keep_every, hold)
        else:
            set_status(self, status, codes, controls, State(q, v), hold)
        return State(from_device(q), from_device(v))

    def step_pullback(
        self, start, controls, final, final_bar, *, hold=1, params=None, wants_params=True, inputs=None, status=None
    ) -> Bars:
        found = None
        if not wants_params and is_single(self, controls, inputs) and len(start[0]) == hold:
            if status is None or not status.failed.any():
                given = (start, controls, final, final_bar, self.hold_params(params))
                with nullcontext() if status is None else suppress(GradientOverflow):  # a gradient that failed is data
                    found = self._single(hold).pullback(self, *given)
        given = {name: x for name, x in {"inputs": inputs, "status": status}.items() if x is not None}
        options = {"hold": hold, "params": params, "wants_params": wants_params, **given}
        return found or super().step_pullback(start, controls, final, final_bar, **options)

    def _single(self, hold: int) -> SingleSteps:
        """The arrays of a control step of ``hold`` timesteps; kept, for the last that was asked for."""
        if self._kept_single is None or self._kept_single.hold != hold:
            self._kept_single = SingleSteps(self, hold)
        return self._kept_single

    def _healthy(self) -> wp.array:
        """What kernels say of every world, before one of them failed: (worlds, 2)."""
        return wp.full((self.worlds, 2), HEALTHY, dtype=wp.int32, device=self.device)

    def backward(
        self,
        controls,
        final: State,
        final_bar: State,
        *,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
        wants_params: bool = True,
    ):
        held = self.hold_params(params)
        return FusedBackward(self, controls, final, final_bar, hold, held, inputs, status, wants_params)

    def _launch(
        self, kernel, before: tuple, arrays: tuple, after: tuple, *, with_contacts: bool = False, own: tuple = ()
    ) -> None:
        """Runs a kernel over all worlds: (*before, workspace, *arrays, first world, end world, *after).

        With contacts, those and their rows stand after the workspace, and then what each lane has of its ``own``. One
        launch at a time: a System has one workspace, whichever threads of the user's call it.
        """
        with self._crew.lock:
            launches = []
            for lane, more in zip(self._lanes, own or ((),) * len(self._lanes), strict=True):
                workspace = (lane.workspace, lane.contacts, lane.rows) if with_contacts else (lane.workspace,)
                inputs = (*before, *workspace, *more, *arrays, lane.first, lane.end, *after)
                launches.append(lane.launches.record(kernel, lane.slots, inputs, self.device))
            self._crew.launch(launches)

    def _launch_worlds(self, kernel, *inputs) -> None:
        """Runs a kernel that needs no workspace, with one thread per world."""
        with self._crew.lock:
            self._launches.record(kernel, self.worlds, inputs, self.device).launch()


class FusedBackward:
    """Pulls back through a trajectory piece by piece, last piece first, one launch a piece.

    The cotangent is carried from piece to piece in the tangent space, so that the result does not depend on where the
    pieces were cut, to the last bit.
    """

    def __init__(
        self,
        system: Articulated,
        controls,
        final: State,
        final_bar: State,
        hold: int,
        params: KernelParams,
        inputs: Mapping | None,
        status: Status | None,
        wants_params: bool,
    ):
        self.system, self.hold, self.params = system, hold, params
        self.controls = self._take_controls(controls)
        self.controls_bar = zeros(self.controls.shape, system.dtype, system.device)
        self.applied = system._take_inputs(inputs)
        self.inputs_bar = {name: zeros(x.shape, system.dtype, system.device) for name, x in (inputs or {}).items()}
        self.applied_bar = system._take_inputs(self.inputs_bar)
        self.params_bar = Cotangents(params, wanted=wants_params)
        self.kernels = specialise(system._adjoint_flavour, "step_adjoint")
        if not isinstance(final_bar, tuple) or len(final_bar) != 2:
            raise PullbackError("the cotangent of a state is a pullback.State(q_bar, v_bar); either may be None")
        final_q = self.system._own(final[0])
        self.carry_q = empty((system.worlds, system.nv), system.dtype, system.device)
        q_bar, v_bar = (self._bar(x, n, s) for x, n, s in zip(final_bar, (system.nq, system.nv), "qv", strict=True))
        system._launch_worlds(self.kernels.to_tangent, system._tree, final_q, q_bar, self.carry_q)
        self.carry_v = wp.clone(v_bar)
        self.mask = status is not None
        # of worlds that failed, which are left out, and those whose cotangents will
        self.codes = system._healthy() if status is None else self._copied(status.codes)
        self.first = None  # the step that it has come to
        self.first_bar = None  # the own cotangent of the stored coordinates there, if every state has one

    def _take_controls(self, controls) -> wp.array:
        return self.system._take_controls(controls)

    def _copied(self, codes) -> wp.array:
        """A status, which was another's, on the device."""
        if self.system._is_here(codes):
            return wp.clone(codes)
        return wp.array(to_numpy(codes), dtype=int, device=self.system.device)

    def _bar(self, x, size: int, name: str) -> wp.array:
        system = self.system
        if x is None:
            return zeros((system.worlds, size), system.dtype, system.device)
        return system._take(x, (system.worlds, size), f"{name}_bar", ("worlds", f"n{name}"))

    def through(self, states: State, first: int, end: int, states_bar: State | None = None) -> None:
        """From step ``end`` back to ``first``. Row r of states, and of states_bar, is the state at first + r."""
        q, v = (self.system._own(x) for x in states)
        self.first, self.first_bar = first, None if states_bar is None else self.system._own(states_bar[0][0])
        q_bar, v_bar = (q, v) if states_bar is None else (self.system._own(x) for x in states_bar)
        system = self.system
        flags = (int(states_bar is not None), int(self.mask), int(self.params_bar.wanted))
        system._launch(
            self.kernels.rollout_adjoint,
            (system._tree, system._shapes, self.params.struct, self.params_bar.struct),
            (self.controls, self.controls_bar, self.applied, self.applied_bar),
            (first, end, self.hold, q, v, q_bar, v_bar, *flags, self.carry_q, self.carry_v, self.codes),
            with_contacts=True,
        )

    def _not_carried(self, q) -> wp.array:
        """What of the own cotangent of the stored coordinates q, (worlds, nq), is not carried in the tangent space.

        Of the start all of it; of a later state the part along its quaternions, which no step depends on.
        """
        system = self.system
        if self.first_bar is None:
            return zeros((system.worlds, system.nq), system.dtype, system.device)
        if self.first == 0:
            return self.first_bar
        q, bar = to_numpy(q), to_numpy(self.first_bar)
        tangent = tangent_of_coordinates(system.model, q, bar)
        return self.system._own(bar - coordinates_of_tangent(system.model, q, tangent))

    def finish(self, start: State) -> Bars:
        """The cotangents at the state that it has come to, in stored coordinates."""
        system = self.system
        if system.contact is not None and not self.mask:
            check_health(system, self.codes, self.controls, hold=self.hold)
        q_bar = empty((system.worlds, system.nq), system.dtype, system.device)
        inputs = (system._tree, self.system._own(start[0]), self.carry_q, self._not_carried(start[0]), q_bar)
        system._launch_worlds(self.kernels.to_coordinates, *inputs)
        status = self._clear_failed(q_bar)
        inputs = Named({name: from_device(x) for name, x in self.inputs_bar.items()})
        state_bar, params = State(from_device(q_bar), from_device(self.carry_v)), self.params_bar.named()
        bars = Bars(state_bar, from_device(self.controls_bar), params, inputs, status)
        if self.mask and not self.params_bar.wanted:
            return bars  # what is not finite is zero by now, and nobody waits for the device
        return refuse_overflow(bars, system.dtype, self.params.per_world)

    def _clear_failed(self, q_bar: wp.array) -> Status | None:
        """Sets the cotangents of worlds that failed to zero, where failure is data."""
        if not self.mask:
            return None
        system = self.system
        self.params_bar.clear_failed(self.kernels.clear_failed, self.codes)
        each = (self.controls_bar, *self.inputs_bar.values())  # [step, world, item]
        for steps, bar in ((1, q_bar), (1, self.carry_v), *((bar.shape[0], bar) for bar in each)):
            if bar.size:
                inputs = [self.codes, as_reals(bar, steps, system.worlds, system.dtype)]
                launch(self.kernels.clear_failed, system.worlds, inputs, system.device)
        status = Status()
        set_status(system, status, self.codes, self.controls, None, self.hold)
        return status
