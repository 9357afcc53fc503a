"""The public names, from their docstrings: docs/reference.md, and what the site makes of it.

docs/reference.md is an index that can be read as it is: below each line ``<!-- names of MODULE -->`` stands a table of
what ``MODULE.__all__`` offers, one line each. This program writes the tables anew, and tests/test_site.py says when
that is due:

    python docs/hooks/reference.py

As a hook of mkdocs it puts signatures and whole docstrings in place of the tables.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parents[1] / "reference.md"
WIDTH = 88  # of a signature in one line [characters]
NAMED = r"^((?:\w|, )+): +"  # how a line of a docstring begins that says what an argument is


def on_page_markdown(markdown: str, page, **_) -> str:
    return filled(markdown, names_of) if page.file.src_uri == PAGE.name else markdown


def filled(markdown: str, section: Callable[[str], str]) -> str:
    """The page with ``section(module)`` below each of its marks, in place of what stands there."""

    def below(found: re.Match) -> str:
        return f"{found[0].splitlines()[0]}\n\n{section(found[1])}\n\n"

    return re.sub(r"^<!-- names of ([\w.]+) -->\n(?:(?!## ).*\n)*", below, markdown, flags=re.M).rstrip() + "\n"


def index_of(module_name: str) -> str:
    """A table of the names, with the first sentence of each docstring."""
    rows = [f"| `{module_name}.{name}` | {summary(thing)} |" for name, thing in public(module_name)]
    return "\n".join(["| name | |", "|---|---|", *rows])


def summary(thing) -> str:
    if isinstance(thing, dict | tuple):
        return ", ".join(f"`{name}`" for name in thing)
    if isinstance(thing, str):
        return f"`{thing!r}`"
    first = " ".join(marked(inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return escaped(re.match(r"(.+?\.)(?= [A-Z])|.*", first)[0])


def public(module_name: str) -> list[tuple[str, object]]:
    module = pkgutil.resolve_name(module_name)
    return [(name, getattr(module, name)) for name in module.__all__ if not name.startswith("_")]


def names_of(module_name: str) -> str:
    """All of the names, with signatures and docstrings."""
    return "\n\n".join(entry(f"{module_name}.{name}", thing) for name, thing in public(module_name))


def entry(title: str, thing) -> str:
    heading = f"### `{title}` {{ data-toc-label='{title.rsplit('.', 1)[1]}' }}"  # the menu beside it has little room
    parts = [heading, block("python", signature(title, thing))]
    if not isinstance(thing, dict | str | tuple):  # whose docstring is that of their class
        parts.append(prose(inspect.getdoc(thing)))
    if inspect.isclass(thing):
        parts += [f"{block('python', text)}\n\n{doc}" for text, doc in methods(thing)]
    return "\n\n".join(part for part in parts if part)


def methods(thing: type):
    """Signature and docstring of what a class adds to its parents, where it says what that is."""
    for name, member in vars(thing).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        text = f".{name}" if isinstance(member, property) else signature(f".{name}", function)
        yield text, prose(inspect.getdoc(function))


def signature(title: str, thing) -> str:
    if isinstance(thing, dict | tuple):
        return f"{title}: {', '.join(thing)}"
    if isinstance(thing, str):
        return f"{title} = {thing!r}"
    try:
        found = inspect.signature(thing) if callable(thing) else None
    except ValueError:  # exceptions and the like, which take what they are given
        found = None
    return title if found is None else spelled(title, found)


def spelled(title: str, found: inspect.Signature) -> str:
    """A signature in one line, or one line an argument. Annotations lose the quotes they have as strings."""
    arguments = []
    for each in found.parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        if each.name != "self":
            arguments.append(str(each))
    gives = "" if found.return_annotation in (found.empty, None, "None") else f" -> {found.return_annotation}"
    line = f"{title}({', '.join(arguments)}){gives}"
    if len(line) > WIDTH:
        line = f"{title}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){gives}"
    return re.sub(r"(: |-> )(?:ForwardRef\('([^'\n]*)'\)|'([^'\n]*)')", lambda m: m[1] + (m[2] or m[3]), line)


def prose(doc: str | None) -> str:
    """A docstring as Markdown: paragraphs, and a list where its lines are ``name:  what it is``."""
    text = marked(doc or "")
    return "\n\n".join(listed(part) if re.match(NAMED, part) else escaped(part) for part in text.split("\n\n"))


def marked(doc: str) -> str:
    """Without the roles that only Sphinx reads."""
    return re.sub(r":(?:func|class|meth|mod):`~?([\w.]+)`", r"``\1``", doc)


def listed(part: str) -> str:
    entries = re.split(r"\n(?=\S)", part)  # lines that go on are indented
    return "\n".join("- " + escaped(re.sub(NAMED, r"``\1``: ", entry)) for entry in entries)


def escaped(text: str) -> str:
    """As one paragraph in which nothing is Markdown but code."""
    pieces = re.split(r"``(.+?)``", " ".join(text.split()))
    return "".join(f"`{x}`" if i % 2 else re.sub(r"([*_<\[\]|])", r"\\\1", x) for i, x in enumerate(pieces))


def block(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```" if text else ""


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), index_of), encoding="utf-8")
