"""Fetches the URLs of a Parquet file on Spark, into tar shards.

    spark-submit docs/examples/spark.py urls.parquet /data/shards

The Parquet file has a column `url`. Each record batch becomes a shard in the folder, which all machines must see. The results, one row
for each URL, are Parquet files in its subfolder `rows`. They say which shard has a file, and where in it; a shard that no row names is
what a lost task has left, and can be deleted. haul must be installed on all machines.
"""

import argparse
import os
import uuid
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import haul

# The columns that are kept.
RESULTS = pa.schema(
    [
        ("url", pa.string()),
        ("state", pa.string()),
        ("path", pa.string()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("checksum", pa.string()),
        ("error_class", pa.string()),
        ("error", pa.string()),
        ("shard", pa.string()),
        ("offset", pa.int64()),
    ]
)
SPARK_RESULTS = (
    "url string, state string, path string, status int, bytes long, checksum string, "
    "error_class string, error string, shard string, offset long"
)

# The name and port of a URL's host; empty where there is none.
HOST = r"^[^:/?#]+://(?:[^/?#@]*@)?([^/?#]*)"


def fetch_into(
    folder: str, rate_per_host: float | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that fetches the URLs of a partition."""

    def fetch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Made here, in the worker's process. One client for the partition: its connections stay open.
        client = haul.Client(rate_per_host=rate_per_host)
        for batch in batches:
            # Spark may run a task again, or twice at once: each attempt has shards of its own.
            shard = os.path.join(folder, f"{uuid.uuid4().hex}.tar")
            found = client.fetch_arrow(batch, into="tar", path=shard, checksum="sha256")
            yield from pa.Table.from_batches([found]).select(RESULTS.names).cast(RESULTS).to_batches()

    return fetch


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch the URLs of a Parquet file on Spark, into tar shards.")
    parser.add_argument("urls", help="a Parquet file with a column url")
    parser.add_argument("folder", help="a folder for shards that all machines see")
    parser.add_argument("--rate-per-host", type=float, help="requests a second at each host")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("haul").getOrCreate()
    # All rows of a host are in one partition, so that one task keeps its limit.
    urls = spark.read.parquet(arguments.urls).select("url")
    urls = urls.repartition(spark.sparkContext.defaultParallelism, F.regexp_extract("url", HOST, 1))
    rows = os.path.join(arguments.folder, "rows")
    # Written at once: a frame that is used twice would be fetched twice.
    urls.mapInArrow(fetch_into(arguments.folder, arguments.rate_per_host), SPARK_RESULTS).write.parquet(rows)
    spark.read.parquet(rows).groupBy("state", "error_class").count().show()
    spark.stop()


if __name__ == "__main__":
    main()
