"""Every Python block of the README and of three pages of docs/ runs as printed, one after the other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/design.md", "docs/choose-a-contact-model.md", "docs/view.md"])
def test_python_blocks_run_as_printed(page, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    pytest.importorskip("viser")
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S))
    assert blocks
    # Blank lines in between keep the page's line numbers, so that an error shows where it stands.
    program = ""
    for block in blocks:
        program += "\n" * (text.count("\n", 0, block.start(1)) - program.count("\n")) + block[1]
    script = tmp_path / "page.py"
    script.write_text(program, encoding="utf-8")
    # A process of its own: the JAX block changes the precision for all of it.
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
