"""haul as an fsspec filesystem: for pandas, datasets, dask, zarr and whatever else opens URLs by fsspec.

    import haul.fs
    haul.fs.register()                        # http:// and https:// of fsspec are read by haul from now on
    fsspec.open("https://host/data.bin")

Without `register`, and for pandas, which reads http:// and https:// itself, the same files are at haul+http:// and haul+https://.
"""

from __future__ import annotations

import collections
import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import fsspec
from fsspec.callbacks import Callback
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike

from . import _arguments, _haul
from ._arguments import Headers
from ._client import Client, RemoteFile, _download, _remote_file, default_client
from ._errors import NetworkError
from ._waiting import wait

__all__ = ["HaulFileSystem", "register"]

#: Reads of one call that are under way at a time, each with a connection. The engine has 16 to a host for whole files.
_READS_AT_ONCE = 64

#: A range of a file, as slices have it.
_Range = tuple[str, int | None, int | None]


class HaulFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files at HTTP URLs. Reading on costs one request, a seek one more; writing is a PUT of the whole file.

    Without a client of its own it uses that of `haul.get`. `headers` are sent with all its requests.
    """

    protocol = ("haul+http", "haul+https", "http", "https")
    root_marker = ""

    def __init__(self, client: Client | None = None, headers: Headers = None, **options: Any) -> None:
        super().__init__(**options)
        self._own_client = client
        self._headers = _arguments.headers(headers)

    @property
    def client(self) -> Client:
        # fsspec has a filesystem for each thread, and a process that forks has another client.
        return self._own_client or default_client()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """URLs stay whole, since another host is another file."""
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return path.removeprefix("haul+") if isinstance(path, str) else path

    def unstrip_protocol(self, name: str) -> str:
        """The URL by which fsspec finds haul, registered or not."""
        return f"haul+{self._strip_protocol(name)}"

    def _parent(self, path: str) -> str:
        parent: str = self._strip_protocol(path).rsplit("/", 1)[0]
        return parent

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> RemoteFile:
        if mode != "rb":
            raise NotImplementedError("haul reads files and uploads whole ones: use put_file")
        try:
            return self.client.open(path, headers=self._headers)
        except NetworkError as error:
            raise _as_missing(error) from error

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Name and type, size if the server says it, and ETag and Last-Modified, which tell versions apart."""
        path = self._strip_protocol(path)
        call = self.client._engine.fetch_metadata(_remote_file(path, self._headers, None))
        size, etag, last_modified = _result(call)
        version = {"ETag": etag, "Last-Modified": last_modified}
        return {"name": path, "size": size, "type": "file"} | {name: text for name, text in version.items() if text}

    def exists(self, path: str, strict: bool = False, **options: Any) -> bool:
        """Whether the server answers with the file. `strict`: errors but 404 and 410 are raised."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        except NetworkError:
            if strict:
                raise
            return False
        return True

    def isfile(self, path: str) -> bool:
        return self.exists(path)

    def isdir(self, path: str) -> bool:
        return False

    def expand_path(self, path: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> list[str]:
        """The paths as they are: signs of patterns are signs of queries in URLs."""
        return [self._strip_protocol(each) for each in ([path] if isinstance(path, str) else path)]

    def glob(self, path: str, maxdepth: int | None = None, **options: Any) -> Any:
        """The file itself, if it exists: HTTP has no folders."""
        path = self._strip_protocol(path)
        found = {path: self.info(path)} if self.exists(path) else {}
        return found if options.get("detail") else list(found)

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """The file alone: HTTP has no folders."""
        found = self.info(path)
        return [found] if detail else [found["name"]]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """The bytes of a file or of a range, in one request. Negative places, which count from the end, cost another."""
        body: bytes = _result(self._start_read((path, start, end)))
        return body

    def cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", batch_size: int | None = None, **options: Any
    ) -> Any:
        """The bytes of a file, or those of many at once by their URLs."""
        if isinstance(path, str):
            return super().cat(path, on_error=on_error, **options)
        paths = list(dict.fromkeys(self.expand_path(path)))
        wanted = ((each, options.get("start"), options.get("end")) for each in paths)
        found = zip(paths, self._read_many(wanted, batch_size, on_error == "raise"), strict=True)
        return {each: body for each, body in found if on_error != "omit" or not isinstance(body, Exception)}

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        """The bytes of ranges, of which `batch_size` are read at a time, by one request for each."""
        if max_gap is not None:
            raise NotImplementedError("max_gap")
        starts, ends = (
            list(each) if isinstance(each, Iterable) else [each] * len(paths) for each in (starts, ends)
        )
        if not len(starts) == len(ends) == len(paths):
            raise ValueError("cat_ranges: paths, starts and ends are not as many")
        return list(self._read_many(zip(paths, starts, ends, strict=True), batch_size, on_error == "raise"))

    def _start_read(self, wanted: _Range) -> _haul.CallHandle:
        path, start, end = wanted
        path, engine = self._strip_protocol(path), self.client._engine
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.info(path)["size"]
            if size is None:
                with self._open(path) as file:
                    size = file.size
            start, end, _ = slice(start, end).indices(size)
        if start is None and end is None:
            return engine.bytes(_download(path, None, (), self._headers, None))
        return engine.read_range(_remote_file(path, self._headers, None), start or 0, end)

    def _read_many(
        self, wanted: Iterable[_Range], at_once: int | None, raises: bool
    ) -> Iterator[bytes | Exception]:
        """The bytes of ranges in their order, of which some are under way while one is waited for."""
        own_limit = self.client._settings["connections_per_host"]
        running: collections.deque[_haul.CallHandle | Exception] = collections.deque()
        left = iter(wanted)
        while True:
            for each in itertools.islice(left, (at_once or own_limit or _READS_AT_ONCE) - len(running)):
                try:
                    running.append(self._start_read(each))
                except Exception as error:
                    running.append(error)
            if not running:
                return
            result: bytes | Exception
            try:
                call = running.popleft()
                result = call if isinstance(call, Exception) else _result(call)
            except Exception as error:
                result = error
            if raises and isinstance(result, Exception):
                raise result
            yield result

    def get_file(self, rpath: str, lpath: Any = None, callback: Any = None, outfile: Any = None, **options: Any) -> None:
        """Downloads a file to a path, which is replaced, or into a file object."""
        rpath, callback = self._strip_protocol(rpath), Callback.as_callback(callback)
        if outfile is None and isfilelike(lpath):
            outfile = lpath
        try:
            if outfile is None:
                self.client.get(rpath, lpath, headers=self._headers, overwrite=True, progress=_progress(callback))
                return
            for chunk in self.client.stream(rpath, headers=self._headers):
                outfile.write(chunk)
                callback.relative_update(len(chunk))
        except NetworkError as error:
            raise _as_missing(error) from error

    def put_file(self, lpath: Any, rpath: str, callback: Any = None, mode: str = "overwrite", **options: Any) -> None:
        """Uploads a file. `mode`: "create" is an error where the URL has a file already."""
        rpath, headers = self._strip_protocol(rpath), list(self._headers)
        if mode == "create":
            if self.exists(rpath, strict=True):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            # One that comes meanwhile is for the server to see (RFC 9110 13.1.2).
            headers.append(("If-None-Match", "*"))
        try:
            self.client.put(lpath, rpath, headers=headers, progress=_progress(Callback.as_callback(callback)))
        except NetworkError as error:
            if mode == "create" and error.status == 412:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), error.url) from error
            raise

    def created(self, path: str) -> Any:
        raise NotImplementedError

    def modified(self, path: str) -> Any:
        raise NotImplementedError


def _result(call: _haul.CallHandle) -> Any:
    try:
        return wait(call)
    except NetworkError as error:
        raise _as_missing(error) from error


def _as_missing(error: NetworkError) -> Exception:
    """fsspec's callers know a missing file by Python's own exception."""
    if error.status not in (404, 410):
        return error
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), error.url)


def _progress(callback: Any) -> Callable[[int, int | None], None]:
    def report(done: int, length: int | None) -> None:
        callback.set_size(length)
        callback.absolute_update(done)

    return report


def register() -> None:
    """Has fsspec read http:// and https:// by haul, in this process."""
    for protocol in ("http", "https", "haul+http", "haul+https"):
        fsspec.register_implementation(protocol, HaulFileSystem, clobber=True)
