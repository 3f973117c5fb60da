"""The calls of `haul.Client` about many files or objects: `list`, `delete`, `put_many`, `copy` and `sync`.

Each of the last four has three forms: one that waits and returns a summary, its twin for asyncio, and `iter_...`, which brings results as
they come. Their keyword arguments are declared once, as a TypedDict.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

from . import _arguments, _haul
from ._arguments import Auth, Headers, Path, Size
from ._errors import UsageError
from ._transfers import Listing, Summary, Transfer
from ._waiting import Progress

Texts: TypeAlias = "str | Iterable[str]"
Paths: TypeAlias = "Path | Iterable[Path]"


class FilterArguments(TypedDict, total=False):
    """Patterns of keys below the folder, in which `*` matches slashes, too."""

    include: Texts
    """Only what matches one of these."""
    exclude: Texts
    """Not what matches one of these, even if `include` has it."""


class ObjectArguments(FilterArguments, total=False):
    recursive: bool
    """Everything below each address, which is a folder."""
    glob: bool
    """`*`, `?` and `[a-z]` in keys are patterns. Otherwise they stand for themselves."""


class RunArguments(TypedDict, total=False):
    dry_run: bool
    """Only say what would be done."""


class RequestArguments(TypedDict, total=False):
    headers: Headers
    """Fields of each request, such as {"x-amz-storage-class": "GLACIER"}."""
    connections: int | None
    """N sends exactly N requests at a time. By default haul finds the number."""
    part_size: Size
    """Bytes of each part."""
    checksum_algorithm: str | None
    """What S3 checks the bytes by, such as "sha256", in place of CRC-64/NVME."""
    resume: bool
    """False does not continue what an interrupted call has begun."""


class PutArguments(RequestArguments, total=False):
    content_type: str | None
    """The media type, of `put_many` that of all files. By default `put_many` takes that of each name."""
    auth: Auth
    """(user, password) or a token, for http(s)://."""


class DeleteArguments(ObjectArguments, RunArguments, total=False):
    max_delete: int | None
    """Delete nothing if there are more objects."""


class CopyArguments(ObjectArguments, RunArguments, RequestArguments, total=False):
    pass


class PutManyArguments(FilterArguments, RunArguments, PutArguments, total=False):
    follow_links: bool
    """Follow symbolic links to folders."""
    if_none_match: bool
    """Store only what is not there yet."""
    preserve: bool
    """Keep the time and mode of files in the metadata of objects: True by default."""
    manifest: Path | None
    """A file with a row for each file; the same call uploads what is missing or has changed."""


class SyncArguments(FilterArguments, RunArguments, RequestArguments, total=False):
    delete: bool
    """Delete what only the target has, at the end, if nothing failed."""
    max_delete: int | None
    """Delete nothing if there is more. Needed where the source has no files."""
    checksum: bool
    """Compare contents instead of times."""
    existing: bool
    """Copy only what the target has already."""
    ignore_existing: bool
    """Copy only what the target lacks."""
    update: bool
    """Leave files alone that are newer at the target."""
    follow_links: bool
    """Follow symbolic links to folders, on both sides."""


