"""Arguments that cannot be used are errors that say which, what it may be, and what it was."""

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import haul
from conftest import Answer, Origin, content


@pytest.mark.parametrize("text", ["s3://bucket/x/", "http://h/x", "HTTPS://h/x", "gs://bucket/x", pathlib.Path("s3://bucket/x")])
def test_a_url_is_no_path(client: haul.Client, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, text: Any) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["http://127.0.0.1:9/a"]
    table = pa.RecordBatch.from_pydict({"url": rows})
    for name, call in (
        ("dir", lambda: client.batch(rows, dir=text)),
        ("tar", lambda: client.batch(rows, tar=text)),
        ("manifest", lambda: client.batch(rows, dir="d", manifest=text)),
        ("path", lambda: client.get(rows[0], text)),
        ("dir", lambda: client.get(rows[0], dir=text)),
        ("path", lambda: haul.get(rows[0], text)),
        ("path", lambda: client.put(text, "http://127.0.0.1:9/a")),
        ("path", lambda: client.fetch_arrow(table, into="dir", path=text)),
    ):
        with pytest.raises(haul.UsageError, match=f"^{name}: must be a path on this machine, and not a URL") as caught:
            call()
        assert caught.value.hint and caught.value.kind == "usage"
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_clients() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"timeout": "x"}, "timeout: must be a number of seconds above 0, not 'x'"),
        ({"timeout": float("nan")}, "timeout"),
        ({"retries": -1}, "retries: must be a whole number from 0 on, not -1"),
        ({"retries": 1.5}, "retries"),
        ({"retries": True}, "retries"),
        ({"verify": None}, "verify: must be True, False or the path"),
        ({"verify": 1}, "verify"),
        ({"verify": __file__}, "verify: the PEM of the trusted certificates contains no usable certificate"),
        ({"proxy": 7}, "proxy: must be a URL"),
        ({"limit": [1]}, "limit: must be a number of bytes"),
        ({"limit": float("inf")}, "limit"),
        ({"min_rate": "fast"}, "min_rate: 'fast' is not a size"),
        ({"min_rate": (None, 5)}, "min_rate: must be bytes a second, perhaps with seconds, not (None, 5)"),
        ({"min_rate": (100, 0)}, "min_rate: must be a number of seconds above 0, not 0"),
        ({"min_rate": False}, "min_rate: must be a number of bytes"),
        ({"max_time": 0}, "max_time: must be a number of seconds above 0"),
        ({"rate_per_host": "5"}, "rate_per_host: must be a number of requests a second above 0"),
        ({"connections_per_host": 1025}, "connections_per_host: must be a number from 1 to 1024, not 1025"),
        ({"s3": "minio"}, "s3: must be a dict, not str"),
        ({"s3": {"region": 1}}, "s3: region: must be a str, not int"),
        ({"s3": {"no_sign_request": "no"}}, "s3: no_sign_request: must be True or False, not 'no'"),
    ]
    for arguments, words in wrong:
        with pytest.raises(haul.UsageError) as caught:
            haul.Client(**arguments)
        assert str(caught.value).startswith(words)
    haul.Client(timeout=2, retries=0, rate_per_host=1, limit=1e6, min_rate=("20k", 1.5), max_time=60)
    haul.Client(min_rate=0)


