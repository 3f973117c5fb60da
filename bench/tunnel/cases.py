"""The cases of `scripts/bench tunnel`: which ways there are, what goes over them, and what must come of it."""

import resource

import files
from clients import Clients
from duel import Contender
from idle import Idle
from peers import Nginx
from servers import LANES, Haul, Least, Proxytunnel, Sink, Socat, Squid
from trial import Limit, Trial

KEYS = ["keep-alive", "each", "limit", "warm", "bulk", "idle"]
MIB = 1 << 20

# The better of those that do what haul does.
PEERS = "socat|proxytunnel"


class Tunnel:
    """The proxy, what is behind it, and the cases. The relays of a case are entered into its stack, and end with it."""

    def __init__(self, work, args, stack):
        self.work, self.args = work, args
        self.home, self.served = work / "home", work / "files"
        for folder in (self.home, self.served):
            folder.mkdir()
        files.make(self.served / "small", 1024)
        self.nginx = stack.enter_context(Nginx(work / "nginx", self.served))
        self.squid = stack.enter_context(Squid(work / "squid"))
        self.clients = Clients(args.limit.resolve())
        self.lanes, self.notes = 1, []

    def lane(self):
        """A proxy and a target under an address of its own for each way: connections that ended stay in the kernel's tables for a
        minute, and where another way left many, the search for a free port takes longer."""
        self.lanes += 1
        if self.lanes > LANES:
            raise SystemExit("more lanes are needed: see LANES")
        return f"127.0.0.{self.lanes}:{self.squid.port}", f"127.0.0.{self.lanes}:{self.nginx.wide}"

    def requests(self):
        return 500 if self.args.quick else 5000

    def relays(self, stack, kinds, ends=None):
        """The relays of these kinds by name, each between ends of its own, or all between the same."""
        return {name: stack.enter_context(kind(self.home, *(ends or self.lane()))) for name, kind in kinds.items()}

    def ours(self, name="haul", *flags):
        """The kind that is haul with these flags; none where it is not there."""
        if not self.args.haul:
            return {}
        return {name: lambda home, proxy, target: Haul(self.args.haul.resolve(), home, proxy, target, *flags, *self.args.flags)}

    def least(self):
        """The least relay. Nothing is asked of it, and haul is not to be faster: it is what can be reached."""
        return {"least": lambda home, proxy, target: Least(self.args.least.resolve(), home, proxy, target)}

    def all(self):
        return {**self.ours(), "socat": Socat, "proxytunnel": Proxytunnel}

    def cases(self, key, stack):
        """The cases under one of the keys, one after the other."""
        return getattr(self, key.replace("-", "_"))(stack)

    def through(self, relays, stay):
        """ab through each relay."""
        for name, relay in relays.items():
            load = lambda port=relay.port: self.clients.ab(f"127.0.0.1:{port}", "/small", self.requests(), stay)  # noqa: E731
            yield Contender(name, relay, load)

    def limiting(self, stay):
        """The client that speaks CONNECT itself."""
        proxy, target = self.lane()
        return Contender("limit", self.squid, lambda: self.clients.limit(proxy, target, "/small", self.requests(), stay))

    def straight(self, stay):
        """ab through the proxy, without a tunnel."""
        proxy, target = self.lane()
        return Contender("squid straight", self.squid, lambda: self.clients.ab(target, "/small", self.requests(), stay, proxy))

    def direct(self, stay):
        """ab on nginx itself."""
        _, target = self.lane()
        return Contender("nginx direct", self.nginx, lambda: self.clients.ab(target, "/small", self.requests(), stay))

    def keep_alive(self, stack):
        yield self.small(stack, True, [Limit(PEERS, ms=0.65), Limit("squid straight"), Limit("least")])

    def each(self, stack):
        yield self.small(stack, False, [Limit(PEERS, ms=0.25), Limit("squid straight", ms=1.15), Limit("least")])

    def small(self, stack, stay, limits):
        relays = self.relays(stack, self.all())
        self.look(relays)
        # Not looked at: it has no patience for a peer that takes its time over a large file.
        relays |= self.relays(stack, self.least())
        contenders = [*self.through(relays, stay), self.straight(stay), self.limiting(stay), self.direct(stay)]
        key = "keep-alive" if stay else "each"
        return Trial(self.title(stay), contenders, limits, repeat=3 if stay else 1, column=key)

    def title(self, stay, more=""):
        return f"{self.requests():,} requests, 5 at once, {'keep-alive' if stay else 'one a connection'}{more}"

    def limit(self, stack):
        """With nobody else between, in more rounds: the bounds are narrow."""
        relays = self.relays(stack, self.ours())
        self.look(relays)
        least = self.relays(stack, self.least())
        for stay, bound in (True, 1.4), (False, 1.1):
            contenders = [*self.through(relays | least, stay), self.limiting(stay)]
            title = self.title(stay, ", against the limit")
            yield Trial(title, contenders, [Limit("limit", ms=bound)], repeat=3)

    def warm(self, stack):
        relays = self.relays(stack, {**self.ours("haul --warm 16", "--warm", "16"), **self.ours()})
        self.look(relays)
        relays |= self.relays(stack, self.least())
        contenders = [*self.through(relays, False), self.straight(False)]
        yield Trial(self.title(False, ", --warm 16"), contenders, [Limit("squid straight", ms=0.9)], repeat=2)

    def bulk(self, stack):
        size = (256 if self.args.quick else 4096) * MIB
        # Holes: what reads them copies zeros, and nobody's memory is filled.
        with open(self.served / "large", "wb") as file:
            file.truncate(size)
        relays = self.relays(stack, self.all())
        self.look(relays)

        def load(relay):
            with relay.watch():
                return self.clients.large(f"127.0.0.1:{relay.port}", "/large", size)

        if "proxytunnel" in relays:
            relays["proxytunnel"].watched()
        contenders = [Contender(name, relay, lambda relay=relay: load(relay)) for name, relay in relays.items()]
        yield Trial(f"{size // MIB} MiB by curl", contenders, [Limit(PEERS, cpu=0.4)])

    def idle(self, stack):
        sink = stack.enter_context(Sink(self.home))
        count = 500 if self.args.quick else 10_000
        # Two descriptors a tunnel, and some for all else. Where not even root may have more, fewer must do.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if count > (most - 500) // 2:
            self.notes.append(f"Not {count:,} idle tunnels but fewer: a relay needs two descriptors for each, and {most:,} are all there are.")
            count = (most - 500) // 2
        relays = self.relays(stack, self.all(), (f"127.0.0.1:{sink.port}", "127.0.0.1:7"))
        yield Idle(count, relays, 200)

    def look(self, relays):
        """That a file comes through each relay byte for byte, and through the proxy: a fast one that is wrong, or that goes
        around, is not fast."""
        original = self.served / "look"
        if not original.exists():
            files.make(original, 16 * MIB)
        for relay in relays.values():
            # Of the tunnels that told that they were there.
            relay.settle()
        for name, relay in relays.items():
            result, before = self.home / "looked", self.squid.asked()
            self.clients.fetch(f"127.0.0.1:{relay.port}", "/look", result)
            files.right(result, original)
            result.unlink()
            relay.settle()
            if self.squid.asked() == before:
                raise SystemExit(f"{name} has gone around the proxy")
