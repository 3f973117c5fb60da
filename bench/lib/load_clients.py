"""What the load programs of `serve` and `tunnel` have in common."""

import pathlib

from lib.environment import run_client
from lib.programs import Run


class LoadClients:
    """Runs load programs. `shown` has the first command line of each kind, for the page."""

    def __init__(self):
        self.shown = {}

    def show(self, kind, command):
        self.shown.setdefault(kind, " ".join([pathlib.Path(command[0]).name, *map(str, command[1:])]))

    def run(self, kind, command):
        """Runs a command and returns its output."""
        self.show(kind, command)
        return run_client(command)

    def run_curl(self, kind, arguments):
        """One download by curl; the arguments say from where and to which file."""
        command = ["curl", "-q", "-sSf", "-w", "%{time_total} %{size_download}", *arguments]
        wall, length = self.run(kind, command).split()
        return Run(float(wall), bytes=int(length))

    def run_lab(self, kind, command):
        """A run of one of `lab`'s load programs, which print their figures as JSON."""
        return Run.from_json(self.run(kind, command))
