"""`haul.Client`, and the functions that use one for all."""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from . import _arguments, _haul, _runtime
from ._arguments import Auth, Headers, MinRate, Path, Size
from ._batch import Batch, input_rows
from ._errors import UsageError
from ._object_calls import ObjectCalls, PutArguments, checked, upload_requests
from ._waiting import INTERVAL, Progress, wait, wait_async

if TYPE_CHECKING:
    import pyarrow as pa

#: What to do with a URL where a path is wanted.
_UPLOAD_HINT = "haul.put uploads a file to s3:// or http(s)://"
_BATCH_HINT = "a batch writes to this machine; haul.ray.fetch takes s3:// for dir and tar"


class Client(ObjectCalls):
    """Connections, DNS answers and limits that transfers share. Any thread may use it; a copy in another process has the settings only.

    `connections_per_host`: exactly so many, instead of as many as pay. `rate_per_host`: requests a second that a batch begins at each
    host. `limit`: bytes a second of everything together, such as "20M". `proxy`: a URL, or "" for none; by default the environment decides.
    `retries`: of a request without progress. `timeout`: seconds without an answer or a byte. `response_timeout`: seconds until a response
    begins, where that may take longer. `max_wait`: seconds that a server may ask to wait, 900 by default; more end the transfer at once.
    `min_rate`: a download that brings fewer bytes a second ends with an error; (bytes, seconds) says over which time, 30 seconds otherwise,
    and 0 is no limit. By default (100, 300) for files of a batch, and none for other downloads. `max_time`: seconds that each download may take.
    `verify`: False accepts every certificate, a path names the only authorities. `cert`: a client certificate, a PEM file with its key or (certificate, key).
    `connect_timeout`: seconds until there is a connection. `no_proxy`: hosts that are reached without a proxy. `resolve`: {"example.com:443": "192.0.2.1"} in place of
    DNS. `ip_version`: 4 or 6 alone. `http_version`: "1.1" alone, or "2" for files of a batch over https. `max_redirects`: 20 by default. `allow_downgrade`: follow
    redirects from https to http. `s3`: a dict of endpoint_url, region, profile, access_key, secret_key, no_sign_request,
    request_payer; what it does not say comes from AWS's variables and files.
    """

    def __init__(
        self,
        connections_per_host: int | None = None,
        rate_per_host: float | None = None,
        limit: Size = None,
        proxy: str | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        s3: Mapping[str, Any] | None = None,
        *,
        response_timeout: float | None = None,
        connect_timeout: float | None = None,
        max_wait: float | None = None,
        min_rate: MinRate = None,
        max_time: float | None = None,
        verify: bool | Path = True,
        cert: Path | tuple[Path, Path] | None = None,
        headers: Headers = None,
        no_proxy: str | Iterable[str] | None = None,
        resolve: Mapping[str, str | Iterable[str]] | None = None,
        ip_version: Literal[4, 6] | None = None,
        http_version: Literal["1.1", "2"] | None = None,
        max_redirects: int | None = None,
        allow_downgrade: bool = False,
    ) -> None:
        if proxy is not None and not isinstance(proxy, str):
            raise UsageError("proxy: must be a URL (str), or \"\" for none")
        if verify is None:
            raise UsageError("verify: must be True, False or the path of a file of authorities, not None")
        self._settings: dict[str, Any] = {
            "connections_per_host": _arguments.count("connections_per_host", connections_per_host, 1, _arguments.MAX_CONNECTIONS),
            "rate_per_host": _arguments.number("rate_per_host", rate_per_host, "requests a second"),
            "limit": _arguments.size("limit", limit),
            "proxy": proxy,
            "retries": _arguments.count("retries", retries, 0),
            "timeout": _arguments.number("timeout", timeout, "seconds"),
            "response_timeout": _arguments.number("response_timeout", response_timeout, "seconds"),
            "connect_timeout": _arguments.number("connect_timeout", connect_timeout, "seconds"),
            "max_wait": _arguments.number("max_wait", max_wait, "seconds"),
            "min_rate": _arguments.min_rate("min_rate", min_rate),
            "max_time": _arguments.number("max_time", max_time, "seconds"),
            "verify": verify if isinstance(verify, bool) else _arguments.path("verify", verify),
            "cert": _arguments.certificate(cert),
            "headers": _arguments.headers(headers),
            "no_proxy": None if no_proxy is None else ",".join(_arguments.texts("no_proxy", no_proxy)),
            "resolve": _arguments.addresses(resolve),
            "ip_version": _arguments.choice("ip_version", ip_version, (4, 6)),
            "http_version": _arguments.choice("http_version", http_version, ("1.1", "2")),
            "max_redirects": _arguments.count("max_redirects", max_redirects, 0),
            "allow_downgrade": _arguments.flag("allow_downgrade", allow_downgrade),
            "s3": _arguments.s3_settings(s3),
        }
        self._start()

    def _start(self) -> None:
        _runtime.start()
        self._engine = _haul.Engine(self._settings)

    def __getstate__(self) -> dict[str, Any]:
        return self._settings

    def __setstate__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._start()

    @property
    def limit(self) -> int | None:
        """Bytes a second of all transfers together; None for no limit. It can be changed while they run."""
        limit: int | None = self._settings["limit"]
        return limit

    @limit.setter
    def limit(self, value: Size) -> None:
        limit = _arguments.size("limit", value)
        self._engine.set_limit(limit)
        self._settings["limit"] = limit

    def _get(self, url: str, path: Path | None, **arguments: Any) -> _haul.CallHandle:
        if path is not None and arguments["dir"] is not None:
            raise UsageError("path and dir: give one of them")
        return self._engine.get(
            _download(url, arguments["checksum"], arguments["mirrors"], arguments["headers"], arguments["auth"]),
            {
                "path": _arguments.path("path", path, _UPLOAD_HINT),
                "directory": _arguments.path("dir", arguments["dir"], _UPLOAD_HINT),
                "connections": _arguments.count("connections", arguments["connections"], 1, _arguments.MAX_CONNECTIONS),
                "overwrite": _arguments.flag("overwrite", arguments["overwrite"]),
            },
        )

    def get(
        self,
        url: str,
        path: Path | None = None,
        *,
        dir: Path | None = None,
        checksum: str | Iterable[str] | None = None,
        mirrors: Sequence[str] = (),
        connections: int | None = None,
        headers: Headers = None,
        auth: Auth = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> _haul.File:
        """Downloads one file, over as many connections as pay, and gives it its name when it is whole and verified.

        Without a path it is named by the server or the URL, in `dir` or the current directory. The same call continues an interrupted
        download. `checksum`: "sha256:HEX" and the like to verify, "sha256" to compute. `auth`: (user, password), or a token.
        `progress`: True for tqdm's bar, or a function of the bytes that are there and the length.
        """
        file: _haul.File = wait(
            self._get(
                url, path, dir=dir, checksum=checksum, mirrors=mirrors, connections=connections, headers=headers, auth=auth,
                overwrite=overwrite,
            ),
            progress,
        )
        return file

    async def aget(
        self,
        url: str,
        path: Path | None = None,
        *,
        dir: Path | None = None,
        checksum: str | Iterable[str] | None = None,
        mirrors: Sequence[str] = (),
        connections: int | None = None,
        headers: Headers = None,
        auth: Auth = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> _haul.File:
        """`get` for asyncio."""
        file: _haul.File = await wait_async(
            self._get(
                url, path, dir=dir, checksum=checksum, mirrors=mirrors, connections=connections, headers=headers, auth=auth,
                overwrite=overwrite,
            ),
            progress,
        )
        return file

    def _put(self, path: Path, url: str, arguments: PutArguments) -> _haul.CallHandle:
        if path is None:
            raise UsageError("path: it is missing")
        arguments = checked(PutArguments, arguments)
        return self._engine.put(
            {
                "path": _arguments.path("path", path, "the path comes first, and then the URL"),
                "url": _arguments.url("url", url),
                "auth": _arguments.auth(arguments.get("auth")),
                "upload": upload_requests(arguments),
            }
        )

    def put(self, path: Path, url: str, *, progress: Progress = None, **arguments: Unpack[PutArguments]) -> _haul.Upload:
        """Uploads a file to s3:// or by PUT to http(s)://, in parts where the server takes them. The same call continues an interrupted upload.

        A URL that ends in a slash takes the file's name: the result has the whole URL.
        """
        upload: _haul.Upload = wait(self._put(path, url, arguments), progress)
        return upload

    async def aput(
        self, path: Path, url: str, *, progress: Progress = None, **arguments: Unpack[PutArguments]
    ) -> _haul.Upload:
        """`put` for asyncio."""
        upload: _haul.Upload = await wait_async(self._put(path, url, arguments), progress)
        return upload

    def bytes(
        self, url: str, *, checksum: str | Iterable[str] | None = None, headers: Headers = None, auth: Auth = None
    ) -> builtins.bytes:
        """The body of a URL. One that broke off is fetched anew where it cannot be continued."""
        body: builtins.bytes = wait(self._engine.bytes(_download(url, checksum, (), headers, auth)))
        return body

    async def abytes(
        self, url: str, *, checksum: str | Iterable[str] | None = None, headers: Headers = None, auth: Auth = None
    ) -> builtins.bytes:
        """`bytes` for asyncio."""
        operation = self._engine.bytes(_download(url, checksum, (), headers, auth))
        body: builtins.bytes = await wait_async(operation)
        return body

    def stream(
        self, url: str, *, checksum: str | Iterable[str] | None = None, headers: Headers = None, auth: Auth = None
    ) -> Iterator[memoryview]:
        """The body of a URL in pieces, as they come. A wrong checksum is an exception behind the last of them."""
        chunks = self._engine.stream(_download(url, checksum, (), headers, auth))
        try:
            while (chunk := chunks.next_chunk(INTERVAL)) is not None:
                if chunk:
                    yield memoryview(chunk)
        finally:
            chunks.cancel()

    def open(self, url: str, *, headers: Headers = None, auth: Auth = None) -> RemoteFile:
        """A file object that reads a URL by range requests, and never mixes two versions of it."""
        return RemoteFile(self._engine.open(_remote_file(url, headers, auth)), url)

    def batch(
        self,
        rows: Any,
        *,
        dir: Path | None = None,
        tar: Path | None = None,
        shard_size: Size = None,
        manifest: Path | None = None,
        checksum: str | Iterable[str] | None = None,
        expect_type: str | Iterable[str] | None = None,
        max_size: Size = None,
        robots_tag: Literal["respect", "ignore"] = "respect",
        overwrite: bool = False,
        layout: Literal["name", "path", "hash"] = "name",
        map: Callable[[builtins.bytes], Any] | None = None,
        map_threads: int | None = None,
        _drop_bodies: bool = False,
        _collects: bool = False,
        _has_numbers: bool = True,
    ) -> Batch:
        """Fetches many files: one result for each row, whatever happens to it, in the order in which they end.

        `rows`: an iterable of URLs or of dicts with a url and perhaps path, size, checksum, sha256, mirrors, headers; an Arrow table or stream
        with such columns; or the path of a list as `haul get -i` takes. Rows are pulled as there is room for them. Files go into `dir`
        or into the archive `tar` (shards of `shard_size`); with neither, each row has its body. `layout` makes names of URLs: their last
        part, host and path, or a digest. `manifest` records every result on the disk,
        and the next call with it fetches what is missing. In an archive, `row.shard` is a name in the directory of `tar`, and `row.offset`
        the place of the entry's header, from which tarfile reads it. `map` is called with each body in threads, and its result is `row.value`.
        """
        if robots_tag not in ("respect", "ignore"):
            raise UsageError(f'robots_tag: {robots_tag!r} is neither "respect" nor "ignore"')
        if layout not in ("name", "path", "hash"):
            raise UsageError(f"layout: {layout!r} is none of name, path and hash")
        if dir is not None and tar is not None:
            raise UsageError("dir and tar: give one of them")
        if shard_size is not None and tar is None:
            raise UsageError("shard_size: it is for tar")
        keeps_bodies = dir is None and tar is None
        if map is not None and not keeps_bodies:
            raise UsageError("map: it takes bodies, which go into a file with dir or tar")
        if map_threads is not None and map is None:
            raise UsageError("map_threads: it is for map")
        if overwrite and tar is not None:
            raise UsageError("overwrite: it is for dir", hint="choose another name for the archive, or remove it")
        if manifest is not None and keeps_bodies:
            raise UsageError("manifest: it records files, and without dir or tar there are none")
        arguments = {
            "directory": _arguments.path("dir", dir, _BATCH_HINT),
            "tar": _arguments.path("tar", tar, _BATCH_HINT),
            "shard_size": _arguments.size("shard_size", shard_size),
            "manifest": _arguments.path("manifest", manifest, "it is a file on this machine"),
            "checksum": _arguments.texts("checksum", checksum),
            "expect_type": _arguments.texts("expect_type", expect_type),
            "max_size": _arguments.size("max_size", max_size),
            "respect_robots_tag": robots_tag == "respect",
            "overwrite": _arguments.flag("overwrite", overwrite),
            "layout": layout,
            "keep_bodies": keeps_bodies and not _drop_bodies,
            "collects": _collects,
            "has_numbers": _has_numbers,
        }
        function, threads = _arguments.function("map", map), _arguments.count("map_threads", map_threads, 1)
        source, list_path = input_rows(rows)
        return Batch(self._engine.batch(source, {**arguments, "list": list_path}), self, function, threads)

    def fetch_arrow(
        self,
        record_batch: pa.RecordBatch,
        *,
        url: str = "url",
        into: Literal["bytes", "dir", "tar"] | None = "bytes",
        path: Path | None = None,
        on_error: Literal["null", "raise"] = "null",
        **arguments: Any,
    ) -> pa.RecordBatch:
        """The record batch with columns for what came of the URLs in its column `url`, in place of its own of the same names.

        `into`: "bytes" adds a column `body`; "dir" and "tar" write files to `path`; None fetches and drops the bytes. `on_error`: an
        empty body and the error in the row, or an exception for the first of them. Further arguments are those of `batch`.
        """
        from ._arrow import fetch_arrow

        path = _arguments.path("path", path, _BATCH_HINT)
        return fetch_arrow(self, record_batch, url=url, into=into, path=path, on_error=on_error, arguments=arguments)


class RemoteFile(io.BufferedReader):
    """A file at a URL, read by range requests. Reading on costs no request of its own; a seek costs one where the bytes are not there."""

    def __init__(self, reader: _haul.RemoteReader, url: str) -> None:
        super().__init__(_UnbufferedRemoteFile(reader, url))
        self.size = reader.size


class _UnbufferedRemoteFile(io.RawIOBase):
    mode = "rb"

    def __init__(self, reader: _haul.RemoteReader, url: str) -> None:
        self._reader = reader
        self._position = 0
        self.name = url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._reader.size}[whence]
        if base + offset < 0:
            raise ValueError("a position before the file")
        self._position = base + offset
        return self._position

    def _read(self, size: int) -> bytes:
        data = self._reader.read_at(self._position, size)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self._read(max(0, self._reader.size - self._position))

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


def _remote_file(url: str, headers: Headers, auth: Auth) -> dict[str, Any]:
    return {"url": _arguments.url("url", url), "headers": _arguments.headers(headers), "auth": _arguments.auth(auth)}


def _download(
    url: str, checksum: str | Iterable[str] | None, mirrors: Sequence[str], headers: Headers, auth: Auth
) -> dict[str, Any]:
    return {
        "url": _arguments.url("url", url),
        "mirrors": _arguments.texts("mirrors", mirrors),
        "checksum": _arguments.texts("checksum", checksum),
        "headers": _arguments.headers(headers),
        "auth": _arguments.auth(auth),
    }


_default: Client | None = None
_default_process = 0
_default_lock = threading.Lock()


def default_client() -> Client:
    """The client of the functions below, made when the first of them is called. A child process has its own."""
    global _default, _default_process
    with _default_lock:
        if _default is None or _default_process != os.getpid():
            _default, _default_process = Client(), os.getpid()
        return _default


def _client(limit: Size) -> Client:
    """A limit is one of a client's own."""
    return default_client() if limit is None else Client(limit=limit)


def get(
    url: str,
    path: Path | None = None,
    *,
    dir: Path | None = None,
    checksum: str | Iterable[str] | None = None,
    mirrors: Sequence[str] = (),
    connections: int | None = None,
    limit: Size = None,
    headers: Headers = None,
    auth: Auth = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> _haul.File:
    """Downloads one file: see `Client.get`. `limit`: bytes a second, such as "20M"."""
    return _client(limit).get(
        url, path, dir=dir, checksum=checksum, mirrors=mirrors, connections=connections, headers=headers, auth=auth,
        overwrite=overwrite, progress=progress,
    )


async def aget(
    url: str,
    path: Path | None = None,
    *,
    dir: Path | None = None,
    checksum: str | Iterable[str] | None = None,
    mirrors: Sequence[str] = (),
    connections: int | None = None,
    limit: Size = None,
    headers: Headers = None,
    auth: Auth = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> _haul.File:
    """`get` for asyncio."""
    return await _client(limit).aget(
        url, path, dir=dir, checksum=checksum, mirrors=mirrors, connections=connections, headers=headers, auth=auth,
        overwrite=overwrite, progress=progress,
    )


def put(
    path: Path, url: str, *, limit: Size = None, progress: Progress = None, **arguments: Unpack[PutArguments]
) -> _haul.Upload:
    """Uploads a file: see `Client.put`."""
    return _client(limit).put(path, url, progress=progress, **arguments)


async def aput(
    path: Path, url: str, *, limit: Size = None, progress: Progress = None, **arguments: Unpack[PutArguments]
) -> _haul.Upload:
    """`put` for asyncio."""
    return await _client(limit).aput(path, url, progress=progress, **arguments)
