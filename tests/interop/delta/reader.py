"""Answers one JSON request per line of stdin with one JSON line on stdout, by a reader of Delta tables.

    reader.py deltalake|deltalake-pyarrow|duckdb|polars

See ../README.md for the requests and for the canonical text of values.  Each reader filters by itself: nothing is filtered here.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.dirname(HERE))
if sys.argv[1] == "polars":  # pypaimon, in .venv, wants an older one
    sys.path.insert(0, os.environ.get("LAKEWARD_INTEROP_DIR", f"{ROOT}/target/interop") + "/polars")

import pyarrow as pa

import canon

PROTOCOL = sys.stdout
sys.stdout = sys.stderr  # libraries that print must not break the protocol

SQL_OP = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def name(n):
    return '"' + n.replace('"', '""') + '"'


def text(s):
    return "'" + s.replace("'", "''") + "'"


def bound(f, t):
    """The value of a filter as pa.array takes it for this Arrow type: temporal ones as integers."""
    if pa.types.is_string(t) or pa.types.is_large_string(t) or t == pa.string_view():
        return f[2]
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or t == pa.binary_view():
        return canon.python_value(f[2], pa.binary())
    return canon.python_value(f[2], t)


def answer_rows(q, data):
    """data: Arrow table."""
    if q["cmd"] == "count":
        return {"count": data.num_rows}
    names = data.schema.names
    cols = [[plain(v, c.type) for v in canon.column(c)] for c in data.columns]
    return {"rows": [dict(zip(names, r)) for r in zip(*cols)]}


def plain(v, t):
    """Polars has no maps: it gives lists of {key, value}.  They are shown as maps are."""
    if v is None:
        return None
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        e = t.value_type
        if pa.types.is_struct(e) and [e.field(i).name for i in range(e.num_fields)] == ["key", "value"]:
            return [[plain(x["key"], e.field(0).type), plain(x["value"], e.field(1).type)] for x in v]
        return [plain(x, e) for x in v]
    if pa.types.is_map(t):
        return [[plain(k, t.key_type), plain(x, t.item_type)] for k, x in v]
    if pa.types.is_struct(t):
        return {t.field(i).name: plain(v[t.field(i).name], t.field(i).type) for i in range(t.num_fields)}
    return v


def selected(q):
    return ", ".join(name(c) for c in q["columns"]) if q.get("columns") else "*"


class DuckDb:
    def __init__(self):
        import duckdb
        import duckdb_extension_delta

        found = []
        for d, _, files in os.walk(os.path.dirname(duckdb_extension_delta.__file__)):
            found += [f"{d}/{f}" for f in files if f == "delta.duckdb_extension"]
        self.con = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
        self.con.execute(f"LOAD {text(found[0])}")
        self.con.execute("SET TimeZone='UTC'")
        self.con.execute("SET threads=1")

    def arrow(self, sql):
        a = self.con.execute(sql).arrow()
        return a.read_all() if hasattr(a, "read_all") else a

    def literal(self, f, t, sql_type):
        v = bound(f, t)
        if pa.types.is_timestamp(t):
            return f"make_timestamp({v})::TIMESTAMPTZ" if t.tz else f"make_timestamp({v})"
        if pa.types.is_date(t):
            return f"(DATE '1970-01-01' + ({v})::INTEGER)"
        if isinstance(v, bytes):
            return text("".join(f"\\x{b:02X}" for b in v)) + "::BLOB"
        if pa.types.is_floating(t):
            return text(repr(v)) + "::" + sql_type
        if isinstance(v, str):
            # No NUL may stand in a statement.
            return "(" + " || chr(0) || ".join(text(part) for part in v.split("\0")) + ")"
        if pa.types.is_decimal(t):
            return text(format(v, "f")) + "::" + sql_type
        return text("true" if v is True else "false" if v is False else str(v)) + "::" + sql_type

    def rows(self, q):
        if q.get("snapshot") is not None:
            source = f"delta_scan({text(q['table'])}, version={int(q['snapshot'])})"
        else:
            source = f"delta_scan({text(q['table'])})"
        where = ""
        f = q.get("filter")
        if isinstance(f, str):
            where = f" WHERE {f}"
        elif f:
            if f[1] in ("is_null", "is_not_null"):
                where = f" WHERE {name(f[0])} IS {'' if f[1] == 'is_null' else 'NOT '}NULL"
            else:
                t = self.arrow(f"SELECT {name(f[0])} FROM {source} LIMIT 0").schema.field(0).type
                types = {r[0]: r[1] for r in self.con.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
                where = f" WHERE {name(f[0])} {SQL_OP[f[1]]} {self.literal(f, t, types[f[0]])}"
        return answer_rows(q, self.arrow(f"SELECT {selected(q)} FROM {source}{where}"))

    count = rows

    def sql(self, q):
        """Any query; `{table}` in it is the table."""
        statement = q["sql"].replace("{table}", f"delta_scan({text(q['table'])})") if q.get("table") else q["sql"]
        return answer_rows(dict(q, cmd="rows"), self.arrow(statement))


class Polars:
    def rows(self, q):
        import polars as pl

        lazy = pl.scan_delta(q["table"], version=q.get("snapshot"))
        f = q.get("filter")
        if isinstance(f, str):
            lazy = lazy.filter(pl.sql_expr(f))
        elif f:
            c = pl.col(f[0])
            if f[1] in ("is_null", "is_not_null"):
                lazy = lazy.filter(c.is_null() if f[1] == "is_null" else c.is_not_null())
            else:
                lazy = lazy.filter(getattr(c, f[1])(self.literal(f, lazy.collect_schema()[f[0]])))
        if q.get("columns"):
            lazy = lazy.select(q["columns"])
        return answer_rows(q, lazy.collect().to_arrow())

    count = rows

    @staticmethod
    def literal(f, t):
        import polars as pl

        arrow = pl.Series([], dtype=t).to_arrow().type
        v = bound(f, arrow)
        return pl.lit(v).cast(t) if isinstance(v, int) and not isinstance(v, bool) else pl.lit(v, dtype=t)


class DeltaLake:
    """delta-rs: its own query engine (DataFusion), and everything that it can write."""

    @staticmethod
    def open(q):
        from deltalake import DeltaTable

        return DeltaTable(q["table"], version=q.get("snapshot"))

    def rows(self, q):
        from deltalake import QueryBuilder

        table = self.open(q)
        where = ""
        f = q.get("filter")
        if isinstance(f, str):
            where = f" WHERE {f}"
        elif f:
            if f[1] in ("is_null", "is_not_null"):
                where = f" WHERE {name(f[0])} IS {'' if f[1] == 'is_null' else 'NOT '}NULL"
            else:
                t = pa.schema(table.schema().to_arrow()).field(f[0]).type
                where = f" WHERE {name(f[0])} {SQL_OP[f[1]]} {self.literal(f, t)}"
        builder = QueryBuilder().register("t", table)
        return answer_rows(q, pa.table(builder.execute(f"SELECT {selected(q)} FROM t{where}")))

    count = rows

    @staticmethod
    def literal(f, t):
        v = bound(f, t)
        if isinstance(v, bytes):
            return f"X'{v.hex()}'"
        if isinstance(v, str):
            return text(v)
        if isinstance(v, bool):
            return str(v).lower()
        if pa.types.is_timestamp(t):
            zone = f'Some("{t.tz}")' if t.tz else "None"
            return f"arrow_cast(arrow_cast('{v}', 'Int64'), 'Timestamp(Microsecond, {zone})')"
        if pa.types.is_date(t):
            return f"arrow_cast(arrow_cast('{v}', 'Int32'), 'Date32')"
        if pa.types.is_decimal(t):
            return f"arrow_cast('{v:f}', 'Decimal128({t.precision}, {t.scale})')"
        kind = {"int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "float": "Float32", "double": "Float64"}[str(t)]
        return f"arrow_cast('{v!r}', '{kind}')"

    def schema(self, q):
        t = self.open(q)
        m, p = t.metadata(), t.protocol()
        return {"version": t.version(), "schema": json.loads(t.schema().to_json()), "partition": m.partition_columns,
                "options": m.configuration, "protocol": {"minReaderVersion": p.min_reader_version, "minWriterVersion": p.min_writer_version,
                                                         "readerFeatures": p.reader_features, "writerFeatures": p.writer_features}}

    def transaction(self, q):
        """The version of a `txn` action's application, or null."""
        return {"version": self.open(q).transaction_version(q["user"])}

    def list(self, q):
        return {"files": sorted(self.open(q).file_uris())}

    def create(self, q):
        from deltalake import DeltaTable

        fields = [canon.arrow_field(n, t) for n, t in q["columns"]]
        # Delta has microseconds only.
        fields = [pa.field(f.name, microseconds(f.type), f.nullable) for f in fields]
        DeltaTable.create(q["table"], pa.schema(fields), partition_by=q.get("partition") or None, configuration=q.get("options") or None)
        return {}

    def append(self, q):
        from deltalake import CommitProperties, Transaction, write_deltalake

        t = self.open(dict(q, snapshot=None))
        schema = pa.schema(t.schema().to_arrow())
        schema = pa.schema([pa.field(f.name, plain_type(f.type), f.nullable) for f in schema])
        rows = q["rows"]
        for r in rows:
            if len(r) != len(schema):
                raise ValueError(f"a row has {len(r)} values, the table {len(schema)}")
        data = pa.Table.from_arrays([canon.arrow_array([r[i] for r in rows], f.type) for i, f in enumerate(schema)], schema=schema)
        more = {}
        if q.get("identifier") is not None:
            more["commit_properties"] = CommitProperties(app_transactions=[Transaction(q["user"], q["identifier"])])
        write_deltalake(t, data, mode="overwrite" if q.get("overwrite") else "append", **more)
        return {"snapshot": self.open(dict(q, snapshot=None)).version()}

    def checkpoint(self, q):
        self.open(q).create_checkpoint()
        return {}

    def cleanup(self, q):
        """Removes log files that are older than the table's retention and below a checkpoint."""
        self.open(q).cleanup_metadata()
        return {}

    def delete(self, q):
        return {"metrics": self.open(q).delete(q.get("predicate"))}

    def optimize(self, q):
        self.open(q).optimize.compact()
        return {}

    def restore(self, q):
        self.open(dict(q, snapshot=None)).restore(q["snapshot"])
        return {}

    def vacuum(self, q):
        return {"files": self.open(q).vacuum(0, enforce_retention_duration=False, dry_run=False)}


