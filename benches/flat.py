"""Commits of ten rows by pypaimon, by the paimon crate (pypaimon-rust) or by deltalake, one after the other; prints the milliseconds of
each.

    flat.py pypaimon|paimon|deltalake TABLE COMMITS
"""
import os
import sys
import time

import pyarrow as pa

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def batch(n):
    ids = list(range(n * 10, n * 10 + 10))
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), pa.array([f"name {i}" for i in ids])], schema=SCHEMA)


def pypaimon(path):
    from pypaimon.table.file_store_table import FileStoreTable

    # Its own code, even where pypaimon-rust lies beside it.
    pure = {"scan.native-plan.enabled": "false", "read.native.enabled": "false", "commit.native.enabled": "false", "write.native.enabled": "false"}
    builder = FileStoreTable.from_path(path).copy(pure).new_stream_write_builder()
    write, commit = builder.new_write(), builder.new_commit()

    def one(n, rows):
        write.write_arrow_batch(rows)
        commit.commit(write.prepare_commit(n), n)

    return one


def paimon(path):
    from pypaimon_rust.datafusion import Table

    newest = max(int(f[7:]) for f in os.listdir(f"{path}/schema") if f.startswith("schema-"))
    with open(f"{path}/schema/schema-{newest}", encoding="utf-8") as f:
        builder = Table.from_resolved_schema(path, f.read()).new_stream_write_builder()
    write, commit = builder.new_write(), builder.new_commit()

    def one(n, rows):
        write.write_arrow(rows)
        commit.commit(n, write.prepare_commit(False, n))

    return one


def deltalake(path):
    from deltalake import write_deltalake

    def one(n, rows):
        write_deltalake(path, pa.Table.from_batches([rows]), mode="append")

    return one


def main():
    one = {"pypaimon": pypaimon, "paimon": paimon, "deltalake": deltalake}[sys.argv[1]](sys.argv[2])
    for n in range(1, int(sys.argv[3]) + 1):
        rows = batch(n)
        begun = time.perf_counter()
        one(n, rows)
        print(f"{(time.perf_counter() - begun) * 1000:.4f}", flush=True)


main()
