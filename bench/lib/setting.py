"""What a comparison runs in: descriptors enough, a folder that goes with it, signals that clear up, clients without anybody's
settings."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile


def descriptors(least):
    """Has this process and all that it starts hold so many files: an idle connection is one here and one there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < least:
        # Root may.
        with contextlib.suppress(ValueError, PermissionError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, least))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (65536 if hard == resource.RLIM_INFINITY else hard, hard))


def ends_clean():
    """Signals end the bench through all that clears up."""
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, interrupted)


def interrupted(number, _):
    raise SystemExit(128 + number)


def scratch(stack, parent, prefix):
    """A folder that is removed with the stack."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def quiet(command, **more):
    """Runs a client with nobody's settings or proxies; returns what it says."""
    words = [str(word) for word in command]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, **more)
    if ran.returncode:
        raise SystemExit(f"{' '.join(words[:4])} failed with {ran.returncode}: {ran.stderr[-500:]}")
    return ran.stdout