def microseconds(t):
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_list(t):
        return pa.list_(pa.field("element", microseconds(t.value_type), t.value_field.nullable))
    if pa.types.is_map(t):
        return pa.map_(microseconds(t.key_type), pa.field("value", microseconds(t.item_type), t.item_field.nullable))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, microseconds(f.type), f.nullable) for f in t])
    return t


def plain_type(t):
    """Without views and large types, which canon does not make."""
    if t == pa.string_view() or pa.types.is_large_string(t):
        return pa.string()
    if t == pa.binary_view() or pa.types.is_large_binary(t):
        return pa.binary()
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.list_(pa.field("element", plain_type(t.value_type), t.value_field.nullable))
    if pa.types.is_map(t):
        return pa.map_(plain_type(t.key_type), pa.field("value", plain_type(t.item_type), t.item_field.nullable))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, plain_type(f.type), f.nullable) for f in t])
    return t


class DeltaLakePyArrow(DeltaLake):
    """delta-rs reads the log, PyArrow's datasets read the files."""

    def rows(self, q):
        import pyarrow.dataset as ds

        data = self.open(q).to_pyarrow_dataset()
        f = q.get("filter")
        expr = None
        if isinstance(f, str):
            raise NotImplementedError("PyArrow's datasets have no filters as SQL")
        if f:
            c = ds.field(f[0])
            if f[1] in ("is_null", "is_not_null"):
                expr = c.is_null() if f[1] == "is_null" else c.is_valid()
            else:
                t = data.schema.field(f[0]).type
                b = pa.array([bound(f, t)], plain_type(t))[0]
                expr = {"eq": c == b, "lt": c < b, "le": c <= b, "gt": c > b, "ge": c >= b}[f[1]]
        return answer_rows(q, data.to_table(columns=q.get("columns"), filter=expr))

    count = rows


COMMANDS = {"rows", "count", "sql", "schema", "transaction", "list", "create", "append", "checkpoint", "cleanup", "delete", "optimize",
            "restore", "vacuum"}


def main():
    kind = {"deltalake": DeltaLake, "deltalake-pyarrow": DeltaLakePyArrow, "duckdb": DuckDb, "polars": Polars}[sys.argv[1]]
    reader = None
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            reader = reader or kind()
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
