"""Heat conduction in a part that is being printed, as a System."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import warp as wp

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
    upload,
)
from pullback.core.checks import COUNTABLE, check_kind, check_number, check_whole, shown
from pullback.core.errors import PullbackError
from pullback.core.kernel_system import KernelSystem, kept_steps, stay
from pullback.core.launch import cores_to_use
from pullback.core.params import NamedParams
from pullback.core.status import Status
from pullback.drawing import Drawing
from pullback.kernels import specialise
from pullback.kernels.status import NOT_CONVERGED
from pullback.thermal.backward import HeatBackward, Trace
from pullback.thermal.drawing import draw_heating
from pullback.thermal.geometry import Geometry, birth_times
from pullback.thermal.law import Pieces
from pullback.thermal.materials import Material
from pullback.thermal.mesh import Mesh
from pullback.thermal.params import KernelLaw, parameters
from pullback.thermal.stepper import stepper_of
from pullback.thermal.toolpath import Toolpath

CONTROLS = ("power", "speed", "radius")


class HeatState(NamedTuple):
    """The temperatures of a part, and the time on the toolpath.

    T:  (worlds, n) temperature of every node [K]
    s:  (worlds, 2) time on the toolpath [s], which moves on by the speed factor times dt in a step. It is the sum of
        both: the second is what the first has no digits for, next to nothing in float64.
    """

    T: Any
    s: Any


class Heat(KernelSystem):
    """Conduction, a laser along a toolpath, element birth, convection and radiation; in ``worlds`` copies.

    mesh:         hexahedra
    material:     of the part; its values are the initial ``params``
    toolpath:     where the laser is, and when it is on
    born:         (e,) time on the toolpath [s] at which each element is deposited, at ambient temperature; None or -inf
                  for those that are there from the start
    dt:           timestep [s]
    method:       "explicit": cheap steps, up to a longest one; or "implicit": any step, solved by conjugate gradients
    ambient:      temperature around the part, and of new material [K]
    convection:   heat transfer coefficient [W/m²/K] of exposed faces
    spot_radius:  of the laser [m], where a control does not say otherwise: 95 % (1 - e⁻³) of the power are inside
    power:        of the laser [W], likewise
    threads:      CPU threads; as many as there are cores if None

    A control is (power [W], speed factor [1], spot radius [m]). The beam comes from above. Where its centre is at p, an
    exposed face that faces up absorbs absorptivity · power · on · 3/(π r²) · exp(-3 |x - p|²/r²) per unit of area as
    seen from above: the whole absorbed power, if it were a horizontal plane through p. There are no shadows. A power
    below zero takes heat away; it is not refused, so that differences around zero, and searches that pass it, work.
    """

    nu = len(CONTROLS)
    state_type = HeatState
    backward_type = HeatBackward
    made_with = ("mesh", "material", "toolpath", "born", "dt", "method", "spot_radius", "power")

    def __init__(
        self,
        mesh: Mesh,
        material: Material,
        toolpath: Toolpath,
        *,
        born=None,
        dt: float,
        method: str = "explicit",
        ambient: float = 300.0,
        convection: float = 20.0,
        spot_radius: float = 1e-3,
        power: float = 200.0,
        worlds: int = 1,
        dtype: str = "float64",
        device: str = "cpu",
        threads: int | None = None,
    ):
        check_kind(mesh, Mesh, "mesh")
        check_kind(material, Material, "material")
        check_kind(toolpath, Toolpath, "toolpath")
        if not isinstance(method, str) or method not in ("explicit", "implicit"):
            raise PullbackError(f"method={shown(method)} is not known: use 'explicit' or 'implicit'")
        ambient, convection = check_number(ambient, "ambient"), check_number(convection, "convection", least=0.0)
        self.mesh, self.material, self.method = mesh, material, method
        self.dt, self.spot_radius = check_number(dt, "dt"), check_number(spot_radius, "spot_radius")
        self.power = check_number(power, "power", least=0.0)
        self.worlds, self.n = check_whole(worlds, "worlds"), len(mesh.nodes)
        self.dtype, self.device = check_precision(dtype), check_device(device)
        self.born = birth_times(born, len(mesh.elements))
        self.toolpath = toolpath.check_over(mesh, born=self.born)
        self.geometry = Geometry.of(mesh, self.born)
        self.pieces = Pieces.of(material.temperatures, material.solidus, material.liquidus)
        self._threads = threads
        self._prepare({"convection": convection, "ambient": ambient})

    def _prepare(self, settings: Mapping) -> None:
        """What follows from worlds, precision and device."""
        table = parameters(self.material, self.pieces, settings["convection"], settings["ambient"])
        self.params = NamedParams(table, self.worlds)
        what = f"a state of {self.worlds} worlds with {self.n} nodes"
        require_space((1, self.worlds, self.n), self.dtype, self.device, what, "use fewer worlds, or dtype='float32'")
        self._part = upload(specialise(self.dtype, "heat.elements").Part, self.geometry.arrays, self.device)
        self._path = self._upload_path()
        self._stepper = stepper_of(self, cores_to_use(self._threads))
        self.hold_params()  # refuses an unstable step

    def __repr__(self) -> str:
        return (
            f"Heat(nodes={self.n}, elements={len(self.mesh.elements)}, dt={self.dt:g}, method={self.method!r}, "
            f"worlds={self.worlds}, dtype={self.dtype!r}, device={self.device!r})"
        )

    def _upload_path(self):
        tool = self.toolpath
        pace = np.diff(tool.points, axis=0) / np.diff(tool.times)[:, None]
        fields = {
            "times": tool.times,
            "points": tool.points,
            "velocity": np.concatenate([pace, np.zeros((1, 3))]),
            "on": np.append(tool.on[:-1], 0.0),
            "births": self.geometry.births,
        }
        return upload(specialise(self.dtype, "heat.path").Path, fields, self.device)

    def drawing(self, run, *, ghost=None, bars=None) -> Drawing:
        """The part of the first world, coloured by its temperature, and the laser. Ghost and bars are not drawn."""
        return draw_heating(run)

    # --- states, controls, parameters ---------------------------------------------------------------

    def state(self, T=None, s=None) -> HeatState:
        """A state of all worlds: T (worlds, n), (n,) or one number [K]; s (worlds,), one number [s], or as kept.

        What is not given is ambient temperature, and the start of the toolpath.
        """
        T = np.reshape(self.params["ambient"], (-1, 1)) if T is None else to_numbers(T, "T")
        if T.shape == (self.worlds,) != (self.n,):
            T = T[:, None]
        if T.shape in ((), (self.n,), (1, 1), (self.worlds, 1)):
            T = np.broadcast_to(T, (self.worlds, self.n))
        s = self._clock(self.toolpath.times[0] if s is None else s)
        fields = []
        for name, value in (("T", T), ("s", s)):
            shape, axes = self._form(name)
            array = checked(value, shape, self.dtype, name, axes)
            fields.append(from_device(to_device(array.copy(), self.dtype, self.device)))
        return HeatState(*fields)

    def _clock(self, s) -> np.ndarray:
        """Times on the toolpath as a state holds them, (worlds, 2)."""
        s = to_numbers(s, "s").astype(float)
        if s.shape not in ((), (1,), (self.worlds,), (self.worlds, 1), (self.worlds, 2)):
            return s
        s = np.broadcast_to(s.sum(axis=1) if s.ndim == 2 else s, self.worlds)  # maybe as a state of other precision
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found by whoever checks this
            first = s.astype(self.dtype)
            return np.stack([first, s - first], axis=-1)

    def default_controls(self, steps: int) -> np.ndarray:
        """Controls (steps, worlds, 3) of the laser as the System was set up: power [W], speed factor, radius [m]."""
        shape = (check_whole(steps, "steps", least=0), self.worlds, self.nu)
        require_space(shape, self.dtype, "cpu")
        result = np.empty(shape, dtype=self.dtype)
        result[:] = (self.power, 1.0, self.spot_radius)
        return result

    def steps_until(self, time: float) -> int:
        """How many steps at full speed lead from the start of the toolpath to a time on it [s]."""
        start = self.toolpath.times[0]
        time = check_number(time, "time", above=None)
        if not start <= time <= start + COUNTABLE * self.dt:
            raise PullbackError(
                f"the time must not be before the toolpath, which begins at {start:g} s, nor more than {COUNTABLE} "
                f"steps after that, but it is {time:g} s"
            )
        return int(np.ceil((time - start) / self.dt - 1e-9))

    def energy(self, state: HeatState, params: Mapping | None = None) -> np.ndarray:
        """Heat in the part (worlds,) [J], in double precision, counted from the lowest temperature of the table."""
        law = self.hold_params(params)
        T, s = (to_numpy(x).astype(float) for x in self._take_state(state))
        arrays = self.geometry.arrays
        result = np.empty(self.worlds)
        for w in range(self.worlds):
            live = np.searchsorted(self.geometry.births, s[w].sum(), side="right")
            there = np.add.reduceat(np.append(arrays["slot_element"] < live, False), arrays["node_first"][:-1])
            there[np.diff(arrays["node_first"]) == 0] = 0
            volume = arrays["volume"][arrays["node_first"][:-1] + np.arange(self.n) + there]
            enthalpy = self.pieces.integral(T[w], law.capacity[min(w, len(law.capacity) - 1)])
            density = law.scalars[min(w, len(law.scalars) - 1), 0]
            result[w] = density * np.sum(volume * enthalpy)
        return result

    @property
    def explicit_limit(self) -> float:
        """The longest stable explicit step [s], at any temperature of the table."""
        return float(self.hold_params().explicit_limits(self.geometry.fastest, self.geometry.widest).min())

    def _form(self, field):
        return ((self.worlds, self.n), ("worlds", "nodes")) if field == "T" else ((self.worlds, 2), ("worlds", "parts"))

    def _take_state(self, state, name: str = "") -> HeatState:
        taken = super()._take_state(state, name)
        if not name and not self._is_here(state[0]):
            T = to_numpy(state[0])
            if np.min(T) <= 0:
                world, node = (int(i) for i in np.argwhere(T <= 0)[0])
                raise PullbackError(
                    f"T must be above zero [K]: that of node {node} in world {world} is {T[world, node]:g}",
                    worlds=np.flatnonzero(np.any(T <= 0, axis=1)),
                )
        return taken

    def _refuse_controls(self, controls):
        for column, wrong in ((1, controls[..., 1] < 0), (2, controls[..., 2] <= 0)):
            if np.any(wrong):
                step, world = (int(i) for i in np.argwhere(wrong)[0])
                least = ("", "not be negative", "be above zero")[column]
                raise PullbackError(
                    f"the {CONTROLS[column]} of the laser must {least}: at step {step} in world {world} it is "
                    f"{controls[step, world, column]:g}; a control is (power, speed, radius), see default_controls",
                    worlds=np.flatnonzero(np.any(wrong, axis=0)),
                )

    def _kernel_params_of(self, values: Mapping, like: KernelLaw | None = None) -> KernelLaw:
        law = KernelLaw(self.params.table, values, self.worlds, self.pieces, self.dtype, self.device)
        if self.method == "explicit":
            limits = law.explicit_limits(self.geometry.fastest, self.geometry.widest)
            unstable = ~(self.dt <= limits)
            if np.any(unstable):
                raise PullbackError(
                    f"an explicit step of dt={self.dt:g} s is unstable: the longest for this mesh and material is "
                    f"{limits.min():.4g} s; use a smaller dt, larger elements, or method='implicit'",
                    worlds=np.flatnonzero(unstable) if len(limits) == self.worlds else (),
                )
        return law

    # --- the contract -------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {name: float(self.params.table[name].value) for name in ("convection", "ambient")}

    def _made_again(self, **changes) -> Heat:
        """With the geometry that is there: it takes long, and knows neither worlds nor precision."""
        other = object.__new__(Heat)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if not k.startswith("_")}, **changes)
        other._threads = self._threads
        other._prepare(self._settings())
        return other

    # --- many steps at once -------------------------------------------------------------------------

    def steps(
        self,
        state: HeatState,
        controls,
        *,
        keep_every: int = 1,
        hold: int = 1,
        params: Mapping | None = None,
        status: Status | None = None,
    ) -> HeatState:
        """Every keep_every-th state and the last: T (rows, worlds, n), s (rows, worlds, 2)."""
        start = self._take_state(state)
        controls = self._take_controls(controls, hold)
        law = self.hold_params(params)
        count = controls.shape[0]
        kept = kept_steps(count, keep_every)
        rows = empty((len(kept), self.worlds, self.n), self.dtype, self.device)
        wp.copy(rows, start.T, count=start.T.size)
        trace = Trace(self, law, controls, 0, count, start.s)
        codes, now = self._stepper.forward(law, trace, start.T, rows, keep_every)
        every_s = to_numpy(trace.s)
        s, reasons = every_s[kept], {}
        if now is not None:
            for world in map(int, np.flatnonzero(codes[:, 1] >= 0)):
                code, step = codes[world]
                reasons[world] = self._reason(world, code, step, to_numpy(start.T)[world], now[(step + 1) % 2, world])
            if status is None:
                so_far = HeatState(from_device(rows), from_device(to_device(s, self.dtype, self.device)))
                self._refuse_failure(codes, reasons, so_far, kept)
            T = rows.numpy()
            stay(T, now, codes, kept)
            stay(s, every_s, codes, kept)
            rows = to_device(T, self.dtype, self.device)
        if status is not None:
            status.set(codes, lambda world, code, step: reasons[world])
        return HeatState(from_device(rows), from_device(to_device(s, self.dtype, self.device)))

    def _reason(self, world: int, code: int, step: int, start: np.ndarray, after: np.ndarray) -> str:
        """What happened in a world that failed, by its temperatures at the start and after that step."""
        hottest = specialise(self.dtype, "heat.elements").HOTTEST
        advice = "look at the power [W] and the radius [m] of the laser"
        if code == NOT_CONVERGED:
            return (
                f"the implicit solver did not converge in world {world} at step {step}: use a smaller dt (now "
                f"{self.dt:g} s), or {advice}"
            )
        T = start if np.any(start >= hottest) else after
        node = int(np.argmin((T > 0) & (T < hottest)))
        wrong = f"that of node {node} in world {world} is {T[node]:g} K"
        if T is start:
            return f"the state given is absurd: its temperatures must be below {hottest:g} K, and {wrong}"
        return f"temperatures grew beyond all bounds: at step {step} {wrong}; {advice}"
