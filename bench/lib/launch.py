"""Runs one command and prints what the kernel counted of it: wall seconds, CPU seconds, peak KiB, exit code; and when it began.

A process of its own, and a small one: the kernel counts a program's peak from the size of the process that started it, and the
bench itself is larger than most of what it measures.
"""

import os
import sys
import time

quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
began, started = time.time(), time.monotonic()
process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(process, 0)
wall = time.monotonic() - started
print(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status), began)