class ObjectCalls:
    """The part of `haul.Client` about many files or objects."""

    _engine: _haul.Engine

    def list(
        self, url: str, *, recursive: bool = False, glob: bool = False, include: Texts = (), exclude: Texts = ()
    ) -> Listing:
        """The objects of a store whose addresses begin with a URL such as "s3://bucket/photos/", as an iterator of `haul.Object`.

        Objects come in the order of their keys. What is in folders below the URL is one folder each (`is_folder`), unless `recursive`.
        `glob`: the URL is a pattern. `include` and `exclude`: patterns of keys, with `recursive`. A list that is empty is no error.
        """
        arguments = _objects("url", url, {"recursive": recursive, "glob": glob, "include": include, "exclude": exclude})
        return Listing(self._engine.list({**arguments, "url": _arguments.url("url", url)}))

    def iter_delete(self, urls: Texts, **arguments: Unpack[DeleteArguments]) -> Transfer:
        """`delete`, with results as they come."""
        arguments = checked(DeleteArguments, arguments)
        return Transfer(
            self._engine.delete(
                {
                    "objects": _objects("urls", urls, arguments),
                    "max_delete": _arguments.count("max_delete", arguments.get("max_delete"), 0),
                    "dry_run": _flag(arguments, "dry_run"),
                }
            )
        )

    def delete(self, urls: Texts, **arguments: Unpack[DeleteArguments]) -> Summary:
        """Deletes objects of a store: one address or several.

        `recursive`: everything below each address, of which `include` and `exclude` choose. `glob`: keys are patterns. `dry_run`: only count.
        `max_delete`: delete nothing if there are more. An object that is not there counts as deleted, as S3 has it. Objects that were refused are in
        the summary's `failures`.
        """
        return self.iter_delete(urls, **arguments).run()

    async def adelete(self, urls: Texts, **arguments: Unpack[DeleteArguments]) -> Summary:
        """`delete` for asyncio."""
        return await self.iter_delete(urls, **arguments).arun()

    def iter_put_many(self, paths: Paths, url: str, **arguments: Unpack[PutManyArguments]) -> Transfer:
        """`put_many`, with results as they come."""
        arguments = checked(PutManyArguments, arguments)
        manifest = _arguments.path("manifest", arguments.get("manifest"), "it is a file on this machine")
        is_dry_run = _flag(arguments, "dry_run")
        if is_dry_run and manifest is not None:
            raise UsageError("manifest: it records uploads, and with dry_run there are none")
        return Transfer(
            self._engine.put_many(
                {
                    "paths": _paths(paths),
                    "url": _arguments.url("url", url),
                    "filter": _filter(arguments),
                    "auth": _arguments.auth(arguments.get("auth")),
                    "manifest": manifest,
                    "follow_links": _flag(arguments, "follow_links"),
                    "if_none_match": _flag(arguments, "if_none_match"),
                    "preserve": _flag(arguments, "preserve", True),
                    "dry_run": is_dry_run,
                    "upload": upload_requests(arguments),
                }
            )
        )

    def put_many(
        self, paths: Paths, url: str, *, progress: Progress = None, **arguments: Unpack[PutManyArguments]
    ) -> Summary:
        """Uploads files, and folders with everything below them, to s3:// or by PUT to http(s)://.

        `paths`: one path or several. A file `a/b.jpg` goes to `b.jpg` below the URL; of a folder `a` the file `a/c/d.jpg` goes to `c/d.jpg`.
        Two files with one target are an error of the second. The same call continues an interrupted upload. Files that fail are in the
        summary's `failures`, and the others are uploaded; what would refuse every file is an exception.
        """
        return self.iter_put_many(paths, url, **arguments).run(progress)

    async def aput_many(
        self, paths: Paths, url: str, *, progress: Progress = None, **arguments: Unpack[PutManyArguments]
    ) -> Summary:
        """`put_many` for asyncio."""
        return await self.iter_put_many(paths, url, **arguments).arun(progress)

    def iter_copy(self, source: Texts, target: str, **arguments: Unpack[CopyArguments]) -> Transfer:
        """`copy`, with results as they come."""
        arguments = checked(CopyArguments, arguments)
        return Transfer(
            self._engine.copy(
                {
                    "objects": _objects("source", source, arguments),
                    "target": _arguments.url("target", target),
                    "dry_run": _flag(arguments, "dry_run"),
                    "upload": upload_requests(arguments),
                }
            )
        )

    def copy(self, source: Texts, target: str, **arguments: Unpack[CopyArguments]) -> Summary:
        """Copies objects inside a store, which moves the bytes itself.

        One object goes to the target, or below it if that ends with a slash; several, those of a folder (`recursive`) and those of a pattern
        (`glob`) go below it. Objects that fail are in the summary's `failures`.
        """
        return self.iter_copy(source, target, **arguments).run()

    async def acopy(self, source: Texts, target: str, **arguments: Unpack[CopyArguments]) -> Summary:
        """`copy` for asyncio."""
        return await self.iter_copy(source, target, **arguments).arun()

    def iter_sync(self, source: Path, target: Path, **arguments: Unpack[SyncArguments]) -> Transfer:
        """`sync`, with results as they come."""
        arguments = checked(SyncArguments, arguments)
        flags = ("delete", "checksum", "existing", "ignore_existing", "update", "follow_links", "dry_run")
        given: dict[str, Any] = {name: _flag(arguments, name) for name in flags}
        if given["existing"] and given["ignore_existing"]:
            raise UsageError("existing and ignore_existing: give one of them")
        max_delete = _arguments.count("max_delete", arguments.get("max_delete"), 0)
        if max_delete is not None and not given["delete"]:
            raise UsageError("max_delete: it is for delete=True")
        return Transfer(
            self._engine.sync(
                {
                    **given,
                    "source": _place("source", source),
                    "target": _place("target", target),
                    "max_delete": max_delete,
                    "filter": _filter(arguments),
                    "upload": upload_requests(arguments),
                }
            )
        )

    def sync(
        self, source: Path, target: Path, *, progress: Progress = None, **arguments: Unpack[SyncArguments]
    ) -> Summary:
        """Makes a folder like an S3 prefix, a prefix like a folder, or a prefix like another one.

        Files are copied that the target lacks, whose size differs, or that are newer at the source; with `checksum` those whose contents
        differ. `delete` removes at the end what only the target has, unless something failed; more than `max_delete` is a `UsageError`, and
        so is a source without files. Files that fail are in the summary's `failures`.
        """
        return self.iter_sync(source, target, **arguments).run(progress)

    async def async_sync(
        self, source: Path, target: Path, *, progress: Progress = None, **arguments: Unpack[SyncArguments]
    ) -> Summary:
        """`sync` for asyncio. (`async` is a keyword of Python.)"""
        return await self.iter_sync(source, target, **arguments).arun(progress)


