"""The clients of `scripts/bench serve`: wrk for small GETs, `lab`'s load for bodies of any size, curl for TLS and listings."""

import json
import os
import pathlib
import subprocess
import time

from duel import Run
from setting import quiet

HERE = pathlib.Path(__file__).resolve().parent

# So many of a million requests of wrk may break, such as those that are under way as the clock runs out.
BROKEN = 1000


class Clients:
    """The command lines. `shown` keeps the first of each kind for the report."""

    def __init__(self, load, seconds, ca):
        self.load_program, self.seconds, self.ca, self.shown = load, seconds, ca, {}

    def show(self, kind, command):
        self.shown.setdefault(kind, " ".join([pathlib.Path(command[0]).name, *map(str, command[1:])]))

    def wrk(self, port, prefix, count, stay):
        """Small GETs over 32 connections for some seconds. Half the cores are for the client: with more of its threads it would
        take time from the server that it does not use."""
        threads = max(1, os.cpu_count() // 2)
        command = ["wrk", "-t", threads, "-c", 32, "-d", f"{self.seconds}s", "-s", HERE / "requests.lua", f"http://127.0.0.1:{port}",
                   "--", prefix, count, "stay" if stay else "close"]
        self.show("wrk", command)
        said = json.loads(next(line for line in quiet(command).splitlines() if line.startswith("{")))
        if said["refused"] or said["broken"] * 1e6 > BROKEN * said["requests"]:
            raise SystemExit(f"of {said['requests']} requests {said['refused']} were refused and {said['broken']} broke")
        return Run.told(said)

    def load(self, method, port, target, requests, connections, size=0):
        command = [self.load_program, method, f"127.0.0.1:{port}", target, "--connections", connections, "--requests", requests]
        command += ["--size", size] if method == "put" else []
        self.show(f"load {method}", command)
        return Run.told(json.loads(quiet(command)))

    def tls(self, port, name, processes, length):
        """A file over TLS into nothing, by so many curls at once."""
        command = ["curl", "-q", "-sSf", "--tlsv1.3", "--http1.1", "--cacert", str(self.ca), "-o", "/dev/null", "-w", "%{size_download}",
                   f"https://127.0.0.1:{port}/{name}"]
        self.show("tls", command)
        started = time.monotonic()
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}) for _ in range(processes)]
        try:
            found = [process.communicate()[0] for process in running]
        finally:
            for process in running:
                process.kill()
        wall = time.monotonic() - started
        if found != [str(length)] * processes:
            raise SystemExit(f"curl: {found} bytes instead of {length}")
        return Run(wall, processes, processes * length)

    def listing(self, port, path, out):
        """A page for people, to its last byte."""
        command = ["curl", "-q", "-sSf", "-H", "Accept: text/html,*/*;q=0.8", "-o", str(out), "-w", "%{time_total} %{size_download}",
                   f"http://127.0.0.1:{port}/{path}"]
        self.show("listing", command)
        wall, length = quiet(command).split()
        return Run(float(wall), 1, int(length))
