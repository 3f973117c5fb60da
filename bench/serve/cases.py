"""The cases of `scripts/bench serve`."""

import functools
import os
import pathlib
import re
import shlex
import shutil

from lib import command_line, environment, files, report
from lib.bench import Bench
from lib.case import CPU, RATE, WALL, Case, Limit
from lib.files import KB, MB, MIB
from lib.idle import IdleCase, IdleProgram
from lib.nginx import write_certificate
from lib.programs import ServerProgram
from serve.clients import ServeClients, idle_connection
from serve.servers import Dufs, HaulServe, StoreNginx

# Memory that haul may use for 10,000 idle connections, in MiB.
IDLE_LIMIT = 100

# Sizes of PUTs: name, bytes, requests of a run. The files of a run stay in memory until the next.
PUTS = [("1 KB", KB, 40_000), ("1 MiB", MIB, 3_000), ("40 MB", 40 * MB, 80)]
# A disk that syncs takes a hundred times as long.
DURABLE_PUTS = [("1 KB", KB, 2_000), ("1 MiB", MIB, 300), ("40 MB", 40 * MB, 32)]
PUT_VARIANTS = ["nginx", "nginx 128k buffers", "nginx 1m buffers"]


def percentile(name):
    return lambda program: f"{program.median(name):.2f}" if getattr(program.runs[0], name) is not None else ""


