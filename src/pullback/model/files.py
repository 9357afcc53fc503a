"""Checks of all paths in a model file, before MuJoCo opens anything.

A model from an untrusted source must not read files outside of its folder. The XML is therefore parsed here first, its
includes and sub-models are followed, and each path is resolved in every way in which MuJoCo might resolve it (relative
to the main file or to the including file, before or after following symbolic links). All of the results must be inside
the folder. MuJoCo then reads exactly the bytes that were checked, through its virtual file system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

import mujoco

from pullback.core.errors import PullbackError
from pullback.model.counts import Size, measure, refuse_explosion, repeats
from pullback.model.flex_contacts import flexes_to_convert, with_spheres

# Elements whose files are relative to meshdir or texturedir; all other paths are relative to the model file.
DIRECTORY_ATTRIBUTES = {
    "mesh": ("meshdir", "assetdir"),
    "hfield": ("meshdir", "assetdir"),
    "skin": ("meshdir", "assetdir"),
    "flexcomp": ("meshdir", "assetdir"),
    "texture": ("texturedir", "assetdir"),
}
# Attributes that hold a name, which may legitimately be "nan".
NAME_ATTRIBUTES = {"name", "class", "childclass", "model", "prefix", "key", "value", "body", "joint", "site", "geom"}
MOST_DOCUMENTS = 1000  # XML files in one model; real ones have tens
SCHEME_OR_DRIVE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
RAW_TAG = re.compile(rb"""<[^\s/>]+(?:\s+[^\s=>]+\s*=\s*(?:"[^"]*"|'[^']*'))*""")
RAW_ATTRIBUTE = re.compile(rb"""\s([^\s=>]+)\s*=\s*("[^"]*"|'[^']*')""")


@dataclass(frozen=True)
class Element:
    """One XML element: tag in lower case, attributes, enclosing tags, line, and number of copies."""

    tag: str
    attributes: dict[str, str]
    ancestors: tuple[str, ...]
    line: int
    copies: int = 1  # made by enclosing ``<replicate>`` elements

    def __str__(self) -> str:
        name = self.attributes.get("name")
        return f"<{self.tag}> '{name}' (line {self.line})" if name else f"<{self.tag}> on line {self.line}"


@dataclass(frozen=True)
class Reference:
    """A path in a model file, and all places where MuJoCo might look for it."""

    document: str
    element: Element
    path: str
    candidates: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}: {self.element} reads '{self.path}'"

    @property
    def found(self) -> list[str]:
        return [candidate for candidate in self.candidates if os.path.exists(candidate)]


def compile_file(
    path: Path, *, folder: str | os.PathLike | None, anywhere: bool, ignore: Collection[str] = ()
) -> mujoco.MjModel:
    """Compile the MJCF or URDF file at ``path``; files may be read from ``folder``, by default the file's own."""
    data = read_model_file(path)
    root = require_folder(folder) if folder is not None else path.absolute().parent
    return _compile(data, document=str(path), virtual_path=path.absolute(), root=root, anywhere=anywhere, ignore=ignore)


def compile_string(
    xml: str, *, folder: str | os.PathLike | None, anywhere: bool, ignore: Collection[str] = ()
) -> mujoco.MjModel:
    """Compile MJCF or URDF text; paths in it are relative to ``folder``, without which there may be none."""
    root = require_folder(folder) if folder is not None else None
    # MuJoCo needs a file name, which appears in its messages: one that is unlikely to exist.
    virtual_path = (root or Path.cwd()) / "pullback-xml-string.xml"
    data = xml.lstrip("\ufeff \t\r\n").encode("utf-8", errors="replace")
    return _compile(data, document="XML string", virtual_path=virtual_path, root=root, anywhere=anywhere, ignore=ignore)


