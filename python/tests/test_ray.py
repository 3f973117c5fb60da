"""Batches on a real Ray cluster of three raylets: whatever dies, no row is lost and none comes twice."""

from __future__ import annotations

import bisect
import collections
import errno
import fcntl
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

import conftest
import haul
from conftest import Answer, Origin, Store, content, entry_at, wait_for

#: Seconds after which something hangs: several times what it takes on a machine that is busy.
GIVE_UP = 240

ray = pytest.importorskip("ray")

import haul.ray  # noqa: E402
from cluster import HostedOrigin, Machines  # noqa: E402

@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    os.environ.pop("RAY_ADDRESS", None)
    machines = Machines(tmp_path_factory.mktemp("machines"))
    yield machines
    ray.shutdown()
    machines.cluster.shutdown()


@pytest.fixture
def machines(started: Machines) -> Machines:
    started.fill()
    return started


@pytest.fixture
def hosts() -> Iterator[Callable[[int], HostedOrigin]]:
    origins: list[HostedOrigin] = []

    def start(count: int) -> HostedOrigin:
        origins.append(HostedOrigin(count))
        return origins[-1]

    yield start
    for origin in origins:
        origin.close()


def recorded(manifest: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of the whole lines: a writer that was killed may have left a part of one."""
    return [json.loads(line) for line in manifest.read_text().split("\n")[:-1]]


def name_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


def check_places(folder: pathlib.Path, rows: list[dict[str, Any]], manifest: pathlib.Path) -> None:
    """Every row that is done has its own place with the bytes of its URL, each row was recorded as done once, and no shard is nobody's."""
    done = [row for row in rows if row["state"] == "done"]
    places = [(row["shard"], row["offset"]) for row in done]
    assert len(set(places)) == len(places)
    for row in done:
        size = int(parse_qs(urlsplit(row["url"]).query)["size"][0])
        name, body = entry_at(folder / row["shard"], row["offset"])
        assert (name, body) == (row["path"], content(name_of(row["url"]), size))
    lines = [row["row"] for row in recorded(manifest) if row["state"] == "done"]
    assert sorted(lines) == sorted(set(lines))
    shards = {row["shard"] for row in done}
    assert {path.name for path in folder.iterdir()} == shards
    # Nothing is in a shard but rows.
    entries = 0
    for shard in shards:
        with tarfile.open(folder / shard) as archive:
            entries += len(archive.getnames())
    assert entries == len(done)


def in_background(function: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function)
    pool.shutdown(wait=False)
    return future


def test_rows_go_into_shards_and_failures_are_rows(
    machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path
) -> None:
    origin = hosts(6)
    origin.answers["h2f3"] = Answer(404)
    origin.answers["h3f3"] = Answer(503, times=1)
    urls = [*origin.urls(40), None, "ftp://127.0.0.1/x", "nonsense", None]
    rows = pa.table({"url": urls, "label": [f"label {n}" for n in range(len(urls))]})
    manifest = tmp_path / "m.jsonl"
    found = haul.ray.fetch(rows, tar=tmp_path / "t", manifest=manifest, actors=2, batch_size=60, client={"retries": 0}, checksum="sha256")
    results = found.take_all()
    assert [row["url"] for row in results] == urls and [row["label"] for row in results][:2] == ["label 0", "label 1"]
    failed = [row for row in results if row["state"] == "failed"]
    assert sorted((row["error_class"], row["status"] or 0) for row in failed) == [
        ("network", 404), ("network", 503), ("usage", 0), ("usage", 0), ("usage", 0), ("usage", 0),
    ]  # fmt: skip
    assert all(row["error"] and row["shard"] is None for row in failed)
    assert all(row["checksum"].startswith("sha256:") for row in results if row["state"] == "done")
    check_places(tmp_path / "t", results, manifest)
    job = json.loads((tmp_path / "m.jsonl.job").read_text())["options"]["job"]
    assert all(path.name.startswith(f"{job}-") for path in (tmp_path / "t").iterdir())
    assert max(origin.times_asked().values()) == 1

    # Only what failed is asked for again, by resume as by the same call.
    again = haul.ray.resume(manifest).take_all()
    assert [row["state"] for row in again].count("failed") == 5
    asked = origin.times_asked()
    assert {name for name, count in asked.items() if count > 1} == {"h2f3", "h3f3"}
    del origin.answers["h2f3"]
    options = {"tar": tmp_path / "t", "manifest": manifest, "client": {"retries": 0}, "actors": 1}
    results = haul.ray.fetch(rows, **options).take_all()
    assert [row["state"] for row in results].count("failed") == 4
    assert sum(origin.times_asked().values()) == sum(asked.values()) + 1
    check_places(tmp_path / "t", results, manifest)
    with pytest.raises(haul.UsageError, match="belongs to another job"):
        haul.ray.fetch(rows.slice(1), **options)
    with pytest.raises(haul.UsageError, match="belongs to another job"):
        haul.ray.fetch(rows, **{**options, "tar": tmp_path / "other"})


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_machine_that_is_lost_in_mid_job_costs_no_row(
    machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path, how: signal.Signals
) -> None:
    origin = hosts(6)
    urls = origin.urls(50)
    gate = threading.Event()
    for number in range(6):
        origin.answers[f"h{number}f0"] = Answer(gate=gate)
    manifest, folder = tmp_path / "m.jsonl", tmp_path / "t"
    job = in_background(lambda: haul.ray.fetch(urls, tar=folder, manifest=manifest, actors=3, batch_size=50).take_all())
    # All three are in mid-call: everything was asked for, and the last file of each call is held.
    node = next(iter(machines.cluster.worker_nodes))
    raylet = node.all_processes["raylet"][0].process
    try:
        wait_for(lambda: origin.count() >= 150 or job.done(), GIVE_UP)
        os.kill(raylet.pid, how)
        wait_for(lambda: not machines.is_alive(node), GIVE_UP)
        gate.set()
        rows = job.result(timeout=GIVE_UP)
    finally:
        gate.set()
        if how == signal.SIGSTOP:
            os.kill(raylet.pid, signal.SIGCONT)
        machines.remove(node)
    assert [row["url"] for row in rows] == urls and {row["state"] for row in rows} == {"done"}
    asked = origin.times_asked()
    assert set(asked) == {name_of(str(url)) for url in urls}
    # What the lost machine had under way was fetched twice, and nothing else. One that only hangs goes on with the calls that it has.
    again = {name.partition("f")[0] for name, count in asked.items() if count > 1}
    assert max(asked.values()) == 2 and len(again) in ((1,) if how == signal.SIGKILL else (1, 2))
    # Such a machine may also have written when the job had ended: the next run removes that.
    assert haul.ray.resume(manifest).take_all() == rows
    check_places(folder, rows, manifest)


_DRIVER = """
import json, sys
import ray
import haul.ray
address, urls, folder, manifest = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
haul.ray.fetch(json.load(open(urls)), tar=folder, manifest=manifest, actors=1, batch_size=40)
"""


def test_a_driver_that_is_killed_goes_on_where_it_was(
    machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path
) -> None:
    origin = hosts(6)
    urls = origin.urls(40)
    # Each call waits for one of its files. Whichever comes first can end, and its rows are recorded at once.
    gates = {f"h{number}f0": threading.Event() for number in range(6)}
    for name, gate in gates.items():
        origin.answers[name] = Answer(gate=gate)
    manifest, folder = tmp_path / "m.jsonl", tmp_path / "t"
    (tmp_path / "urls").write_text(json.dumps(urls))
    command = [sys.executable, "-c", _DRIVER, machines.cluster.address, *map(str, (tmp_path / "urls", folder, manifest))]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as first:
        try:
            wait_for(lambda: gates.keys() & origin.times_asked() or first.poll() is not None, GIVE_UP)
            for name in gates.keys() & origin.times_asked():
                gates[name].set()
            # Not in the middle of a write: the kernel ends that of a killed process between two pages.
            wait_for(lambda: (manifest.exists() and manifest.read_bytes().endswith(b"\n")) or first.poll() is not None, GIVE_UP)
        finally:
            first.kill()
    assert first.returncode == -signal.SIGKILL
    before = recorded(manifest)
    assert 0 < len(before) < len(urls)
    # It may have died in the middle of a line.
    with open(manifest, "a") as file:
        file.write('{"row": 3, "url": "http')
    for gate in gates.values():
        gate.set()
    asked_before = origin.times_asked()
    subprocess.run(command, check=True, timeout=GIVE_UP)
    rows = haul.ray.resume(manifest).take_all()
    assert [row["url"] for row in rows] == urls and {row["state"] for row in rows} == {"done"}
    check_places(folder, rows, manifest)
    asked = origin.times_asked()
    assert all(asked[name_of(row["url"])] == asked_before[name_of(row["url"])] for row in before)


def test_no_host_is_asked_faster_than_its_rate(machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path) -> None:
    origin = hosts(8)
    # One host is too large for a call: three actors share its rate.
    urls = origin.urls(10) + [origin.url(f"large{n}", 100) for n in range(90)]
    found = haul.ray.fetch(urls, dir=tmp_path / "d", manifest=tmp_path / "m.jsonl", rate_per_host=30, actors=3, batch_size=30)
    assert {row["state"] for row in found.take_all()} == {"done"}
    assert sum(len(times) for times in origin.times.values()) == 170
    for times in origin.times.values():
        # In no second more than the rate, but for what may begin at once: one request of each actor, or a tenth of a second's.
        for n, begin in enumerate(times):
            assert sum(1 for later in times[n:] if later < begin + 1) <= 30 + 3 * 3
    files = [path for path in (tmp_path / "d").rglob("*") if path.is_file()]
    assert len(files) == 170


def test_hosts_that_are_larger_than_a_call_get_their_whole_rates(
    machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path
) -> None:
    origin = hosts(6)
    # Calls of one host each would ask 20 a second of all six, and take 18 seconds.
    urls = origin.urls(60)
    found = haul.ray.fetch(urls, tar=tmp_path / "t", manifest=tmp_path / "m.jsonl", rate_per_host=20, actors=3, batch_size=40)
    assert {row["state"] for row in found.take_all()} == {"done"}
    times = sorted(time for times in origin.times.values() for time in times)
    assert len(times) == 360
    # The actors need not start together. Once they run, the hosts have their rates beside each other.
    assert max(bisect.bisect_left(times, begin + 1) - n for n, begin in enumerate(times)) > 60
    for of_host in origin.times.values():
        for n, begin in enumerate(of_host):
            assert sum(1 for later in of_host[n:] if later < begin + 1) <= 20 + 3 * 2


def test_a_url_that_comes_again_is_fetched_once_in_the_whole_cluster(
    machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path
) -> None:
    origin = hosts(1)
    urls = origin.urls(60) * 3
    random.Random(1).shuffle(urls)
    for rate in (None, 1000.0):
        before = origin.count()
        manifest, folder = tmp_path / f"{rate}.jsonl", tmp_path / f"{rate}"
        rows = haul.ray.fetch(urls, tar=folder, manifest=manifest, actors=3, batch_size=30, rate_per_host=rate).take_all()
        assert [row["url"] for row in rows] == urls and {row["state"] for row in rows} == {"done"}
        assert origin.count() - before == 60 and len({row["shard"] for row in rows}) > 1
        # Rows of a URL have one place, and those of different ones never.
        places: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
        for row in rows:
            places[row["shard"], row["offset"]].add(row["url"])
        assert len(places) == 60 and all(len(urls) == 1 for urls in places.values())
        assert haul.ray.resume(manifest).take_all() == rows and origin.count() - before == 60


def test_a_row_that_is_no_url_says_no_number_of_another_row(machines: Machines, tmp_path: pathlib.Path) -> None:
    urls = ["http://127.0.0.1:1/x"] * 5 + ["not a url", "example.com/x", "ftp://x/y", None]
    rows = haul.ray.fetch(urls, dir=tmp_path / "d", manifest=tmp_path / "m.jsonl", actors=1, client={"retries": 0}).take_all()
    errors = [row["error"] for row in rows[5:]]
    assert not any("line" in error for error in errors)
    assert errors[0].startswith('the row: "not a url": ') and errors[1].startswith('the row: "example.com/x": ')


def test_a_host_that_answers_429_gets_its_time(machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path) -> None:
    origin = hosts(3)
    for n in range(20):
        origin.answers[f"h1f{n}"] = Answer(429, headers={"Retry-After": "1"}, times=1)
    # One of three actors has the host.
    found = haul.ray.fetch(origin.urls(20), tar=tmp_path / "t", manifest=tmp_path / "m.jsonl", actors=3, batch_size=20)
    assert {row["state"] for row in found.take_all()} == {"done"}
    asked = origin.times_asked()
    assert all(asked[f"h{host}f{n}"] == 1 for host in (0, 2) for n in range(20))
    # It was left alone: not every file of the host got an answer of 429 before the host had been waited for.
    times = origin.times[f"127.0.0.2:{origin.port}"]
    assert max(later - earlier for earlier, later in zip(times, times[1:], strict=False)) > 0.8


def test_files_of_different_hosts_with_the_same_name(
    machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path
) -> None:
    origin = hosts(3)
    urls = [origin.url("same", 10 + n, host) for n, host in enumerate(origin.hosts)]
    found = haul.ray.fetch(urls, dir=tmp_path / "d", manifest=tmp_path / "m.jsonl", actors=1, batch_size=1).take_all()
    assert [pathlib.Path(row["path"]).read_bytes() for row in found] == [content("same", 10 + n) for n in range(3)]
    named = [{"url": url, "path": f"sub/{n}"} for n, url in enumerate(urls)]
    haul.ray.fetch(named, dir=tmp_path / "n", manifest=tmp_path / "n.jsonl", actors=1)
    assert [(tmp_path / "n/sub" / str(n)).read_bytes() for n in range(3)] == [content("same", 10 + n) for n in range(3)]


def test_a_disk_that_is_full_on_one_machine_of_three(
    machines: Machines, hosts: Callable[[int], HostedOrigin], tmp_path: pathlib.Path
) -> None:
    # Each machine has a disk of its own, since the path means its working directory. One of them has room for small files only.
    small = machines.folders[next(iter(machines.cluster.worker_nodes))] / tmp_path.name
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("to mount a small disk takes rights that are not there")
    origin = hosts(5)
    gate = threading.Event()
    urls = origin.urls(19)
    for number, host in enumerate(origin.hosts):
        origin.answers[f"h{number}large"] = Answer(gate=gate)
        urls.append(origin.url(f"h{number}large", 100_000, host))
    manifest = tmp_path / "m.jsonl"
    try:
        options = {"tar": f"/proc/self/cwd/{tmp_path.name}", "manifest": manifest, "actors": 3, "batch_size": 20}
        job = in_background(lambda: haul.ray.fetch(urls, **options).take_all())
        # All three have written the small files of a call.
        wait_for(lambda: origin.count() >= 60 or job.done(), GIVE_UP)
        wait_for(lambda: size_below(small) >= 19 * 1000 or job.done(), GIVE_UP)
        gate.set()
        rows = job.result(timeout=GIVE_UP)
        failed = [row for row in rows if row["state"] == "failed"]
        # A call fails as a whole: its shard has no name. Nothing of it is left.
        assert 20 <= len(failed) < 100 and {row["error_class"] for row in failed} == {"local_io"}
        assert all(count == 20 for count in collections.Counter(urlsplit(row["url"]).hostname for row in failed).values())
        assert not list(small.iterdir())
        subprocess.run(["mount", "-o", "remount,size=10m", small], check=True)
        rows = haul.ray.resume(manifest).take_all()
        assert {row["state"] for row in rows} == {"done"}
        again = {name_of(row["url"]) for row in failed}
        assert origin.times_asked() == {name_of(str(url)): 1 + (name_of(str(url)) in again) for url in urls}
        shards = {path.name: path.parent for folder in machines.folders.values() for path in folder.glob(f"{tmp_path.name}/*")}
        assert set(shards) == {row["shard"] for row in rows}
        assert all(entry_at(shards[row["shard"]] / row["shard"], row["offset"])[0] == row["path"] for row in rows)
    finally:
        gate.set()
        subprocess.run(["umount", "-l", small], check=True)


def size_below(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def in_driver(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver fetches by itself: what becomes of a manifest does not depend on who does."""
    monkeypatch.setattr(haul.ray, "_dataset", lambda rows, options, pool: ray.data.from_arrow(haul.ray.Fetch(**options)(rows)))


def test_secrets_are_for_the_owner_of_a_manifest(in_driver: None, origin: Origin, tmp_path: pathlib.Path) -> None:
    origin.answers["f"] = Answer(503, times=1)
    parts = urlsplit(origin.url("f"))
    urls = [
        *(f"{parts.scheme}://{parts.netloc}/f?size=1000&X-Amz-Signature=s3cret{n}" for n in range(3)),
        f"{parts.scheme}://me:s3cret@{parts.netloc}/g?size=1000",
        "me:s3cret@h/g",
    ]
    rows = [{"url": url, "headers": {"Authorization": "Bearer s3cret"}} for url in urls]
    manifest = tmp_path / "m.jsonl"
    arguments = {
        "tar": tmp_path / "t",
        "manifest": manifest,
        "client": {"retries": 0, "headers": {"X-Token": "s3cret"}, "proxy": ""},
        "ray_remote_args": {"num_cpus": 1, "runtime_env": {"env_vars": {"AWS_SECRET_ACCESS_KEY": "s3cret"}}},
    }
    states = [row["state"] for row in haul.ray.fetch(rows, **arguments).take_all()]
    assert sorted(states) == ["done", "done", "done", "failed", "failed"]
    job = tmp_path / "m.jsonl.job"
    assert "s3cret" not in manifest.read_text() and "s3cret" not in job.read_text()
    for file in tmp_path.iterdir():
        assert file.is_dir() or file.stat().st_mode & 0o077 == 0
    with pytest.raises(haul.UsageError, match="X-Token|headers"):
        haul.ray.resume(manifest)
    with pytest.raises(haul.UsageError, match="its runtime_env was not stored"):
        haul.ray.resume(manifest, client=arguments["client"])
    # Rows are told apart by their numbers: URLs that differ in their secrets alone are different ones.
    again = haul.ray.fetch(rows, **arguments).take_all()
    assert [(row["url"], row["state"]) for row in again] == [(url, "done") for url in urls[:4]] + [(urls[4], "failed")]
    asked = collections.Counter(path for _, path, _ in origin.requests)
    assert sorted(asked.values()) == [1, 1, 1, 2]


def test_rows_that_ray_dropped_are_said(
    in_driver: None, origin: Origin, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [origin.url(f"f{n}") for n in range(10)]
    manifest, folder = tmp_path / "m.jsonl", tmp_path / "t"
    whole = haul.ray._dataset
    with monkeypatch.context() as patch:
        patch.setattr(haul.ray, "_dataset", lambda rows, options, pool: whole(rows.slice(3), options, pool))
        with pytest.raises(haul.Interrupted, match="3 of 10 rows did not come back"):
            haul.ray.fetch(urls, tar=folder, manifest=manifest)
    # Orphans are removed while nobody else can write shards of the job.
    locked: list[bool] = []
    remove = haul.ray.remove_others

    def remove_others(*arguments: Any) -> None:
        with open(manifest, "rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked.append(True)
        remove(*arguments)

    monkeypatch.setattr(haul.ray, "remove_others", remove_others)
    rows = haul.ray.resume(manifest).take_all()
    assert locked and [row["url"] for row in rows] == urls and origin.count() == 10
    check_places(folder, rows, manifest)


def test_a_disk_of_the_driver_that_is_full_is_an_error_of_haul(
    in_driver: None, origin: Origin, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, urls = tmp_path / "m.jsonl", [origin.url(f"f{n}") for n in range(10)]

    class FullFile(io.FileIO):
        def write(self, data: Any) -> int:
            if self.tell() + len(data) > 100:
                data = data[: max(0, 100 - self.tell())]
                if not data:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    with monkeypatch.context() as patch:
        patch.setattr(haul.ray, "open_manifest", lambda path: FullFile(path, "a+"))
        with pytest.raises(haul.LocalIOError, match="^manifest: No space left on device") as caught:
            haul.ray.fetch(urls, tar=tmp_path / "t", manifest=manifest)
        assert "the same call continues" in str(caught.value.hint) and manifest.stat().st_size == 100
    # What it had to leave is cut, and fetched again.
    rows = haul.ray.fetch(urls, tar=tmp_path / "t", manifest=manifest).take_all()
    assert {row["state"] for row in rows} == {"done"} and len(recorded(manifest)) == 10
    check_places(tmp_path / "t", rows, manifest)


def test_shards_and_files_go_to_s3(
    machines: Machines, hosts: Callable[[int], HostedOrigin], store: Store, tmp_path: pathlib.Path
) -> None:
    origin = hosts(3)
    origin.answers["h1f1"] = Answer(404)
    manifest = tmp_path / "m.jsonl"
    client = {"s3": store.settings(), "retries": 0}
    rows = haul.ray.fetch(origin.urls(20), tar="s3://bucket/pre/", manifest=manifest, actors=1, batch_size=20, client=client).take_all()
    assert [row["state"] for row in rows].count("done") == 59
    check_places(store.folder / "bucket/pre", rows, manifest)
    # Its secrets are nowhere beside the manifest.
    assert "secretsecret" not in (tmp_path / "m.jsonl.job").read_text()
    with pytest.raises(haul.UsageError, match="s3"):
        haul.ray.resume(manifest)
    del origin.answers["h1f1"]
    rows = haul.ray.resume(manifest, client=client).take_all()
    assert {row["state"] for row in rows} == {"done"}
    check_places(store.folder / "bucket/pre", rows, manifest)
    rows = haul.ray.fetch(origin.urls(2), dir="s3://bucket/files", actors=1, client=client).take_all()
    for row in rows:
        path = store.folder / row["path"].removeprefix("s3://")
        assert path.read_bytes() == content(name_of(row["url"]), 700)
    # A bucket that is not there fails the rows, not the job.
    rows = haul.ray.fetch(origin.urls(2), tar="s3://missing/x", actors=1, client=client).take_all()
    assert {(row["state"], row["error_class"], row["shard"]) for row in rows} == {("failed", "network", None)}


@pytest.fixture
def moto() -> Iterator[str]:
    """The endpoint of a store of other people's, with a bucket."""
    program = shutil.which("moto_server")
    if program is None:
        pytest.skip("moto is not installed")
    endpoint = f"http://127.0.0.1:{conftest.free_port()}"
    command = [program, "-H", "127.0.0.1", "-p", endpoint.rpartition(":")[2]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: conftest._accepts(int(command[-1])) or process.poll() is not None)
            with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket", method="PUT")):
                yield endpoint
        finally:
            process.terminate()


def test_shards_go_to_moto(machines: Machines, hosts: Callable[[int], HostedOrigin], moto: str, tmp_path: pathlib.Path) -> None:
    settings = {"endpoint_url": moto, "region": "us-east-1", "access_key": "key", "secret_key": "secretsecret"}
    urls = hosts(3).urls(20)
    rows = haul.ray.fetch(urls, tar="s3://bucket/pre", actors=2, batch_size=20, client={"s3": settings}).take_all()
    assert sorted(row["url"] for row in rows) == sorted(map(str, urls)) and {row["state"] for row in rows} == {"done"}
    for shard in {row["shard"] for row in rows}:
        haul.Client(s3=settings).get(f"s3://bucket/pre/{shard}", dir=tmp_path)
    for row in rows:
        assert entry_at(tmp_path / row["shard"], row["offset"]) == (row["path"], content(name_of(row["url"]), 700))


def test_fetch_is_an_actor_for_pipelines(machines: Machines, origin: Origin, tmp_path: pathlib.Path) -> None:
    origin.answers["f7"] = Answer(404)
    rows = pa.table({"link": [origin.url(f"f{n}", 100 + n) for n in range(100)], "label": list(range(100))})
    found = ray.data.from_arrow(rows).map_batches(
        haul.ray.Fetch, fn_constructor_kwargs={"url": "link"}, compute=ray.data.ActorPoolStrategy(min_size=1, max_size=2),
        batch_format="pyarrow", batch_size=16,
    )  # fmt: skip
    by_label = {row["label"]: row for row in found.take_all()}
    assert [by_label[n]["body"] for n in range(100) if n != 7] == [content(f"f{n}", 100 + n) for n in range(100) if n != 7]
    assert (by_label[7]["body"], by_label[7]["status"]) == (None, 404)


def test_without_a_manifest_nothing_is_fetched_before_it_is_needed(
    machines: Machines, origin: Origin, tmp_path: pathlib.Path
) -> None:
    urls = [origin.url(f"f{n}") for n in range(20)]
    found = haul.ray.fetch(urls, tar=tmp_path / "t", actors=1)
    assert origin.count() == 0
    first = found.take_all()
    assert len({(row["shard"], row["offset"]) for row in first}) == 20
    # Each execution fetches again, into shards of its own.
    assert not {row["shard"] for row in found.take_all()} & {row["shard"] for row in first}
    assert haul.ray.fetch([], tar=tmp_path / "t").take_all() == []
    dataset = haul.ray.fetch(ray.data.from_items([{"url": url} for url in urls]), actors=1)
    assert sorted(row["body"] for row in dataset.take_all()) == sorted(content(f"f{n}", 1000) for n in range(20))
