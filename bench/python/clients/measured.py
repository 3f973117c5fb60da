"""What the scripts beside this file have in common: their command line, the clock around the measured call, and its figures.

Each script runs in the environment of the client that it measures, and nothing else is imported there.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))

from lib.daemon import kibibytes, process_cpu_seconds, process_descendants


class Clock:
    """Measures a `with` block: wall seconds, CPU seconds, and the peak of resident memory.

    CPU time is that of this process and of all that descend from it. Those that begin and end within the block count if their parent
    waited for them.
    """

    def __enter__(self):
        self.cpu, self.begin = tree_cpu_seconds(), time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.begin
        self.cpu = tree_cpu_seconds() - self.cpu
        self.peak_memory = peak_memory()

    def figures(self, **counts):
        """What the bench reads."""
        return {"seconds": self.seconds, "cpu": self.cpu, "peak_memory": self.peak_memory, **counts}


def tree_cpu_seconds():
    return sum(map(process_cpu_seconds, process_descendants(os.getpid())))


def peak_memory():
    """The peak of this process's resident memory so far, in KiB."""
    return kibibytes(pathlib.Path("/proc/self/status"), "VmHWM:")


def urls(base, count):
    """The URLs of so many small files of the origin."""
    return [f"{base}/{number:07}" for number in range(count)]


def file_content(url, filler):
    """The content of a small file: its path, and what all have in common."""
    return ("/" + url.split("/", 3)[3]).encode() + filler


def main(clients):
    """Runs one of a script's clients, functions that get the command line's flags and return figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("client", choices=clients)
    parser.add_argument("--figures", type=pathlib.Path, required=True, help="where to write the figures")
    parser.add_argument("--base", help="the URL of the files, without the slash before their names")
    parser.add_argument("--count", type=int, help="how many files")
    parser.add_argument("--at-once", type=int, default=256, help="requests at once, or threads")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--filler", type=pathlib.Path, help="the file that has the end of each small file")
    parser.add_argument("--output", type=pathlib.Path, help="a folder for the result")
    args = parser.parse_args()
    figures = clients[args.client](args)
    args.figures.write_text(json.dumps(figures))
