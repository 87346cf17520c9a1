"""A cluster of several nodes that loses them: the store of the runs is PostgreSQL."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from tests.engines.ray_cluster import LOCAL, Tally, ray_place

NODES = max(2, int(os.environ.get("PAL_KILLS", "2")) // 50)  # that are removed
CALLS = 12


@pytest.fixture
def nodes():
    """A head without room for actors, and nodes that have it."""
    import ray
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    head = {"num_cpus": 0, "object_store_memory": LOCAL["object_store_memory"], "temp_dir": folder}
    made = Cluster(initialize_head=True, head_node_args={**head, "include_dashboard": False})
    ray.init(address=made.address, namespace="pal", log_to_driver=False, configure_logging=False)
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def test_runs_of_a_removed_node_continue_on_another_one(nodes, postgres, tmp_path):
    memory = LOCAL["object_store_memory"]

    def add():
        return nodes.add_node(num_cpus=1, object_store_memory=memory)

    present = [add()]
    with ray_place(tmp_path, postgres.new_database(), lease=2.0, actor_options={"num_cpus": 0.1}) as place:
        tally = Tally(place.client, tmp_path)
        for _ in range(3):
            tally.submit(CALLS, 2)
        for _ in range(NODES):
            seen = len(tally.lines())
            tally.until(lambda seen=seen: len(tally.lines()) > seen + 2 or tally.have_ended())
            present.append(add())
            nodes.remove_node(present.pop(0), allow_graceful=False)
        doubled, lost, stranded, unknown = tally.check(CALLS)
    print(f"{NODES} nodes removed, {len(tally.handles)} runs, {unknown} calls unknown")
    assert (doubled, lost, stranded) == (0, 0, 0)
