"""The clients of `scripts/bench serve`: wrk for small GETs, `lab`'s load for bodies of any size, curl for TLS and listings, `haul bench`."""

import json
import os
import pathlib
import re
import socket
import subprocess
import time

from lib.load_clients import LoadClients
from lib.programs import Run

WRK_REQUESTS = pathlib.Path(__file__).with_name("wrk_requests.lua")

# So many of a million requests of wrk may break, for example those in flight when its time is over.
BROKEN_PER_MILLION = 1000


class ServeClients(LoadClients):
    """Runs the clients against a port of loopback."""

    def __init__(self, load, wrk_seconds, certificate):
        super().__init__()
        self.load_program, self.wrk_seconds, self.certificate = load, wrk_seconds, certificate

    def wrk(self, port, prefix, count, keep_alive):
        """Small GETs over 32 connections for some seconds."""
        # Half of the cores. With more threads wrk would take time from the server without a use for it.
        threads = max(1, os.cpu_count() // 2)
        command = [
            "wrk", "-t", threads, "-c", 32, "-d", f"{self.wrk_seconds}s", "-s", WRK_REQUESTS, f"http://127.0.0.1:{port}",
            "--", prefix, count, "keep-alive" if keep_alive else "close"]
        line = next(line for line in self.run("wrk", command).splitlines() if line.startswith("{"))
        errors = json.loads(line)
        if errors["refused"] or errors["broken"] * 1e6 > BROKEN_PER_MILLION * errors["requests"]:
            raise SystemExit(f"of {errors['requests']} requests {errors['refused']} were refused and {errors['broken']} broke")
        return Run.from_json(line)

    def wrk_file(self, port, path):
        """GETs of one file over 32 kept connections for some seconds, by a thread for each core."""
        command = ["wrk", "-t", os.cpu_count(), "-c", 32, "-d", f"{self.wrk_seconds}s", f"http://127.0.0.1:{port}{path}"]
        output = self.run("wrk, one file", command)
        if "Non-2xx" in output or "Socket errors" in output:
            raise SystemExit(f"requests of wrk failed: {output}")
        requests, seconds, unit = re.search(r"(\d+) requests in ([\d.]+)(m?s)", output).groups()
        return Run(float(seconds) / (1000 if unit == "ms" else 1), int(requests), 0)

    def haul_bench(self, binary, port, path, requests):
        """The same by the load generator of `haul bench`. A first round warms up and does not count."""
        experiment = self.certificate.with_name("load.toml")
        experiment.write_text(
            "title = 'load'\nworkload = 'requests'\n[factors]\nconcurrency = '32'\n[rounds]\nmin = 1\nmax = 1\n")
        command = [
            binary, "bench", "run", experiment, f"http://127.0.0.1:{port}{path}", "--set", f"files={requests} x given", "-q", "--json"]
        results = json.loads(self.run("haul bench", command))
        [measurement] = results["experiments"][0]["cells"][0]["measurements"]
        if measurement.get("errors") or measurement["successes"] != requests:
            raise SystemExit(f"requests of haul bench failed: {measurement}")
        return Run(measurement["wall_s"], requests, measurement["bytes"])

    def load(self, method, port, target, requests, connections, size=0):
        command = [self.load_program, method, f"127.0.0.1:{port}", target, "--connections", connections, "--requests", requests]
        return self.run_lab(f"load {method}", command + (["--size", size] if method == "put" else []))

    def curl_tls(self, port, name, processes, length):
        """A file over TLS to /dev/null, by several curls at once."""
        command = [
            "curl", "-q", "-sSf", "--tlsv1.3", "--http1.1", "--cacert", str(self.certificate), "-o", "/dev/null",
            "-w", "%{size_download}", f"https://127.0.0.1:{port}/{name}"]
        self.show("curl tls", command)
        start = time.monotonic()
        environment = {"PATH": os.environ["PATH"]}
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(processes)]
        try:
            lengths = [process.communicate()[0] for process in running]
        finally:
            for process in running:
                process.kill()
        wall = time.monotonic() - start
        if lengths != [str(length)] * processes:
            raise SystemExit(f"curl received {lengths} bytes instead of {length}")
        return Run(wall, processes, processes * length)

    def listing(self, port, path, output):
        """An HTML listing, to its last byte."""
        return self.run_curl("listing", ["-H", "Accept: text/html,*/*;q=0.8", "-o", output, f"http://127.0.0.1:{port}/{path}"])


def idle_connection(port, path):
    """A connection that carried one request and stays open."""
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    response = b""
    while b"\r\n\r\n" not in response:
        response += receive(client)
    head, body = response.split(b"\r\n\r\n", 1)
    status = head.splitlines()[0]
    if not status.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"the response to an idle client is {status}")
    lengths = [line.split(b":")[1] for line in head.lower().splitlines() if line.startswith(b"content-length:")]
    missing = int(lengths[0]) - len(body)
    while missing > 0:
        missing -= len(receive(client))
    return client


def receive(client):
    if piece := client.recv(65536):
        return piece
    raise ConnectionError("the server closed the connection")
