"""Idle connections: what a server keeps for clients that asked once and stay."""

import select
import socket
import statistics
import time

MIB = 1024  # of KiB


def ask(port, path):
    """A connection that carried one request and stays open."""
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += received(client)
    head, body = answer.split(b"\r\n\r\n", 1)
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"an idle client was answered {head.splitlines()[0]}")
    lengths = [line.split(b":")[1] for line in head.lower().splitlines() if line.startswith(b"content-length:")]
    left = int(lengths[0]) - len(body)
    while left > 0:
        left -= len(received(client))
    return client


def received(client):
    if piece := client.recv(65536):
        return piece
    raise SystemExit("a connection that should stay was closed")


class Idle:
    """The memory of each server with so many idle connections, and before."""

    def __init__(self, count, servers, path, limit):
        self.count, self.servers, self.path, self.limit = count, servers, path, limit
        self.title = f"{count:,} idle connections"
        self.found = {name: [] for name in servers}

    def run(self, rounds):
        for _ in range(rounds):
            for name, (server, port) in self.servers.items():
                before = server.resident()
                self.found[name].append((before, self.resident(server, port)))

    def resident(self, server, port):
        clients = []
        try:
            for _ in range(self.count):
                clients.append(ask(port, self.path))
            # What it frees after an answer is freed by then.
            time.sleep(1)
            ready = select.epoll()
            for client in clients:
                ready.register(client, select.EPOLLIN | select.EPOLLRDHUP)
            gone = len(ready.poll(0, self.count))
            ready.close()
            if gone:
                raise SystemExit(f"{gone} of {self.count} idle connections did not stay")
            return server.resident()
        finally:
            for client in clients:
                client.close()

    def rows(self):
        if "haul" not in self.found:
            yield f"| {self.title} | memory | | | | < {self.limit} MiB | not measured |"
            return
        most = max(after[0] for _, after in self.found["haul"]) / MIB
        yield f"| {self.title} | memory | {most:.0f} MiB | | | < {self.limit} MiB | {'held' if most < self.limit else 'MISSED'} |"

    def medians(self):
        for name, found in self.found.items():
            first = found[0][0]
            sums, once = (statistics.median(after[n] for _, after in found) / MIB for n in (0, 1))
            yield (
                f"| {self.title} | {name} | | | | | | {sums:.0f}, pages shared by processes counted once {once:.0f} "
                f"(before the first: {first[0] / MIB:.0f}, {first[1] / MIB:.0f}) |")
