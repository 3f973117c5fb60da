"""Commands side by side: interleaved rounds, the operating system's own accounting of each, medians."""

import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import typing

LAUNCH = pathlib.Path(__file__).with_name("launch.py")


def interleaved(contenders, rounds):
    """A B C, B C A ...: all see the same weather."""
    for number in range(rounds):
        # Each round begins with another: nobody always runs first.
        shift = number % len(contenders)
        yield from contenders[shift:] + contenders[:shift]


@dataclasses.dataclass
class Run:
    """One run of one command."""

    wall: float  # seconds, as far as they count
    total: float  # seconds, all of them
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
    # The moment up to which its time counts, where that is not its end.
    until: typing.Callable | None = None
    # Exit codes of runs that came to a result.
    codes: tuple = (0,)
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
            run, code, began, errors = self.attempt(contender.command)
            if code in contender.codes:
                contender.complete()
                if contender.until:
                    run.wall = contender.until() - began
                return run
            contender.crashes += 1
            if code >= 0 or contender.crashes > 5:
                raise SystemExit(f"{contender.name} failed with {code}: {errors[-500:]}")

    def attempt(self, command):
        """Runs a command once: what it took, its exit code, when it began, what it said."""
        self.clear()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        launch = [sys.executable, "-I", "-S", str(LAUNCH), *command]
        before = self.spent()
        ran = subprocess.run(launch, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
        if not ran.stdout:
            raise SystemExit(f"{command[0]} did not start: {ran.stderr[-500:]}")
        wall, cpu, peak, code, began = ran.stdout.split()
        run = Run(float(wall), float(wall), float(cpu), int(peak), self.spent() - before)
        return run, int(code), float(began), ran.stderr

    def compare(self, contenders, rounds):
        """One warm-up whose result is looked at closely, then `rounds` of A B C A B C ..., so that all see the same weather."""
        for contender in contenders:
            self.run(contender)
            contender.right()
        for contender in interleaved(contenders, rounds):
            contender.runs.append(self.run(contender))
        self.clear()

    def once(self, contenders):
        """One run each, looked at closely: for what takes minutes, and is about memory and results, not about time."""
        for contender in contenders:
            contender.runs.append(self.run(contender))
            contender.right()
        self.clear()
