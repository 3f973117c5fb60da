"""The actor of `haul.ray`: it fetches tables of URLs, and stores bodies in folders or on S3."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import pathlib
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from ._arguments import Path, Size
from ._arrow import add_columns, rows_of_batch
from ._client import Client
from ._errors import Error, LocalIOError, UsageError, error_class
from ._haul import empty_columns
from ._partition import SHARE
from ._ray_manifest import local_errors, remove_others
from ._waiting import INTERVAL

_logger = logging.getLogger("haul")

#: Files that an actor uploads at a time.
_UPLOADS = 16

#: Seconds that an actor whose machine cannot store files leaves the work to others: at first, and at most. It fails a call in no time, and would
#: soon have had more of them than the others.
_LOCAL_PAUSE, _LONGEST_PAUSE, _MOST_DOUBLINGS = 5.0, 300.0, 6

#: The beginning of the names of temporary folders that an actor holds a lock on.
_STAGING_PREFIX = "haul-ray-"

#: Arguments of `Client.batch` that mean nothing in an actor, and what to do.
_REFUSED = {
    "map": "apply it to the column body, with map_batches",
    "map_threads": "it is for map",
    "manifest": "give haul.ray.fetch a manifest, and the driver writes it",
}


class Fetch:
    """An actor for `map_batches`: one client whose connections, DNS answers and knowledge of hosts stay warm.

    It takes tables with a column `url` (and perhaps path, checksum, sha256, ...) and returns them with the columns of results. Without `tar`
    and `dir` the bodies are a column. `tar` and `dir` are folders, on a disk or as s3://bucket/prefix/; files for S3 are made in a temporary
    directory first. In `dir` a file is named by its URL's digest, unless it has a path, and it replaces one that is there, unless `overwrite`
    is False. No two URLs may have one path: `haul.ray.fetch` checks that. `client` has the arguments of `haul.Client`, whose limits are those
    of each actor; the others are those of `Client.batch` but `manifest`, `map` and `map_threads`.
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
        for name, hint in _REFUSED.items():
            if arguments.get(name) is not None:
                raise UsageError(f"{name}: an actor does not take it", hint=hint)
        if dir is not None and arguments.get("layout", "hash") != "hash":
            raise UsageError("layout: names from URLs may be the same in two calls", hint="give rows a path of their own")
        self._target = _checked_target(tar if dir is None else dir)
        self._is_tar = tar is not None
        self._url, self._arguments = url, arguments
        if tar is not None:
            self._arguments = {**arguments, "shard_size": shard_size}
        elif dir is not None:
            # What a call has left whose machine was lost has no result: without it nobody knows its checksum.
            self._arguments = {"overwrite": True, **arguments, "layout": "hash"}
        self._name = f"{job or uuid.uuid4().hex[:8]}-{uuid.uuid4().hex[:12]}"
        self._numbers = itertools.count(1)
        self._settings = dict(client or {})
        #: Calls in a row that this machine could not store.
        self._local_failures = 0
        #: By the number of calls that share a host's limits.
        self._clients: dict[int, Client] = {}
        if self._is_s3():
            _remove_stale_folders()

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
        with local_errors("the temporary folder"), tempfile.TemporaryDirectory(prefix="haul-") as folder:
            place: dict[str, Any] = {} if self._target is None else self._place(folder)
            self._client(1).batch([], **self._arguments, **place).run()

    def _fetch(self, batch: pa.RecordBatch, client: Client) -> pa.RecordBatch:
        if self._target is None:
            return add_columns(batch, self._collect(batch, client, {}), with_bodies=True)
        if not self._is_s3():
            return add_columns(batch, self._fetch_into(self._target, batch, client), with_bodies=False)
        try:
            with _staging_folder() as folder:
                columns = self._fetch_into(folder, batch, client)
                self._upload(folder, self._target.rstrip("/") + "/", columns, client)
        except OSError as error:
            columns = empty_columns(batch.num_rows)
            self._fail_others(columns, LocalIOError(f"cannot make a temporary folder: {error}"), None)
        return add_columns(batch, columns, with_bodies=False)

    def _is_s3(self) -> bool:
        return self._target is not None and self._target.startswith("s3://")

    def _fetch_into(self, folder: str, batch: pa.RecordBatch, client: Client) -> dict[str, Any]:
        place = self._place(folder)
        try:
            return self._collect(batch, client, place)
        finally:
            if "tar" in place:
                # What large files have left that failed: no other call has a shard of this name.
                shutil.rmtree(place["tar"] + ".haul-staging", ignore_errors=True)

    def _place(self, folder: str) -> dict[str, Any]:
        """Where a call's bytes go: the folder, or a further shard in it."""
        if not self._is_tar:
            return {"dir": folder}
        return {"tar": os.path.join(folder, f"{self._name}-{next(self._numbers):06}.tar")}

    def _collect(self, batch: pa.RecordBatch, client: Client, place: dict[str, Any]) -> dict[str, Any]:
        """The columns of results. Where this machine fails, rows that were done stay done, and the others are failures to try elsewhere."""
        columns = empty_columns(batch.num_rows)
        try:
            rows = rows_of_batch(batch, self._url)
            # Their numbers in the call say nothing to anybody.
            with client.batch(rows, **self._arguments, **place, _collects=True, _has_numbers=False) as run:
                try:
                    while not run._run.collect(INTERVAL):
                        pass
                finally:
                    run._is_ended = True
                    columns = run._run.columns(batch.num_rows)
        except LocalIOError as error:
            self._fail_others(columns, error, place.get("tar"))
        else:
            self._local_failures = 0
        return columns

    def _fail_others(self, columns: dict[str, Any], failure: LocalIOError, tar: str | None) -> None:
        """Fails rows that have no result, and those whose shard has not got its name; what there is of it is removed.

        Then it leaves the work to other actors, each time for twice as long.
        """
        _logger.warning("%s", failure)
        folder, name = os.path.split(tar or "")
        for index, (state, error, shard) in enumerate(zip(columns["state"], columns["error"], columns["shard"], strict=True)):
            is_unnamed = shard is not None and not os.path.exists(os.path.join(folder, shard))
            if is_unnamed or (state == "failed" and error is None):
                _fail(columns, index, failure)
        if tar is not None:
            remove_others(folder, name.removesuffix(".tar"), set(columns["shard"]))
        time.sleep(min(_LOCAL_PAUSE * 2**self._local_failures, _LONGEST_PAUSE))
        self._local_failures = min(self._local_failures + 1, _MOST_DOUBLINGS)

    def _upload(self, folder: str, target: str, columns: dict[str, Any], client: Client) -> None:
        """Uploads what rows name; what failed files have left stays behind. Rows whose file or shard could not be uploaded have failed."""
        failures: dict[str, Error] = {}
        names: list[str | None] = list(columns["shard"])
        if not self._is_tar:
            names = [None if path is None else os.path.relpath(path, folder) for path in columns["path"]]
            columns["path"] = [None if name is None else target + name for name in names]

        def upload(name: str) -> None:
            try:
                client.put(os.path.join(folder, name), target + name)
            except Error as error:
                failures[name] = error

        stored = {name for name, state in zip(names, columns["state"], strict=True) if name is not None and state != "failed"}
        with ThreadPoolExecutor(_UPLOADS) as pool:
            list(pool.map(upload, stored))
        for index, name in enumerate(names):
            if name in failures and columns["state"][index] != "failed":
                _fail(columns, index, failures[name])


