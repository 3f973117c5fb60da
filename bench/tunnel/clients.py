"""The clients of `scripts/bench tunnel`: ab for small requests, `lab`'s connect_load for the limit, curl for what is large."""

import json
import pathlib
import re

from duel import Run
from setting import quiet

# Requests at once, as the write-up had them.
AT_ONCE = 5


class Clients:
    """The command lines. `shown` keeps the first of each kind for the report."""

    def __init__(self, limit):
        self.limit_program, self.shown = limit, {}

    def show(self, kind, command):
        self.shown.setdefault(kind, " ".join([pathlib.Path(command[0]).name, *map(str, command[1:])]))

    def ab(self, address, path, requests, stay, proxy=None):
        """ab on an address; or straight through a proxy, by GETs with whole URLs."""
        command = ["ab", "-q", "-d", "-S", "-n", requests, "-c", AT_ONCE, *["-k"] * stay, *(["-X", proxy] if proxy else []),
                   f"http://{address}{path}"]
        self.show(f"ab {stay} {bool(proxy)}", command)
        said = quiet(command)
        done, failed, refused = (figure(said, name) for name in ("Complete requests", "Failed requests", "Non-2xx responses"))
        kept = figure(said, "Keep-Alive requests")
        if (done, failed, refused, kept) != (requests, 0, 0, requests if stay else 0):
            found = f"{done:.0f} ended, {failed:.0f} failed, {refused:.0f} were refused, {kept:.0f} kept the connection"
            raise SystemExit(f"ab on {address}: of {requests} requests {found}")
        return Run(figure(said, "Time taken for tests"), requests, int(figure(said, "HTML transferred")))

    def limit(self, proxy, target, path, requests, stay):
        """What ab asks, by a client that speaks CONNECT itself."""
        command = [self.limit_program, proxy, target, path, "--requests", requests, "--connections", AT_ONCE, *["--keep-alive"] * stay]
        self.show(f"limit {stay}", command)
        return Run.told(json.loads(quiet(command)))

    def large(self, address, path, length):
        """A file into nothing."""
        command = ["curl", "-q", "-sSf", "-o", "/dev/null", "-w", "%{time_total} %{size_download}", f"http://{address}{path}"]
        self.show("large", command)
        wall, found = quiet(command).split()
        if int(found) != length:
            raise SystemExit(f"curl on {address}: {found} bytes instead of {length}")
        return Run(float(wall), 1, length)

    def fetch(self, address, path, out):
        """A file into a file, for a look at what comes of it."""
        quiet(["curl", "-q", "-sSf", "-o", out, f"http://{address}{path}"])


def figure(said, name):
    """The number that ab tells under a name; what it has no line for is zero."""
    found = re.search(rf"^{name}:\s+([0-9.]+)", said, re.MULTILINE)
    return float(found[1]) if found else 0.0
