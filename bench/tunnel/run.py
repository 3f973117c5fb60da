"""`scripts/bench tunnel`: the tunnel beside socat and proxytunnel, through squid. Small requests, a large file, idle tunnels.

Everything is on loopback and tmpfs. Each case compares medians of interleaved runs.
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
from cases import KEYS, Tunnel  # noqa: E402
from peers import program  # noqa: E402
from setting import descriptors, ends_clean, scratch  # noqa: E402
from trial import page  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench tunnel", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count (default 5)")
    parser.add_argument("--cases", default=",".join(KEYS), help="which, separated by commas (default all: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a tenth or less of everything: to see that it works")
    parser.add_argument("--flags", type=shlex.split, default=[], help="more flags for haul tunnel, as one word")
    parser.add_argument("--haul", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--least", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.keys = args.cases.split(",")
    if unknown := set(args.keys) - set(KEYS):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if args.runs < 1:
        parser.error("at least one round is needed")
    return args


def asked(args):
    """The command line as somebody would type it again."""
    words = ["scripts/bench", "tunnel", "--runs", str(args.runs), "--cases", ",".join(args.keys)]
    words += ["--flags", shlex.join(args.flags)] * bool(args.flags) + ["--quick"] * args.quick
    return shlex.join(words)


def versions():
    """Who takes part."""
    commands = [(program("squid"), "-v"), (program("nginx"), "-v"), ("curl", "--version"), ("ab", "-V")]
    told = [report.first_line(*command).split(" (")[0].removeprefix("This is ").split(" <")[0] for command in commands]
    # The second line of what it says; its first is about its author.
    told.append(" ".join(report.said("socat", "-V")[1].split()[:3]))
    return [*told, " ".join(report.first_line("proxytunnel", "-V").split()[:2])]


def main():
    args, cases = arguments(), []
    ends_clean()
    descriptors(45_000)
    with contextlib.ExitStack() as stack:
        work = scratch(stack, "/dev/shm", "haul-bench-")
        # The workers of nginx and squid are other users when root measures.
        work.chmod(0o755)
        tunnel = Tunnel(work, args, stack)
        for key in args.keys:
            with contextlib.ExitStack() as relays:
                for case in tunnel.cases(key, relays):
                    case.run(args.runs)
                    cases.append(case)
                    print("\n".join([*case.rows(), *case.medians()]), flush=True)
        commands = [line.replace(str(work), ".") for line in tunnel.clients.shown.values()]
    notes = tunnel.notes + ([] if args.haul else ["haul was not there: the figures are those of its peers."])
    notes.append(f"Load average at the end: {os.getloadavg()[1]:.1f} over five minutes, of which what is measured is some 2.")
    if commands:
        notes.append("Clients, the first of each kind:\n\n" + "\n".join("    " + command for command in commands))
    text = page(report.heading("haul tunnel", asked(args), versions()), cases, notes)
    print("\n" + text)
    # A part of the table, or less of everything, would be taken for the whole by whoever looks for a date.
    if not args.quick and args.keys == KEYS and args.haul:
        print(f"kept as {report.keep(HERE / 'results', text).relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
