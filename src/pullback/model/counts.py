"""Limits on the size that a model file may expand to: a few bytes can ask for more memory than any machine has.

Repetition (``<replicate>``, ``<flexcomp>``, ``<attach>``) multiplies elements, and MuJoCo's compile time grows with the
square of their number. Tables (height fields, textures, arrays of numbers) are checked one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from pullback.core.errors import PullbackError

if TYPE_CHECKING:
    from pullback.model.files import Element

MOST_ELEMENTS = 20_000  # that repetition may add: compiling them takes some minutes
MOST_NUMBERS = 50_000_000  # in one table: some hundred megabytes
MOST_LEVELS = 50  # of models attached to models
REMEDY = "use smaller numbers, or give a mujoco.MjSpec of the file if you trust it"

# Attributes whose product is the size of an element's table.
TABLES = {"hfield": ("nrow", "ncol"), "texture": ("width", "height"), "numeric": ("size",), "user": ("dim",)}


@dataclass
class Size:
    """The size of one model: its written elements, the elements they expand to, and the models that are attached."""

    written: int = 0
    unfolded: int = 0
    attached: int = 0  # copies of sub-models, in total
    models: list[str] = field(default_factory=list)  # files of the sub-models


def whole_numbers(text: str) -> list[int]:
    """The numbers in an attribute; empty if it contains anything else, which MuJoCo refuses."""
    try:
        return [int(float(word)) for word in text.split()]
    except (ValueError, OverflowError):
        return []


def repeats(element: Element) -> int:
    """The number of copies of its children that an element makes."""
    numbers = whole_numbers(element.attributes.get("count", "")) if element.tag == "replicate" else []
    return max(0, numbers[0]) if numbers else 1


def _elements(element: Element) -> int:
    """The number of elements that one copy of an element expands to."""
    given = element.attributes
    if element.tag == "flexcomp":
        vertices = prod(whole_numbers(given.get("count", "10 10 10")))
        return max(1, vertices, prod(1 + n for n in whole_numbers(given.get("cellcount", ""))))
    if element.tag == "size":
        return max(1, *whole_numbers(given.get("nkey", "1")))
    return 1


def _numbers(element: Element) -> int:
    """The size of an element's largest table."""
    given = element.attributes
    sizes = [prod(n for name in TABLES.get(element.tag, ()) for n in whole_numbers(given.get(name, "1"))[:1])]
    if element.tag == "mesh" and "builtin" in given:  # a generated surface of this resolution, with its convex hull
        sizes.append(50 * max(whole_numbers(given.get("params", "1")), default=1) ** 2)
    sizes += [n for name in given if name.startswith("nuser") for n in whole_numbers(given[name])]
    sizes += whole_numbers(given.get("nsample", ""))
    return max(sizes)


def measure(elements: Iterable[Element], document: str, size: Size) -> None:
    """Adds the elements of a document to the size of its model. A single element that is too large is an error."""
    for element in elements:
        count = element.copies * _elements(element)
        size.written += 1
        size.unfolded += count
        size.attached += element.copies if element.tag == "attach" else 0
        inside = element.copies * repeats(element) if element.tag == "replicate" else count
        if inside > MOST_ELEMENTS:
            raise PullbackError(f"{document}: {element} makes {inside} copies, more than {MOST_ELEMENTS}: {REMEDY}")
        numbers = element.copies * _numbers(element)
        if numbers > MOST_NUMBERS:
            raise PullbackError(f"{document}: {element} holds {numbers} numbers, more than {MOST_NUMBERS}: {REMEDY}")


def refuse_explosion(sizes: dict[str, Size], main: str, document: str) -> None:
    """Raises an error if a model, with everything that it attaches directly or indirectly, expands to too much."""
    unfolded: dict[str, int] = {}

    def count(name: str, above: tuple[str, ...]) -> int:
        if name in above or len(above) > MOST_LEVELS:
            raise PullbackError(
                f"{document}: the model {name} holds itself, or models in more than {MOST_LEVELS} levels"
            )
        if name not in unfolded:
            size = sizes[name]
            parts = [count(part, (*above, name)) for part in size.models if part in sizes]
            unfolded[name] = size.unfolded + size.attached * max(parts, default=0)
        return unfolded[name]

    added = count(main, ()) - sizes[main].written
    if added > MOST_ELEMENTS:
        raise PullbackError(f"{document} unfolds to {added} more elements, more than {MOST_ELEMENTS}: {REMEDY}")
