"""Runs one command and prints what the kernel counted: wall seconds, CPU seconds, peak KiB, exit code; and the time of its start.

It is a small process of its own, because the kernel counts a program's peak memory from the size of the process that started it,
and the bench itself is larger than most programs that it measures.
"""

import os
import sys
import time

silent = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
start_time, start = time.time(), time.monotonic()
process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
_, status, usage = os.wait4(process, 0)
wall = time.monotonic() - start
print(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status), start_time)
