"""Batches: a result for each row, whatever happens to it."""

import asyncio
import collections
import itertools
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import haul
from haul import _haul
from conftest import Answer, Origin, content, wait_for


def test_every_row_has_a_result(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["bad"] = Answer(404)
    rows: list[object] = [origin.url(f"f{n}") for n in range(100)]
    rows += [origin.url("bad"), None, "ftp://me:pw@h/x", "nonsense", {"url": origin.url("named"), "path": "sub/name"}]
    rows += [{"url": origin.url("wrong"), "sha256": "0" * 64}, {"url": origin.url("p"), "path": "../out"}]
    with client.batch(rows, dir=tmp_path / "d") as batch:
        found = {row.index: row for row in batch}
    assert sorted(index for index in found if index is not None) == list(range(len(rows)))
    assert all(found[n].ok and found[n].bytes == 1000 for n in range(100))
    assert (found[100].status, found[100].error_class, found[100].state) == (404, "network", "failed")
    assert [found[n].error_class for n in (101, 102, 103)] == ["usage"] * 3
    assert (tmp_path / "d/sub/name").read_bytes() == content("named", 1000)
    assert (found[105].error_class, found[106].error_class) == ("verification", "usage")
    # Rows that cannot be used keep their URL, without secrets.
    assert [found[n].url for n in (101, 102, 103, 106)] == ["", "ftp://***@h/x", "nonsense", origin.url("p")]
    # Where there is no file there is no path.
    assert all((row.path is not None) == row.ok for row in found.values())
    snapshot = batch.snapshot()
    assert (snapshot.done, snapshot.failed, snapshot.listed) == (101, 6, 107)
    assert ("404 Not Found", 1) in snapshot.causes
    assert found[0].as_dict()["url"] == origin.url("f0")


def test_a_row_with_an_odd_value_fails_alone(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    nan, text = float("nan"), "http://h/\udc80"
    bad = [nan, text, {"url": nan}, {"url": text}, {"url": 7}, {"url": origin.url("a"), "path": 1.5j}, {"url": origin.url("a"), "mirrors": 7}]
    bad += [{"url": origin.url("a"), "size": 10.5}, {"url": origin.url("a"), "headers": [7]}, {"url": origin.url("a"), "path": b"\xff"}]
    good: list[object] = [
        {"url": origin.url("b"), "path": nan, "size": 1000.0, "mirrors": [None, nan], "headers": nan, 7: 8, "caption": object()},
        {"url": origin.url("c"), "mirrors": origin.url("d"), "path": pathlib.Path("x/y"), "size": 1000},
        {"url": origin.url("e").encode(), "path": b"z", "mirrors": None},
    ]
    found = {row.index: row for row in client.batch(bad + good, dir=tmp_path)}
    assert [found[n].error_class for n in range(len(bad))] == ["usage"] * len(bad)
    assert "codec can't encode" in str(found[1].error) and "path:" in str(found[5].error)
    assert all(found[len(bad) + n].ok for n in range(len(good))), found
    assert (tmp_path / "x/y").exists() and (tmp_path / "z").exists() and not (tmp_path / "nan").exists()


def test_without_a_place_rows_have_their_bodies(origin: Origin, client: haul.Client) -> None:
    sizes = [0, 1, 1000, 300_000, 3_000_000] * 4
    rows = [origin.url(f"f{n}", size) for n, size in enumerate(sizes)]
    # The same URL twice is two rows.
    rows += [rows[0], rows[2]]
    found = {row.index: row for row in client.batch(rows)}
    assert len(found) == len(rows)
    for n, size in enumerate(sizes):
        assert found[n].body == content(f"f{n}", size), n
    assert found[len(sizes) + 1].body == content("f2", 1000)


def test_bodies_are_mapped_in_threads_and_an_exception_fails_its_row(origin: Origin, client: haul.Client) -> None:
    names: set[str] = set()

    def length(body: bytes) -> int:
        names.add(threading.current_thread().name)
        return 100 // (len(body) - 7) * 0 + len(body)

    rows = [origin.url(f"f{n}", 7 if n == 5 else 1000 + n) for n in range(50)]
    found = {row.index: row for row in client.batch(rows, map=length, map_threads=4)}
    assert len(found) == 50 and 1 <= len(names) <= 4
    assert all(name.startswith("haul map") for name in names)
    assert (found[5].error_class, found[5].state, found[5].value) == ("map", "failed", None)
    assert "ZeroDivisionError" in str(found[5].error)
    assert all(found[n].value == 1000 + n and found[n].body is None for n in range(50) if n != 5)


def test_rows_are_pulled_as_there_is_room(origin: Origin, client: haul.Client) -> None:
    pulled = 0

    def rows() -> Iterator[str]:
        nonlocal pulled
        while True:
            pulled += 1
            yield origin.url(f"f{pulled}", 10)

    with client.batch(rows()) as batch:
        for count, _ in enumerate(batch):
            if count > 300:
                break
    assert 300 < pulled < 20_000


def test_an_exception_of_the_rows_is_raised_behind_their_results(origin: Origin, client: haul.Client) -> None:
    def rows() -> Iterator[str]:
        for n in range(20):
            yield origin.url(f"f{n}")
        wait_for(lambda: found)
        raise LookupError("the database is gone")

    found: list[haul.Row] = []
    with pytest.raises(LookupError, match="the database is gone"):
        for row in client.batch(rows()):
            found.append(row)
    assert found and all(row.ok for row in found)
    with pytest.raises(TypeError, match="a row is a URL or a dict"):
        list(client.batch([origin.url("a"), 7]))
    with pytest.raises(haul.UsageError, match="one URL is no batch"):
        client.batch(origin.url("a"))
    with pytest.raises(TypeError):
        client.batch(7)


@pytest.mark.parametrize("place", ["memory", "dir", "tar"])
def test_c9_a_row_is_fetched_before_the_next_is_given(
    origin: Origin, client: haul.Client, tmp_path: pathlib.Path, place: str
) -> None:
    results: queue.SimpleQueue[haul.Row] = queue.SimpleQueue()

    def crawl() -> Iterator[str]:
        # First some at once, so that haul takes the iterator for a fast one; then each link is in the page before it.
        for n in range(600):
            yield origin.url(f"start{n}", 10)
        for _ in range(600):
            assert results.get(timeout=30).ok
        for n in range(20):
            yield origin.url(f"page{n}", 10)
            assert results.get(timeout=30).ok

    where = {} if place == "memory" else {place: tmp_path / place}
    count = 0
    for row in client.batch(crawl(), **where):  # type: ignore[arg-type]
        results.put(row)
        count += 1
    assert count == 620


def test_c9_a_row_begins_at_once(origin: Origin, client: haul.Client) -> None:
    """Each row is asked for within a moment, while the iterator waits for something else."""
    seconds: list[float] = []

    def rows() -> Iterator[dict[str, str]]:
        for n in range(30):
            begun = time.monotonic()
            yield {"url": origin.url(f"f{n}", 10)}
            wait_for(lambda: origin.count() > n)  # noqa: B023
            seconds.append(time.monotonic() - begun)

    assert client.batch(rows()).run().done == 30
    # The median: a machine that is busy makes some of them late.
    assert sorted(seconds)[15] < 0.05


def test_c9_a_bad_row_is_reported_before_the_next_is_given(client: haul.Client) -> None:
    reported = threading.Event()

    def rows() -> Iterator[object]:
        yield "nonsense"
        assert reported.wait(30)
        yield None

    for row in client.batch(rows()):
        assert row.error_class == "usage"
        reported.set()


def test_c9_every_row_that_was_given_is_reported_when_the_rows_fail(
    origin: Origin, client: haul.Client, tmp_path: pathlib.Path
) -> None:
    gate = threading.Event()
    origin.answers["held"] = Answer(gate=gate)

    def rows(last: object) -> Iterator[object]:
        yield origin.url("held")
        for n in range(700):
            yield origin.url(f"f{n}", 10)
        if last is None:
            gate.set()
            raise LookupError("the database is gone")
        # What is no row ends the rows as an exception does.
        yield last
        raise AssertionError("nobody wants it")

    for last, error in ((None, LookupError), (7, TypeError)):
        found = []
        batch = client.batch(rows(last), dir=tmp_path / str(last), manifest=tmp_path / f"{last}.jsonl")
        with pytest.raises(error, match="the database is gone|a row is a URL"):
            for row in batch:
                gate.set()
                found.append(row)
        assert len(found) == 701 and all(row.ok for row in found)
        assert len((tmp_path / f"{last}.jsonl").read_text().splitlines()) == 701


def test_c9_a_batch_that_is_cancelled_takes_no_more_rows(origin: Origin, client: haul.Client) -> None:
    given, ended = threading.Event(), threading.Event()

    def rows() -> Iterator[str]:
        try:
            for n in itertools.count():
                given.set()
                yield origin.url(f"f{n}", 10)
        finally:
            ended.set()

    with client.batch(rows()) as batch:
        assert given.wait(30)
        batch.cancel()
    del batch
    # The generator is dropped, and does not run on behind the scenes.
    assert ended.wait(30)


def test_c9_a_list_in_a_pipe_is_read_line_by_line(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "list"
    os.mkfifo(pipe)
    done = threading.Semaphore(0)

    def write() -> None:
        with open(pipe, "w") as file:
            for n in range(4):
                print(origin.url(f"f{n}"), file=file, flush=True)
                assert done.acquire(timeout=30)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        for row in client.batch(pipe):
            assert row.ok
            done.release()
        written.result()


def test_f38_every_digest_of_a_row_is_compared(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    url, names = origin.url("f"), _haul.digest_names
    assert len(names) >= 8
    (row,) = client.batch([url], checksum="md5")
    right = {}
    for name in names:
        (row,) = client.batch([url], checksum=name)
        right[name] = str(row.checksum).removeprefix(f"{name}:")
    wrong = {name: ("1" if digest[0] == "0" else "0") + digest[1:] for name, digest in right.items()}
    for name in names:
        spellings = [name, name.upper(), name.replace("sha", "SHA-"), f"{name}sum"]
        for spelling in spellings:
            rows = [{"url": url, spelling: right[name]}, {"url": url, spelling: wrong[name]}, {"url": url, spelling: None}]
            expected = [None, "verification", None]
            found = {row.index: row.error_class for row in client.batch(rows)}
            assert [found[n] for n in range(3)] == expected, spelling
            # The same rows as Arrow's, from a file with JSON lines, and from one with columns.
            table = pa.Table.from_pylist(rows)
            assert client.fetch_arrow(table.to_batches()[0]).column("error_class").to_pylist() == expected, spelling
            found = {row.index: row.error_class for row in client.batch(table)}
            assert [found[n] for n in range(3)] == expected, spelling
            json_lines, csv = tmp_path / "l.jsonl", tmp_path / "l.csv"
            json_lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
            csv.write_text(f"url,{spelling}\n" + "".join(f"{url},{row[spelling] or ''}\n" for row in rows))
            for path in (json_lines, csv):
                classes = collections.Counter(row.error_class for row in client.batch(path))
                assert classes == {None: 2, "verification": 1}, (path, spelling)


@pytest.mark.parametrize("name", ["sha384", "SHA3-256", "blake2b", "xxh64", "md4"])
def test_f38_a_digest_that_haul_does_not_know_is_an_error_of_the_row(origin: Origin, client: haul.Client, name: str) -> None:
    rows = [{"url": origin.url("f"), name: "abcdef"}, {"url": origin.url("g"), name: None}]
    table = pa.Table.from_pylist(rows)
    for given in (rows, table):
        found = {row.index: row for row in client.batch(given)}
        assert (found[0].error_class, found[1].ok) == ("usage", True)
        assert f"{name.lower()} is a digest that haul cannot compare; it knows sha256," in str(found[0].error).lower()
    assert client.fetch_arrow(table.to_batches()[0]).column("error_class").to_pylist() == ["usage", None]
    # Columns of other names are the caller's.
    assert all(row.ok for row in client.batch([{"url": origin.url("f"), "sha": "1", "hash": "2", "phash": "3", "url_md5": "4"}]))


def test_f38_a_digest_is_a_text(origin: Origin, client: haul.Client) -> None:
    found = {row.index: row for row in client.batch([{"url": origin.url("f"), "crc32": 12345678}, {"url": origin.url("g"), "md5": b"\xff" * 16}])}
    assert [found[n].error_class for n in range(2)] == ["usage", "usage"] and "hexadecimal" in str(found[0].error)


def test_an_exception_waits_for_bodies_that_are_mapped(origin: Origin, client: haul.Client) -> None:
    rows, failed = list(client.batch([origin.url("a"), origin.url("b"), "nonsense"])), threading.Event()

    class Handle:
        """A batch that fails while its bodies are mapped."""

        def next_rows(self, count: int, seconds: float) -> list[haul.Row]:
            if rows:
                return [rows.pop()]
            failed.set()
            raise LookupError("the database is gone")

    def length(body: bytes) -> int:
        assert failed.wait(30)
        return len(body)

    batch = haul.Batch(Handle(), client, length, 4)  # type: ignore[arg-type]
    found: list[haul.Row] = []
    with pytest.raises(LookupError, match="the database is gone"):
        for row in batch:
            found.append(row)
    assert sorted(str(row.value) for row in found) == ["1000", "1000", "None"]
    assert list(batch) == []


def test_a_list_file_is_read_as_the_command_reads_it(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("url,path\n" + "".join(f"{origin.url(f'f{n}')},n{n}\n" for n in range(5)))
    snapshot = client.batch(path, dir=tmp_path / "d").run()
    assert (snapshot.done, sorted(os.listdir(tmp_path / "d"))) == (5, [f"n{n}" for n in range(5)])
    with pytest.raises(haul.LocalIOError, match="cannot read"):
        client.batch(tmp_path / "missing.txt")


def test_a_manifest_continues(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["f3"] = Answer(404, times=1)
    rows = [origin.url(f"f{n}") for n in range(10)]
    first = client.batch(rows, dir=tmp_path / "d", manifest=tmp_path / "m.jsonl").run()
    assert (first.done, first.failed) == (9, 1)
    before = origin.count()
    again = client.batch(rows, dir=tmp_path / "d", manifest=tmp_path / "m.jsonl").run()
    assert (again.done, again.failed, origin.count() - before) == (10, 0, 1)
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) >= 11


def test_other_threads_run_while_a_manifest_is_read(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    manifest, ended, ticks = tmp_path / "m.jsonl", threading.Event(), 0
    client.batch([origin.url("a")], dir=tmp_path / "d", manifest=manifest).run()
    manifest.write_text(manifest.read_text() * 100_000)

    def count() -> None:
        nonlocal ticks
        while not ended.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = ticks
    batch = client.batch([origin.url("a")], dir=tmp_path / "d", manifest=manifest)
    found = ticks - before
    ended.set()
    thread.join()
    assert batch.run().done == 1 and found > 10


def test_shards_have_entries_where_rows_say(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    rows = [{"url": origin.url(f"f{n}", 10_000), "path": f"{n:03}.bin"} for n in range(40)]
    found = list(client.batch(rows, tar=tmp_path / "t.tar", shard_size="100k"))
    shards = sorted(path.name for path in tmp_path.glob("t-*.tar"))
    assert len(shards) > 2 and {row.shard for row in found} == set(shards)
    for row in found:
        with open(tmp_path / str(row.shard), "rb") as file:
            file.seek(row.offset or 0)
            with tarfile.open(fileobj=file, mode="r|") as archive:
                entry = archive.next()
                assert entry is not None and entry.name == row.path
                body = archive.extractfile(entry)
                assert body is not None and body.read() == content(f"f{int(entry.name[:3])}", 10_000)


def test_a_repeated_url_has_the_result_of_the_first(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["bad"] = Answer(404)
    rows = [origin.url("a"), origin.url("bad"), origin.url("a"), origin.url("bad"), origin.url("a")]
    for place in ({"dir": tmp_path / "d"}, {"tar": tmp_path / "t.tar"}):
        batch = client.batch(rows, **place, checksum="sha256")  # type: ignore[arg-type]
        found = {row.index: row.as_dict() | {"index": None, "attempts": 0, "ms": 0} for row in batch}
        assert found[2] == found[4] == found[0] and found[3] == found[1]
        assert (found[4]["state"], found[4]["bytes"], found[3]["status"]) == ("done", 1000, 404)
        assert (batch.snapshot().done, batch.snapshot().failed) == (3, 2)
        assert batch.snapshot().causes == [("404 Not Found", 2)]
    assert (found[4]["shard"], found[4]["offset"], found[4]["checksum"]) == ("t.tar", 0, found[0]["checksum"])
    assert origin.count("a") == 2
    table = client.fetch_arrow(pa.record_batch({"url": rows}), into="tar", path=tmp_path / "u.tar")
    assert table.column("offset").to_pylist() == [0, None, 0, None, 0]


def test_async_iteration(origin: Origin, client: haul.Client) -> None:
    async def run() -> int:
        async with client.batch([origin.url(f"f{n}") for n in range(50)]) as batch:
            return len([row async for row in batch if row.ok])

    assert asyncio.run(run()) == 50


def test_a_robots_tag_is_respected_unless_told_otherwise(origin: Origin, client: haul.Client) -> None:
    origin.answers["private"] = Answer(headers={"X-Robots-Tag": "noai, noimageai"})
    rows = [origin.url("private"), origin.url("public")]
    found = {row.index: row for row in client.batch(rows)}
    assert (found[0].ok, found[1].ok) == (False, True)
    assert "X-Robots-Tag" in str(found[0].error) and found[0].body is None
    assert all(row.ok for row in client.batch(rows, robots_tag="ignore"))


def test_types_and_sizes_are_expected(origin: Origin, client: haul.Client) -> None:
    origin.answers["page"] = Answer(body=b"<html>", headers={"Content-Type": "text/html"})
    origin.answers["image"] = Answer(body=b"png", headers={"Content-Type": "image/png"})
    rows = [origin.url("page"), origin.url("image"), origin.url("large", 10_000)]
    found = {row.index: row for row in client.batch(rows, expect_type="image/*", max_size=5000)}
    assert [found[n].ok for n in range(3)] == [False, True, False]


def test_a_rate_per_host_holds_for_each_host(origin: Origin) -> None:
    others = [Origin() for _ in range(4)]
    begun = time.monotonic()
    rows = [one.url(f"f{n}", 10) for n in range(20) for one in (origin, *others)]
    assert haul.Client(rate_per_host=10).batch(rows).run().done == 100
    elapsed = time.monotonic() - begun
    for other in others:
        other.close()
    # One rate for all of them would take ten seconds.
    assert 1.5 < elapsed < 7


def test_a48_a_file_that_drips_is_a_failed_row_and_a_call_has_its_time(origin: Origin, tmp_path: pathlib.Path) -> None:
    origin.rate = 2000
    rows = [origin.url(f"f{n}", 50) for n in range(5)] + [origin.url("drip", 20_000)]
    client = haul.Client(min_rate=("20k", 0.5))
    with client.batch(rows, dir=tmp_path) as batch:
        failed = [row for row in batch if not row.ok]
    assert [row.index for row in failed] == [5]
    assert failed[0].error_class == "network" and " is too slow: " in str(failed[0].error)
    assert haul.Client(min_rate=0).batch([origin.url("slow", 2000)], dir=tmp_path).run().done == 1
    with pytest.raises(haul.NetworkError, match="is not complete after 1 s") as caught:
        haul.Client(max_time=1).get(origin.url("long", 20_000), tmp_path / "long")
    assert caught.value.hint and caught.value.retryable
    with pytest.raises(haul.NetworkError, match="is too slow: ") as caught:
        client.bytes(origin.url("body", 20_000))
    assert caught.value.hint and "min_rate=" in caught.value.hint


def test_a_limit_can_be_changed_while_it_runs(origin: Origin, tmp_path: pathlib.Path) -> None:
    client = haul.Client(limit="100k")
    with client.batch([origin.url("big", 3_000_000)], dir=tmp_path) as batch:
        wait_for(lambda: origin.count() > 0)
        batch.limit = "1G"
        assert batch.limit == 1 << 30
        assert [row.ok for row in batch] == [True]


def test_cancel_keeps_what_is_there(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    gate = threading.Event()
    origin.answers["held"] = Answer(gate=gate)
    with client.batch([origin.url("a"), origin.url("held")], dir=tmp_path) as batch:
        rows = iter(batch)
        assert next(rows).ok
        batch.cancel()
        assert list(rows) == []
    gate.set()
    assert [name.split("?")[0] for name in os.listdir(tmp_path)] == ["a"]


def test_ctrl_c_ends_a_batch_and_the_manifest_goes_on(origin: Origin, tmp_path: pathlib.Path) -> None:
    origin.rate = 20_000
    rows = [origin.url(f"f{n}", 10_000) for n in range(2000)]
    (tmp_path / "list").write_text("\n".join(rows))
    script = f"""
import haul
with haul.Client(connections_per_host=4).batch({str(tmp_path / "list")!r}, dir={str(tmp_path / "d")!r}, manifest={str(tmp_path / "m.jsonl")!r}) as batch:
    for row in batch:
        print(row.url, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    done = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert 0 < len(done) < 2000 and all(row["state"] == "done" for row in done)


def test_the_allocator_has_its_settings() -> None:
    # At its end it says what they are.
    settings = {**os.environ, "_RJEM_MALLOC_CONF": "stats_print:true"}
    done = subprocess.run([sys.executable, "-c", "import haul"], capture_output=True, text=True, timeout=60, check=True, env=settings)
    assert "  opt.narenas: 2\n" in done.stderr


def test_a_column_of_bodies_grows(origin: Origin, client: haul.Client) -> None:
    # Past its first memory, by bodies that were kept in memory and by some that were not, and by one that is larger than all before it.
    sizes = [0, 200_000, 300_000, 0, 1, *[50_000] * 20, 5_000_000, 7]
    table = pa.record_batch({"url": [origin.url(f"grown{n}", size) for n, size in enumerate(sizes)]})
    bodies = client.fetch_arrow(table).column("body").to_pylist()
    assert bodies == [content(f"grown{n}", size) for n, size in enumerate(sizes)]
    empty = client.fetch_arrow(table.slice(0, 1)).column("body").to_pylist()
    assert empty == [b""]


def test_arrow_columns_come_out(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["bad"] = Answer(500)
    urls = [origin.url(f"f{n}", 10 * n) for n in range(20)] + [None, origin.url("bad")]
    table = pa.record_batch({"url": urls, "label": list(range(22))})
    found = haul.Client(retries=0).fetch_arrow(table)
    assert found.schema.names[:2] == ["url", "label"] and found.num_rows == 22
    bodies = found.column("body").to_pylist()
    assert bodies == [content(f"f{n}", 10 * n) for n in range(20)] + [None, None]
    assert found.column("status").to_pylist()[-1] == 500
    assert found.column("error_class").to_pylist()[-2:] == ["usage", "network"]
    with pytest.raises(haul.UsageError, match="there is no URL"):
        client.fetch_arrow(table, on_error="raise")
    shard = client.fetch_arrow(table.slice(0, 5), into="tar", path=tmp_path / "s.tar")
    assert shard.column("shard").to_pylist() == ["s.tar"] * 5 and (tmp_path / "s.tar").exists()
    placed = haul.Client(retries=0).fetch_arrow(table.slice(18), into="dir", path=tmp_path / "d")
    assert [path is None for path in placed.column("path").to_pylist()] == [False, False, True, True]
    assert "body" not in client.fetch_arrow(table.slice(0, 5), into=None).schema.names
    columns = pa.Table.from_batches([table.slice(0, 3)])

    class Series:
        """A column of another library."""

        def __arrow_c_stream__(self, schema: object = None) -> object:
            return columns["url"].__arrow_c_stream__(schema)

    for rows in (columns, table.slice(0, 3), columns["url"], table.column("url").slice(0, 3), Series()):
        assert [row.bytes for row in sorted(client.batch(rows), key=lambda row: row.index or 0)] == [0, 10, 20]
    with pytest.raises(TypeError, match="not int"):
        client.batch(columns["label"]).run()
    with pytest.raises(haul.UsageError, match="no column url"):
        client.batch(columns.select(["label"]))
    for wrong in ("dir", "tar", "map_threads"):
        with pytest.raises(haul.UsageError, match=f"{wrong}: it is for batch"):
            client.fetch_arrow(table, **{wrong: 3})
    with pytest.raises(haul.UsageError, match="column"):
        client.fetch_arrow(table, url="link")


def test_bodies_are_in_the_order_of_rows_in_whatever_order_they_come(origin: Origin) -> None:
    gate = threading.Event()
    late, gone = {0, 1, 7, 30}, {3, 8, 29, 120}
    for n in late:
        origin.answers[f"f{n}"] = Answer(gate=gate)
    for n in gone:
        origin.answers[f"f{n}"] = Answer(404)
    # One is too large for memory, and most are further ahead than bodies may be without a copy.
    sizes = [400_000 if n == 40 else n * 10 for n in range(150)]
    table = pa.record_batch({"url": [origin.url(f"f{n}", size) for n, size in enumerate(sizes)]})
    client = haul.Client(retries=0, connections_per_host=50)
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(client.fetch_arrow, table)
        wait_for(lambda: len({path for _, path, _ in origin.requests}) == len(sizes))
        gate.set()
        bodies = fetched.result().column("body").to_pylist()
    assert bodies == [None if n in gone else content(f"f{n}", size) for n, size in enumerate(sizes)]


def test_an_exception_of_fetch_arrow_is_that_of_a_get(origin: Origin, client: haul.Client) -> None:
    origin.answers["bad"] = Answer(404)
    url = origin.url("bad").replace("http://", "http://me:s3cret@") + "&X-Amz-Signature=s3cret"
    with pytest.raises(haul.NetworkError) as caught:
        client.fetch_arrow(pa.record_batch({"url": [url]}), on_error="raise")
    error = caught.value
    assert (error.kind, error.status, error.hint, error.retryable) == ("404 Not Found", 404, "check the URL", False)
    assert str(error.url).startswith("http://127.0.0.1") and "s3cret" not in repr(error) + str(error) + repr(error.args)
    origin.answers["busy"] = Answer(503)
    with pytest.raises(haul.NetworkError) as caught:
        haul.Client(retries=0).fetch_arrow(pa.record_batch({"url": [origin.url("busy")]}), on_error="raise")
    assert caught.value.retryable


def test_a_batch_that_was_left_does_not_keep_the_interpreter(origin: Origin) -> None:
    script = f"""
import haul, sys
batch = haul.Client().batch({origin.url("x", 10)!r} for _ in range(100_000))
for row in batch:
    break
sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        # More than may wait for somebody who takes them.
        wait_for(lambda: origin.count() > 300)
        begun = time.monotonic()
        process.communicate(b"\n", timeout=30)
    assert process.returncode == 0 and time.monotonic() - begun < 4


def test_a_full_disk_stops_the_batch_and_says_so(origin: Origin, client: haul.Client) -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full")
    with pytest.raises(haul.LocalIOError) as caught:
        client.batch([origin.url("a")], tar="/dev/full").run()
    assert caught.value.kind == "local_io" and "the same call" in str(caught.value.hint)
