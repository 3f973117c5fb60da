"""The cases of `scripts/bench s3`."""

import functools
import os
import shutil
import subprocess

from batch.inputs import GeneratedFiles
from lib import command_line, files, report
from lib.bench import Bench
from lib.case import CPU, RATE, WALL, Case, Limit
from lib.environment import find_program
from lib.files import KB, MIB
from lib.link import SlowLink
from lib.nginx import OriginNginx
from lib.programs import ClientProgram, ClientRunner, ServerProgram
from s3.clients import AwsClient, HaulClient, RcloneClient, S3cmdClient, S5cmdClient
from s3.load import SIGNED_GETS, StoreLoad, put_one_chunk
from s3.stores import BUCKET, HaulStore, NginxStore, NullStore, S3sFs, write_settings
from serve.servers import HaulServe

# The bars of a whole put or get, of many small objects, and of commands that compare or delete.
LARGE, SMALL, MANY = {WALL: 0.6, CPU: 0.7}, {WALL: 0.4}, {WALL: 0.3}

# MiB that haul may use at most: a client, and a server that gets one chunk.
CLIENT_MEMORY, SERVER_MEMORY = 96, 64

# Bytes a second of the link: of a connection, and of all together.
LINK_RATE, LINK_TOTAL = 25 * MIB, 200 * MIB


