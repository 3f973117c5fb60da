"""Arguments as users write them: checked, and in the one form that the extension module wants.

A message names the argument, what it may be, and what it was; of what may be a secret only the type.
"""

from __future__ import annotations

import ipaddress
import numbers
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ._errors import UsageError

Path: TypeAlias = "str | os.PathLike[str]"
Headers: TypeAlias = "Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]] | None"
Auth: TypeAlias = "tuple[str, str] | str | None"
Size: TypeAlias = "int | float | str | None"
MinRate: TypeAlias = "Size | tuple[int | float | str, float]"

#: The most connections to a host.
MAX_CONNECTIONS = 1024

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

#: The beginning of a URL, also of one that pathlib has taken for a path.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://|(s3|https?):/", re.IGNORECASE)

_S3_TEXTS = ("endpoint_url", "region", "profile", "access_key", "secret_key")
_S3_FLAGS = ("no_sign_request", "request_payer")


def _wrong(name: str, may_be: str, value: Any, is_shown: bool = False) -> UsageError:
    was = repr(value) if is_shown else type(value).__name__
    return UsageError(f"{name}: must be {may_be}, not {was}")


def size(name: str, value: Size) -> int | None:
    """A number of bytes: a number, or a text such as "20M" or "1.5G", in powers of 1024."""
    if value is None:
        return None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", value, re.IGNORECASE)
        if not found:
            raise UsageError(f"{name}: {value!r} is not a size", hint='write a size as 500_000, "5M" or "1.5G"')
        value = float(found[1]) * _UNITS[found[2].lower()]
    elif isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _wrong(name, 'a number of bytes, or a text such as "20M"', value, is_shown=True)
    if not 1 <= value < 1 << 63:
        raise UsageError(f"{name}: a size must be above 0, and below 8 EiB")
    return int(value)


def min_rate(name: str, value: MinRate) -> tuple[int, float | None] | None:
    """Bytes a second, 0 for no limit, alone or with the seconds over which they are measured."""
    if value is None:
        return None
    rate, seconds = value if isinstance(value, (tuple, list)) and len(value) == 2 else (value, None)
    is_off = not isinstance(rate, bool) and rate in (0, "0")
    bytes_per_second = 0 if is_off else size(name, rate)
    if bytes_per_second is None:
        raise _wrong(name, "bytes a second, perhaps with seconds", value, is_shown=True)
    return bytes_per_second, number(name, seconds, "seconds")


def count(name: str, value: int | None, least: int, most: int = (1 << 32) - 1) -> int | None:
    """A whole number."""
    if value is None:
        return None
    may_be = f"a number from {least} to {most}" if most <= MAX_CONNECTIONS else f"a whole number from {least} on"
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong(name, may_be, value, is_shown=True) from None
    if isinstance(value, bool) or not least <= number <= most:
        raise _wrong(name, may_be, value, is_shown=True)
    return number


def number(name: str, value: float | None, unit: str) -> float | None:
    """A number above 0."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not value > 0:
        raise _wrong(name, f"a number of {unit} above 0", value, is_shown=True)
    return float(value)


def flag(name: str, value: bool) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise _wrong(name, "True or False", value, is_shown=True)
    return value


def choice(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """None, or one of several values."""
    if value is not None and (isinstance(value, bool) or value not in choices):
        raise _wrong(name, " or ".join(map(repr, choices)), value, is_shown=True)
    return value


def certificate(value: Path | tuple[Path, Path] | None) -> tuple[str, str] | None:
    """The files of a client certificate and of its key, which may be one."""
    if value is None:
        return None
    pair = value if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2 or None in pair:
        raise _wrong("cert", "a path, or (certificate, key)", value)
    files = path("cert", pair[0]), path("cert", pair[1])
    return files[0] or "", files[1] or ""


def addresses(value: Mapping[str, str | Iterable[str]] | None) -> list[tuple[str, int, list[Any]]]:
    """Addresses of names with a port, in place of those of DNS."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise _wrong("resolve", "a dict", value)
    found = []
    for name, texts_of_name in value.items():
        host, _, port = name.rpartition(":") if isinstance(name, str) else ("", "", "")
        try:
            if not host or not 0 < int(port) < 1 << 16:
                raise ValueError
            several = [ipaddress.ip_address(text) for text in texts("resolve", texts_of_name)]
        except ValueError:
            raise UsageError(
                f"resolve: {name!r}: {texts_of_name!r} is not HOST:PORT and addresses",
                hint='write it as {"example.com:443": "192.0.2.1"}',
            ) from None
        found.append((host, int(port), several))
    return found


def function(name: str, value: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A function."""
    if value is not None and not callable(value):
        raise _wrong(name, "a function", value)
    return value


def path(name: str, value: Path | None, hint: str | None = None) -> str | None:
    """A path on this machine. `hint`: where a URL belongs."""
    if value is None:
        return None
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise _wrong(name, "a path (str or os.PathLike)", value)
    if _SCHEME.match(text):
        raise UsageError(f"{name}: must be a path on this machine, and not a URL", hint=hint)
    return text


def url(name: str, value: str) -> str:
    """A URL, which the extension module parses."""
    if not isinstance(value, str):
        raise _wrong(name, "a URL (str)", value)
    return value


def text(name: str, value: str | None) -> str | None:
    """A text, if there is one."""
    if value is not None and not isinstance(value, str):
        raise _wrong(name, "a text", value)
    return value


def texts(name: str, value: str | Iterable[str] | None) -> list[str]:
    """One text or several."""
    if value is None:
        return []
    found = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    for text in found:
        if not isinstance(text, str):
            raise _wrong(name, "a str, or several", text)
    return found


def headers(value: Headers) -> list[tuple[str, str]]:
    """Header fields as pairs. Those of None are left out, and bytes are what is sent."""
    if value is None:
        return []
    pairs: Any = value.items() if isinstance(value, Mapping) else value
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise _wrong("headers", "a dict or pairs", value)
    found = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise _wrong("headers", "a dict or pairs", pair)
        if pair[1] is not None:
            name = _header_text("the name of a field", pair[0])
            found.append((name, _header_text(f"the value of {name!r}", pair[1])))
    return found


def _header_text(what: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if not isinstance(value, str):
        raise _wrong("headers", f"str, bytes or None as {what}", value)
    return value


def auth(value: Auth) -> Auth:
    """A user and a password, or a token."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(text, str) for text in value):
        return value[0], value[1]
    raise UsageError("auth: must be (user, password) or a token")


def s3_settings(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The settings of a store, all of them."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _wrong("s3", "a dict", value)
    unknown = [name for name in value if name not in _S3_TEXTS + _S3_FLAGS]
    if unknown:
        raise UsageError(f"s3: unknown setting {unknown[0]!r}", hint=", ".join(_S3_TEXTS + _S3_FLAGS))
    settings: dict[str, Any] = {name: flag(f"s3: {name}", value.get(name, False)) for name in _S3_FLAGS}
    for name in _S3_TEXTS:
        text = settings[name] = value.get(name)
        if text is not None and not isinstance(text, str):
            raise _wrong(f"s3: {name}", "a str", text)
    return settings
