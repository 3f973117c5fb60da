"""The command line that all programs of `scripts/bench` have in common, and how it is told in their pages."""

import argparse
import shlex


class Command:
    """`scripts/bench NAME` with the cases that it knows. What else it takes is added to `parser`."""

    def __init__(self, name, doc, keys, quick):
        self.name, self.keys = name, keys
        self.parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=doc)
        self.parser.add_argument("--runs", type=int, default=5, help="rounds that count (default 5)")
        self.parser.add_argument("--cases", default=",".join(keys), help="which, separated by commas (default all: %(default)s)")
        self.parser.add_argument("--quick", action="store_true", help=quick)

    def hidden(self, flag, **more):
        """A flag that `scripts/bench` itself gives."""
        self.parser.add_argument(flag, help=argparse.SUPPRESS, **more)

    def flags(self, whose):
        """More flags for what is measured."""
        self.parser.add_argument("--flags", type=shlex.split, default=[], help=f"more flags for {whose}, as one word")

    def parse(self):
        args = self.parser.parse_args()
        args.keys = args.cases.split(",")
        if unknown := set(args.keys) - set(self.keys):
            self.parser.error(f"no such case: {', '.join(sorted(unknown))}")
        if args.runs < 1:
            self.parser.error("at least one round is needed")
        return args

    def asked(self, args):
        """As somebody would type it again."""
        words = ["scripts/bench", self.name, "--runs", str(args.runs), "--cases", ",".join(args.keys)]
        flags = getattr(args, "flags", [])
        return shlex.join(words + ["--flags", shlex.join(flags)] * bool(flags) + ["--quick"] * args.quick)

    def is_whole(self, args):
        """Whether all was measured. A part of the table, or smaller files, would be taken for the whole by whoever looks for a date."""
        return not args.quick and args.keys == self.keys and bool(args.haul)


def clients(shown):
    """A note on the command lines of clients."""
    return "Clients, the first of each kind:\n\n" + "\n".join("    " + line for line in shown)
