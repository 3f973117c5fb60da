"""The clients of `scripts/bench s3`: the command lines of haul, aws, rclone, s3cmd and s5cmd for the same work.

Peers are also told to do as much at once as haul does by itself: the best of what they can do is what haul is compared with.
"""

import dataclasses
import pathlib

from s3.stores import BUCKET


@dataclasses.dataclass
class S3Client:
    """A client under a name. Each method returns a command line for an endpoint."""

    name: str
    program: pathlib.Path | str


class HaulClient(S3Client):
    """haul, with more flags if a case has some."""

    def command(self, endpoint, command, *words, flags=()):
        return [self.program, command, "-q", "--endpoint-url", endpoint, *flags, *words]

    def put(self, endpoint, path, key, flags=()):
        return self.command(endpoint, "put", path, f"s3://{BUCKET}/{key}", flags=flags)

    def get(self, endpoint, key, path, flags=()):
        return self.command(endpoint, "get", f"s3://{BUCKET}/{key}", "-o", path, flags=flags)

    def put_folder(self, endpoint, directory, prefix):
        return self.command(endpoint, "put", "-r", directory, f"s3://{BUCKET}/{prefix}/")

    def get_folder(self, endpoint, prefix, directory):
        return self.command(endpoint, "get", "-r", f"s3://{BUCKET}/{prefix}/", "-d", directory)

    def sync(self, endpoint, directory, prefix):
        return self.command(endpoint, "sync", directory, f"s3://{BUCKET}/{prefix}/")

    def remove(self, endpoint, prefix):
        return self.command(endpoint, "rm", "-r", f"s3://{BUCKET}/{prefix}/")


@dataclasses.dataclass
class AwsClient(S3Client):
    """aws of Python, with its own transfers or with those of the CRT."""

    profile: str = "default"

    def command(self, endpoint, command, *words):
        return [self.program, "s3", command, "--only-show-errors", "--profile", self.profile, "--endpoint-url", endpoint, *words]

    def put(self, endpoint, path, key):
        return self.command(endpoint, "cp", path, f"s3://{BUCKET}/{key}")

    def get(self, endpoint, key, path):
        return self.command(endpoint, "cp", f"s3://{BUCKET}/{key}", path)

    def put_folder(self, endpoint, directory, prefix):
        return self.command(endpoint, "cp", "--recursive", directory, f"s3://{BUCKET}/{prefix}/")

    def get_folder(self, endpoint, prefix, directory):
        return self.command(endpoint, "cp", "--recursive", f"s3://{BUCKET}/{prefix}/", directory)

    def sync(self, endpoint, directory, prefix):
        return self.command(endpoint, "sync", directory, f"s3://{BUCKET}/{prefix}/")

    def remove(self, endpoint, prefix):
        return self.command(endpoint, "rm", "--recursive", f"s3://{BUCKET}/{prefix}/")


@dataclasses.dataclass
class RcloneClient(S3Client):
    """rclone, told how much to do at once, or nothing."""

    at_once: int | None = None

    def command(self, endpoint, command, *words, large=False):
        count = self.at_once
        flags = ["--s3-upload-concurrency", count, "--multi-thread-streams", count] if large else ["--transfers", count, "--checkers", count]
        # A bucket need not be asked for first.
        return [self.program, command, "--s3-endpoint", endpoint, "--s3-no-check-bucket", *(flags if count else []), *words]

    def put(self, endpoint, path, key):
        return self.command(endpoint, "copyto", path, f"bench:{BUCKET}/{key}", large=True)

    def get(self, endpoint, key, path):
        return self.command(endpoint, "copyto", f"bench:{BUCKET}/{key}", path, large=True)

    def put_folder(self, endpoint, directory, prefix):
        return self.command(endpoint, "copy", directory, f"bench:{BUCKET}/{prefix}")

    def get_folder(self, endpoint, prefix, directory):
        return self.command(endpoint, "copy", f"bench:{BUCKET}/{prefix}", directory)

    def sync(self, endpoint, directory, prefix):
        # As aws compares. Otherwise rclone asks for the metadata of each object.
        return self.command(endpoint, "sync", "--use-server-modtime", "--update", directory, f"bench:{BUCKET}/{prefix}")

    def remove(self, endpoint, prefix):
        return self.command(endpoint, "delete", f"bench:{BUCKET}/{prefix}")


class S3cmdClient(S3Client):
    """s3cmd, which does one thing at a time."""

    def command(self, endpoint, *words):
        host = endpoint.removeprefix("http://")
        return [self.program, "-q", "--no-progress", "--host", host, "--host-bucket", host, *words]

    def put(self, endpoint, path, key):
        return self.command(endpoint, "put", path, f"s3://{BUCKET}/{key}")

    def get(self, endpoint, key, path):
        return self.command(endpoint, "get", "--force", f"s3://{BUCKET}/{key}", path)

    def put_folder(self, endpoint, directory, prefix):
        return self.command(endpoint, "put", "-r", f"{directory}/", f"s3://{BUCKET}/{prefix}/")

    def get_folder(self, endpoint, prefix, directory):
        return self.command(endpoint, "get", "-r", "--force", f"s3://{BUCKET}/{prefix}/", f"{directory}/")


class S5cmdClient(S3Client):
    """s5cmd."""

    def command(self, endpoint, *words):
        return [self.program, "--log", "error", "--endpoint-url", endpoint, *words]

    def put(self, endpoint, path, key):
        return self.command(endpoint, "cp", path, f"s3://{BUCKET}/{key}")

    def get(self, endpoint, key, path):
        return self.command(endpoint, "cp", f"s3://{BUCKET}/{key}", path)

    def put_folder(self, endpoint, directory, prefix):
        return self.command(endpoint, "cp", f"{directory}/", f"s3://{BUCKET}/{prefix}/")

    def get_folder(self, endpoint, prefix, directory):
        return self.command(endpoint, "cp", f"s3://{BUCKET}/{prefix}/*", f"{directory}/")

    def sync(self, endpoint, directory, prefix):
        return self.command(endpoint, "sync", f"{directory}/", f"s3://{BUCKET}/{prefix}/")

    def remove(self, endpoint, prefix):
        return self.command(endpoint, "rm", f"s3://{BUCKET}/{prefix}/*")