def test_arguments_of_calls(client: haul.Client, tmp_path: pathlib.Path) -> None:
    path, url = tmp_path / "x", "http://127.0.0.1:9/a"
    c: Any = client
    for call, words in (
        (lambda: c.bytes(None), "url: must be a URL (str), not NoneType"),
        (lambda: c.open(None), "url: must be a URL (str), not NoneType"),
        (lambda: c.get(b"http://h/x", path), "url: must be a URL (str), not bytes"),
        (lambda: c.get(url, b"x"), "path: must be a path (str or os.PathLike), not bytes"),
        (lambda: c.put(None, url), "path: it is missing"),
        (lambda: c.get(url, 3), "path: must be a path (str or os.PathLike), not int"),
        (lambda: c.get(url, path, auth=("secret",)), "auth: must be (user, password) or a token"),
        (lambda: c.get(url, path, auth=(b"user", b"secret")), "auth: must be (user, password) or a token"),
        (lambda: c.get(url, path, connections=-1), "connections: must be a number from 1 to 1024, not -1"),
        (lambda: c.get(url, path, connections=0), "connections: must be a number from 1 to 1024, not 0"),
        (lambda: c.get(url, path, overwrite="no"), "overwrite: must be True or False, not 'no'"),
        (lambda: c.get(url, path, checksum=[7]), "checksum: must be a str, or several, not int"),
        (lambda: c.get(url, path, mirrors=7), "mirrors: must be a str, or several, not int"),
        (lambda: c.batch(None), "rows: must be URLs or dicts, a table, or the path of a list, not NoneType"),
        (lambda: c.batch({"url": url}), "rows: must be URLs or dicts, a table, or the path of a list, not dict"),
        (lambda: c.batch([url], map=7), "map: must be a function, not int"),
        (lambda: c.batch([url], map=len, map_threads=0), "map_threads: must be a whole number from 1 on, not 0"),
        (lambda: c.batch([url], tar=path, overwrite=True), "overwrite: it is for dir"),
        (lambda: c.batch([url], dir=7), "dir: must be a path"),
    ):  # fmt: skip
        with pytest.raises(haul.UsageError) as caught:
            call()
        assert str(caught.value).startswith(words) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("example.com/x", '"example.com/x" has no scheme', "did you mean https://example.com/x ?"),
        ("localhost:8080/x", '"localhost:8080/x" has no scheme', "did you mean https://localhost:8080/x ?"),
        ("image.iso", '"image.iso" has no scheme', "did you mean https://image.iso ?"),
        ("me:secret@h/x", '"***@h/x" has no scheme', "did you mean https://***@h/x ?"),
        ("/srv/x", '"/srv/x" is not a URL', "a URL looks like https://example.com/file"),
        ("x", '"x" is not a URL', "a URL looks like https://example.com/file"),
        ("", '"" is not a URL', "a URL looks like https://example.com/file"),
        ("ftp://h/x", '"ftp://h/x" cannot be used: a URL must begin with http://, https:// or s3://', ""),
        ("http://h:99999/x", '"http://h:99999/x" cannot be used: not a valid URL: invalid port number', ""),
    ],
)
def test_what_is_no_url_is_said_as_by_the_command(client: haul.Client, tmp_path: pathlib.Path, text: str, words: str, hint: str) -> None:
    (tmp_path / "f").write_bytes(b"f")
    good = "http://127.0.0.1:9/x"
    for call in (
        lambda: client.get(text, tmp_path / "x"),
        lambda: client.get(good, tmp_path / "x", mirrors=[text]),
        lambda: client.bytes(text),
        lambda: list(client.stream(text)),
        lambda: client.open(text),
        lambda: client.put(tmp_path / "f", text),
    ):
        with pytest.raises(haul.UsageError) as caught:
            call()
        assert str(caught.value).startswith(words) and (caught.value.hint or "").startswith(hint)
        assert "secret" not in str(caught.value) and "without a base" not in str(caught.value)
    with pytest.raises(haul.UsageError) as caught:
        haul.Client(s3={"endpoint_url": text})
    assert str(caught.value).startswith(f"s3: endpoint_url: {words}")
    # In a row it is the row's error.
    (row,) = client.batch([text])
    assert row.error_class == "usage" and "without a base" not in str(row.error)


def test_a_mirror_may_be_one_text(origin: Origin, client: haul.Client, tmp_path: pathlib.Path) -> None:
    origin.answers["gone"] = Answer(404)
    file = client.get(origin.url("gone"), tmp_path / "x", mirrors=origin.url("there"))
    assert file.path.read_bytes() == content("there", 1000)


def test_header_values(origin: Origin, client: haul.Client) -> None:
    headers: Any = {"X-Bytes": b"caf\xe9", "X-Text": "caf\u00e9", "X-None": None, b"X-Name": "name"}
    client.bytes(origin.url("a"), headers=headers)
    (sent,) = origin.headers
    assert sent["X-Bytes"] == sent["X-Text"] == "caf\u00e9"
    assert sent["X-Name"] == "name" and "X-None" not in sent
    for wrong in ({"A": 7}, {"A": ["secret"]}, "A: secret", [("A",)], 7):
        with pytest.raises(haul.UsageError, match="^headers: must be") as caught:
            client.bytes(origin.url("a"), headers=wrong)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)


def test_settings_of_connections(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    pinned = {f"files.test:{origin.port}": ["127.0.0.1"]}
    client = haul.Client(no_proxy=["files.test"], resolve=pinned, ip_version=4, http_version="1.1", connect_timeout=5, retries=0)
    url = f"http://files.test:{origin.port}/a?size=10"
    assert len(client.bytes(url)) == 10
    origin.answers["moved"] = Answer(302, headers={"Location": url})
    once = haul.Client(no_proxy="*", resolve=pinned, max_redirects=0, retries=0)
    with pytest.raises(haul.NetworkError, match="max_redirects=N follows more"):
        once.bytes(origin.url("moved"))


def test_settings_of_connections_are_checked(tmp_path: pathlib.Path) -> None:
    for arguments, words in (
        ({"ip_version": 5}, "ip_version: must be 4 or 6, not 5"),
        ({"http_version": 2}, "http_version: must be '1.1' or '2', not 2"),
        ({"resolve": {"example.com": "192.0.2.1"}}, "resolve: 'example.com': "),
        ({"resolve": {"example.com:443": "there"}}, "resolve: 'example.com:443': 'there' is not"),
        ({"resolve": "example.com:443:192.0.2.1"}, "resolve: must be a dict, not str"),
        ({"no_proxy": ["10.0.0.0/99"]}, "no_proxy: "),
        ({"connect_timeout": 0}, "connect_timeout: must be a number of seconds above 0"),
        ({"max_redirects": -1}, "max_redirects: must be a whole number from 0 on"),
        ({"cert": (tmp_path,)}, "cert: must be a path, or (certificate, key)"),
    ):
        with pytest.raises(haul.UsageError) as caught:
            haul.Client(**arguments)  # type: ignore[arg-type]
        assert str(caught.value).startswith(words)
    with pytest.raises(haul.LocalIOError, match="cert: cannot read"):
        haul.Client(cert=tmp_path / "none.pem")
