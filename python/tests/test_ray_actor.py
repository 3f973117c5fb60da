"""What `haul.ray` makes of rows and what an actor leaves behind: no cluster is needed for that."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import conftest
import haul
from conftest import Origin, Store, content

pytest.importorskip("ray")

import haul.ray  # noqa: E402
from haul import _ray_actor, _ray_resources  # noqa: E402
from haul._ray_manifest import json_lines, local_errors, redact_urls, written  # noqa: E402
from haul._ray_rows import check_paths, table_of_rows  # noqa: E402


def fetched(rows: list[Any], **arguments: Any) -> list[dict[str, Any]]:
    """What an actor makes of rows."""
    found: list[dict[str, Any]] = haul.ray.Fetch(**arguments)(table_of_rows(rows, "url")).to_pylist()
    return found


def files_below(folder: pathlib.Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ray_actor, "_LOCAL_PAUSE", 0)


def test_columns_of_dicts_are_those_of_any_row(origin: Origin, tmp_path: pathlib.Path) -> None:
    urls = [origin.url(f"f{n}") for n in range(5)]
    right = hashlib.sha256(content("f3", 1000)).hexdigest()
    rows = [
        None,
        urls[0],
        {"url": urls[1]},
        {"url": urls[2], "sha256": "0" * 64, "label": 1.5},
        {"url": urls[3], "sha256": right, "path": "named", "headers": {"X-A": "a"}},
        {"url": urls[4], "sha256": float("nan"), "label": float("nan")},
        {"url": float("nan")},
    ]
    found = fetched(rows, dir=tmp_path)
    assert [row["error_class"] for row in found] == ["usage", None, None, "verification", None, None, "usage"]
    assert found[4]["path"] == str(tmp_path / "named")
    assert found[3]["label"] == 1.5 and str(found[5]["label"]) == "nan"
    assert table_of_rows([], "link").column_names == ["link", "row"]
    with pytest.raises(TypeError, match="not int"):
        table_of_rows([urls[0], 5], "url")
    with pytest.raises(haul.UsageError, match="'size' are not") as caught:
        table_of_rows([{"url": urls[0], "size": 5}, {"url": urls[1], "size": "a secret"}], "url")
    assert "a secret" not in str(caught.value)
    with pytest.raises(haul.UsageError, match="'url' are not"):
        table_of_rows(["http://127.0.0.1/\udc80"], "url")


def test_a_path_is_that_of_one_url(tmp_path: pathlib.Path) -> None:
    def rows(*paths: str | None) -> list[dict[str, Any]]:
        return [{"url": f"http://127.0.0.1:1/{n % 3}", "path": path} for n, path in enumerate(paths)]

    check_paths(table_of_rows(rows("a", "b", None, "a", "b/c"), "url"), "url")
    for paths in (("a", "a"), ("a", "./a"), ("b/c", "b//c"), ("b/c", "b/././c")):
        with pytest.raises(haul.UsageError, match="is that of 2 URLs"):
            haul.ray.fetch(rows(*paths), dir=tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        {"tar": "a", "dir": "b"},
        {"manifest": "m"},
        {"tar": "a", "robots_tag": "perhaps"},
        {"tar": "a", "checksum": "sha257"},
        {"tar": "a", "rate_per_host": 0},
        {"dir": "a", "shard_size": "1M"},
        {"tar": "a", "shard_size": "1X"},
        {"dir": "a", "layout": "name"},
        {"dir": "a", "layout": "path"},
        {"map": len},
        {"tar": "a", "map": len},
        {"map_threads": 3},
        {"dir": "https://127.0.0.1/a"},
        {"tar": "gs://bucket/a"},
        {"tar": "s3://"},
        {"tar": "t", "overwrite": True},
        {"tar": "t", "manifest": "s3://bucket/m.jsonl"},
        {"batch_size": 0},
        {"batch_size": 2.5},
        {"actors": 0},
        {"actors": (0, 2)},
        {"actors": (3, 2)},
        {"actors": (1, 2, 3)},
        {"actors": "two"},
        {"ray_remote_args": {"num_cpu": 1}},
        {"ray_remote_args": {"num_cpus": "one"}},
        {"ray_remote_args": {"batch_size": 1}},
    ],
)
def test_wrong_arguments_are_said_before_machines_are_asked(
    arguments: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(haul.UsageError):
        haul.ray.fetch(["http://127.0.0.1/x"], **arguments)
    assert not list(tmp_path.iterdir())


def test_rows_that_are_none_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(haul.UsageError, match="no column"):
        haul.ray.fetch(pa.table({"url": ["http://127.0.0.1/x"]}), url="link")
    with pytest.raises(haul.UsageError, match="not one text"):
        haul.ray.fetch("http://127.0.0.1/x")
    with pytest.raises(haul.UsageError, match="there is no"):
        haul.ray.resume(tmp_path / "m")
    (tmp_path / "m").write_text("mine")
    with pytest.raises(haul.UsageError, match="not the manifest"):
        haul.ray.fetch(["http://127.0.0.1/x"], tar="a", manifest=tmp_path / "m")
    with pytest.raises(haul.UsageError, match="manifest"):
        haul.ray.Fetch(tar="a", manifest="m")


def test_lines_of_a_manifest_are_json() -> None:
    rows = [
        {"row": 0, "url": 'http://h/"\\\n\x01ä\U0001f600%s', "state": "done", "path": None, "status": 200, "bytes": 2**40},
        {"row": 1, "url": None, "state": "failed", "path": "", "status": None, "bytes": 0},
    ]
    text = json_lines(pa.Table.from_pylist(rows)).decode()
    assert [json.loads(line) for line in text.splitlines()] == rows
    assert json_lines(pa.Table.from_pylist(rows).slice(0, 0)) == b""


def test_urls_of_a_manifest_have_no_secrets() -> None:
    urls = {
        "http://h/a/b": "http://h/a/b",
        "http://h/a?token=s3cret": "http://h/a?***",
        "http://h:80/a#s3cret\nx": "http://h:80/a?***",
        "HTTPS://me:s3cret@h/a@b": "HTTPS://***@h/a@b",
        "http://me:s3@cret@[::1]:80": "http://***@[::1]:80",
        "http://h/http://me:s3cret@i/f": "http://h/http://***@i/f",
        # No URL: its login may have any form.
        "http://me:s3cret/x@h/f": None,
        "http://me:s3cret?x@h/f": None,
        "me:s3cret@h/f": None,
        "nonsense": None,
    }
    table = pa.table({"row": range(len(urls)), "url": list(urls)})
    assert redact_urls(table).column("url").to_pylist() == list(urls.values())


def test_files_that_a_lost_call_has_left_are_fetched_again(origin: Origin, tmp_path: pathlib.Path) -> None:
    rows: list[Any] = [origin.url("f"), {"url": origin.url("g"), "path": "named"}]
    first = fetched(rows, dir=tmp_path, checksum="sha256")
    (tmp_path / "named").write_bytes(b"of another version")
    again = fetched(rows, dir=tmp_path, checksum="sha256")
    assert [(row["state"], row["checksum"]) for row in again] == [
        ("done", "sha256:" + hashlib.sha256(content(name, 1000)).hexdigest()) for name in "fg"
    ]
    assert [row["path"] for row in again] == [row["path"] for row in first]
    kept = fetched(rows, dir=tmp_path, overwrite=False)
    assert [row["state"] for row in kept] == ["skipped", "skipped"] and origin.count() == 4


class _CuttingHandler(conftest._Handler):
    """Ends the connection in the middle of the file `cut`."""

    def do_GET(self) -> None:
        if not self.path.startswith("/cut"):
            super().do_GET()
            return
        found = self.headers.get("Range")
        first = int(found[6:].partition("-")[0]) if found else 0
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {first}-4999999/5000000")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(5_000_000 - first))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(bytes(max(0, 2_000_000 - first)))
        self.close_connection = True


@pytest.fixture
def cutting_origin() -> Iterator[Origin]:
    origin = Origin()
    server = conftest._Server(("127.0.0.1", 0), _CuttingHandler)
    server.origin = origin
    origin.close()
    origin.server, origin.port = server, server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield origin
    origin.close()


def test_what_failed_files_leave_is_not_stored(cutting_origin: Origin, store: Store, tmp_path: pathlib.Path) -> None:
    origin, bucket = cutting_origin, store.folder / "bucket"
    rows: list[Any] = [origin.url("f"), origin.url("cut"), {"url": origin.url("g", 2_000_000), "sha256": "0" * 64}]
    client = {"s3": store.settings(), "retries": 2}
    for target in ("s3://bucket/tar", tmp_path / "tar"):
        found = fetched(rows, tar=target, client=client)
        assert [row["state"] for row in found] == ["done", "failed", "failed"]
        folder = bucket / "tar" if target == "s3://bucket/tar" else tmp_path / "tar"
        assert [path.name for path in folder.iterdir()] == [found[0]["shard"]]
    found = fetched(rows, dir="s3://bucket/dir", client=client)
    assert [row["state"] for row in found] == ["done", "failed", "failed"]
    assert files_below(bucket / "dir") == {found[0]["path"].removeprefix("s3://bucket/dir/")}


def test_temporary_folders_of_killed_actors_are_removed(store: Store, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stale, other, living = (tmp_path / name for name in ("haul-ray-stale", "haul-of-others", "haul-ray-living"))
    for folder in (stale, other, living):
        (folder / "sub").mkdir(parents=True)
    (tmp_path / "haul-ray-link").symlink_to(other)
    descriptor = os.open(living, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with _ray_actor._staging_folder() as folder:
            actor = haul.ray.Fetch(dir="s3://bucket/x", client={"s3": store.settings()})
            assert os.path.basename(folder).startswith("haul-ray-") and os.path.isdir(folder)
            assert not stale.exists() and (other / "sub").exists() and (living / "sub").exists()
    finally:
        os.close(descriptor)
    assert not os.path.exists(folder)
    # A machine that has no room even for the folder fails its rows, not the job.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    (row,) = actor(table_of_rows(["http://127.0.0.1:1/x"], "url")).to_pylist()
    assert (row["state"], row["error_class"]) == ("failed", "local_io")


def test_an_actor_that_cannot_store_waits_for_longer_each_time(
    origin: Origin, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(_ray_actor, "_LOCAL_PAUSE", 5.0)
    monkeypatch.setattr(_ray_actor.time, "sleep", pauses.append)
    place, rows = tmp_path / "place", table_of_rows([origin.url("f")], "url")
    actor = haul.ray.Fetch(tar=place)
    place.write_text("no directory")
    for _ in range(8):
        assert actor(rows).column("error_class").to_pylist() == ["local_io"]
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    # When it can again, it begins anew.
    place.unlink()
    assert actor(rows).column("state").to_pylist() == ["done"]
    del pauses[:]
    shutil.rmtree(place)
    place.write_text("no directory")
    actor(rows)
    assert pauses == [5]


def test_a_manifest_that_cannot_be_written_is_an_error_of_haul(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    manifest, urls = tmp_path / "file/m.jsonl", ["http://127.0.0.1:1/x"]
    with pytest.raises(haul.LocalIOError, match="^manifest: "):
        haul.Client().batch(urls, dir=tmp_path / "d", manifest=manifest)
    with pytest.raises(haul.LocalIOError, match="^manifest: .*file") as caught:
        haul.ray.fetch(urls, dir=tmp_path / "d", manifest=manifest)
    assert caught.value.kind == "local_io" and caught.value.hint
    with pytest.raises(haul.UsageError, match="there is no"):
        haul.ray.resume(manifest)
    # A full disk in the midst of its files leaves none of them.
    with pytest.raises(haul.LocalIOError, match="^manifest: No space left"), local_errors(), written(tmp_path / "m") as file:
        file.write(b"some")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_what_no_machine_has_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    machines = [{"Alive": True, "Resources": {"CPU": 4.0, "disk": 1.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]
    monkeypatch.setattr(_ray_resources.ray, "nodes", lambda: machines)
    for fitting in ({}, {"num_cpus": 4}, {"num_cpus": 0.5, "num_gpus": 0, "resources": {"disk": 1}}):
        _ray_resources.warn_of_missing(fitting)
    assert not caplog.records
    for missing, words in (
        ({"num_cpus": 8}, "an actor wants 8 CPU, and the most that one of 1 machines has is 4"),
        ({"num_gpus": 1}, "wants 1 GPU"),
        ({"resources": {"disk": 2}}, "wants 2 disk"),
        ({"memory": 1 << 40}, "memory"),
    ):
        caplog.clear()
        _ray_resources.warn_of_missing(missing)
        assert words in caplog.text


def test_processors_that_ray_keeps_for_others_are_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free, now = {"CPU": 2.0}, 1000.0
    monkeypatch.setattr(_ray_resources.ray, "cluster_resources", lambda: {"CPU": 3.0})
    monkeypatch.setattr(_ray_resources.ray, "available_resources", lambda: free)
    monkeypatch.setattr(_ray_resources.time, "monotonic", lambda: now)
    watch = _ray_resources.IdleWatch({"batch_size": 100, "ray_remote_args": {}}, 3)
    watch.look(10_000)
    now += 30
    # Too little is left to be worth an actor, or the job has all the actors that it may have.
    watch.look(150)
    _ray_resources.IdleWatch({"batch_size": 100, "ray_remote_args": {}}, 1).look(10_000)
    assert not caplog.records
    watch.look(10_000)
    watch.look(10_000)
    assert len(caplog.records) == 1 and "2 of 3 CPUs are free" in caplog.text


def test_a_machine_that_cannot_store_fails_its_rows(origin: Origin, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("no directory")
    for arguments in ({"tar": tmp_path / "file"}, {"dir": tmp_path / "file"}):
        found = fetched([origin.url("f"), origin.url("g")], **arguments)
        assert [(row["state"], row["error_class"]) for row in found] == [("failed", "local_io")] * 2
    assert origin.count() == 0
