"""Commands side by side: interleaved rounds, the operating system's own accounting of each, medians."""

import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import typing

LAUNCH = pathlib.Path(__file__).with_name("launch.py")


@dataclasses.dataclass
class Run:
    """One run of one command."""

    wall: float  # seconds
    cpu: float  # seconds, user and system
    peak: int  # KiB
    server: float  # CPU seconds that its server spent meanwhile


@dataclasses.dataclass
class Contender:
    """A command under a name, and how its result is looked at."""

    name: str
    command: list
    # Cheap, after every run: is it all there?
    complete: typing.Callable
    # Dear, once: is it the right thing, byte for byte?
    right: typing.Callable
    runs: list = dataclasses.field(default_factory=list)
    # Runs that ended by a signal and were made again.
    crashes: int = 0

    def median(self, what):
        return statistics.median(getattr(run, what) for run in self.runs)

    def worst(self, what):
        return max(getattr(run, what) for run in self.runs)


@dataclasses.dataclass
class Arena:
    """Where contenders meet: what is swept before each run, and the server whose work is counted."""

    clear: typing.Callable
    # CPU seconds of the server since it began.
    spent: typing.Callable
    # A home without settings: nobody's ~/.curlrc or proxy takes part.
    home: pathlib.Path

    def run(self, contender):
        """One run that came to a result. A crash is made up for, and told: axel has one in some twenty runs."""
        while True:
            run, code, errors = self.attempt(contender.command)
            if code == "0":
                contender.complete()
                return run
            contender.crashes += 1
            if not code.startswith("-") or contender.crashes > 5:
                raise SystemExit(f"{contender.name} failed with {code}: {errors[-500:]}")

    def attempt(self, command):
        self.clear()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        launch = [sys.executable, "-I", "-S", str(LAUNCH), *command]
        before = self.spent()
        ran = subprocess.run(launch, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
        wall, cpu, peak, code = ran.stdout.split() or (0, 0, 0, "no start")
        return Run(float(wall), float(cpu), int(peak), self.spent() - before), code, ran.stderr

    def compare(self, contenders, rounds):
        """One warm-up whose result is looked at closely, then `rounds` of A B C A B C ..., so that all see the same weather."""
        for contender in contenders:
            self.run(contender)
            contender.right()
        for number in range(rounds):
            # Each round begins with another: nobody always runs first.
            shift = number % len(contenders)
            for contender in contenders[shift:] + contenders[:shift]:
                contender.runs.append(self.run(contender))
        self.clear()
