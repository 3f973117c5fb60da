"""Idle tunnels: what a relay keeps for connections that carried a few bytes and stay, and what it keeps when they are gone."""

import dataclasses
import select
import socket
import statistics
import time

MIB = 1024  # of KiB

# What goes there and back once: a tunnel that never carried a byte has nothing of what it needs for that.
WORD = b"a line of some protocol, such as a greeting\r\n"


@dataclasses.dataclass
class Round:
    """KiB of resident memory: as the processes count them, and with shared pages counted once."""

    before: tuple
    open: tuple
    after: tuple


class Idle:
    """The memory of each relay before so many tunnels, with them, and after."""

    def __init__(self, count, relays, limit):
        self.relays, self.limit = relays, limit
        self.title = f"{count:,} idle tunnels"
        # Of those that have a process for each a twentieth tells enough.
        self.counts = {name: count if name.startswith("haul") else count // 20 for name in relays}
        self.found = {name: [] for name in relays}

    def run(self, rounds):
        # A leak shows from the second on.
        for _ in range(max(rounds, 2)):
            for name, relay in self.relays.items():
                self.found[name].append(measure(relay, self.counts[name]))

    def rows(self):
        name = next((name for name in self.found if name.startswith("haul")), None)
        needs = (f"< {self.limit} MiB", "no more than after the first")
        if not name:
            yield from (f"| {self.title} | memory | | | {need} | not measured |" for need in needs)
            return
        most = max(found.open[0] for found in self.found[name]) / MIB
        yield f"| {self.title} | memory | {most:.0f} MiB | | {needs[0]} | {'held' if most < self.limit else 'MISSED'} |"
        first, *later = (found.after[0] for found in self.found[name])
        # Pages come and go by a few; a leak of some bytes for each tunnel would be hundreds of them.
        grown = max(later) - first
        held = grown <= max(first // 20, MIB)
        what = f"memory after they closed, {len(later) + 1} times"
        kept = first - self.found[name][0].before[0]
        yield f"| {self.title} | {what} | {grown / MIB:+.1f} MiB (the first: {kept / MIB:+.0f}) | | {needs[1]} | {'held' if held else 'MISSED'} |"

    def medians(self):
        for name, found in self.found.items():
            count = self.counts[name]
            sums = {what: [statistics.median(getattr(one, what)[n] for one in found) for n in (0, 1)] for what in ("open", "after")}
            cells = [f"{kib[0] / MIB:.0f}, {kib[1] / MIB:.0f}" for kib in (found[0].before, sums["open"], sums["after"])]
            each = [(sums["open"][n] - found[0].before[n]) / count for n in (0, 1)]
            yield f"| {count:,} idle tunnels | {name} | {' | '.join(cells)} | {each[0]:.1f}, {each[1]:.1f} |"


def measure(relay, count):
    """One round of one relay."""
    before = relay.resident()
    clients = []
    try:
        for number in range(1, count + 1):
            try:
                clients.append(opened(relay.port))
            except OSError as error:
                raise SystemExit(f"idle tunnel {number:,} of {count:,} did not come about: {error}") from None
        # What it frees after an exchange is freed by then.
        time.sleep(1)
        stayed(clients)
        during = relay.resident()
    finally:
        for client in clients:
            client.close()
    relay.settle()
    # What it gives back to the system after a wave is given back by then.
    time.sleep(2)
    return Round(before, during, relay.resident())


def opened(port):
    """A tunnel that carried a word there and back."""
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(WORD)
    back = b""
    while len(back) < len(WORD):
        piece = client.recv(len(WORD))
        if not piece:
            raise ConnectionError("closed before it carried a word")
        back += piece
    if back != WORD:
        raise SystemExit(f"a tunnel gave {back!r} back")
    return client


def stayed(clients):
    """That none has ended, and none says what it was not asked for."""
    ready = select.epoll()
    for client in clients:
        ready.register(client, select.EPOLLIN | select.EPOLLRDHUP)
    gone = len(ready.poll(0, len(clients)))
    ready.close()
    if gone:
        raise SystemExit(f"{gone} of {len(clients)} idle tunnels did not stay")
