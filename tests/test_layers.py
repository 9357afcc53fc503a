"""The layers of the design: a package imports only from packages on lines above its own.

What holds exactly: `core`, `spatial` and `kernels` (line 0) import nothing of Pullback but themselves. Any other
package imports from lines above its own, never from a neighbour on the same line.
`pullback` itself (its `__init__`) imports what it likes; a package may import the names it offers only if it lies below
everything that `__init__` imports. `version` is free. Type-checking imports count like all others.

Kernel modules import each other relatively (each precision finds its own copy), from their own folder without a cycle
or from the folders that `KERNELS` allows theirs.
"""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "pullback"
LINES = [
    ("core", "spatial", "kernels"),
    ("model", "drawing"),
    ("contact",),
    ("dynamics", "thermal", "soft"),
    ("rollout", "coupled"),
    ("torch", "jax", "plan", "reach"),
    ("neural", "dexterous"),
    ("tasks", "envs"),
    ("learn",),
    ("view",),
    ("scale",),
    ("cli",),
]
LINE = {package: number for number, packages in enumerate(LINES) for package in packages}
KERNELS = {
    "spatial": (),
    "elastic": ("spatial",),
    "tree": ("spatial",),
    "collision": ("spatial", "tree"),
    "contact": ("spatial", "tree", "collision"),
    "heat": ("spatial",),
    "soft": ("spatial",),
    "reach": ("spatial", "tree"),
}


def imported(source: str, module: tuple[str, ...], *, top_level_only: bool = False) -> list[tuple[tuple, bool]]:
    """What a module imports of Pullback, as dotted parts after "pullback", and whether it was written relatively.

    ``module`` is the module's own path after "pullback"; a package's __init__ is its last part.
    """
    tree = ast.parse(source)
    found = []
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(tuple(a.name.split(".")[1:]), False) for a in node.names if a.name.split(".")[0] == "pullback"]
        elif isinstance(node, ast.ImportFrom):
            written = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = module[: len(module) - node.level] + written
            elif written[:1] == ("pullback",):
                base = written[1:]
            else:
                continue
            found += [((*base, alias.name), bool(node.level)) for alias in node.names]
    return found


def violations(sources: dict[tuple[str, ...], str]) -> list[str]:
    """One line for each import that breaks a rule, from the text of every module by its path after "pullback"."""
    offered = [target[0] for target, _ in imported(sources.get(("__init__",), ""), ("__init__",), top_level_only=True)]
    lowest = max((LINE[package] for package in offered if package in LINE), default=-1)
    wrong, kernel_files = [], {}
    for module, source in sources.items():
        package = module[0]
        if len(module) == 1:
            if package not in ("__init__", "__main__", "version"):
                wrong.append(f"{package}: a module that belongs to no package")
            continue
        if package not in LINE:
            wrong.append(f"{package}: not in the table of layers")
            continue
        for target, relative in imported(source, module):
            other, where = target[0] if target else "", f"{'.'.join(module)} imports {'.'.join(target) or 'pullback'}"
            if other == "version" or (other == package and package != "kernels"):
                continue
            if other == "kernels" == package:
                if len(target) > 3:  # else it is about all folders: the status of worlds, what is compiled for
                    kernel_files.setdefault(module[1:], set()).add(target[1:3])
                if not relative:
                    wrong.append(f"{where}: kernel modules import each other relatively")
            elif other not in LINE:  # a name that pullback itself offers
                if LINE[package] <= lowest:
                    wrong.append(f"{where}: from pullback itself, which lies below")
            elif LINE[other] >= LINE[package]:
                wrong.append(f"{where}: not from a line above")
    return wrong + kernel_violations(kernel_files)


