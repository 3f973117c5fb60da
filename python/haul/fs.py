"""haul as an fsspec filesystem: for pandas, datasets, dask, zarr and whatever else opens URLs by fsspec.

    import haul.fs
    haul.fs.register()                        # http:// and https:// of fsspec are read by haul from now on
    fsspec.open("https://host/data.bin")

Without `register`, and for pandas, which reads http:// and https:// itself, the same files are at haul+http:// and haul+https://.
"""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.spec import AbstractFileSystem

from ._arguments import Headers
from ._client import Client, RemoteFile
from ._errors import NetworkError

__all__ = ["HaulFileSystem", "register"]


class HaulFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files at HTTP URLs. Reading on costs one request, a seek one more; writing is a PUT of the whole file."""

    protocol = ("haul+http", "haul+https", "http", "https")
    root_marker = ""

    def __init__(self, client: Client | None = None, headers: Headers = None, **options: Any) -> None:
        super().__init__(**options)
        self._client = client if client is not None else Client(headers=headers)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """URLs stay whole, since another host is another file."""
        return path.removeprefix("haul+") if isinstance(path, str) else path

    def _parent(self, path: str) -> str:
        parent: str = path.rsplit("/", 1)[0]
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
            return self._client.open(path)
        except NetworkError as error:
            raise _as_missing(error, path) from error

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        with self._open(path) as file:
            return {"name": path, "size": file.size, "type": "file"}

    def exists(self, path: str, **options: Any) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isfile(self, path: str) -> bool:
        return self.exists(path)

    def isdir(self, path: str) -> bool:
        return False

    def expand_path(self, path: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> list[str]:
        """The paths as they are: signs of patterns are signs of queries in URLs."""
        return [self._strip_protocol(each) for each in ([path] if isinstance(path, str) else path)]

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """The file alone: HTTP has no folders."""
        found = self.info(path)
        return [found] if detail else [found["name"]]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        if start is None and end is None:
            try:
                return self._client.bytes(path)
            except NetworkError as error:
                raise _as_missing(error, path) from error
        with self._open(path) as file:
            first = 0 if start is None else start if start >= 0 else max(0, file.size + start)
            last = file.size if end is None else end if end >= 0 else file.size + end
            file.seek(first)
            return file.read(max(0, last - first))

    def get_file(self, rpath: str, lpath: str, callback: Any = None, outfile: Any = None, **options: Any) -> None:
        if outfile is not None:
            for chunk in self._client.stream(rpath):
                outfile.write(chunk)
            return
        try:
            self._client.get(rpath, lpath, overwrite=True)
        except NetworkError as error:
            raise _as_missing(error, rpath) from error

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **options: Any) -> None:
        self._client.put(lpath, rpath)

    def created(self, path: str) -> Any:
        raise NotImplementedError

    def modified(self, path: str) -> Any:
        raise NotImplementedError


def _as_missing(error: NetworkError, path: str) -> Exception:
    """fsspec's callers know a missing file by Python's own exception."""
    return FileNotFoundError(path) if error.status in (404, 410) else error


def register() -> None:
    """Has fsspec read http:// and https:// by haul, in this process."""
    for protocol in ("http", "https", "haul+http", "haul+https"):
        fsspec.register_implementation(protocol, HaulFileSystem, clobber=True)
