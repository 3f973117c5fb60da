"""The extension module: what the package is made of."""

import builtins
import os
import pathlib
from collections.abc import Callable
from typing import Any, Literal, final

__all__ = [
    "BatchHandle",
    "Row",
    "File",
    "Upload",
    "Engine",
    "shut_down",
    "close_log",
    "take_log_messages",
    "CallHandle",
    "ListHandle",
    "TransferHandle",
    "BodyChunks",
    "RemoteReader",
    "digest_names",
    "is_digest_name",
    "result_columns",
    "empty_columns",
    "version",
]

version: str

digest_names: tuple[str, ...]
"""The algorithms that haul knows, by the names that rows and arguments have for them."""

def is_digest_name(name: str) -> bool:
    """Whether a text is the name of a digest, also of one that haul does not know."""

result_columns: list[tuple[str, str]]
"""The columns of a table of results, with Arrow's names of their types."""

def empty_columns(count: int) -> dict[str, Any]:
    """The columns of rows without results."""

@final
class File:
    """A file that was downloaded."""

    def __new__(
        cls,
        path: str | os.PathLike[str],
        url: str,
        bytes: int,
        fetched: int,
        resumed: int,
        seconds: float,
        connections: int,
        retries: int,
        etag: str | None,
        checksums: list[tuple[str, str]],
    ) -> File: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...
    @property
    def path(self) -> pathlib.Path: ...
    @property
    def url(self) -> str:
        """The URL after redirects, without secrets."""
    @property
    def bytes(self) -> int: ...
    @property
    def fetched(self) -> int:
        """Bytes that this call received."""
    @property
    def resumed(self) -> int:
        """Bytes that an earlier call had left."""
    @property
    def seconds(self) -> float: ...
    @property
    def connections(self) -> int: ...
    @property
    def retries(self) -> int: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def checksums(self) -> list[tuple[str, str]]:
        """Pairs of an algorithm and a digest in hexadecimal."""
    def __fspath__(self) -> str: ...

@final
class Upload:
    """A file that was uploaded."""

    def __new__(
        cls, url: str, bytes: int, resumed: int, seconds: float, etag: str, version_id: str | None, parts: int
    ) -> Upload: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...
    @property
    def url(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def resumed(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def etag(self) -> str: ...
    @property
    def version_id(self) -> str | None: ...
    @property
    def parts(self) -> int: ...

@final
class Row:
    """The result of a row of a batch."""

    def __new__(
        cls,
        *,
        index: int | None,
        url: str,
        path: str | None,
        state: str,
        status: int | None,
        bytes: int,
        checksum: str | None,
        etag: str | None,
        attempts: int,
        ms: int,
        error_class: str | None,
        error: str | None,
        shard: str | None,
        offset: int | None,
        body: builtins.bytes | None,
        value: Any,
    ) -> Row: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...
    @property
    def index(self) -> int | None:
        """The place of the row, from 0."""
    @property
    def url(self) -> str:
        """The URL without secrets."""
    @property
    def path(self) -> str | None:
        """The file, or the name of its entry in an archive; None if the row failed or repeats another one."""
    @property
    def state(self) -> str:
        """done, failed, or skipped: its file exists already, or an earlier run has done it. Repeats of a row have its result."""
    @property
    def status(self) -> int | None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def checksum(self) -> str | None:
        """The first checksum, as sha256:HEX."""
    @property
    def etag(self) -> str | None: ...
    @property
    def attempts(self) -> int: ...
    @property
    def ms(self) -> int:
        """Milliseconds with retries and waits."""
    @property
    def error_class(self) -> str | None:
        """verification, local_io, network, usage, interrupted or map."""
    @property
    def error(self) -> str | None: ...
    @property
    def shard(self) -> str | None:
        """The name of its archive, without the directory."""
    @property
    def offset(self) -> int | None:
        """Where the header of its entry begins in the archive, for tarfile."""
    @property
    def body(self) -> builtins.bytes | None: ...
    @property
    def value(self) -> Any:
        """What `map=` made of the body."""
    @property
    def ok(self) -> bool:
        """Whether it has not failed."""
    def as_dict(self) -> dict[str, Any]:
        """All fields but the body and the value."""
    def _mapped(self, value: Any, error: str | None) -> Row: ...

@final
class CallHandle:
    def wait(self, seconds: float) -> bool: ...
    def result(self) -> Any: ...
    def cancel(self) -> None: ...
    def on_end(self, callback: Callable[[], object]) -> None: ...
    def progress(self) -> tuple[int, int | None]: ...

@final
class BatchHandle:
    def next_rows(self, max_rows: int, seconds: float) -> list[Row] | None: ...
    def collect(self, seconds: float) -> bool: ...
    def columns(self, count: int) -> dict[str, Any]: ...
    def cancel(self) -> None: ...
    def snapshot(self) -> dict[str, Any]: ...

@final
class TransferHandle:
    def next_rows(
        self, max_rows: int, seconds: float
    ) -> (
        list[
            tuple[
                Literal["upload", "download", "copy", "delete"],
                str | None,
                str | None,
                Literal["done", "planned", "failed"],
                int,
                str | None,
                Any,
            ]
        ]
        | None
    ):
        """The fields of `FileResult`."""
    def rowless_counts(self) -> tuple[int, int]: ...
    def progress(self) -> tuple[int, int | None]: ...
    def cancel(self) -> None: ...

@final
class ListHandle:
    def next_page(
        self, seconds: float
    ) -> list[tuple[str, str, int | None, str | None, float | None, str | None]] | None:
        """The fields of `Object`, the time as seconds since 1970."""
    def cancel(self) -> None: ...

@final
class BodyChunks:
    def next_chunk(self, seconds: float) -> builtins.bytes | None: ...
    def cancel(self) -> None: ...

@final
class RemoteReader:
    @property
    def size(self) -> int: ...
    def read_at(self, offset: int, length: int) -> builtins.bytes: ...
    def close(self) -> None: ...

@final
class Engine:
    def __new__(cls, settings: dict[str, Any]) -> Engine: ...
    def set_limit(self, limit: int | None) -> None: ...
    def get(self, download: dict[str, Any], arguments: dict[str, Any]) -> CallHandle: ...
    def put(self, arguments: dict[str, Any]) -> CallHandle: ...
    def bytes(self, download: dict[str, Any]) -> CallHandle: ...
    def stream(self, download: dict[str, Any]) -> BodyChunks: ...
    def open(self, file: dict[str, Any]) -> RemoteReader: ...
    def read_range(self, file: dict[str, Any], start: int, end: int | None) -> CallHandle: ...
    def fetch_metadata(self, file: dict[str, Any]) -> CallHandle: ...
    def batch(self, rows: Any, arguments: dict[str, Any]) -> BatchHandle: ...
    def list(self, arguments: dict[str, Any]) -> ListHandle: ...
    def delete(self, arguments: dict[str, Any]) -> TransferHandle: ...
    def put_many(self, arguments: dict[str, Any]) -> TransferHandle: ...
    def copy(self, arguments: dict[str, Any]) -> TransferHandle: ...
    def sync(self, arguments: dict[str, Any]) -> TransferHandle: ...

def shut_down() -> None: ...
def take_log_messages() -> list[tuple[int, str]] | None: ...
def close_log() -> None: ...
