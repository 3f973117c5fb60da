"""haul as a filesystem of fsspec, and programs that use it."""

import importlib
import io
import pathlib
import threading
from collections.abc import Iterator

import fsspec
import pytest
from fsspec.callbacks import Callback

import haul
import haul.fs
from conftest import Answer, Origin, content, wait_for
from haul._client import default_client


@pytest.fixture
def files(client: haul.Client) -> haul.fs.HaulFileSystem:
    return haul.fs.HaulFileSystem(client)


def ranges(origin: Origin) -> list[str | None]:
    return [found for _, _, found in origin.requests]


def test_fsspec_reads_by_haul(origin: Origin, files: haul.fs.HaulFileSystem) -> None:
    data, url = content("t.csv", 5000), origin.url("t.csv", 5000)
    with fsspec.open("haul+" + url) as file:
        assert file.read() == data
    assert files.cat(url) == data and files.size(url) == 5000
    origin.answers["gone"] = Answer(404)
    for call in (files.open, files.info, files.cat_file, files.ls):
        with pytest.raises(FileNotFoundError):
            call(origin.url("gone"))
    with pytest.raises(FileNotFoundError):
        files.cat_file(origin.url("gone"), 1, 2)
    with pytest.raises(FileNotFoundError) as missing:
        files.info(origin.url("gone") + "&X-Amz-Signature=secretsecret")
    assert "secretsecret" not in repr(missing.value)


def test_a_range_is_one_request_for_its_bytes(origin: Origin, files: haul.fs.HaulFileSystem) -> None:
    data, url = content("f", 500_000), origin.url("f", 500_000)
    assert files.cat_file(url, 400_000, 400_010) == data[400_000:400_010]
    assert files.cat_file(url, 499_990) == data[-10:]
    assert files.cat_file(url, end=7) == data[:7]
    assert ranges(origin) == ["bytes=400000-400009", "bytes=499990-", "bytes=0-6"]
    assert files.cat_file(url, 5, 5) == files.cat_file(url, 500_000) == files.cat_file(url, 600_000, 700_000) == b""
    for start, end in [(-10, None), (-20, -10), (5, -5), (-900_000, 3), (None, -1), (10, -499_999)]:
        assert files.cat_file(url, start, end) == data[start:end]


def test_many_files_and_ranges_are_read_at_once(origin: Origin, files: haul.fs.HaulFileSystem) -> None:
    gate = threading.Event()
    names = [str(n) for n in range(10)]
    origin.answers |= {name: Answer(gate=gate) for name in names}
    urls = [origin.url(name) for name in names]

    def open_gate() -> None:
        wait_for(lambda: origin.count() == len(names))
        gate.set()

    for call, expected in [
        (lambda: files.cat(urls), {url: content(name, 1000) for url, name in zip(urls, names)}),
        (lambda: files.cat_ranges(urls, 10, 20), [content(name, 1000)[10:20] for name in names]),
    ]:
        gate.clear()
        origin.requests.clear()
        opener = threading.Thread(target=open_gate)
        opener.start()
        assert call() == expected
        opener.join()
    assert ranges(origin) == ["bytes=10-19"] * 10


@pytest.mark.parametrize("own_limit", [False, True])
def test_reads_at_once_are_bounded(origin: Origin, own_limit: bool) -> None:
    url, pulled = origin.url("f"), []
    client = haul.Client(connections_per_host=3 if own_limit else None)

    def wanted() -> Iterator[tuple[str, int, int]]:
        for n in range(10):
            pulled.append(n)
            yield url, n, n + 1

    reads = haul.fs.HaulFileSystem(client)._read_many(wanted(), None if own_limit else 3, True)
    for taken in range(1, 11):
        assert next(reads) == content("f", 1000)[taken - 1 : taken]
        assert len(pulled) == min(10, taken + 2)
    assert list(reads) == []


def test_errors_of_many(origin: Origin, files: haul.fs.HaulFileSystem) -> None:
    origin.answers["gone"] = Answer(404)
    good, gone, bad = origin.url("a"), origin.url("gone"), "http://["
    found = files.cat_ranges([good, gone, bad, good], [0, 0, 0, 5], [2, 2, 2, 7])
    assert [found[0], found[3]] == [content("a", 1000)[:2], content("a", 1000)[5:7]]
    assert isinstance(found[1], FileNotFoundError) and isinstance(found[2], haul.UsageError)
    with pytest.raises(FileNotFoundError):
        files.cat_ranges([good, gone], 0, 1, on_error="raise")
    with pytest.raises(FileNotFoundError):
        files.cat([good, gone])
    assert list(files.cat([gone, good], on_error="omit")) == [good]
    assert isinstance(files.cat([gone, good], on_error="return")[gone], FileNotFoundError)
    with pytest.raises(ValueError, match="as many"):
        files.cat_ranges([good], [1, 2], [3, 4])


