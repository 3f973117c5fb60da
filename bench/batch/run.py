"""`scripts/bench batch`: many files in one run, beside wget2, curl -Z and aria2; and `scripts/bench batch sweep`, beside itself.

Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
"""

import argparse
import contextlib
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import report  # noqa: E402
from cases import KEYS, Batch  # noqa: E402
from paired import Arena  # noqa: E402
from peers import Nginx, program  # noqa: E402
from sweep import Sweep  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench batch", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["table", "sweep"], default="table", help="beside peers, or the sweep (default table)")
    parser.add_argument("--runs", type=int, default=5, help="rounds that count (default 5)")
    parser.add_argument("--cases", default=",".join(KEYS), help="which of the table, separated by commas (default all: %(default)s)")
    parser.add_argument("--slow", action="store_true", help="the sweep through a link of 50 ms")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the files")
    parser.add_argument("--haul", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--link", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.keys = args.cases.split(",")
    if unknown := set(args.keys) - set(KEYS):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if args.runs < 1:
        parser.error("at least one round is needed")
    return args


def table(batch, arena, versions):
    """The cases, one after the other."""
    args, cases = batch.args, []
    for case in map(batch.case, args.keys):
        case.run(arena, args.runs)
        cases.append(case)
        print("\n".join(case.rows()), flush=True)
    asked = f"scripts/bench batch --runs {args.runs} --cases {','.join(args.keys)}{' --quick' * args.quick}"
    return report.page("haul get -i", asked, versions, cases, batch.work)


def sweep(batch, arena, versions):
    """The levels, interleaved."""
    args = batch.args
    levels = Sweep(batch, args.slow)
    arena.compare(levels.contenders, args.runs)
    asked = f"scripts/bench batch sweep --runs {args.runs}{' --slow' * args.slow}{' --quick' * args.quick}"
    return levels.page(asked, versions)


def main():
    args = arguments()
    commands = [("wget2", "--version"), ("curl", "--version"), ("aria2c", "--version"), (program("nginx"), "-v")]
    versions = [report.first_line(*command).split(" (")[0].split(" - ")[0] for command in commands]
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="haul-bench-") as work, contextlib.ExitStack() as stack:
        work = pathlib.Path(work)
        # nginx's workers are another user when root measures.
        work.chmod(0o755)
        nginx = stack.enter_context(Nginx(work / "nginx", work / "files"))
        batch = Batch(work, args, nginx, stack)
        batch.prepare()

        def clear():
            shutil.rmtree(batch.out, ignore_errors=True)
            batch.out.mkdir()

        arena = Arena(clear, nginx.spent, home=batch.home)
        text = {"table": table, "sweep": sweep}[args.what](batch, arena, versions)
    print("\n" + text)
    # A part of the table, or fewer files, would be taken for the whole by whoever looks for a date.
    if not args.quick and (args.what == "sweep" or args.keys == KEYS):
        folder = HERE / {"table": "results", "sweep": "sweeps"}[args.what]
        print(f"kept as {report.keep(folder, text).relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
