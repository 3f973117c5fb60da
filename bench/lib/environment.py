"""The environment of a bench: file descriptors, signals, a scratch directory, ports, clients without a user's settings."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile


def raise_descriptor_limit(wanted):
    """Lets this process and all its children open so many files. An idle connection is one in the client and one in the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        # Only root may raise the hard limit.
        with contextlib.suppress(ValueError, PermissionError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))
    hard = descriptor_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def descriptor_limit():
    """The hard limit of open files, or 65,536 where there is none."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 65536 if hard == resource.RLIM_INFINITY else hard


def exit_on_signals():
    """Turns SIGINT and SIGTERM into SystemExit, so that servers are stopped and files are removed."""
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, exit_by_signal)


def exit_by_signal(number, _):
    raise SystemExit(128 + number)


def scratch_directory(stack, parent):
    """A directory that is removed when the stack closes."""
    directory = pathlib.Path(tempfile.mkdtemp(dir=parent, prefix="haul-bench-"))
    stack.callback(shutil.rmtree, directory, ignore_errors=True)
    return directory


def free_ports(count):
    """Ports that are free now. All are held until the last is found, so that no two are the same."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def find_program(name):
    """The path of a server program. Debian installs servers in directories that a user's PATH does not name."""
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def run_client(command, **options):
    """Runs a client program without a user's settings or proxies, and returns its standard output."""
    command = [str(argument) for argument in command]
    environment = {"PATH": os.environ["PATH"]}
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, **options)
    if result.returncode:
        raise SystemExit(f"{' '.join(command[:4])} failed with {result.returncode}: {result.stderr[-500:]}")
    return result.stdout
