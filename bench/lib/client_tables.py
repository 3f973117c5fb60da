"""What the pages of `get` and `batch` have in common: they compare clients that are run as commands."""

from lib import report
from lib.case import CPU, WALL, Case

TABLES = report.Tables(
    metrics=[WALL, CPU],
    program="program",
    columns={
        "wall": lambda program: report.spread(program.figures("wall"), "{:.2f}".format),
        "CPU": lambda program: f"{program.median('cpu'):.2f}",
        "CPU of the server": lambda program: f"{program.median('origin_cpu'):.2f}",
        "memory": report.peak_mib,
    },
    explanation="Medians behind the ratios, seconds (wall with its range), and the largest peak in MiB:",
)

# MiB that haul may use at most in each case.
MEMORY_LIMIT = 64


def client_case(title, programs, limits, runner, **options):
    return Case(title, programs, limits, clean_up=runner.empty_output, memory_limit=MEMORY_LIMIT, **options)


def notes(cases, work):
    """Crashes, and the command lines."""
    crashes = [
        f"{program.name} crashed in {program.crashes} of {program.crashes + len(program.runs) + 1} runs of \"{case.title}\";"
        " those runs were repeated."
        for case in cases for program in case.programs if program.crashes]
    commands = [report.short_command(program.command) for case in cases for program in case.programs]
    return [*crashes, report.command_lines("Commands:", commands, {work: "."})]
