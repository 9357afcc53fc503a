"""Contacts and constraints in a file that no contact model, or not the chosen one, simulates: errors that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pullback.contact.params import SOLREF, mixed_sign
from pullback.contact.scene import HEIGHT_FIELD, Scene, contact_complaints
from pullback.core.errors import PullbackError
from pullback.model.actuators import felt_actuators
from pullback.model.constraints import left_over
from pullback.model.integrators import depends_on_velocities
from pullback.model.tendons import equality_dofs, tendon_dofs
from pullback.model.unsupported import Complaint, describe, equality_label, ignoring, label, pair_label

if TYPE_CHECKING:
    from pullback.contact.models import Contact


def refuse_unsupported(contact: Contact, scene: Scene) -> None:
    """Raises one error that names all of the file's contacts and other constraints that are not simulated."""
    complaints = [one for one in left_over(scene.model.mujoco) if one[0] not in scene.model.ignored]
    complaints += contact_complaints(scene)
    complaints += fields_from_afar(contact, scene)
    complaints += contact.complaints(scene)
    if complaints:
        without = f", load it with {ignoring(complaints)} to leave out what that names" if ignoring(complaints) else ""
        raise PullbackError(
            f"not supported: {describe(complaints)}. Change the model{without}, or pass contact=None to switch off all "
            "contacts, limits, friction loss and equality constraints"
        )


def fields_from_afar(contact: Contact, scene: Scene) -> Iterator[Complaint]:
    if contact.far is not None:
        for g in scene.geoms[scene.kind == HEIGHT_FIELD]:
            yield "", label(scene.model.mujoco, "geom", g), "is a height field, unsupported by far=Far()"


def _solrefs(scene: Scene) -> Iterator[tuple[str, str, np.ndarray]]:
    """All solrefs of the file that are used: the element, the attribute, and the two numbers."""
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
    for t in scene.limited_tendons:
        yield label(m, "tendon", t), "solreflimit", m.tendon_solref_lim[t]
    for t in scene.lossy_tendons:
        yield label(m, "tendon", t), "solreffriction", m.tendon_solref_fri[t]
    for e in scene.all_equalities:
        yield equality_label(m, e), "solref", m.eq_solref[e]


def mixed_solrefs(scene: Scene) -> Iterator[Complaint]:
    for element, attribute, solref in _solrefs(scene):
        if mixed_sign(solref):
            yield "", f"{attribute} of {element}", f"is {solref[0]:g} {solref[1]:g}, but {SOLREF}"


def tendons_and_equalities(contact: Contact, scene: Scene) -> Iterator[Complaint]:
    """Couplings of joints that the contact model does not support, or whose implicit treatment it does not support."""
    alone = f"which {type(contact).__name__} does not have: use ContactConvex"
    for k in felt_actuators(scene.model):
        what = f"has feedback of velocity that {scene.model.integrator} treats implicitly"
        yield "", f"actuator {scene.model.actuator_names[k]!r}", f"{what}, {alone}"
    if scene.model.integrator == "implicit":
        yield "", "option", f'has the integrator "implicit", {alone}, or load it with integrator="implicitfast"'
    elif depends_on_velocities(scene.model):
        yield "fluid", "option", f"has a fluid whose drag implicitfast treats implicitly, {alone}"
    for u in np.flatnonzero(scene.model.actuator_body >= 0):
        yield "", f"actuator {scene.model.actuator_names[u]!r}", f"is adhesion, {alone}"
    if contact.couples:
        return
    m, tendons = scene.model.mujoco, scene.model.acting_tendons
    only = f"which {type(contact).__name__} does not have: use ContactConvex, ContactImpulse or ContactCompliant"
    for t in np.union1d(np.union1d(scene.limited_tendons, scene.lossy_tendons), tendons).astype(int):
        yield "tendon", label(m, "tendon", t), f"acts, {only}"
    for u in np.flatnonzero(scene.model.actuator_site >= 0):
        yield "", f"actuator {scene.model.actuator_names[u]!r}", f"pushes at a site, {only}"
    for u in scene.model.motors.ids:
        yield "", f"actuator {scene.model.actuator_names[u]!r}", f"is a motor with states of its own, {only}"
    for u in scene.model.delays.ids:
        yield "", f"actuator {scene.model.actuator_names[u]!r}", f"delays its control, {only}"
    for u in scene.model.orientations.ids:
        yield "", f"actuator {scene.model.actuator_names[u]!r}", f"holds an orientation, {only}"
    for e in scene.all_equalities:
        yield "equality", equality_label(m, e), f"is a constraint {only}"


def many_trees(contact: Contact, scene: Scene) -> Iterator[Complaint]:
    """Rows of tendons that join more than two trees of bodies: kernels with impulses support two trees per row."""
    m = scene.model.mujoco
    rows = {
        label(m, "tendon", t): ("tendon", tendon_dofs(m, t)) for t in (*scene.limited_tendons, *scene.lossy_tendons)
    }
    rows |= {equality_label(m, e): ("equality", equality_dofs(m, e)) for e in scene.equalities}
    for element, (kind, dofs) in rows.items():
        trees = len(np.unique(m.dof_treeid[dofs]))
        if trees > 2:
            yield (
                kind,
                element,
                f"joins {trees} trees of bodies, and a row of {type(contact).__name__} no more than two",
            )


def sweeps_against_slip(contact: Contact, scene: Scene) -> Iterator[Complaint]:
    if scene.noslip:
        yield (
            "",
            "option",
            f"has noslip_iterations, which {type(contact).__name__} does not: set it to 0, or use ContactConvex",
        )


def torsion_and_rolling(contact: Contact, scene: Scene) -> Iterator[Complaint]:
    beyond = np.flatnonzero(scene.pair_dim > 3)
    found = dict.fromkeys((_source_of_condim(scene, int(pair)), int(scene.pair_dim[pair])) for pair in beyond)
    for element, dim in found:
        what = f"which {type(contact).__name__} does not have: set it to 3, or use ContactConvex"
        yield "", element, f"has condim {dim}, torsional and rolling friction, {what}"


def _source_of_condim(scene: Scene, pair: int) -> str:
    """The explicit pair, or the geom, that sets the condim of a pair of shapes."""
    m, shapes = scene.model.mujoco, len(scene.geoms)
    materials = scene.pair_materials[pair]
    if materials[0] >= shapes:
        return pair_label(m, scene.explicit[materials[0] - shapes])
    geoms = scene.geoms[materials]
    return label(m, "geom", geoms[np.argmax(m.geom_condim[geoms])])


def two_frictions(contact: Contact, scene: Scene) -> Iterator[Complaint]:
    m = scene.model.mujoco
    for p in scene.explicit:
        first, second = m.pair_friction[p, :2]
        if first != second and m.pair_dim[p] > 1:
            what = f"which {type(contact).__name__} does not have: make them the same, or use ContactConvex"
            unlike = f"has different friction in its two sliding directions, {first:g} and {second:g}, {what}"
            yield "", pair_label(m, p), unlike
