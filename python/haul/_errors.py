"""The exceptions of haul. `str(error)` is the message with its hint, `error.hint` is what to do about it."""

from __future__ import annotations

__all__ = ["Error", "Interrupted", "LocalIOError", "NetworkError", "UsageError", "VerificationError"]


class Error(Exception):
    """Why a transfer failed."""

    kind: str
    """The cause in a few words, the same for all URLs: to count by."""
    status: int | None
    """The status of the response, if that is why."""
    url: str | None
    """The URL, without passwords and signatures."""
    hint: str | None
    """What to do about it."""
    retryable: bool
    """Whether the same call may succeed later."""

    def __init__(
        self,
        message: str,
        kind: str | None = None,
        status: int | None = None,
        url: str | None = None,
        hint: str | None = None,
        retryable: bool = False,
    ) -> None:
        if kind is None:
            kind = error_class(self)
        # All of them are arguments, so that it can be pickled.
        super().__init__(message, kind, status, url, hint, retryable)
        self.kind = kind
        self.status = status
        self.url = url
        self.hint = hint
        self.retryable = retryable

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message} (hint: {self.hint})" if self.hint else message


class VerificationError(Error):
    """The bytes are not those of the file: a checksum, a size, a version that changed. Nothing was stored under its name."""


class NetworkError(Error):
    """The network, a proxy or the server."""


class LocalIOError(Error):
    """This machine: disk, permission, a name that exists."""


class UsageError(Error, ValueError):
    """An argument or a URL that cannot be used."""


class Interrupted(Error):
    """It was stopped. What the same call can continue was kept."""


_CLASSES: dict[str, type[Error]] = {
    "verification": VerificationError,
    "network": NetworkError,
    "local_io": LocalIOError,
    "usage": UsageError,
    "interrupted": Interrupted,
}


def error_class(error: Error) -> str:
    """The name of its class in rows."""
    return next((name for name, kind in _CLASSES.items() if isinstance(error, kind)), "network")


def _from_parts(
    name: str,
    message: str,
    kind: str,
    status: int | None,
    url: str | None,
    hint: str | None,
    retryable: bool,
) -> Error:
    return _CLASSES[name](message, kind, status, url, hint, retryable)
