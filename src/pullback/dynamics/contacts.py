"""The kernels' structs of a Scene: shapes, pairs, and the workspace of contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np
import warp as wp

from pullback.contact import Contact, ContactPoints, Scene
from pullback.contact.points import inner_radii, pair_masses
from pullback.core.arrays import PRECISIONS, require_space
from pullback.core.trees import tree_map
from pullback.dynamics.activations import activation_sizes, activations_struct, delays_struct
from pullback.dynamics.actuators import actuators_struct, site_pairs_struct
from pullback.dynamics.ellipsoids import ellipsoids_struct
from pullback.dynamics.flexes import flex_sizes, flexes_struct
from pullback.dynamics.health import check_health
from pullback.dynamics.implicit import implicit_struct
from pullback.dynamics.loops import loops_struct
from pullback.dynamics.motors import motors_struct, orientations_struct
from pullback.dynamics.sites import sites_struct
from pullback.dynamics.spans import spans_struct
from pullback.dynamics.tendons import TendonLayout, tendon_sizes
from pullback.dynamics.tree import Layout, zeros_struct
from pullback.dynamics.weights import InverseWeights
from pullback.kernels import Flavour, specialise
from pullback.kernels.status import HEALTHY
from pullback.model.unsupported import Disable, disabled

if TYPE_CHECKING:
    from pullback.dynamics.articulated import Articulated
    from pullback.dynamics.params import KernelParams


def shapes_struct(
    scene: Scene | None,
    contact: Contact | None,
    layout: Layout,
    weights: InverseWeights,
    precision: str,
    device: str,
):
    """The kernels' Shapes; without a scene, an empty one that no kernel reads."""
    module = specialise(precision, "collision.shapes")
    shapes = module.Shapes()
    if scene is None:
        return shapes
    m = scene.model.mujoco
    ints = lambda x: wp.array(np.asarray(x, dtype=np.int32), dtype=wp.int32, device=device)  # noqa: E731
    reals = lambda x: wp.array(np.asarray(x, dtype=precision), dtype=PRECISIONS[precision], device=device)  # noqa: E731

    def vectors(x, dtype, size: int):
        x = np.asarray(x, dtype=precision)
        return wp.array(np.pad(x, ((0, 0), (0, size - x.shape[1]))), dtype=dtype, device=device)

    vec3, vec6 = module.vec3, module.vec6
    hulls = scene.hulls
    shapes.kind, shapes.body = ints(scene.kind), ints(scene.body)
    shapes.first_vertex, shapes.radius = ints(hulls.first_vertex), reals(hulls.radius)
    for name in module.Mesh.vars:
        array = getattr(hulls, name)
        setattr(shapes.mesh, name, vectors(array, vec3, 3) if array.ndim == 2 else ints(array))
    grid, grid_size = scene.grids
    shapes.grid = wp.array(grid.astype(np.int32), dtype=wp.vec2i, device=device)
    shapes.grid_size = vectors(grid_size, vec3, 3)
    shapes.fence, shapes.plane_pairs = reals(scene.fences), scene.plane_pairs
    shapes.pair_of = wp.array(scene.pair_of, dtype=wp.int32, device=device)
    shapes.pair_first, shapes.pair_second = ints(scene.pair_shapes[:, 0]), ints(scene.pair_shapes[:, 1])
    margins = contact.margins(scene.pair_margin.astype(precision))
    shapes.pair_dim, shapes.pair_margin, shapes.pair_gap = ints(scene.pair_dim), reals(margins), reals(scene.felt_gap)
    shapes.pair_material1, shapes.pair_material2 = ints(scene.pair_materials[:, 0]), ints(scene.pair_materials[:, 1])
    shapes.pair_share1 = reals(scene.pair_share)
    shapes.pair_weight = ints(weights.pair)
    shapes.pair_solref_friction = vectors(scene.pair_solref_friction, vec3, 3)

    # limits and friction losses: those of joints, then those of tendons
    limited, lossy, ropes, cords = scene.limited, scene.lossy, scene.limited_tendons, scene.lossy_tendons
    shapes.joint_width = scene.joint_width
    shapes.limit_joint = ints([np.flatnonzero(layout.source == j)[0] for j in limited])
    shapes.limit_margin = reals(np.append(m.jnt_margin[limited], m.tendon_margin[ropes]))
    shapes.limit_weight = ints(np.append(weights.limit, weights.tendon_limit))
    shapes.limit_arm = reals([_arm(m, j) for j in limited])
    shapes.loss_dof, shapes.loss_weight = ints(lossy), ints(np.append(weights.loss, weights.tendon_loss))
    shapes.loss_solref = vectors(np.append(m.dof_solref[lossy], m.tendon_solref_fri[cords], axis=0), vec3, 3)
    shapes.loss_solimp = vectors(np.append(m.dof_solimp[lossy], m.tendon_solimp_fri[cords], axis=0), vec6, 6)

    if contact.potential:
        shapes.first_point, shapes.point = ints(scene.points.first), vectors(scene.points.local, vec3, 3)
        shapes.has_friction = int(not contact.frictionless and np.any(scene.pair_dim > 1))
        shapes.pair_mass, shapes.inner_radius = reals(pair_masses(scene)), reals(inner_radii(scene))
        if contact.has_triangles(scene):
            balls = scene.balls
            shapes.balls.root, shapes.balls.child = ints(balls.root), ints(balls.child)
            shapes.balls.blend = contact.blend
            shapes.balls.centre, shapes.balls.corners = vectors(balls.centre, vec3, 3), vectors(balls.corners, vec3, 3)
            for name in ("radius", "spread", "share"):
                setattr(shapes.balls, name, reals(getattr(balls, name)))
            thin = np.where(balls.root >= 0, np.minimum(inner_radii(scene), balls.thickness), inner_radii(scene))
            shapes.inner_radius = reals(thin)
    if far := contact.far:
        points = far.points(scene)
        shapes.first_point, shapes.point = ints(points.first), vectors(points.local, vec3, 3)
        shapes.far_strength, shapes.far_inset = reals(far.strengths(scene)), reals(far.insets(scene))
        shapes.far_length = far.length_of(scene)
    shapes.one_contact = int(disabled(m, Disable.mjDSBL_MULTICCD))
    for name in contact.settings:
        setattr(shapes, name, getattr(contact, name))
    shapes.root_mass = reals(np.where(m.dof_parentid < 0, m.body_subtreemass[m.dof_bodyid], 0.0))
    shapes.elliptic = int(m.opt.cone == 1)
    shapes.impratio = m.opt.impratio
    shapes.shortest_time = 0.0 if disabled(m, Disable.mjDSBL_REFSAFE) else 2 * m.opt.timestep
    return shapes


