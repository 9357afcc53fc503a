"""Shapes, which of them may touch, and the contact models."""

from pullback.contact.far import Far
from pullback.contact.models import (
    CONTACT_NAMES,
    Contact,
    ContactCompliant,
    ContactConvex,
    ContactImpulse,
    ContactLongRange,
)
from pullback.contact.report import ContactPoints
from pullback.contact.scene import Scene

__all__ = [
    "CONTACT_NAMES",
    "Contact",
    "ContactCompliant",
    "ContactConvex",
    "ContactImpulse",
    "ContactLongRange",
    "ContactPoints",
    "Far",
    "Scene",
]
