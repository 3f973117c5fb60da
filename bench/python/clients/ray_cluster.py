"""A Ray cluster of several raylets on this machine."""

import contextlib
import shutil
import tempfile

import ray
from ray.cluster_utils import Cluster


@contextlib.contextmanager
def raylets(count, cpus, object_store=512 << 20):
    """A cluster of so many raylets, each of which believes that it has so many processors, while the `with` block runs."""
    # A socket's path must be short, so this is no folder of the bench.
    folder = tempfile.mkdtemp(prefix="ray-")
    cluster = Cluster()
    try:
        for number in range(count):
            first = {"temp_dir": folder, "include_dashboard": False} if number == 0 else {}
            cluster.add_node(num_cpus=cpus, object_store_memory=object_store, **first)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
