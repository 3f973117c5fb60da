"""Batches of URLs on a Ray cluster: Ray Data carries the rows, an actor on each machine fetches, and bodies go from there straight to storage.

    import haul.ray

    rows = haul.ray.fetch(urls, tar="s3://bucket/images/", manifest="images.jsonl", rate_per_host=20, actors=(2, 16))

or, in a pipeline of one's own,

    ds.map_batches(haul.ray.Fetch, fn_constructor_kwargs={"tar": "/data/shards"}, compute=ray.data.ActorPoolStrategy(min_size=2, max_size=16),
                   batch_format="pyarrow", batch_size=4096)

A call of an actor makes shards of its own. Their names are those of the job, the actor and a number, and they get them when they are whole;
rows come back with them. What a lost machine had under way is fetched again elsewhere into other shards, so no place in a shard is in two rows.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
import ray.data

from ._arguments import Path, Size
from ._arrow import RESULT_SCHEMA, add_columns, rows_of_batch
from ._client import Client
from ._errors import Error, LocalIOError, UsageError

__all__ = ["Fetch", "fetch", "resume"]

Actors: TypeAlias = "int | tuple[int, int | None] | None"

_logger = logging.getLogger("haul")

#: Rows of one call of an actor, which are fetched again if its machine is lost.
BATCH_SIZE = 4096

#: Files that an actor uploads at a time.
_UPLOADS = 16

#: The number of a row, and how many calls share the limits of its host.
_ROW, _SHARE = "row", "_share"


class Fetch:
    """An actor for `map_batches`: one client whose connections, DNS answers and knowledge of hosts stay warm.

    It takes tables with a column `url` (and perhaps path, checksum, sha256, ...) and returns them with the columns of results. Without `tar`
    and `dir` the bodies are a column. `tar` and `dir` are folders, on a disk or as s3://bucket/prefix/. `client` has the arguments of
    `haul.Client`; the others are those of `Client.batch`.
    """

    def __init__(
        self,
        *,
        tar: str | None = None,
        dir: str | None = None,
        job: str | None = None,
        url: str = "url",
        shard_size: Size = None,
        client: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        if tar is not None and dir is not None:
            raise UsageError("tar and dir: give one of them")
        self._tar, self._dir, self._url = tar, dir, url
        self._name = f"{job or uuid.uuid4().hex[:8]}-{uuid.uuid4().hex[:12]}"
        self._calls = 0
        self._shard_size = shard_size
        self._settings = dict(client or {})
        self._arguments = arguments
        #: By the number of calls that share a host's limits.
        self._clients: dict[int, Client] = {}

    def __call__(self, table: pa.Table) -> pa.Table:
        batch = table.combine_chunks().to_batches()
        share = 1
        if _SHARE in table.column_names:
            share = max(1, table.column(_SHARE)[0].as_py() or 1) if table.num_rows else 1
            table = table.drop_columns([_SHARE])
            batch = table.combine_chunks().to_batches()
        return pa.Table.from_batches([self._fetch(part, self._client(share)) for part in batch] or [self._fetch_nothing(table)])

    def _client(self, share: int) -> Client:
        if share not in self._clients:
            settings = dict(self._settings)
            if settings.get("rate_per_host") is not None:
                settings["rate_per_host"] /= share
            if settings.get("connections_per_host") is not None:
                settings["connections_per_host"] = max(1, settings["connections_per_host"] // share)
            self._clients[share] = Client(**settings)
        return self._clients[share]

    def _fetch_nothing(self, table: pa.Table) -> pa.RecordBatch:
        empty: dict[str, Any] = {name: [] for name in RESULT_SCHEMA.names}
        empty |= {"body_validity": b"", "body_offsets": b"\0" * 8, "body_data": b""}
        nothing = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
        return add_columns(nothing, empty, with_bodies=self._keeps_bodies())

    def _keeps_bodies(self) -> bool:
        return self._tar is None and self._dir is None

    def _fetch(self, batch: pa.RecordBatch, client: Client) -> pa.RecordBatch:
        if self._keeps_bodies():
            return client.fetch_arrow(batch, url=self._url, **self._arguments)
        target = self._tar or self._dir or ""
        if not target.startswith("s3://"):
            return self._fetch_into(batch, client, target)
        with tempfile.TemporaryDirectory(prefix="haul-") as folder:
            found = self._fetch_into(batch, client, folder)
            return self._upload(found, client, folder, target)

    def _fetch_into(self, batch: pa.RecordBatch, client: Client, folder: str) -> pa.RecordBatch:
        self._calls += 1
        # Names must differ over all calls of all actors.
        place: dict[str, Any] = {"dir": folder, "layout": self._arguments.get("layout", "hash")}
        if self._tar is not None:
            place = {"tar": os.path.join(folder, f"{self._name}-{self._calls:06}.tar"), "shard_size": self._shard_size}
        run = client.batch(rows_of_batch(batch, self._url), **{**self._arguments, **place})
        stopped: Error | None = None
        with run:
            try:
                while not run._run.collect(0.1):
                    pass
                run._is_ended = True
            except LocalIOError as error:
                # The rows that were done stay done; the others are failures to try again, perhaps elsewhere.
                run._is_ended = True
                stopped = error
            columns = run._run.columns(batch.num_rows)
        if stopped is not None:
            _fail_missing(columns, stopped)
        return add_columns(batch, columns, with_bodies=False)

    def _upload(self, found: pa.RecordBatch, client: Client, folder: str, target: str) -> pa.RecordBatch:
        """Uploads what was fetched. Rows whose file or shard could not be uploaded have failed."""
        target = target if target.endswith("/") else target + "/"
        files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
        failures: dict[str, Error] = {}

        def upload(path: pathlib.Path) -> None:
            name = path.relative_to(folder).as_posix()
            try:
                client.put(path, target + name)
            except Error as error:
                failures[name] = error

        with ThreadPoolExecutor(_UPLOADS) as pool:
            list(pool.map(upload, files))
        columns = {name: found.column(name).to_pylist() for name in RESULT_SCHEMA.names}
        for index, state in enumerate(columns["state"]):
            path = columns["path"][index]
            if self._tar is None and path is not None:
                path = os.path.relpath(path, folder)
                columns["path"][index] = target + path
            error = failures.get(columns["shard"][index] if self._tar is not None else path)
            if state != "failed" and error is not None:
                _fail(columns, index, error)
        return add_columns(found, columns, with_bodies=False)


def _fail(columns: dict[str, Any], index: int, error: Error) -> None:
    columns["state"][index] = "failed"
    columns["error_class"][index] = "network" if not isinstance(error, LocalIOError) else "local_io"
    columns["error"][index] = str(error)
    columns["shard"][index] = columns["offset"][index] = None


def _fail_missing(columns: dict[str, Any], error: Error) -> None:
    """Rows without a result have failed for what stopped the batch."""
    for index, state in enumerate(columns["state"]):
        if state == "failed" and columns["error"][index] is None:
            _fail(columns, index, error)


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

    `rows`: a Ray dataset or an Arrow table with a column `url`, or URLs. `tar` and `dir` are folders that all machines see, or
    s3://bucket/prefix/. Rows of one host go to one actor; a host with more rows than a call takes is divided, and so are its limits. With a
    manifest, a file of the driver's, everything is fetched now, each row is recorded as soon as its shard is whole, and the same call after a
    crash of any part goes on with the rest. Without one the dataset is lazy, as all of Ray Data's.
    """
    if (tar is None) == (dir is None) and manifest is not None:
        raise UsageError("manifest: it records files, so give tar or dir")
    settings = dict(client or {})
    if rate_per_host is not None:
        settings["rate_per_host"] = rate_per_host
    options = {
        "tar": None if tar is None else os.fspath(tar),
        "dir": None if dir is None else os.fspath(dir),
        "url": url,
        "shard_size": shard_size,
        "client": settings,
        "checksum": checksum,
        **arguments,
    }
    running = {"batch_size": batch_size, "actors": _actor_range(actors), "ray_remote_args": dict(ray_remote_args or {})}
    if manifest is None:
        return _dataset(_numbered(rows, url), {**options, "job": uuid.uuid4().hex[:8]}, running)
    job = _Job.open(pathlib.Path(manifest)) or _Job.create(pathlib.Path(manifest), rows, options, running)
    return job.run()