def contact_workspace(
    scene: Scene | None,
    contact: Contact | None,
    flavour: Flavour,
    device: str,
    slots: int,
    most: int,
    nv: int,
    lanes: int,
    tendons: TendonLayout,
    weights: InverseWeights,
    substeps: int,
):
    """The kernels' Contacts and Rows for ``slots`` worlds at a time with at most ``most`` contacts in each.

    lanes: the number of such workspaces, for the check of the memory; substeps: the most per refined step
    """
    contacts, rows = specialise(flavour.precision, "collision.shapes").Contacts, specialise(flavour, "rows")
    if contact is None and not (flavour.tendons or flavour.flexes or flavour.ellipsoids or flavour.implicit):
        return contacts(), rows.Rows()
    memory = {"copies": lanes, "what": f"the workspace for {most} contacts", "remedy": "use a lower max_contacts"}
    of_shapes = dict.fromkeys(("x", "R", "order", "low", "high"), 0 if scene is None else len(scene.geoms))
    approaches = most if scene is not None and scene.has_side_lines else 0
    sizes = {n: ({"count": 1, "approach": approaches, **of_shapes}.get(n, most), slots) for n in contacts.vars}
    along = (
        free_sizes(nv if flavour.tendons or flavour.implicit else 0)
        if contact is None
        else contact.workspace(scene, most, nv)
    )
    along |= tendon_sizes(tendons) | activation_sizes(tendons.model, substeps) | flex_sizes(tendons.model.flexes)
    along |= {"tree body": (tendons.model.nbody,), "tree dof": (nv,)}
    along |= {"loop": (0 if scene is None else len(scene.loops.index),)}
    shapes = {n: (*along[kind], slots) for n, kind in rows.ALONG.items()}
    result = zeros_struct(contacts, sizes, device, **memory), zeros_struct(rows.Rows, shapes, device, **memory)
    if flavour.tendons:
        result[1].tendons = tendons.struct(flavour, weights, device)
    if flavour.spatial:
        result[1].spans = spans_struct(tendons, flavour, device)
    if flavour.sites:
        result[1].sites = sites_struct(tendons, flavour, device)
    if flavour.noslip:
        result[1].noslip = noslip_struct(scene, flavour, device)
    if flavour.activations:
        result[1].activations = activations_struct(tendons.model, flavour, device)
    if flavour.delays:
        result[1].delays = delays_struct(tendons.model, flavour, device)
    if flavour.actuators:
        result[1].actuators = actuators_struct(tendons, flavour, device)
    if flavour.motors:
        result[1].motors = motors_struct(tendons.model, flavour, device)
    if flavour.orientations:
        result[1].orientations = orientations_struct(tendons.model, flavour, device)
    if flavour.adhesion:
        result[1].adhesion = adhesion_struct(tendons, flavour, device)
    if flavour.actuators and flavour.sites:
        result[1].site_pairs = site_pairs_struct(tendons, flavour, device)
    if flavour.flexes:
        result[1].flexes = flexes_struct(tendons.model.flexes, flavour, device)
    if flavour.ellipsoids:
        result[1].ellipsoids = ellipsoids_struct(tendons.model, flavour, device)
    if flavour.implicit:
        result[1].implicit = implicit_struct(tendons.model, flavour, device)
    if flavour.loops:
        result[1].loops = loops_struct(scene, flavour, weights, device)
    return result


