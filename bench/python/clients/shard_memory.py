"""The memory that large bodies need on their way into tar shards: of a process, and of an actor of Ray."""

from measured import Clock, main, peak_memory, urls

import haul

SHARD_SIZE = "256M"


def measure_process(args):
    before = peak_memory()
    with Clock() as clock:
        rows = haul.Client().batch(urls(args.base, args.count), tar=args.output / "shard.tar", shard_size=SHARD_SIZE)
        counts = rows.run()
    return clock.figures(right=counts.done, before=before)


def measure_actor(args):
    """The actor says itself what it needs: with Ray and Arrow in it, and their memory that it shares with the raylet."""
    import haul.ray
    import pyarrow
    import ray.data
    from ray_cluster import raylets

    class MeasuredFetch(haul.ray.Fetch):
        def __init__(self, **arguments):
            self.before = own_peak()
            super().__init__(**arguments)

        def __call__(self, table):
            found = super().__call__(table)
            state = found["state"].to_pylist()
            return pyarrow.table({"right": [state.count("done")], "before": [self.before], "peak_memory": [own_peak()]})

    # By value: an actor cannot import what is beside this file.
    def own_peak():
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

    table = pyarrow.table({"url": urls(args.base, args.count)})
    with raylets(1, 2):
        dataset = ray.data.from_arrow(table).map_batches(
            MeasuredFetch, fn_constructor_kwargs={"tar": str(args.output), "shard_size": SHARD_SIZE},
            compute=ray.data.ActorPoolStrategy(size=1), batch_format="pyarrow", batch_size=args.count // 4,
            # As haul.ray.fetch has it.
            runtime_env={"env_vars": {"MALLOC_ARENA_MAX": "2"}})
        with Clock() as clock:
            rows = dataset.take_all()
    figures = clock.figures(right=sum(row["right"] for row in rows))
    return figures | {name: max(row[name] for row in rows) for name in ("before", "peak_memory")}


if __name__ == "__main__":
    main({"process": measure_process, "actor": measure_actor})
