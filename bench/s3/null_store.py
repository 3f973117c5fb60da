"""A store that takes uploads in parts and keeps nothing of them but the number of bytes. Use: null_store.py PORT

It speaks as much of S3 as one upload needs. Bodies are discarded in the kernel (MSG_TRUNC), so that even 50 GiB take only the client's time.
"""

import re
import socket
import socketserver
import sys

# The longest piece that one call discards.
PIECE = 1 << 20


class Connection(socketserver.BaseRequestHandler):
    """One connection: request after request until the client closes it."""

    def setup(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def handle(self):
        while head := self.read_head():
            method, target, fields = parse(head)
            if fields.get("expect"):
                self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.discard(int(fields.get("content-length", 0)))
            self.respond(method, target, fields)

    def read_head(self):
        """The next request's head, or nothing at the end."""
        while b"\r\n\r\n" not in self.received:
            piece = self.request.recv(65536)
            if not piece:
                return b""
            self.received += piece
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        return head

    def discard(self, length):
        """Reads past a body."""
        taken = min(length, len(self.received))
        self.received, length = self.received[taken:], length - taken
        while length > 0:
            count = len(self.request.recv(min(length, PIECE), socket.MSG_TRUNC))
            if not count:
                raise ConnectionError("the client closed the connection within a body")
            length -= count

    def respond(self, method, target, fields):
        more, body = "", ""
        if method == "POST" and "uploads" in target:
            body = result("InitiateMultipartUploadResult", "<Bucket>bucket</Bucket><Key>sparse</Key><UploadId>one</UploadId>")
        elif method == "POST":
            body = result("CompleteMultipartUploadResult", '<Bucket>bucket</Bucket><Key>sparse</Key><ETag>"0-1"</ETag>')
        elif method == "PUT":
            more = 'ETag: "0"\r\n' + "".join(
                f"{name}: {value}\r\n" for name, value in fields.items() if re.fullmatch("x-amz-checksum-(crc|sha).*", name))
        head = f"HTTP/1.1 200 OK\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        self.request.sendall((head + body).encode())


def parse(head):
    """The method, target and fields of a head."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.split(":", 1) for line in lines)
    return method, target, {name.lower(): value.strip() for name, value in pairs}


def result(name, inner):
    return f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</{name}>'


class Server(socketserver.ThreadingTCPServer):
    """A thread for each connection."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Connection) as server:
        server.serve_forever()
