"""The cases of `scripts/bench python`."""

import pathlib
import tarfile
import zlib

from lib import files, report
from lib.bench import ROOT, Bench
from lib.case import CPU, WALL, Case, Limit
from lib.environment import find_program
from lib.files import MB, MIB
from lib.programs import ClientProgram, ClientRunner
from python.clients import steps
from python.origin import PythonOrigin, SmallFiles
from python.programs import ScriptProgram, script_command

# MiB that a process or an actor may use, whatever the size of its files is.
MEMORY_LIMIT = 256

TABLES = report.Tables(
    metrics=[WALL, CPU],
    program="client",
    columns={
        "wall": lambda program: report.spread(program.figures("wall"), "{:.2f}".format),
        "CPU": lambda program: f"{program.median('cpu'):.2f}",
        "wall a URL, µs": lambda program: microseconds(program, "wall"),
        "CPU a URL, µs": lambda program: microseconds(program, "cpu"),
        "CPU of the server": lambda program: f"{program.median('origin_cpu'):.2f}",
        "memory": report.peak_mib,
    },
    explanation="Medians behind the ratios, seconds (wall with its range), and the largest peak in MiB:",
)


def microseconds(program, figure):
    """A time divided by the URLs, where they are many."""
    urls = program.median("requests")
    return report.three_digits(program.median(figure) / urls * 1e6) if urls > 1 else ""


