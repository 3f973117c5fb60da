"""Rows are divided into calls by their URLs and hosts."""

from __future__ import annotations

import collections
import heapq
import random
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from haul._partition import SHARE, partition


def host_of(url: str) -> str | None:
    return urlsplit(url).hostname


def rows_of(urls: list[str | None]) -> pa.Table:
    return pa.table({"url": pa.array(urls, pa.string()), "row": list(range(len(urls)))})


def random_urls(chance: random.Random) -> list[str | None]:
    urls: list[str | None] = []
    for host in range(chance.randint(0, 30)):
        count = chance.choice([1, 1, 2, chance.randint(1, 40), chance.randint(1, 300)])
        name = chance.choice([f"h{host}.example", f"H{host}.Example:8080", f"user:pw@h{host}.example", f"[::{host + 1:x}]:80"])
        urls += [f"http://{name}/{n}" for n in range(count)] * chance.choice([1, 1, 1, 3])
    urls += [None] * chance.randint(0, 5) + ["nonsense"] * chance.randint(0, 5)
    chance.shuffle(urls)
    return urls


@pytest.mark.parametrize("seed", range(60))
def test_partition_divides_rows_as_it_promises(seed: int) -> None:
    chance = random.Random(seed)
    actors, batch_size = chance.randint(1, 9), chance.randint(1, 60)
    urls = random_urls(chance)
    stores = chance.random() < 0.8
    is_limited = chance.random() < 0.6
    connections = chance.choice([None, chance.randint(1, 12)]) if is_limited else None
    calls = partition(rows_of(urls), "url", batch_size, actors, stores=stores, is_limited=is_limited, connections=connections)
    assert sorted(row for call in calls for row in call.column("row").to_pylist()) == list(range(len(urls)))
    counts = collections.Counter(host_of(url) for url in urls if url is not None)
    repeats = collections.Counter(urls)
    calls_of_url: dict[str, set[int]] = collections.defaultdict(set)
    calls_of_host: dict[str, set[int]] = collections.defaultdict(set)
    shares = []
    for number, call in enumerate(calls):
        found = call.column("url").to_pylist()
        assert found and [urls[row] for row in call.column("row").to_pylist()] == found
        (share,) = set(call.column(SHARE).to_pylist())
        shares.append(share)
        for url in found:
            if url is not None and host_of(url):
                calls_of_url[url].add(number)
                calls_of_host[host_of(url)].add(number)  # type: ignore[index]
        is_bounded = not stores or ((connections is None or connections >= actors) and max(repeats.values()) == 1)
        assert call.num_rows <= batch_size or not is_bounded
    if stores:
        assert all(len(numbers) == 1 for numbers in calls_of_url.values())
    for host, numbers in calls_of_host.items():
        # Those that may run at once have the whole limit together, and a connection each at least.
        at_once = min(actors, len(numbers))
        assert all(at_once <= shares[number] <= actors for number in numbers)
        if not is_limited and counts[host] <= batch_size:
            assert len(numbers) == 1 and shares[numbers.pop()] == 1
        if connections is not None and stores:
            assert at_once * max(1, connections // min(shares[number] for number in numbers)) <= connections


def seconds_of(calls: list[pa.Table], actors: int, rate: float) -> float:
    """How long actors take for calls that take as long as their slowest host."""
    free = [0.0] * actors
    for call in calls:
        share = call.column(SHARE)[0].as_py()
        rows = collections.Counter(host_of(url) for url in set(call.column("url").to_pylist()))
        heapq.heappush(free, heapq.heappop(free) + max(rows.values()) * share / rate)
    return max(free)


@pytest.mark.parametrize(
    ("counts", "batch_size"),
    [
        ([240] * 6, 80),
        ([1000] * 40, 1000),
        ([900] * 100, 1000),
        ([5000] + [50] * 300, 500),
        ([1] * 3000 + [400], 256),
        ([20_000, 300, 40], 1000),
        ([7] * 2000, 256),
        ([100 * n for n in range(1, 60)], 2000),
    ],
)
@pytest.mark.parametrize("actors", [1, 3, 8])
def test_hosts_get_their_rates_however_many_rows_they_have(counts: list[int], batch_size: int, actors: int) -> None:
    urls: list[str | None] = [f"http://h{host}/{n}" for host, count in enumerate(counts) for n in range(count)]
    random.Random(1).shuffle(urls)
    calls = partition(rows_of(urls), "url", batch_size, actors, is_limited=True)
    assert all(call.num_rows <= batch_size for call in calls)
    # No division can be faster than the largest host, and no call can ask more hosts at once than it has rows. Whole hosts would take up to
    # 33 times as long.
    assert seconds_of(calls, actors, 1.0) <= 2.2 * max(*counts, len(urls) / batch_size)


def test_partition_gives_every_actor_some() -> None:
    rows = pa.table({"url": [f"http://h{n % 500}/{n}" for n in range(4000)]})
    assert len(partition(rows, "url", 4096, 4)) >= 4
    assert len(partition(rows.slice(0, 100), "url", 4096, 4)) == 1
    assert partition(rows.slice(0, 0), "url", 4096, 4) == []


def test_rows_of_a_url_are_one_call_and_what_is_no_url_is_divided() -> None:
    urls: list[str | None] = [f"http://h/{n % 100}" for n in range(1000)] + [None] * 500 + ["nonsense"] * 500
    calls = partition(rows_of(urls), "url", 50, 3)
    where = collections.defaultdict(set)
    for number, call in enumerate(calls):
        for url in call.column("url").to_pylist():
            where[url].add(number)
    assert all(len(where[url]) == 1 for url in urls if url is not None and url != "nonsense")
    assert len(where[None]) == 10 and all(call.num_rows <= 60 for call in calls)
    # In memory each row has a body of its own.
    assert all(call.num_rows <= 50 for call in partition(rows_of(urls), "url", 50, 3, stores=False))
