"""Batches: many rows in, one result for each of them out."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _haul
from ._arguments import Size
from ._errors import UsageError
from ._haul import Row
from ._waiting import INTERVAL, RunningWork

if TYPE_CHECKING:
    from ._client import Client

#: Results that are taken at once.
_ROWS = 256

#: Bodies for each thread that are with `map=` at a time.
_BODIES_PER_THREAD = 4


@dataclass(frozen=True)
class Snapshot:
    """How far a batch is."""

    listed: int
    """Rows that were pulled."""
    done: int
    """Rows whose file is there."""
    skipped: int
    """Rows whose file existed already."""
    failed: int
    retries: int
    bytes: int
    """Bytes of the files that are there."""
    fetched: int
    """Bytes of response bodies, those of retries too."""
    running: int
    """Rows under way."""
    causes: list[tuple[str, int]]
    """Why rows failed, the most frequent cause first; filled at the end."""


class Batch(RunningWork[Row]):
    """A running batch: iterate over it, with `for` or `async for`, for its results.

    Results that nobody takes make it wait. Leaving its `with` block stops what still runs; `run()` does everything and returns the counts.
    """

    def __init__(
        self, run: _haul.BatchHandle, client: Client, function: Callable[[bytes], Any] | None, threads: int | None
    ) -> None:
        super().__init__()
        self._run = run
        self._client = client
        self._failure: Exception | None = None
        self._mapper = None if function is None else _Mapper(function, threads)

    def run(self) -> Snapshot:
        """Waits for all rows, without keeping their results. An exception, Ctrl-C among them, stops it first."""
        with self:
            for _ in self:
                pass
        return self.snapshot()

    def cancel(self) -> None:
        self._run.cancel()

    def snapshot(self) -> Snapshot:
        """How far it is."""
        return Snapshot(**self._run.snapshot())

    @property
    def limit(self) -> int | None:
        """Bytes a second of the batch's client. It can be changed while it runs."""
        return self._client.limit

    @limit.setter
    def limit(self, value: Size) -> None:
        self._client.limit = value

    def _fill(self) -> bool:
        if self._rows:
            return True
        mapper = self._mapper
        if not self._is_ended and (mapper is None or mapper.has_room()):
            rows = self._next_rows(_ROWS if mapper is None else mapper.size)
            self._is_ended = rows is None
            if mapper is None:
                self._rows.extend(rows or ())
            else:
                for row in rows or ():
                    mapper.submit(row)
        if mapper is not None:
            self._rows.extend(mapper.finished(wait=self._is_ended or not mapper.has_room()))
        if not self._is_ended or self._rows or (mapper is not None and mapper.is_busy()):
            return True
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return False

    def _next_rows(self, count: int) -> list[Row] | None:
        """Takes results. Why the batch ended early is kept until the results so far have been taken."""
        try:
            return self._run.next_rows(count, INTERVAL)
        except Exception as error:
            self._failure = error
            return None

    def _drain(self) -> None:
        try:
            while not self._is_ended:
                self._is_ended = self._run.next_rows(_ROWS, INTERVAL) is None
        finally:
            if self._mapper is not None:
                self._mapper.close()


class _Mapper:
    """Calls a function with bodies, in threads."""

    def __init__(self, function: Callable[[bytes], Any], threads: int | None) -> None:
        count = threads or min(32, (os.cpu_count() or 1) + 4)
        self.size = _BODIES_PER_THREAD * count
        self._function = function
        self._pool = concurrent.futures.ThreadPoolExecutor(count, thread_name_prefix="haul map")
        self._running: set[concurrent.futures.Future[Row]] = set()
        self._ready: list[Row] = []

    def has_room(self) -> bool:
        return len(self._running) < self.size

    def is_busy(self) -> bool:
        return bool(self._running or self._ready)

    def submit(self, row: Row) -> None:
        if row.body is None:
            self._ready.append(row)
        else:
            self._running.add(self._pool.submit(self._map, row, row.body))

    def _map(self, row: Row, body: bytes) -> Row:
        try:
            return row._mapped(self._function(body), None)
        except Exception as error:
            return row._mapped(None, f"{type(error).__name__}: {error}")

    def finished(self, wait: bool) -> list[Row]:
        """Rows that are through, after waiting for one for a moment if asked to."""
        rows, self._ready = self._ready, []
        done, self._running = concurrent.futures.wait(
            self._running,
            timeout=INTERVAL if wait and not rows else 0,
            return_when=concurrent.futures.FIRST_COMPLETED,
        )
        rows.extend(future.result() for future in done)
        if not self._running and wait and not rows:
            self._pool.shutdown(wait=False)
        return rows

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def input_rows(rows: Any) -> tuple[Iterable[Any] | None, str | None]:
    """What a batch is made of: an iterable of rows, or the path of a list."""
    if isinstance(rows, (str, os.PathLike)):
        text = os.fspath(rows)
        if "://" in text:
            raise UsageError("rows: one URL is no batch", hint="give a list of URLs, or the path of a list")
        return None, text
    if rows is None or isinstance(rows, (bytes, Mapping)):
        raise UsageError(f"rows: must be URLs or dicts, a table, or the path of a list, not {type(rows).__name__}")
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        from ._arrow import rows_of_arrow

        return rows_of_arrow(rows), None
    return rows, None
