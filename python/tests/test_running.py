"""Running work: whoever leaves it early finds it stopped."""

from __future__ import annotations

import asyncio
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
