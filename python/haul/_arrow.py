"""Arrow tables in and out: rows of a batch from columns, and columns from its results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ._errors import UsageError, _from_parts
from ._haul import is_digest_name, result_columns
from ._waiting import INTERVAL

if TYPE_CHECKING:
    from ._client import Client

_FIELDS = ("url", "path", "size", "checksum", "mirrors", "headers")

#: Columns for what came of a row.
RESULT_SCHEMA = pa.schema([(name, pa.type_for_alias(alias)) for name, alias in result_columns])


def is_field(name: str) -> bool:
    """Whether a column of this name says something about the files of a table. The name of a digest does, also of one that haul does not
    know: that is an error of the row."""
    return name in _FIELDS or is_digest_name(name)


def rows_of_arrow(data: Any) -> Iterator[Any]:
    """The rows of an Arrow table, batch or stream, one record batch at a time; or the URLs of a column."""
    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    try:
        if not isinstance(data, pa.ChunkedArray):
            return _rows_of_reader(pa.RecordBatchReader.from_stream(data))
    except pa.ArrowInvalid:
        # A column of another library: not a stream of records.
        data = pa.chunked_array(data)
    return (url for chunk in data.chunks for url in chunk.to_pylist())


def _rows_of_reader(reader: pa.RecordBatchReader) -> Iterator[Any]:
    if "url" not in reader.schema.names:
        raise UsageError("rows: the table has no column url")
    return (row for batch in reader for row in rows_of_batch(batch, "url"))


def rows_of_batch(batch: pa.RecordBatch, url: str) -> list[Any]:
    """The rows of a record batch whose column `url` has URLs."""
    fields = [name for name in batch.schema.names if is_field(name) and name != url]
    urls: list[Any] = batch.column(url).to_pylist()
    if not fields:
        return urls
    columns = [batch.column(name).to_pylist() for name in fields]
    return [dict(zip(fields, values, strict=True), url=value) for value, *values in zip(urls, *columns, strict=True)]


def fetch_arrow(
    client: Client,
    record_batch: pa.RecordBatch,
    *,
    url: str,
    into: str | None,
    path: Any,
    on_error: str,
    arguments: dict[str, Any],
) -> pa.RecordBatch:
    """See `Client.fetch_arrow`."""
    if into not in ("bytes", "dir", "tar", None):
        raise UsageError(f"into: {into!r} is none of bytes, dir, tar and None")
    if on_error not in ("null", "raise"):
        raise UsageError(f'on_error: {on_error!r} is neither "null" nor "raise"')
    if (into in ("dir", "tar")) != (path is not None):
        raise UsageError('path: it goes with into="dir" and into="tar"')
    if url not in record_batch.schema.names:
        raise UsageError(f"url: there is no column {url!r}")
    for name in ("map", "map_threads"):
        if name in arguments:
            raise UsageError(f"{name}: it is for batch", hint="apply the function to the column body")
    for name in ("dir", "tar"):
        if name in arguments:
            raise UsageError(f"{name}: it is for batch", hint=f'give into="{name}" and path=')
    place = {into: path} if into in ("dir", "tar") else {}
    batch = client.batch(rows_of_batch(record_batch, url), **place, _drop_bodies=into is None, _collects=True, **arguments)
    with batch:
        while not batch._run.collect(INTERVAL):
            pass
        batch._is_ended = True
        columns = batch._run.columns(record_batch.num_rows)
    result = add_columns(record_batch, columns, with_bodies=into == "bytes")
    if on_error == "raise" and columns["first_error"] is not None:
        raise _from_parts(*columns["first_error"])
    return result


def add_columns(record_batch: pa.RecordBatch, columns: dict[str, Any], with_bodies: bool) -> pa.RecordBatch:
    """A record batch with the results' columns in place of its own of the same names."""
    names = set(RESULT_SCHEMA.names) | {"body"}
    kept = [name for name in record_batch.schema.names if name not in names]
    arrays = [record_batch.column(name) for name in kept]
    fields = [record_batch.schema.field(name) for name in kept]
    for field in RESULT_SCHEMA:
        values = columns[field.name]
        if isinstance(values, list):
            arrays.append(pa.array(values, type=field.type))
        else:
            arrays.append(pa.Array.from_buffers(field.type, record_batch.num_rows, [None, pa.py_buffer(values)]))
        fields.append(field)
    if with_bodies:
        buffers = [pa.py_buffer(columns[name]) for name in ("body_validity", "body_offsets", "body_data")]
        arrays.append(pa.LargeBinaryArray.from_buffers(pa.large_binary(), record_batch.num_rows, buffers))
        fields.append(pa.field("body", pa.large_binary()))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


__all__ = ["RESULT_SCHEMA", "add_columns", "fetch_arrow", "is_field", "rows_of_arrow", "rows_of_batch"]