def kernel_violations(files: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[str]:
    wrong = []
    for name, targets in files.items():
        allowed = (name[0], *KERNELS[name[0]])
        wrong += [f"kernels.{'.'.join(name)} imports {'.'.join(t)}" for t in targets if t[0] not in allowed]

    for name in files:
        reached, new = set(), set(files[name])
        while new:
            reached |= new
            new = set().union(*(files.get(t, set()) for t in new)) - reached
        wrong += [f"kernels.{'.'.join(name)} imports itself in a circle"] if name in reached else []
    return wrong


def all_sources() -> dict[tuple[str, ...], str]:
    files = sorted(SOURCES.rglob("*.py"))
    return {path.relative_to(SOURCES).with_suffix("").parts: path.read_text() for path in files}


def test_packages_import_only_from_above():
    sources = all_sources()
    assert len(sources) > 20
    assert violations(sources) == []


PLANTED = {
    "upwards": (("model", "load"), "from pullback.dynamics import Articulated"),
    "a neighbour": (("thermal", "heat"), "import pullback.dynamics.params as p"),
    "a neighbour on the first line": (("core", "arrays"), "from pullback.spatial import quat_mul"),
    "kernels into core": (("core", "arrays"), "from pullback import kernels"),
    "core into kernels": (("kernels", "contact", "step"), "from pullback.core.errors import PullbackError"),
    "relative": (("model", "robots", "arms"), "from ...rollout.run import rollout"),
    "inside a function": (("rollout", "run"), "def f():\n    import pullback.torch"),
    "for type checking": (("core", "system"), "if TYPE_CHECKING:\n    from pullback.model import Model"),
    "pullback itself": (("model", "load"), "import pullback as pb"),
    "a name of pullback": (("dynamics", "launch"), "from pullback import load"),
    "view into cli": (("view", "replay"), "from pullback.cli import main"),
    "environments know no learning": (("envs", "ant"), "from pullback.learn import SAPO"),
    "an unknown package": (("extra", "more"), "x = 1"),
    "a stray module": (("helpers",), "x = 1"),
    "kernel order": (("kernels", "spatial", "algebra"), "from ..tree.sweeps import outward"),
    "kernel into a kernel file": (("kernels", "tree", "sweeps"), "from ..contact.step import step"),
    "detection knows no contact model": (("kernels", "collision", "features"), "from ..contact.flavour import ROWS"),
    "heat knows no robots": (("kernels", "heat", "path"), "from ..tree.structs import Tree"),
    "absolute kernel": (("kernels", "contact", "step"), "from pullback.kernels.spatial.algebra import ang"),
}
FINE = {
    "the line above": (("model", "load"), "from pullback.core.errors import PullbackError"),
    "far above": (("learn", "train"), "from pullback.kernels import specialise\nfrom pullback.rollout import rollout"),
    "itself": (("dynamics", "params"), "from pullback.dynamics.tree import Layout\nfrom .launch import Lane"),
    "pullback itself, from below": (("tasks", "swing"), "import pullback as pb\nfrom pullback import load"),
    "commands show what the viewer draws": (("cli", "view"), "from pullback.view import write_replay"),
    "version": (("core", "system"), "from pullback.version import __version__"),
    "others": (("core", "system"), "import numpy as np\nfrom torch import nn"),
    "kernels": (("kernels", "tree", "sweeps"), "from ..spatial.algebra import ang\nfrom .structs import Tree"),
    "contact models": (("kernels", "contact", "convex"), "from .collide import detect\nfrom .law import spring"),
    "kernel files": (("kernels", "contact", "step_adjoint"), "from .step import step\nfrom ..tree.sweeps import solve"),
}
OFFERS = {("__init__",): "from pullback.core.system import State\nfrom pullback.rollout import rollout"}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_violation_is_found(kind):
    module, source = PLANTED[kind]
    assert len(violations({**OFFERS, module: source})) == 1


@pytest.mark.parametrize("kind", FINE)
def test_what_is_allowed_is_not_reported(kind):
    module, source = FINE[kind]
    assert violations({**OFFERS, module: source}) == []


def test_a_circle_of_kernel_files_is_found():
    one, other = ("kernels", "contact", "step"), ("kernels", "contact", "step_adjoint")
    circle = {one: "from .step_adjoint import f", other: "from .step import g"}
    assert len(violations(circle)) == 2
