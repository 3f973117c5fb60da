"""The cases of `scripts/bench wan`."""

import dataclasses

from lib import client_tables, command_line, files, report
from lib.bench import Bench
from lib.case import WALL, Limit
from lib.environment import find_program
from lib.files import MIB
from lib.link import KernelLink
from lib.nginx import LinkNginx
from lib.programs import ClientProgram, ClientRunner

SMALL_FILES, SMALL_BYTES = 600, 24_000


@dataclasses.dataclass(frozen=True)
class Link:
    """A link, and the size of the file that is downloaded over it."""

    # Milliseconds there and back, millions of bits a second, milliseconds that a packet may wait, percentage of lost packets.
    round_trip: int
    mbit: int
    queue: int
    loss: float = 0
    mib: int = 64
    congestion_control: str = "cubic"
    # Whether the origin sends at most 2 MiB/s over each connection.
    limited: bool = False
    # Whether the file comes over https.
    tls: bool = False

    def title(self):
        loss = f", {self.loss} % loss" if self.loss else ""
        control = "" if self.congestion_control == "cubic" else f", {self.congestion_control}"
        limit = ", 2 MiB/s a connection" if self.limited else ""
        tls = ", https" if self.tls else ""
        return f"{self.round_trip} ms, {self.mbit} Mbit/s{loss}{control}{limit}{tls}"


LARGE = {
    "near": Link(30, 500, 50, mib=128), "far": Link(100, 200, 100), "far-loss": Link(100, 200, 100, loss=0.1),
    "across": Link(200, 200, 200), "throttled": Link(100, 500, 50, limited=True), "mid": Link(100, 200, 100, mib=8),
    "far-bbr": Link(100, 200, 100, congestion_control="bbr"),
    "near-https": Link(30, 500, 50, mib=128, tls=True), "far-https": Link(100, 200, 100, tls=True),
    "across-https": Link(200, 200, 200, tls=True), "mid-https": Link(100, 200, 100, mib=8, tls=True),
}
SMALL = {
    "small-near": Link(30, 500, 50), "small-far": Link(100, 200, 100), "small-far-loss": Link(100, 200, 100, loss=0.5),
}
# One connection needs minutes where packets are lost.
SLOW_ALONE = {"far-loss"}


