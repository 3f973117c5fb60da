"""`scripts/bench get`: one file, and a hundred small ones, beside curl, aria2, axel and bare sockets.

Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
"""

import argparse
import datetime
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from paired import Contender, compare  # noqa: E402
from peers import Nginx  # noqa: E402

MIB = 1 << 20


class Bench:
    """Files, a server, and the programs."""

    def __init__(self, work, haul, raw, nginx, quick):
        self.work, self.haul, self.raw, self.nginx = work, haul, raw, nginx
        self.large = (256 if quick else 4096) * MIB
        self.out = work / "out"

    def url(self, path, tls=False):
        scheme, port = ("https", self.nginx.tls) if tls else ("http", self.nginx.plain)
        return f"{scheme}://127.0.0.1:{port}/{path}"

    def clear(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()

    def same(self, name):
        """A check that the result is the file that was served."""

        def check():
            digests = {digest(self.out / "f"), digest(self.work / "files" / name)}
            if len(digests) != 1:
                raise SystemExit(f"{name}: a result differs from the file")

        return check

    def same_hundred(self):
        for n in range(100):
            if digest(self.out / f"small{n}") != digest(self.work / "files" / f"small{n}"):
                raise SystemExit(f"small{n}: a result differs from the file")

    def one_file(self, path, name, tls=False, programs=()):
        url, f, ca = self.url(path, tls), self.out / "f", str(self.nginx.ca)
        commands = {
            "haul": [self.haul, "get", "-q", "-o", f, *(["--cacert", ca] if tls else []), url],
            "curl": ["curl", "-s", "-S", "-f", "-o", f, *(["--cacert", ca] if tls else []), url],
            "aria2": ["aria2c", "-q", "-x16", "-s16", "-d", self.out, "-o", "f", f"--ca-certificate={ca}", url],
            "axel": ["axel", "-q", "-n", "16", "-o", f, url],
        }
        for threads in (1, 2, 4):
            address = f"127.0.0.1:{self.nginx.plain}"
            commands[f"raw {threads}"] = [self.raw, str(threads), address, "/" + path, str(self.large), f]
        return [Contender(p, list(map(str, commands[p])), self.same(name)) for p in ("haul", *programs)]

    def hundred(self):
        urls = [self.url(f"small{n}") for n in range(100)]
        pairs = [word for n, url in enumerate(urls) for word in ("-o", str(self.out / f"small{n}"), url)]
        commands = {"haul": [self.haul, "get", "-q", "-d", self.out, *urls], "curl -Z": ["curl", "-s", "-S", "-f", "-Z", *pairs]}
        return [Contender(name, list(map(str, command)), self.same_hundred) for name, command in commands.items()]

    def cases(self):
        """Name, contenders, and what must hold: (against, wall at most, CPU at most). `|` takes the best of several."""
        size = f"{self.large // MIB} MiB" if self.large < 1 << 30 else f"{self.large >> 30} GiB"
        yield "plain", f"{size}, plain HTTP", self.one_file("large", "large", programs=("curl", "aria2", "raw 1", "raw 2", "raw 4")), [
            ("curl", 0.70, None), ("aria2", 0.50, 0.85), ("raw 1|raw 2|raw 4", 1.25, None)]
        yield "tls", f"{size}, TLS 1.3", self.one_file("large", "large", True, ("curl", "aria2")), [
            ("curl", 0.75, None), ("aria2", 0.65, None)]
        yield "limited", "256 MiB, 4 MiB/s a connection", self.one_file("limited/medium", "medium", programs=("aria2", "axel")), [
            ("aria2|axel", 1.05, None)]
        yield "hundred", "100 files of 1 MiB", self.hundred(), [("curl -Z", 0.80, None)]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make(path, size):
    with open(path, "wb") as file:
        while size > 0:
            size -= file.write(os.urandom(min(size, 16 * MIB)))


def rows(title, contenders, limits):
    """The table's lines for a case."""
    by_name = {contender.name: contender for contender in contenders}
    haul = by_name["haul"]
    for names, wall_limit, cpu_limit in limits:
        peer = min((by_name[name] for name in names.split("|")), key=lambda c: c.median("wall"))
        wall, cpu = (haul.median(what) / peer.median(what) for what in ("wall", "cpu"))
        ok = wall <= wall_limit and (cpu_limit is None or cpu <= cpu_limit)
        need = f"wall ≤ {wall_limit:.2f}" + (f", CPU ≤ {cpu_limit:.2f}" if cpu_limit else "")
        yield (f"| {title} | {peer.name} | {wall:.2f} | {cpu:.2f} | {need} | {'ok' if ok else 'MISS'} |")
    peak = max(run.peak for run in haul.runs) / 1024
    yield f"| {title} | memory | {peak:.0f} MiB | | ≤ 64 MiB | {'ok' if peak <= 64 else 'MISS'} |"


def seconds(contenders):
    return ", ".join(
        f"{c.name} {c.median('wall'):.2f} s (CPU {c.median('cpu'):.2f} s, {max(r.peak for r in c.runs) // 1024} MiB)" for c in contenders
    )


def version(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release().split('-')[0]}"


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench get", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count (default 5)")
    parser.add_argument("--cases", default="plain,tls,limited,hundred", help="which, separated by commas")
    parser.add_argument("--quick", action="store_true", help="256 MiB in place of 4 GiB; the result is not kept")
    parser.add_argument("--haul", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="haul-bench-") as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        raw = work / "raw"
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", raw, HERE / "raw.rs"], check=True)
        (work / "files").mkdir()
        with Nginx(work / "nginx", work / "files") as nginx:
            bench = Bench(work, pathlib.Path(args.haul), raw, nginx, args.quick)
            make(work / "files" / "large", bench.large)
            make(work / "files" / "medium", 256 * MIB)
            for n in range(100):
                make(work / "files" / f"small{n}", MIB)
            table, details = [], []
            for key, title, contenders, limits in bench.cases():
                if key in args.cases.split(","):
                    compare(contenders, args.runs, bench.clear)
                    table += rows(title, contenders, limits)
                    details.append(f"- {title}: {seconds(contenders)}")
                    print("\n".join(table[-len(limits) - 1:]), flush=True)
    commit = version("git", "describe", "--always", "--dirty")
    report = "\n".join([
        f"# haul get, {datetime.date.today()}", "",
        f"`scripts/bench get --runs {args.runs}` on {machine()}, commit {commit}; loopback, tmpfs, interleaved, medians.",
        f"Peers: {version('curl', '--version')}; {version('aria2c', '--version')}; {version('axel', '--version')}; "
        f"nginx with 2 workers and sendfile.", "",
        "| case | against | wall, haul / it | CPU, haul / it | must be | |", "| --- | --- | --- | --- | --- | --- |", *table, "",
        "Medians behind the ratios:", "", *details, ""])
    print("\n" + report)
    if not args.quick:
        path = HERE / "results" / f"{datetime.date.today()}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(report)
        print(f"kept as {path.relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
