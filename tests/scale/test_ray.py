"""The same shards on two nodes of a Ray cluster, of which one is removed."""

import os
from pathlib import Path

import numpy as np
import pytest
import shard_problems

import pullback as pb
from pullback.scale import Shards

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

X = np.linspace(-1, 1, 1000)


@pytest.fixture(scope="module")
def cluster():
    patch = pytest.MonkeyPatch()  # workers import what their node has
    folders = [str(Path(shard_problems.__file__).parent), os.environ.get("PYTHONPATH", "")]
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.second = cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    patch.undo()


def test_the_same_bits_on_two_nodes_and_when_one_is_removed(cluster):
    given = np.full((20, 1), 0.3), np.array([0.0, 1.0, 1.2])
    with Shards(shard_problems.any_of, shards=6, workers=1, seed=3) as shards:
        loss, slope = shards.gradient("quadratic", X)
        swing = shards.gradient("pendulums", *given)
    with Shards(shard_problems.any_of, shards=6, workers=2, seed=3, address=cluster.address) as shards:
        found = shards.gradient("quadratic", X)
        assert found[0] == loss and np.array_equal(found[1], slope)
        again = shards.gradient("pendulums", *given)
        assert all(np.array_equal(swing[name], again[name]) for name in swing)
        assert len(set(shards.map("where"))) == 2
        cluster.remove_node(cluster.second)
        found = shards.gradient("quadratic", X)
        assert found[0] == loss and np.array_equal(found[1], slope)
        assert len(set(shards.map("where"))) == 1
        with pytest.raises(ZeroDivisionError, match="of shards"):
            shards.gradient("broken", ZeroDivisionError("of shards"))


def test_no_cluster_and_no_room(cluster):
    with pytest.raises(pb.PullbackError, match="no worker of 64 CPUs fits into the Ray cluster at 'auto'"):
        Shards(shard_problems.any_of, cpus=64, address="auto")
    ray.shutdown()
    with pytest.raises(pb.PullbackError, match="there is no Ray cluster at '127.0.0.1:1': start one with 'ray start"):
        Shards(shard_problems.any_of, address="127.0.0.1:1")
