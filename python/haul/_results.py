"""What a running batch and a running transfer share: results that come with `for`, with `async for`, and end with the `with` block."""

from __future__ import annotations

import abc
import asyncio
import collections
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

#: Results that are taken at once.
ROWS = 256

_R = TypeVar("_R")


class Results(abc.ABC, Generic[_R]):
    """Results of a run. Leaving its `with` block stops what still runs."""

    def __init__(self) -> None:
        self._rows: collections.deque[_R] = collections.deque()
        self._is_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
        self._drain()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
        await asyncio.to_thread(self._drain)

    def __iter__(self) -> Iterator[_R]:
        while self._fill():
            while self._rows:
                yield self._rows.popleft()

    async def __aiter__(self) -> AsyncIterator[_R]:
        while await asyncio.to_thread(self._fill):
            while self._rows:
                yield self._rows.popleft()

    @abc.abstractmethod
    def cancel(self) -> None:
        """Stops it: what is complete stays, and what a later call can continue is kept."""

    @abc.abstractmethod
    def _fill(self) -> bool:
        """Waits for results for a moment; False when all have been taken. The moment is short, for signals."""

    @abc.abstractmethod
    def _drain(self) -> None:
        """Waits for the end after it was stopped."""
