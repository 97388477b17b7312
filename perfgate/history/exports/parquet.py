"""Apache Parquet, through pyarrow: the same table as CSV."""

from __future__ import annotations

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
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    file = BytesIO()
    parquet.write_table(pa.table(found.columns(), schema=schema), file)
    return file.getvalue()
