"""Files that are served, and checks of the files that programs made from them."""

import functools
import hashlib
import os
import shutil

KB, MB, MIB = 1024, 1_000_000, 1 << 20


def write_random(path, size):
    """Writes random bytes, which no server or link can compress or share."""
    with open(path, "wb") as file:
        while size > 0:
            size -= file.write(os.urandom(min(size, 16 * MIB)))


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Served files do not change during a bench.
sha256_of_served = functools.cache(sha256)


def check_length(result, served):
    """Fails unless a result is as long as the served file."""
    length = result.stat().st_size if result.exists() else 0
    expected = served.stat().st_size
    if length != expected:
        raise SystemExit(f"{result.name} has {length} bytes instead of {expected}")


def check_content(result, served):
    """Fails unless a result has the bytes of the served file."""
    if sha256(result) != sha256_of_served(served):
        raise SystemExit(f"{result.name} differs from the served file")


def require_space(directory, needed):
    """Fails unless a directory has so many bytes free. Else each program would fail in its own way."""
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise SystemExit(f"{directory} has {free // MIB} MiB free, {needed // MIB} MiB are needed: try --quick")
