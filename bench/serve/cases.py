"""The cases of `scripts/bench serve`: what is served, by whom, which load, and what must come of it."""

import os
import re
import shutil

import files
from clients import Clients
from duel import Case, Contender, Limit
from idle import Idle
from peers import certificate
from servers import Dufs, Haul, Nginx, absent

KEYS = ["get-large", "get-large-tls", "get-small", "put", "put-durable", "delete", "list", "accept", "idle"]
ACCEPT = ["work-stealing", "reuseport", "round-robin", "single"]
KB, MB, MIB = 1024, 1_000_000, 1 << 20

# Sizes of PUTs: how they are named, their bytes, and how many a run sends. A run's files lie in memory until the next.
PUTS = [("1 KB", KB, 40_000), ("1 MiB", MIB, 3_000), ("40 MB", 40 * MB, 80)]
# A disk that syncs takes a hundred times as long.
DURABLE = [("1 KB", KB, 2_000), ("1 MiB", MIB, 300), ("40 MB", 40 * MB, 32)]


class Serve:
    """What is served, and the cases. The servers of a case are entered into its stack, and end with it."""

    def __init__(self, work, disk, args):
        self.work, self.disk, self.args = work, disk, args
        self.home, self.served, self.durable = work / "home", work / "files", disk / "files"
        for folder in (self.home, self.served, self.durable):
            folder.mkdir()
        certificate(self.home)
        self.clients = Clients(args.load.resolve(), 1 if args.quick else 4, self.home / "cert.pem")

    def fewer(self, full, least=1):
        return max(full // 20, least) if self.args.quick else full

    def file(self, name, size):
        """A file to serve, made where it is not there yet."""
        path = self.served / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            files.room(self.work, size + 64 * MIB)
            files.make(path, size)

    def haul(self, stack, *flags, folder=None):
        """haul with these flags; None where it is not there."""
        if not self.args.haul:
            return stack.enter_context(absent())
        return stack.enter_context(Haul(self.args.haul.resolve(), self.home, folder or self.served, *flags, *self.args.flags))

    def nginx(self, stack, folder=None):
        # Beside what is served: a rename puts a body in its place.
        folder = folder or self.served
        return stack.enter_context(Nginx(self.home, folder, folder.with_name("nginx-temporary")))

    def contenders(self, ours, nginx, variants, load, check=lambda: None):
        """Ours under their names, then nginx in these variants. `load` is told a port."""
        ports = [(name, server, server.port) for name, server in ours.items() if server]
        ports += [(name, nginx, nginx.ports[name]) for name in variants]
        return [Contender(name, server, lambda port=port: load(port), check) for name, server, port in ports]

    def cases(self, key, stack):
        """The cases under one of the keys, one after the other."""
        return getattr(self, key.replace("-", "_"))(stack)

    def get_large(self, stack):
        size = 256 * MIB if self.args.quick else 4096 * MIB
        self.file("large", size)
        haul, nginx = self.haul(stack), self.nginx(stack)
        # Several in one run: the kernel counts CPU time in hundredths of a second.
        for connections, requests in (1, 2), (8, 8):
            load = lambda port: self.clients.load("get", port, "/large", requests, connections)  # noqa: B023, E731
            contenders = self.contenders({"haul": haul}, nginx, ["nginx", "nginx reuseport"], load)
            yield Case(f"GET {size // MIB} MiB, plain, {counted(connections)}", contenders, [Limit("nginx", wall=1.2, cpu=1.3)])

    def get_large_tls(self, stack):
        haul = self.haul(stack, "--cert", self.home / "cert.pem", "--key", self.home / "key.pem")
        nginx = self.nginx(stack)
        # The same bytes in all.
        for connections, name, size in (1, "large", self.fewer(4096) * MIB), (8, "eighth", self.fewer(512) * MIB):
            name = f"{name}-{size}" if self.args.quick else name
            self.file(name, size)
            contenders = []
            for program, server, port in ("haul", haul, haul and haul.port), ("nginx", nginx, nginx.tls):
                load = lambda port=port, name=name, n=connections, size=size: self.clients.tls(port, name, n, size)  # noqa: E731
                contenders += [Contender(program, server, load)] if server else []
            yield Case(f"GET {size // MIB} MiB, TLS 1.3, {counted(connections)}", contenders, [Limit("nginx", wall=1.1, cpu=1.1)])

    def get_small(self, stack):
        haul, nginx = self.haul(stack), self.nginx(stack)
        variants = ["nginx", "nginx cache", "nginx cache reuseport", "nginx cache, no sendfile"]
        for size in 1, 16:
            for number in range(1000):
                self.file(f"{size}k/f{number}", size * KB)
            for stay in True, False:
                load = lambda port: self.clients.wrk(port, f"/{size}k/f", 1000, stay)  # noqa: B023, E731
                contenders = self.contenders({"haul": haul}, nginx, variants, load)
                title = f"GET {size} KB, 32 connections, {'keep-alive' if stay else 'one request each'}"
                yield Case(title, contenders, [Limit("nginx", rate=1.0)])

    def put(self, stack):
        haul, nginx = self.haul(stack, "--writable", "--durability", "none"), self.nginx(stack)
        yield from self.puts({"haul": haul}, nginx, self.served, PUTS, Limit("nginx", rate=1.1))

    def put_durable(self, stack):
        ours = {
            f"haul {durability}": self.haul(stack, "--writable", "--durability", durability, folder=self.durable)
            for durability in ("file", "none")
        }
        yield from self.puts(ours, self.nginx(stack, self.durable), self.durable, DURABLE, Limit("nginx"), ", on a disk, durability file")

    def puts(self, ours, nginx, root, sizes, limit, more=""):
        variants = ["nginx", "nginx 128k buffers", "nginx 1m buffers"]
        for name, size, full in sizes:
            requests = self.fewer(full, 32)
            for connections in 8, 32:
                load = lambda port: self.clients.load("put", port, "/put/k{}", requests, connections, size)  # noqa: B023, E731
                contenders = self.contenders(ours, nginx, variants, load, lambda: stored(root, requests, size))  # noqa: B023
                yield Case(f"PUT {name}, {counted(connections)}{more}", contenders, [limit], sweep=lambda: self.sweep(root))

    def sweep(self, root):
        """Removes what was stored; on a disk nothing of one run is left for the next to write."""
        shutil.rmtree(root / "put", ignore_errors=True)
        if root == self.durable:
            os.sync()

    def delete(self, stack):
        haul, nginx = self.haul(stack, "--writable", "--durability", "none"), self.nginx(stack)
        count = self.fewer(50_000)

        def lay():
            (self.served / "put").mkdir()
            body = os.urandom(KB)
            for number in range(count):
                (self.served / "put" / f"k{number}").write_bytes(body)

        load = lambda port: self.clients.load("delete", port, "/put/k{}", count, 32)  # noqa: E731
        contenders = self.contenders({"haul": haul}, nginx, ["nginx"], load, lambda: stored(self.served, 0, 0))
        yield Case("DELETE of 1 KB, 32 connections", contenders, [Limit("nginx", rate=1.0)], lay, lambda: self.sweep(self.served))

    def list(self, stack):
        haul, nginx = self.haul(stack), self.nginx(stack)
        dufs = stack.enter_context(Dufs(self.args.dufs, self.home, self.served) if self.args.dufs else absent())
        count, out = self.fewer(100_000), self.home / "listing"
        (self.served / "many").mkdir()
        for number in range(count):
            (self.served / "many" / f"entry{number:06}").touch()

        def check():
            found = len(set(re.findall(rb"entry\d{6}", out.read_bytes())))
            if found != count:
                raise SystemExit(f"a listing has {found} of {count} entries")

        load = lambda port: self.clients.listing(port, "many/?limit=100000", out)  # noqa: E731, a page of haul has 2,000 unless asked for more
        contenders = self.contenders({"haul": haul}, nginx, ["nginx"], load, check)
        if dufs:
            contenders.append(Contender("dufs", dufs, lambda: load(dufs.port), check))
        yield Case(f"listing of {count:,} entries, HTML", contenders, [Limit("nginx", rate=1.0), Limit("dufs", rate=1.0)])
        shutil.rmtree(self.served / "many")

    def accept(self, stack):
        """The write-up's own measurement, in as many rounds as are asked for."""
        if not self.args.haul:
            return
        total = self.fewer(10_000)
        requests = max(total // self.args.runs, 32)
        flags = ("--writable", "--durability", "none", "--sink", "null")
        ours = {f"haul {name}": self.haul(stack, *flags, "--accept", name) for name in ACCEPT}
        load = lambda port: self.clients.load("put", port, "/put/k{}", requests, 32, 40 * MB)  # noqa: E731
        contenders = self.contenders(ours, None, [], load)
        yield Case(f"{requests * self.args.runs:,} PUTs of 40 MB, 32 connections, --sink null", contenders, [])

    def idle(self, stack):
        self.file("one", KB)
        haul, nginx = self.haul(stack), self.nginx(stack)
        servers = {"haul": (haul, haul.port)} if haul else {}
        servers["nginx"] = (nginx, nginx.ports["nginx"])
        yield Idle(self.fewer(10_000), servers, "/one", 100)


def counted(connections):
    return f"{connections} connection{'s' * (connections > 1)}"


def stored(root, count, size):
    """That so many files of that size are there, and nothing else."""
    with os.scandir(root / "put") as entries:
        sizes = [entry.stat().st_size for entry in entries]
    if sizes != [size] * count:
        raise SystemExit(f"{len(sizes)} files instead of {count} were stored, or some are not {size} bytes long")
