"""`haul.put_many`, `haul.sync` and so on: the calls about many files or objects, by the client of `haul.get`."""

from __future__ import annotations

from typing import Unpack

from ._arguments import Path
from ._client import default_client
from ._object_calls import (
    CopyArguments,
    DeleteArguments,
    Paths,
    PutManyArguments,
    SyncArguments,
    Texts,
)
from ._transfers import Listing, Summary
from ._waiting import Progress


def list(
    url: str, *, recursive: bool = False, glob: bool = False, include: Texts = (), exclude: Texts = ()
) -> Listing:
    """The objects of a store: see `Client.list`."""
    return default_client().list(url, recursive=recursive, glob=glob, include=include, exclude=exclude)


def delete(urls: Texts, **arguments: Unpack[DeleteArguments]) -> Summary:
    """Deletes objects of a store: see `Client.delete`."""
    return default_client().delete(urls, **arguments)


async def adelete(urls: Texts, **arguments: Unpack[DeleteArguments]) -> Summary:
    """`delete` for asyncio."""
    return await default_client().adelete(urls, **arguments)


def put_many(paths: Paths, url: str, *, progress: Progress = None, **arguments: Unpack[PutManyArguments]) -> Summary:
    """Uploads files and folders: see `Client.put_many`."""
    return default_client().put_many(paths, url, progress=progress, **arguments)


async def aput_many(
    paths: Paths, url: str, *, progress: Progress = None, **arguments: Unpack[PutManyArguments]
) -> Summary:
    """`put_many` for asyncio."""
    return await default_client().aput_many(paths, url, progress=progress, **arguments)


def copy(source: Texts, target: str, **arguments: Unpack[CopyArguments]) -> Summary:
    """Copies objects inside a store: see `Client.copy`."""
    return default_client().copy(source, target, **arguments)


async def acopy(source: Texts, target: str, **arguments: Unpack[CopyArguments]) -> Summary:
    """`copy` for asyncio."""
    return await default_client().acopy(source, target, **arguments)


def sync(source: Path, target: Path, *, progress: Progress = None, **arguments: Unpack[SyncArguments]) -> Summary:
    """Makes a folder or an S3 prefix like another one: see `Client.sync`."""
    return default_client().sync(source, target, progress=progress, **arguments)


async def async_sync(
    source: Path, target: Path, *, progress: Progress = None, **arguments: Unpack[SyncArguments]
) -> Summary:
    """`sync` for asyncio."""
    return await default_client().async_sync(source, target, progress=progress, **arguments)
