"""Files to serve, and a look at what came of them."""

import functools
import hashlib
import os
import shutil

MIB = 1 << 20


def make(path, size):
    """Random bytes, so that nothing on the way can compress or share them."""
    with open(path, "wb") as file:
        while size > 0:
            size -= file.write(os.urandom(min(size, 16 * MIB)))


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# What is served does not change during a comparison.
served = functools.cache(digest)


def complete(result, original):
    """That a result is as long as the file that was served."""
    found, wanted = result.stat().st_size if result.exists() else 0, original.stat().st_size
    if found != wanted:
        raise SystemExit(f"{result.name} has {found} bytes instead of {wanted}")


def right(result, original):
    """That a result is the file that was served."""
    if digest(result) != served(original):
        raise SystemExit(f"{result.name} differs from what was served")


def room(directory, needed):
    """That a folder in memory has room; otherwise its programs would fail one by one, each in its own words."""
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise SystemExit(f"{directory} has room for {free // MIB} MiB, and {needed // MIB} MiB are needed; try --quick")