class S3Bench(Bench):
    """Compares haul as a client of S3 with aws, rclone and s3cmd, and `haul serve --s3` with s3s-fs.

    Everything is on loopback and tmpfs. Each case compares medians of interleaved runs; a ratio below 1 means that haul needs less.
    """

    name = "s3"
    title = "S3"
    keys = ["large", "small", "sync", "rm", "link", "ramp", "serve", "gets", "memory"]
    quick_help = "256 MiB, 5,000 objects and 2 GiB without content in place of 1 GiB, 20,000 to 100,000 and 50 GiB"
    descriptors = 4096
    tables = report.Tables(
        metrics=[WALL, CPU, RATE],
        program="program",
        columns={
            "wall": lambda program: report.spread(program.figures("wall"), "{:.2f}".format),
            "CPU": lambda program: f"{program.median('cpu'):.2f}",
            "CPU of the store": lambda program: f"{program.median('origin_cpu'):.2f}",
            "requests/s": lambda program: report.three_digits(program.median(RATE.figure)) if program.runs[0].p50 else "",
            "memory": report.peak_mib,
        },
        explanation="Medians behind the ratios, seconds (wall with its range), and the largest peak in MiB. Where a store is measured under a "
        "client or a load, CPU and memory are those of the store:",
    )

    def __init__(self, args, work, stack):
        super().__init__(args, work, stack)
        self.home, self.output, self.sources = work / "home", work / "output", work / "sources"
        for directory in (self.home, self.sources):
            directory.mkdir()
        write_settings(self.home)
        self.load = StoreLoad(work / "requests", 1 if args.quick else 4)
        self.skipped = []

    @classmethod
    def add_arguments(cls, parser):
        super().add_arguments(parser)
        parser.add_argument("--stores", help="haul, s3s-fs, nginx: stores to use, separated by commas (default: all that there are)")
        command_line.add_program(parser, "--slow-link", required=True)
        for flag in "--s3s-fs", "--aws", "--s5cmd":
            command_line.add_program(parser, flag)

    @classmethod
    def invocation_arguments(cls, args):
        return [*super().invocation_arguments(args), *(["--stores", args.stores] if args.stores else [])]

    def cases(self, key, stack):
        return getattr(self, key)(stack)

    def count(self, full):
        return min(full, 5000) if self.args.quick else full

    def knows(self, *words):
        """Whether the measured haul, and that of `--against`, have a command or a flag."""
        command, *flags = words
        helps = [
            subprocess.run([binary, command, "--help"], capture_output=True, text=True) for binary in self.args.binaries.values()]
        known = bool(helps) and all(not text.returncode and all(flag in text.stdout for flag in flags) for text in helps)
        if not known:
            self.skipped.append(f"Without what needs `haul {' '.join(words)}`, which this haul does not have.")
        return known

    def stores(self, *kinds):
        """The stores of some kinds that there are and that are wanted, each with a root of its own. None has started yet."""
        for kind in kinds:
            root = self.work / "stores" / kind.name.replace(" ", "-")
            if self.args.stores and kind.name.split()[0] not in self.args.stores.split(","):
                continue
            if kind is HaulStore:
                if self.knows("serve", "--s3"):
                    yield HaulStore(self.home, root, self.args.haul)
            elif kind is S3sFs:
                if self.args.s3s_fs:
                    yield S3sFs(self.home, root, self.args.s3s_fs)
            else:
                yield kind(root.with_name("nginx-home"), root)

    def hauls(self, suffix=""):
        return self.haul_programs(HaulClient, suffix)

    def peers(self, *kinds):
        """Peers that there are, of some kinds."""
        peers = []
        if "aws" in kinds and self.args.aws:
            peers += [AwsClient("aws", self.args.aws), AwsClient("aws crt", self.args.aws, "crt")]
        if "rclone" in kinds:
            peers += [RcloneClient("rclone", "rclone"), RcloneClient("rclone 16", "rclone", 16)]
        if self.args.s5cmd:
            peers.append(S5cmdClient("s5cmd", self.args.s5cmd))
        if "s3cmd" in kinds:
            peers.append(S3cmdClient("s3cmd", "s3cmd"))
        return peers

    def case(self, title, store, clients, command, bounds, **options):
        """Clients that do the same with a store. `command` makes the command line of one."""
        runner = ClientRunner(self.output, self.home, store)
        check, verify = options.pop("check", lambda: None), options.pop("verify", lambda: None)
        programs = [
            ClientProgram(name=client.name, command=command(client), runner=runner, check=check, verify=verify) for client in clients]
        limits = [Limit([program.name for program in programs if not program.is_haul and not program.is_haul_before], bounds)]
        clean_up = options.pop("clean_up", lambda: None)

        def clean_all():
            runner.empty_output()
            clean_up()

        return Case(f"{title}, store: {store.name}", programs, limits, clean_up=clean_all, **options)

    def source(self, size):
        """A file of random bytes."""
        path = self.sources / f"large-{size}"
        if not path.exists():
            files.require_space(self.work, 3 * size)
            files.write_random(path, size)
        return path

    def small_files(self, count):
        """A directory of objects of 1 to 16 KB."""
        generated = GeneratedFiles(self.sources / f"small-{count}", count, KB, 16 * KB)
        if not generated.directory.exists():
            files.require_space(self.work, 4 * generated.memory_needed())
            generated.write()
        return generated

    def large(self, stack):
        """One file up and down."""
        size = (256 if self.args.quick else 1024) * MIB
        source, result = self.source(size), self.output / "result"
        clients = [*self.hauls(), *self.peers("aws", "rclone", "s3cmd")]
        for store in self.stores(HaulStore, S3sFs, NginxStore):
            with store:
                stored = store.bucket / "up" / "large"
                if not store.read_only:
                    yield self.case(
                        f"put of {size // MIB} MiB", store, clients, lambda client: client.put(store.endpoint, source, "up/large"), LARGE,
                        check=lambda: files.check_length(stored, source), verify=lambda: files.check_content(stored, source),
                        clean_up=lambda: store.remove_objects("up"), memory_limit=CLIENT_MEMORY)
                shutil.copyfile(source, store.bucket / "large")
                yield self.case(
                    f"get of {size // MIB} MiB", store, clients, lambda client: client.get(store.endpoint, "large", result), LARGE,
                    check=lambda: files.check_length(result, source), verify=lambda: files.check_content(result, source),
                    memory_limit=CLIENT_MEMORY)
                (store.bucket / "large").unlink()

    def small(self, stack):
        """A folder of small files up and down."""
        generated = self.small_files(self.count(20_000))
        clients = [*self.hauls(), *self.peers("aws", "rclone")]
        for store in self.stores(HaulStore, S3sFs):
            with store:
                up = store.bucket / "up"
                yield self.case(
                    f"put -r of {len(generated.names):,} objects of 1 to 16 KB", store, clients,
                    lambda client: client.put_folder(store.endpoint, generated.directory, "up"), SMALL,
                    check=lambda: generated.check_lengths(up), verify=lambda: generated.check_contents(up),
                    clean_up=lambda: store.remove_objects("up"), memory_limit=CLIENT_MEMORY)
                shutil.copytree(generated.directory, store.bucket / "down")
                yield self.case(
                    f"get -r of {len(generated.names):,} objects of 1 to 16 KB", store, clients,
                    lambda client: client.get_folder(store.endpoint, "down", self.output), SMALL,
                    check=lambda: generated.check_lengths(self.output), verify=lambda: generated.check_contents(self.output),
                    memory_limit=CLIENT_MEMORY)
                shutil.rmtree(store.bucket / "down")

    def sync(self, stack):
        """A folder that the store has already."""
        if self.args.haul and not self.knows("sync"):
            return
        source, count = self.sources / "many", self.count(100_000)
        make_empty_files(source, count)
        for store in self.stores(HaulStore, S3sFs):
            with store:
                # Newer than the source, as after an upload.
                make_empty_files(store.bucket / "many", count)
                yield self.case(
                    f"sync of {count:,} objects with nothing to do", store, [*self.hauls(), *self.peers("aws", "rclone")],
                    lambda client: client.sync(store.endpoint, source, "many"), MANY, memory_limit=CLIENT_MEMORY,
                    check=lambda: check_count(store.bucket / "many", count))
                shutil.rmtree(store.bucket / "many")

    def rm(self, stack):
        """Everything below a prefix."""
        count = self.count(100_000)
        for store in self.stores(HaulStore, S3sFs):
            with store:
                many = store.bucket / "many"
                yield self.case(
                    f"rm of {count:,} objects", store, [*self.hauls(), *self.peers("aws", "rclone")],
                    lambda client: client.remove(store.endpoint, "many"), MANY, memory_limit=CLIENT_MEMORY,
                    prepare=lambda: make_empty_files(many, count), check=lambda: check_count(many, 0),
                    clean_up=lambda: store.remove_objects("many"))

    def link(self, stack):
        """An upload through a link where each connection is slow: told nothing, and told how many."""
        size = (256 if self.args.quick else 1024) * MIB
        source = self.source(size)
        for store in self.stores(HaulStore, S3sFs):
            with store, SlowLink(self.args.slow_link, store.port, rate=LINK_RATE, total=LINK_TOTAL, uploads=True) as link:
                endpoint, stored = f"http://127.0.0.1:{link.port}", store.bucket / "up" / "large"
                runner, programs = ClientRunner(self.output, self.home, store), []
                for count in None, 1, 4, 8, 12, 16:
                    flags = ["-x", count] if count else []
                    for client in self.hauls(f" -x {count}" if count else ""):
                        programs.append(ClientProgram(
                            name=client.name, command=client.put(endpoint, source, "up/large", flags), runner=runner,
                            check=lambda: files.check_length(stored, source), verify=lambda: files.check_content(stored, source)))
                limits = [Limit(["haul -x 1"], {WALL: 0.2}), Limit([f"haul -x {count}" for count in (4, 8, 12, 16)], {WALL: 1.15})]
                yield Case(
                    f"put of {size // MIB} MiB, 25 MiB/s a connection, 200 in all, 50 ms, store: {store.name}", programs, limits,
                    clean_up=lambda: store.remove_objects("up"), memory_limit=CLIENT_MEMORY)

    def ramp(self, stack):
        """A download through a link of 4 MiB/s a connection: haul finds out how many pay, aria2 is told."""
        source, result = self.source(128 * MIB), self.output / "result"
        origin = stack.enter_context(OriginNginx(self.work / "ramp", self.sources))
        link = stack.enter_context(SlowLink(self.args.slow_link, origin.plain, rate=4 * MIB))
        runner, url = ClientRunner(self.output, self.home, origin), f"http://127.0.0.1:{link.port}/{source.name}"
        commands = self.haul_programs(lambda name, binary: (name, [binary, "get", "-q", url, "-o", result]))
        commands += self.haul_programs(lambda name, binary: (name, [binary, "get", "-q", "-x", "16", url, "-o", result]), " -x 16")
        # Without -k aria2 makes no more than a connection for 20 MiB.
        commands.append(("aria2 16", ["aria2c", "-q", "-x16", "-s16", "-k1M", "-d", self.output, "-o", result.name, url]))
        programs = [
            ClientProgram(
                name=name, command=command, runner=runner, check=lambda: files.check_length(result, source),
                verify=lambda: files.check_content(result, source)) for name, command in commands]
        yield Case(
            "get of 128 MiB, 4 MiB/s a connection, 50 ms", programs, [Limit(["aria2 16"], {WALL: 1.10})],
            clean_up=runner.empty_output, memory_limit=CLIENT_MEMORY)

    def serve(self, stack):
        """The stores under clients of others."""
        stores = self.measured_stores(stack)
        if not stores:
            return
        source, generated = self.source((256 if self.args.quick else 1024) * MIB), self.small_files(self.count(20_000))
        for client in self.peers("aws", "rclone"):
            if client.name in ("aws", "rclone 16"):
                yield from self.under_client(client, stores, source, generated)

    def measured_stores(self, stack):
        """Starts `haul serve --s3` of each binary, and s3s-fs: stores by name. None where a haul does not have it."""
        if self.args.haul and not self.knows("serve", "--s3"):
            return {}
        root = self.work / "stores" / "measured"
        stores = dict(self.haul_programs(lambda name, binary: (name, HaulStore(self.home, root / name.replace(" ", "-"), binary))))
        stores |= {store.name: store for store in self.stores(S3sFs)}
        return {name: stack.enter_context(store) for name, store in stores.items()}

    def under_client(self, client, stores, source, generated):
        result, bounds = self.output / "result", {RATE: 1.5}
        works = {
            f"put of {source.stat().st_size // MIB} MiB": lambda store: client.put(store.endpoint, source, "up/large"),
            f"get of {source.stat().st_size // MIB} MiB": lambda store: client.get(store.endpoint, source.name, result),
            f"put of {len(generated.names):,} objects": lambda store: client.put_folder(store.endpoint, generated.directory, "up"),
            f"get of {len(generated.names):,} objects": lambda store: client.get_folder(store.endpoint, "down", self.output),
        }
        for store in stores.values():
            if not (store.bucket / "down").exists():
                shutil.copytree(generated.directory, store.bucket / "down")
                shutil.copyfile(source, store.bucket / source.name)

        def clean_up():
            for store in stores.values():
                store.remove_objects("up")

        for work, command in works.items():
            programs = [
                ServerProgram(name=name, server=store, load=functools.partial(self.run_client, command, store))
                for name, store in stores.items()]
            yield Case(f"store under {client.name}: {work}", programs, [Limit([S3sFs.name], bounds)], clean_up=clean_up)

    def run_client(self, command, store):
        """One run of a client, as a load on a store."""
        run, exit_code, _, errors = ClientRunner(self.output, self.home, store).run([str(word) for word in command(store)])
        if exit_code:
            raise SystemExit(f"{command(store)[0]} failed with {exit_code}: {errors[-500:]}")
        # What follows is for clients: a server's own figures take their place.
        run.origin_cpu = 0.0
        return run

    def gets(self, stack):
        """Small signed GETs, and the same files without signatures."""
        stores = self.measured_stores(stack)
        if not stores:
            return
        for store in stores.values():
            make_files(store.bucket / "get", 1000, 4 * KB)
        paths = [f"/{BUCKET}/get/k{number:06}" for number in range(1000)]
        programs = [
            ServerProgram(name=name, server=store, load=functools.partial(self.load.small_gets, store.port, paths, True))
            for name, store in stores.items()]
        root = next(iter(stores.values())).root
        plain = {"nginx plain": NginxStore(self.work / "plain-nginx", root)}
        if self.args.haul:
            plain["haul plain"] = HaulServe(self.args.haul, self.home, root)
        for name, server in plain.items():
            stack.enter_context(server)
            port = server.plain if name.startswith("nginx") else server.port
            programs.append(ServerProgram(
                name=name, server=server, load=functools.partial(self.load.small_gets, port, paths, False)))
        limits = [Limit([S3sFs.name], {RATE: 1.5}), Limit(["haul plain"], {RATE: 0.7}), Limit(["nginx plain"])]
        yield Case("signed GET of 4 KB, 32 connections", programs, limits)

    def memory(self, stack):
        """Peaks of memory: sparse files of many times the memory, and one chunk that a server must not hold."""
        size = (2 if self.args.quick else 50) << 30
        sparse = self.sources / "sparse"
        make_sparse(sparse, size)
        null = stack.enter_context(NullStore(self.home, self.work / "stores" / "null"))
        yield self.case(
            f"put of {size >> 30} GiB without content", null, self.hauls(), lambda client: client.put(null.endpoint, sparse, "sparse"), {},
            memory_limit=CLIENT_MEMORY, single_run=True)
        for store in self.stores(HaulStore, NginxStore):
            with store:
                make_sparse(store.bucket / "sparse", size)
                yield self.case(
                    f"get of {size >> 30} GiB without content to /dev/null", store, self.hauls(),
                    lambda client: client.get(store.endpoint, "sparse", "/dev/null"), {}, memory_limit=CLIENT_MEMORY, single_run=True)
                (store.bucket / "sparse").unlink()
        sparse.unlink()
        yield from self.one_chunk(stack)

    def one_chunk(self, stack):
        size, stores = (256 if self.args.quick else 1024) * MIB, self.measured_stores(stack)
        if not stores:
            return
        programs = [
            ServerProgram(name=name, server=store, load=functools.partial(put_one_chunk, store.port, "chunk", size))
            for name, store in stores.items()]

        def clean_up():
            for store in stores.values():
                (store.bucket / "chunk").unlink(missing_ok=True)

        yield Case(
            f"store: PUT of one aws-chunked chunk of {size // MIB} MiB", programs, [], clean_up=clean_up, memory_limit=SERVER_MEMORY,
            single_run=True)

    def versions(self):
        commands = [("rclone", "--version"), ("s3cmd", "--version"), ("aria2c", "--version"), (find_program("nginx"), "-v"), ("wrk", "--version")]
        aws = [report.first_line([self.args.aws, "--version"])] if self.args.aws else []
        return [*aws, *(report.version(*command) for command in commands), *(["s3s-fs 0.14.1"] if self.args.s3s_fs else [])]

    def notes(self, cases):
        missing = [f"Without {name}, which could not be installed." for name, program in self.optional_programs() if not program]
        commands = [
            report.short_command(program.command) for case in cases for program in case.programs if isinstance(program, ClientProgram)]
        return [
            *missing, *dict.fromkeys(self.skipped),
            "rclone 16 is rclone with 16 transfers, checkers and streams at once; aws crt is aws with the CRT's transfers.",
            report.command_lines("Commands:", commands, {self.work: "."}),
            report.command_lines("Loads, the first of each kind:", self.load.shown.values(), {self.work: ".", SIGNED_GETS.parent: "bench/s3"})]

    def optional_programs(self):
        return [("aws", self.args.aws), ("s3s-fs", self.args.s3s_fs), ("s5cmd", self.args.s5cmd)]


def make_empty_files(directory, count):
    """Makes files in folders of a thousand."""
    for first in range(0, count, 1000):
        folder = directory / f"f{first // 1000:03}"
        folder.mkdir(parents=True)
        for number in range(first, min(first + 1000, count)):
            os.mknod(folder / f"k{number:06}")


def make_files(directory, count, size):
    """Makes files of random bytes, unless an earlier case has."""
    directory.mkdir(exist_ok=True)
    for number in range(count):
        (directory / f"k{number:06}").write_bytes(os.urandom(size))


def make_sparse(path, size):
    """Makes a file without content."""
    with open(path, "wb") as file:
        file.truncate(size)


def check_count(directory, expected):
    """Fails unless there are so many files below a directory."""
    found = sum(len(names) for _, _, names in os.walk(directory))
    if found != expected:
        raise SystemExit(f"{found} objects instead of {expected}")
