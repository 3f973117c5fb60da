"""The files of a fetch on Ray: its manifest in JSON Lines, and what else is written and removed."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pathlib
import shutil
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from ._arrow import RESULT_SCHEMA
from ._errors import LocalIOError, UsageError
from ._partition import ROW

MANIFEST_SCHEMA = pa.schema([(ROW, pa.int64()), ("url", pa.large_string()), *RESULT_SCHEMA])

#: The beginning of a URL, to the end of its host and port.
_AUTHORITY = r"^\s*[A-Za-z][A-Za-z0-9+.-]*://([^/?#\\]*@)?(\[[^\]/]*\]|[^/?#@:\\\[\]]*)(:[0-9]*)?([/?#]|$)"


@contextlib.contextmanager
def local_errors(argument: str = "manifest") -> Iterator[None]:
    """What fails on the driver's disk is an error of haul's, as in `Client.batch`."""
    try:
        yield
    except OSError as error:
        text = f"{argument}: {error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        raise LocalIOError(text, hint="once that is fixed, the same call continues") from error


def open_manifest(path: pathlib.Path) -> io.FileIO:
    """The manifest, to read and to append to. A new one is for its owner alone."""
    # Without a buffer: what a full disk does not take would be written again when the file is closed.
    return open(path, "a+b", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600))


def append(file: io.FileIO, lines: bytes) -> None:
    """Writes lines, and waits until they are on the disk."""
    rest = memoryview(lines)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def redact_urls(table: pa.Table) -> pa.Table:
    """Results whose URLs have no login, no query and no fragment, since these may be secret. The row's number says which URL it is."""
    urls = pc.cast(table.column("url"), pa.large_string())
    has_authority = pc.match_substring_regex(urls, _AUTHORITY)
    urls = pc.replace_substring_regex(urls, r"(?s)[?#].*", "?***")
    urls = pc.replace_substring_regex(urls, r"//[^/]*@", "//***@")
    # Where a login in another text ends, nobody knows.
    urls = pc.if_else(has_authority, urls, pa.scalar(None, pa.large_string()))
    return table.set_column(table.column_names.index("url"), "url", urls)


@contextlib.contextmanager
def written(path: pathlib.Path) -> Iterator[IO[bytes]]:
    """A file that is there when it is whole. It is for its owner alone: URLs may have signatures."""
    temporary = path.with_name(path.name + ".tmp")
    # What a killed run left, or another user: neither its permissions nor its owner are kept.
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def json_lines(table: pa.Table) -> bytes:
    """Numbers and texts as JSON Lines, column by column: a `json.dumps` for each row takes several times as long."""

    def texts(column: pa.ChunkedArray) -> list[str]:
        if pa.types.is_integer(column.type):
            return pc.fill_null(pc.cast(column, pa.string()), "null").to_pylist()  # type: ignore[no-any-return]
        return ["null" if value is None else encode_basestring_ascii(value) for value in column.to_pylist()]

    pattern = "{" + ", ".join(f'"{name}": %s' for name in table.column_names) + "}\n"
    return "".join(pattern % values for values in zip(*map(texts, table.columns), strict=True)).encode()


def lock(file: io.FileIO) -> None:
    """Two drivers must not record into one manifest. Where a file system has no locks, nobody checks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{file.name}: another driver records into it") from None
    except OSError:
        pass


def cut_incomplete_line(file: io.FileIO) -> None:
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


def remove_others(folder: str, prefix: str, kept: set[str | None]) -> None:
    """Removes what has a prefix and is not kept."""
    for path in pathlib.Path(folder).glob(f"{prefix}*"):
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
