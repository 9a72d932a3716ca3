"""Read tasks from files: tables (csv, tsv, parquet), archives of arrays (npz, mat), precomputed kernels."""

from multikernel.io.tables.dataset import Dataset, read_dataset, read_features
from multikernel.io.tables.formats import Table, read_table, read_tables
from multikernel.io.tables.precomputed import read_test_kernels
from multikernel.io.tables.selection import parse_view, select_columns

__all__ = [
    "Dataset",
    "Table",
    "parse_view",
    "read_dataset",
    "read_features",
    "read_table",
    "read_tables",
    "read_test_kernels",
    "select_columns",
]
