"""The rows of a fetch on Ray, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray.data

from ._arrow import is_field
from ._errors import UsageError
from ._partition import ROW, SHARE


def table_of_rows(rows: Any, url: str) -> pa.Table:
    """The rows as a table with their numbers."""
    if isinstance(rows, ray.data.Dataset):
        tables = list(rows.iter_batches(batch_size=None, batch_format="pyarrow"))
        table = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({url: pa.array([], pa.string())})
    elif isinstance(rows, pa.Table):
        table = rows
    elif hasattr(rows, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(rows).read_all()
    elif isinstance(rows, (str, bytes)):
        raise UsageError("rows: give URLs, not one text")
    else:
        table = _table_of_values(list(rows), url)
    if url not in table.column_names:
        raise UsageError(f"rows: there is no column {url!r}")
    table = table.drop_columns([name for name in (ROW, SHARE) if name in table.column_names])
    # With small offsets a column of more than 2 GiB could not be sorted.
    table = table.cast(pa.schema([_with_large_offsets(field, field.name == url) for field in table.schema]))
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))


def _table_of_values(values: list[Any], url: str) -> pa.Table:
    """Columns of URLs and dicts, with all keys that any of the dicts has."""
    if all(row is None or isinstance(row, str) for row in values):
        return pa.table({url: _column(url, values, pa.large_string())})
    dicts = [row if isinstance(row, dict) else {url: row} for row in values]
    for row in values:
        if not (row is None or isinstance(row, (str, dict))):
            raise TypeError(f"a row is a URL or a dict with a url, not {type(row).__name__}")
    names = dict.fromkeys(name for row in dicts for name in row)
    # What is no number in a column that haul reads (as pandas has it for what is missing) is no value.
    return pa.table(
        {name: _column(name, [row.get(name) for row in dicts], from_pandas=name == url or is_field(name)) for name in names}
    )


def _column(name: str, values: list[Any], type: pa.DataType | None = None, from_pandas: bool = False) -> pa.Array:
    try:
        return pa.array(values, type, from_pandas=from_pandas)
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        # Arrow's message may have a value in it, and a value may be secret.
        raise UsageError(f"rows: the values of {name!r} are not all of one type that Arrow has") from None


def check_paths(table: pa.Table, url: str) -> None:
    """Raises if a path is that of different URLs. A call cannot find that out, since it knows only its own rows."""
    if "path" not in table.column_names:
        return
    # As the engine reads them: ./a//b is a/b.
    paths = pc.replace_substring_regex(pc.cast(table.column("path"), pa.large_string()), r"(/|^)(?:\./+)+", r"\1")
    paths = pc.replace_substring_regex(paths, "/+", "/")
    named = pa.table({"path": paths, "url": table.column(url)}).filter(pc.is_valid(paths))
    counts = named.group_by("path").aggregate([("url", "count_distinct")])
    repeated = counts.filter(pc.greater(counts.column("url_count_distinct"), 1))
    if repeated.num_rows:
        path, count = repeated.column("path")[0].as_py(), repeated.column("url_count_distinct")[0].as_py()
        raise UsageError(f"rows: the path {path!r} is that of {count} URLs", hint="give each URL a path of its own")


def _with_large_offsets(field: pa.Field, is_url: bool) -> pa.Field:
    return field.with_type(pa.large_string()) if is_url or pa.types.is_string(field.type) else field


def has_same_urls(one: pa.Table, other: pa.Table, url: str) -> bool:
    """Whether they have the same URLs, in any order, since that of a dataset's rows may change."""
    first, second = (table.column(url).take(pc.sort_indices(table.column(url))) for table in (one, other))
    return bool(first.equals(second))
