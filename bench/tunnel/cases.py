"""The cases of `scripts/bench tunnel`."""

import functools
import resource
import shlex
import statistics

from lib import command_line, files, report
from lib.bench import Bench
from lib.case import CPU, LATENCY, RATE, Case, Limit
from lib.environment import find_program
from lib.files import MIB
from lib.idle import IdleCase, IdleProgram
from lib.nginx import OriginNginx
from lib.programs import ServerProgram
from tunnel.clients import TunnelClients, idle_tunnel
from tunnel.servers import (
    EXTRA_ADDRESSES, EchoProxy, HaulTunnel, LeastRelay, Proxytunnel, SampledProxytunnel, Socat, Squid)

PEERS = {"socat": Socat, "proxytunnel": Proxytunnel}
# Memory that haul may use for 10,000 idle tunnels, in MiB.
IDLE_LIMIT = 200

# The write-up's figures, on its machine: ms a request with keep-alive and without, and the program that does the same here.
WRITE_UP = [
    ("the tool before", 10.51, 1003.75, None),
    ("ptunnel", 0.31, 3.28, "haul"),
    ("squid alone", 1.83, 2.55, "squid without a tunnel"),
    ("nginx", 0.22, None, "nginx direct"),
    (None, None, None, "socat"),
    (None, None, None, "proxytunnel"),
    (None, None, None, "least_relay"),
    (None, None, None, "connect_load"),
]


