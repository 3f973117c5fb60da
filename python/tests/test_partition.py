"""Rows are divided into calls by their hosts."""

from __future__ import annotations

import collections
import random
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from haul._partition import partition


def host_of(url: str | None) -> str | None:
    return None if url is None else urlsplit(url).hostname


@pytest.mark.parametrize("seed", range(40))
def test_partition_divides_rows_as_it_promises(seed: int) -> None:
    chance = random.Random(seed)
    actors, batch_size = chance.randint(1, 9), chance.randint(1, 60)
    urls: list[str | None] = []
    for host in range(chance.randint(0, 30)):
        count = chance.choice([1, 1, 2, chance.randint(1, 40), chance.randint(1, 300)])
        name = chance.choice([f"h{host}.example", f"H{host}.Example:8080", f"user:pw@h{host}.example", f"[::{host + 1:x}]:80"])
        urls += [f"http://{name}/{n}" for n in range(count)]
    urls += [None] * chance.randint(0, 5)
    chance.shuffle(urls)
    rows = pa.table({"url": pa.array(urls, pa.string()), "row": list(range(len(urls)))})
    connections = chance.choice([None, chance.randint(1, 12)])
    calls = partition(rows, "url", batch_size, actors, connections)
    assert sorted(row for call in calls for row in call.column("row").to_pylist()) == list(range(len(urls)))
    counts = collections.Counter(host_of(url) for url in urls)
    by_host: dict[str | None, list[tuple[int, set[str | None]]]] = collections.defaultdict(list)
    for call in calls:
        assert call.num_rows > 0
        assert all(urls[row] == url for row, url in zip(call.column("row").to_pylist(), call.column("url").to_pylist(), strict=True))
        shares = set(call.column("_share").to_pylist())
        names = {host_of(url) for url in call.column("url").to_pylist()}
        assert len(shares) == 1
        for name in names:
            by_host[name].append((shares.copy().pop(), names))
    for name, parts in by_host.items():
        if counts[name] <= batch_size:
            assert len(parts) == 1 and parts[0][0] == 1
        else:
            # It is alone in its calls, and those that may run at once have the whole limit together: a connection each, at least.
            most = -(-counts[name] // batch_size)
            is_limited = connections is not None and connections < min(actors, most)
            assert len(parts) <= connections if is_limited else len(parts) == most
            assert all(share == min(actors, len(parts)) and names == {name} for share, names in parts)
            assert connections is None or min(actors, len(parts)) * max(1, connections // parts[0][0]) <= connections


def test_partition_gives_every_actor_some() -> None:
    rows = pa.table({"url": [f"http://h{n % 500}/{n}" for n in range(4000)]})
    assert len(partition(rows, "url", 4096, 4)) >= 4
    assert len(partition(rows.slice(0, 100), "url", 4096, 4)) == 1
    assert partition(rows.slice(0, 0), "url", 4096, 4) == []
