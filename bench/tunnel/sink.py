"""A proxy that agrees to every CONNECT, and then sends back what it gets: the far end of idle tunnels, as cheap as can be.

Use: sink.py PORT
"""

import select
import socket
import sys

HEAD = 16384


class Sink:
    """One thread, every connection in one epoll."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.listener.setblocking(False)
        self.ready = select.epoll()
        self.ready.register(self.listener, select.EPOLLIN)
        # Connections by number; what they have asked so far, until they are tunnels.
        self.open, self.asking = {}, {}

    def run(self):
        while True:
            for number, _ in self.ready.poll():
                if number == self.listener.fileno():
                    self.accept()
                else:
                    self.advance(number)

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            number = connection.fileno()
            self.open[number], self.asking[number] = connection, b""
            self.ready.register(number, select.EPOLLIN)

    def advance(self, number):
        connection = self.open[number]
        try:
            piece = connection.recv(HEAD)
            if number in self.asking:
                piece = self.agreed(number, piece)
            elif not piece:
                self.end(number)
            if piece:
                # A few bytes on a connection that is empty: they fit.
                connection.send(piece)
        except BlockingIOError:
            pass
        except OSError:
            self.end(number)

    def agreed(self, number, piece):
        """What is sent for a piece of a CONNECT."""
        asked = self.asking[number] + piece
        if not piece or len(asked) > HEAD:
            self.end(number)
            return b""
        head, found, rest = asked.partition(b"\r\n\r\n")
        if not found:
            self.asking[number] = asked
            return b""
        del self.asking[number]
        return b"HTTP/1.1 200 Connection established\r\n\r\n" + rest

    def end(self, number):
        self.asking.pop(number, None)
        self.ready.unregister(number)
        self.open.pop(number).close()


if __name__ == "__main__":
    Sink(int(sys.argv[1])).run()