class TunnelBench(Bench):
    """Compares the tunnel with socat and proxytunnel, all through squid: small requests, a large file, idle tunnels.

    Everything is on loopback and tmpfs. Each case compares medians of interleaved runs.
    """

    name = "tunnel"
    title = "haul tunnel"
    keys = ["keep-alive", "each", "limit", "warm", "bulk", "idle"]
    quick_help = "a tenth or less of everything, to see that it works"
    descriptors = 45_000
    tables = report.Tables(
        metrics=[LATENCY, CPU],
        program="by way of",
        columns={
            "ms a request": lambda program: report.spread(program.figures(LATENCY.figure)),
            "requests/s": lambda program: report.three_digits(program.median(RATE.figure)),
            "MB/s": report.megabytes_per_second,
            "CPU a request, ms": report.cpu_milliseconds,
        },
        explanation="Medians behind the ratios (ms a request with their range)."
        " CPU is that of the relay; of squid or nginx where there is none:",
    )

    def __init__(self, args, work, stack):
        super().__init__(args, work, stack)
        self.home, self.served = work / "home", work / "files"
        for directory in (self.home, self.served):
            directory.mkdir()
        files.write_random(self.served / "small", 1024)
        self.nginx = stack.enter_context(OriginNginx(work / "nginx", self.served))
        self.squid = stack.enter_context(Squid(work / "squid"))
        self.clients = TunnelClients(args.connect_load)
        self.used_addresses, self.case_notes = 0, []
        self.requests = 500 if args.quick else 5000
        # Latency by key and program, for the write-up's table.
        self.write_up_cases = {}

    @classmethod
    def add_arguments(cls, parser):
        parser.add_argument("--flags", type=shlex.split, default=[], help="more flags for haul tunnel, as one argument")
        command_line.add_program(parser, "--connect-load", required=True)
        command_line.add_program(parser, "--least-relay", required=True)

    def cases(self, key, stack):
        return getattr(self, key.replace("-", "_"))(stack)

    def next_addresses(self):
        """A proxy and a target on an address of their own for each program.

        Connections that ended stay in the kernel's tables for a minute, and where another program left many, the search for a
        free port takes longer.
        """
        self.used_addresses += 1
        if self.used_addresses > EXTRA_ADDRESSES:
            raise SystemExit("more addresses are needed: see EXTRA_ADDRESSES")
        address = f"127.0.0.{self.used_addresses + 1}"
        return f"{address}:{self.squid.port}", f"{address}:{self.nginx.any_address}"

    def hauls(self, *flags, suffix=""):
        """haul with some flags: a function that makes the relay, by name."""
        return dict(self.haul_programs(
            lambda name, binary: (name, lambda *places: HaulTunnel(binary, *places, *flags, *self.args.flags)), suffix))

    def peers(self, **variants):
        """socat and proxytunnel: functions that make the relays, by name. Variants take the place of the usual ones."""
        return PEERS | variants if self.args.peers == "all" else {}

    def start(self, stack, relays, addresses=None):
        """Starts relays by name, each between addresses of its own, or all between the given ones."""
        return {
            name: stack.enter_context(make(self.home, *(addresses or self.next_addresses())))
            for name, make in relays.items()}

    def start_least_relay(self, stack):
        """The least relay. It has no check: it gives up on a peer that is slow over a large file."""
        return self.start(stack, {"least_relay": functools.partial(LeastRelay, self.args.least_relay)})

    def start_checked(self, stack, relays):
        """Starts relays, and checks that a file comes through each unchanged and through the proxy.

        A relay that goes around the proxy would win.
        """
        relays = self.start(stack, relays)
        original = self.served / "check"
        if not original.exists():
            files.write_random(original, 16 * MIB)
        for relay in relays.values():
            # The connections that found out whether it listens.
            relay.wait_for_closed_connections()
        for name, relay in relays.items():
            result, before = self.home / "check", self.squid.request_count()
            self.clients.download(f"127.0.0.1:{relay.port}", "/check", result)
            files.check_content(result, original)
            result.unlink()
            relay.wait_for_closed_connections()
            if self.squid.request_count() == before:
                raise SystemExit(f"{name} has gone around the proxy")
        return relays

    def through(self, relays, keep_alive):
        """ab through relays."""
        return [
            ServerProgram(name=name, server=relay, load=functools.partial(
                self.clients.ab, f"127.0.0.1:{relay.port}", "/small", self.requests, keep_alive))
            for name, relay in relays.items()]

    def connect_load(self, keep_alive):
        """The client that speaks CONNECT itself, so that nothing is in front of squid."""
        proxy, target = self.next_addresses()
        return ServerProgram(
            name="connect_load", server=self.squid, cpu_comparable=False,
            load=lambda: self.clients.connect_load(proxy, target, "/small", self.requests, keep_alive))

    def without_tunnel(self, keep_alive):
        """ab with squid as an ordinary proxy."""
        proxy, target = self.next_addresses()
        return ServerProgram(
            name="squid without a tunnel", server=self.squid, cpu_comparable=False,
            load=lambda: self.clients.ab(target, "/small", self.requests, keep_alive, proxy))

    def direct(self, keep_alive):
        """ab on nginx itself."""
        _, target = self.next_addresses()
        return ServerProgram(
            name="nginx direct", server=self.nginx, cpu_comparable=False,
            load=lambda: self.clients.ab(target, "/small", self.requests, keep_alive))

    def keep_alive(self, stack):
        limits = [Limit(list(PEERS), {LATENCY: 0.65}), Limit(["squid without a tunnel"]), Limit(["least_relay"])]
        # Runs with keep-alive are over in a moment.
        yield self.small("keep-alive", stack, True, limits, repeat=3)

    def each(self, stack):
        limits = [Limit(list(PEERS), {LATENCY: 0.25}), Limit(["squid without a tunnel"], {LATENCY: 1.15}), Limit(["least_relay"])]
        yield self.small("each", stack, False, limits)

    def small(self, key, stack, keep_alive, limits, repeat=1):
        relays = self.start_checked(stack, self.hauls() | self.peers())
        relays |= self.start_least_relay(stack)
        programs = [
            *self.through(relays, keep_alive), self.without_tunnel(keep_alive), self.connect_load(keep_alive),
            self.direct(keep_alive)]
        case = self.write_up_cases[key] = Case(self.small_title(keep_alive), programs, limits, repeat=repeat)
        return case

    def small_title(self, keep_alive, suffix=""):
        return f"{self.requests:,} requests, 5 at once, {'keep-alive' if keep_alive else 'one a connection'}{suffix}"

    def limit(self, stack):
        """haul, least_relay and connect_load alone, in more rounds, since the bounds are narrow."""
        relays = self.start_checked(stack, self.hauls()) | self.start_least_relay(stack)
        for keep_alive, bound in (True, 1.4), (False, 1.1):
            programs = [*self.through(relays, keep_alive), self.connect_load(keep_alive)]
            title = self.small_title(keep_alive, ", against connect_load")
            yield Case(title, programs, [Limit(["connect_load"], {LATENCY: bound})], repeat=3)

    def warm(self, stack):
        relays = self.start_checked(stack, self.hauls("--warm", "16", suffix=" --warm 16") | self.hauls())
        relays |= self.start_least_relay(stack)
        programs = [*self.through(relays, False), self.without_tunnel(False)]
        limits = [Limit(["squid without a tunnel"], {LATENCY: 0.9})]
        yield Case(self.small_title(False, ", --warm 16"), programs, limits, repeat=2)

    def bulk(self, stack):
        size = (256 if self.args.quick else 4096) * MIB
        # A file of holes: nobody's memory is filled, and a copy of zeros is cheap.
        with open(self.served / "large", "wb") as file:
            file.truncate(size)
        relays = self.start_checked(stack, self.hauls() | self.peers(proxytunnel=SampledProxytunnel))

        def load(relay):
            with relay.sampling():
                return self.clients.large(f"127.0.0.1:{relay.port}", "/large", size)

        programs = [
            ServerProgram(name=name, server=relay, load=functools.partial(load, relay)) for name, relay in relays.items()]
        yield Case(f"{size // MIB} MiB by curl", programs, [Limit(list(PEERS), {CPU: 0.4})])

    def idle(self, stack):
        proxy = stack.enter_context(EchoProxy(self.home))
        count = 500 if self.args.quick else 10_000
        # Two descriptors a tunnel, and some for all else.
        available = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if count > (available - 500) // 2:
            self.case_notes.append(
                f"Fewer than {count:,} idle tunnels: a relay needs two descriptors for each, and may have {available:,}.")
            count = (available - 500) // 2
        relays = self.hauls() | self.peers()
        programs = [
            # A twentieth is enough for those with a process for each tunnel.
            IdleProgram(
                name=name, server=relay, count=count // 20 if name in PEERS else count,
                connect=functools.partial(idle_tunnel, relay.port))
            for name, relay in self.start(stack, relays, (f"127.0.0.1:{proxy.port}", "127.0.0.1:7")).items()]
        yield IdleCase(count, "tunnel", programs, IDLE_LIMIT)

    def versions(self):
        commands = [(find_program("squid"), "-v"), (find_program("nginx"), "-v"), ("curl", "--version"), ("ab", "-V")]
        return [
            *(report.version(*command) for command in commands),
            # socat's first line is about its author.
            report.version("socat", "-V", line=1, words=3), report.version("proxytunnel", "-V", words=2)]

    def notes(self, cases):
        notes = list(self.case_notes)
        if self.write_up_cases and self.args.peers == "all":
            explanation = "The write-up's own table, of another machine, ms a request, beside the figures above:"
            notes.append("\n".join([explanation, "", *self.write_up_table()]))
        if self.clients.shown:
            notes.append(report.command_lines("Clients, the first of each kind:", self.clients.shown.values(), {self.work: "."}))
        return notes

    def write_up_table(self):
        latencies = {
            (key, program.name): statistics.median(program.figures(LATENCY.figure))
            for key, case in self.write_up_cases.items() for program in case.programs}
        rows = []
        for name, keep_alive, each, program in WRITE_UP:
            here = [latencies.get((key, program)) for key in ("keep-alive", "each")]
            write_up = [optional(ms, ".2f") for ms in (keep_alive, each)]
            rows.append([name or "", *write_up, program or "", *(optional(ms, ".3f") for ms in here)])
        return report.table(["the write-up", "keep-alive", "one each", "here", "keep-alive", "one each"], rows)[:-1]


def optional(number, form):
    return "" if number is None else format(number, form)
