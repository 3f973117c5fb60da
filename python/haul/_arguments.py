"""Arguments as users write them, for the extension module, which wants all of them in one form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ._errors import UsageError

Path: TypeAlias = "str | os.PathLike[str]"
Headers: TypeAlias = "Mapping[str, str] | Iterable[tuple[str, str]] | None"
Auth: TypeAlias = "tuple[str, str] | str | None"
Size: TypeAlias = "int | str | None"

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size(name: str, value: Size) -> int | None:
    """A number of bytes: an int, or a text such as "20M" or "1.5G", in powers of 1024."""
    if value is None:
        return None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", value, re.IGNORECASE)
        if not found:
            raise UsageError(f"{name}: {value!r} is not a size", hint='write a size as 500_000, "5M" or "1.5G"')
        value = int(float(found[1]) * _UNITS[found[2].lower()])
    if value <= 0:
        raise UsageError(f"{name}: a size must be above 0")
    return int(value)


def path(value: Path | None) -> str | None:
    """A path as text."""
    return None if value is None else os.fspath(value)


def texts(value: str | Iterable[str] | None) -> list[str]:
    """One text or several."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def headers(value: Headers) -> list[tuple[str, str]]:
    """Header fields as pairs."""
    if value is None:
        return []
    pairs = value.items() if isinstance(value, Mapping) else value
    return [(str(name), str(text)) for name, text in pairs]
