"""Frames fixed to bodies, placed by parameters: poses of geoms, sites, cameras and centres of mass, and their
cotangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp

from pullback.core.arrays import to_numpy, upload_per_world
from pullback.core.bars import Named
from pullback.core.errors import PullbackError
from pullback.dynamics.articulated import Articulated
from pullback.dynamics.params import KernelParams
from pullback.kernels import specialise
from pullback.spatial import quat_bar_of_tangent, unit


@dataclass(frozen=True)
class Frames:
    """Several frames of one kind.

    of:     the kind, for example "geom". Their places are the parameters "geom_pos" and "geom_quat", if those exist;
            for "com" the parameter is "com"
    which:  (n,) indices of the frames among all of that kind
    body:   (n,) the body that each is fixed to
    pos:    (1 or worlds, n, 3) position in the body's frame [m]
    quat:   (1 or worlds, n, 4) orientation in the body's frame
    """

    of: str
    which: np.ndarray
    body: np.ndarray
    pos: np.ndarray
    quat: np.ndarray

    def __len__(self) -> int:
        return len(self.which)

    def add_bars(self, params: KernelParams, bars: Named, pos_bar: wp.array, turn_bar: wp.array) -> None:
        """Adds the cotangents of places to those of parameters. pos_bar (worlds, n) is in the bodies' axes, turn_bar
        (worlds, n) in the frames' axes."""
        place = "com" if self.of == "com" else f"{self.of}_pos"
        rules = {place: (pos_bar, lambda value, x: x), f"{self.of}_quat": (turn_bar, quat_bar_of_tangent)}
        for name, (x, adjoint) in rules.items():
            if name in bars and self.of != "body":  # body_pos and body_quat are handled by the kernels
                by_frame = to_numpy(x).astype(float)
                by_frame = by_frame if params.per_world[name] else by_frame.sum(axis=0, keepdims=True)
                value = _batched(params, name)
                bar = np.zeros(value.shape)
                np.add.at(bar, (slice(None), self.which), adjoint(value[:, self.which], by_frame))
                bars[name] = (bars[name] + bar.reshape(bars[name].shape)).astype(bars[name].dtype)


def frames_of(system: Articulated, of: str, names: Sequence[str] | None, params: Mapping | None) -> Frames:
    """All frames of a kind, or those in ``names``, at the places that the parameters give."""
    model, held = system.model, system.hold_params(params)
    kinds = {"geom": model.geoms, "site": model.sites, "camera": model.cameras}
    if of == "body":  # in its own frame
        known, body = model.body_names, np.arange(model.nbody)
        pos, quat = np.zeros((1, model.nbody, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (1, model.nbody, 1))
    elif of == "com":  # with the axes of the body
        known, body = model.body_names, np.arange(model.nbody)
        pos, quat = _batched(held, "com"), np.tile([1.0, 0.0, 0.0, 0.0], (1, model.nbody, 1))
    elif of in kinds:
        known, body = kinds[of].names, kinds[of].body
        places = {f"{of}_pos": kinds[of].pos, f"{of}_quat": kinds[of].quat}
        pos, quat = (_batched(held, name) if name in held.values else x[None] for name, x in places.items())
    else:
        raise PullbackError(f"of={of!r} is not known: use 'body', 'geom', 'site', 'camera' or 'com'")
    which = np.arange(len(known))
    if names is not None:
        names = (names,) if isinstance(names, str) else names
        if not isinstance(names, Sequence):
            raise PullbackError(f"names must be a name or several, not {type(names).__name__}")
        missing = [name for name in names if name not in known]
        if missing:
            raise PullbackError(f"there is no {of} {missing[0]!r}; there are {', '.join(known) or 'none'}")
        which = np.array([known.index(name) for name in names], dtype=int)
    return Frames(of, which, body[which], pos[:, which], unit(quat[:, which]))


def upload_frames(frames: Frames | None, system: Articulated):
    """The kernels' struct of frames; without frames its arrays are empty and never read."""
    kernels = specialise(system.dtype, "tree.algorithms")
    held = kernels.Frames()
    if frames is not None:
        held.body = wp.array(np.asarray(frames.body, np.int32), dtype=wp.int32, device=system.device)
        for name, kind in (("pos", kernels.vec3), ("quat", kernels.vec4)):
            array = upload_per_world(getattr(frames, name), kind, system.worlds, system.dtype, system.device)
            setattr(held, name, array)
    return held


def empty_bars(frames: Frames | None, system: Articulated):
    """The kernels' struct of cotangents of places, filled with zeros."""
    kernels = specialise(system.dtype, "tree.algorithms")
    bars, shape = kernels.FrameBars(), (system.worlds, 0 if frames is None else len(frames))
    bars.pos, bars.turn = (wp.zeros(shape, dtype=kernels.vec3, device=system.device) for _ in range(2))
    return bars


def _batched(params: KernelParams, name: str) -> np.ndarray:
    """A value with a leading axis of 1 or worlds."""
    value = np.asarray(params.values[name], dtype=float)
    return value if params.per_world[name] else value[None]
