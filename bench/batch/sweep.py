"""`scripts/bench batch sweep`: small files with 5, 10, ... 100 at once, haul against itself. More at once must never be slower."""

import report
from cases import DELAY
from commands import Lists
from link import SlowLink

LEVELS = range(5, 101, 5)

# Going up may cost so much of the best that fewer reached.
SLOWER = 1.10


class Sweep:
    """The same list at each level, over loopback or through the slow link, which is where the number matters."""

    def __init__(self, batch, linked):
        self.batch, self.linked = batch, linked
        # Over the link five at a time are a hundred a second.
        self.shelf = batch.shelf("four", 2_000, 4096, 4096) if linked else batch.small()
        port = batch.nginx.plain
        if linked:
            port = batch.stack.enter_context(SlowLink(batch.args.link, port, DELAY)).port
        folder = self.shelf.folder.name
        self.lists = Lists(batch.work / "sweep", batch.url(port, folder), self.shelf.names)
        self.contenders = [self.contender(level) for level in LEVELS]

    def contender(self, level):
        command = self.batch.commands.haul(self.lists.path, "-j", str(level), "-x", str(level))
        return self.batch.contender(f"{level} at once", command, self.shelf)

    def rows(self):
        best = self.contenders[0].median("wall")
        for level, contender in zip(LEVELS, self.contenders):
            wall = contender.median("wall")
            ratio, best = wall / best, min(wall, best)
            walls = [run.wall for run in contender.runs]
            yield (
                f"| {level} | {len(self.shelf.names) / wall:,.0f} | {wall:.3f} ({min(walls):.3f} to {max(walls):.3f}) "
                f"| {contender.median('cpu'):.2f} | {contender.worst('peak') / 1024:.0f} | {ratio:.2f} | {'ok' if ratio <= SLOWER else 'MISS'} |"
            )

    def page(self, invocation, versions):
        where = "through a link of 50 ms" if self.linked else "on loopback"
        command = " ".join(word.replace(str(self.batch.work), ".") for word in self.contenders[0].command[1:])
        return "\n".join([
            *report.heading("haul get -i, 5 to 100 at once", invocation, versions),
            f"{len(self.shelf.names):,} files, {where}: medians of {len(self.contenders[0].runs)}. The ratio is that of the wall time to the best with fewer at",
            f"once, and must be at most {SLOWER:.2f}.", "",
            "| at once | files/s | wall, s | CPU, s | memory, MiB | against fewer | |", "| --- | --- | --- | --- | --- | --- | --- |",
            *self.rows(), "",
            "Command, with the first number:", "", f"    haul {command}", ""])
