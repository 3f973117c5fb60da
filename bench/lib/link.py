"""`lab`'s links: the slow one in front of a server, and the one with the kernel's own TCP between two network namespaces."""

import subprocess


class SlowLink:
    """The slow link in front of a port of loopback, while the `with` block runs. It takes 50 ms there and back.

    `rate` is bytes a second of a connection and `total` of all together, towards the client; with `uploads` in both directions.
    """

    def __init__(self, program, port, rate=None, total=None, uploads=False):
        limits = {"--rate": rate, "--total": total, "--uploads": "yes" if uploads else None}
        self.command = [str(program), f"127.0.0.1:{port}", "--delay", "25ms"]
        self.command += [str(word) for limit in limits.items() if limit[1] for word in limit]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.command[0]} did not start")
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def __exit__(self, *_):
        # The link exits when its standard input ends, also when the bench is killed.
        self.process.stdin.close()
        self.process.wait()


class KernelLink:
    """A link between a namespace of the client and one of the server, while the `with` block runs. It needs root."""

    CLIENT_NAMESPACE, SERVER_NAMESPACE = "haul-bench-client", "haul-bench-server"
    SERVER = "198.18.0.2"

    def __init__(self, program, link):
        self.command = [
            str(program), self.CLIENT_NAMESPACE, self.SERVER_NAMESPACE, "--congestion-control", link.congestion_control,
            "--delay", f"{link.round_trip / 2}ms", "--mbit", str(link.mbit), "--queue", f"{link.queue}ms", "--loss", str(link.loss)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"{self.command[0]} did not start: it needs root and /dev/net/tun")
        for namespace in (self.CLIENT_NAMESPACE, self.SERVER_NAMESPACE):
            # A client must not begin as fast as the one before it ended.
            subprocess.run(in_namespace(namespace, ["sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"]), check=True)
        return self

    def __exit__(self, *_):
        # The link exits when its standard input ends, also when the bench is killed.
        self.process.stdin.close()
        self.process.wait()

    def client_command(self, command):
        return in_namespace(self.CLIENT_NAMESPACE, command)

    def server_command(self, command):
        return in_namespace(self.SERVER_NAMESPACE, command)


def in_namespace(namespace, command):
    return ["ip", "netns", "exec", namespace, *command]
