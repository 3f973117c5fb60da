"""The cases of `scripts/bench get`."""

import subprocess
from pathlib import Path

from lib import client_tables, files, report
from lib.bench import Bench
from lib.case import CPU, WALL, Limit
from lib.environment import find_program
from lib.files import MIB
from lib.nginx import OriginNginx
from lib.programs import ClientProgram, ClientRunner

RAW_SOCKETS = Path(__file__).with_name("raw_sockets.rs")
SMALL_FILES = [f"small{n}" for n in range(100)]


class GetBench(Bench):
    """Downloads one file, and a hundred small ones, with haul, curl, aria2, axel and bare sockets.

    Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
    """

    name = "get"
    title = "haul get"
    keys = ["plain", "tls", "limited", "hundred"]
    quick_help = "256 MiB in place of 4 GiB"
    tables = client_tables.TABLES

    def __init__(self, args, work, stack):
        super().__init__(args, work, stack)
        self.large = (256 if args.quick else 4096) * MIB
        self.served, self.output, self.raw_sockets = work / "files", work / "output", work / "raw_sockets"
        # The served files, and as much again for a result.
        files.require_space(work, 2 * self.large + 640 * MIB)
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", self.raw_sockets, RAW_SOCKETS], check=True)
        self.served.mkdir()
        files.write_random(self.served / "large", self.large)
        files.write_random(self.served / "medium", 256 * MIB)
        for name in SMALL_FILES:
            files.write_random(self.served / name, MIB)
        self.nginx = stack.enter_context(OriginNginx(work / "nginx", self.served))
        self.runner = ClientRunner(self.output, self.nginx.home, self.nginx)

    def cases(self, key, stack):
        yield getattr(self, key)()

    def plain(self):
        programs = self.one_file("large", "large", ["curl", "aria2"], raw_sockets=True)
        raw_sockets = [program.name for program in programs if program.name.startswith("raw sockets")]
        limits = [
            Limit(["curl"], {WALL: 0.70}), Limit(["aria2"], {WALL: 0.50, CPU: 0.85}),
            # With the best number of threads.
            Limit(raw_sockets, {WALL: 1.25}),
        ]
        return self.case(f"{self.large_size()}, plain HTTP", programs, limits)

    def tls(self):
        programs = self.one_file("large", "large", ["curl", "aria2"], tls=True)
        limits = [Limit(["curl"], {WALL: 0.75}), Limit(["aria2"], {WALL: 0.65})]
        return self.case(f"{self.large_size()}, TLS 1.3", programs, limits)

    def limited(self):
        programs = self.one_file("limited/medium", "medium", ["aria2", "axel"])
        return self.case("256 MiB, 4 MiB/s a connection", programs, [Limit(["aria2", "axel"], {WALL: 1.05})])

    def hundred(self):
        urls, pairs = [self.url(name) for name in SMALL_FILES], [(name, name) for name in SMALL_FILES]
        outputs = [word for name in SMALL_FILES for word in ("-o", self.output / name, self.url(name))]

        def haul(name, binary):
            return self.program(name, [binary, "get", "-q", "-d", self.output, *urls], pairs)

        programs = [*self.haul_programs(haul), self.program("curl -Z", ["curl", "-sSf", "-Z", *outputs], pairs)]
        return self.case("100 files of 1 MiB", programs, [Limit(["curl -Z"], {WALL: 0.80})], repeat=5)

    def case(self, title, programs, limits, **options):
        return client_tables.client_case(title, programs, limits, self.runner, **options)

    def large_size(self):
        return f"{self.large // MIB} MiB" if self.large < 1 << 30 else f"{self.large >> 30} GiB"

    def url(self, path, tls=False):
        scheme, port = ("https", self.nginx.tls) if tls else ("http", self.nginx.plain)
        return f"{scheme}://127.0.0.1:{port}/{path}"

    def program(self, name, command, pairs):
        """A client, and the pairs of its results and the served files."""

        def check_all(check):
            return lambda: [check(self.output / result, self.served / served) for result, served in pairs]

        return ClientProgram(
            name=name, command=command, runner=self.runner,
            check=check_all(files.check_length), verify=check_all(files.check_content))

    def one_file(self, path, served, peers, tls=False, raw_sockets=False):
        """haul and peers that download one file with up to 16 connections."""
        url, result, certificate = self.url(path, tls), self.output / "result", self.nginx.certificate
        trust = ["--cacert", certificate] if tls else []
        trust_aria2 = [f"--ca-certificate={certificate}"] if tls else []
        commands = {
            "curl": ["curl", "-sSf", "-o", result, *trust, url],
            "aria2": ["aria2c", "-q", "-x16", "-s16", "-d", self.output, "-o", result.name, *trust_aria2, url],
            "axel": ["axel", "-q", "-n", "16", "-o", result, url],
        }
        commands = {name: commands[name] for name in peers}
        for threads in (1, 2, 4) if raw_sockets else ():
            address = f"127.0.0.1:{self.nginx.plain}"
            commands[f"raw sockets {threads}"] = [self.raw_sockets, threads, address, "/" + path, self.large, result]
        pairs = [(result.name, served)]

        def haul(name, binary):
            return self.program(name, [binary, "get", url, "-o", result, "-q", *trust], pairs)

        return [*self.haul_programs(haul), *(self.program(name, command, pairs) for name, command in commands.items())]

    def versions(self):
        commands = [("curl", "--version"), ("aria2c", "--version"), ("axel", "--version"), (find_program("nginx"), "-v")]
        return [report.version(*command) for command in commands]

    def notes(self, cases):
        return client_tables.notes(cases, self.work)
