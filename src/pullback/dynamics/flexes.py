"""Flexes (deformable objects), as the kernels' struct, and their parameters."""

from __future__ import annotations

import numpy as np
import warp as wp

from pullback.core.arrays import PRECISIONS
from pullback.core.params import Parameter, not_negative
from pullback.kernels import Flavour, specialise
from pullback.model import Model
from pullback.model.model import Flexes


def flexes_struct(flexes: Flexes, flavour: Flavour, device: str):
    """The kernels' Flexes."""
    module = specialise(flavour, "flex_rows")
    result, numbers = module.Flexes(), np.searchsorted(flexes.used, np.arange(len(flexes.names)))
    real, vec3, vec6 = PRECISIONS[flavour.precision], module.vec3, module.vec6
    kinds = {
        **{"place": ("vertex_place", vec3), "rest": ("rest", real)},
        **{"triangle_A": ("triangle_A", module.mat33), "triangle_b": ("triangle_b", vec3)},
        **{"solid_A": ("solid_A", module.mat66), "solid_b": ("solid_b", vec6)},
        **{"hinge_Q": ("hinge_Q", module.mat44), "hinge_curve": ("hinge_curve", real)},
        **{"body": ("vertex_body", wp.int32), "edge": ("edge", wp.vec2i), "hinge": ("hinge", wp.vec4i)},
        **{"triangle_edge": ("triangle_edge", wp.int32), "solid_edge": ("solid_edge", wp.int32)},
    }
    for name, (source, kind) in kinds.items():
        whole = kind in (wp.int32, wp.vec2i, wp.vec4i)
        value = getattr(flexes, source).astype(np.int32 if whole else flavour.precision)
        setattr(result, name, wp.array(value, dtype=kind, device=device))
    for name in ("edge_flex", "triangle_flex", "solid_flex", "hinge_flex"):
        value = numbers[getattr(flexes, name)].astype(np.int32)
        setattr(result, name, wp.array(value, dtype=wp.int32, device=device))
    return result


def flex_sizes(flexes: Flexes) -> dict[str, tuple[int, ...]]:
    """The lengths of the arrays of ``kernels/contact/rows.py`` that flexes need."""
    return {"flex vertex": (len(flexes.vertex_body),), "flex edge": (len(flexes.edge),)}


def flex_parameters(model: Model) -> dict[str, Parameter]:
    """The material parameters of flexes."""
    flexes, of = model.flexes, model.flexes.used
    if not len(of):
        return {}

    def law(unit: str, value: np.ndarray, number: int) -> Parameter:
        place = {"field": "flex", "of": of, "blank": np.zeros((len(of), 6)), "at": (slice(None), number)}
        return Parameter(unit, ("flex",), value, not_negative, **place)

    return {
        "flex_shear": law("Pa, or N/m", flexes.shear, 0),
        "flex_lame": law("Pa, or N/m", flexes.lame, 1),
        "flex_damping": law("s", flexes.damping, 2),
        "flex_edge_stiffness": law("N/m", flexes.edge_stiffness, 3),
        "flex_edge_damping": law("N·s/m", flexes.edge_damping, 4),
        "flex_bending": law("1", flexes.bending, 5),
    }
