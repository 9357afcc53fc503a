"""Maps of the humanoid that are learned once, from fewer samples than usual."""

import pytest

from pullback.reach import humanoid, humanoid_maps, sample_humanoid


@pytest.fixture(scope="session")
def robot():
    return sample_humanoid()


@pytest.fixture(scope="session")
def few_samples(tmp_path_factory):
    """A cache of its own, and maps of it that take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(humanoid, "STANCES", 1200)
        patch.setattr(humanoid, "HANDS", 600)
        yield


@pytest.fixture(scope="session")
def maps(robot, few_samples):
    return humanoid_maps(robot, progress=False)
