"""`scripts/bench serve`: the store beside nginx and dufs. Large and small GETs, PUTs, DELETEs, listings, idle connections.

Everything is on loopback and tmpfs, but for what must last, which is on a disk. Each case compares medians of interleaved runs.
"""

import contextlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import report  # noqa: E402
from cases import KEYS, Serve  # noqa: E402
from command import Command, clients  # noqa: E402
from duel import page  # noqa: E402
from peers import program  # noqa: E402
from setting import descriptors, ends_clean, scratch  # noqa: E402


def arguments():
    command = Command("serve", __doc__, KEYS, "a twentieth of everything: to see that it works")
    command.flags("haul serve")
    disk = "a folder on a real disk, for what must last (default: beside the builds)"
    command.parser.add_argument("--disk", type=pathlib.Path, help=disk)
    command.hidden("--haul", type=pathlib.Path)
    command.hidden("--load", required=True, type=pathlib.Path)
    command.hidden("--dufs", type=pathlib.Path)
    return command, command.parse()


def found(args):
    """Who takes part, and who does not."""
    commands = [(program("nginx"), "-v"), ("wrk", "--version"), ("curl", "--version")]
    commands += [(str(args.dufs), "--version")] if args.dufs else []
    versions = [report.first_line(*command).split(" [")[0].split(" (")[0] for command in commands]
    notes = [] if args.haul else ["haul was not there: the figures are those of its peers."]
    notes += [] if args.dufs else ["dufs was not there and could not be built."]
    return versions, notes


def main():
    (command, args), cases = arguments(), []
    ends_clean()
    descriptors(12_000)
    with contextlib.ExitStack() as stack:
        work = scratch(stack, "/dev/shm", "haul-bench-")
        work.chmod(0o755)
        parent = args.disk or args.load.resolve().parent
        disk = scratch(stack, parent, "haul-bench-")
        serve = Serve(work, disk, args)
        for key in args.keys:
            with contextlib.ExitStack() as servers:
                for case in serve.cases(key, servers):
                    case.run(args.runs)
                    cases.append(case)
                    print("\n".join([*case.rows(), *case.medians()]), flush=True)
        versions, notes = found(args)
        shown = serve.clients.shown.values()
        commands = [line.replace(str(work), ".").replace(str(HERE), "bench/serve") for line in shown]
    notes.append(f"Load average at the end: {os.getloadavg()[1]:.1f} over five minutes, of which one client and one server are some 2.")
    notes.append(clients(commands))
    text = page(report.heading("haul serve", command.asked(args), versions), cases, notes)
    print("\n" + text)
    if command.is_whole(args):
        print(f"kept as {report.keep(HERE / 'results', text).relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
