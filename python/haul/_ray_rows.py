"""The rows of a fetch on Ray, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray.data

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
        values = list(rows)
        is_urls = all(row is None or isinstance(row, str) for row in values)
        table = pa.table({url: pa.array(values, pa.large_string())}) if is_urls else pa.Table.from_pylist(values)
    if url not in table.column_names:
        raise UsageError(f"rows: there is no column {url!r}")
    table = table.drop_columns([name for name in (ROW, SHARE) if name in table.column_names])
    # With small offsets a column of more than 2 GiB could not be sorted.
    table = table.cast(pa.schema([_with_large_offsets(field, field.name == url) for field in table.schema]))
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))


def _with_large_offsets(field: pa.Field, is_url: bool) -> pa.Field:
    return field.with_type(pa.large_string()) if is_url or pa.types.is_string(field.type) else field


def has_same_urls(one: pa.Table, other: pa.Table, url: str) -> bool:
    """Whether they have the same URLs, in any order, since that of a dataset's rows may change."""
    first, second = (table.column(url).take(pc.sort_indices(table.column(url))) for table in (one, other))
    return bool(first.equals(second))
