"""haul for Python: downloads, uploads and batches of millions of files, by the engine of the command `haul`.

    import haul

    haul.get("https://example.com/big.iso", checksum="sha256:...")

    client = haul.Client(rate_per_host=20)
    with client.batch(urls, dir="images", manifest="images.jsonl") as batch:
        for row in batch:
            print(row.url, row.path if row.ok else row.error)

Every transfer runs on threads of its own, without the interpreter's lock. Errors are `haul.Error` with a cause and a hint.
"""

from __future__ import annotations

from ._batch import Batch, Snapshot
from ._client import Client, RemoteFile, aget, aput, get, put
from ._errors import (
    Error,
    Interrupted,
    LocalIOError,
    NetworkError,
    UsageError,
    VerificationError,
)
from ._haul import File, Row, Upload, version as __version__

# Not in __all__: `from haul import *` must not replace Python's own.
from ._object_functions import list as list
from ._object_functions import acopy, adelete, aput_many, async_sync, copy, delete, put_many, sync
from ._transfers import FileResult, Listing, Object, Summary, Transfer

__all__ = [
    "Batch",
    "Client",
    "Error",
    "File",
    "FileResult",
    "Interrupted",
    "Listing",
    "LocalIOError",
    "NetworkError",
    "Object",
    "RemoteFile",
    "Row",
    "Snapshot",
    "Summary",
    "Transfer",
    "Upload",
    "UsageError",
    "VerificationError",
    "__version__",
    "acopy",
    "adelete",
    "aget",
    "aput",
    "aput_many",
    "async_sync",
    "copy",
    "delete",
    "get",
    "put",
    "put_many",
    "sync",
]
