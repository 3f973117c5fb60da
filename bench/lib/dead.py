"""Hosts that are dead, on loopback and without a firewall: some answer no handshake, some refuse."""

import socket

from peers import free_ports


class Dead:
    """Two ports that are dead under every address of 127.0.0.0/8, while the `with` block runs.

    `silent`: a listener whose queue is full and who accepts nothing. The kernel leaves handshakes beyond the queue unanswered.
    `refusing`: nobody listens there.
    """

    def __enter__(self):
        [self.refusing] = free_ports(1)
        self.listener = socket.socket()
        self.listener.bind(("0.0.0.0", 0))
        self.listener.listen(0)
        self.silent = self.listener.getsockname()[1]
        self.held = []
        while len(self.held) < 64:
            # What is answered on loopback is answered at once.
            client = socket.socket()
            client.settimeout(0.3)
            try:
                client.connect(("127.0.0.1", self.silent))
            except TimeoutError:
                client.close()
                return self
            self.held.append(client)
        raise SystemExit("a listener's queue does not fill here: no host can be made silent")

    def __exit__(self, *_):
        for held in [*self.held, self.listener]:
            held.close()
