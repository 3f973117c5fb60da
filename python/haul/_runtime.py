"""What a process needs once: the thread that hands messages to `logging`, and a clean end of the interpreter."""

from __future__ import annotations

import atexit
import logging
import os
import threading

from . import _haul

_logger = logging.getLogger("haul")
_lock = threading.Lock()
_process: int | None = None
_thread: threading.Thread | None = None


def start() -> None:
    """Called for each client; does something for the first one of a process."""
    global _process, _thread
    with _lock:
        if _process == os.getpid():
            return
        if _process is None:
            atexit.register(_shut_down)
        _process = os.getpid()
        _thread = threading.Thread(target=_hand_over_messages, name="haul log", daemon=True)
        _thread.start()


def _hand_over_messages() -> None:
    while (messages := _haul.take_log_messages()) is not None:
        for level, text in messages:
            _logger.log(level, "%s", text)


def _shut_down() -> None:
    """Transfers that still run keep what the same call can continue."""
    _haul.shut_down()
    _haul.close_log()
    # It must not come back to an interpreter that is gone.
    if _thread is not None and _process == os.getpid():
        _thread.join(timeout=1.0)
