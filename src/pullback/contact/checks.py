"""What a file asks for that no contact model simulates, or not the one that was chosen: an error that names it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pullback.contact.models import Contact, ContactConvex
from pullback.contact.scene import Scene
from pullback.core.errors import PullbackError
from pullback.model import Model
from pullback.model.constraints import left_over
from pullback.model.unsupported import label, pair_label

SOLREF = "must be two positive numbers (time constant, damping ratio) or two negative ones (-k, -b)"


def refuse_left_over(model: Model) -> None:
    """Limits and friction loss of tendons, and contacts of flexes, unless they were left out on purpose."""
    for kind, element, what in left_over(model.mujoco):
        if kind not in model.ignored:
            raise PullbackError(
                f'{element} {what}, which is not supported: load the model with ignore=("{kind}",) to leave it out, or '
                "pass contact=None to switch off all contacts, limits and friction loss"
            )


def refuse_for(contact: Contact, scene: Scene) -> None:
    """What this contact model cannot do with the file's numbers."""
    if isinstance(contact, ContactConvex):
        _refuse_mixed_solref(scene)
    else:
        _refuse_torsion_and_rolling(contact, scene)
        _refuse_two_frictions(contact, scene)


def mixed_sign(solref: np.ndarray) -> np.ndarray:
    """Where one of the two numbers is positive and the other is not, (...): MuJoCo would replace both by defaults."""
    return (solref[..., 0] > 0) != (solref[..., 1] > 0)


def _solrefs(scene: Scene) -> Iterator[tuple[str, str, np.ndarray]]:
    """Every solref of the file that is used: whose it is, its attribute, its two numbers."""
    m = scene.model.mujoco
    for g in scene.geoms[scene.own_materials]:
        yield label(m, "geom", g), "solref", m.geom_solref[g]
    for p in scene.explicit:
        yield pair_label(m, p), "solref", m.pair_solref[p]
        if np.any(m.pair_solreffriction[p]):  # two zeros: the same as solref
            yield pair_label(m, p), "solreffriction", m.pair_solreffriction[p]
    for j in scene.limited:
        yield label(m, "joint", j), "solreflimit", m.jnt_solref[j]
    for i in scene.lossy:
        yield label(m, "joint", m.dof_jntid[i]), "solreffriction", m.dof_solref[i]


def _refuse_mixed_solref(scene: Scene) -> None:
    for element, attribute, solref in _solrefs(scene):
        if mixed_sign(solref):
            raise PullbackError(f"{attribute} of {element} is {solref[0]:g} {solref[1]:g}, but {SOLREF}")


def _refuse_torsion_and_rolling(contact: Contact, scene: Scene) -> None:
    beyond = np.flatnonzero(scene.pair_dim > 3)
    if not len(beyond):
        return
    raise PullbackError(
        f"torsional and rolling friction (condim 4 and 6) are not part of {type(contact).__name__}, and "
        f"{_source_of_condim(scene, int(beyond[0]))} has condim {scene.pair_dim[beyond[0]]}: set it to 3, or use "
        "ContactConvex"
    )


def _source_of_condim(scene: Scene, pair: int) -> str:
    """The explicit pair, or the geom, that a pair of shapes has its condim from."""
    m, shapes = scene.model.mujoco, len(scene.geoms)
    materials = scene.pair_materials[pair]
    if materials[0] >= shapes:
        return pair_label(m, scene.explicit[materials[0] - shapes])
    geoms = scene.geoms[materials]
    return label(m, "geom", geoms[np.argmax(m.geom_condim[geoms])])


def _refuse_two_frictions(contact: Contact, scene: Scene) -> None:
    m = scene.model.mujoco
    for p in scene.explicit:
        first, second = m.pair_friction[p, :2]
        if first != second and m.pair_dim[p] > 1:
            raise PullbackError(
                f"{pair_label(m, p)} has different friction in its two sliding directions, {first:g} and {second:g}, "
                f"which {type(contact).__name__} does not have: make them the same, or use ContactConvex"
            )
