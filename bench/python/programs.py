"""Clients that are functions of Python: scripts of `clients/` in environments."""

import dataclasses
import json
import pathlib

from lib.programs import ClientProgram

CLIENTS = pathlib.Path(__file__).with_name("clients")


@dataclasses.dataclass(kw_only=True)
class ScriptProgram(ClientProgram):
    """A client of a script. Its times and memory are those of the measured call, without the interpreter's start and imports."""

    # The file into which the script writes its figures.
    figures_path: pathlib.Path
    # Figures that each run must have: how many files were right, and so on.
    expected: dict
    # How many URLs the time is divided by.
    requests: int = 1
    # All figures of the last run.
    found: dict = dataclasses.field(default_factory=dict)

    def measure(self):
        self.figures_path.unlink(missing_ok=True)
        run = super().measure()
        self.found = json.loads(self.figures_path.read_text())
        for name, value in self.expected.items():
            if self.found[name] != value:
                raise SystemExit(f"{self.name}: {name} is {self.found[name]} instead of {value}")
        run.wall, run.cpu, run.peak_memory = (self.found[name] for name in ("seconds", "cpu", "peak_memory"))
        run.requests, run.bytes = self.requests, self.found.get("bytes", 0)
        return run


def script_command(python, script, client, figures_path, **flags):
    """The command line of a client in the environment of an interpreter."""
    words = [word for name, value in flags.items() for word in ("--" + name.replace("_", "-"), value)]
    return [python, "-B", CLIENTS / script, client, "--figures", figures_path, *words]
