"""Fetches small files of several hosts on three raylets of this machine. Some do not exist.

What a client is given is a table of URLs in memory, and its cluster runs before the clock starts.
"""

import pyarrow
import pyarrow.compute as compute
from measured import Clock, main
from ray_cluster import raylets

RAYLETS, CPUS = 3, 2
HOSTS = 16
#: Of so many files one is missing.
MISSING = 1000


def url_table(args):
    """The URLs. The first byte of a host's addresses says that it is this machine."""
    bases = [args.base.replace("HOST", f"127.0.1.{1 + host}") for host in range(HOSTS)]
    absent = [base.rsplit("/", 1)[0] + "/missing" for base in bases]
    urls = [
        f"{(absent if number % MISSING == 0 else bases)[number % HOSTS]}/{number:07}" for number in range(args.count)]
    return pyarrow.table({"url": urls})


def count_bodies(size):
    """A function from a table of bodies to their counts, so that bodies stay where they are."""

    def count(table):
        lengths = compute.binary_length(table["body"])
        right = compute.sum(compute.equal(lengths, size)).as_py() or 0
        return pyarrow.table({"right": [right], "missing": [table["body"].null_count]})

    return count


def counted(dataset, args):
    """How many bodies of a dataset are there and as long as they should be, and how many are missing."""
    size = args.filler.stat().st_size + len("/tiny/0000000")
    rows = dataset.map_batches(count_bodies(size), batch_format="pyarrow", batch_size=None).take_all()
    return {name: sum(row[name] for row in rows) for name in ("right", "missing")}


def fetch_haul(args):
    """Bodies as a column, as Ray Data has them."""
    import haul.ray

    table = url_table(args)
    with raylets(RAYLETS, CPUS):
        with Clock() as clock:
            found = counted(haul.ray.fetch(table, actors=RAYLETS), args)
    return clock.figures(**found)


def fetch_haul_tar(args):
    """Bodies into shards. All rows say where theirs is, or why it is missing."""
    import haul.ray

    table = url_table(args)
    with raylets(RAYLETS, CPUS):
        with Clock() as clock:
            dataset = haul.ray.fetch(table, tar=args.output, actors=RAYLETS).materialize()
        rows = dataset.select_columns(["state", "status", "error", "shard", "offset"]).to_pandas()
    done, failed = rows[rows.state == "done"], rows[(rows.state == "failed") & (rows.status == 404) & rows.error.notna()]
    return clock.figures(right=len(done[["shard", "offset"]].drop_duplicates()), missing=len(failed))


def fetch_ray(args):
    """Ray Data's own expression, which uses obstore where it is installed."""
    import ray.data
    from ray.data.expressions import download

    table = url_table(args)
    with raylets(RAYLETS, CPUS):
        with Clock() as clock:
            found = counted(ray.data.from_arrow(table).with_column("body", download("url")), args)
    return clock.figures(**found)


if __name__ == "__main__":
    main({"haul": fetch_haul, "haul-tar": fetch_haul_tar, "ray": fetch_ray})