class PythonBench(Bench):
    """Downloads by the Python package, and by Daft, obstore, aiohttp, urllib, img2dataset, Ray Data and fsspec.

    Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
    """

    name = "python"
    title = "The Python package"
    keys = ["arrow", "tar", "get", "ray", "memory", "open"]
    quick_help = "a twentieth of the files, 256 MiB in place of 4 GiB"
    tables = TABLES
    descriptors = 65536

    def __init__(self, args, work, stack):
        super().__init__(args, work, stack)
        self.served, self.output = work / "files", work / "output"
        self.served.mkdir()
        self.small = SmallFiles(work, "small", 4096)
        self.tiny = SmallFiles(work, "tiny", 1024)
        # Every URL below /one/ is this file.
        files.write_random(self.served / "one", MB)
        self.nginx = stack.enter_context(PythonOrigin(work / "nginx", self.served, [self.small, self.tiny]))
        self.runner = ClientRunner(self.output, self.nginx.home, self.nginx)
        self.figures_path = work / "figures"

    @classmethod
    def add_arguments(cls, parser):
        super().add_arguments(parser)
        parser.add_argument("--environments", type=pathlib.Path, required=True, help="the folder of the environments of the peers")

    def cases(self, key, stack):
        yield getattr(self, key)(stack)

    def count(self, full):
        return full // 20 if self.args.quick else full

    def case(self, title, programs, limits, **options):
        return Case(title, programs, limits, clean_up=self.runner.empty_output, **options)

    def script(self, name, script, client, expected, environment="python", **options):
        """A peer: a client of a script in an environment."""
        return self.program(name, self.args.environments / environment / "bin/python", script, client, expected, **options)

    def hauls(self, script, expected, suffix="", client="haul", **options):
        """The client for each haul: the interpreter is in the folder of the command that the wheel has brought."""
        return self.haul_programs(
            lambda name, binary: self.program(name, binary.with_name("python"), script, client, expected, **options), suffix)

    def program(self, name, python, script, client, expected, requests=1, check=lambda: None, **flags):
        command = script_command(python, script, client, self.figures_path, **flags)
        return ScriptProgram(
            name=name, command=command, runner=self.runner, figures_path=self.figures_path, expected=expected,
            requests=requests, check=check)

    def arrow(self, stack):
        """Files of 4 KB in a column of Arrow."""
        count = self.count(100_000)
        common = {
            "script": "into_arrow.py", "expected": {"right": count, "bytes": count * self.small.size}, "requests": count,
            "base": self.nginx.base(self.small.folder), "count": count, "filler": self.small.filler_path}
        peers = [
            self.script("Daft 32", client="daft", at_once=32, **common),
            self.script("Daft 256", client="daft", at_once=256, **common),
            self.script("obstore 256", client="obstore", at_once=256, **common),
            self.script("aiohttp 256", client="aiohttp", at_once=256, **common),
            self.script("urllib 256", client="urllib", at_once=256, **common),
        ]
        limits = [Limit([peer.name for peer in peers], {WALL: 0.4})]
        return self.case(f"{count:,} files of 4 KB into Arrow", [*self.hauls(**common), *peers], limits)

    def tar(self, stack):
        """The same files in shards."""
        count = self.count(100_000)
        common = {
            "script": "into_tar.py", "expected": {"right": count}, "requests": count,
            "base": self.nginx.base(self.small.folder), "count": count, "filler": self.small.filler_path,
            "output": self.output, "check": lambda: self.check_shards(count)}
        peers = [
            self.script(
                f"img2dataset {processes} x {256 // processes}", client="img2dataset", environment="img2dataset",
                processes=processes, **common)
            for processes in (1, 2)]
        limits = [Limit([peer.name for peer in peers], {WALL: 0.1})]
        return self.case(f"{count:,} files of 4 KB into tar shards", [*self.hauls(**common), *peers], limits)

    def check_shards(self, count):
        """Fails unless the shards have each file once, with its content."""
        paths, shards = set(), list(self.output.rglob("*.tar"))
        for shard in shards:
            with tarfile.open(shard) as entries:
                # img2dataset has texts about each file beside it.
                for entry in (entry for entry in entries if not entry.name.endswith((".json", ".txt"))):
                    path, filler = split_content(entries.extractfile(entry).read(), self.small.path_length)
                    if filler != self.small.filler:
                        raise SystemExit(f"{entry.name} in {shard.name} differs from the served file")
                    paths.add(path)
        if paths != {self.small.path(number).encode() for number in range(count)}:
            raise SystemExit(f"{len(shards)} shards have {len(paths):,} files instead of {count:,}")

    def large_file(self, stack, size):
        """A file of random bytes that is served until the case ends."""
        path = self.served / "large"
        files.write_random(path, size)
        stack.callback(path.unlink)
        return path

    def get(self, stack):
        """A large file."""
        size = (256 if self.args.quick else 4096) * MIB
        # The served file, and as much again for a result.
        files.require_space(self.work, 2 * size + 640 * MIB)
        served, url, result = self.large_file(stack, size), self.nginx.base("large"), self.output / "result"

        def command(binary):
            return ClientProgram(
                name="the command", command=[binary, "get", "-q", url, "-o", result], runner=self.runner,
                check=lambda: files.check_length(result, served), verify=lambda: files.check_content(result, served))

        programs = self.hauls("one_file.py", {"bytes": size}, base=url, output=self.output)
        for program in programs:
            program.check = lambda: files.check_length(result, served)
            program.verify = lambda: files.check_content(result, served)
        programs += [command(binary) for name, binary in list(self.args.binaries.items())[:1]]
        return self.case(f"{size // MIB:,} MiB by haul.get", programs, [Limit(["the command"], {WALL: 1.05})], repeat=3)

    def ray(self, stack):
        """Many small files of several hosts on three raylets. Of a thousand one is missing, which must be a row."""
        count = self.count(1_000_000)
        missing = count // 1000
        common = {
            "script": "on_ray.py", "requests": count, "base": self.nginx.base(self.tiny.folder, host="HOST"), "count": count,
            "filler": self.tiny.filler_path, "output": self.output,
            "expected": {"right": count - missing, "missing": missing}}
        peers = [self.script("Ray Data's download", client="ray", **common)]
        programs = [*self.hauls(**common), *self.hauls(client="haul-tar", suffix=" into tar shards", **common), *peers]
        return self.case(
            f"{count:,} URLs of 16 hosts on three raylets", programs, [Limit([peers[0].name], {WALL: 0.5})], single_run=True)

    def memory(self, stack):
        """Files of 1 MB in shards, by a process and by an actor of Ray. Their number is the URLs' only to see whether memory grows."""
        count = self.count(4_000)
        files.require_space(self.work, count * (MB + 1024) + 640 * MIB)
        common = {
            "script": "shard_memory.py", "expected": {"right": count}, "requests": count,
            "base": self.nginx.base("one"), "count": count, "output": self.output}
        programs = [*self.hauls(client="actor", suffix=", an actor", **common), *self.hauls(client="process", **common)]

        def facts():
            for program in programs:
                before = program.found["before"] / 1024
                yield f"memory before the first URL, {program.name}", f"{before:.0f} MiB", "reported", None

        return self.case(
            f"{count:,} files of 1 MB into tar shards", programs, [], memory_limit=MEMORY_LIMIT, single_run=True, facts=facts)

    def open(self, stack):
        """A file that is read in steps."""
        size, seeks = (256 if self.args.quick else 1024) * MIB, 8 if self.args.quick else 32
        served, found = self.large_file(stack, size), 0
        with open(served, "rb") as file:
            for position in steps.positions(size, seeks):
                for step in range(steps.STEPS):
                    file.seek(position + step * steps.STEP)
                    found = steps.checksum(file.read(steps.STEP), found)
        common = {
            "script": "seekable.py", "expected": {"bytes": seeks * steps.STEPS * steps.STEP, "checksum": found},
            "base": self.nginx.base("large"), "count": seeks}
        peers = [self.script("fsspec http", client="fsspec", **common)]
        title = f"open(url): {seeks} times 8 MiB in steps of 64 KiB"
        return self.case(title, [*self.hauls(**common), *peers], [Limit(["fsspec http"], {WALL: 0.7})], repeat=3)

    def versions(self):
        packages = {"python": ["daft", "obstore", "aiohttp", "fsspec", "ray", "pyarrow"], "img2dataset": ["img2dataset"]}
        found = [
            report.first_line([
                self.args.environments / environment / "bin/python", "-c",
                f"import importlib.metadata as m; print('; '.join(n + ' ' + m.version(n) for n in {names}))"])
            for environment, names in packages.items()]
        return [*found, report.version(find_program("nginx"), "-v")]

    def notes(self, cases):
        commands = [report.short_command(program.command) for case in cases for program in case.programs]
        return [report.command_lines("Commands:", commands, {self.work: ".", ROOT: "."})]


def split_content(content, path_length):
    """The path that a small file begins with, and the rest."""
    return content[:path_length], content[path_length:]
