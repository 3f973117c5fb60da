"""The actor of `haul.ray`: it fetches tables of URLs, and stores bodies in folders or on S3."""

from __future__ import annotations

import itertools
import logging
import os
import pathlib
import tempfile
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from ._arguments import Path, Size
from ._arrow import RESULT_SCHEMA, add_columns, rows_of_batch
from ._client import Client
from ._errors import Error, LocalIOError, UsageError, error_class
from ._partition import SHARE
from ._ray_manifest import remove_others
from ._waiting import INTERVAL

_logger = logging.getLogger("haul")

#: Files that an actor uploads at a time.
_UPLOADS = 16

#: Seconds that an actor whose machine cannot store files leaves the work to others.
_LOCAL_PAUSE = 5.0


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
            remove_others(folder, name.removesuffix(".tar"), set(columns["shard"]))

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
