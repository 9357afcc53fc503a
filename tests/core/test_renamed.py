"""Old names work and say what they are called now."""

from dataclasses import dataclass, replace

import pytest

from pullback.core.renamed import renamed


@renamed(figure="metric")
@dataclass(frozen=True)
class Record:
    metric: float
    other: int = 0


def test_the_old_name_is_taken_with_a_warning():
    with pytest.warns(DeprecationWarning, match="'figure' of Record is called 'metric' now"):
        record = Record(figure=2.0, other=3)
    assert record == Record(2.0, 3) and replace(record, metric=1.0) == Record(1.0, 3)
    with pytest.warns(DeprecationWarning, match="'metric' now") as caught:
        assert record.figure == 2.0
    assert caught[0].filename == __file__  # it points at who uses the name


def test_both_names_at_once_are_an_error():
    with pytest.raises(TypeError, match="'metric' and its old name 'figure'"):
        Record(metric=2.0, figure=3.0)
