"""Answers one JSON request per line of stdin with one JSON line on stdout, by pypaimon or by pypaimon-rust.

    python_reader.py pypaimon|pypaimon-rust

See README.md for the requests and for the canonical text of values.
"""
import datetime
import json
import os
import sys

import pyarrow as pa

import canon
from canon import Kind

PROTOCOL = sys.stdout
sys.stdout = sys.stderr  # libraries that print must not break the protocol

METHOD = {"eq": "equal", "lt": "lessThan", "le": "lessOrEqual", "gt": "greaterThan", "ge": "greaterOrEqual",
          "is_null": "isNull", "is_not_null": "isNotNull"}
BUILDER = {"eq": "equal", "lt": "less_than", "le": "less_or_equal", "gt": "greater_than", "ge": "greater_or_equal",
           "is_null": "is_null", "is_not_null": "is_not_null"}


def literal(text, kind):
    """The Python value that both libraries take for a column of this type."""
    v = canon.comparable(text, kind)
    if kind.base == "DATE":
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=v)  # OverflowError outside the years 1..9999
    if kind.base == "TIME":
        return (canon.EPOCH + datetime.timedelta(milliseconds=v)).time()
    if kind.base == "TIMESTAMP":
        if v % 1000:
            raise NotImplementedError("Python's datetime has microseconds")
        d = canon.EPOCH + datetime.timedelta(microseconds=v // 1000)
        return d.replace(tzinfo=datetime.timezone.utc) if kind.ltz else d
    return v


def field(batch, name):
    i = batch.schema.get_field_index(name)
    if i < 0:
        raise ValueError(f"the reader gave no column {name}, only {batch.schema.names}")
    return batch.column(i)


def answer_rows(q, columns, batches, extra):
    """columns: [(name, type)] in schema order; batches: Arrow data with at least the columns asked for.
    The exact filter is applied again here, and what it drops is reported as `reader_extra`."""
    f = q.get("filter")
    kinds = {n: Kind(t) for n, t in columns if isinstance(t, str) and "<" not in t and "{" not in t}
    wanted = [n for n, _ in columns if not q.get("columns") or n in q["columns"]]
    bound = None
    if f and f[1] not in ("is_null", "is_not_null"):
        bound = canon.comparable(f[2], kinds[f[0]])
    rows, dropped, count = [], 0, 0
    summaries = {n: canon.Summary(kinds[n]) for n in wanted} if q["cmd"] == "summary" else None
    for b in batches:
        if b.num_rows == 0:
            continue
        keep = None
        if f:
            col = canon.column(field(b, f[0]))
            keep = [canon.keeps(f[1], v, bound, kinds.get(f[0])) for v in col]
            dropped += len(keep) - sum(keep)
        count += sum(keep) if keep is not None else b.num_rows
        if q["cmd"] == "count":
            continue
        cols = [canon.column(field(b, n)) for n in wanted]
        if keep is not None:
            cols = [[v for v, k in zip(c, keep) if k] for c in cols]
        if summaries:
            for n, c in zip(wanted, cols):
                summaries[n].add(c)
        else:
            rows.extend(dict(zip(wanted, r)) for r in zip(*cols))
    a = {"rows": rows} if q["cmd"] == "rows" else {"count": count}
    if summaries:
        a["columns"] = {n: s.answer() for n, s in summaries.items()}
    if f:
        a["reader_extra"] = dropped
    a.update(extra)
    return a


def names_to_read(q, columns):
    have = [n for n, _ in columns]
    for n in (q.get("columns") or []) + ([q["filter"][0]] if q.get("filter") else []):
        if n not in have:
            raise ValueError(f"no column {n} in {have}")
    if not q.get("columns"):
        return None
    need = set(q["columns"]) | ({q["filter"][0]} if q.get("filter") else set())
    return [n for n in have if n in need]


class PyPaimon:
    # The pure Python code, even though pypaimon-rust lies beside it.
    PURE = {"scan.native-plan.enabled": "false", "read.native.enabled": "false",
            "commit.native.enabled": "false", "write.native.enabled": "false"}

    def open(self, q):
        from pypaimon.table.file_store_table import FileStoreTable

        o = dict(self.PURE)
        if q.get("snapshot") is not None:
            o["scan.snapshot-id"] = str(q["snapshot"])
        return FileStoreTable.from_path(q["table"]).copy(o)

    @staticmethod
    def columns(table):
        return [(f.name, f.to_dict()["type"]) for f in table.table_schema.fields]

    def builder(self, q, table, columns):
        rb = table.new_read_builder()
        f = q.get("filter")
        if f:
            pb = rb.new_predicate_builder()
            m = getattr(pb, BUILDER[f[1]])
            rb = rb.with_filter(m(f[0]) if f[1] in ("is_null", "is_not_null") else m(f[0], literal(f[2], Kind(dict(columns)[f[0]]))))
        names = names_to_read(q, columns)
        return rb.with_projection(names) if names else rb

    def rows(self, q):
        table = self.open(q)
        columns = self.columns(table)
        rb = self.builder(q, table, columns)
        splits = rb.new_scan().plan().splits()
        files = sum(len(s.files) for s in splits)
        data = rb.new_read().to_arrow(splits) if splits else None
        return answer_rows(q, columns, data.to_batches() if data is not None else [], {"files": files, "splits": len(splits)})

    count = summary = rows

    def snapshots(self, q):
        m = self.open(q).snapshot_manager()
        latest = m.get_latest_snapshot()
        out = []
        for s in sorted(m.list_snapshots(), key=lambda s: s.id):
            o = {"id": s.id, "schemaId": s.schema_id, "commitUser": s.commit_user, "commitIdentifier": s.commit_identifier,
                 "commitKind": s.commit_kind, "timeMillis": s.time_millis, "totalRecordCount": s.total_record_count,
                 "deltaRecordCount": s.delta_record_count}
            if s.watermark is not None:
                o["watermark"] = s.watermark
            if s.properties:
                o["properties"] = s.properties
            out.append(o)
        a = {"snapshots": out}
        if latest is not None:
            a["latest"] = latest.id
        e = m.try_get_earliest_snapshot()
        if e is not None:
            a["earliest"] = e.id
        return a

    def schema(self, q):
        s = self.open(q).table_schema
        return {"id": s.id, "columns": [[f.name, f.to_dict()["type"]] for f in s.fields], "partition": s.partition_keys,
                "primary_key": s.primary_keys,
                "options": {k: v for k, v in s.options.items() if k not in self.PURE and k != "path"}}

    def list(self, q):
        table = self.open(q)
        rb = self.builder(dict(q, columns=None), table, self.columns(table))
        out = []
        for s in rb.new_scan().plan().splits():
            for f in s.files:
                out.append({"file": f.file_name, "bytes": f.file_size, "rows": f.row_count, "bucket": s.bucket, "level": f.level,
                            "schemaId": f.schema_id, "minSequence": f.min_sequence_number, "maxSequence": f.max_sequence_number})
        return {"files": out}

    def create(self, q):
        from pypaimon.common.file_io import FileIO
        from pypaimon.common.options import Options
        from pypaimon.schema.data_types import AtomicInteger, DataField, DataTypeParser
        from pypaimon.schema.schema import Schema
        from pypaimon.schema.schema_manager import SchemaManager

        ids = AtomicInteger(-1)
        fields = [DataField(ids.increment_and_get(), n, DataTypeParser.parse_data_type(t, ids)) for n, t in q["columns"]]
        s = Schema(fields, list(q.get("partition", [])), list(q.get("primary_key", [])), dict(q.get("options", {})))
        os.makedirs(q["table"], exist_ok=True)
        SchemaManager(FileIO.get(q["table"], Options({})), q["table"]).create_table(s)
        return {}

    def append(self, q):
        from pypaimon.schema.data_types import PyarrowFieldParser

        table = self.open(q)
        schema = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
        data = table_of(q["rows"], schema)
        stream = q.get("identifier") is not None
        b = table.new_stream_write_builder() if stream else table.new_batch_write_builder()
        if q.get("overwrite"):
            b = b.overwrite()
        if q.get("user"):
            b = b._with_commit_user(q["user"])  # there is no public setter in 2.1.0
        w, c = b.new_write(), b.new_commit()
        w.write_arrow(data)
        if stream:
            c.commit(w.prepare_commit(q["identifier"]), q["identifier"])
        else:
            c.commit(w.prepare_commit())
        w.close()
        c.close()
        s = self.open(q).snapshot_manager().get_latest_snapshot()
        return {"snapshot": s.id} if s else {}

    def expire(self, q):
        raise NotImplementedError("pypaimon has no snapshot expiry")

    def drop_snapshots(self, q):
        """Not an expiry: removes the snapshot files below `below` through pypaimon's FileIO, oldest first, and nothing else."""
        m = self.open(q).snapshot_manager()
        dropped = 0
        for s in sorted(m.list_snapshots(), key=lambda s: s.id):
            if s.id < q["below"]:
                m.file_io.delete(m.get_snapshot_path(s.id), False)
                dropped += 1
        return {"dropped": dropped}

    def delete_consumer(self, q):
        from pypaimon.consumer.consumer_manager import ConsumerManager

        table = self.open(q)
        ConsumerManager(table.file_io, table.table_path).delete_consumer(q["consumer"])
        return {}


def table_of(rows, schema):
    for r in rows:
        if len(r) != len(schema):
            raise ValueError(f"a row has {len(r)} values, the table {len(schema)}")
    return pa.Table.from_arrays([canon.arrow_array([r[i] for r in rows], f.type) for i, f in enumerate(schema)], schema=schema)


def newest_schema(table):
    d = f"{table}/schema"
    n = max(int(f[7:]) for f in os.listdir(d) if f.startswith("schema-") and f[7:].isdigit())
    with open(f"{d}/schema-{n}", encoding="utf-8") as f:
        return f.read()


class PyPaimonRust:
    def open(self, q):
        from pypaimon_rust.datafusion import PaimonCatalog, Table

        path = q["table"].rstrip("/")
        parent, name = os.path.split(path)
        warehouse, db = os.path.split(parent)
        if db.endswith(".db"):
            return PaimonCatalog({"warehouse": warehouse}).get_table((db[:-3], name))
        return Table.from_resolved_schema(path, newest_schema(path))

    @staticmethod
    def columns(q, table):
        if q.get("snapshot") is not None:  # the reader then gives the columns of that snapshot's schema, but does not tell them
            with open(f"{q['table']}/snapshot/snapshot-{q['snapshot']}", encoding="utf-8") as f:
                i = json.load(f)["schemaId"]
            with open(f"{q['table']}/schema/schema-{i}", encoding="utf-8") as f:
                return [(c["name"], c["type"]) for c in json.load(f)["fields"]]
        return [(f.name(), f.field_type() + ("" if f.is_nullable() or "NOT NULL" in f.field_type() else " NOT NULL"))
                for f in table.schema().fields()]

    def builder(self, q, table, columns):
        rb = table.new_read_builder({"scan.snapshot-id": str(q["snapshot"])} if q.get("snapshot") is not None else None)
        f = q.get("filter")
        if f:
            lits = [] if f[1] in ("is_null", "is_not_null") else [literal(f[2], Kind(dict(columns)[f[0]]))]
            rb = rb.with_filter({"method": METHOD[f[1]], "field": f[0], "literals": lits})
        names = names_to_read(q, columns)
        return rb.with_projection(names) if names else rb

    def rows(self, q):
        table = self.open(q)
        columns = self.columns(q, table)
        rb = self.builder(q, table, columns)
        splits = rb.new_scan().plan().splits()
        return answer_rows(q, columns, rb.new_read().read(splits),
                           {"splits": len(splits), "planned_rows": sum(s.row_count() for s in splits)})

    count = summary = rows

    def schema(self, q):
        table = self.open(q)
        s = table.schema()
        return {"columns": [list(c) for c in self.columns(q, table)], "partition": s.partition_keys(),
                "primary_key": s.primary_keys(), "options": {k: v for k, v in s.options().items() if k != "path"}}

    def append(self, q):
        table = self.open(q)
        fields = json.loads(newest_schema(q["table"]))["fields"]
        data = table_of(q["rows"], pa.schema([canon.arrow_field(f["name"], f["type"]) for f in fields]))
        stream = q.get("identifier") is not None
        b = table.new_stream_write_builder() if stream else table.new_batch_write_builder()
        if q.get("overwrite"):
            b = b.with_overwrite()
        if q.get("user"):
            b = b._with_commit_user(q["user"])
        w, c = b.new_write(), b.new_commit()
        for batch in data.to_batches():
            w.write_arrow(batch)
        if stream:
            c.commit(q["identifier"], w.prepare_commit(False, q["identifier"]))
        else:
            c.commit(w.prepare_commit())
        w.close()
        c.close()
        s = table.latest_snapshot()
        return {"snapshot": s.id()} if s else {}

    def snapshots(self, q):
        raise NotImplementedError("pypaimon-rust does not tell a snapshot's commit user")

    def expire(self, q):
        raise NotImplementedError("pypaimon-rust has no snapshot expiry")


COMMANDS = {"rows", "count", "summary", "snapshots", "schema", "list", "expire", "drop_snapshots", "delete_consumer", "create", "append"}


def main():
    reader = {"pypaimon": PyPaimon, "pypaimon-rust": PyPaimonRust}[sys.argv[1]]()
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            q = json.loads(line)
            q.setdefault("cmd", "rows")
            if q["cmd"] not in COMMANDS or not hasattr(reader, q["cmd"]):
                raise NotImplementedError(f"{sys.argv[1]} has no command {q['cmd']}")
            a = dict(getattr(reader, q["cmd"])(q), ok=True)
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # a Rust panic is a BaseException
            a = {"ok": False, "error": f"{type(e).__name__}: {e}"[:4000]}
        PROTOCOL.write(json.dumps(a, ensure_ascii=False) + "\n")
        PROTOCOL.flush()


if __name__ == "__main__":
    main()
