"""Reads a table on a bucket through pypaimon's own S3 client: counts its rows and adds up the column `id`.

    pypaimon_s3.py ENDPOINT KEY WAREHOUSE DATABASE TABLE
"""
import json
import sys

import pyarrow.compute as pc
from pypaimon import CatalogFactory

endpoint, key, warehouse, database, name = sys.argv[1:]
catalog = CatalogFactory.create({
    "warehouse": warehouse, "s3.endpoint": endpoint, "s3.access-key": key, "s3.secret-key": key, "s3.region": "us-east-1",
    "s3.path.style.access": "true",
})
table = catalog.get_table(f"{database}.{name}").copy({"scan.native-plan.enabled": "false", "read.native.enabled": "false"})
builder = table.new_read_builder().with_projection(["id"])
data = builder.new_read().to_arrow(builder.new_scan().plan().splits())
ids = data.column("id")
print(json.dumps({"rows": data.num_rows, "distinct": pc.count_distinct(ids).as_py(), "sum": pc.sum(ids).as_py()}))
