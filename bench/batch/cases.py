"""The cases of `scripts/bench batch`."""

import gzip
import hashlib
import json
import os

from batch.inputs import GeneratedFiles, Hosts, UnreachablePorts, UrlList
from batch.sweep import Sweep
from lib import client_tables, command_line, files, report
from lib.bench import ROOT, Bench
from lib.case import CPU, WALL, Limit
from lib.environment import find_program
from lib.link import SlowLink
from lib.nginx import OriginNginx
from lib.programs import ClientProgram, ClientRunner


class BatchBench(Bench):
    """Downloads many files in one run, with haul, wget2, curl -Z and aria2; the sweep compares levels of concurrency of haul.

    Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
    """

    name = "batch"
    title = "haul get -i"
    keys = ["small", "tls", "link-h1", "link-h2", "million-tar", "million-files", "real", "origins"]
    quick_help = "a twentieth of the files"
    tables = client_tables.TABLES

    def __init__(self, args, work, stack):
        super().__init__(args, work, stack)
        self.served, self.output = work / "files", work / "output"
        self.served.mkdir()
        # Every URL below /one/ is this file.
        files.write_random(self.served / "one", 1024)
        self.nginx = stack.enter_context(OriginNginx(work / "nginx", self.served))
        self.runner = ClientRunner(self.output, self.nginx.home, self.nginx)

    @classmethod
    def add_arguments(cls, parser):
        super().add_arguments(parser)
        parser.add_argument(
            "what", nargs="?", choices=["table", "sweep"], default="table", help="the cases, or the sweep (default %(default)s)")
        parser.add_argument("--slow", action="store_true", help="the sweep goes through a link of 50 ms")
        command_line.add_program(parser, "--slow-link", required=True)

    @classmethod
    def invocation_arguments(cls, args):
        return ["sweep", *["--slow"] * args.slow] if args.what == "sweep" else super().invocation_arguments(args)

    def page(self):
        return Sweep(self).page() if self.args.what == "sweep" else super().page()

    def results(self):
        if self.args.what == "table":
            return super().results()
        return None if self.args.quick else ROOT / "bench/batch/sweeps"

    def cases(self, key, stack):
        match key:
            case "small":
                yield self.loopback(key, tls=False)
            case "tls":
                yield self.loopback(key, tls=True)
            case "link-h1":
                yield self.slow_link(key, stack, self.nginx.tls, "HTTP/1.1")
            case "link-h2":
                yield self.slow_link(key, stack, self.nginx.h2, "HTTP/2")
            case "million-tar":
                yield self.million_tar()
            case "million-files":
                yield self.million_files()
            case "real":
                yield self.real()
            case "origins":
                yield self.origins(stack)

    def count(self, full):
        return full // 20 if self.args.quick else full

    def generated_files(self, name, count, smallest, largest):
        """Files to serve. They are written when the first case needs them."""
        generated = GeneratedFiles(self.served / name, self.count(count), smallest, largest)
        if not generated.directory.exists():
            # The served files, and as much again for a result.
            files.require_space(self.work, 2 * generated.memory_needed())
            generated.write()
        return generated

    def small_files(self):
        return self.generated_files("small", 20_000, 1 << 10, 16 << 10)

    def medium_files(self):
        return self.generated_files("four", 2_000, 4096, 4096)

    def url(self, port, directory, tls=False):
        return f"{'https' if tls else 'http'}://127.0.0.1:{port}/{directory}"

    def case(self, title, programs, limits, **options):
        return client_tables.client_case(title, programs, limits, self.runner, **options)

    def program(self, name, command, generated):
        return ClientProgram(
            name=name, command=command, runner=self.runner,
            check=lambda: generated.check_lengths(self.output), verify=lambda: generated.check_contents(self.output))

    def haul_command(self, binary, path, *flags, trust=False):
        trust = ["--cacert", self.nginx.certificate] if trust else []
        return [binary, "get", "-q", "-i", path, "-d", self.output, *flags, *trust]

    def haul(self, urls, generated, trust=False):
        return self.haul_programs(
            lambda name, binary: self.program(name, self.haul_command(binary, urls.path, trust=trust), generated))

    def wget2(self, urls, generated, threads=None, trust=False):
        trust = [f"--ca-certificate={self.nginx.certificate}"] if trust else []
        limit = [f"--max-threads={threads}"] if threads else []
        command = ["wget2", "-q", *limit, *trust, "-P", self.output, "-i", urls.path]
        return self.program(f"wget2 {threads or ''}".strip(), command, generated)

    def curl(self, urls, generated, connections=None, trust=False):
        trust = ["--cacert", self.nginx.certificate] if trust else []
        limit = ["--parallel-max", connections] if connections else []
        command = ["curl", "-sSf", "-Z", *limit, *trust, "-K", urls.curl_config(self.output)]
        return self.program(f"curl -Z {connections or ''}".strip(), command, generated)

    def aria2(self, urls, generated, jobs, trust=False):
        trust = [f"--ca-certificate={self.nginx.certificate}"] if trust else []
        command = ["aria2c", "-q", f"-j{jobs}", *trust, "-d", self.output, "-i", urls.path]
        return self.program(f"aria2 {jobs}", command, generated)

    def loopback(self, key, tls):
        """20,000 files of 1 to 16 KB."""
        generated = self.small_files()
        port = self.nginx.tls if tls else self.nginx.plain
        urls = UrlList(self.work / key, self.url(port, "small", tls), generated.names)
        programs = [
            *self.haul(urls, generated, trust=tls),
            self.wget2(urls, generated, 16, trust=tls),
            self.curl(urls, generated, 16, trust=tls),
            self.aria2(urls, generated, 16, trust=tls),
        ]
        limits = [
            Limit(["wget2 16"], {WALL: 0.65, CPU: 0.8}), Limit(["curl -Z 16"], {WALL: 0.45}), Limit(["aria2 16"], {WALL: 0.2})]
        return self.case(
            f"{len(generated.names):,} files of 1 to 16 KB, {'TLS 1.3' if tls else 'plain HTTP'}", programs, limits)

    def slow_link(self, key, stack, port, protocol):
        """2,000 files of 4 KB through a link of 50 ms."""
        generated = self.medium_files()
        link = stack.enter_context(SlowLink(self.args.slow_link, port))
        urls = UrlList(self.work / key, self.url(link.port, "four", tls=True), generated.names)
        peers = [
            self.wget2(urls, generated, trust=True),
            self.wget2(urls, generated, 16, trust=True),
            self.curl(urls, generated, trust=True),
            self.curl(urls, generated, 16, trust=True),
        ]
        limits = [Limit([peer.name], {WALL: 0.5}) for peer in peers]
        title = f"{len(generated.names):,} files of 4 KB, TLS, link of 50 ms, origin offers {protocol}"
        return self.case(title, [*self.haul(urls, generated, trust=True), *peers], limits)

    def million_urls(self, open_list, path):
        """Writes a list of a million URLs of the same file, and returns how many they are."""
        count, base = self.count(1_000_000), self.url(self.nginx.plain, "one")
        with open_list(path) as lines:
            lines.writelines(f"{base}/{number:07}\n" for number in range(count))
        return count

    def million_tar(self):
        """A million URLs from a compressed list into a tar on standard output, which is /dev/null."""
        path = self.work / "million.gz"
        count = self.million_urls(lambda path: gzip.open(path, "wt", compresslevel=1), path)
        programs = self.haul_programs(lambda name, binary: ClientProgram(
            name=name, command=[binary, "get", "-q", "-i", path, "--tar", "-"], runner=self.runner,
            check=lambda: self.check_file_count(0)))
        return self.case(f"{count:,} URLs, list in gzip, tar to /dev/null", programs, [], single_run=True)

    def million_files(self):
        """A million URLs into as many files."""
        path = self.work / "million"
        count = self.million_urls(lambda path: open(path, "w"), path)
        files.require_space(self.work, count * 7 * 1024)
        programs = self.haul_programs(lambda name, binary: ClientProgram(
            name=name, command=self.haul_command(binary, path, "--layout", "hash"), runner=self.runner,
            check=lambda: self.check_file_count(count)))
        return self.case(f"{count:,} URLs, files of 1 KB, --layout hash", programs, [], single_run=True)

    def check_file_count(self, expected):
        found = sum(len(names) for _, _, names in os.walk(self.output))
        if found != expected:
            raise SystemExit(f"{found} files instead of {expected}")

    def real(self):
        """Reads every file back, and compares every checksum in the manifest."""
        generated = self.generated_files("real", 400_000, 1 << 10, 4 << 10)
        manifest = self.nginx.home / "real.jsonl"
        urls = UrlList(self.work / "real", self.url(self.nginx.plain, "real"), generated.names)
        # Of the first haul: files with the right content, and rows of the manifest with the right checksum.
        right = []

        def verify():
            right.append((generated.check_contents(self.output), right_checksums(manifest, generated)))

        def facts():
            count = len(generated.names)
            for subject, found in zip(("files with the right content", "rows with the right SHA-256"), right[0]):
                yield subject, f"{found:,}", f"{count:,}", found == count

        def haul(name, binary):
            command = self.haul_command(binary, urls.path, "--checksum", "sha256", "--manifest", manifest)
            program = self.program(name, command, generated)
            program.verify = verify
            return program

        return self.case(
            f"{len(generated.names):,} files of 1 to 4 KB, --checksum sha256 --manifest", self.haul_programs(haul), [],
            single_run=True, facts=facts, prepare=lambda: manifest.unlink(missing_ok=True))

    def origins(self, stack):
        """What 500 unreachable hosts cost the other 9,500: the time until the last file of a reachable host is there."""
        unreachable = stack.enter_context(UnreachablePorts())
        hosts = Hosts(self.count(10_000), self.nginx.any_address, unreachable)
        programs = []
        for suffix, urls in (", 5 % unreachable", hosts.urls), (", all reachable", hosts.reachable_urls):
            path = self.work / f"hosts{len(urls)}"
            path.write_text("".join(f"{url}\n" for url in urls))
            programs += self.haul_programs(lambda name, binary, path=path: ClientProgram(
                name=name, command=self.haul_command(binary, path), runner=self.runner,
                check=lambda: self.check_file_count(len(hosts.reachable_urls)),
                finish_time=self.last_file_time, exit_codes=(0, 1)), suffix)

        def facts():
            yield "until haul has given up the unreachable", f"{programs[0].median('exit_wall'):.1f} s", "reported", None

        title = f"{hosts.count:,} origins, 5 % unreachable, until the last file of the others"
        return self.case(title, programs, [Limit(["haul, all reachable"], {WALL: 1.10})], facts=facts)

    def last_file_time(self):
        """When the last file got its name."""
        with os.scandir(self.output) as entries:
            return max((entry.stat().st_ctime for entry in entries), default=0)

    def versions(self):
        commands = [("wget2", "--version"), ("curl", "--version"), ("aria2c", "--version"), (find_program("nginx"), "-v")]
        return [report.version(*command) for command in commands]

    def notes(self, cases):
        return client_tables.notes(cases, self.work)


def right_checksums(manifest, generated):
    """How many rows of a manifest have the SHA-256 of their file."""
    count = 0
    with open(manifest) as rows:
        for row in rows:
            name = json.loads(row).get("url", "").rsplit("/", 1)[1]
            count += hashlib.sha256(generated.content(name)).hexdigest() in row
    return count
