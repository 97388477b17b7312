"""Apache Parquet, through pyarrow: the same table as CSV, with times as such."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO

from perfgate.core.run_history import COLUMNS, LoadedHistory

NAME = "parquet"


def render(found: LoadedHistory) -> bytes:
    """Return the bytes of a Parquet file. Raises ImportError without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'perfgate[history]'") from None
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    columns = found.columns()
    times = [datetime.fromisoformat(str(time).replace("Z", "+00:00")) for time in columns.pop("time")]
    arrays = {"time": pa.array(times, pa.timestamp("s", tz="UTC"))}
    arrays |= {name: pa.array(cells, kinds[COLUMNS[name]]) for name, cells in columns.items()}
    file = BytesIO()
    parquet.write_table(pa.table(arrays), file)
    return file.getvalue()
