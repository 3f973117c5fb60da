"""Which rows a call of an actor fetches: those of a host together, so that one actor keeps the host's limits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The columns with the number of a row, and with how many calls share the limits of its host.
ROW, SHARE = "row", "_share"

#: Rows of a call that are not divided further to give every actor some.
_MIN_ROWS = 256

#: The host of a URL, without its port.
_HOST = r"^\s*[^:/?#]*://(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:]*)"


def partition(rows: pa.Table, url: str, batch_size: int, actors: int, connections: int | None = None) -> list[pa.Table]:
    """The rows of each call. Those of a host are in one call; a host with more than a call takes has several, which share its limits.

    Each of these needs a connection: where a host may have fewer than there are actors, it has no more calls than connections, whatever
    their size.
    """
    if rows.num_rows == 0:
        return []
    size = min(batch_size, max(_MIN_ROWS, -(-rows.num_rows // actors)))
    urls = pc.cast(rows.column(url), pa.large_string())
    hosts = pc.utf8_lower(pc.struct_field(pc.extract_regex(urls, _HOST), "host")).combine_chunks()
    order = pc.array_sort_indices(hosts)
    rows = rows.take(order)
    # First row, end, and how many calls share the limits.
    calls: list[tuple[int, int, int]] = []
    first = begin = 0
    for end in pc.run_end_encode(hosts.take(order)).run_ends.to_pylist():
        if end - first > size:
            if begin > first:
                calls.append((first, begin, 1))
            first = begin
        if end - begin > size:
            is_limited = connections is not None and connections < actors
            step = max(size, -(-(end - begin) // connections)) if is_limited else size
            share = min(actors, -(-(end - begin) // step))
            calls += [(at, min(at + step, end), share) for at in range(begin, end, step)]
            first = end
        begin = end
    if begin > first:
        calls.append((first, begin, 1))
    # Calls of one large host are not all at once, as far as there are others.
    calls = [call for offset in range(actors) for call in calls[offset::actors]]
    return [
        rows.slice(begin, end - begin).append_column(SHARE, pa.array(np.full(end - begin, share, np.int32)))
        for begin, end, share in calls
    ]