def resume(manifest: Path) -> ray.data.Dataset:
    """Fetches what failed or is missing of an earlier `fetch` with this manifest, with its arguments, and returns all rows."""
    job = _Job.open(pathlib.Path(manifest))
    if job is None:
        raise UsageError(f"there is no {_Job.description_of(pathlib.Path(manifest))}", hint="haul.ray.fetch(..., manifest=...) makes it")
    return job.run()


class _Job:
    """A fetch with a manifest. Beside it are its rows and its arguments, so that it can go on without them."""

    def __init__(self, manifest: pathlib.Path, name: str, options: dict[str, Any], running: dict[str, Any]) -> None:
        self._manifest = manifest
        self._name, self._options, self._running = name, options, running

    @staticmethod
    def description_of(manifest: pathlib.Path) -> pathlib.Path:
        return manifest.with_name(manifest.name + ".job")

    @staticmethod
    def input_of(manifest: pathlib.Path) -> pathlib.Path:
        return manifest.with_name(manifest.name + ".rows.parquet")

    @classmethod
    def create(cls, manifest: pathlib.Path, rows: Any, options: dict[str, Any], running: dict[str, Any]) -> _Job:
        if manifest.exists():
            raise UsageError(f"{manifest} exists and is not the manifest of such a job", hint="choose another name")
        manifest.parent.mkdir(parents=True, exist_ok=True)
        # The description comes last: it says that the rows are whole.
        pq.write_table(_numbered(rows, options["url"]), cls.input_of(manifest))
        job = cls(manifest, uuid.uuid4().hex[:8], options, running)
        text = json.dumps({"format": "haul-ray-1", "job": job._name, "options": options, "running": running})
        _write_whole(cls.description_of(manifest), text)
        return job

    @classmethod
    def open(cls, manifest: pathlib.Path) -> _Job | None:
        try:
            found = json.loads(cls.description_of(manifest).read_text())
        except FileNotFoundError:
            return None
        return cls(manifest, found["job"], found["options"], found["running"])

    def run(self) -> ray.data.Dataset:
        done = {row[_ROW] for row in self._recorded() if row["state"] != "failed"}
        rows = pq.read_table(self.input_of(self._manifest))
        if done:
            rows = rows.filter(pc.invert(pc.is_in(rows.column(_ROW), pa.array(sorted(done), pa.int64()))))
        _logger.info("%d rows to fetch, %d done before", rows.num_rows, len(done))
        if rows.num_rows:
            self._fetch(rows)
        latest = {row[_ROW]: row for row in self._recorded()}
        self._remove_orphans({row.get("shard") for row in latest.values()})
        _log_summary(latest.values())
        return ray.data.from_arrow(pa.Table.from_pylist([latest[number] for number in sorted(latest)]))

    def _fetch(self, rows: pa.Table) -> None:
        """Records rows as they come. A line that a crash has cut short is left behind, and its row is fetched again."""
        results = _dataset(rows, {**self._options, "job": self._name}, self._running)
        with open(self._manifest, "a+b") as file:
            _end_line(file)
            for table in results.iter_batches(batch_size=None, batch_format="pyarrow"):
                lines = [json.dumps(row, default=str) + "\n" for row in table.to_pylist()]
                file.write("".join(lines).encode())
                file.flush()
                os.fsync(file.fileno())

    def _recorded(self) -> Iterator[dict[str, Any]]:
        try:
            with open(self._manifest, "rb") as file:
                for line in file:
                    try:
                        yield json.loads(line)
                    except ValueError:
                        continue
        except FileNotFoundError:
            return

    def _remove_orphans(self, shards: set[str | None]) -> None:
        """Removes shards of actors that were lost before their rows were recorded."""
        tar = self._options["tar"]
        if tar is None or tar.startswith("s3://"):
            return
        for path in pathlib.Path(tar).glob(f"{self._name}-*"):
            if path.name not in shards:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _write_whole(path: pathlib.Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    # It may have keys of a store.
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _end_line(file: Any) -> None:
    """Ends a line that a crash has cut short."""
    if file.seek(0, os.SEEK_END) > 0:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _numbered(rows: Any, url: str) -> pa.Table:
    """The rows as a table with their numbers."""
    if isinstance(rows, ray.data.Dataset):
        tables = list(rows.iter_batches(batch_size=None, batch_format="pyarrow"))
        table = pa.concat_tables(tables) if tables else pa.table({url: pa.array([], pa.string())})
    elif isinstance(rows, pa.Table):
        table = rows
    elif hasattr(rows, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(rows).read_all()
    elif isinstance(rows, (str, bytes)):
        raise UsageError("rows: give URLs, not one text")
    else:
        table = _table_of(list(rows), url)
    if url not in table.column_names:
        raise UsageError(f"rows: there is no column {url!r}")
    if _ROW in table.column_names:
        table = table.drop_columns([_ROW])
    return table.append_column(_ROW, pa.array(range(table.num_rows), pa.int64()))


def _table_of(rows: list[Any], url: str) -> pa.Table:
    if all(row is None or isinstance(row, str) for row in rows):
        return pa.table({url: pa.array(rows, pa.string())})
    return pa.Table.from_pylist(rows)


def _actor_range(actors: Actors) -> tuple[int, int]:
    if isinstance(actors, int):
        return actors, actors
    cpus = int(ray.cluster_resources().get("CPU", 1)) if ray.is_initialized() else os.cpu_count() or 1
    least, most = actors or (1, None)
    return least, max(least, most if most is not None else cpus)


def _dataset(rows: pa.Table, options: dict[str, Any], running: Mapping[str, Any]) -> ray.data.Dataset:
    least, most = running["actors"]
    blocks = partition(rows, options["url"], running["batch_size"], most)
    if not blocks:
        return ray.data.from_arrow(Fetch(**options)(rows))
    return ray.data.from_arrow(blocks).map_batches(
        Fetch,
        fn_constructor_kwargs=options,
        compute=ray.data.ActorPoolStrategy(min_size=min(least, len(blocks)), max_size=max(1, min(most, len(blocks)))),
        batch_format="pyarrow",
        # A block is a call: what a machine had under way when it was lost is fetched again, and nothing of it was returned before.
        batch_size=None,
        **running["ray_remote_args"],
    )


def partition(rows: pa.Table, url: str, batch_size: int, actors: int) -> list[pa.Table]:
    """The rows of each call. Those of a host are in one call; a host with more than a call takes has several, which share its limits."""
    if rows.num_rows == 0:
        return []
    hosts = pc.struct_field(pc.extract_regex(rows.column(url), r"^[^:/?#]*://(?:[^/?#@]*@)?(?P<host>[^/?#]*)"), "host")
    order = pc.sort_indices(pa.table({"host": hosts}), sort_keys=[("host", "ascending")])
    rows = rows.take(order)
    counts = pc.run_end_encode(hosts.combine_chunks().take(order) if isinstance(hosts, pa.ChunkedArray) else hosts.take(order))
    ends = counts.run_ends.to_pylist()
    blocks: list[tuple[int, int, int]] = []
    begin = start = 0
    for end in ends:
        if end - begin > batch_size:
            # Large: calls of its own, after those of the hosts before it.
            if begin > start:
                blocks.append((start, begin, 1))
            calls = -(-(end - begin) // batch_size)
            share = min(calls, actors)
            blocks += [(at, min(at + batch_size, end), share) for at in range(begin, end, batch_size)]
            start = end
        elif end - start > batch_size:
            blocks.append((start, begin, 1))
            start = begin
        begin = end
    if begin > start:
        blocks.append((start, begin, 1))
    # Calls of one large host are not all at once, as far as there are others.
    blocks = [block for offset in range(actors) for block in blocks[offset::actors]]
    return [
        rows.slice(start, end - start).append_column(_SHARE, pa.array([share] * (end - start), pa.int32()))
        for start, end, share in blocks
    ]


def _log_summary(rows: Iterable[Mapping[str, Any]]) -> None:
    """Counts and causes, as the command has them at the end."""
    counts: dict[str, int] = {}
    causes: dict[str, int] = {}
    for row in rows:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
        if row["state"] == "failed":
            cause = f"{row['error_class']} {row['status'] or ''}".strip()
            causes[cause] = causes.get(cause, 0) + 1
    text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    worst = sorted(causes.items(), key=lambda item: -item[1])
    _logger.info("%s%s", text, "".join(f"; {count} x {cause}" for cause, count in worst[:10]))
