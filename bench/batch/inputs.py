"""The inputs of batches: generated files, lists of their URLs, and hosts that cannot be reached."""

import hashlib
import os
import random
import socket

from lib.environment import free_ports


class GeneratedFiles:
    """A directory of files of `smallest` to `largest` bytes.

    The name of a file decides its content, so that results can be checked without a copy of the files.
    """

    def __init__(self, directory, count, smallest, largest):
        self.directory, self.smallest, self.largest = directory, smallest, largest
        self.names = [f"f{number:06}" for number in range(count)]

    def write(self):
        self.directory.mkdir(parents=True)
        for name in self.names:
            (self.directory / name).write_bytes(self.content(name))

    def length(self, name):
        number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest())
        return self.smallest + number % (self.largest - self.smallest + 1)

    def content(self, name):
        """Bytes that no server or link can compress or share."""
        return hashlib.shake_128(name.encode()).digest(self.length(name))

    def check_lengths(self, output):
        """Fails unless a directory has all files, as long as they should be, and nothing else."""
        with os.scandir(output) as entries:
            found = {entry.name: entry.stat().st_size for entry in entries}
        wrong = [name for name in self.names if found.pop(name, None) != self.length(name)]
        if wrong:
            raise SystemExit(f"{len(wrong)} of {len(self.names)} files are missing or of another length, such as {wrong[0]}")
        if found:
            raise SystemExit(f"the output has {len(found)} files too many, such as {next(iter(found))}")

    def check_contents(self, output):
        """Fails unless all files in a directory have the right bytes. Returns how many there are."""
        for name in self.names:
            if (output / name).read_bytes() != self.content(name):
                raise SystemExit(f"{name} differs from the served file")
        return len(self.names)

    def memory_needed(self):
        """Bytes that the files need in memory: whole pages, and what the kernel keeps for each file."""
        return sum(-(-self.length(name) // 4096) * 4096 + 1536 for name in self.names)


class UrlList:
    """A list of URLs: `path` has one a line, and `curl_config` writes the same for curl, with a name for each result."""

    def __init__(self, path, base, names):
        self.path, self.base, self.names = path, base, names
        path.write_text("".join(f"{base}/{name}\n" for name in names))

    def curl_config(self, output):
        path = self.path.with_name(self.path.name + ".curl")
        path.write_text("".join(f'url = "{self.base}/{name}"\noutput = "{output / name}"\n' for name in self.names))
        return path


class UnreachablePorts:
    """Two ports that nobody can connect to, under every address of 127.0.0.0/8, while the `with` block runs. No firewall is needed.

    `refusing`: nothing listens.
    `silent`: the queue of the listener is full, and nothing is accepted. The kernel does not answer handshakes beyond the queue.
    """

    def __enter__(self):
        [self.refusing] = free_ports(1)
        self.listener = socket.socket()
        self.listener.bind(("0.0.0.0", 0))
        self.listener.listen(0)
        self.silent = self.listener.getsockname()[1]
        self.queued = []
        while len(self.queued) < 64:
            client = socket.socket()
            # On loopback an answered handshake is answered at once.
            client.settimeout(0.3)
            try:
                client.connect(("127.0.0.1", self.silent))
            except TimeoutError:
                client.close()
                return self
            self.queued.append(client)
        raise SystemExit("the queue of a listener does not fill on this machine, so no host can be made silent")

    def __exit__(self, *_):
        for connection in [*self.queued, self.listener]:
            connection.close()


class Hosts:
    """URLs of many hosts, each an address of loopback, with two files a host in random order.

    Of forty hosts one is silent and one refuses.
    """

    SILENT, REFUSING = 7, 27

    def __init__(self, count, port, unreachable):
        self.count, self.port, self.unreachable = count, port, unreachable
        jobs = [(host, number) for host in range(count) for number in (0, 1)]
        random.Random(3).shuffle(jobs)
        self.urls = [self.url(*job) for job in jobs]
        self.reachable_urls = [self.url(*job) for job in jobs if job[0] % 40 not in (self.SILENT, self.REFUSING)]

    def url(self, host, number):
        ports = {self.SILENT: self.unreachable.silent, self.REFUSING: self.unreachable.refusing}
        address = f"127.{1 + host // 62_500}.{host // 250 % 250}.{host % 250 + 1}"
        return f"http://{address}:{ports.get(host % 40, self.port)}/one/{host}-{number}"