def test_info_tells_versions_apart(origin: Origin, files: haul.fs.HaulFileSystem) -> None:
    url = origin.url("f", 5000)
    info = files.info("haul+" + url)
    assert info.pop("ETag").startswith('"') and info.pop("Last-Modified").endswith("GMT")
    assert info == {"name": url, "size": 5000, "type": "file"}
    assert ranges(origin) == ["bytes=0-0"]
    before = files.ukey(url)
    assert files.ukey(url) == before
    origin.etags["f"] = "another"
    assert files.ukey(url) != before


def test_what_exists(origin: Origin) -> None:
    files = haul.fs.HaulFileSystem(haul.Client(retries=0))
    assert files.exists(origin.url("a")) and files.isfile("haul+" + origin.url("a"))
    for status in (404, 410):
        origin.answers["x"] = Answer(status)
        assert not files.exists(origin.url("x")) and not files.exists(origin.url("x"), strict=True)
    for status in (401, 403, 500, 503):
        origin.answers["x"] = Answer(status)
        assert not files.exists(origin.url("x"))
        with pytest.raises(haul.NetworkError):
            files.exists(origin.url("x"), strict=True)
    # As large as it is, it is there, also without ranges.
    origin.answers["x"] = Answer(body=bytes(70 << 20))
    assert files.exists(origin.url("x")) and files.size(origin.url("x")) == 70 << 20
    with pytest.raises(haul.UsageError):
        files.exists("no URL")


def test_methods_take_both_names(origin: Origin, files: haul.fs.HaulFileSystem, tmp_path: pathlib.Path) -> None:
    plain, data = origin.url("f"), content("f", 1000)
    url = "haul+" + plain
    assert files.cat_file(url) == data and files.cat_file(url, -3) == data[-3:]
    assert files.cat([url]) == {plain: data} and files.cat_ranges([url], 0, 3) == [data[:3]]
    assert files.ls(url, detail=False) == files.glob(url) == [plain]
    assert files.exists(url) and files.size(url) == 1000 and files._parent(url) == plain.rsplit("/", 1)[0]
    assert files.unstrip_protocol(plain) == files.unstrip_protocol(url) == url
    files.get_file(url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == data
    files.put_file(tmp_path / "f", url.replace("f?", "g?"))
    assert origin.answers["g?size=1000"].body == data


def test_get_file(origin: Origin, files: haul.fs.HaulFileSystem, tmp_path: pathlib.Path) -> None:
    url, data = origin.url("f", 300_000), content("f", 300_000)
    origin.answers["gone"] = Answer(404)
    for target in (tmp_path / "f", io.BytesIO()):
        callback = Callback()
        files.get_file(url, target, callback=callback)
        assert callback.value == len(data)
    for target_of_none in (tmp_path / "none", io.BytesIO()):
        with pytest.raises(FileNotFoundError):
            files.get_file(origin.url("gone"), target_of_none)
    assert (tmp_path / "f").read_bytes() == target.getvalue() == data  # type: ignore[union-attr]
    outfile = io.BytesIO()
    files.get_file(url, outfile=outfile)
    assert outfile.getvalue() == data
    with pytest.raises(FileNotFoundError):
        files.get_file(origin.url("gone"), outfile=outfile)


def test_a_path_is_free_after_a_call(origin: Origin, files: haul.fs.HaulFileSystem, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "f"
    for name in ("a", "b", "b"):
        files.get_file(origin.url(name), target)
        assert target.read_bytes() == content(name, 1000)
    # The same call continues one that was stopped.
    origin.rate = 100_000
    url, target = origin.url("c", 100_000), tmp_path / "c"

    def stop(done: int, length: int | None) -> None:
        if done:
            raise KeyError

    with pytest.raises(KeyError):
        files.client.get(url, target, progress=stop)
    files.client.get(url, target)
    assert target.read_bytes() == content("c", 100_000)


def test_put_file_creates(
    origin: Origin, files: haul.fs.HaulFileSystem, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"new")
    url = origin.url("f")
    with pytest.raises(FileExistsError):
        files.put_file(tmp_path / "f", url, mode="create")
    origin.answers["f"] = Answer(503)
    with pytest.raises(haul.NetworkError):
        haul.fs.HaulFileSystem(haul.Client(retries=0)).put_file(tmp_path / "f", url, mode="create")
    assert "f?size=1000" not in origin.answers
    origin.answers["f"] = Answer(404)
    callback = Callback()
    files.put_file(tmp_path / "f", url, callback=callback, mode="create")
    assert origin.answers["f?size=1000"].body == b"new" and callback.value == callback.size == 3

    def refuse(*_: object, headers: list[tuple[str, str]], **__: object) -> None:
        assert ("If-None-Match", "*") in headers
        raise haul.NetworkError("refused", status=412)

    monkeypatch.setattr(files.client, "put", refuse)
    with pytest.raises(FileExistsError):
        files.put_file(tmp_path / "f", url, mode="create")


def test_filesystems_share_the_client() -> None:
    found, all_are_here = [], threading.Barrier(3)

    def make() -> None:
        all_are_here.wait(30)
        found.append(haul.fs.HaulFileSystem(headers={"X-A": "b"}))
        all_are_here.wait(30)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in found}) == 3
    assert all(each.client is default_client() for each in found)


