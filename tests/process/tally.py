"""Reads tables through pypaimon and adds up their columns `id` and `amount`: one path a line in, one JSON object a line out.

The pure Python reader of tests/interop; only the adding up is pyarrow's, so that millions of rows take seconds.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import pyarrow.compute as pc
from python_reader import PROTOCOL, PyPaimon


def tally(path):
    reader = PyPaimon()
    rb = reader.open({"table": path}).new_read_builder().with_projection(["id", "amount"])
    splits = rb.new_scan().plan().splits()
    data = rb.new_read().to_arrow(splits)
    ids, amounts = data.column("id"), data.column("amount")
    # A decimal of 38 digits cannot overflow here, and no float is on the way.
    return {"rows": data.num_rows, "distinct": pc.count_distinct(ids).as_py(), "min": pc.min(ids).as_py(), "max": pc.max(ids).as_py(),
            "sum": pc.sum(ids).as_py(), "amount": str(pc.sum(amounts).as_py()), "nulls": ids.null_count + amounts.null_count}


for line in sys.stdin:
    PROTOCOL.write(json.dumps(tally(line.strip())) + "\n")
    PROTOCOL.flush()
