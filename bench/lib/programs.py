"""The programs that a case compares, and the figures of each run: a client that is run as a command, or a server under load."""

import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import typing

from lib.daemon import Daemon

LAUNCH = pathlib.Path(__file__).with_name("launch.py")

# Names of the measured haul, and of the one that `--against` names. A suffix names a variant of the flags.
HAUL, HAUL_BEFORE = "haul", "haul before"


@dataclasses.dataclass
class Run:
    """The figures of one run."""

    wall: float  # seconds
    requests: int = 1
    bytes: int = 0
    # User and system time in seconds; NaN where it is unknown.
    cpu: float = 0.0
    peak_memory: int = 0  # KiB
    # Milliseconds of a request; None where the load program does not print them.
    p50: float | None = None
    p99: float | None = None
    # Requests that the load program had in flight at once.
    concurrency: int = 1
    # Seconds until a client exited. `wall` is less where only a part of them counts.
    exit_wall: float = 0.0
    # CPU seconds of a client's origin.
    origin_cpu: float = 0.0

    @classmethod
    def from_json(cls, output):
        """From the line of a load program."""
        figures = json.loads(output)
        return cls(figures["seconds"], figures["requests"], figures["bytes"], p50=figures["p50_ms"], p99=figures["p99_ms"])


@dataclasses.dataclass(kw_only=True)
class Program:
    """A program under a name. A subclass says how to measure it once."""

    name: str
    # Looks at the result after each run, outside of its time. It must be cheap.
    check: typing.Callable = lambda: None
    # Looks at the result of the first run byte for byte.
    verify: typing.Callable = lambda: None
    # False where the CPU time is that of another kind of program, and no ratio makes sense.
    cpu_comparable: bool = True
    runs: list = dataclasses.field(default_factory=list)

    @property
    def is_haul(self):
        return self.name.startswith(HAUL) and not self.is_haul_before

    @property
    def is_haul_before(self):
        return self.name.startswith(HAUL_BEFORE)

    def figures(self, figure):
        """A figure of each run: a function of `Run`, or the name of a field."""
        return [getattr(run, figure) if isinstance(figure, str) else figure(run) for run in self.runs]

    def median(self, figure):
        return statistics.median(self.figures(figure))


@dataclasses.dataclass
class ClientRunner:
    """Runs commands of clients, each with an empty output directory."""

    output: pathlib.Path
    # A home without settings: no ~/.curlrc takes part, and no proxy.
    home: pathlib.Path
    origin: Daemon

    def empty_output(self):
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir()

    def run(self, command):
        """Runs a command: its figures, exit code, start time and standard error."""
        self.empty_output()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        launch = [sys.executable, "-I", "-S", str(LAUNCH), *command]
        origin_cpu = self.origin.cpu_seconds()
        result = subprocess.run(launch, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
        if not result.stdout:
            raise SystemExit(f"{command[0]} did not start: {result.stderr[-500:]}")
        wall, cpu, peak_memory, exit_code, start_time = result.stdout.split()
        run = Run(
            float(wall), cpu=float(cpu), peak_memory=int(peak_memory), exit_wall=float(wall),
            origin_cpu=self.origin.cpu_seconds() - origin_cpu)
        return run, int(exit_code), float(start_time), result.stderr


@dataclasses.dataclass(kw_only=True)
class ClientProgram(Program):
    """A client. Its wall time, CPU time and peak memory are those of its process."""

    command: list
    runner: ClientRunner
    # Returns the moment up to which wall time counts, where that is not the exit.
    finish_time: typing.Callable | None = None
    # Exit codes of runs that have a result.
    exit_codes: tuple = (0,)
    # Runs that ended by a signal and were repeated.
    crashes: int = 0

    def __post_init__(self):
        self.command = [str(argument) for argument in self.command]

    def measure(self):
        """Runs the command. A crash is counted, and the run is repeated: axel crashes in one of some twenty runs."""
        while True:
            run, exit_code, start_time, errors = self.runner.run(self.command)
            if exit_code in self.exit_codes:
                if self.finish_time:
                    run.wall = self.finish_time() - start_time
                return run
            self.crashes += 1
            if exit_code >= 0 or self.crashes > 5:
                raise SystemExit(f"{self.name} failed with {exit_code}: {errors[-500:]}")


@dataclasses.dataclass(kw_only=True)
class ServerProgram(Program):
    """A server under load. Wall time and requests are those of the load program, CPU time and peak memory those of the server."""

    server: Daemon
    # Runs the load program and returns its figures.
    load: typing.Callable

    def measure(self):
        self.server.reset_peak_memory()
        cpu = self.server.cpu_seconds()
        run = self.load()
        run.cpu = self.server.cpu_seconds() - cpu
        run.peak_memory = self.server.peak_memory()
        return run
