"""Uploads of many files, copies inside a store, and syncs."""

from __future__ import annotations

import asyncio
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import haul

from conftest import Answer, Origin, Store, content, fill, keys, wait_for


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with three files."""
    root = tmp_path / "folder"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"a" * 10)
    (root / "b.jpg").write_bytes(b"b" * 20)
    (root / "sub" / "c.txt").write_bytes(b"c" * 30)
    return root


def test_folders_and_files_are_uploaded(
    store_client: haul.Client, store: Store, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    alone = tmp_path / "alone"
    alone.write_bytes(b"1")
    reports: list[tuple[int, int | None]] = []
    summary = store_client.put_many(
        [folder, alone], "s3://bucket/up", exclude="*.jpg", progress=lambda done, length: reports.append((done, length))
    )
    assert summary == haul.Summary(done=3, bytes=41)
    assert summary.ok
    summary.raise_for_failures()
    assert keys(store) == ["up/a.txt", "up/alone", "up/sub/c.txt"]
    assert reports
    assert asyncio.run(store_client.aput_many(str(alone), "s3://bucket/", content_type="text/x")).done == 1
    assert keys(store)[0] == "alone"


def test_a_dry_run_uploads_nothing(store_client: haul.Client, store: Store, folder: pathlib.Path) -> None:
    with store_client.iter_put_many(folder, "s3://bucket/up/", dry_run=True) as uploads:
        rows = sorted(uploads, key=lambda row: row.source or "")
    assert [(row.action, row.state, row.target, row.bytes) for row in rows] == [
        ("upload", "planned", "s3://bucket/up/a.txt", 10),
        ("upload", "planned", "s3://bucket/up/b.jpg", 20),
        ("upload", "planned", "s3://bucket/up/sub/c.txt", 30),
    ]
    assert rows[0].source == str(folder / "a.txt")
    assert keys(store) == []


def test_a_file_that_fails_does_not_stop_the_others(
    store_client: haul.Client, store: Store, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    twin = tmp_path / "a.txt"
    twin.write_bytes(b"another")
    summary = store_client.put_many([folder / "a.txt", twin, tmp_path / "missing", folder / "b.jpg"], "s3://bucket/")
    assert (summary.done, summary.failed, summary.ok) == (2, 2, False)
    taken, missing = (failure.error for failure in summary.failures)
    assert isinstance(taken, haul.UsageError) and taken.hint == "upload it to another prefix"
    assert isinstance(missing, haul.LocalIOError)
    with pytest.raises(haul.UsageError, match="not uploaded"):
        summary.raise_for_failures()
    copy = pickle.loads(pickle.dumps(summary))
    assert str(copy.failures[0].error) == str(taken)


def test_a_failed_file_has_its_name(
    store_client: haul.Client, store: Store, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    missing, link = tmp_path / "missing", folder / "link"
    link.symlink_to(folder / "nowhere")
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    for dry_run in (True, False):
        summary = store_client.put_many([missing, folder], "s3://bucket/up/", dry_run=dry_run)
        assert {failure.source for failure in summary.failures} == {str(missing), str(link), str(fifo)}
    assert {failure.source for failure in store_client.sync(folder, "s3://bucket/up/").failures} == {str(link), str(fifo)}
    fill(store, ["a", "link/a"])
    [absent] = store_client.copy(["s3://bucket/none"], "s3://bucket/to/").failures
    [itself] = store_client.copy(["s3://bucket/a"], "s3://bucket/").failures
    assert (absent.source, itself.source) == ("s3://bucket/none", "s3://bucket/a")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = tmp_path / "down"
    target.mkdir()
    (target / "link").symlink_to(elsewhere)
    [behind_link] = store_client.sync("s3://bucket/", target, include="link/*").failures
    assert (behind_link.source, behind_link.target) == (None, str(target / "link"))


def test_a_manifest_skips_what_was_uploaded(
    store_client: haul.Client, store: Store, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    manifest = tmp_path / "up.jsonl"
    assert store_client.put_many(folder, "s3://bucket/", manifest=manifest).done == 3
    (folder / "a.txt").write_bytes(b"changed")
    summary = store_client.put_many(folder, "s3://bucket/", manifest=manifest)
    assert (summary.done, summary.skipped) == (1, 2)


def test_nothing_is_replaced_if_the_caller_says_so(
    store_client: haul.Client, store: Store, folder: pathlib.Path
) -> None:
    fill(store, ["a.txt"])
    summary = store_client.put_many(folder, "s3://bucket/", if_none_match=True)
    assert (summary.done, summary.failed) == (2, 1)
    assert (store.folder / "bucket" / "a.txt").read_bytes() == b"a.txt"


def test_files_go_to_a_folder_of_http(client: haul.Client, origin: Origin, folder: pathlib.Path) -> None:
    url = f"http://127.0.0.1:{origin.port}/up"
    assert client.put_many(folder, url).done == 3
    assert origin.answers["up/sub/c.txt"].body == b"c" * 30


def test_what_refuses_every_file_is_an_exception(store: Store, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(500):
        (folder / f"{number}").touch()
    client = haul.Client(retries=0, s3=store.settings() | {"secret_key": "wrong"})
    uploads = client.iter_put_many(folder, "s3://bucket/")
    with pytest.raises(haul.NetworkError, match="every other file"):
        list(uploads)
    assert uploads.summary().failures[0].error.status == 403  # type: ignore[union-attr]


def test_arguments_are_checked(client: haul.Client, folder: pathlib.Path) -> None:
    with pytest.raises(haul.UsageError, match="paths"):
        client.put_many("s3://bucket/a", "s3://bucket/b")
    with pytest.raises(haul.UsageError, match="auth"):
        client.put_many(folder, "s3://bucket/", auth="token")
    with pytest.raises(haul.UsageError, match="recursive"):
        client.copy("s3://bucket/a", "s3://bucket/b", exclude="*")
    with pytest.raises(haul.UsageError, match="neither"):
        client.sync(folder, folder)
    with pytest.raises(haul.UsageError, match="max_delete"):
        client.sync(folder, "s3://bucket/", max_delete=3)
    with pytest.raises(haul.UsageError, match="headers"):
        client.sync("s3://bucket/", folder, headers={"x-amz-acl": "private"})
    with pytest.raises(haul.UsageError, match="S3 does not have blake3"):
        client.put_many(folder, "s3://bucket/", checksum_algorithm="blake3")
    with pytest.raises(haul.UsageError, match="checksum_algorithm"):
        client.put(folder / "a.txt", "s3://bucket/", checksum_algorithm=7)  # type: ignore[arg-type]
    for call in (client.put, client.put_many):
        with pytest.raises(haul.UsageError, match="checksum_algorithm: .* not for URLs"):
            call(folder / "a.txt", "http://127.0.0.1:1/", checksum_algorithm="sha256")
    for name, value in {"part_size": "5M", "checksum_algorithm": "sha256"}.items():
        with pytest.raises(haul.UsageError, match=f"{name}: it is for objects"):
            client.sync("s3://bucket/", folder, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(haul.UsageError, match="manifest"):
        client.put_many(folder, "s3://bucket/", manifest=folder / "list.jsonl", dry_run=True)
    assert not (folder / "list.jsonl").exists()
    with pytest.raises(TypeError, match="part_size"):
        client.put(folder / "a.txt", "s3://bucket/", partsize="5M")  # type: ignore[call-arg]


def test_s3_checks_the_bytes_by_another_digest(origin: Origin, folder: pathlib.Path) -> None:
    store = {"endpoint_url": f"http://127.0.0.1:{origin.port}", "no_sign_request": True}
    client = haul.Client(s3=store)
    client.put(folder / "a.txt", "s3://bucket/one", checksum_algorithm="sha256")
    assert client.put_many(folder / "a.txt", "s3://bucket/two", checksum_algorithm="SHA-1").done == 1
    fields = [{name.lower() for name in sent if "checksum" in name.lower()} for sent in origin.headers]
    assert fields == [{"x-amz-checksum-sha256"}, {"x-amz-checksum-sha1"}]


def test_an_upload_that_is_not_resumed_begins_again(
    store_client: haul.Client, store: Store, tmp_path: pathlib.Path
) -> None:
    source = tmp_path / "big"
    source.write_bytes(content("big", 20_000_000))
    for resume in (True, False):
        slow = haul.Client(s3=store.settings(), limit="4M")
        with pytest.raises(RuntimeError):
            # One part after the other, so that two are complete by then.
            slow.put(source, "s3://bucket/big", part_size="5M", connections=1, progress=_stop_after_two_parts)
        upload = store_client.put(source, "s3://bucket/big", part_size="5M", resume=resume)
        assert (upload.resumed > 0) is resume
        assert upload.bytes == 20_000_000


def _stop_after_two_parts(done: int, length: int | None) -> None:
    if done > 12_000_000:
        raise RuntimeError("enough")


def test_objects_are_copied_inside_a_store(store_client: haul.Client, store: Store) -> None:
    fill(store, ["a", "photos/1.jpg", "photos/2/3.jpg"])
    summary = store_client.copy("s3://bucket/a", "s3://bucket/b")
    assert (summary.done, summary.bytes) == (1, 1)
    store_client.copy("s3://bucket/photos", "s3://bucket/album", recursive=True)
    assert keys(store) == ["a", "album/1.jpg", "album/2/3.jpg", "b", "photos/1.jpg", "photos/2/3.jpg"]
    with store_client.iter_copy("s3://bucket/photos/*.jpg", "s3://bucket/copies/", glob=True, dry_run=True) as copies:
        assert {row.state for row in copies} == {"planned"}
    missing = store_client.copy(["s3://bucket/none", "s3://bucket/a"], "s3://bucket/to/")
    assert (missing.done, missing.failed) == (1, 1)
    assert missing.failures[0].error is not None and missing.failures[0].error.status == 404
    with pytest.raises(haul.UsageError, match="inside"):
        store_client.copy("s3://bucket/photos", "s3://bucket/photos/new/", recursive=True)
    assert asyncio.run(store_client.acopy("s3://bucket/a", "s3://bucket/c")).done == 1


def test_a_folder_and_a_prefix_are_made_alike(
    store_client: haul.Client, store: Store, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    fill(store, ["up/old"])
    planned = store_client.sync(folder, "s3://bucket/up/", delete=True, dry_run=True)
    assert (planned.done, planned.deleted) == (3, 1)
    assert keys(store) == ["up/old"]
    assert store_client.sync(folder, "s3://bucket/up/", delete=True) == haul.Summary(done=3, deleted=1, bytes=60)
    assert keys(store) == ["up/a.txt", "up/b.jpg", "up/sub/c.txt"]
    assert store_client.sync(folder, "s3://bucket/up/", delete=True) == haul.Summary()
    target = tmp_path / "down"
    (target / "x").mkdir(parents=True)
    (target / "x" / "extra").touch()
    with store_client.iter_sync("s3://bucket/up", target, delete=True) as sync:
        rows = {(row.action, row.target) for row in sync}
    assert ("delete", str(target / "x" / "extra")) in rows
    assert len(rows) == 4 and sync.summary().ok
    assert (target / "sub" / "c.txt").read_bytes() == b"c" * 30
    asyncio.run(store_client.async_sync("s3://bucket/up/", "s3://bucket/copy/", exclude="*.jpg"))
    assert [key for key in keys(store) if key.startswith("copy/")] == ["copy/a.txt", "copy/sub/c.txt"]


def test_a_sync_compares_contents_if_asked(store_client: haul.Client, store: Store, folder: pathlib.Path) -> None:
    store_client.sync(folder, "s3://bucket/")
    (folder / "a.txt").write_bytes(b"A" * 10)
    os.utime(folder / "a.txt", (1_000_000_000, 1_000_000_000))
    assert store_client.sync(folder, "s3://bucket/").done == 0
    assert store_client.sync(folder, "s3://bucket/", checksum=True).done == 1


def test_a_sync_that_is_not_resumed_leaves_no_partial_file(store: Store, tmp_path: pathlib.Path) -> None:
    (store.folder / "bucket" / "big").write_bytes(content("big", 20_000_000))
    for resume in (True, False):
        target = tmp_path / f"down-{resume}"
        slow = haul.Client(s3=store.settings(), limit="4M")
        with pytest.raises(RuntimeError):
            slow.sync("s3://bucket/", target, resume=resume, progress=_stop_on_the_way)
        assert any(target.iterdir()) is resume


def _stop_on_the_way(done: int, length: int | None) -> None:
    if done > 4_000_000:
        raise RuntimeError("enough")


@pytest.mark.parametrize("name", ["source", "target"])
@pytest.mark.parametrize(
    "place", [pathlib.Path("s3://bucket/p/"), "s3:/bucket/p", "file:///p", "http://bucket/p", "s3://bucket/p*", None, 7]
)
def test_a_sync_takes_folders_and_prefixes_only(
    store_client: haul.Client, store: Store, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, place: Any
) -> None:
    fill(store, ["p/a"])
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    other = "s3://bucket/p/" if name == "target" else "s3://bucket/q/"
    with pytest.raises(haul.UsageError):
        sides = (place, other) if name == "source" else (other, place)
        store_client.sync(*sides, delete=True, max_delete=100)
    assert sorted(tmp_path.iterdir()) == before
    assert keys(store) == ["p/a"]


def test_a_sync_deletes_nothing_by_mistake(store_client: haul.Client, store: Store, folder: pathlib.Path) -> None:
    fill(store, ["a", "b", "c"])
    with pytest.raises(haul.UsageError, match="max_delete"):
        store_client.sync(folder, "s3://bucket/", delete=True, max_delete=2)
    assert {"a", "b", "c"} <= set(keys(store))
    empty = folder / "empty"
    empty.mkdir()
    with pytest.raises(haul.UsageError, match="no files"):
        store_client.sync(empty, "s3://bucket/", delete=True)
    # A file that is not copied may be why something seems to be missing.
    (folder / "unreadable").symlink_to(folder / "nowhere")
    summary = store_client.sync(folder, "s3://bucket/", delete=True)
    assert (summary.done, summary.failed, summary.deleted, summary.not_deleted) == (0, 1, 0, 3)
    assert not summary.ok
    assert {"a", "b", "c"} <= set(keys(store))


def test_leaving_the_block_stops_what_runs(client: haul.Client, origin: Origin, tmp_path: pathlib.Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}").touch()
    origin.put_gate = threading.Event()
    with pytest.raises(ZeroDivisionError), client.iter_put_many(tmp_path, f"http://127.0.0.1:{origin.port}/") as uploads:
        wait_for(lambda: origin.puts)
        raise ZeroDivisionError
    origin.put_gate.set()
    assert uploads.summary().done == 0
    assert origin.puts < 200
    # It has ended, and says so without an exception.
    assert list(uploads) == []


def test_a_loop_that_is_left_stops_what_runs(client: haul.Client, origin: Origin, tmp_path: pathlib.Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number:04}").touch()
    for row in client.iter_put_many(tmp_path, f"http://127.0.0.1:{origin.port}/"):
        assert row.ok
        break
    time.sleep(0.2)
    puts = origin.puts
    time.sleep(0.3)
    assert origin.puts == puts < 5000


def test_a_cancelled_task_stops_its_uploads(client: haul.Client, origin: Origin, folder: pathlib.Path) -> None:
    gate = threading.Event()
    origin.put_gate = gate

    async def run() -> None:
        uploads = asyncio.create_task(client.aput_many(folder, f"http://127.0.0.1:{origin.port}/up/"))
        await asyncio.sleep(0.3)
        uploads.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await uploads
        assert time.monotonic() - started < 5

    asyncio.run(run())
    gate.set()


def test_ctrl_c_stops_uploads(origin: Origin, folder: pathlib.Path) -> None:
    origin.put_gate = threading.Event()
    program = f"""
import haul
try:
    haul.put_many({str(folder)!r}, "http://127.0.0.1:{origin.port}/up/")
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        wait_for(lambda: origin.puts)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    origin.put_gate.set()
    assert out == "stopped\n"
    assert process.returncode == 0


def test_the_module_has_the_same_calls(folder: pathlib.Path, origin: Origin) -> None:
    url = f"http://127.0.0.1:{origin.port}/up/"
    assert haul.put_many([folder / "a.txt"], url).done == 1
    assert origin.answers["up/a.txt"] == Answer(body=b"a" * 10)
    assert asyncio.run(haul.aput_many(folder / "b.jpg", url)).done == 1
    with pytest.raises(haul.UsageError):
        haul.delete("https://example.com/")
    with pytest.raises(haul.UsageError):
        haul.list("bucket")
