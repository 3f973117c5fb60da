"""The loads on a store that no client of others makes: signed small GETs by wrk, and one aws-chunked chunk of any length."""

import pathlib
import socket
import time
import zlib
from base64 import b64encode

from lib.files import MIB
from lib.load_clients import LoadClients
from lib.programs import Run
from s3.signing import signed_fields
from s3.stores import BUCKET

SIGNED_GETS = pathlib.Path(__file__).with_name("signed_gets.lua")


class StoreLoad(LoadClients):
    """Runs the loads against a port of loopback."""

    def __init__(self, requests, seconds):
        super().__init__()
        self.requests, self.seconds = requests, seconds

    def small_gets(self, port, paths, signed):
        """GETs of some paths in turn over 32 connections, signed or plain."""
        def line(path):
            # wrk sends the host by itself.
            fields = signed_fields("GET", port, path) if signed else {}
            return "\t".join([path, *(f"{name}: {value}" for name, value in fields.items() if name != "host")])

        self.requests.write_text("".join(line(path) + "\n" for path in paths))
        command = ["wrk", "-t", 1, "-c", 32, "-d", f"{self.seconds}s", "-s", SIGNED_GETS, f"http://127.0.0.1:{port}", "--", self.requests]
        output = self.run(f"wrk {'signed' if signed else 'plain'}", command)
        run = Run.from_json(next(line for line in output.splitlines() if line.startswith("{")))
        if '"refused":0' not in output:
            raise SystemExit(f"the store refused small GETs: {output[-300:]}")
        return run


def put_one_chunk(port, key, length):
    """A PUT whose body is one aws-chunked chunk with its CRC32 behind it, as the AWS SDK for Rust sends bodies."""
    path, piece = f"/{BUCKET}/{key}", bytes(MIB)
    head, tail = f"{length:x}\r\n".encode(), "\r\n0\r\nx-amz-checksum-crc32:{}\r\n\r\n"
    fields = signed_fields("PUT", port, path, "STREAMING-UNSIGNED-PAYLOAD-TRAILER", {
        "content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(length), "x-amz-trailer": "x-amz-checksum-crc32"})
    body = len(head) + length + len(tail.format("AAAAAA=="))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    start, checksum, left = time.monotonic(), 0, length
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"PUT {path} HTTP/1.1\r\n{lines}content-length: {body}\r\nconnection: close\r\n\r\n".encode() + head)
        while left > 0:
            client.sendall(piece[:left])
            checksum, left = zlib.crc32(piece[:left], checksum), left - len(piece)
        client.sendall(tail.format(b64encode(checksum.to_bytes(4, "big")).decode()).encode())
        response = b""
        while received := client.recv(65536):
            response += received
    if not response.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"a PUT of one chunk was answered with {response[:500]}")
    return Run(time.monotonic() - start, bytes=length)
