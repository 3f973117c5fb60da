"""`scripts/bench serve`: the store beside nginx and dufs. Large and small GETs, PUTs, DELETEs, listings, idle connections.

Everything is on loopback and tmpfs, but for what must last, which is on a disk. Each case compares medians of interleaved runs.
"""

import argparse
import contextlib
import os
import pathlib
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import report  # noqa: E402
from cases import KEYS, Serve  # noqa: E402
from duel import page  # noqa: E402
from peers import program  # noqa: E402
from setting import descriptors, ends_clean, scratch  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench serve", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count (default 5)")
    parser.add_argument("--cases", default=",".join(KEYS), help="which, separated by commas (default all: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything: to see that it works")
    parser.add_argument("--disk", type=pathlib.Path, help="a folder on a real disk, for what must last (default: beside the builds)")
    parser.add_argument("--flags", type=shlex.split, default=[], help="more flags for haul serve, as one word")
    parser.add_argument("--haul", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--load", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--dufs", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.keys = args.cases.split(",")
    if unknown := set(args.keys) - set(KEYS):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if args.runs < 1:
        parser.error("at least one round is needed")
    return args


def asked(args):
    """The command line as somebody would type it again."""
    words = ["scripts/bench", "serve", "--runs", str(args.runs), "--cases", ",".join(args.keys)]
    words += ["--flags", shlex.join(args.flags)] * bool(args.flags) + ["--quick"] * args.quick
    return shlex.join(words)


def found(args):
    """Who takes part, and who does not."""
    commands = [(program("nginx"), "-v"), ("wrk", "--version"), ("curl", "--version")]
    commands += [(str(args.dufs), "--version")] if args.dufs else []
    versions = [report.first_line(*command).split(" [")[0].split(" (")[0] for command in commands]
    notes = [] if args.haul else ["haul was not there: the figures are those of its peers."]
    notes += [] if args.dufs else ["dufs was not there and could not be built."]
    return versions, notes


def main():
    args, cases = arguments(), []
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
    notes.append("Clients, the first of each kind:\n\n" + "\n".join("    " + command for command in commands))
    text = page(report.heading("haul serve", asked(args), versions), cases, notes)
    print("\n" + text)
    # A part of the table, or smaller files, would be taken for the whole by whoever looks for a date.
    if not args.quick and args.keys == KEYS and args.haul:
        print(f"kept as {report.keep(HERE / 'results', text).relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
