"""A server process: started, awaited, measured through /proc, stopped."""

import contextlib
import math
import os
import pathlib
import socket
import subprocess
import time
import typing


class Memory(typing.NamedTuple):
    """Resident memory of a process and its children, in KiB."""

    # The sum of what each process counts: a page that two share counts twice.
    resident: int
    # The same with each shared page counted once.
    proportional: int


class Daemon:
    """A server that runs while the `with` block does. A subclass calls `start` in its `__enter__`."""

    def start(self, command, ports, log, environment=None):
        """Starts the command, appends its output to a log file, and returns when all its ports accept connections."""
        command = [str(argument) for argument in command]
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        deadline = time.monotonic() + 10
        try:
            for port in ports:
                self.wait_for_port(port, deadline, log)
        except BaseException:
            self.stop()
            raise

    def wait_for_port(self, port, deadline, log):
        while True:
            if self.is_listening(port):
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                output = pathlib.Path(log).read_text(errors="replace")[-2000:]
                raise SystemExit(f"{self.process.args[0]} did not start: {output}")
            time.sleep(0.02)

    def is_listening(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __exit__(self, *_):
        self.stop()

    def cpu_seconds(self):
        """User and system time since the start."""
        # The processes still run, so the time cannot come from wait(2).
        return sum(map(process_cpu_seconds, process_tree(self.process.pid)))

    def reset_peak_memory(self):
        """Makes the kernel count the peak of resident memory from now on."""
        for process in process_tree(self.process.pid):
            (process / "clear_refs").write_text("5")

    def peak_memory(self):
        """The peak of resident memory in KiB since `reset_peak_memory`, summed over the processes."""
        return sum(kibibytes(process / "status", "VmHWM:") for process in process_tree(self.process.pid))

    def memory(self):
        processes = list(process_tree(self.process.pid))
        return Memory(
            resident=sum(kibibytes(process / "status", "VmRSS:") for process in processes),
            proportional=sum(kibibytes(process / "smaps_rollup", "Pss:") for process in processes))

    def wait_for_closed_connections(self):
        """Returns when the server has closed its side of connections that clients have closed."""
        lowest, unchanged = math.inf, 0
        deadline = time.monotonic() + 30
        while unchanged < 5 and time.monotonic() < deadline:
            count = self.open_descriptors()
            lowest, unchanged = (count, 0) if count < lowest else (lowest, unchanged + 1)
            time.sleep(0.02)

    def open_descriptors(self):
        return sum(len(os.listdir(process / "fd")) for process in process_tree(self.process.pid))


def process_tree(pid):
    """The directories in /proc of a process and its children."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat_fields(stat)[1]
        except OSError:
            continue  # the process has ended
        if str(pid) in (stat.parent.name, parent):
            yield stat.parent


def process_descendants(pid):
    """The directories in /proc of a process and of all that descend from it."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            children.setdefault(stat_fields(stat)[1], []).append(stat.parent)
    found = [pathlib.Path(f"/proc/{pid}")]
    for process in found:
        found += children.get(process.name, [])
    return found


def stat_fields(stat):
    """The fields of /proc/PID/stat from the third on: state, parent and so on."""
    # The second is the program's name in parentheses, and may hold anything.
    return stat.read_text().rsplit(")", 1)[1].split()


def kibibytes(path, name):
    """The number of a line `name number kB` of a file in /proc."""
    line = next((line for line in path.read_text().splitlines() if line.startswith(name)), None)
    return int(line.split()[1]) if line else 0


def process_cpu_seconds(process):
    """User and system time of a process, given as its directory in /proc, and of children that it has waited for."""
    try:
        times = stat_fields(process / "stat")[11:15]
    except OSError:
        return 0.0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
