"""A pypaimon writer that commits in a loop, as it is: it looks whether snapshot-N exists and then renames its own to it.

    beside.py TABLE WRITERS

Rows have ids -1, -2, ... It goes on until WRITERS files TABLE.done-0, -1, ... are there, then makes TABLE.quiet and prints how often it committed.
"""
import os
import random
import sys
import time

import pyarrow as pa

USER = "renaming-pypaimon"


def rows(n, schema):
    ids = pa.array([-n], pa.int64())
    return pa.Table.from_arrays([ids, pa.array([None], schema.field("amount").type)], schema=schema)


def main():
    from pypaimon.schema.data_types import PyarrowFieldParser
    from pypaimon.table.file_store_table import FileStoreTable

    path, writers = sys.argv[1], int(sys.argv[2])
    pure = {"scan.native-plan.enabled": "false", "read.native.enabled": "false", "commit.native.enabled": "false", "write.native.enabled": "false"}
    table = FileStoreTable.from_path(path).copy(pure)
    schema = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
    n = said = refused = 0
    while not all(os.path.exists(f"{path}.done-{w}") for w in range(writers)):
        time.sleep(random.uniform(0, 0.04))
        n += 1
        builder = table.new_stream_write_builder()._with_commit_user(USER)
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows(n, schema))
        try:
            commit.commit(write.prepare_commit(n), n)
            said += 1
        except Exception as e:  # it gives up after some lost races; the next one is another attempt
            refused += 1
            print(f"pypaimon: {e}", file=sys.stderr)
    open(f"{path}.quiet", "w").close()
    print(said, refused)


main()
