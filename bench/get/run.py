"""`scripts/bench get`: one file, and a hundred small ones, beside curl, aria2, axel and bare sockets.

Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import files  # noqa: E402
import report  # noqa: E402
from command import Command  # noqa: E402
from paired import Arena, Contender  # noqa: E402
from peers import Nginx, program  # noqa: E402
from report import Case, Limit  # noqa: E402

MIB = files.MIB
SMALL = [f"small{n}" for n in range(100)]
CASES = ["plain", "tls", "limited", "hundred"]


class Get:
    """What is served, and the commands that fetch it."""

    def __init__(self, work, haul, nginx, quick):
        self.work, self.haul, self.nginx = work, haul, nginx
        self.large = (256 if quick else 4096) * MIB
        self.served, self.out, self.raw = work / "files", work / "out", work / "raw"

    def prepare(self):
        """Makes the files and the program that shows the limit."""
        # What is served, and as much again for a result.
        files.room(self.work, 2 * self.large + 640 * MIB)
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", self.raw, HERE / "raw.rs"], check=True)
        self.served.mkdir()
        files.make(self.served / "large", self.large)
        files.make(self.served / "medium", 256 * MIB)
        for name in SMALL:
            files.make(self.served / name, MIB)

    def clear(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()

    def url(self, path, tls=False):
        scheme, port = ("https", self.nginx.tls) if tls else ("http", self.nginx.plain)
        return f"{scheme}://127.0.0.1:{port}/{path}"

    def contender(self, name, command, pairs):
        """A command whose results and originals are told in pairs."""

        def each(check):
            return lambda: [check(self.out / result, self.served / original) for result, original in pairs]

        return Contender(name, [str(word) for word in command], each(files.complete), each(files.right))

    def one_file(self, path, name, programs, tls=False):
        url, f, ca = self.url(path, tls), self.out / "f", self.nginx.ca
        trust = ["--cacert", ca] if tls else []
        commands = {
            "haul": [self.haul, "get", url, "-o", f, "-q", *trust],
            "curl": ["curl", "-sSf", "-o", f, *trust, url],
            "aria2": ["aria2c", "-q", "-x16", "-s16", "-d", self.out, "-o", "f", *([f"--ca-certificate={ca}"] if tls else []), url],
            "axel": ["axel", "-q", "-n", "16", "-o", f, url],
        }
        for threads in (1, 2, 4):
            commands[f"raw {threads}"] = [self.raw, threads, f"127.0.0.1:{self.nginx.plain}", "/" + path, self.large, f]
        return [self.contender(p, commands[p], [("f", name)]) for p in ("haul", *programs)]

    def hundred(self):
        urls, pairs = [self.url(name) for name in SMALL], [(name, name) for name in SMALL]
        named = [word for name in SMALL for word in ("-o", self.out / name, self.url(name))]
        return [
            self.contender("haul", [self.haul, "get", "-q", "-d", self.out, *urls], pairs),
            self.contender("curl -Z", ["curl", "-sSf", "-Z", *named], pairs),
        ]

    def case(self, key):
        size = f"{self.large // MIB} MiB" if self.large < 1 << 30 else f"{self.large >> 30} GiB"
        match key:
            case "plain":
                # The limit is the best that bare sockets do with any of these numbers of threads.
                limits = [Limit("curl", 0.70), Limit("aria2", 0.50, cpu=0.85), Limit("raw 1|raw 2|raw 4", 1.25)]
                contenders = self.one_file("large", "large", ["curl", "aria2", "raw 1", "raw 2", "raw 4"])
                return Case(f"{size}, plain HTTP", contenders, limits)
            case "tls":
                limits = [Limit("curl", 0.75), Limit("aria2", 0.65)]
                return Case(f"{size}, TLS 1.3", self.one_file("large", "large", ["curl", "aria2"], tls=True), limits)
            case "limited":
                contenders = self.one_file("limited/medium", "medium", ["aria2", "axel"])
                return Case("256 MiB, 4 MiB/s a connection", contenders, [Limit("aria2|axel", 1.05)])
            case "hundred":
                return Case("100 files of 1 MiB", self.hundred(), [Limit("curl -Z", 0.80)], repeat=5)


def arguments():
    command = Command("get", __doc__, CASES, "256 MiB in place of 4 GiB")
    command.hidden("--haul", required=True, type=pathlib.Path)
    return command, command.parse()


def main():
    (command, args), cases = arguments(), []
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="haul-bench-") as work:
        work = pathlib.Path(work)
        # nginx's workers are another user when root measures.
        work.chmod(0o755)
        with Nginx(work / "nginx", work / "files") as nginx:
            get = Get(work, args.haul.resolve(), nginx, args.quick)
            get.prepare()
            arena = Arena(get.clear, nginx.spent, home=work / "nginx")
            for case in map(get.case, args.keys):
                case.run(arena, args.runs)
                cases.append(case)
                print("\n".join(case.rows()), flush=True)
    versions = [report.first_line(*peer).split(" (")[0] for peer in (
        ("curl", "--version"), ("aria2c", "--version"), ("axel", "--version"), (program("nginx"), "-v"))]
    text = report.page("haul get", command.asked(args), versions, cases, work)
    print("\n" + text)
    if command.is_whole(args):
        print(f"kept as {report.keep(HERE / 'results', text).relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
