"""Which rows a call of an actor fetches.

Rows of one URL go to one call, which fetches it once. Rows of a host go to one call, too, so that one actor keeps the host's limits, unless
there are too many of them: then several calls share the limits.

Limits make a call slow: it takes as long as its host with the most rows. So with limits each call has rows of as many hosts as possible, and as
many of each: a slice of every host that is larger than such a slice.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The columns with the number of a row, and with how many calls share the limits of its host.
ROW, SHARE = "row", "_share"

#: Rows of a call that are not divided further to give every actor some.
_MIN_ROWS = 256

#: The host of a URL, without its port.
_HOST = r"^\s*[^:/?#]*://(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:]*)"

#: Rows of a host, from the first to the end.
_Slice = tuple[int, int]


class _Call:
    """Rows of a call, and the most calls that one of its hosts has."""

    def __init__(self) -> None:
        self.slices: list[_Slice] = []
        self.rows = 0
        self.share = 1

    def add(self, part: _Slice, share: int) -> None:
        self.slices.append(part)
        self.rows += part[1] - part[0]
        self.share = max(self.share, share)


def partition(
    rows: pa.Table,
    url: str,
    batch_size: int,
    actors: int,
    *,
    stores: bool = True,
    is_limited: bool = False,
    connections: int | None = None,
) -> list[pa.Table]:
    """The rows of each call.

    `stores`: whether bodies are stored. Else they are in memory, each row has its own, and no call may be larger. `is_limited`: whether hosts
    have limits. `connections`: the most of a host; each of its calls needs one, so where it may have fewer than there are actors, it has no
    more calls than connections, whatever their size.
    """
    if rows.num_rows == 0:
        return []
    size = min(batch_size, max(_MIN_ROWS, -(-rows.num_rows // actors)))
    order, hosts, groups = _sorted_rows(rows, url, stores)
    counts = np.diff(hosts)
    part = max(1, size * int(counts.max()) // rows.num_rows) if is_limited else size
    if not stores or connections is None or connections >= actors:
        connections = None
    whole: list[_Slice] = []
    divided: list[list[_Slice]] = []
    for begin, end in zip(hosts[:-1].tolist(), hosts[1:].tolist(), strict=True):
        if end - begin <= part:
            whole.append((begin, end))
        else:
            count = -(-(end - begin) // part)
            divided.append(_cut(begin, end, min(count, connections or count), groups))
    calls = _calls_of_slices(divided, size) + _calls_of_hosts(whole, size)
    # Calls of one host are not all at once, as far as there are others.
    calls = [call for offset in range(actors) for call in calls[offset::actors]]
    rows = rows.take(np.concatenate([order[begin:end] for call in calls for begin, end in call.slices]))
    tables, begin = [], 0
    for call in calls:
        share = pa.array(np.full(call.rows, min(actors, call.share), np.int32))
        tables.append(rows.slice(begin, call.rows).append_column(SHARE, share))
        begin += call.rows
    return tables


def _sorted_rows(rows: pa.Table, url: str, stores: bool) -> tuple[Any, Any, Any]:
    """An order in which rows of a host are together, and in it those of a URL; where hosts begin, with the end; and where URLs do."""
    urls = pc.cast(rows.column(url), pa.large_string()).combine_chunks()
    names = pc.utf8_lower(pc.struct_field(pc.extract_regex(urls, _HOST), "host"))
    host = _codes(names)
    number = np.arange(rows.num_rows)
    # What has no host is fetched by nobody, so it need not be together.
    same = np.where(host < 0, -1 - number, _codes(urls)) if stores else number
    order = np.lexsort((same, host))
    host, same = host[order], same[order]
    is_host = np.concatenate([[True], host[1:] != host[:-1]])
    is_url = is_host | np.concatenate([[True], same[1:] != same[:-1]])
    end = [rows.num_rows]
    return order, np.concatenate([np.flatnonzero(is_host), end]), np.concatenate([np.flatnonzero(is_url), end])


def _codes(texts: pa.Array) -> Any:
    """A number for each text, the same for the same ones; -1 for none."""
    return pc.fill_null(texts.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _cut(begin: int, end: int, count: int, groups: Any) -> list[_Slice]:
    """Rows in so many parts of the same size, but for the rows of a URL, which stay together."""
    cuts = np.linspace(begin, end, count + 1).round().astype(np.int64)
    cuts = np.unique(groups[np.searchsorted(groups, cuts)]).tolist()
    return list(zip(cuts, cuts[1:], strict=False))


def _calls_of_slices(hosts: list[list[_Slice]], size: int) -> list[_Call]:
    """Calls of slices of several hosts, one of each at most. Each slice goes to the call that has the fewest rows."""
    rows = sum(host[-1][1] - host[0][0] for host in hosts)
    calls = [_Call() for _ in range(max([-(-rows // size), *map(len, hosts)], default=0))]
    smallest = [(0, number) for number in range(len(calls))]
    for host in hosts:
        used = []
        for begin, end in host:
            if not smallest or (smallest[0][0] and smallest[0][0] + end - begin > size):
                heapq.heappush(smallest, (0, len(calls)))
                calls.append(_Call())
            _, number = heapq.heappop(smallest)
            calls[number].add((begin, end), len(host))
            used.append((calls[number].rows, number))
        for call in used:
            heapq.heappush(smallest, call)
    return [call for call in calls if call.rows]


def _calls_of_hosts(hosts: list[_Slice], size: int) -> list[_Call]:
    """Calls of whole hosts."""
    calls: list[_Call] = []
    for begin, end in hosts:
        if not calls or calls[-1].rows + end - begin > size:
            calls.append(_Call())
        calls[-1].add((begin, end), 1)
    return calls


__all__ = ["ROW", "SHARE", "partition"]
