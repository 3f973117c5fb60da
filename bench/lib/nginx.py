"""A private nginx as the origin of downloads and tunnels."""

import pathlib
import subprocess
import sys

from lib.daemon import Daemon
from lib.environment import descriptor_limit, find_program, free_ports

CONFIGURATION = """
worker_processes 2;
worker_rlimit_nofile {descriptors};
pid {home}/pid;
error_log {home}/error.log;
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
        {locations}
    }}
    server {{
        listen {any_address};
        allow 127.0.0.0/8;
        deny all;
        location /one/ {{ try_files /one =404; }}
        {locations}
    }}
    ssl_certificate {home}/cert.pem;
    ssl_certificate_key {home}/key.pem;
    ssl_protocols TLSv1.3;
    server {{
        listen 127.0.0.1:{tls} ssl;
    }}
    server {{
        listen 127.0.0.1:{h2} ssl http2;
    }}
}}
"""


class OriginNginx(Daemon):
    """Serves one directory on free ports of loopback: `plain`, `tls`, `h2`, and `any_address`, which listens on all of 127.0.0.0/8.

    `/limited/` limits the rate of each connection. Below `/one/` every name is the same file. `locations` are more lines for the servers
    without TLS.
    """

    def __init__(self, home, files, locations=""):
        self.home, self.files, self.locations = pathlib.Path(home), pathlib.Path(files), locations
        self.plain, self.tls, self.h2, self.any_address = free_ports(4)
        self.certificate = self.home / "cert.pem"

    def __enter__(self):
        self.home.mkdir(parents=True, exist_ok=True)
        write_certificate(self.home)
        settings = self.home / "nginx.conf"
        settings.write_text(CONFIGURATION.format(
            home=self.home, files=self.files, plain=self.plain, tls=self.tls, h2=self.h2, any_address=self.any_address,
            locations=self.locations,
            # A batch may hold a connection to each of thousands of addresses.
            descriptors=descriptor_limit()))
        command = [find_program("nginx"), "-p", self.home, "-c", settings, "-g", "daemon off;"]
        self.start(command, [self.plain], self.home / "error.log")
        return self


LINK_CONFIGURATION = """
worker_processes 2;
user root;
pid {home}/pid;
error_log {home}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    root {files};
    server {{ listen 80 reuseport; }}
    server {{ listen 81 reuseport; limit_rate 2m; }}
    ssl_certificate {home}/cert.pem;
    ssl_certificate_key {home}/key.pem;
    server {{ listen 443 reuseport ssl http2; }}
}}
"""


class LinkNginx(Daemon):
    """Serves one directory at the far end of a link: on port 80, on 81 with 2 MiB/s a connection, and on 443 with TLS and HTTP/2."""

    def __init__(self, home, files, link):
        self.home, self.files, self.link = pathlib.Path(home), pathlib.Path(files), link
        self.certificate = self.home / "cert.pem"

    def __enter__(self):
        self.home.mkdir(parents=True, exist_ok=True)
        write_certificate(self.home, self.link.SERVER)
        settings = self.home / "nginx.conf"
        settings.write_text(LINK_CONFIGURATION.format(home=self.home, files=self.files))
        command = [find_program("nginx"), "-p", self.home, "-c", settings, "-g", "daemon off;"]
        self.start(self.link.server_command(command), [443], self.home / "error.log")
        return self

    def is_listening(self, port):
        connect = f"import socket; socket.create_connection(('{self.link.SERVER}', {port}), 1)"
        command = self.link.server_command([sys.executable, "-I", "-S", "-c", connect])
        return subprocess.run(command, capture_output=True).returncode == 0


def write_certificate(directory, address="127.0.0.1"):
    """Writes a self-signed certificate for an address, `cert.pem` and `key.pem`. Clients get a flag that makes them trust it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", directory / "key.pem", "-out", directory / "cert.pem", "-subj", f"/CN={address}",
         "-addext", f"subjectAltName=IP:{address}", "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True, capture_output=True)
