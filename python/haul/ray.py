"""Batches of URLs on a Ray cluster: Ray Data carries the rows, actors fetch, and bodies go from there straight to storage.

    import haul.ray

    rows = haul.ray.fetch(urls, tar="s3://bucket/images/", manifest="images.jsonl", rate_per_host=20, actors=(2, 16))

or, in a pipeline of one's own,

    ds.map_batches(haul.ray.Fetch, fn_constructor_kwargs={"tar": "/data/shards"}, compute=ray.data.ActorPoolStrategy(min_size=2, max_size=16),
                   batch_format="pyarrow", batch_size=4096)

A call of an actor makes shards of its own. Their names are those of the job, the actor and a number, and they get them when they are whole;
rows come back with them. Ray repeats a call whose machine was lost, on another one and into other shards, so no place in a shard is in two
rows, and no row comes twice.
"""

from __future__ import annotations

import io
import json
import logging
import os
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq
import ray
import ray.data

from . import _arguments
from ._arguments import Path, Size
from ._arrow import RESULT_SCHEMA, is_field
from ._errors import Interrupted, UsageError
from ._partition import ROW, partition
from ._ray_actor import Fetch
from ._ray_manifest import (
    MANIFEST_SCHEMA,
    append,
    cut_incomplete_line,
    json_lines,
    local_errors,
    lock,
    open_manifest,
    redact_urls,
    remove_others,
    written,
)
from ._ray_resources import IdleWatch, cpus, warn_of_missing
from ._ray_rows import check_paths, has_same_urls, table_of_rows

__all__ = ["Fetch", "fetch", "resume"]

Actors: TypeAlias = "int | tuple[int, int | None] | None"

_logger = logging.getLogger("haul")

#: Rows of one call of an actor at most, which are fetched again if its machine is lost.
BATCH_SIZE = 4096

#: Rows of a block of the results.
_BLOCK_ROWS = 1 << 17

#: Settings of a client that may have secrets, and are not written beside the manifest.
_SECRETS = ("s3", "headers", "proxy")

#: What is written of `ray_remote_args`. Others, as a runtime_env with variables, may have secrets, or are no JSON.
_STORED_REMOTE_ARGS = ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "max_restarts", "max_task_retries")


