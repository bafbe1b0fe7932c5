"""Reads tables of `failover.rs` and `endless.rs` through pypaimon and adds them up: one path a line in, one JSON object a line out.

The pure Python reader of tests/interop; only the adding up is pyarrow's, so that millions of rows take seconds.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import pyarrow.compute as pc
from python_reader import PROTOCOL, PyPaimon

PLACE = ["topic", "partition", "offset"]


def tally(path):
    builder = PyPaimon().open({"table": path}).new_read_builder()
    names = [f.name for f in builder.read_type()]
    dead = "stage" in names
    builder = builder.with_projection(PLACE if dead else PLACE + ["id", "amount"])
    data = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    found = {"rows": data.num_rows, "places": data.select(PLACE).group_by(PLACE).aggregate([]).num_rows}
    if not dead:
        ids = data.column("id")
        # A decimal of 38 digits cannot overflow here, and no float is on the way.
        found |= {"distinct": pc.count_distinct(ids).as_py(), "sum": pc.sum(ids).as_py() or 0, "amount": str(pc.sum(data.column("amount")).as_py())}
    per = data.group_by(["topic", "partition"]).aggregate([("offset", "count"), ("offset", "min"), ("offset", "max")]).to_pylist()
    found["partitions"] = {f"{p['topic']}/{p['partition']}": [p["offset_count"], p["offset_min"], p["offset_max"]] for p in per}
    return found


for line in sys.stdin:
    PROTOCOL.write(json.dumps(tally(line.strip())) + "\n")
    PROTOCOL.flush()
