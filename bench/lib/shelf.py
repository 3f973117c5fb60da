"""Many small files to serve. What is in one follows from its name, so that nothing of them need be remembered to look at a result."""

import hashlib
import os


class Shelf:
    """A folder of files of `smallest` to `largest` bytes."""

    def __init__(self, folder, count, smallest, largest):
        self.folder, self.smallest, self.largest = folder, smallest, largest
        self.names = [f"f{number:06}" for number in range(count)]

    def make(self):
        self.folder.mkdir(parents=True)
        for name in self.names:
            with open(self.folder / name, "wb") as file:
                file.write(self.content(name))

    def length(self, name):
        drawn = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest())
        return self.smallest + drawn % (self.largest - self.smallest + 1)

    def content(self, name):
        """Bytes that nothing on the way can compress or share."""
        return hashlib.shake_128(name.encode()).digest(self.length(name))

    def complete(self, out):
        """That all are in a folder, as long as they should be, and nothing else."""
        with os.scandir(out) as entries:
            found = {entry.name: entry.stat().st_size for entry in entries}
        wrong = [name for name in self.names if found.pop(name, None) != self.length(name)]
        if wrong or found:
            more = f"; {len(found)} others lie there, such as {next(iter(found))}" if found else ""
            raise SystemExit(f"of {len(self.names)} files {len(wrong)} are missing or of another length{': ' + wrong[0] if wrong else ''}{more}")

    def right(self, out):
        """That they are what was served, byte for byte. Returns how many."""
        for name in self.names:
            if (out / name).read_bytes() != self.content(name):
                raise SystemExit(f"{name} differs from what was served")
        return len(self.names)

    def room(self):
        """Bytes of memory that a folder of them takes: whole pages, and what the kernel keeps of each file."""
        return sum(-(-self.length(name) // 4096) * 4096 + 1536 for name in self.names)
