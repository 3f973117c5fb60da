"""`lab`'s slow link in front of a server."""

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
