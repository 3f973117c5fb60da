"""What each program is told so that it fetches a list: the same URLs, into the same folder, with its own settings for all else."""


class Lists:
    """One list in the forms that programs read: `PATH` with a URL a line, `PATH.curl` with names beside them."""

    def __init__(self, path, base, names):
        self.path, self.names = path, names
        self.curl = path.with_name(path.name + ".curl")
        path.write_text("".join(f"{base}/{name}\n" for name in names))
        self.base = base

    def for_curl(self, out):
        lines = (f'url = "{self.base}/{name}"\noutput = "{out / name}"\n' for name in self.names)
        self.curl.write_text("".join(lines))
        return self.curl


class Commands:
    """The command lines. With `trust` each program is told whom to trust."""

    def __init__(self, haul, out, ca):
        self.program, self.out, self.ca = haul, out, ca

    def haul(self, path, *flags, trust=False):
        return [self.program, "get", "-q", "-i", path, "-d", self.out, *flags, *(["--cacert", self.ca] if trust else [])]

    def wget2(self, lists, threads=None, trust=False):
        count = [f"--max-threads={threads}"] if threads else []
        return ["wget2", "-q", *count, *([f"--ca-certificate={self.ca}"] if trust else []), "-P", self.out, "-i", lists.path]

    def curl(self, lists, parallel=None, trust=False):
        count = ["--parallel-max", str(parallel)] if parallel else []
        return ["curl", "-sSf", "-Z", *count, *(["--cacert", self.ca] if trust else []), "-K", lists.for_curl(self.out)]

    def aria2(self, lists, jobs, trust=False):
        return ["aria2c", "-q", f"-j{jobs}", *([f"--ca-certificate={self.ca}"] if trust else []), "-d", self.out, "-i", lists.path]
