"""With --fail-on-skip, a skipped test is a failure unless its reason is accepted."""

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

def test_left_out():
    pytest.skip("no time")

@pytest.mark.skipif(True, reason="no package")
def test_marked():
    pass

def test_accepted():
    pytest.skip("needs a CUDA device")

@pytest.mark.xfail
def test_expected_failure():
    assert False
"""


def test_skips_are_failures_where_that_is_asked_for(tmp_path):
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "test_none.py").write_text("import pytest\npytest.skip('none', allow_module_level=True)\n")
    command = [sys.executable, "-m", "pytest", "-q", "--fail-on-skip", "--continue-on-collection-errors", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 skipped, 1 xfailed, 2 errors")
