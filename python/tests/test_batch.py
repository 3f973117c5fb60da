"""Batches: a result for each row, whatever happens to it."""

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import haul
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
        raise LookupError("the database is gone")

    batch = client.batch(rows())
    with pytest.raises(LookupError, match="the database is gone"):
        list(batch)
    with pytest.raises(TypeError, match="a row is a URL or a dict"):
        list(client.batch([origin.url("a"), 7]))
    with pytest.raises(haul.UsageError, match="one URL is no batch"):
        client.batch(origin.url("a"))
    with pytest.raises(TypeError):
        client.batch(7)


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
    client = haul.Client(rate_per_host=40)
    import time

    begun = time.monotonic()
    rows = [origin.url(f"f{n}", 10, host=f"127.0.0.{1 + n % 1}") for n in range(30)]
    assert client.batch(rows).run().done == 30
    assert time.monotonic() - begun > 0.5


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
    with pytest.raises(haul.UsageError):
        client.fetch_arrow(table, on_error="raise")
    shard = client.fetch_arrow(table.slice(0, 5), into="tar", path=tmp_path / "s.tar")
    assert shard.column("shard").to_pylist() == ["s.tar"] * 5 and (tmp_path / "s.tar").exists()
    placed = haul.Client(retries=0).fetch_arrow(table.slice(18), into="dir", path=tmp_path / "d")
    assert [path is None for path in placed.column("path").to_pylist()] == [False, False, True, True]
    assert "body" not in client.fetch_arrow(table.slice(0, 5), into=None).schema.names
    rows = list(client.batch(pa.Table.from_batches([table.slice(0, 3)])))
    assert len(rows) == 3
    with pytest.raises(haul.UsageError, match="column"):
        client.fetch_arrow(table, url="link")


def test_a_full_disk_stops_the_batch_and_says_so(origin: Origin, client: haul.Client) -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full")
    with pytest.raises(haul.LocalIOError) as caught:
        client.batch([origin.url("a")], tar="/dev/full").run()
    assert caught.value.kind == "local_io" and "the same call" in str(caught.value.hint)
