"""What is compiled in: whether bodies touch each other and themselves."""

import warp as wp

from . import compiled_for

SELF_CONTACT = wp.constant(compiled_for.self_contact)