def _fail(columns: dict[str, Any], index: int, error: Error) -> None:
    columns["state"][index] = "failed"
    columns["error_class"][index] = error_class(error)
    columns["error"][index] = str(error)
    columns["path"][index] = columns["shard"][index] = columns["offset"][index] = None


def _checked_target(target: Path | None) -> str | None:
    """A folder, or s3://bucket/prefix/."""
    if target is None:
        return None
    text = os.fspath(target)
    if "://" in text and not re.match("s3://[^/]", text):
        raise UsageError("tar and dir: they are a folder, or s3://bucket/prefix/")
    return text


@contextlib.contextmanager
def _staging_folder() -> Iterator[str]:
    """A temporary folder that is locked while its process lives. It gets its name when it is locked."""
    folder = tempfile.mkdtemp(prefix="haul-")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Where a file system has no locks it keeps its first name, and nobody takes it for a stale one.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            name = os.path.join(os.path.dirname(folder), f"{_STAGING_PREFIX}{uuid.uuid4().hex}")
            os.rename(folder, name)
            folder = name
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_stale_folders() -> None:
    """Removes the temporary folders of processes that were killed."""
    for path in pathlib.Path(tempfile.gettempdir()).glob(f"{_STAGING_PREFIX}*"):
        # Those of others, and those that are locked, raise.
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
