"""Articulated bodies as a System."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, TypeVar, overload

import numpy as np
import warp as wp

from pullback.contact import CONTACT_NAMES, Contact, ContactConvex, ContactPoints, Far, Scene
from pullback.contact.checks import refuse_unsupported
from pullback.core.arrays import (
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
from pullback.core.bars import Bars, of_one_step
from pullback.core.checks import check_whole
from pullback.core.errors import GradientOverflow, PullbackError
from pullback.core.kernel_system import KernelSystem
from pullback.core.launch import Crew, Recorder, cores_to_use, shares
from pullback.core.params import NamedParams
from pullback.core.status import Status
from pullback.core.system import ActivatedState, RobotState, State
from pullback.core.trees import row, tree_map
from pullback.drawing import Drawing
from pullback.dynamics.backward import FusedBackward
from pullback.dynamics.contacts import contact_workspace, read_contacts, shapes_struct
from pullback.dynamics.ellipsoids import ellipsoid_geoms
from pullback.dynamics.health import check_health, set_status
from pullback.dynamics.launch import Lane
from pullback.dynamics.linearize import Jacobians, jacobians, linearize
from pullback.dynamics.params import KernelParams, item_names, parameters
from pullback.dynamics.single import SingleSteps, is_single
from pullback.dynamics.tendons import TendonLayout
from pullback.dynamics.tree import (
    INTEGRATORS,
    MOST_SLOTS,
    Layout,
    is_curved,
    mocap_bodies,
    tree_struct,
    workspace_struct,
)
from pullback.dynamics.weights import InverseWeights, derived_fields
from pullback.kernels import Flavour, specialise
from pullback.kernels.status import HEALTHY
from pullback.model import BALL, FREE, Model
from pullback.model.integrators import depends_on_velocities, has_fluid, is_implicit
from pullback.model.tangent import coordinates_of_tangent, difference, difference_jacobian, tangent_of_coordinates

S = TypeVar("S", State, ActivatedState)


class Articulated(KernelSystem):
    """Robots from a :class:`~pullback.Model`, in ``worlds`` independent copies.

    model:    from :func:`pullback.load`
    contact:  "model" (default): contacts, limits, friction loss and equality constraints as the file says, by
              :class:`ContactConvex`. None: all of them are switched off; to switch off contacts only, use
              ``pb.load(..., ignore=("contact",))``. Or a contact model; "convex", "impulse", "compliant" and
              "longrange" are the contact models with default arguments.
    worlds:   number of copies
    dtype:    "float64" or "float32"
    device:   "cpu", "cuda", "cuda:1", ...
    threads:  CPU threads that share the worlds; one per core if None
    refine:   tolerance of impacts [m or rad], for gradients that converge to those of the trajectory. A step in which
              contacts or joint limits move is divided into substeps, in each of which they move by a quarter of the
              tolerance; forces of :class:`ContactConvex` set in over the tolerance, at the moment of impact. None:
              steps are not divided
    """

    has_jacobians = True
    backward_type = FusedBackward
    made_with = ("model", "contact", "refine")

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
        self.nq, self.nv, self.nu, self.na = model.nq, model.nv, model.nu, model.na
        self.state_type = ActivatedState if model.na else State
        self.dtype = check_precision(dtype)
        self.device = check_device(device)
        row = (1, self.worlds, max(self.nq, self.nv, self.nu, 1))
        require_space(
            row, self.dtype, self.device, f"a state of {worlds} worlds", "use fewer worlds, or dtype='float32'"
        )
        self._scene = self._make_scene()
        self._layout = Layout(model)
        self._tendons = TendonLayout(model, self._scene)
        if refine is not None and len(model.delays.ids):
            name = model.actuator_names[model.delays.ids[0]]
            raise PullbackError(f"refine divides steps, by which actuator {name!r} counts the delay of its control")
        if refine is not None and self._tendons.adheres:
            name = model.actuator_names[np.flatnonzero(model.actuator_body >= 0)[0]]
            raise PullbackError(f"refine looks for the moment at which bodies touch, and actuator {name!r} holds them")
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
            mocap="mocap" in self.inputs,
            flexes=len(model.flexes.edge) > 0,
            ellipsoids=len(ellipsoid_geoms(model)) > 0,
            implicit=depends_on_velocities(model),
            **self._tendons.switches(),
        )
        self._adjoint_flavour = self._flavour._replace(far=self.surrogate is not None)
        weights = self._weights = InverseWeights(model, self._scene, contact, self._tendons)
        self._derived = derived_fields(model, table, weights)
        self._shapes = shapes_struct(self._scene, contact, self._layout, weights, self.dtype, self.device)
        factorised = contact is not None or self._flavour.tendons
        self._tree = tree_struct(model, self._layout, self.dtype, self.device, contact, factorised=factorised)
        self._tree.implicit_damping = int(
            is_implicit(model) or (model.integrator == "euler" and model.implicit_damping)
        )
        self._tree.tolerance = self.refine or 0.0
        self._tree.has_fluid = int(has_fluid(model))
        self._lanes = self._make_lanes(threads)
        self._spare: list = []  # memory for cotangents of parameters
        self._threads = threads
        self._crew, self._launches = Crew(), Recorder()
        self._no_act = {n: zeros((0,) * n, self.dtype, self.device) for n in (2, 3)}
        self._nothing_applied = specialise(self.dtype, "tree.applied").Applied()
        self._wide_systems: dict = {}  # cache of linearize: Systems with many worlds
        self._kept_single: SingleSteps | None = None
        self._explicit: dict[bool, Articulated] = {}  # cache of Systems that accelerations are read from

    def __repr__(self) -> str:
        return (
            f"Articulated(nq={self.nq}, nv={self.nv}, nu={self.nu}, worlds={self.worlds}, "
            f"dtype={self.dtype!r}, device={self.device!r}"
            + ("" if self.surrogate is None else f", surrogate={self.surrogate!r}")
            + ")"
        )

    @property
    def surrogate(self) -> Far | None:
        """The contact model's long-range forces in the backward pass alone, if it has them."""
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
        substeps = int(specialise(self._flavour, "refinement").MOST_SUBSTEPS) if self.refine else 0
        sizes = (slots, most, self.nv, lanes, self._tendons, self._weights, substeps)
        contacts = contact_workspace(self._scene, self.contact, self._flavour, self.device, *sizes)
        workspace = workspace_struct(self.model, self.dtype, self.device, slots, substeps)
        return Lane(first, end, slots, workspace, *contacts)

    @property
    def dt(self) -> float:
        """Timestep [s]."""
        return self.model.timestep

    @property
    def max_contacts(self) -> int:
        """The number of contacts that the workspace of a world holds."""
        if self.contact is None:
            return 0
        return self.contact.contacts_of(self._scene)

    # --- states and controls -----------------------------------------------------------------------

    @property
    def _sizes(self) -> dict[str, int]:
        """The number of entries per world in each field of the state."""
        sizes = {"q": self.nq, "v": self.nv, "act": self.na}
        return {name: sizes[name] for name in self.state_type._fields}

    @overload
    def state(self, q=None, v=None) -> State: ...

    @overload
    def state(self, q=None, v=None, *, act) -> ActivatedState: ...

    def state(self, q=None, v=None, act=None):
        """A state of all worlds: q (worlds, nq) or (nq,) [m, rad, wxyz], v (worlds, nv) or (nv,) [m/s, rad/s].

        Arguments that are None are those of the model's home pose, at rest. If actuators have activations, the state
        has those too, act (worlds, na) or (na,), and is an :class:`ActivatedState`.
        """
        if act is not None and not self.na:
            raise PullbackError("act was given, but no actuator of the model has an activation")
        home = self.model.home
        given = {"q": q, "v": v, "act": act}
        fields = []
        for name, size in self._sizes.items():
            at_rest = home if q is None or name == "q" else None
            value = given[name]
            if value is None:
                value = np.zeros(size) if at_rest is None else getattr(at_rest, name)
            if self._is_here(value):
                fields.append(self._take(value, (self.worlds, size), name, ()))
                continue
            value = to_numbers(value, name)
            n = _size_name(name)
            if value.ndim == 1:
                value = np.broadcast_to(checked(value, (size,), self.dtype, name, (n,)), (self.worlds, size))
            array = checked(value, (self.worlds, size), self.dtype, name, ("worlds", n))
            if name == "q":
                self._check_quaternions(array)
            fields.append(from_device(to_device(array.copy(), self.dtype, self.device)))
        return self.state_type(*fields)

    def _check_quaternions(self, q: np.ndarray) -> None:
        for start, joint in self._quaternions:
            squares = np.einsum("wi,wi->w", q[:, start : start + 4], q[:, start : start + 4])
            if len(squares) and squares.min() < 1e-24:
                raise PullbackError(
                    f"the quaternion of joint {joint!r} in world {squares.argmin() % self.worlds} has zero length; "
                    "the identity is (1, 0, 0, 0)"
                )

    def _take_state(self, state) -> Any:
        checked = self._checked_state(state)
        return tree_map(lambda x: x if self._is_here(x) else to_device(x, self.dtype, self.device), checked)

    def _checked_state(self, state) -> Any:
        """A state as checked NumPy arrays; arrays on the System's GPU are used as they are."""
        self._check_fields(state, "a state", "system.state({})")
        if all(self._is_here(x) for x in state):
            fields = zip(state, self._sizes.items(), strict=True)
            return self.state_type(*(self._take(x, (self.worlds, n), s, ()) for x, (s, n) in fields))
        fields = zip(state, self._sizes.items(), strict=True)
        arrays = [checked(x, (self.worlds, n), self.dtype, s, ("worlds", _size_name(s))) for x, (s, n) in fields]
        self._check_quaternions(arrays[0])
        return self.state_type(*arrays)

    def _check_fields(self, state, what: str, remedy: str) -> None:
        """Raises an error unless ``state`` has the fields of this System's state (or of its cotangent)."""
        names = self.state_type._fields
        if not isinstance(state, tuple) or len(state) != len(names):
            made_of = ", ".join(names)
            raise PullbackError(
                f"{what} is a pullback.{self.state_type.__name__}({made_of}): make one with {remedy.format(made_of)}"
            )

    def _kernel_state(self, states) -> tuple:
        """The fields as kernels take them: q, v, and activations (rows, worlds, na), which may be an empty array."""
        q, v, *act = states
        act = self._no_act[3] if not act else act[0] if act[0].ndim == 3 else act[0].reshape((1, *act[0].shape))
        return q, v, act

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """Inputs besides the controls, with their shapes in one world.

        force:   (nv,) along each degree of freedom [N·m or N]
        wrench:  (nbody, 6) on each body: torque [N·m], then force [N] at its centre of mass, in world axes
        mocap:   (n, 7) poses of the file's mocap bodies, if it has some: position [m] and quaternion; by default they
                 stay at the file's poses
        """
        shapes = {"force": (self.nv,), "wrench": (self.model.nbody, 6)}
        bodies = np.sum(mocap_bodies(self.model)[1] >= 0)
        # Refined steps and long-range contact compute poses in sweeps of their own, which do not read this input.
        sweeps = self.refine is not None or (self.contact is not None and (self.contact.potential or self.contact.far))
        return shapes if bodies == 0 or sweeps else shapes | {"mocap": (int(bodies), 7)}

    def _take_inputs(self, given: Mapping | None):
        """The kernels' struct Applied of the given arrays (steps, worlds, ...), without a copy where possible."""
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

    def step(self, state: S, control=None, params: Mapping | None = None, *, inputs: Mapping | None = None) -> S:
        """The state after one timestep. control: (worlds, nu), clamped to the file's ranges; zero if None.

        inputs: by name, some of {"force": (worlds, nv), "wrench": (worlds, nbody, 6)}; see ``inputs``
        """
        states = self.steps(state, self._one_control(control), params=params, inputs=self._one_input(inputs))
        return row(states, 1)

    def pullback_between(
        self,
        state: RobotState,
        control,
        after: RobotState,
        next_bar: RobotState,
        params=None,
        *,
        inputs=None,
        wants_params=True,
    ) -> Bars:
        start, controls = tree_map(lambda x: x.reshape((1, *x.shape)), state), self._one_control(control)
        options = {"params": params, "wants_params": wants_params, "inputs": self._one_input(inputs)}
        return of_one_step(self.step_pullback(start, controls, after, next_bar, **options))

    def linearize(
        self, state: RobotState, control=None, params: Mapping | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians of a step in the tangent space: A (worlds, 2nv, 2nv) and B (worlds, 2nv, nu).

        The state's tangent is [dq; dv], where dq moves q as a velocity would in unit time; with activations it is
        [dq; dv; dact], of 2nv + na numbers.
        """
        return linearize(self, state, control, params)

    def difference(self, start: RobotState, end: RobotState, *, leading: int = 1) -> np.ndarray:
        """The tangent [dq; dv] (..., 2nv) at ``start`` that leads to ``end``; with activations [dq; dv; dact]."""
        moved = [difference(self.model, to_numpy(start.q), to_numpy(end.q))]
        moved += [to_numpy(y) - to_numpy(x) for x, y in zip(start[1:], end[1:], strict=True)]
        return np.concatenate(moved, axis=-1)

    def difference_jacobian(self, apart: np.ndarray) -> np.ndarray:
        size = apart.shape[-1]
        result = np.broadcast_to(np.eye(size), (*apart.shape, size)).copy()
        result[..., : self.nv, : self.nv] = difference_jacobian(self.model, apart[..., : self.nv])
        return result

    def state_bar(self, state: S, tangent_bar: np.ndarray) -> S:
        q_bar = coordinates_of_tangent(self.model, to_numpy(state.q), tangent_bar[..., : self.nv])
        return self.state_type(q_bar, *np.split(tangent_bar[..., self.nv :], [self.nv], axis=-1)[: 1 + (self.na > 0)])

    def tangent_bar(self, state: RobotState, bars: RobotState) -> np.ndarray:
        q_bar = tangent_of_coordinates(self.model, to_numpy(state.q), to_numpy(bars.q))
        return np.concatenate([q_bar, *map(to_numpy, bars[1:])], axis=-1)

    def jacobians(
        self, states: RobotState, controls, params: Mapping | None = None, names: tuple[str, ...] = ()
    ) -> Iterator[Jacobians]:
        """Jacobians of every step of a trajectory, by state, control and the parameters in ``names``.

        They are yielded in chunks of consecutive steps.

        states:   (steps + 1, worlds, ...), as ``steps`` returns them
        controls: (steps, worlds, nu)
        """
        return jacobians(self, states, controls, self.hold_params(params), names)

    def contacts(
        self, state: RobotState, control=None, params: Mapping | None = None, *, inputs: Mapping | None = None
    ) -> tuple[ContactPoints, ...]:
        """The contacts of each world in a state, and the forces they exert during the step that follows."""
        if self.contact is None:
            raise PullbackError("this System has no contacts: it was made with contact=None, or its file has none")
        state = self._take_state(state)
        controls = self._take_controls(self._one_control(control))
        applied = self._take_inputs(self._one_input(inputs))
        return read_contacts(self, state, controls, applied, self.hold_params(params))

    def drawing(self, run, *, ghost=None, bars: Mapping | None = None) -> Drawing:
        """The robots of a run, with contact forces; see :func:`pullback.view.draw_run`."""
        from pullback.dynamics.drawing import draw_robots  # imports algorithms that import this module

        return draw_robots(run, ghost=ghost, bars=bars)

    # --- many steps at once ------------------------------------------------------------------------

    def steps(
        self,
        state: S,
        controls,
        *,
        keep_every: int = 1,
        hold: int = 1,
        params: Mapping | None = None,
        inputs: Mapping | None = None,
        status: Status | None = None,
    ) -> S:
        """The states after every keep_every-th step and the last, in one launch: q (rows, worlds, nq), and so on."""
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
        states = tree_map(lambda x: empty((rows, *x.shape), self.dtype, self.device), start)
        for into, x in zip(states, start, strict=True):
            wp.copy(into, x, count=x.size)
        codes = self._healthy()
        self._launch(
            specialise(self._flavour, "step").rollout,
            (self._tree, self._shapes, kernel_params.struct),
            (controls, self._take_inputs(inputs)),
            (0, count, hold, keep_every, *self._kernel_state(states), codes),
            with_contacts=True,
        )
        if status is None:
            check_health(self, codes, controls, states, keep_every, hold)
        else:
            set_status(self, status, codes, controls, states, hold)
        return tree_map(from_device, states)

    def step_pullback(
        self, start, controls, final, final_bar, *, hold=1, params=None, wants_params=True, inputs=None, status=None
    ) -> Bars:
        found = None
        if not wants_params and is_single(self, controls, inputs) and len(start[0]) == hold:
            if status is None or not status.failed.any():
                given = (start, controls, final, final_bar, self.hold_params(params))
                with nullcontext() if status is None else suppress(GradientOverflow):  # the general pass records it
                    found = self._single(hold).pullback(self, *given)
        given = {name: x for name, x in {"inputs": inputs, "status": status}.items() if x is not None}
        options = {"hold": hold, "params": params, "wants_params": wants_params, **given}
        return found or super().step_pullback(start, controls, final, final_bar, **options)

    def _single(self, hold: int) -> SingleSteps:
        """The arrays for control steps of ``hold`` timesteps; those of the last ``hold`` are kept."""
        if self._kept_single is None or self._kept_single.hold != hold:
            self._kept_single = SingleSteps(self, hold)
        return self._kept_single

    def _healthy(self) -> wp.array:
        """The initial codes of all worlds, which kernels set when a world fails: (worlds, 2)."""
        return wp.full((self.worlds, 2), HEALTHY, dtype=wp.int32, device=self.device)

    def _launch(
        self, kernel, before: tuple, arrays: tuple, after: tuple, *, with_contacts: bool = False, own: tuple = ()
    ) -> None:
        """Runs a kernel over all worlds: (*before, workspace, *arrays, first world, end world, *after).

        With contacts, the workspaces of contacts and rows follow the first workspace, and then the lane's entry of
        ``own``. One launch at a time: a System has one workspace for all of the user's threads.
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


def _size_name(field: str) -> str:
    """The name of a field's length in messages."""
    return "na" if field == "act" else f"n{field}"
