"""The cases of `scripts/bench batch`: what is served, who fetches it, and what must come of it."""

import gzip
import hashlib
import json
import os
import random

import files
from commands import Commands, Lists
from dead import Dead
from link import SlowLink
from paired import Contender
from report import Case, Limit
from shelf import Shelf

KEYS = ["small", "tls", "link-h1", "link-h2", "million-tar", "million-files", "real", "origins"]

# One way, in milliseconds: 50 there and back.
DELAY = 25


class Batch:
    """What is served, and the cases. What they need beside nginx is entered into `stack`, and ends with it."""

    def __init__(self, work, args, nginx, stack):
        self.work, self.args, self.nginx, self.stack = work, args, nginx, stack
        self.served, self.out, self.home = work / "files", work / "out", work / "nginx"
        self.commands = Commands(args.haul.resolve(), self.out, nginx.ca)

    def prepare(self):
        self.served.mkdir()
        # What any name below /one/ is.
        files.make(self.served / "one", 1024)

    def count(self, full):
        return full // 20 if self.args.quick else full

    def shelf(self, name, count, smallest, largest):
        """Files to serve, made where they are not there yet."""
        shelf = Shelf(self.served / name, self.count(count), smallest, largest)
        if not shelf.folder.exists():
            # What is served, and as much again for a result.
            files.room(self.work, 2 * shelf.room())
            shelf.make()
        return shelf

    def small(self):
        """20,000 files of 1 to 16 KB: what most of the table fetches."""
        return self.shelf("small", 20_000, 1 << 10, 16 << 10)

    def url(self, port, folder, tls=False):
        return f"{'https' if tls else 'http'}://127.0.0.1:{port}/{folder}"

    def contender(self, name, command, shelf):
        words = [str(word) for word in command]
        return Contender(name, words, lambda: shelf.complete(self.out), lambda: shelf.right(self.out))

    def case(self, key):
        """The case of one of the keys."""
        match key:
            case "small":
                return self.loopback(key, tls=False)
            case "tls":
                return self.loopback(key, tls=True)
            case "link-h1" | "link-h2":
                return self.linked(key, h2=key == "link-h2")
            case "million-tar" | "million-files":
                return self.million(key)
            case "real":
                return self.real(key)
            case "origins":
                return self.origins()

    def loopback(self, key, tls):
        shelf, commands = self.small(), self.commands
        port = self.nginx.tls if tls else self.nginx.plain
        lists = Lists(self.work / key, self.url(port, "small", tls), shelf.names)
        contenders = [
            self.contender("haul", commands.haul(lists.path, trust=tls), shelf),
            self.contender("wget2 16", commands.wget2(lists, 16, trust=tls), shelf),
            self.contender("curl -Z 16", commands.curl(lists, 16, trust=tls), shelf),
            self.contender("aria2 16", commands.aria2(lists, 16, trust=tls), shelf),
        ]
        limits = [Limit("wget2 16", 0.65, cpu=0.8), Limit("curl -Z 16", 0.45), Limit("aria2 16", 0.2)]
        title = f"{len(shelf.names):,} files of 1 to 16 KB, {'TLS 1.3' if tls else 'plain HTTP'}"
        return Case(title, contenders, limits)

    def linked(self, key, h2):
        shelf, commands = self.shelf("four", 2_000, 4096, 4096), self.commands
        link = self.stack.enter_context(SlowLink(self.args.link, self.nginx.h2 if h2 else self.nginx.tls, DELAY))
        lists = Lists(self.work / key, self.url(link.port, "four", tls=True), shelf.names)
        contenders = [
            self.contender("haul", commands.haul(lists.path, trust=True), shelf),
            self.contender("wget2", commands.wget2(lists, trust=True), shelf),
            self.contender("wget2 16", commands.wget2(lists, 16, trust=True), shelf),
            self.contender("curl -Z", commands.curl(lists, trust=True), shelf),
            self.contender("curl -Z 16", commands.curl(lists, 16, trust=True), shelf),
        ]
        limits = [Limit(contender.name, 0.5) for contender in contenders[1:]]
        title = f"{len(shelf.names):,} files of 4 KB, TLS, link of 50 ms, origin offers {'HTTP/2' if h2 else 'HTTP/1.1'}"
        return Case(title, contenders, limits)

    def million(self, key):
        """A million URLs, each of them the same file. Its bytes go into a tar that nobody keeps, or into files where there is room."""
        count, base = self.count(1_000_000), self.url(self.nginx.plain, "one")
        lines = (f"{base}/{number:07}\n" for number in range(count))
        if key == "million-tar":
            path = self.work / "million.gz"
            with gzip.open(path, "wt", compresslevel=1) as list_file:
                list_file.writelines(lines)
            # Without -d: everything is in the tar, and standard output leads to nowhere.
            command = [self.commands.program, "get", "-q", "-i", path, "--tar", "-"]
            title, expected = f"{count:,} URLs, list in gzip, tar to nowhere", 0
        else:
            files.room(self.work, count * 7 * 1024)
            path = self.work / "million"
            with open(path, "w") as list_file:
                list_file.writelines(lines)
            command = self.commands.haul(path, "--layout", "hash")
            title, expected = f"{count:,} URLs, files of 1 KB, --layout hash", count

        def complete():
            found = sum(len(names) for _, _, names in os.walk(self.out))
            if found != expected:
                raise SystemExit(f"{found} files instead of {expected}")

        contender = Contender("haul", [str(word) for word in command], complete, lambda: None)
        return Case(title, [contender], [], once=True)

    def real(self, key):
        """Each file read back, and each checksum in the manifest compared."""
        shelf = self.shelf("real", 400_000, 1 << 10, 4 << 10)
        manifest = self.home / "real.jsonl"
        lists = Lists(self.work / key, self.url(self.nginx.plain, "real"), shelf.names)
        command = self.commands.haul(lists.path, "--checksum", "sha256", "--manifest", manifest)
        contender, told = self.contender("haul", command, shelf), {}

        def right():
            told["files"], told["rows"] = shelf.right(self.out), listed(manifest, shelf)

        def facts():
            count = len(shelf.names)
            for what, words in ("files", "files that are right"), ("rows", "rows with the right SHA-256"):
                yield words, f"{told[what]:,}", f"{count:,}", told[what] == count

        contender.right = right
        title = f"{len(shelf.names):,} files of 1 to 4 KB, --checksum sha256 --manifest"
        return Case(title, [contender], [], once=True, facts=facts)

    def origins(self):
        """What 500 dead origins cost the other 9,500: the time until the last living file, with the dead in the list and without."""
        dead = self.stack.enter_context(Dead())
        lot = Origins(self.count(10_000), self.nginx.wide, dead)
        contenders = []
        for name, lines in ("with the dead", lot.lines), ("without", lot.living):
            path = self.work / f"origins {name}".replace(" ", "-")
            path.write_text("".join(f"{line}\n" for line in lines))
            command = [str(word) for word in self.commands.haul(path)]
            contenders.append(Contender(name, command, self.counted(lot), lambda: None, until=self.last, codes=(0, 1)))
        with_dead = contenders[0]

        def facts():
            yield "all of it, the dead given up", f"{with_dead.median('total'):.1f} s", "told", True

        title = f"{lot.count:,} origins, 5 % dead, until the last living file"
        return Case(title, contenders, [Limit("without", 1.10)], facts=facts)

    def counted(self, lot):
        def complete():
            found = len(os.listdir(self.out))
            if found != len(lot.living):
                raise SystemExit(f"{found} files instead of {len(lot.living)}")

        return complete

    def last(self):
        """When the last file got its name."""
        with os.scandir(self.out) as entries:
            return max(entry.stat().st_ctime for entry in entries)


class Origins:
    """Addresses of loopback, two files of each, up and down the list; of each forty one is silent and one refuses."""

    def __init__(self, count, port, dead):
        self.count = count
        jobs = [(origin, number) for origin in range(count) for number in (0, 1)]
        random.Random(3).shuffle(jobs)

        def line(origin, number):
            at = {7: dead.silent, 27: dead.refusing}.get(origin % 40, port)
            address = f"127.{1 + origin // 62_500}.{origin // 250 % 250}.{origin % 250 + 1}"
            return f"http://{address}:{at}/one/{origin}-{number}"

        self.lines = [line(*job) for job in jobs]
        self.living = [line(*job) for job in jobs if job[0] % 40 not in (7, 27)]


def listed(manifest, shelf):
    """How many rows of a manifest carry the SHA-256 of what their name holds."""
    right = 0
    with open(manifest) as rows:
        for row in rows:
            name = json.loads(row).get("url", "").rsplit("/", 1)[1]
            right += hashlib.sha256(shelf.content(name)).hexdigest() in row
    return right