class ServeBench(Bench):
    """Compares the store with nginx and dufs: large and small GETs, PUTs, DELETEs, listings, idle connections.

    Everything is on loopback and tmpfs, apart from durable PUTs, which go to a disk. Each case compares medians of interleaved runs.
    """

    name = "serve"
    title = "haul serve"
    keys = ["get-large", "get-large-tls", "get-small", "put", "put-durable", "delete", "list", "load", "idle"]
    quick_help = "a twentieth of everything, to see that it works"
    descriptors = 12_000
    tables = report.Tables(
        metrics=[WALL, RATE, CPU],
        program="server",
        columns={
            "requests/s": lambda program: report.spread(program.figures(RATE.figure)),
            "MB/s": report.megabytes_per_second,
            "CPU a request, ms": report.cpu_milliseconds,
            "p50, ms": percentile("p50"),
            "p99, ms": percentile("p99"),
            "memory, MiB": report.peak_mib,
        },
        explanation="Medians behind the ratios (requests/s with their range); CPU is that of the server, memory its largest peak:",
    )

    def __init__(self, args, work, stack):
        super().__init__(args, work, stack)
        self.disk = environment.scratch_directory(stack, args.disk or args.load.parent)
        self.home, self.served, self.durable = work / "home", work / "files", self.disk / "files"
        for directory in (self.home, self.served, self.durable):
            directory.mkdir()
        write_certificate(self.home)
        self.clients = ServeClients(args.load, 1 if args.quick else 4, self.home / "cert.pem")

    @classmethod
    def add_arguments(cls, parser):
        parser.add_argument("--flags", type=shlex.split, default=[], help="more flags for haul serve, as one argument")
        parser.add_argument(
            "--disk", type=pathlib.Path, help="a directory on a real disk, for durable PUTs (default: beside the builds)")
        command_line.add_program(parser, "--load", required=True)
        command_line.add_program(parser, "--dufs")

    def cases(self, key, stack):
        return getattr(self, key.replace("-", "_"))(stack)

    def fewer(self, full, minimum=1):
        return max(full // 20, minimum) if self.args.quick else full

    def make_file(self, name, size):
        """Writes a file to serve, unless an earlier case has."""
        path = self.served / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            files.require_space(self.work, size + 64 * MIB)
            files.write_random(path, size)

    def hauls(self, stack, *flags, suffix="", directory=None):
        """Starts each haul with some flags: servers by name."""
        start = lambda binary: HaulServe(binary, self.home, directory or self.served, *flags, *self.args.flags)  # noqa: E731
        return dict(self.haul_programs(lambda name, binary: (name, stack.enter_context(start(binary))), suffix))

    def nginx(self, stack, directory=None):
        return stack.enter_context(StoreNginx(self.home, directory or self.served))

    def programs(self, hauls, nginx, variants, load, check=lambda: None):
        """haul, and nginx in some variants. `load` is a function of a port."""
        servers = [(name, server, server.port) for name, server in hauls.items()]
        servers += [(name, nginx, nginx.ports[name]) for name in variants]
        return [
            ServerProgram(name=name, server=server, load=functools.partial(load, port), check=check)
            for name, server, port in servers]

    def get_large(self, stack):
        size = 256 * MIB if self.args.quick else 4096 * MIB
        self.make_file("large", size)
        hauls, nginx, variants = self.hauls(stack), self.nginx(stack), ["nginx", "nginx reuseport"]
        # Two requests over one connection: the kernel counts CPU time in hundredths of a second.
        for connections, requests in (1, 2), (8, 8):
            def load(port, connections=connections, requests=requests):
                return self.clients.load("get", port, "/large", requests, connections)

            title = f"GET {size // MIB} MiB, plain, {count_connections(connections)}"
            programs = self.programs(hauls, nginx, variants, load)
            yield Case(title, programs, [Limit(variants, {WALL: 1.2, CPU: 1.3})])

    def get_large_tls(self, stack):
        hauls = self.hauls(stack, "--cert", self.home / "cert.pem", "--key", self.home / "key.pem")
        nginx = self.nginx(stack)
        servers = [(name, server, server.port) for name, server in hauls.items()] + [("nginx", nginx, nginx.tls)]
        # The same bytes in all.
        for connections, name, size in (1, "large", self.fewer(4096) * MIB), (8, "eighth", self.fewer(512) * MIB):
            name = f"{name}-{size}" if self.args.quick else name
            self.make_file(name, size)

            def load(port, connections=connections, name=name, size=size):
                return self.clients.curl_tls(port, name, connections, size)

            programs = [
                ServerProgram(name=program, server=server, load=functools.partial(load, port)) for program, server, port in servers]
            title = f"GET {size // MIB} MiB, TLS 1.3, {count_connections(connections)}"
            yield Case(title, programs, [Limit(["nginx"], {WALL: 1.1, CPU: 1.1})])

    def get_small(self, stack):
        hauls, nginx = self.hauls(stack), self.nginx(stack)
        variants = ["nginx", "nginx cache", "nginx cache reuseport", "nginx cache, no sendfile"]
        for size in 1, 16:
            for number in range(1000):
                self.make_file(f"{size}k/f{number}", size * KB)
            for keep_alive in True, False:
                def load(port, size=size, keep_alive=keep_alive):
                    return self.clients.wrk(port, f"/{size}k/f", 1000, keep_alive)

                title = f"GET {size} KB, 32 connections, {'keep-alive' if keep_alive else 'one request each'}"
                yield Case(title, self.programs(hauls, nginx, variants, load), [Limit(variants, {RATE: 1.0})])

    def put(self, stack):
        hauls = self.hauls(stack, "--writable", "--durability", "none")
        yield from self.puts(hauls, self.nginx(stack), self.served, PUTS, {RATE: 1.1})

    def put_durable(self, stack):
        hauls = {}
        for durability in "file", "none":
            flags = ("--writable", "--durability", durability)
            hauls |= self.hauls(stack, *flags, suffix=f" {durability}", directory=self.durable)
        nginx = self.nginx(stack, self.durable)
        yield from self.puts(hauls, nginx, self.durable, DURABLE_PUTS, {}, ", on a disk, durability file")

    def puts(self, hauls, nginx, directory, sizes, bounds, title_suffix=""):
        for name, size, full in sizes:
            requests = self.fewer(full, 32)
            for connections in 8, 32:
                def load(port, requests=requests, connections=connections, size=size):
                    return self.clients.load("put", port, "/put/k{}", requests, connections, size)

                check = functools.partial(check_stored, directory, requests, size)
                programs = self.programs(hauls, nginx, PUT_VARIANTS, load, check)
                title = f"PUT {name}, {count_connections(connections)}{title_suffix}"
                yield Case(title, programs, [Limit(PUT_VARIANTS, bounds)], clean_up=lambda: self.remove_stored(directory))

    def remove_stored(self, directory):
        """Removes what a run has stored. On a disk nothing of one run is left for the next to write."""
        shutil.rmtree(directory / "put", ignore_errors=True)
        if directory == self.durable:
            os.sync()

    def delete(self, stack):
        hauls, nginx = self.hauls(stack, "--writable", "--durability", "none"), self.nginx(stack)
        count = self.fewer(50_000)

        def prepare():
            (self.served / "put").mkdir()
            body = os.urandom(KB)
            for number in range(count):
                (self.served / "put" / f"k{number}").write_bytes(body)

        def load(port):
            return self.clients.load("delete", port, "/put/k{}", count, 32)

        programs = self.programs(hauls, nginx, ["nginx"], load, lambda: check_stored(self.served, 0, 0))
        yield Case(
            "DELETE of 1 KB, 32 connections", programs, [Limit(["nginx"], {RATE: 1.0})],
            prepare=prepare, clean_up=lambda: self.remove_stored(self.served))

    def list(self, stack):
        hauls, nginx = self.hauls(stack), self.nginx(stack)
        count, output = self.fewer(100_000), self.home / "listing"
        (self.served / "many").mkdir()
        for number in range(count):
            (self.served / "many" / f"entry{number:06}").touch()

        def check():
            found = len(set(re.findall(rb"entry\d{6}", output.read_bytes())))
            if found != count:
                raise SystemExit(f"a listing has {found} of {count} entries")

        def load(port):
            # haul sends pages of 2,000 entries unless the query says otherwise.
            return self.clients.listing(port, "many/?limit=100000", output)

        programs = self.programs(hauls, nginx, ["nginx"], load, check)
        if self.args.dufs:
            dufs = stack.enter_context(Dufs(self.args.dufs, self.home, self.served))
            programs.append(ServerProgram(name="dufs", server=dufs, load=lambda: load(dufs.port), check=check))
        limits = [Limit(["nginx"], {RATE: 1.0}), Limit(["dufs"], {RATE: 1.0})]
        yield Case(f"listing of {count:,} entries, HTML", programs, limits)
        shutil.rmtree(self.served / "many")

    def load(self, stack):
        """The load generator of `haul bench` beside wrk, both on nginx."""
        self.make_file("load", KB)
        nginx, requests = self.nginx(stack), self.fewer(400_000)
        port = nginx.ports["nginx"]
        hauls = self.haul_programs(lambda name, binary: (name, binary), "")
        programs = [
            ServerProgram(name=name, server=nginx, load=functools.partial(self.clients.haul_bench, binary, port, "/load", requests))
            for name, binary in hauls]
        programs.append(ServerProgram(name="wrk", server=nginx, load=lambda: self.clients.wrk_file(port, "/load")))
        yield Case("clients: GET of 1 KB from nginx, 32 connections", programs, [Limit(["wrk"], {RATE: 0.8})])

    def idle(self, stack):
        self.make_file("one", KB)
        hauls, nginx, count = self.hauls(stack), self.nginx(stack), self.fewer(10_000)
        servers = [(name, server, server.port) for name, server in hauls.items()] + [("nginx", nginx, nginx.ports["nginx"])]
        programs = [
            IdleProgram(name=name, server=server, count=count, connect=functools.partial(idle_connection, port, "/one"))
            for name, server, port in servers]
        yield IdleCase(count, "connection", programs, IDLE_LIMIT)

    def versions(self):
        commands = [(environment.find_program("nginx"), "-v"), ("wrk", "--version"), ("curl", "--version")]
        commands += [(self.args.dufs, "--version")] if self.args.dufs else []
        return [report.version(*command) for command in commands]

    def notes(self, cases):
        replacements = {self.work: ".", pathlib.Path(__file__).parent: "bench/serve"}
        return [
            *([] if self.args.dufs else ["Without dufs, which could not be built."]),
            report.command_lines("Clients, the first of each kind:", self.clients.shown.values(), replacements)]


def count_connections(count):
    return f"{count} connection{'s' * (count > 1)}"


def check_stored(directory, count, size):
    """Fails unless a directory has so many files of a size, and nothing else."""
    with os.scandir(directory / "put") as entries:
        sizes = [entry.stat().st_size for entry in entries]
    if sizes != [size] * count:
        raise SystemExit(f"{len(sizes)} files instead of {count} were stored, or some are not {size} bytes long")
