"""`scripts/bench batch sweep`: haul with 5, 10, ... 100 files at once. More at once must never be slower."""

from batch.inputs import UrlList
from lib import client_tables, command_line, report
from lib.case import verdict
from lib.link import SlowLink

LEVELS = range(5, 101, 5)

# How much slower than the best of the lower levels a level may be.
SLOWDOWN_BOUND = 1.10


class Sweep:
    """The same list at each level, over loopback or through a slow link, where the level matters most."""

    def __init__(self, bench):
        self.bench, args = bench, bench.args
        if not args.haul or args.against:
            raise SystemExit("the sweep measures one haul: it takes neither HAUL=none nor --against")
        # Through the link five at a time are a hundred files a second.
        self.generated = bench.medium_files() if args.slow else bench.small_files()
        port = bench.nginx.plain
        if args.slow:
            port = bench.stack.enter_context(SlowLink(args.slow_link, port)).port
        self.urls = UrlList(bench.work / "sweep", bench.url(port, self.generated.directory.name), self.generated.names)
        self.programs = [self.program(level) for level in LEVELS]

    def program(self, level):
        command = self.bench.haul_command(self.bench.args.haul, self.urls.path, "-j", level, "-x", level)
        return self.bench.program(f"{level} at once", command, self.generated)

    def rows(self):
        best = self.programs[0].median("wall")
        for level, program in zip(LEVELS, self.programs):
            wall = program.median("wall")
            ratio, best = wall / best, min(wall, best)
            yield [
                f"{level}", f"{len(self.generated.names) / wall:,.0f}", report.spread(program.figures("wall"), "{:.3f}".format),
                f"{program.median('cpu'):.2f}", report.peak_mib(program), f"{ratio:.2f}", verdict(ratio <= SLOWDOWN_BOUND)]

    def page(self):
        """Runs the sweep and returns the page."""
        args = self.bench.args
        client_tables.client_case("sweep", self.programs, [], self.bench.runner).run(args.runs)
        invocation = command_line.invocation(self.bench, args)
        command = report.short_command(self.programs[0].command)
        network = "through a link of 50 ms" if args.slow else "on loopback"
        return "\n".join([
            *report.heading("haul get -i, 5 to 100 at once", invocation, self.bench.versions()),
            f"{len(self.generated.names):,} files, {network}: medians of {args.runs}.",
            f"The ratio is that of the wall time to the best of the lower levels, and must be at most {SLOWDOWN_BOUND:.2f}.", "",
            *report.table(
                ["at once", "files/s", "wall, s", "CPU, s", "memory, MiB", "against lower levels", "result"], self.rows()),
            report.command_lines("Command, with the first level:", [command], {self.bench.work: "."}), ""])
