"""The documentation builds strictly, needs no network to be read, and has every public name and every task."""

import os
import pkgutil
import re
import runpy
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(folder: Path, root: Path = ROOT) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", root / "mkdocs.yml"]
    options = {"capture_output": True, "text": True, "check": False}
    return subprocess.run([*command, "--site-dir", folder], env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, **options)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site):
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    built = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    assert built == pages | {Path("404")}


def test_a_broken_link_is_found(tmp_path):
    """What makes the build above mean something."""
    (tmp_path / "docs").mkdir()
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = re.sub(r"^(hooks|extra_css): .*$", "", config[: config.index("# A new page of a task")], flags=re.M)
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    for text, code in (("fine", 0), ("[gone](nowhere.md)", 1), ("[gone](index.md#nowhere)", 1)):
        (tmp_path / "docs/index.md").write_text(f"# Home\n\n{text}\n", encoding="utf-8")
        assert build(tmp_path / "site", tmp_path).returncode == code, text


def test_nothing_is_fetched_to_read_it(site):
    """Scripts, styles, fonts and pictures are those of the folder; links to click on may lead outside."""
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=[\"']?([^\"' >]+)", re.I)
    for page in site.rglob("*.html"):
        for target in loaded.findall(page.read_text(encoding="utf-8")):
            assert not re.match(r"(?:https?:)?//", target), (page.name, target)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import\s+)[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_every_public_name_is_in_the_reference(site):
    text = unescape(re.sub(r"<[^>]+>", "", (site / "reference.html").read_text(encoding="utf-8")))
    modules = re.findall(r"<!-- names of ([\w.]+) -->", (ROOT / "docs/reference.md").read_text(encoding="utf-8"))
    assert {"pullback", "pullback.dynamics", "pullback.tasks", "pullback.torch", "pullback.jax"} <= set(modules)
    for module in modules:
        names = [name for name in pkgutil.resolve_name(module).__all__ if not name.startswith("_")]
        assert names and all(f"{module}.{name}" in text for name in names), module
    assert "names of pullback" not in text and re.search(r"checkpoint_every: .+ = 1\b", text)


def test_the_index_of_public_names_is_up_to_date():
    """It is read where nothing is built, so it has to hold the names itself."""
    text = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    assert "| `pullback.rollout` | Steps `system` from `state`" in text
    hook = runpy.run_path(str(ROOT / "docs/hooks/reference.py"))
    assert text == hook["filled"](text, hook["index_of"]), "run: python docs/hooks/reference.py"


def test_pages_of_tasks():
    """A page in docs/tasks is of a task that exists, with its commands and its picture."""
    from pullback.tasks import TASKS, Task

    pages = {page.stem for page in (ROOT / "docs/tasks").glob("*.md")} - {"index"}
    assert {"throw", "golf", "racecar"} <= pages <= set(TASKS)
    for name in pages:
        text = (ROOT / f"docs/tasks/{name}.md").read_text(encoding="utf-8")
        assert re.search(rf"^pullback optimize {name}( +#.*)?$", text, re.M)
        task = TASKS[name]()
        with_baseline = isinstance(task, Task) and task.baseline is not None
        assert f"pullback optimize {name} --method cma" in text or not with_baseline
        pictures = re.findall(rf"\.\./images/([\w-]*{name}[\w-]*\.png)", text)
        assert pictures and all((ROOT / "docs/images" / picture).exists() for picture in pictures)
