"""The servers of `scripts/bench serve`: haul, nginx in several settings, dufs. Each serves one directory."""

import os
import resource

from lib.daemon import Daemon
from lib.environment import find_program, free_ports

# What each variant of nginx adds to `listen` and to its server block. bench/README.md says why these and no others.
CACHE = "open_file_cache max=20000 inactive=60s; open_file_cache_valid 60s;"
NGINX_VARIANTS = {
    "nginx": ("", ""),
    "nginx reuseport": ("reuseport", ""),
    "nginx cache": ("", CACHE),
    "nginx cache reuseport": ("reuseport", CACHE),
    # A small file is read, and sent with its head by one writev: two calls in place of four.
    "nginx cache, no sendfile": ("", CACHE + " sendfile off; tcp_nopush off;"),
    # Bodies of PUTs reach the temporary file in pieces of this size; the default is 8 KiB.
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


class StoreNginx(Daemon):
    """One nginx with a port for each variant. They share the workers, and only one is under load at a time."""

    def __init__(self, home, files):
        self.home, self.files = home, files
        # In the same file system as the files, so that a rename puts a body in its place.
        self.temporary = files.with_name("nginx-temporary")
        self.tls, *ports = free_ports(1 + len(NGINX_VARIANTS))
        self.ports = dict(zip(NGINX_VARIANTS, ports))

    def __enter__(self):
        self.temporary.mkdir(exist_ok=True)
        servers = "\n    ".join(
            f"server {{ listen 127.0.0.1:{self.ports[name]} {listen}; {more} }}"
            for name, (listen, more) in NGINX_VARIANTS.items())
        settings = self.home / f"{self.files.name}.conf"
        settings.write_text(CONFIGURATION.format(
            # When root measures, workers would be another user, who may not write.
            user="user root root;" if os.geteuid() == 0 else "",
            workers=os.cpu_count(), descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            home=self.home, files=self.files, temporary=self.temporary, servers=servers, tls=self.tls))
        command = [find_program("nginx"), "-p", self.home, "-c", settings, "-g", "daemon off;"]
        self.start(command, [*self.ports.values(), self.tls], self.home / "error.log")
        return self


class HaulServe(Daemon):
    """`haul serve` with some flags."""

    def __init__(self, binary, home, files, *flags):
        self.binary, self.home, self.files, self.flags = binary, home, files, flags
        [self.port] = free_ports(1)

    def __enter__(self):
        command = [self.binary, "serve", self.files, "-l", f"127.0.0.1:{self.port}", *self.flags]
        self.start(command, [self.port], self.home / "haul.log")
        return self


class Dufs(Daemon):
    """dufs, which is compared for its listing."""

    def __init__(self, dufs, home, files):
        self.dufs, self.home, self.files = dufs, home, files
        [self.port] = free_ports(1)

    def __enter__(self):
        # The others write no access log either.
        command = [self.dufs, self.files, "-b", "127.0.0.1", "-p", self.port, "--log-format", ""]
        self.start(command, [self.port], self.home / "dufs.log")
        return self