_Arguments = TypeVar("_Arguments")


def checked(kind: type[_Arguments], arguments: _Arguments) -> _Arguments:
    """Arguments that are among those of the call, as Python would check them."""
    known = kind.__optional_keys__  # type: ignore[attr-defined]
    for name in arguments:  # type: ignore[attr-defined]
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; there are {', '.join(sorted(known))}")
    return arguments


def _flag(arguments: Any, name: str, default: bool = False) -> bool:
    return _arguments.flag(name, arguments.get(name, default))


def _filter(arguments: Any) -> dict[str, Any]:
    return {name: _arguments.texts(name, arguments.get(name)) for name in ("include", "exclude")}


def _objects(name: str, urls: Texts, arguments: Any) -> dict[str, Any]:
    return {
        "addresses": _arguments.texts(name, urls),
        "recursive": _flag(arguments, "recursive"),
        "glob": _flag(arguments, "glob"),
        "filter": _filter(arguments),
    }


def upload_requests(arguments: Any) -> dict[str, Any]:
    """What requests of uploads and copies are like, as the engine takes it."""
    media_type = {"Content-Type": arguments.get("content_type")}
    return {
        "headers": _arguments.headers(arguments.get("headers")) + _arguments.headers(media_type),
        "connections": _arguments.count("connections", arguments.get("connections"), 1, _arguments.MAX_CONNECTIONS),
        "part_size": _arguments.size("part_size", arguments.get("part_size")),
        "checksum_algorithm": _arguments.text("checksum_algorithm", arguments.get("checksum_algorithm")),
        "resume": _flag(arguments, "resume", True),
    }


def _paths(paths: Paths) -> list[str]:
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(several, Iterable):
        raise UsageError(f"paths: must be a path or several, not {type(paths).__name__}")
    found = [_arguments.path("paths", path, "paths come first, and then the URL") for path in several]
    if None in found:
        raise UsageError("paths: None is not a path")
    return [path for path in found if path is not None]


def _place(name: str, place: Path) -> str:
    if isinstance(place, str) and place[:5].lower() == "s3://":
        return place
    path = _arguments.path(name, place, 'an address is a str such as "s3://bucket/prefix/"')
    if path is None:
        raise UsageError(f"{name}: it is missing")
    return path