def test_headers_are_sent_with_everything(origin: Origin, tmp_path: pathlib.Path) -> None:
    files = haul.fs.HaulFileSystem(headers={"a bad name": "x"})
    url = origin.url("f")
    for call in (
        lambda: files.info(url),
        lambda: files.open(url),
        lambda: files.cat_file(url),
        lambda: files.cat_file(url, 1, 2),
        lambda: files.get_file(url, tmp_path / "f"),
        lambda: files.get_file(url, io.BytesIO()),
        lambda: files.put_file(__file__, url),
    ):
        with pytest.raises(haul.UsageError, match="a bad name"):
            call()


def test_register(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = importlib.import_module("fsspec.registry")._registry
    for protocol in haul.fs.HaulFileSystem.protocol:
        # Is what it was after the test.
        monkeypatch.setitem(registry, protocol, fsspec.AbstractFileSystem)
    haul.fs.register()
    with fsspec.open(origin.url("f")) as file:
        assert isinstance(file, haul.RemoteFile) and file.read() == content("f", 1000)
    assert type(fsspec.filesystem("https")) is haul.fs.HaulFileSystem


def test_pandas_reads_by_haul(origin: Origin) -> None:
    pandas = pytest.importorskip("pandas")
    origin.answers["t.csv"] = Answer(body=b"a,b\n1,2\n3,4\n")
    assert pandas.read_csv("haul+" + origin.url("t.csv"))["b"].tolist() == [2, 4]


def test_pyarrow_reads_by_haul(origin: Origin, files: haul.fs.HaulFileSystem) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table, body = importlib.import_module("pyarrow").table({"a": [1, 2, 3]}), io.BytesIO()
    parquet.write_table(table, body)
    origin.answers["t.parquet"] = Answer(body=body.getvalue())
    for url in (origin.url("t.parquet"), "haul+" + origin.url("t.parquet")):
        assert parquet.read_table(url, filesystem=files).equals(table)


def test_dask_reads_by_haul(origin: Origin) -> None:
    dask = pytest.importorskip("dask.dataframe")
    names = ["1.csv", "2.csv"]
    origin.answers |= {name: Answer(body=b"a,b\n1,2\n3,4\n") for name in names}
    assert dask.read_csv(["haul+" + origin.url(name) for name in names])["b"].sum().compute() == 12


def test_zarr_reads_by_haul(origin: Origin, tmp_path: pathlib.Path) -> None:
    zarr, numpy = pytest.importorskip("zarr"), pytest.importorskip("numpy")
    data = numpy.arange(1000).reshape(10, 100)
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(2, 50), shards=(4, 100))
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    origin.answers |= {str(path.relative_to(tmp_path)): Answer(body=path.read_bytes()) for path in stored}
    array = zarr.open_array(f"haul+http://127.0.0.1:{origin.port}/a.zarr", mode="r", zarr_format=3)
    assert (array[:] == data).all() and array[7, 99] == 799
