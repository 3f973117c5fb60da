"""The clients of `scripts/bench tunnel`: ab for small requests, `lab`'s connect_load, curl for a large file."""

import re
import socket

from lib.environment import run_client
from lib.load_clients import LoadClients
from lib.programs import Run

# Requests in flight, as in the write-up.
CONCURRENCY = 5

# A line for an idle tunnel to carry there and back: a tunnel that never carried a byte lacks the memory that it needs for that.
GREETING = b"a line of some protocol, such as a greeting\r\n"


class TunnelClients(LoadClients):
    """Runs the clients against an address, which is a relay's or that of nginx itself."""

    def __init__(self, connect_load):
        super().__init__()
        self.connect_load_program = connect_load

    def ab(self, address, path, requests, keep_alive, proxy=None):
        """Small requests. With a proxy, GETs with absolute URLs and without a tunnel."""
        command = [
            "ab", "-q", "-d", "-S", "-n", requests, "-c", CONCURRENCY, *["-k"] * keep_alive, *(["-X", proxy] if proxy else []),
            f"http://{address}{path}"]
        output = self.run(f"ab {keep_alive} {bool(proxy)}", command)
        names = ("Complete requests", "Failed requests", "Non-2xx responses", "Keep-Alive requests")
        counts = [int(ab_figure(output, name)) for name in names]
        if counts != [requests, 0, 0, requests if keep_alive else 0]:
            found = ", ".join(f"{name}: {count}" for name, count in zip(names, counts))
            raise SystemExit(f"ab on {address}, {requests} requests: {found}")
        return Run(
            ab_figure(output, "Time taken for tests"), requests, int(ab_figure(output, "HTML transferred")),
            concurrency=CONCURRENCY)

    def connect_load(self, proxy, target, path, requests, keep_alive):
        """The requests of ab, by a client that speaks CONNECT itself."""
        command = [
            self.connect_load_program, proxy, target, path, "--requests", requests, "--connections", CONCURRENCY,
            *["--keep-alive"] * keep_alive]
        run = self.run_lab(f"connect_load {keep_alive}", command)
        run.concurrency = CONCURRENCY
        return run

    def large(self, address, path, length):
        """A file to /dev/null."""
        run = self.run_curl("large", ["-o", "/dev/null", f"http://{address}{path}"])
        if run.bytes != length:
            raise SystemExit(f"curl on {address}: {run.bytes} bytes instead of {length}")
        return run

    def download(self, address, path, output):
        run_client(["curl", "-q", "-sSf", "-o", output, f"http://{address}{path}"])


def ab_figure(output, name):
    """The number of a line of ab's output. ab omits lines that would say zero."""
    found = re.search(rf"^{name}:\s+([0-9.]+)", output, re.MULTILINE)
    return float(found[1]) if found else 0.0


def idle_tunnel(port):
    """A tunnel that carried a line there and back."""
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(GREETING)
    received = b""
    while len(received) < len(GREETING):
        data = client.recv(len(GREETING))
        if not data:
            raise ConnectionError("the tunnel closed before it carried a line")
        received += data
    if received != GREETING:
        raise SystemExit(f"a tunnel returned {received!r}")
    return client
