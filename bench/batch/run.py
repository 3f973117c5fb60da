"""`scripts/bench batch`: many files in one run, beside wget2, curl -Z and aria2; and `scripts/bench batch sweep`, beside itself.

Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
"""

import contextlib
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import report  # noqa: E402
from cases import KEYS, Batch  # noqa: E402
from command import Command  # noqa: E402
from paired import Arena  # noqa: E402
from peers import Nginx, program  # noqa: E402
from sweep import Sweep  # noqa: E402


def arguments():
    command = Command("batch", __doc__, KEYS, "a twentieth of the files")
    what = "beside peers, or the sweep (default table)"
    command.parser.add_argument("what", nargs="?", choices=["table", "sweep"], default="table", help=what)
    command.parser.add_argument("--slow", action="store_true", help="the sweep through a link of 50 ms")
    command.hidden("--haul", required=True, type=pathlib.Path)
    command.hidden("--link", required=True, type=pathlib.Path)
    return command, command.parse()


def table(command, batch, arena, versions):
    """The cases, one after the other."""
    args, cases = batch.args, []
    for case in map(batch.case, args.keys):
        case.run(arena, args.runs)
        cases.append(case)
        print("\n".join(case.rows()), flush=True)
    return report.page("haul get -i", command.asked(args), versions, cases, batch.work)


def sweep(_, batch, arena, versions):
    """The levels, interleaved."""
    args = batch.args
    levels = Sweep(batch, args.slow)
    arena.compare(levels.contenders, args.runs)
    asked = f"scripts/bench batch sweep --runs {args.runs}{' --slow' * args.slow}{' --quick' * args.quick}"
    return levels.page(asked, versions)


def main():
    command, args = arguments()
    peers = [("wget2", "--version"), ("curl", "--version"), ("aria2c", "--version"), (program("nginx"), "-v")]
    versions = [report.first_line(*peer).split(" (")[0].split(" - ")[0] for peer in peers]
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
        text = {"table": table, "sweep": sweep}[args.what](command, batch, arena, versions)
    print("\n" + text)
    if command.is_whole(args) or args.what == "sweep" and not args.quick:
        folder = HERE / {"table": "results", "sweep": "sweeps"}[args.what]
        print(f"kept as {report.keep(folder, text).relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
