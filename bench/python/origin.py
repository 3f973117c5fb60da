"""The origin: small files that nginx makes from their names without a file system, and a large one."""

import secrets

from lib.nginx import OriginNginx

# nginx takes no longer word in its settings.
LONGEST_WORD = 2048

# What a server says of a static file, too.
LOCATION = """
        location {prefix} {{
            default_type application/octet-stream;
            add_header Last-Modified "Wed, 21 Oct 2015 07:28:00 GMT";
            {words}
            return 200 "$uri{names}";
        }}
"""


class SmallFiles:
    """Files below a folder of the origin, with names of seven digits. The content of a file is its path, and a filler that all share.

    So results can be checked, and nginx needs half of the time that it needs for a file.
    """

    def __init__(self, work, folder, size):
        self.folder, self.size = folder, size
        self.path_length = len(f"/{folder}/") + 7
        # Random, so that nothing can be compressed.
        self.filler = secrets.token_hex(size)[: size - self.path_length].encode()
        self.filler_path = work / f"filler-{folder}"
        self.filler_path.write_bytes(self.filler)

    def location(self):
        text = self.filler.decode()
        words = [text[at : at + LONGEST_WORD] for at in range(0, len(text), LONGEST_WORD)]
        names = [f"$filler_{self.folder}_{number}" for number in range(len(words))]
        settings = "\n".join(f'set {name} "{word}";' for name, word in zip(names, words))
        return LOCATION.format(prefix=f"/{self.folder}/", words=settings, names="".join(names))

    def path(self, number):
        return f"/{self.folder}/{number:07}"


class PythonOrigin(OriginNginx):
    """nginx with small files beside what is in its folder. Names below `/missing/` are answered with 404."""

    def __init__(self, home, files, small_files):
        locations = "".join(files.location() for files in small_files)
        super().__init__(home, files, locations + "location /missing/ { return 404; }")

    def base(self, folder, host="127.0.0.1"):
        """The URL of a folder, of which every address of 127.0.0.0/8 is another host."""
        return f"http://{host}:{self.any_address}/{folder}"
