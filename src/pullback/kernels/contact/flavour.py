"""What is compiled in: switches that branches in kernels are decided by at compile time."""

import warp as wp

from ..spatial.scalar import real
from . import compiled_for

# The contact model acts by forces, or by impulses, or the step minimises its potential, or there is none.
FORCES = wp.constant(compiled_for.model is not None and not (compiled_for.impulses or compiled_for.potential))
IMPULSES = wp.constant(compiled_for.impulses)
POTENTIAL = wp.constant(compiled_for.potential)
TRIANGLES = wp.constant(compiled_for.triangles)  # meshes are their triangles in it

# Every kind of pair, or only those with a closed form of a few lines.
ALL_SHAPES = wp.constant(compiled_for.all_shapes)

# Steps may be done in substeps; the contacts of MuJoCo's model then act for the share of time in which they are closed.
REFINED = wp.constant(compiled_for.refined)
SHARES = wp.constant(compiled_for.refined and compiled_for.model == "convex")

# There are tendons, or equality constraints that are a relation of one or two of these.
TENDONS = wp.constant(compiled_for.tendons)

# Some of them are paths through space, or none is.
SPATIAL = wp.constant(compiled_for.spatial)
WRAPS = wp.constant(compiled_for.wraps)  # that may wrap around geoms
FIXED_TENDONS = wp.constant(compiled_for.tendons and not compiled_for.spatial)

# Actuators have activations.
ACTIVATIONS = wp.constant(compiled_for.activations)

# Actuators do more than gain · drive + bias at a joint, a tendon or a site.
ACTUATORS = wp.constant(compiled_for.actuators)

# There are PID controllers or DC motors; these have activations and actuators too.
MOTORS = wp.constant(compiled_for.motors)

# Controls may reach their actuators late; there are activations too.
DELAYS = wp.constant(compiled_for.delays)

# There are servos that hold the orientation of a ball joint.
ORIENTATIONS = wp.constant(compiled_for.orientations)

# There are actuators that press a body against what it touches.
ADHESION = wp.constant(compiled_for.adhesion)

# Actuators push at sites.
SITES = wp.constant(compiled_for.sites)

# More than paths may couple joints by inertia.
TIED = wp.constant(compiled_for.spatial or compiled_for.actuators)

# Joint forces depend on where bodies are, so that their adjoint comes before the sweep inward.
PLACED_FORCES = wp.constant(compiled_for.sites or compiled_for.spatial or compiled_for.actuators)

# Poses of bodies may be inputs.
MOCAP = wp.constant(compiled_for.mocap)

# There are springs or dampers of joints or tendons with quadratic or cubic terms.
CURVED = wp.constant(compiled_for.curved)

# There are equality constraints that hold points or frames of two bodies together.
LOOPS = wp.constant(compiled_for.loops)
# Their law has the true acceleration of what they hold together, as MuJoCo's has, or what is linear in J alone.
TRUE_LOOPS = wp.constant(compiled_for.loops and compiled_for.model == "convex")
LINEAR_LOOPS = wp.constant(compiled_for.loops and compiled_for.model != "convex")

# There are flexes: cloth, soft solids, ropes.
FLEXES = wp.constant(compiled_for.flexes)

# A fluid meets geoms as ellipsoids.
ELLIPSOIDS = wp.constant(compiled_for.ellipsoids)

# Steps are implicit in forces that depend on velocities of bodies.
IMPLICIT = wp.constant(compiled_for.implicit)

# MuJoCo's sweeps against slip come after the convex problem.
NOSLIP = wp.constant(compiled_for.noslip)

# The backward pass adds the influence of shapes from afar.
FAR = wp.constant(compiled_for.far)

# Rows of a contact: normal, two tangents and, for torsional and rolling friction, rotations about these three.
ROWS = wp.constant(compiled_for.rows)
vecr = wp.types.vector(ROWS, real)
matr = wp.types.matrix((ROWS, ROWS), real)
