"""A proxy that accepts every CONNECT, and then sends back what it receives: a cheap far end for idle tunnels.

Use: echo_proxy.py PORT
"""

import select
import socket
import sys

MAX_HEAD = 16384


class EchoProxy:
    """One thread, with every connection in one epoll."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.listener.setblocking(False)
        self.poll = select.epoll()
        self.poll.register(self.listener, select.EPOLLIN)
        # Connections by descriptor, and the beginnings of requests of those that are not tunnels yet.
        self.connections, self.heads = {}, {}

    def run(self):
        while True:
            for descriptor, _ in self.poll.poll():
                if descriptor == self.listener.fileno():
                    self.accept()
                else:
                    self.receive(descriptor)

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            descriptor = connection.fileno()
            self.connections[descriptor], self.heads[descriptor] = connection, b""
            self.poll.register(descriptor, select.EPOLLIN)

    def receive(self, descriptor):
        connection = self.connections[descriptor]
        try:
            data = connection.recv(MAX_HEAD)
            if descriptor in self.heads:
                data = self.respond(descriptor, data)
            elif not data:
                self.close(descriptor)
            if data:
                # A few bytes always fit into an empty send buffer.
                connection.send(data)
        except BlockingIOError:
            pass
        except OSError:
            self.close(descriptor)

    def respond(self, descriptor, data):
        """The bytes to send for a piece of a CONNECT request."""
        request = self.heads[descriptor] + data
        if not data or len(request) > MAX_HEAD:
            self.close(descriptor)
            return b""
        _, end, rest = request.partition(b"\r\n\r\n")
        if not end:
            self.heads[descriptor] = request
            return b""
        del self.heads[descriptor]
        return b"HTTP/1.1 200 Connection established\r\n\r\n" + rest

    def close(self, descriptor):
        self.heads.pop(descriptor, None)
        self.poll.unregister(descriptor)
        self.connections.pop(descriptor).close()


if __name__ == "__main__":
    EchoProxy(int(sys.argv[1])).run()
