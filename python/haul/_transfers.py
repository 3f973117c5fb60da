"""Work on many files or objects: a running upload, copy, deletion or sync, and a list, with what they bring."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Literal

from . import _haul
from ._errors import Error, Interrupted
from ._waiting import INTERVAL, Progress, RunningWork, reporter

#: Results that are taken at once.
_ROWS = 256

#: Failures that a summary keeps. Further ones are only counted.
MAX_FAILURES = 1000


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a store, or a folder of a list that is not recursive."""

    url: str
    """Its address, as `get` and `delete` take it."""
    key: str
    """That of a folder ends with a slash."""
    size: int | None
    """Bytes; None for a folder, as all that follows."""
    etag: str | None
    """The entity tag without quotes."""
    modified: datetime | None
    """When it was stored, in UTC."""
    storage_class: str | None

    @property
    def is_folder(self) -> bool:
        """Whether it stands for all objects below its key."""
        return self.size is None


@dataclass(frozen=True, slots=True)
class FileResult:
    """What happened to one file or object."""

    action: Literal["upload", "download", "copy", "delete"]
    source: str | None
    """A path or a URL without secrets. None for a deletion, and for a failure that is not about one file."""
    target: str | None
    """Where it went, or what was deleted. None for a source that cannot be used."""
    state: Literal["done", "planned", "failed"]
    """`planned` with dry_run."""
    bytes: int
    etag: str | None
    error: Error | None
    """Why it failed: an exception, with its hint."""

    @property
    def ok(self) -> bool:
        """Whether it has not failed."""
        return self.error is None


@dataclass(frozen=True)
class Summary:
    """The counts of an upload, a copy, a deletion or a sync. With dry_run, what would be done counts as done."""

    done: int = 0
    """Files that were uploaded, downloaded or copied."""
    deleted: int = 0
    skipped: int = 0
    """Files that the manifest has as done, and that have not changed."""
    failed: int = 0
    not_deleted: int = 0
    """Files that only the target of a sync has, and that were not deleted because something failed."""
    bytes: int = 0
    """Bytes of the files that are done."""
    failures: list[FileResult] = field(default_factory=list)
    """The files that failed; of more than 1000 the first ones."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed and not self.not_deleted

    def raise_for_failures(self) -> None:
        """Raises the error of the first file that failed, if one did."""
        for failure in self.failures:
            if failure.error is not None:
                raise failure.error


class Transfer(RunningWork[FileResult]):
    """A running upload, copy, deletion or sync: iterate over it, with `for` or `async for`, for its results.

    Results that nobody takes make it wait. Leaving its `with` block, or dropping it, stops what still runs; `run()` does everything and
    returns the counts. What ends it early (a list that fails, a limit) is an exception after the results so far.
    """

    def __init__(self, handle: _haul.TransferHandle) -> None:
        super().__init__()
        self._handle = handle
        self._counts: collections.Counter[str] = collections.Counter()
        self._failures: list[FileResult] = []
        self._is_cancelled = False

    def run(self, progress: Progress = None) -> Summary:
        """Waits for the end, without keeping results of files that are done. An exception, Ctrl-C among them, stops it first."""
        with self, reporter(progress) as report:
            while self._fill():
                self._rows.clear()
                if report is not None:
                    report(*self._handle.progress())
        return self.summary()

    async def arun(self, progress: Progress = None) -> Summary:
        """`run` for asyncio. A cancelled task stops it."""
        async with self:
            with reporter(progress) as report:
                while await asyncio.to_thread(self._fill):
                    self._rows.clear()
                    if report is not None:
                        report(*self._handle.progress())
        return self.summary()

    def cancel(self) -> None:
        self._is_cancelled = True
        self._handle.cancel()

    def summary(self) -> Summary:
        """The counts of the results that have come."""
        skipped, not_deleted = self._handle.rowless_counts()
        return Summary(skipped=skipped, not_deleted=not_deleted, failures=list(self._failures), **self._counts)

    def _fill(self) -> bool:
        if self._rows:
            return True
        if self._is_ended:
            return False
        try:
            found = self._handle.next_rows(_ROWS, INTERVAL)
        except Interrupted:
            if not self._is_cancelled:
                raise
            found = None
        self._is_ended = found is None
        for fields in found or ():
            row = FileResult(*fields)
            self._count(row)
            self._rows.append(row)
        return not self._is_ended

    def _count(self, row: FileResult) -> None:
        if not row.ok:
            self._counts["failed"] += 1
            if len(self._failures) < MAX_FAILURES:
                self._failures.append(row)
        elif row.action == "delete":
            self._counts["deleted"] += 1
        else:
            self._counts["done"] += 1
            self._counts["bytes"] += row.bytes

    def _drain(self) -> None:
        """Waits for the end after it was stopped. Why it ended was said before, or nobody asks."""
        with contextlib.suppress(Error):
            while self._fill():
                self._rows.clear()


class Listing:
    """The objects of a list: iterate over it, with `for` or `async for`. Pages come as they are needed, and leaving the loop stops it."""

    def __init__(self, handle: _haul.ListHandle) -> None:
        self._handle = handle

    def __iter__(self) -> Iterator[Object]:
        try:
            while (page := self._handle.next_page(INTERVAL)) is not None:
                for fields in page:
                    yield _object(*fields)
        finally:
            self._handle.cancel()

    async def __aiter__(self) -> AsyncIterator[Object]:
        try:
            while (page := await asyncio.to_thread(self._handle.next_page, INTERVAL)) is not None:
                for fields in page:
                    yield _object(*fields)
        finally:
            self._handle.cancel()


def _object(
    url: str, key: str, size: int | None, etag: str | None, modified: float | None, storage_class: str | None
) -> Object:
    time = None if modified is None else datetime.fromtimestamp(modified, timezone.utc)
    return Object(url, key, size, etag, time, storage_class)
