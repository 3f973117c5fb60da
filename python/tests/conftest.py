"""Fixtures: an HTTP origin that says what it was asked, a store of haul's own, and clients."""

from __future__ import annotations

import hashlib
import http.server
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qs, urlsplit

import pytest

import haul

MODIFIED = formatdate(1_600_000_000, usegmt=True)


def content(name: str, size: int) -> bytes:
    """The bytes of a file, which follow from its name."""
    return random.Random(name).randbytes(size)


def entry_at(shard: pathlib.Path, offset: int) -> tuple[str, bytes]:
    """Name and content of the entry of an archive that begins there."""
    with open(shard, "rb") as file:
        file.seek(offset)
        with tarfile.open(fileobj=file, mode="r|") as archive:
            found = archive.next()
            assert found is not None
            body = archive.extractfile(found)
            assert body is not None
            return found.name, body.read()


@dataclass
class Answer:
    """How the origin answers a path, in place of the file."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    #: Answers so often, then with the file.
    times: int = 1 << 30
    #: Breaks off after so many bytes of the body.
    broken_at: int | None = None
    #: Waits for this before the answer.
    gate: threading.Event | None = None


class Origin:
    """An origin on 127.0.0.0/8. `/NAME?size=N` is a file of N bytes, with ranges."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str | None]] = []
        #: Their header fields.
        self.headers: list[Mapping[str, str]] = []
        self.answers: dict[str, Answer] = {}
        self.etags: dict[str, str] = {}
        self.lock = threading.Lock()
        #: Bytes a second of each response; None for all at once.
        self.rate: int | None = None
        #: How many PUTs came, and what they wait for before the answer.
        self.puts = 0
        self.put_gate: threading.Event | None = None
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.origin = self
        self.port = self.server.server_address[1]
        self.server_thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.server_thread.start()

    def url(self, name: str, size: int = 1000, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{name}?size={size}"

    def count(self, name: str | None = None) -> int:
        with self.lock:
            return sum(1 for _, path, _ in self.requests if name is None or path.startswith(f"/{name}?"))

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    origin: Origin

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may leave."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: object) -> None:
        """The origin keeps what tests ask for."""

    def do_GET(self) -> None:
        origin = self.server.origin
        parts = urlsplit(self.path)
        name = parts.path.lstrip("/")
        with origin.lock:
            origin.requests.append((self.headers["Host"], self.path, self.headers.get("Range")))
            origin.headers.append(self.headers)
            answer = origin.answers.get(name)
            if answer is not None:
                answer.times -= 1
                if answer.times < 0:
                    answer = None
        if answer is not None and answer.gate is not None:
            answer.gate.wait(30)
        if answer is not None and (answer.status != 200 or answer.body):
            self._send(answer.status, answer.body, answer.headers, answer.broken_at)
            return
        size = int(parse_qs(parts.query).get("size", ["1000"])[0])
        data = content(name, size)
        etag = origin.etags.get(name, hashlib.md5(name.encode()).hexdigest())
        headers = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", "Last-Modified": MODIFIED}
        headers |= answer.headers if answer is not None else {}
        found = self.headers.get("Range")
        condition = self.headers.get("If-Range")
        if found and found.startswith("bytes=") and condition in (None, f'"{etag}"'):
            first, _, last = found[6:].partition("-")
            start, end = int(first), min(int(last or size), size - 1)
            if start >= size:
                self._send(416, b"", {"Content-Range": f"bytes */{size}"})
                return
            headers["Content-Range"] = f"bytes {start}-{end}/{size}"
            self._send(206, data[start : end + 1], headers)
            return
        self._send(200, data, headers)

    def do_PUT(self) -> None:
        origin = self.server.origin
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with origin.lock:
            origin.puts += 1
            origin.headers.append(self.headers)
            origin.answers[self.path.lstrip("/")] = Answer(body=body)
        if origin.put_gate is not None:
            origin.put_gate.wait(30)
        self._send(201, b"", {"ETag": '"1"'})

    def do_OPTIONS(self) -> None:
        self._send(204, b"", {})

    def _send(self, status: int, body: bytes, headers: dict[str, str], broken_at: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if broken_at is not None:
            self.close_connection = True
            body = body[:broken_at]
        rate = self.server.origin.rate
        if rate is None:
            self.wfile.write(body)
            return
        for at in range(0, len(body), max(1, rate // 20)):
            self.wfile.write(body[at : at + max(1, rate // 20)])
            time.sleep(0.05)


@pytest.fixture
def origin() -> Iterator[Origin]:
    origin = Origin()
    yield origin
    origin.close()


@pytest.fixture
def client() -> haul.Client:
    return haul.Client(retries=2, timeout=10)


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


@dataclass
class Store:
    """A server of S3's dialect."""

    folder: pathlib.Path
    endpoint: str

    def settings(self) -> dict[str, object]:
        return {"endpoint_url": self.endpoint, "region": "us-east-1", "access_key": "key", "secret_key": "secretsecret"}


def fill(store: Store, keys: Iterable[str]) -> None:
    """Puts objects into the bucket, each with its key as content."""
    for key in keys:
        path = store.folder / "bucket" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(key.encode())


def keys(store: Store) -> list[str]:
    """The keys of the bucket's objects."""
    root = store.folder / "bucket"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Store]:
    """A store of `haul serve --s3`, by the binary that the wheel brings."""
    program = shutil.which("haul")
    if program is None:
        pytest.skip("the command haul is not installed")
    folder = tmp_path / "store"
    (folder / "bucket").mkdir(parents=True)
    port = free_port()
    command = [program, "serve", str(folder), "--s3", "-w", "--listen", str(port)]
    environment = os.environ | {"HAUL_S3_KEYS": "key:secretsecret"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        try:
            wait_for(lambda: _accepts(port) or process.poll() is not None)
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            yield Store(folder, f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


@pytest.fixture
def store_client(store: Store) -> haul.Client:
    """A client of the store."""
    return haul.Client(retries=1, timeout=10, s3=store.settings())


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
