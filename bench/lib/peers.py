"""A private nginx for a comparison: its own folder, free ports, plain and TLS, and a location that limits each connection."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

CONFIGURATION = """
worker_processes 2;
pid {root}/pid;
error_log {root}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    root {files};
    server {{
        listen 127.0.0.1:{plain};
        location /limited/ {{ alias {files}/; limit_rate 4m; }}
    }}
    server {{
        listen 127.0.0.1:{tls} ssl;
        ssl_certificate {root}/cert.pem;
        ssl_certificate_key {root}/key.pem;
        ssl_protocols TLSv1.3;
    }}
}}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Nginx:
    """Runs while the `with` block does."""

    def __init__(self, root, files):
        self.root, self.files = pathlib.Path(root), pathlib.Path(files)
        self.plain, self.tls = free_port(), free_port()
        self.ca = self.root / "cert.pem"

    def __enter__(self):
        self.root.mkdir(parents=True, exist_ok=True)
        certificate(self.root)
        text = CONFIGURATION.format(root=self.root, files=self.files, plain=self.plain, tls=self.tls)
        (self.root / "nginx.conf").write_text(text)
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        command = [nginx, "-p", str(self.root), "-c", str(self.root / "nginx.conf"), "-g", "daemon off;"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.plain), 1).close()
                return self
            except OSError:
                time.sleep(0.02)
        raise SystemExit("nginx did not start: " + (self.root / "error.log").read_text())

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def certificate(root):
    """A certificate for 127.0.0.1, signed by itself: the clients are told to trust it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", root / "key.pem", "-out", root / "cert.pem", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True, capture_output=True,
    )
