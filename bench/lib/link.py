"""A slow link in front of an address: `lab`'s, as a program of its own."""

import subprocess


class SlowLink:
    """Runs while the `with` block does, and no longer than the bench."""

    def __init__(self, program, port, delay):
        self.command = [str(program), f"127.0.0.1:{port}", "--delay", f"{delay}ms"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.command[0]} did not start")
        self.port = int(line.rsplit(":", 1)[1])
        return self

    def __exit__(self, *_):
        # It ends when nobody holds its standard input.
        self.process.stdin.close()
        self.process.wait()
