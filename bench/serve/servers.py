"""The servers of `scripts/bench serve`: haul, nginx in several settings, dufs. Each serves one folder on free ports of loopback."""

import contextlib
import os
import resource

from daemon import Daemon
from peers import free_ports, program

# What each variant of nginx adds, and what a reader may want to know of it. Why these and no others: see bench/README.md.
CACHE = "open_file_cache max=20000 inactive=60s; open_file_cache_valid 60s;"
VARIANTS = {
    "nginx": ("", ""),
    "nginx reuseport": ("reuseport", ""),
    "nginx cache": ("", CACHE),
    "nginx cache reuseport": ("reuseport", CACHE),
    # A small file is read, and leaves with its head in one writev: two calls in place of four.
    "nginx cache, no sendfile": ("", CACHE + " sendfile off; tcp_nopush off;"),
    # Bodies of PUTs reach the temporary file in pieces of this size; its own are 8 KiB.
    "nginx 128k buffers": ("", "client_body_buffer_size 128k;"),
    "nginx 1m buffers": ("", "client_body_buffer_size 1m;"),
}

CONFIGURATION = """
{user}
worker_processes {workers};
worker_rlimit_nofile {descriptors};
pid {home}/pid;
error_log {home}/error.log;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    default_type application/octet-stream;
    root {files};
    autoindex on;
    client_max_body_size 0;
    client_body_temp_path {temporary};
    dav_methods PUT DELETE;
    create_full_put_path on;
    {servers}
    server {{
        listen 127.0.0.1:{tls} ssl;
        ssl_certificate {home}/cert.pem;
        ssl_certificate_key {home}/key.pem;
        ssl_protocols TLSv1.3;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    }}
}}
"""


class Nginx(Daemon):
    """One nginx with a port for each variant: they share the workers, and only one is asked at a time."""

    def __init__(self, home, files, temporary):
        self.home, self.files, self.temporary = home, files, temporary
        self.tls, *ports = free_ports(1 + len(VARIANTS))
        self.ports = dict(zip(VARIANTS, ports))

    def __enter__(self):
        self.temporary.mkdir(exist_ok=True)
        servers = "\n    ".join(
            f"server {{ listen 127.0.0.1:{self.ports[name]} {listen}; {more} }}" for name, (listen, more) in VARIANTS.items())
        text = CONFIGURATION.format(
            # Workers are another user when root measures, and may not write.
            user="user root root;" if os.geteuid() == 0 else "",
            workers=os.cpu_count(), descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            home=self.home, files=self.files, temporary=self.temporary, servers=servers, tls=self.tls)
        settings = self.home / f"{self.files.name}.conf"
        settings.write_text(text)
        command = [program("nginx"), "-p", self.home, "-c", settings, "-g", "daemon off;"]
        self.start(command, [*self.ports.values(), self.tls], self.home / "error.log")
        return self


class Haul(Daemon):
    """`haul serve` with these flags."""

    def __init__(self, haul, home, files, *flags):
        self.haul, self.home, self.files, self.flags = haul, home, files, flags
        [self.port] = free_ports(1)

    def __enter__(self):
        command = [self.haul, "serve", self.files, "-l", f"127.0.0.1:{self.port}", *self.flags]
        self.start(command, [self.port], self.home / "haul.log")
        return self


class Dufs(Daemon):
    """dufs, which is there for its listing."""

    def __init__(self, dufs, home, files):
        self.dufs, self.home, self.files = dufs, home, files
        [self.port] = free_ports(1)

    def __enter__(self):
        # Its access log is off, as those of the others are.
        command = [self.dufs, self.files, "-b", "127.0.0.1", "-p", self.port, "--log-format", ""]
        self.start(command, [self.port], self.home / "dufs.log")
        return self


@contextlib.contextmanager
def absent(*_):
    """In place of a server that is not there."""
    yield None
