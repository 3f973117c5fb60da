"""The manual's example of Spark, on a cluster of two executors that are processes of their own."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import Answer, Origin, content, entry_at

pyspark = pytest.importorskip("pyspark")

_EXAMPLE = pathlib.Path(__file__).parents[2] / "docs/examples/spark.py"


def test_the_example_fetches_into_shards(origin: Origin, tmp_path: pathlib.Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    # Executors work in a folder of Spark's home.
    home = tmp_path / "spark"
    home.mkdir()
    for path in pathlib.Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    origin.answers["f7"] = Answer(404)
    urls = [*(origin.url(f"f{n}", 100 + n) for n in range(200)), None, "nonsense"]
    pq.write_table(pa.table({"url": pa.array(urls, pa.string())}), tmp_path / "urls.parquet")
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local-cluster[2,1,1024] --driver-memory 512m --conf spark.ui.enabled=false pyspark-shell",
    }
    command = [sys.executable, str(_EXAMPLE), str(tmp_path / "urls.parquet"), str(tmp_path / "shards"), "--rate-per-host", "1000"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    rows = pq.read_table(tmp_path / "shards/rows").to_pylist()
    assert sorted(row["url"] or "" for row in rows) == sorted(url or "" for url in urls)
    failed = {row["url"]: row["error_class"] for row in rows if row["state"] == "failed"}
    assert failed == {origin.url("f7", 107): "network", None: "usage", "nonsense": "usage"}
    places = [(row["shard"], row["offset"]) for row in rows if row["state"] == "done"]
    assert len(places) == len(set(places)) == 199
    for row in rows:
        if row["state"] == "done":
            _, body = entry_at(tmp_path / "shards" / row["shard"], row["offset"])
            name = urlsplit(row["url"]).path.lstrip("/")
            assert body == content(name, 100 + int(name[1:])) and row["checksum"].startswith("sha256:")
