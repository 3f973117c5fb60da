"""The command line that all benches have in common: `scripts/bench NAME [flags]`."""

import argparse
import os
import pathlib
import shlex

from lib.programs import HAUL, HAUL_BEFORE


def parse(bench, arguments):
    """The arguments of a bench, a subclass of `Bench`.

    `binaries` has the haul programs to measure by their names in the tables: none with HAUL=none, two with `--against`.
    """
    parser = argparse.ArgumentParser(prog=f"scripts/bench {bench.name}", description=bench.__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count (default %(default)s)")
    parser.add_argument(
        "--cases", default=",".join(bench.keys), help="cases to run, separated by commas (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=bench.quick_help)
    parser.add_argument(
        "--against", type=executable, metavar="FILE", help="another haul binary to measure in the same rounds, as \"haul before\"")
    parser.add_argument(
        "--peers", choices=["all", "none"], default="all", help="none: measure only haul (default %(default)s)")
    parser.add_argument(
        "--keep", action="store_true", help="keep the page of some cases, too, as DATE-part.md; that of all cases is always kept")
    add_program(parser, "--haul")
    bench.add_arguments(parser)
    args = parser.parse_args(arguments)
    args.keys = args.cases.split(",")
    if unknown := set(args.keys) - set(bench.keys):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if args.runs < 1:
        parser.error("--runs must be at least 1")
    if not args.haul and (args.against or args.peers == "none"):
        parser.error("with HAUL=none there must be peers, and there is nothing to compare with --against")
    if args.keep and (not args.haul or args.quick or args.against or args.peers == "none"):
        parser.error("--keep is for full-size runs of haul and its peers")
    binaries = {HAUL: args.haul, HAUL_BEFORE: args.against}
    args.binaries = {name: binary for name, binary in binaries.items() if binary}
    return args


def add_program(parser, flag, required=False):
    """Adds a flag for a program that `scripts/bench` builds or finds."""
    parser.add_argument(flag, type=executable, required=required, help=argparse.SUPPRESS)


def executable(path):
    path = pathlib.Path(path).resolve()
    if not os.access(path, os.X_OK) or not path.is_file():
        raise argparse.ArgumentTypeError(f"{path} is not a program")
    return path


def invocation(bench, args):
    """The command line that repeats a run."""
    command = ["scripts/bench", bench.name, *bench.invocation_arguments(args), "--runs", str(args.runs)]
    if args.flags:
        command += ["--flags", shlex.join(args.flags)]
    if args.quick:
        command.append("--quick")
    if args.against:
        command += ["--against", str(args.against)]
    if args.peers != "all":
        command += ["--peers", args.peers]
    return shlex.join(command)
