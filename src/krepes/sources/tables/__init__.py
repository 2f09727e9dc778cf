"""Sources of tables: CSV and Parquet files, frames in memory, and vectors read as columns."""
