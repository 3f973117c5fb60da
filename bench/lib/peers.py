"""A private nginx for a comparison: its own folder, free ports, plain, TLS and HTTP/2, a location that limits each connection, one
where any name is the same file, and a port that every address of loopback has."""

import os
import pathlib
import resource
import shutil
import socket
import subprocess

from daemon import Daemon

CONFIGURATION = """
worker_processes 2;
worker_rlimit_nofile {descriptors};
pid {root}/pid;
error_log {root}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    root {files};
    server {{
        listen 127.0.0.1:{plain};
        location /limited/ {{ alias {files}/; limit_rate 4m; }}
        location /one/ {{ try_files /one =404; }}
    }}
    server {{
        listen {wide};
        allow 127.0.0.0/8;
        deny all;
        location /one/ {{ try_files /one =404; }}
    }}
    ssl_certificate {root}/cert.pem;
    ssl_certificate_key {root}/key.pem;
    ssl_protocols TLSv1.3;
    server {{
        listen 127.0.0.1:{tls} ssl;
    }}
    server {{
        listen 127.0.0.1:{h2} ssl http2;
    }}
}}
"""


def free_ports(count):
    """Ports that are free now. All are held until the last is found, so that no two are the same."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def program(name):
    """Where a server is; Debian has them where a user's PATH does not reach."""
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


class Nginx(Daemon):
    """Runs while the `with` block does."""

    def __init__(self, root, files):
        self.root, self.files = pathlib.Path(root), pathlib.Path(files)
        self.plain, self.tls, self.h2, self.wide = free_ports(4)
        self.ca = self.root / "cert.pem"

    def __enter__(self):
        self.root.mkdir(parents=True, exist_ok=True)
        certificate(self.root)
        ports = {"plain": self.plain, "tls": self.tls, "h2": self.h2, "wide": self.wide}
        # As many as anybody gives: a batch may hold a connection to each of thousands of addresses.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        descriptors = 65536 if most == resource.RLIM_INFINITY else most
        text = CONFIGURATION.format(root=self.root, files=self.files, descriptors=descriptors, **ports)
        (self.root / "nginx.conf").write_text(text)
        command = [program("nginx"), "-p", str(self.root), "-c", str(self.root / "nginx.conf"), "-g", "daemon off;"]
        self.start(command, [self.plain], self.root / "error.log")
        return self


def certificate(root):
    """A certificate for 127.0.0.1, signed by itself: the clients are told to trust it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", root / "key.pem", "-out", root / "cert.pem", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True, capture_output=True,
    )
