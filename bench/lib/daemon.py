"""A server that is measured: started, waited for, its CPU time and memory read from /proc, ended."""

import os
import pathlib
import socket
import subprocess
import time


class Daemon:
    """Runs while the `with` block does. Whoever inherits says what `command` is, and the ports that tell that it is there."""

    def start(self, command, ports, log, environment=None):
        """Starts it with what it says in a file, and returns when all its ports take connections."""
        words = [str(word) for word in command]
        with open(log, "ab") as said:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)
        deadline = time.monotonic() + 10
        try:
            for port in ports:
                self.reach(port, deadline, log)
        except BaseException:
            self.stop()
            raise

    def reach(self, port, deadline, log):
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    said = pathlib.Path(log).read_text(errors="replace")[-2000:]
                    raise SystemExit(f"{self.process.args[0]} did not start: {said}") from None
                time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __exit__(self, *_):
        self.stop()

    def spent(self):
        """CPU seconds since it began."""
        return cpu_seconds(self.process.pid)

    def forget_peak(self):
        """Has the kernel count the peak of resident memory anew."""
        for process in family(self.process.pid):
            (process / "clear_refs").write_text("5")

    def peak(self):
        """KiB of resident memory at most, since the peak was forgotten."""
        return sum(figure(process / "status", "VmHWM:") for process in family(self.process.pid))

    def resident(self):
        """KiB of resident memory now: as the processes count them, and with each page that they share counted once."""
        processes = list(family(self.process.pid))
        once = sum(figure(process / "smaps_rollup", "Pss:") for process in processes)
        return sum(figure(process / "status", "VmRSS:") for process in processes), once


def family(parent):
    """The folders in /proc of a process and its children."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name before the last parenthesis may hold anything; state, parent ... are behind it.
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it ended since
        if str(parent) in (stat.parent.name, fields[1]):
            yield stat.parent


def figure(path, name):
    """The number of a line `Name: number kB`."""
    line = next((line for line in path.read_text().splitlines() if line.startswith(name)), None)
    return int(line.split()[1]) if line else 0


def cpu_seconds(parent):
    """User and system time of a process and its children, from /proc: they have not ended, so nobody can wait for them."""
    return sum(map(cpu_of, family(parent)))


def cpu_of(process):
    """That of one, by its folder in /proc, and of those of its children that have ended and were waited for."""
    try:
        fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
