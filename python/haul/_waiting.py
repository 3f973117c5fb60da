"""Waits for operations of the extension module: without the interpreter's lock, with progress, and so that Ctrl-C keeps what can be continued."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from . import _haul

Result = TypeVar("Result")
Progress: TypeAlias = "bool | Callable[[int, int | None], object] | None"

#: Seconds between two reports of progress, and between two chances for a signal.
INTERVAL = 0.1

#: Seconds that a cancelled task waits for its transfer to keep what it has.
CANCEL_TIME = 5.0


class RunningWork(ABC, Generic[Result]):
    """Work with results, over which `for` and `async for` iterate. Leaving its `with` block stops it and waits until it has stopped."""

    def __init__(self) -> None:
        self._rows: collections.deque[Result] = collections.deque()
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
        # After GeneratorExit the loop is gone, and nothing can be waited for.
        if not isinstance(error, GeneratorExit):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._drain), None if error is None else CANCEL_TIME)

    def __iter__(self) -> Iterator[Result]:
        while self._fill():
            while self._rows:
                yield self._rows.popleft()

    async def __aiter__(self) -> AsyncIterator[Result]:
        while await asyncio.to_thread(self._fill):
            while self._rows:
                yield self._rows.popleft()

    @abstractmethod
    def cancel(self) -> None:
        """Stops it: what is complete stays, and what a later call can continue is kept."""

    @abstractmethod
    def _fill(self) -> bool:
        """Waits for results for a moment; False when all have been taken. The moment is short, for signals."""

    @abstractmethod
    def _drain(self) -> None:
        """Waits for the end after it was stopped."""


@contextlib.contextmanager
def reporter(progress: Progress) -> Iterator[Callable[[int, int | None], object] | None]:
    """A function that shows progress: the caller's own, or tqdm's bar where it is installed."""
    if not progress:
        yield None
        return
    if progress is not True:
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(unit="B", unit_scale=True, unit_divisor=1024) as bar:

        def show(done: int, length: int | None) -> None:
            bar.total = length
            bar.update(done - bar.n)

        yield show


def wait(operation: _haul.CallHandle, progress: Progress = None) -> Any:
    """The result of an operation. An exception here, Ctrl-C among them, stops it first."""
    try:
        with reporter(progress) as report:
            while not operation.wait(INTERVAL):
                if report is not None:
                    report(*operation.progress())
            if report is not None:
                report(*operation.progress())
    except BaseException:
        operation.cancel()
        while not operation.wait(INTERVAL):
            pass
        raise
    return operation.result()


async def wait_async(operation: _haul.CallHandle, progress: Progress = None) -> Any:
    """The same for asyncio. A cancelled task stops its operation."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def on_end() -> None:
        # A loop that was closed meanwhile wants to know nothing.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    operation.on_end(on_end)
    try:
        with reporter(progress) as report:
            while report is not None and not ended.is_set():
                report(*operation.progress())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), INTERVAL)
            await ended.wait()
            if report is not None:
                report(*operation.progress())
    except GeneratorExit:
        # The loop is gone, and nothing can be waited for.
        operation.cancel()
        raise
    except BaseException:
        operation.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), CANCEL_TIME)
        raise
    return operation.result()
