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

import contextlib
import fcntl
import itertools
import json
import logging
import os
import pathlib
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from json.encoder import encode_basestring_ascii
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq
import ray
import ray.data

from ._arguments import Path, Size
from ._arrow import FIELDS, RESULT_SCHEMA, add_columns, rows_of_batch
from ._client import Client
from ._errors import Error, LocalIOError, UsageError, error_class
from ._partition import ROW, SHARE, partition
from ._waiting import INTERVAL

__all__ = ["Fetch", "fetch", "resume"]

Actors: TypeAlias = "int | tuple[int, int | None] | None"

_logger = logging.getLogger("haul")

#: Rows of one call of an actor at most, which are fetched again if its machine is lost.
BATCH_SIZE = 4096

#: Files that an actor uploads at a time.
_UPLOADS = 16

#: Seconds that an actor whose machine cannot store files leaves the work to others.
_LOCAL_PAUSE = 5.0

#: Rows of a block of the results.
_BLOCK_ROWS = 1 << 17

#: Settings of a client that may have secrets, and are not written beside the manifest.
_SECRETS = ("s3", "headers", "proxy")


class Fetch:
    """An actor for `map_batches`: one client whose connections, DNS answers and knowledge of hosts stay warm.

    It takes tables with a column `url` (and perhaps path, checksum, sha256, ...) and returns them with the columns of results. Without `tar`
    and `dir` the bodies are a column. `tar` and `dir` are folders, on a disk or as s3://bucket/prefix/; files for S3 are made in a temporary
    directory first. In `dir` a file is named by its URL's digest, unless it has a path or there is a layout. `client` has the arguments of
    `haul.Client`, whose limits are those of each actor; the others are those of `Client.batch`.
    """

    def __init__(
        self,
        *,
        tar: Path | None = None,
        dir: Path | None = None,
        job: str | None = None,
        url: str = "url",
        shard_size: Size = None,
        client: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        if tar is not None and dir is not None:
            raise UsageError("tar and dir: give one of them")
        if shard_size is not None and tar is None:
            raise UsageError("shard_size: it is for tar")
        self._target = None if tar is None and dir is None else os.fspath(tar or dir or "")
        self._is_tar = tar is not None
        self._url, self._shard_size, self._arguments = url, shard_size, arguments
        self._name = f"{job or uuid.uuid4().hex[:8]}-{uuid.uuid4().hex[:12]}"
        self._numbers = itertools.count(1)
        self._settings = dict(client or {})
        #: By the number of calls that share a host's limits.
        self._clients: dict[int, Client] = {}

    def __call__(self, table: pa.Table) -> pa.Table:
        share = 1
        if SHARE in table.column_names:
            share = table.column(SHARE)[0].as_py() if table.num_rows else 1
            table = table.drop_columns([SHARE])
        batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        return pa.Table.from_batches([self._fetch(batch, self._client(share)) for batch in batches])

    def _client(self, share: int) -> Client:
        if share not in self._clients:
            settings = dict(self._settings)
            if settings.get("rate_per_host") is not None:
                settings["rate_per_host"] /= share
            if settings.get("connections_per_host") is not None:
                settings["connections_per_host"] = max(1, settings["connections_per_host"] // share)
            self._clients[share] = Client(**settings)
        return self._clients[share]

    def _check(self) -> None:
        """Raises what is wrong with the arguments, before machines are asked."""
        self._client(1).batch([], **self._arguments).run()

    def _fetch(self, batch: pa.RecordBatch, client: Client) -> pa.RecordBatch:
        if self._target is None:
            return add_columns(batch, self._collect(batch, client, {}), with_bodies=True)
        if not self._target.startswith("s3://"):
            return add_columns(batch, self._fetch_into(self._target, batch, client), with_bodies=False)
        with tempfile.TemporaryDirectory(prefix="haul-") as folder:
            columns = self._fetch_into(folder, batch, client)
            self._upload(folder, self._target.rstrip("/") + "/", columns, client)
        return add_columns(batch, columns, with_bodies=False)

    def _fetch_into(self, folder: str, batch: pa.RecordBatch, client: Client) -> dict[str, Any]:
        if not self._is_tar:
            # Names must differ over all calls of all actors.
            return self._collect(batch, client, {"dir": folder, "layout": self._arguments.get("layout", "hash")})
        tar = os.path.join(folder, f"{self._name}-{next(self._numbers):06}.tar")
        return self._collect(batch, client, {"tar": tar, "shard_size": self._shard_size})

    def _collect(self, batch: pa.RecordBatch, client: Client, place: dict[str, Any]) -> dict[str, Any]:
        """The columns of results. Where this machine fails, rows that were done stay done, and the others are failures to try elsewhere."""
        columns = _empty_columns(batch.num_rows)
        try:
            with client.batch(rows_of_batch(batch, self._url), **{**self._arguments, **place}) as run:
                try:
                    while not run._run.collect(INTERVAL):
                        pass
                finally:
                    run._is_ended = True
                    columns = run._run.columns(batch.num_rows)
        except LocalIOError as error:
            _logger.warning("%s", error)
            self._fail_others(columns, error, place.get("tar"))
            time.sleep(_LOCAL_PAUSE)
        return columns

    def _fail_others(self, columns: dict[str, Any], failure: LocalIOError, tar: str | None) -> None:
        """Fails rows that have no result, and those whose shard has not got its name; what there is of it is removed."""
        folder, name = os.path.split(tar or "")
        for index, (state, error, shard) in enumerate(zip(columns["state"], columns["error"], columns["shard"], strict=True)):
            is_unnamed = shard is not None and not os.path.exists(os.path.join(folder, shard))
            if is_unnamed or (state == "failed" and error is None):
                _fail(columns, index, failure)
        if tar is not None:
            _remove_others(folder, name.removesuffix(".tar"), set(columns["shard"]))

    def _upload(self, folder: str, target: str, columns: dict[str, Any], client: Client) -> None:
        """Uploads what was fetched. Rows whose file or shard could not be uploaded have failed."""
        failures: dict[str, Error] = {}

        def upload(path: pathlib.Path) -> None:
            name = path.relative_to(folder).as_posix()
            try:
                client.put(path, target + name)
            except Error as error:
                failures[name] = error

        with ThreadPoolExecutor(_UPLOADS) as pool:
            list(pool.map(upload, [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]))
        for index, state in enumerate(columns["state"]):
            name = columns["shard"][index]
            if not self._is_tar and columns["path"][index] is not None:
                name = os.path.relpath(columns["path"][index], folder)
                columns["path"][index] = target + name
            if state != "failed" and name in failures:
                _fail(columns, index, failures[name])


def _empty_columns(count: int) -> dict[str, Any]:
    """The results of rows that were not begun."""
    columns: dict[str, Any] = {name: [None] * count for name in RESULT_SCHEMA.names}
    columns |= {"state": ["failed"] * count, "bytes": [0] * count, "attempts": [0] * count, "ms": [0] * count}
    return columns | {"body_validity": bytes(count // 8 + 1), "body_offsets": bytes(8 * (count + 1)), "body_data": b""}


def _fail(columns: dict[str, Any], index: int, error: Error) -> None:
    columns["state"][index] = "failed"
    columns["error_class"][index] = error_class(error)
    columns["error"][index] = str(error)
    columns["shard"][index] = columns["offset"][index] = None


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

    `rows`: a Ray dataset or an Arrow table with a column `url`, or URLs; they are in the driver's memory once. `tar` and `dir` are folders
    that all machines see, or s3://bucket/prefix/; with neither, the bodies of a call of `batch_size` rows are in memory together. `actors`:
    how many, or the least and the most; one for each CPU by default. Rows of one host go to one call; a host with more rows than a call
    takes is divided, and so are its limits. `client` has the arguments of `haul.Client`, and further arguments are those of `Client.batch`.

    With a manifest, a file of the driver's, everything is fetched now and each row is recorded as soon as its shard is whole. The same call
    after a crash of any part goes on with the rest, and shards whose rows were lost are removed at the end (those on S3 stay). The rows and
    arguments are beside the manifest, without what may be secret. Without a manifest the dataset is lazy, as all of Ray Data's: each time it is
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
    pool = {"batch_size": batch_size, "actors": actors, "ray_remote_args": dict(ray_remote_args or {})}
    table = _table(rows, url)
    if manifest is None:
        return _dataset(table, options, pool)
    return _Job.begin(pathlib.Path(manifest), table, options, pool).run()


def _absolute(path: Path | None) -> str | None:
    """A folder as other processes find it."""
    if path is None or os.fspath(path).startswith("s3://"):
        return None if path is None else os.fspath(path)
    return os.path.abspath(path)


def resume(manifest: Path, *, client: Mapping[str, Any] | None = None) -> ray.data.Dataset:
    """Fetches what failed or is missing of an earlier `fetch` with this manifest, with its arguments, and returns all rows.

    `client`: settings of the client to add or change; those of S3, headers and a proxy are not stored.
    """
    return _Job.open(pathlib.Path(manifest), client or {}).run()


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
        if description.exists():
            found = json.loads(description.read_text())
            same = all(found["options"][name] == options[name] for name in ("tar", "dir", "url"))
            if not same or not _has_same_urls(pq.read_table(input_file), table, options["url"]):
                raise UsageError(f"{manifest} belongs to another job", hint="choose another name, or continue with haul.ray.resume")
            return cls(manifest, {**options, "job": found["options"]["job"]}, pool)
        if manifest.exists():
            raise UsageError(f"{manifest} exists and is not the manifest of such a job", hint="choose another name")
        manifest.parent.mkdir(parents=True, exist_ok=True)
        options = {**options, "job": uuid.uuid4().hex[:8]}
        settings = options["client"]
        stored = {**options, "client": {name: value for name, value in settings.items() if name not in _SECRETS}}
        withheld = [name for name in _SECRETS if settings.get(name)]
        text = json.dumps({"format": 1, "options": stored, "withheld": withheld, "pool": pool}, default=os.fspath)
        # The description comes last: it says that the rows are whole.
        with _written(input_file) as file:
            pq.write_table(table, file)
        with _written(description) as file:
            file.write(text.encode())
        return cls(manifest, options, pool)

    @classmethod
    def open(cls, manifest: pathlib.Path, client: Mapping[str, Any]) -> _Job:
        description, _ = cls._files(manifest)
        try:
            found = json.loads(description.read_text())
        except FileNotFoundError:
            raise UsageError(f"there is no {description}", hint="haul.ray.fetch(..., manifest=...) makes it") from None
        missing = [name for name in found["withheld"] if name not in client]
        if missing:
            raise UsageError(f"client: give its {missing[0]} again, which was not stored", hint=f"client={{{missing[0]!r}: ...}}")
        options = found["options"]
        return cls(manifest, {**options, "client": {**options["client"], **client}}, found["pool"])

    def run(self) -> ray.data.Dataset:
        table = pq.read_table(self._files(self._manifest)[1])
        with open(self._manifest, "a+b") as file:
            _lock(file)
            _cut_incomplete_line(file)
            results = self._recorded()
            done = results.filter(pc.not_equal(results.column("state"), "failed")).column(ROW)
            missing = table.filter(pc.invert(pc.is_in(table.column(ROW), done)))
            _logger.info("%d rows to fetch, %d done before", missing.num_rows, len(done))
            if missing.num_rows:
                self._fetch(missing, file)
                results = self._recorded()
        self._remove_orphans(results)
        _log_summary(results)
        columns = {name: results.column(name) for name in RESULT_SCHEMA.names}
        table = table.take(results.column(ROW)).combine_chunks()
        table = table.drop_columns([name for name in columns if name in table.column_names])
        for name, column in columns.items():
            table = table.append_column(name, column)
        return ray.data.from_arrow([table.slice(at, _BLOCK_ROWS) for at in range(0, max(1, table.num_rows), _BLOCK_ROWS)])

    def _fetch(self, rows: pa.Table, file: IO[bytes]) -> None:
        """Records rows as they come, a call's together."""
        url = self._options["url"]
        rows = rows.select([name for name in rows.column_names if name in (url, ROW, *FIELDS)])
        dataset = _dataset(rows, self._options, self._pool)
        # Ray would keep a block back to prefetch the next one.
        table: pa.Table
        for table in dataset.iter_batches(prefetch_batches=0, batch_size=None, batch_format="pyarrow"):
            file.write(_json_lines(table.select([ROW, url, *RESULT_SCHEMA.names]).rename_columns(_MANIFEST_SCHEMA.names)))
            file.flush()
            os.fsync(file.fileno())

    def _recorded(self) -> pa.Table:
        """The last result of each row, by its number."""
        if self._manifest.stat().st_size == 0:
            return _MANIFEST_SCHEMA.empty_table()
        found = pyarrow.json.read_json(
            self._manifest,
            read_options=pyarrow.json.ReadOptions(block_size=16 << 20),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=_MANIFEST_SCHEMA, unexpected_field_behavior="ignore"),
        )
        numbers = found.column(ROW).to_numpy()
        _, from_end = np.unique(numbers[::-1], return_index=True)
        return found.take(len(numbers) - 1 - from_end)

    def _remove_orphans(self, results: pa.Table) -> None:
        """Removes shards of actors that were lost before their rows were recorded."""
        tar = self._options["tar"]
        if tar is not None and not tar.startswith("s3://"):
            _remove_others(tar, f"{self._options['job']}-", set(pc.unique(results.column("shard")).to_pylist()))


_MANIFEST_SCHEMA = pa.schema([(ROW, pa.int64()), ("url", pa.large_string()), *RESULT_SCHEMA])


@contextlib.contextmanager
def _written(path: pathlib.Path) -> Iterator[IO[bytes]]:
    """A file that is there when it is whole. It is for its owner alone: URLs may have signatures."""
    temporary = path.with_name(path.name + ".tmp")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _json_lines(table: pa.Table) -> bytes:
    """Numbers and texts as JSON Lines, column by column: a `json.dumps` for each row takes several times as long."""

    def texts(column: pa.ChunkedArray) -> list[str]:
        if pa.types.is_integer(column.type):
            return pc.fill_null(pc.cast(column, pa.string()), "null").to_pylist()  # type: ignore[no-any-return]
        return ["null" if value is None else encode_basestring_ascii(value) for value in column.to_pylist()]

    pattern = "{" + ", ".join(f'"{name}": %s' for name in table.column_names) + "}\n"
    return "".join(pattern % values for values in zip(*map(texts, table.columns), strict=True)).encode()


def _lock(file: IO[bytes]) -> None:
    """Two drivers must not record into one manifest. Where a file system has no locks, nobody checks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{file.name}: another driver records into it") from None
    except OSError:
        pass


def _cut_incomplete_line(file: IO[bytes]) -> None:
    """Removes a line that a crash has cut short; its row is fetched again."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - (64 << 10))
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            end = begin + found + 1
            break
        end = begin
    file.truncate(end)


def _remove_others(folder: str, prefix: str, kept: set[str | None]) -> None:
    """Removes what has a prefix and is not kept."""
    for path in pathlib.Path(folder).glob(f"{prefix}*"):
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _table(rows: Any, url: str) -> pa.Table:
    """The rows as a table with their numbers."""
    if isinstance(rows, ray.data.Dataset):
        tables = list(rows.iter_batches(batch_size=None, batch_format="pyarrow"))
        table = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({url: pa.array([], pa.string())})
    elif isinstance(rows, pa.Table):
        table = rows
    elif hasattr(rows, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(rows).read_all()
    elif isinstance(rows, (str, bytes)):
        raise UsageError("rows: give URLs, not one text")
    else:
        values = list(rows)
        is_urls = all(row is None or isinstance(row, str) for row in values)
        table = pa.table({url: pa.array(values, pa.large_string())}) if is_urls else pa.Table.from_pylist(values)
    if url not in table.column_names:
        raise UsageError(f"rows: there is no column {url!r}")
    table = table.drop_columns([name for name in (ROW, SHARE) if name in table.column_names])
    # With small offsets a column of more than 2 GiB could not be sorted.
    table = table.cast(pa.schema([_with_large_offsets(field, field.name == url) for field in table.schema]))
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))


def _with_large_offsets(field: pa.Field, is_url: bool) -> pa.Field:
    return field.with_type(pa.large_string()) if is_url or pa.types.is_string(field.type) else field


def _has_same_urls(one: pa.Table, other: pa.Table, url: str) -> bool:
    """Whether they have the same URLs, in any order, since that of a dataset's rows may change."""
    first, second = (table.column(url).take(pc.sort_indices(table.column(url))) for table in (one, other))
    return bool(first.equals(second))


def _actor_range(actors: Any) -> tuple[int, int]:
    if isinstance(actors, int):
        return actors, actors
    if not ray.is_initialized():
        ray.init()
    least, most = actors or (1, None)
    return least, max(least, most or int(_cpus()))


def _cpus() -> float:
    """The processors of the cluster."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("CPU", 1)


def _dataset(rows: pa.Table, options: dict[str, Any], pool: Mapping[str, Any]) -> ray.data.Dataset:
    """What fetches rows when it is executed."""
    least, most = _actor_range(pool["actors"])
    calls = partition(rows, options["url"], pool["batch_size"], most)
    if not calls:
        return ray.data.from_arrow(Fetch(**options)(rows))
    dataset = ray.data.from_arrow(calls)
    # A call is a block in and a block out, so a call that Ray repeats has returned all of its rows before or none: calls whose rows come in
    # several blocks would be divided elsewhere the next time.
    dataset.context.target_max_block_size = None
    return dataset.map_batches(
        Fetch,
        fn_constructor_kwargs=options,
        compute=ray.data.ActorPoolStrategy(min_size=min(least, len(calls)), max_size=min(most, len(calls))),
        batch_format="pyarrow",
        batch_size=None,
        **pool["ray_remote_args"],
    )


def _log_summary(results: pa.Table) -> None:
    """Counts and causes, as the command has them at the end."""
    states = results.group_by("state").aggregate([([], "count_all")]).sort_by("state").to_pylist()
    failed = results.filter(pc.equal(results.column("state"), "failed"))
    causes = failed.group_by(["error_class", "status"]).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    counts = ", ".join(f"{row['count_all']} {row['state']}" for row in states)
    reasons = "".join(f"; {row['count_all']} x {row['error_class']} {row['status'] or ''}".rstrip() for row in causes.to_pylist()[:10])
    _logger.log(logging.WARNING if failed.num_rows else logging.INFO, "%s%s", counts, reasons)
