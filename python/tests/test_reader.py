"""Bodies that are read: whole, in pieces, at any place."""

import asyncio
import gzip
import io
import random

import pytest

import haul
from conftest import Answer, Origin, content


def test_bytes_and_stream(origin: Origin, client: haul.Client) -> None:
    url = origin.url("a", 2_000_000)
    assert client.bytes(url) == content("a", 2_000_000)
    assert asyncio.run(client.abytes(url)) == content("a", 2_000_000)
    pieces = list(client.stream(url))
    assert all(isinstance(piece, memoryview) for piece in pieces)
    assert b"".join(pieces) == content("a", 2_000_000)
    with pytest.raises(haul.VerificationError):
        client.bytes(url, checksum="md5:" + "0" * 32)
    with pytest.raises(haul.VerificationError):
        list(client.stream(url, checksum="md5:" + "0" * 32))
    origin.answers["gone"] = Answer(410)
    with pytest.raises(haul.NetworkError):
        next(client.stream(origin.url("gone")))


def test_a_body_that_broke_off_is_fetched_anew(origin: Origin, client: haul.Client) -> None:
    """Without an ETag it cannot be continued."""
    body = content("whole", 1000)
    origin.answers["f"] = Answer(body=body, broken_at=500, times=2)
    assert client.bytes(origin.url("f")) == content("f", 1000) and origin.count("f") == 3
    origin.answers["g"] = Answer(body=body, broken_at=500)
    with pytest.raises(haul.NetworkError, match="broke off after 500 bytes"):
        client.bytes(origin.url("g"))
    assert origin.count("g") == 3
    # A stream's reader has got the beginning.
    with pytest.raises(haul.NetworkError, match="cannot be continued"):
        list(client.stream(origin.url("g")))
    assert origin.count("g") == 4


def test_a_stream_that_is_left_ends(origin: Origin, client: haul.Client) -> None:
    stream = client.stream(origin.url("a", 50_000_000))
    assert len(next(stream)) > 0
    stream.close()  # type: ignore[attr-defined]
    assert client.bytes(origin.url("b")) == content("b", 1000)


def test_a_file_is_read_at_any_place(origin: Origin, client: haul.Client) -> None:
    data = content("f", 3_000_000)
    with client.open(origin.url("f", 3_000_000)) as file:
        assert (file.size, file.readable(), file.seekable(), file.tell()) == (len(data), True, True, 0)
        dice = random.Random(7)
        for _ in range(200):
            place, length = dice.randrange(len(data) + 10), dice.choice([0, 1, 100, 70_000, 400_000])
            file.seek(place)
            assert file.read(length) == data[place : place + length]
        file.seek(-5, io.SEEK_END)
        assert file.read() == data[-5:] and file.read(1) == b""
        with pytest.raises(ValueError):
            file.seek(-1)
    with pytest.raises(ValueError):
        file.read(1)


def test_reading_on_costs_no_requests(origin: Origin, client: haul.Client) -> None:
    with client.open(origin.url("f", 3_000_000)) as file:
        while file.read(1 << 16):
            pass
    assert origin.count("f") <= 3


def test_two_versions_are_never_mixed(origin: Origin, client: haul.Client) -> None:
    with client.open(origin.url("f", 30_000_000)) as file:
        file.read(10)
        origin.etags["f"] = "another"
        file.seek(20_000_000)
        with pytest.raises(haul.VerificationError):
            file.read(10)


def test_standard_readers_take_it(origin: Origin, client: haul.Client) -> None:
    text = "".join(f"line {n}\n" for n in range(5000)).encode()
    origin.answers["lines.gz"] = Answer(body=gzip.compress(text))
    with client.open(origin.url("lines.gz")) as file, gzip.open(file) as lines:
        assert sum(1 for _ in lines) == 5000


def test_lines_are_read_from_a_buffer(origin: Origin, client: haul.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    origin.answers["lines"] = Answer(body=b"".join(b"line %d\n" % n for n in range(10_000)))
    with client.open(origin.url("lines")) as file:
        reads = []
        read = file.raw._read  # type: ignore[attr-defined]
        monkeypatch.setattr(file.raw, "_read", lambda size: reads.append(size) or read(size))
        assert [file.readline(), file.peek(1)[:7], file.readline(3)] == [b"line 0\n", b"line 1\n", b"lin"]
        assert file.tell() == 10 and sum(1 for _ in file) == 9999
    assert len(reads) < 50
