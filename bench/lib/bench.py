"""The frame of a bench: runs its cases, prints their tables, and writes the page of a complete run."""

import contextlib
import os
import pathlib

from lib import command_line, environment, report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Bench:
    """One comparison, `scripts/bench NAME`. A subclass says which cases there are, and makes them."""

    name: str
    # The title of the page.
    title: str
    keys: list
    quick_help: str
    tables: report.Tables
    # Open files that the bench and its programs need; None: as many as they have.
    descriptors = None

    def __init__(self, args, work, stack):
        """`work` is a directory in memory. What all cases need is entered into `stack`."""
        self.args, self.work, self.stack = args, work, stack

    @classmethod
    def add_arguments(cls, parser):
        parser.set_defaults(flags=[])

    @classmethod
    def invocation_arguments(cls, args):
        return ["--cases", ",".join(args.keys)]

    def cases(self, key, stack):
        """Makes the cases of a key one after the other. Servers that only they need are entered into `stack`."""
        raise NotImplementedError

    def versions(self):
        """Names and versions of the peers."""
        raise NotImplementedError

    def notes(self, cases):
        """More paragraphs for the page."""
        return []

    def results(self):
        """The directory for the page of a complete run or of one with `--keep`; None for any other."""
        args = self.args
        complete = args.keys == self.keys and args.haul and args.peers == "all" and not args.quick and not args.against
        return ROOT / "bench" / self.name / "results" if complete or args.keep else None

    def is_part(self):
        """Whether cases are missing."""
        return self.args.keys != self.keys

    def haul_programs(self, make, suffix=""):
        """What `make` returns for each haul binary. It gets the binary's name in the tables and its path."""
        return [make(name + suffix, binary) for name, binary in self.args.binaries.items()]

    def finished_cases(self):
        """Runs the cases."""
        finished = []
        for key in self.args.keys:
            with contextlib.ExitStack() as stack:
                for case in self.cases(key, stack):
                    if self.args.peers == "none":
                        case.drop_peers()
                    if not case.programs:
                        continue
                    case.run(self.args.runs)
                    finished.append(case)
                    print(self.tables.progress(case), flush=True)
        return finished

    def page(self):
        """Runs everything and returns the page."""
        cases = self.finished_cases()
        load = f"Load average at the end: {os.getloadavg()[1]:.1f} over five minutes; one client and one server make some 2 of it."
        notes = [*self.notes(cases), *([] if self.args.haul else ["Without haul: only its peers were measured."]), load]
        invocation = command_line.invocation(self, self.args)
        versions = self.versions() if self.args.peers == "all" else []
        lines = [*report.heading(self.title, invocation, versions), *self.tables.render(cases)]
        return "\n".join([*lines, *(note + "\n" for note in notes)])


def main(bench, arguments):
    """Runs a bench, a subclass of `Bench`."""
    args = command_line.parse(bench, arguments)
    environment.exit_on_signals()
    if bench.descriptors:
        environment.raise_descriptor_limit(bench.descriptors)
    with contextlib.ExitStack() as stack:
        work = environment.scratch_directory(stack, "/dev/shm")
        # When root measures, the workers of nginx and squid are other users.
        work.chmod(0o755)
        measured = bench(args, work, stack)
        page = measured.page()
    print("\n" + page)
    if directory := measured.results():
        print(f"written to {report.write_page(directory, page, part=measured.is_part()).relative_to(ROOT)}")
