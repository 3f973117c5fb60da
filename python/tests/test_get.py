"""One file: `get`, `put`, their results and their errors."""

import asyncio
import base64
import hashlib
import logging
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import pytest

import haul
from conftest import Answer, Origin, Store, content, wait_for


def test_a_file_is_there_with_what_is_known_of_it(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    digest = hashlib.sha256(content("a.bin", 300_000)).hexdigest()
    file = client.get(origin.url("a.bin", 300_000), tmp_path / "sub" / "x", checksum=f"sha256:{digest}")
    assert (tmp_path / "sub" / "x").read_bytes() == content("a.bin", 300_000)
    assert (file.path, file.bytes, file.fetched) == (tmp_path / "sub" / "x", 300_000, 300_000)
    assert file.checksums == [("sha256", digest)]
    assert os.fspath(file) == str(file.path) and "300000" in repr(file)
    named = client.get(origin.url("b.bin"), dir=tmp_path)
    assert named.path == tmp_path / "b.bin"


def test_errors_have_the_words_and_hints_of_the_command(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["gone"] = Answer(404)
    with pytest.raises(haul.NetworkError) as caught:
        client.get(origin.url("gone"), tmp_path / "gone")
    error = caught.value
    assert (error.status, error.kind, error.retryable) == (404, "404 Not Found", False)
    assert error.hint == "check the URL" and "answered 404" in str(error)
    assert error.url is not None and error.url.startswith("http://127.0.0.1")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.status) == (haul.NetworkError, str(error), 404)
    with pytest.raises(haul.VerificationError):
        client.get(origin.url("a"), tmp_path / "a", checksum="sha256:" + "0" * 64)
    assert not (tmp_path / "a").exists()
    (tmp_path / "there").write_text("mine")
    with pytest.raises(haul.LocalIOError, match="exists already"):
        client.get(origin.url("a"), tmp_path / "there")
    assert client.get(origin.url("a"), tmp_path / "there", overwrite=True).bytes == 1000
    for wrong in ("ftp://h/f", "no url", "http://h/\0"):
        with pytest.raises(haul.UsageError):
            client.get(wrong, tmp_path / "x")
    with pytest.raises(haul.Error):
        client.get(origin.url("a"), str(tmp_path / "nul\0byte"))
    with pytest.raises(haul.UsageError, match="headers"):
        client.get(origin.url("a"), tmp_path / "x", headers={"Bad Name": "v"})


def test_a_name_is_free_after_a_call(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "f"
    origin.answers["f"] = Answer(404, times=2)
    for _ in range(2):
        with pytest.raises(haul.NetworkError, match="answered 404"):
            client.get(origin.url("f"), target)
    with pytest.raises(haul.VerificationError):
        client.get(origin.url("f"), target, checksum="md5:" + "0" * 32)

    async def fetch() -> haul.File:
        origin.rate = 100_000
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.aget(origin.url("f", 400_000), target), 0.3)
        origin.rate = None
        return await client.aget(origin.url("f", 400_000), target)

    assert asyncio.run(fetch()).bytes == 400_000
    for _ in range(2):
        with pytest.raises(haul.LocalIOError, match="exists already"):
            client.get(origin.url("f"), target)
    # Another URL, and then one whose name the URL tells.
    for name in ("g", "h"):
        client.get(origin.url(name), target, overwrite=True)
        assert target.read_bytes() == content(name, 1000)
    for size in (10, 20):
        assert client.get(origin.url("latest", size), dir=tmp_path, overwrite=True).bytes == size
    # Only while a call runs is its name taken.
    gate = threading.Event()
    origin.answers["i"] = Answer(gate=gate)

    async def fetch_twice() -> None:
        first = asyncio.create_task(client.aget(origin.url("i"), target, overwrite=True))
        while origin.count("i") == 0:
            await asyncio.sleep(0.01)
        with pytest.raises(haul.LocalIOError, match="another URL already uses"):
            await client.aget(origin.url("j"), target, overwrite=True)
        gate.set()
        await first

    asyncio.run(fetch_twice())
    assert target.read_bytes() == content("i", 1000)


def test_results_can_be_pickled(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    file = client.get(origin.url("a"), tmp_path / "a", checksum="md5")
    copied = pickle.loads(pickle.dumps(file))
    assert (copied.path, copied.checksums, repr(copied)) == (file.path, file.checksums, repr(file))
    origin.answers["gone"] = Answer(404)
    for row in client.batch([origin.url("b"), origin.url("gone")]):
        copied_row = pickle.loads(pickle.dumps(row))
        assert copied_row.as_dict() == row.as_dict()
        assert (copied_row.body, copied_row.ok) == (row.body, row.ok)
    (mapped,) = client.batch([origin.url("c")], map=len)
    assert pickle.loads(pickle.dumps(mapped)).value == 1000
    upload = client.put(tmp_path / "a", f"http://127.0.0.1:{origin.port}/up")
    assert pickle.loads(pickle.dumps(upload)).bytes == 1000


def test_hints_name_arguments_of_python(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["locked"] = Answer(401)
    (tmp_path / "there").write_text("mine")
    for call, words in (
        (lambda: client.get(origin.url("locked"), tmp_path / "x"), "with auth=(USER, PASSWORD)"),
        (lambda: client.get(origin.url("a"), tmp_path / "there"), "overwrite=True replaces the file"),
        (lambda: client.get(origin.url("a"), tmp_path), f"dir={tmp_path} puts the file into it"),
    ):
        with pytest.raises(haul.Error) as caught:
            call()
        assert words in str(caught.value.hint) and " -" not in str(caught.value)
    proxied = haul.Client(proxy="http://127.0.0.1:1", retries=0)
    with pytest.raises(haul.NetworkError, match="cannot connect to the proxy 127.0.0.1:1: "):
        proxied.bytes("http://h/x")
    (row,) = client.batch([{"url": origin.url("a"), "path": "there", "size": 1000}], dir=tmp_path)
    assert "its size is not the one in the list" in str(row.error) and " -" not in str(row.error)


def test_arguments_that_cannot_be_used_are_errors_at_once() -> None:
    for arguments in (
        {"limit": "fast"}, {"limit": 0}, {"rate_per_host": 0}, {"connections_per_host": 0}, {"timeout": 0.0},
        {"s3": {"endpoint": "x"}}, {"proxy": "nonsense://x"}, {"s3": {"access_key": "a"}},
    ):
        with pytest.raises(haul.UsageError):
            haul.Client(**arguments)  # type: ignore[arg-type]


def test_secrets_reach_no_message(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["x"] = Answer(403)
    url = origin.url("x").replace("http://", "http://me:s3cret@")
    with pytest.raises(haul.NetworkError) as caught:
        client.get(url, tmp_path / "x")
    assert "s3cret" not in str(caught.value) + repr(caught.value) + str(caught.value.url)


def test_a_login_is_sent_as_it_is(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    client.get(origin.url("x"), tmp_path / "x", auth=("m%65:@/ü", "p%41ss:@/#?"))
    assert base64.b64decode(origin.headers[-1]["Authorization"].removeprefix("Basic ")).decode() == "m%65:@/ü:p%41ss:@/#?"
    for url, auth in ((origin.url("x"), ("", "token")), ("s3://bucket/key", ("a", "b")), ("s3://bucket/key", "token")):
        with pytest.raises(haul.UsageError, match="auth"):
            client.get(url, tmp_path / "y", auth=auth)
    with pytest.raises(haul.UsageError, match="auth"):
        client.put(tmp_path / "x", "s3://bucket/key", auth="token")


def test_progress_is_told_and_its_exception_stops_the_download(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.rate = 1_000_000
    seen: list[tuple[int, int | None]] = []
    client.get(origin.url("a", 500_000), tmp_path / "a", progress=lambda done, length: seen.append((done, length)))
    assert seen[-1][0] == 500_000 and seen == sorted(seen, key=lambda pair: pair[0])

    def fail(done: int, length: int | None) -> None:
        raise KeyError("no more")

    with pytest.raises(KeyError):
        client.get(origin.url("b", 50_000_000), tmp_path / "b", progress=fail)
    assert not (tmp_path / "b").exists()


def test_an_interrupted_download_goes_on_where_it_was(origin: Origin, tmp_path: pathlib.Path) -> None:
    """Ctrl-C in a process of its own: a KeyboardInterrupt, and a partial file that the next call continues."""
    origin.rate = 2_000_000
    url = origin.url("big", 30_000_000)
    script = f"import haul; print('go', flush=True); haul.get({url!r}, {str(tmp_path / 'big')!r}, connections=2)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        partial = lambda: sum(file.stat().st_blocks * 512 for file in tmp_path.iterdir())  # noqa: E731
        wait_for(lambda: partial() > 2_000_000)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors and process.returncode != 0
    assert not (tmp_path / "big").exists()
    origin.rate = None
    file = haul.get(url, tmp_path / "big")
    assert file.resumed > 0 and (tmp_path / "big").read_bytes() == content("big", 30_000_000)


def test_asyncio_waits_and_a_cancelled_task_stops(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    async def fetch_all() -> list[haul.File]:
        return await asyncio.gather(*(client.aget(origin.url(f"f{n}"), tmp_path / f"f{n}") for n in range(20)))

    assert all(file.bytes == 1000 for file in asyncio.run(fetch_all()))

    async def cancel() -> None:
        origin.rate = 100_000
        task = asyncio.create_task(client.aget(origin.url("slow", 50_000_000), tmp_path / "slow"))
        while origin.count("slow") == 0:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert not (tmp_path / "slow").exists()


def test_a_closed_loop_is_no_trouble(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    gate = threading.Event()
    origin.answers["held"] = Answer(gate=gate)
    loop = asyncio.new_event_loop()
    coroutine = client.aget(origin.url("held"), tmp_path / "held")
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
    gate.set()
    del task
    assert client.get(origin.url("next"), tmp_path / "next").bytes == 1000


def test_two_hundred_threads_share_a_client(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            client.get(origin.url(f"t{number}"), tmp_path / f"t{number}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(list(tmp_path.iterdir())) == 200


def test_a_pickled_client_has_its_settings(origin: Origin, tmp_path: pathlib.Path) -> None:
    client = haul.Client(headers={"X-A": "b"}, limit="1.5G", retries=1)
    copy = pickle.loads(pickle.dumps(client))
    assert copy.limit == 3 << 29
    assert copy.get(origin.url("a"), tmp_path / "a").bytes == 1000


def test_a_fork_is_a_clear_error_and_the_functions_have_a_client_of_their_own(origin: Origin, tmp_path: pathlib.Path) -> None:
    script = f"""
import os, sys, haul
client = haul.Client()
haul.get({origin.url("a")!r}, {str(tmp_path / "a")!r})
child = os.fork()
if child == 0:
    try:
        client.bytes({origin.url("b")!r})
    except haul.UsageError as error:
        sys.stdout.write(str(error))
    assert haul.get({origin.url("c")!r}, {str(tmp_path / "c")!r}).bytes == 1000
    del client
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "forked" in done.stdout and "spawn" in done.stdout


def test_a_fork_leaves_the_connections_of_the_parent_alone(origin: Origin) -> None:
    """Clients that end in a child must not take the parent's sockets out of its epoll."""
    script = f"""
import os, time, haul
clients = [haul.Client(retries=0) for _ in range(3)]
for client in clients:
    client.bytes({origin.url("a")!r})
file = haul.Client(retries=0).open({origin.url("f", 30 << 20)!r})
file.read(1000)
child = os.fork()
if child == 0:
    file.close()
    del client, clients, file
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
begun = time.monotonic()
assert len(file.read()) == (30 << 20) - 1000
for client in clients:
    assert len(client.bytes({origin.url("b")!r})) == 1000
print(time.monotonic() - begun)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    # A socket that is not watched any more stalls for half a minute.
    assert float(done.stdout) < 10


def test_the_interpreter_ends_in_mid_transfer(origin: Origin, tmp_path: pathlib.Path) -> None:
    origin.rate = 200_000
    script = f"""
import contextlib, haul, pathlib, threading
client = haul.Client()
def get():
    with contextlib.suppress(haul.Interrupted):
        client.get({origin.url("slow", 50_000_000)!r}, {str(tmp_path / "slow")!r})
threading.Thread(target=get, daemon=True).start()
batch = client.batch([{origin.url("x", 50_000_000)!r}] * 50, dir={str(tmp_path / "d")!r})
folder = pathlib.Path({str(tmp_path)!r})
while not any(path.stat().st_size for path in folder.rglob("*slow*")): pass
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_messages_go_to_logging(origin: Origin, client: haul.Client, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    origin.answers["flaky"] = Answer(503, times=1)
    with caplog.at_level(logging.INFO, logger="haul"):
        client.get(origin.url("flaky"), tmp_path / "flaky")
        wait_for(lambda: "503" in caplog.text)
    assert caplog.records[0].name == "haul"


def test_a_put_is_stored_and_got_back(store: Store, tmp_path: pathlib.Path) -> None:
    client = haul.Client(s3=store.settings())
    source = tmp_path / "big"
    source.write_bytes(content("big", 20_000_000))
    upload = client.put(source, "s3://bucket/folder/", part_size="5M")
    assert (upload.url, upload.bytes, upload.parts) == ("s3://bucket/folder/big", 20_000_000, 4)
    assert client.get(upload.url, tmp_path / "back").bytes == 20_000_000
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert asyncio.run(client.aput(source, "s3://bucket/second")).bytes == 20_000_000
    with pytest.raises(haul.NetworkError):
        haul.Client(s3=store.settings() | {"secret_key": "wrongwrong"}, retries=0).put(source, "s3://bucket/x")
    with pytest.raises(haul.LocalIOError):
        client.put(tmp_path / "missing", "s3://bucket/x")


def test_a_put_to_http(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "f"
    source.write_bytes(b"12345")
    assert client.put(source, f"http://127.0.0.1:{origin.port}/upload").bytes == 5
    assert origin.answers["upload"].body == b"12345"
    # As the command does.
    upload = client.put(source, f"http://127.0.0.1:{origin.port}/folder/?x=1")
    assert upload.url == f"http://127.0.0.1:{origin.port}/folder/f?x=1" and origin.answers["folder/f?x=1"].body == b"12345"
    client.put(source, f"http://127.0.0.1:{origin.port}")
    assert origin.answers["f"].body == b"12345"