def fetch(
    rows: Any,
    *,
    tar: Path | None = None,
    dir: Path | None = None,
    manifest: Path | None = None,
    checksum: str | None = None,
    rate_per_host: float | None = None,
    actors: Actors = None,
    url: str = "url",
    batch_size: int = BATCH_SIZE,
    shard_size: Size = None,
    client: Mapping[str, Any] | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> ray.data.Dataset:
    """Fetches URLs on all machines of a Ray cluster, and returns a dataset with a row for each: what came of it, and where its bytes are.

    `rows`: a Ray dataset or an Arrow table with a column `url`, URLs, or dicts; they are in the driver's memory, two or three times while
    it sorts them. `tar` and `dir` are folders that all machines see, or s3://bucket/prefix/; with neither, the bodies of a call of
    `batch_size` rows are in memory together. `actors`: how many, or the least and the most; one for each CPU by default. Rows of one host
    go to one call; a host with more rows than a call takes is divided, and so are its limits. `client` has the arguments of `haul.Client`,
    and further arguments are those of `Fetch`.

    With a manifest, a file of the driver's, everything is fetched now and each row is recorded as soon as its shard is whole. The same call
    after a crash of any part goes on with the rest, and shards whose rows were lost are removed at the end (those on S3 stay). The rows and
    arguments are beside the manifest, for their owner to read: rows as they are, arguments without what may be secret. Without a manifest the dataset is lazy, as all of Ray Data's: each time it is
    executed everything is fetched again, into other shards. `materialize()` executes it once.
    """
    if tar is None and dir is None and manifest is not None:
        raise UsageError("manifest: it records files, so give tar or dir")
    settings = dict(client or {})
    if rate_per_host is not None:
        settings["rate_per_host"] = rate_per_host
    options = {
        "tar": _absolute(tar),
        "dir": _absolute(dir),
        "url": url,
        "shard_size": shard_size,
        "client": settings,
        "checksum": checksum,
        **arguments,
    }
    Fetch(**options)._check()
    manifest_path = None if manifest is None else _manifest_path(manifest)
    pool = {"batch_size": batch_size, "actors": actors, "ray_remote_args": dict(ray_remote_args or {})}
    _check_pool(pool)
    table = table_of_rows(rows, url)
    if tar is not None or dir is not None:
        check_paths(table, url)
    if manifest_path is None:
        return _dataset(table, options, pool)
    return _Job.begin(manifest_path, table, options, pool).run()


def _absolute(path: Path | None) -> str | None:
    """A folder as other processes find it."""
    if path is None or "://" in os.fspath(path):
        return None if path is None else os.fspath(path)
    return os.path.abspath(path)


def _manifest_path(manifest: Path) -> pathlib.Path:
    return pathlib.Path(_arguments.path("manifest", manifest, "it is a file of the driver's") or "")


def resume(manifest: Path, *, client: Mapping[str, Any] | None = None) -> ray.data.Dataset:
    """Fetches what failed or is missing of an earlier `fetch` with this manifest, with its arguments, and returns all rows.

    `client`: settings of the client to add or change; those of S3, headers and a proxy are not stored. Where `ray_remote_args` were not
    stored either, call `fetch` again.
    """
    return _Job.open(_manifest_path(manifest), client or {}).run()


class _Job:
    """A fetch with a manifest. Beside it are its rows and its arguments."""

    def __init__(self, manifest: pathlib.Path, options: dict[str, Any], pool: dict[str, Any]) -> None:
        self._manifest, self._options, self._pool = manifest, options, pool

    @staticmethod
    def _files(manifest: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
        """Its arguments and its rows."""
        return manifest.with_name(manifest.name + ".job"), manifest.with_name(manifest.name + ".rows.parquet")

    @classmethod
    def begin(cls, manifest: pathlib.Path, table: pa.Table, options: dict[str, Any], pool: dict[str, Any]) -> _Job:
        """A new job, or the one that the manifest belongs to if it is the same."""
        description, input_file = cls._files(manifest)
        with local_errors():
            if description.exists():
                found = json.loads(description.read_text())
                same = all(found["options"][name] == options[name] for name in ("tar", "dir", "url"))
                if not same or not has_same_urls(pq.read_table(input_file), table, options["url"]):
                    raise UsageError(f"{manifest} belongs to another job", hint="choose another name, or continue with haul.ray.resume")
                return cls(manifest, {**options, "job": found["options"]["job"]}, pool)
            if manifest.exists():
                raise UsageError(f"{manifest} exists and is not the manifest of such a job", hint="choose another name")
        options = {**options, "job": uuid.uuid4().hex[:8]}
        settings, remote_args = options["client"], pool["ray_remote_args"]
        stored = {
            "format": 1,
            "options": {**options, "client": {name: value for name, value in settings.items() if name not in _SECRETS}},
            "withheld": [name for name in _SECRETS if settings.get(name)],
            "pool": {**pool, "ray_remote_args": {name: remote_args[name] for name in remote_args if name in _STORED_REMOTE_ARGS}},
            "withheld_remote_args": [name for name in remote_args if name not in _STORED_REMOTE_ARGS],
        }
        text = json.dumps(stored, default=_storable)
        with local_errors():
            manifest.parent.mkdir(parents=True, exist_ok=True)
            # The description comes last: it says that the rows are whole.
            with written(input_file) as file:
                pq.write_table(table, file)
            with written(description) as file:
                file.write(text.encode())
        return cls(manifest, options, pool)

    @classmethod
    def open(cls, manifest: pathlib.Path, client: Mapping[str, Any]) -> _Job:
        description, _ = cls._files(manifest)
        with local_errors():
            if not description.exists():
                raise UsageError(f"there is no {description}", hint="haul.ray.fetch(..., manifest=...) makes it")
            found = json.loads(description.read_text())
        missing = [name for name in found["withheld"] if name not in client]
        if missing:
            raise UsageError(f"client: give its {missing[0]} again, which was not stored", hint=f"client={{{missing[0]!r}: ...}}")
        for name in found["withheld_remote_args"]:
            raise UsageError(f"ray_remote_args: its {name} was not stored", hint="call haul.ray.fetch again, with the same arguments")
        options = found["options"]
        return cls(manifest, {**options, "client": {**options["client"], **client}}, found["pool"])

    def run(self) -> ray.data.Dataset:
        with local_errors():
            table = pq.read_table(self._files(self._manifest)[1])
            file = open_manifest(self._manifest)
        with file:
            lock(file)
            with local_errors():
                cut_incomplete_line(file)
            results = self._recorded()
            done = results.filter(pc.not_equal(results.column("state"), "failed")).column(ROW)
            missing = table.filter(pc.invert(pc.is_in(table.column(ROW), done)))
            _logger.info("%d rows to fetch, %d done before", missing.num_rows, len(done))
            if missing.num_rows:
                self._fetch(missing, file)
                results = self._recorded()
            # Nobody else writes shards of the job before the lock is gone.
            self._remove_orphans(results)
        _log_summary(results)
        if results.num_rows < table.num_rows:
            lost = f"{table.num_rows - results.num_rows} of {table.num_rows} rows did not come back from Ray"
            raise Interrupted(lost, "lost rows", hint="haul.ray.resume fetches them; max_errored_blocks lets Ray drop them", retryable=True)
        columns = {name: results.column(name) for name in RESULT_SCHEMA.names}
        table = table.take(results.column(ROW)).combine_chunks()
        table = table.drop_columns([name for name in columns if name in table.column_names])
        for name, column in columns.items():
            table = table.append_column(name, column)
        return ray.data.from_arrow([table.slice(at, _BLOCK_ROWS) for at in range(0, max(1, table.num_rows), _BLOCK_ROWS)])

    def _fetch(self, rows: pa.Table, file: io.FileIO) -> None:
        """Records rows as they come, a call's together."""
        url = self._options["url"]
        rows = rows.select([name for name in rows.column_names if name in (url, ROW) or is_field(name)])
        dataset = _dataset(rows, self._options, self._pool)
        idle, left = IdleWatch(self._pool, _actor_range(self._pool["actors"])[1]), rows.num_rows
        # Ray would keep a block back to prefetch the next one.
        table: pa.Table
        for table in dataset.iter_batches(prefetch_batches=0, batch_size=None, batch_format="pyarrow"):
            table = table.select([ROW, url, *RESULT_SCHEMA.names]).rename_columns(MANIFEST_SCHEMA.names)
            lines = json_lines(redact_urls(table))
            with local_errors():
                append(file, lines)
            left -= table.num_rows
            idle.look(left)

    def _recorded(self) -> pa.Table:
        """The last result of each row, by its number."""
        with local_errors():
            if self._manifest.stat().st_size == 0:
                return MANIFEST_SCHEMA.empty_table()
            found = pyarrow.json.read_json(
                self._manifest,
                read_options=pyarrow.json.ReadOptions(block_size=16 << 20),
                parse_options=pyarrow.json.ParseOptions(explicit_schema=MANIFEST_SCHEMA, unexpected_field_behavior="ignore"),
            )
        numbers = found.column(ROW).to_numpy()
        _, from_end = np.unique(numbers[::-1], return_index=True)
        return found.take(len(numbers) - 1 - from_end)

    def _remove_orphans(self, results: pa.Table) -> None:
        """Removes shards of actors that were lost before their rows were recorded."""
        tar = self._options["tar"]
        if tar is not None and not tar.startswith("s3://"):
            with local_errors("tar"):
                remove_others(tar, f"{self._options['job']}-", set(pc.unique(results.column("shard")).to_pylist()))


def _storable(value: Any) -> str:
    """A path among arguments as JSON has it."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise UsageError(f"manifest: an argument of the type {type(value).__name__} cannot be stored beside it")


def _check_pool(pool: Mapping[str, Any]) -> None:
    """Raises what is wrong with the arguments for Ray."""
    if not _is_count(pool["batch_size"]):
        raise UsageError("batch_size: it must be at least 1")
    match pool["actors"]:
        case None:
            pass
        case (least, most) if _is_count(least) and (most is None or (_is_count(most) and most >= least)):
            pass
        case count if not _is_count(count):
            raise UsageError("actors: give a number, or the least and the most of them, from 1")
    remote_args = pool["ray_remote_args"]
    try:
        if remote_args:
            ray.remote(**remote_args)(Fetch)
    except (TypeError, ValueError) as error:
        raise UsageError(f"ray_remote_args: {error}") from None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 1


def _actor_range(actors: Any) -> tuple[int, int]:
    if isinstance(actors, int):
        return actors, actors
    least, most = actors or (1, None)
    return least, max(least, most or int(cpus()))


def _dataset(rows: pa.Table, options: dict[str, Any], pool: Mapping[str, Any]) -> ray.data.Dataset:
    """What fetches rows when it is executed."""
    if not ray.is_initialized():
        ray.init()
    warn_of_missing(pool["ray_remote_args"])
    least, most = _actor_range(pool["actors"])
    rate, connections = (options["client"].get(f"{name}_per_host") for name in ("rate", "connections"))
    calls = partition(
        rows,
        options["url"],
        pool["batch_size"],
        most,
        stores=options["tar"] is not None or options["dir"] is not None,
        is_limited=rate is not None or connections is not None,
        connections=connections,
    )
    if not calls:
        return ray.data.from_arrow(Fetch(**options)(rows))
    dataset = ray.data.from_arrow(calls)
    # A call is a block in and a block out, so a call that Ray repeats has returned all of its rows before or none: calls whose rows come in
    # several blocks would be divided elsewhere the next time.
    dataset.context.target_max_block_size = None
    return dataset.map_batches(
        Fetch,
        fn_constructor_kwargs=options,
        compute=_actor_pool(min(least, len(calls)), min(most, len(calls))),
        batch_format="pyarrow",
        batch_size=None,
        **_with_few_heaps(pool["ray_remote_args"]),
    )


def _actor_pool(least: int, most: int) -> ray.data.ActorPoolStrategy:
    """The actors. A call waits for whichever is free, and not behind one that is slow; Ray starts further actors only where calls wait for some."""
    return ray.data.ActorPoolStrategy(min_size=least, max_size=most, max_tasks_in_flight_per_actor=1 if least == most else None)


def _with_few_heaps(remote_args: Mapping[str, Any]) -> dict[str, Any]:
    """What Ray is told of actors, with two heaps for each in place of up to eight a core, of which each keeps its peak."""
    environment = dict(remote_args.get("runtime_env") or {})
    environment["env_vars"] = {"MALLOC_ARENA_MAX": "2", **environment.get("env_vars", {})}
    return {**remote_args, "runtime_env": environment}


def _log_summary(results: pa.Table) -> None:
    """Counts and causes, as the command has them at the end."""
    states = results.group_by("state").aggregate([([], "count_all")]).sort_by("state").to_pylist()
    failed = results.filter(pc.equal(results.column("state"), "failed"))
    causes = failed.group_by(["error_class", "status"]).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    counts = ", ".join(f"{row['count_all']} {row['state']}" for row in states)
    reasons = "".join(f"; {row['count_all']} x {row['error_class']} {row['status'] or ''}".rstrip() for row in causes.to_pylist()[:10])
    _logger.log(logging.WARNING if failed.num_rows else logging.INFO, "%s%s", counts, reasons)