def _compile(
    data: bytes, *, document: str, virtual_path: Path, root: Path | None, anywhere: bool, ignore: Collection[str]
) -> mujoco.MjModel:
    elements = parse(data, document)
    require_numbers(elements, document)
    references = []
    if anywhere:
        measure(elements, document, Size())
    else:
        references = collect_references(elements, document, virtual_path, root)
    try:
        with mujoco.MjVfs() as files:
            files[str(virtual_path)] = data
            # MuJoCo caches meshes by name and modification time, so it would miss a change within the same second.
            mujoco.mj_clearCache(mujoco.mj_getCache())
            m = mujoco.MjModel.from_xml_path(str(virtual_path), vfs=files)
            if flexes_to_convert(m, ignore):
                m = with_spheres(mujoco.MjSpec.from_file(str(virtual_path), vfs=files), ignore, files)
            return m
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        # MuJoCo's message names the path but not the element; only a file that it could not read is reported.
        for reference in references:
            if not reference.found and os.path.basename(reference.path.replace("\\", "/")) in str(error):
                raise PullbackError(
                    f"{reference}, which does not exist (looked for {reference.candidates[0]})"
                ) from None
        message = one_line(error).replace(str(virtual_path), document)
        raise PullbackError(f"{document}: MuJoCo cannot compile it: {message}") from None


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def read_model_file(path: Path) -> bytes:
    """The bytes of an XML file, or an error that says why it is not one."""
    try:
        if path.is_dir():
            raise PullbackError(f"{path} is a folder; give the MJCF or URDF file inside it")
        if not path.exists():
            raise PullbackError(f"there is no file {path}")
        if not path.is_file():
            raise PullbackError(f"{path} is not a regular file")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, PullbackError):
            raise
        why = getattr(error, "strerror", None) or one_line(error)
        raise PullbackError(f"cannot read {str(path)!r}: {why}") from None
    if not data.strip():
        raise PullbackError(f"{path} is empty")
    if b"\0" in data or not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise PullbackError(
            f"{path} is not XML; give an MJCF or URDF file (a compiled .mjb: pass mujoco.MjModel.from_binary_path(...))"
        )
    return data


def require_folder(folder: str | os.PathLike) -> Path:
    path = Path(folder).absolute()
    if not path.is_dir():
        raise PullbackError(f"folder={str(folder)!r} is not a folder")
    return path


# ---------------------------------------------------------------------------------------------------------------------
# parsing


