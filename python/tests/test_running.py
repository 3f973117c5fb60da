"""Running work: whoever leaves it early finds it stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import haul
from haul._batch import Batch
from haul._transfers import Transfer

Work = Transfer | Batch


class RunningHandle:
    """Work that Ctrl-C may interrupt, and that takes a while to stop."""

    def __init__(self, is_interrupted: bool = False) -> None:
        self.is_interrupted = is_interrupted
        self.events: list[str] = []

    def next_rows(self, max_rows: int, seconds: float) -> list[Any] | None:
        time.sleep(0.001)
        self.events.append("wait")
        if self.is_interrupted and len(self.events) == 1:
            raise KeyboardInterrupt
        return None if self.events[-3:] == ["wait"] * 3 and "cancel" in self.events else []

    def cancel(self) -> None:
        self.events.append("cancel")


def transfer(handle: Any) -> Work:
    return Transfer(handle)


def batch(handle: Any) -> Work:
    return Batch(handle, haul.Client(), None, None)


def leave_block(work: Work) -> None:
    with work:
        list(work)


@pytest.mark.parametrize("make", [transfer, batch])
@pytest.mark.parametrize("wait", [lambda work: work.run(), leave_block])
def test_ctrl_c_waits_until_work_has_stopped(make: Callable[[Any], Work], wait: Callable[[Work], object]) -> None:
    handle = RunningHandle(is_interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        wait(make(handle))
    assert handle.events == ["wait", "cancel", "wait", "wait", "wait"]


async def leave_async_block(work: Work) -> None:
    async with work:
        async for _ in work:
            pass


async def leave_run(work: Work) -> None:
    assert isinstance(work, Transfer)
    await work.arun()


WAITS = pytest.mark.parametrize(
    ("make", "wait"), [(transfer, leave_run), (transfer, leave_async_block), (batch, leave_async_block)]
)


@WAITS
def test_work_whose_loop_is_gone_is_stopped_without_waiting(
    make: Callable[[Any], Work], wait: Callable[[Work], Coroutine[Any, Any, None]]
) -> None:
    handle = RunningHandle()

    async def lose() -> None:
        coroutine = wait(make(handle))
        coroutine.send(None)
        coroutine.close()

    asyncio.run(lose())
    assert "cancel" in handle.events


@WAITS
def test_a_cancelled_task_waits_until_work_has_stopped(
    make: Callable[[Any], Work], wait: Callable[[Work], Coroutine[Any, Any, None]]
) -> None:
    handle = RunningHandle()

    async def cancel() -> None:
        task = asyncio.create_task(wait(make(handle)))
        while not handle.events:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert handle.events[-3:] == ["wait"] * 3 and "cancel" in handle.events

    asyncio.run(cancel())