def noslip_struct(scene: Scene, flavour: Flavour, device: str):
    """The kernels' NoSlip."""
    m, result = scene.model.mujoco, specialise(flavour, "noslip_fields").NoSlip()
    result.sweeps, result.tolerance = int(m.opt.noslip_iterations), float(m.opt.noslip_tolerance)
    result.by_island = int(not disabled(m, Disable.mjDSBL_ISLAND))
    result.rank = wp.array(scene.pair_ranks.astype(np.int32), dtype=wp.int32, device=device)
    return result


def adhesion_struct(tendons: TendonLayout, flavour: Flavour, device: str):
    """The kernels' Adhesion."""
    result, model = specialise(flavour, "rows").Adhesion(), tendons.model
    actuators = np.flatnonzero(model.actuator_body >= 0)
    for name, numbers in (("actuator", actuators), ("body", model.actuator_body[actuators])):
        setattr(result, name, wp.array(numbers.astype(np.int32), dtype=wp.int32, device=device))
    return result


def free_sizes(nv: int) -> dict[str, tuple[int, ...]]:
    """The lengths of the arrays of ``kernels/contact/rows.py`` without contacts, with room for an nv × nv matrix."""
    none = dict.fromkeys(("contact", "chain", "joint row", "joint chain"), (0,))
    return none | {"world": (1,), "dof": (nv,), "entry": (nv * nv,)}


def _arm(m, joint: int) -> float:
    """The inertia that a joint moves, divided by the mass that it carries, in the file's pose [m² or 1]."""
    first = m.jnt_dofadr[joint]
    size = 3 if m.jnt_type[joint] == mujoco.mjtJoint.mjJNT_BALL else 1
    mass = m.body_subtreemass[m.jnt_bodyid[joint]]
    return m.dof_M0[first : first + size].max() / mass if mass > 0 else 0.0


def read_contacts(system: Articulated, state, controls: wp.array, applied, params: KernelParams):
    """One :class:`ContactPoints` per world."""
    kernels = specialise(system._flavour, "report")
    worlds, most, device = system.worlds, system.max_contacts, system.device
    require_space((worlds, most), kernels.vec3, device, f"a list of {most} contacts", "use a lower max_contacts")
    status = wp.full((worlds, 2), HEALTHY, dtype=wp.int32, device=device)
    count = wp.zeros(worlds, dtype=wp.int32, device=device)
    pair = wp.zeros((worlds, most), dtype=wp.int32, device=device)
    dist = wp.zeros((worlds, most), dtype=PRECISIONS[system.dtype], device=device)
    pos, normal, force, moment = (wp.zeros((worlds, most), dtype=kernels.vec3, device=device) for _ in range(4))
    system._launch(
        kernels.contact_report,
        (system._tree, system._shapes, params.struct),
        (controls, applied),
        (*system._kernel_state(state), status, count, pair, pos, normal, dist, force, moment),
        with_contacts=True,
    )
    check_health(system, status, controls, tree_map(lambda x: x.reshape((1, *x.shape)), state))
    scene, names = system._scene, system.model.geoms.names
    count, pair, dist, *vectors = (x.numpy() for x in (count, pair, dist, pos, normal, force, moment))
    found = []
    for world in range(worlds):
        n = count[world]
        ids = scene.geoms[scene.pair_shapes[pair[world, :n]]].reshape(n, 2)
        pos, normal, force, moment = (x[world, :n].copy() for x in vectors)
        geoms = tuple((names[a], names[b]) for a, b in ids)
        found.append(ContactPoints(geoms, ids, pos, normal, dist[world, :n].copy(), force, moment))
    return tuple(found)
