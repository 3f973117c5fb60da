"""The stores of `scripts/bench s3`. Each keeps the objects of a bucket as plain files, so that cases can make and check objects without it."""

import os
import pathlib
import shutil
import sys

from lib.daemon import Daemon
from lib.environment import free_ports
from lib.nginx import OriginNginx

ACCESS_KEY, SECRET_KEY, BUCKET = "benchkey", "benchsecret", "bucket"


class Store(Daemon):
    """A store on a free port of loopback. A subclass says how to start it, and whether it is only read."""

    name: str
    read_only = False

    def __init__(self, home, root):
        self.home, self.root = pathlib.Path(home), pathlib.Path(root)
        [self.port] = free_ports(1)

    def __enter__(self):
        self.bucket.mkdir(parents=True, exist_ok=True)
        # A variable of the user may hold credentials, or say where logs go.
        self.start(self.command(), [self.port], self.home / f"{self.name.replace(' ', '-')}.log", {"PATH": os.environ["PATH"]})
        return self

    def command(self):
        """The command line that serves `root` on `port`."""
        raise NotImplementedError

    @property
    def bucket(self):
        """The directory with the objects of the bucket."""
        return self.root / BUCKET

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def remove_objects(self, prefix):
        """Removes the objects below a prefix, without the server."""
        shutil.rmtree(self.bucket / prefix, ignore_errors=True)


class HaulStore(Store):
    """`haul serve --s3`."""

    name = "haul serve"

    def __init__(self, home, root, binary, flags=(), name=None):
        super().__init__(home, root)
        self.binary, self.flags, self.name = binary, flags, name or self.name

    def command(self):
        key = f"{ACCESS_KEY}:{SECRET_KEY}"
        return [
            self.binary, "serve", self.root, "-w", "--s3", "--s3-key", key, "--durability", "none",
            "--listen", f"127.0.0.1:{self.port}", *self.flags]


class S3sFs(Store):
    """s3s-fs, the store that comes as an example with the crate s3s."""

    name = "s3s-fs"

    def __init__(self, home, root, program):
        super().__init__(home, root)
        self.program = program

    def command(self):
        return [
            self.program, "--host", "127.0.0.1", "--port", self.port, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY, self.root]

    def remove_objects(self, prefix):
        super().remove_objects(prefix)
        # Metadata and parts are hidden files beside the buckets.
        for path in self.root.glob(".*"):
            path.unlink(missing_ok=True)


class NginxStore(OriginNginx):
    """nginx, which answers GET and HEAD of an object and ignores who signed them: a store that costs clients no time."""

    name, read_only = "nginx", True

    def __init__(self, home, root):
        super().__init__(home, root)
        self.root, self.port = pathlib.Path(root), self.plain

    def __enter__(self):
        self.bucket.mkdir(parents=True, exist_ok=True)
        return super().__enter__()

    bucket, endpoint = Store.bucket, Store.endpoint


class NullStore(Store):
    """A store that takes uploads in parts and keeps nothing: `null_store.py`."""

    name = "null store"

    def command(self):
        return [sys.executable, "-I", pathlib.Path(__file__).with_name("null_store.py"), self.port]


def write_settings(home):
    """Credentials and regions where the clients look for them. The endpoint is a flag of each."""
    settings = {
        ".aws/credentials": "".join(
            f"[{profile}]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n" for profile in ("default", "crt")),
        ".aws/config": "[default]\nregion = us-east-1\n[profile crt]\nregion = us-east-1\ns3 =\n  preferred_transfer_client = crt\n",
        ".config/rclone/rclone.conf":
            f"[bench]\ntype = s3\nprovider = Other\naccess_key_id = {ACCESS_KEY}\nsecret_access_key = {SECRET_KEY}\nregion = us-east-1\n",
        ".s3cfg": f"[default]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\nuse_https = False\n",
    }
    for name, text in settings.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