def parse(data: bytes, document: str, copies: int = 1) -> list[Element]:
    """The elements of an XML text, in order. ``copies``: how often the text is part of the model.

    MuJoCo's parser and this one must agree on what the text says, so anything they could read differently is refused:
    document types (which also rules out exponential entities), other encodings than UTF-8, and line breaks or tabs
    inside paths.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PullbackError(f"{document} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    data = without_comments(data)
    elements: list[Element] = []
    open_tags: list[str] = []
    open_copies = [copies]
    parser = expat.ParserCreate("utf-8")  # ignores the encoding that the text declares, as MuJoCo does

    def start(tag: str, attributes: dict[str, str]) -> None:
        place = tuple(open_tags[-3:]), parser.CurrentLineNumber, open_copies[-1]
        element = Element(tag.lower(), attributes, *place)
        raw_tag = RAW_TAG.match(data, parser.CurrentByteIndex)
        for name, value in RAW_ATTRIBUTE.findall(raw_tag.group() if raw_tag else b""):
            if is_path_attribute(name.decode()) and re.search(rb"[\t\r\n]", value):
                raise PullbackError(f"{document}: {element} has a line break or a tab in its path")
        elements.append(element)
        open_tags.append(element.tag)
        open_copies.append(element.copies * repeats(element))

    def end(tag: str) -> None:
        open_tags.pop()
        open_copies.pop()

    def refuse_document_type(*_) -> None:
        raise PullbackError(f"{document} has a <!DOCTYPE> on line {parser.CurrentLineNumber}; remove it")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse_document_type
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise PullbackError(f"{document} is not well-formed XML: {error}") from None
    return elements


def without_comments(data: bytes) -> bytes:
    """Blanks the comments, which keeps line numbers. Real files have ``--`` in comments, which expat refuses."""
    pieces, position = [], 0
    while (start := data.find(b"<", position)) >= 0:
        pieces.append(data[position:start])
        if data.startswith(b"<!--", start):
            end = _after(data, b"-->", start + 4)
            pieces.append(re.sub(rb"[^\n]", b" ", data[start:end]))
        elif data.startswith(b"<![CDATA[", start):
            end = _after(data, b"]]>", start)
            pieces.append(data[start:end])
        elif data.startswith(b"<?", start):
            end = _after(data, b"?>", start)
            pieces.append(data[start:end])
        else:
            raw_tag = RAW_TAG.match(data, start)  # its quoted values may contain text that looks like a comment
            end = raw_tag.end() if raw_tag else start + 1
            pieces.append(data[start:end])
        position = end
    pieces.append(data[position:])
    return b"".join(pieces)


def _after(data: bytes, mark: bytes, start: int) -> int:
    end = data.find(mark, start)
    return len(data) if end < 0 else end + len(mark)


def is_path_attribute(name: str) -> bool:
    """Whether an attribute holds a path: file, filename, fileleft, and so on."""
    return name.lower().startswith("file")


def require_numbers(elements: list[Element], document: str) -> None:
    """Raises an error for the value ``nan``: MuJoCo would silently use the default instead."""
    for element in elements:
        for name, value in element.attributes.items():
            if name not in NAME_ATTRIBUTES and "nan" in value.lower().split():
                raise PullbackError(f'{document}: {element} has {name}="{value}"; give a finite number')


# ---------------------------------------------------------------------------------------------------------------------
# following paths


def collect_references(elements: list[Element], document: str, path: Path, root: Path | None) -> list[Reference]:
    """All paths in a model and its sub-models, each checked to be inside ``root``; an error if a model is too large."""
    collected: list[Reference] = []
    main = os.path.normpath(path)
    models = [(elements, document, main)]
    seen_models: set[str] = {main}
    sizes: dict[str, Size] = {}
    while models:
        main_elements, main_document, name = models.pop()
        main_folder, size = Path(name).parent, sizes.setdefault(name, Size())
        # Includes are pasted into the model, so a compiler element in any of them sets the folders for all.
        parts = _parts_of_model(main_elements, main_document, main_folder, root, collected)
        for part_elements, part_document, _ in parts:
            measure(part_elements, part_document, size)
        compilers = [e.attributes for part in parts for e in part[0] if e.tag == "compiler"]
        is_urdf = bool(main_elements) and main_elements[0].tag == "robot"
        for part_elements, part_document, part_folder in parts:
            for element, given in _paths(part_elements, is_urdf, compilers):
                bases = dict.fromkeys([main_folder, part_folder])
                names = _stripped(given, compilers) if element.tag in DIRECTORY_ATTRIBUTES else _spellings(given)
                places = [
                    os.path.join(base, directory, name)
                    for base in bases
                    for directory in _directories(element.tag, compilers, included=len(bases) > 1)
                    for name in names
                ]
                reference = _checked(part_document, element, given, places, names, root)
                collected.append(reference)
                if element.tag == "model":
                    size.models += map(os.path.normpath, reference.found)
                    models += [(*_open(place), place) for place in _new_files(reference, seen_models)]
    refuse_explosion(sizes, main, document)
    return collected


def _parts_of_model(elements, document, folder, root, collected) -> list[tuple[list[Element], str, Path]]:
    """The main file, and all files that it includes, directly or indirectly."""
    parts = [(elements, document, folder)]
    seen: set[str] = set()
    if elements and elements[0].tag == "robot":
        return parts  # MuJoCo does not follow includes in URDF
    for part_elements, part_document, part_folder in parts:  # the list grows during the loop
        for element in part_elements:
            if element.tag == "include" and "file" in element.attributes:
                path = element.attributes["file"]
                bases = dict.fromkeys([folder, part_folder])
                reference = _checked(
                    part_document,
                    element,
                    path,
                    [os.path.join(b, n) for b in bases for n in _spellings(path)],
                    [path],
                    root,
                )
                collected.append(reference)
                for place in _new_files(reference, seen):
                    parts.append((*_open(place, element.copies), Path(place).parent))
    return parts


def _open(place: str, copies: int = 1) -> tuple[list[Element], str]:
    elements = parse(read_model_file(Path(place)), place, copies)
    require_numbers(elements, place)
    return elements, place


def _new_files(reference: Reference, seen: set[str]) -> list[str]:
    """The files of a reference that have not been opened yet, which ends the recursion of a file that includes itself.

    Files are compared by spelling, because ``..`` in them depends on it. A link to its own folder has endlessly many
    spellings, hence the limit.
    """
    fresh = [place for place in map(os.path.normpath, reference.found) if place not in seen]
    seen.update(fresh)
    if len(seen) > MOST_DOCUMENTS:
        raise PullbackError(f"{reference}, after more than {MOST_DOCUMENTS} other files; does it include itself?")
    return list(dict.fromkeys(fresh))


def _paths(elements: list[Element], is_urdf: bool, compilers: list[dict[str, str]]) -> list[tuple[Element, str]]:
    """The paths that MuJoCo would open, except includes."""
    keeps_visuals = any(compiler.get("discardvisual", "true") != "true" for compiler in compilers)
    found = []
    for element in elements:
        if element.tag == "include":
            continue
        if is_urdf:
            # In a URDF file MuJoCo opens only meshes, and those of visuals only if it is told to keep them.
            if element.tag != "mesh" or ("visual" in element.ancestors and not keeps_visuals):
                continue
        if element.tag == "config" and is_path_attribute(element.attributes.get("key", "")):
            found.append((element, element.attributes.get("value", "")))  # a plugin's own setting
        found += [(element, value) for name, value in element.attributes.items() if is_path_attribute(name) and value]
    return found


def _directories(tag: str, compilers: list[dict[str, str]], *, included: bool) -> list[str]:
    """The folders, relative to the model file, in which MuJoCo may look for files of this kind of element."""
    attributes = DIRECTORY_ATTRIBUTES.get(tag, ())
    given = [compiler[name] for compiler in compilers for name in attributes if name in compiler]
    directories = [spelling for value in given for spelling in _spellings(value)]
    return list(dict.fromkeys(directories if directories and not included else [*directories, ""]))


def _stripped(path: str, compilers: list[dict[str, str]]) -> list[str]:
    """The spellings of a path, without its folders if ``strippath`` is set."""
    settings = {compiler["strippath"] == "true" for compiler in compilers if "strippath" in compiler} or {False}
    names = []
    if True in settings:
        names.append(path.replace("\\", "/").rsplit("/", 1)[-1])
    if False in settings:
        names += _spellings(path)
    return list(dict.fromkeys(names))


def _spellings(path: str) -> list[str]:
    """A path as written, and with backslashes as slashes, which is how MuJoCo reads them on every system."""
    return list(dict.fromkeys([path, path.replace("\\", "/")]))


def _checked(document, element, path, places, names, root: Path | None) -> Reference:
    """A reference all of whose possible places are inside ``root``, and are plain files or folders if they exist."""
    reference = Reference(document, element, path, tuple(dict.fromkeys(places)))
    if root is None:
        raise PullbackError(f"{reference}, but an XML string has no folder; pass folder=... to say where its files are")
    if any(SCHEME_OR_DRIVE.match(name) for name in names):
        raise PullbackError(
            f"{reference}, which has a scheme or a drive letter; write it relative to the model file "
            f"(or pass anywhere=True to leave it to MuJoCo)"
        )
    for place in reference.candidates:
        if not is_inside(place, root):
            raise PullbackError(
                f"{reference}, which can lead outside the folder {root}; "
                f"move the file there, name a folder that holds both with folder=, or pass anywhere=True "
                f"if you trust this model"
            )
        if os.path.exists(place) and not (os.path.isfile(place) or os.path.isdir(place)):
            raise PullbackError(f"{reference}, which is neither a file nor a folder")  # e.g. a pipe, which never ends
    return reference


def is_inside(place: str, root: Path) -> bool:
    """Whether a path stays under ``root``, both if ``..`` is resolved before and after symbolic links."""
    real_root = os.path.realpath(root)
    try:
        return all(
            os.path.commonpath([os.path.realpath(spelling), real_root]) == real_root
            for spelling in (place, os.path.normpath(place))
        )
    except (ValueError, OSError):  # another drive, or an invalid path
        return False
