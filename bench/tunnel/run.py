"""`scripts/bench tunnel`: the tunnel beside socat and proxytunnel, through squid. Small requests, a large file, idle tunnels.

Everything is on loopback and tmpfs. Each case compares medians of interleaved runs.
"""

import contextlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import report  # noqa: E402
from cases import KEYS, Tunnel  # noqa: E402
from command import Command, clients  # noqa: E402
from peers import program  # noqa: E402
from setting import descriptors, ends_clean, scratch  # noqa: E402
from trial import page  # noqa: E402


def arguments():
    command = Command("tunnel", __doc__, KEYS, "a tenth or less of everything: to see that it works")
    command.flags("haul tunnel")
    command.hidden("--haul", type=pathlib.Path)
    command.hidden("--limit", required=True, type=pathlib.Path)
    command.hidden("--least", required=True, type=pathlib.Path)
    return command, command.parse()


def versions():
    """Who takes part."""
    commands = [(program("squid"), "-v"), (program("nginx"), "-v"), ("curl", "--version"), ("ab", "-V")]
    told = [report.first_line(*command).split(" (")[0].removeprefix("This is ").split(" <")[0] for command in commands]
    # The second line of what it says; its first is about its author.
    told.append(" ".join(report.said("socat", "-V")[1].split()[:3]))
    return [*told, " ".join(report.first_line("proxytunnel", "-V").split()[:2])]


def main():
    (command, args), cases = arguments(), []
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
        notes.append(clients(commands))
    text = page(report.heading("haul tunnel", command.asked(args), versions()), cases, notes)
    print("\n" + text)
    if command.is_whole(args):
        print(f"kept as {report.keep(HERE / 'results', text).relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