class WanBench(Bench):
    """Downloads over long links with the kernel's own TCP at both ends: one large file, and 600 small ones over http and https.

    The link joins two network namespaces, which needs root. Each case compares medians of interleaved runs; a ratio below 1 means that haul
    needs less. The limits are for the best of all peers.
    """

    name = "wan"
    title = "haul get over long links"
    keys = [*LARGE, *SMALL]
    quick_help = "an eighth of each large file"
    tables = client_tables.TABLES

    def __init__(self, args, work, stack):
        super().__init__(args, work, stack)
        self.served, self.output = work / "files", work / "output"
        files.require_space(work, 512 * MIB)
        self.served.mkdir()
        (self.served / "small").mkdir()
        self.small = [f"{number:04}" for number in range(SMALL_FILES)]
        for name in self.small:
            files.write_random(self.served / "small" / name, SMALL_BYTES)

    @classmethod
    def add_arguments(cls, parser):
        super().add_arguments(parser)
        command_line.add_program(parser, "--kernel-link", required=True)

    def cases(self, key, stack):
        link = (LARGE | SMALL)[key]
        self.link = stack.enter_context(KernelLink(self.args.kernel_link, link))
        self.nginx = stack.enter_context(LinkNginx(self.work / f"nginx-{key}", self.served, self.link))
        self.runner = ClientRunner(self.output, self.nginx.home, self.nginx)
        if key in LARGE:
            yield self.large_file(key, link)
        else:
            yield self.small_files(link, tls=False)
            yield self.small_files(link, tls=True)

    def program(self, name, command, pairs):
        """A client in its namespace, and the pairs of its results and the served files."""

        def check_all(check):
            return lambda: [check(self.output / result, self.served / served) for result, served in pairs]

        return ClientProgram(
            name=name, command=self.link.client_command(command), runner=self.runner,
            check=check_all(files.check_length), verify=check_all(files.check_content))

    def large_file(self, key, link):
        size = link.mib * MIB // (8 if self.args.quick else 1)
        served = f"large{size}"
        if not (self.served / served).exists():
            files.write_random(self.served / served, size)
        certificate, result = self.nginx.certificate, self.output / "result"
        address = f"https://{KernelLink.SERVER}" if link.tls else f"http://{KernelLink.SERVER}:{81 if link.limited else 80}"
        url, trust = f"{address}/{served}", ["--cacert", certificate] if link.tls else []
        # axel has no option for a certificate.
        insecure, trust_aria2 = (["-k"], [f"--ca-certificate={certificate}"]) if link.tls else ([], [])
        commands = {
            "aria2": ["aria2c", "-q", *trust_aria2, "-x16", "-s16", "-k1M", "--file-allocation=none", "-d", self.output, "-o", result.name, url],
            "axel": ["axel", "-q", *insecure, "-n", "16", "-o", result, url],
            "curl": ["curl", "-sSf", *trust, "-o", result, url],
        }
        if key in SLOW_ALONE:
            del commands["curl"]
        pairs = [(result.name, served)]

        def haul(*flags):
            suffix = "".join(f" {flag}" for flag in flags)
            return self.haul_programs(
                lambda name, binary: self.program(name, [binary, "get", "-q", *trust, "-o", result, *flags, url], pairs), suffix)

        peers = [self.program(name, command, pairs) for name, command in commands.items()]
        told = haul("-x", "16")
        bounds = (1.05, 1.05) if link.mib == 8 else (1.00, 0.95)

        def told_to_best():
            best = WALL.best(peers)
            for program in told if best and best.runs else []:
                ratio = WALL.ratio(program, best)
                yield f"{program.name}, {best.name}", f"{ratio:.2f}", f"wall ≤ {bounds[1]:.2f}", ratio <= bounds[1]

        return client_tables.client_case(
            f"{size // MIB} MiB, {link.title()}", [*haul(), *told, *peers], [Limit(list(commands), {WALL: bounds[0]})],
            self.runner, facts=told_to_best)

    def small_files(self, link, tls):
        scheme, certificate = ("https" if tls else "http"), self.nginx.certificate
        base = f"{scheme}://{KernelLink.SERVER}/small/"
        urls = self.work / f"{scheme}.list"
        urls.write_text("".join(f"{base}{name}\n" for name in self.small))
        settings = self.work / f"{scheme}.curl"
        settings.write_text("".join(f'url = "{base}{name}"\noutput = "{self.output / name}"\n' for name in self.small))
        trust = ["--cacert", certificate] if tls else []
        trust_others = [f"--ca-certificate={certificate}"] if tls else []
        commands = {
            "curl -Z 100": ["curl", "-sSf", "-Z", "--parallel-max", "100", *trust, "-K", settings],
            "wget2 16": ["wget2", "-q", "--max-threads=16", *trust_others, "-P", self.output, "-i", urls],
            "aria2 16": ["aria2c", "-q", "-j16", "--file-allocation=none", *trust_others, "-d", self.output, "-i", urls],
        }
        if tls and link.loss:
            # One HTTP/2 connection for all files.
            del commands["curl -Z 100"]
        pairs = [(name, f"small/{name}") for name in self.small]

        def haul(name, binary):
            return self.program(name, [binary, "get", "-q", "-i", urls, "-d", self.output, *trust], pairs)

        programs = [*self.haul_programs(haul), *(self.program(name, command, pairs) for name, command in commands.items())]
        return client_tables.client_case(
            f"{SMALL_FILES} files of {SMALL_BYTES // 1000} KB, {scheme}, {link.title()}", programs,
            [Limit(list(commands), {WALL: 0.90})], self.runner)

    def versions(self):
        commands = [("curl", "--version"), ("aria2c", "--version"), ("axel", "--version"), ("wget2", "--version")]
        return [report.version(*command) for command in [*commands, (find_program("nginx"), "-v")]]

    def notes(self, cases):
        return client_tables.notes(cases, self.work)
