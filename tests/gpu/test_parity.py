"""What compares the GPU with the CPU: that it has something to compare, and that it finds a difference."""

import numpy as np
import pytest
from parity import CASES, compare, work

# The others run the same code with kernels of other flavours, or change the precision of JAX for the whole process.
QUICK = ("robot without contact", "algorithms", "heat explicit", "maps")


@pytest.mark.parametrize("name", QUICK)
def test_a_case(name, capsys):
    found = work(name, "cpu")
    assert not any(part.endswith("absent") for part in found), found
    assert np.mean([bool(np.any(x)) for x in found.values()]) > 0.4  # algorithms do not depend on most parameters
    assert all(np.all(np.isfinite(x)) for x in found.values())
    assert compare(found, found)
    worst = max(found, key=lambda part: np.abs(found[part]).max())
    assert not compare(found | {worst: found[worst].astype(float) * (1 + 1e-7)}, found)
    assert f"{worst}   <-- differs" in capsys.readouterr().out


def test_what_is_absent_is_no_agreement(capsys):
    part, reason = {"maps: SE3": np.ones(3)}, {"heat explicit: absent": np.array("no GPU")}
    assert compare(part, part) and not compare(part | reason, part | {"heat explicit: T": np.ones(3)})
    assert "NOT COMPARED  heat explicit: absent: no GPU" in capsys.readouterr().out
    assert not compare(part, {**part, "maps: R3": np.ones(3)})


def test_every_contact_model_is_compared():
    from pullback.contact import CONTACT_NAMES

    tried = {name.split(" condim ")[0].split()[1] for name in CASES if "condim" in name}
    assert tried == set(CONTACT_NAMES)
