"""Makes Delta tables by Spark and by deltalake, one for each table feature and each kind of checkpoint, with what is in them.

    .venv/bin/python tests/interop/delta/features.py OUTDIR [NAME ...]        all: 2 min or more; nothing when this file made them there

With names: those anew, beside the others.

OUTDIR/NAME is a table, and OUTDIR/tables.json lists them: name, maker, what it is about (`features`: the names in its protocol), `refused`
(the feature that keeps an append writer without an expression evaluator out, or null) and `rows`: its rows by the engine that made it, as
`read.sh spark OUTDIR/NAME rows` gives them (null where that engine too refuses the table, as those made by hand).
Every table has a column `id` BIGINT; where `append` is not null it is one row, in canonical texts, that fits the table.
"""
import hashlib
import json
import os
import shutil
import sys

from selfcheck import Reader

DV = "'delta.enableDeletionVectors' = 'true'"


def commit(folder, version):
    return f"{folder}/_delta_log/{version:020}.json"


class Maker:
    def __init__(self, out):
        self.out = out
        self.readers = {}
        self.tables = []

    def reader(self, name):
        if name not in self.readers:
            self.readers[name] = Reader(name)
        return self.readers[name]

    def spark(self, folder, *statements):
        for s in statements:
            self.reader("spark").get(cmd="sql", table=folder, sql=s)

    def edit(self, folder, version, change):
        """Changes the actions of a commit by hand."""
        with open(commit(folder, version), encoding="utf-8") as f:
            actions = [json.loads(line) for line in f]
        for a in actions:
            change(a)
        with open(commit(folder, version), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(a, separators=(",", ":")) + "\n" for a in actions)
        crc = f"{folder}/_delta_log/{version:020}.crc"
        hidden = f"{folder}/_delta_log/.{version:020}.json.crc"  # Hadoop's own sum of the file
        for old in (crc, hidden, f"{folder}/_delta_log/.{version:020}.crc.crc"):
            if os.path.exists(old):
                os.remove(old)

    def done(self, name, maker="spark", refused=None, append=("1000", "x"), read=True):
        folder = f"{self.out}/{name}"
        rows = protocol = None
        if read:
            rows = self.reader(maker).get(cmd="rows", table=folder)["rows"]
            protocol = self.reader(maker).get(cmd="schema", table=folder)["protocol"]
            features = sorted(set(protocol.get("readerFeatures") or []) | set(protocol.get("writerFeatures") or []))
        else:
            features = [refused]
        self.tables.append({"name": name, "maker": maker, "protocol": protocol, "features": features, "refused": refused,
                            "append": None if append is None else list(append), "rows": rows})


def simple(columns="id BIGINT, s STRING", properties="", more="", values="(1, 'a'), (2, NULL), (3, 'b')"):
    """Statements for a table with three rows, in two commits."""
    props = f"TBLPROPERTIES ({properties})" if properties else ""
    return [f"CREATE TABLE {{table}} ({columns}) USING delta {more} {props}", f"INSERT INTO {{table}} VALUES {values}"]


def commits(n=5):
    """Commits of one row each."""
    return [f"INSERT INTO {{table}} VALUES ({i}, 's{i}')" for i in range(10, 10 + n)]


TABLES = {}


def table(f):
    TABLES[f.__name__.replace("_", "-")] = f
    return f


def plain(name, statements, **more):
    def make(m, folder):
        m.spark(folder, *statements)
        m.done(name, **more)
    TABLES[name] = make


plain("legacy-1-2", simple(properties="'delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '2'"))
for _v in range(3, 7):
    plain(f"legacy-1-{_v}", simple(properties=f"'delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '{_v}'"))
plain("legacy-2-5", simple(properties="'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"))
plain("append-only", simple(properties="'delta.appendOnly' = 'true'"))
plain("not-null", simple(columns="id BIGINT NOT NULL, s STRING"))
plain("partitioned", simple(more="PARTITIONED BY (s)", values="(1, 'a/b=c d%'), (2, NULL), (3, 'é 漢')"))
plain("constraint", [*simple(), "ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 2000)"], refused="checkConstraints")
plain("constraint-dropped", [*simple(), "ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 2000)", "ALTER TABLE {table} DROP CONSTRAINT small"])
plain("change-data-feed", [*simple(properties="'delta.enableChangeDataFeed' = 'true'"), "UPDATE {table} SET s = 'c' WHERE id = 2",
                           "DELETE FROM {table} WHERE id = 1"])
plain("column-mapping-none", simple(properties="'delta.columnMapping.mode' = 'none', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"))
plain("column-mapping-name", simple(properties="'delta.columnMapping.mode' = 'name'"), refused="columnMapping")
plain("column-mapping-id", simple(properties="'delta.columnMapping.mode' = 'id'"), refused="columnMapping")
plain("timestamp-ntz", simple(columns="id BIGINT, s TIMESTAMP_NTZ", values="(1, TIMESTAMP_NTZ'2024-01-01 00:00:00.123456'), (2, NULL)"),
      append=("1000", "us:1700000000123456"))
plain("in-commit-timestamp", simple(properties="'delta.enableInCommitTimestamps' = 'true'"))
plain("in-commit-timestamp-later", [*simple(), "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
                                    "INSERT INTO {table} VALUES (4, 'd')"])
plain("domain-metadata", simple(properties="'delta.feature.domainMetadata' = 'supported'"))
plain("deletion-vectors", [*simple(properties=DV, values="(1, 'a'), (2, NULL), (3, 'b'), (4, 'c'), (5, 'd')"), "DELETE FROM {table} WHERE id = 2",
                           "DELETE FROM {table} WHERE id = 4"])
plain("deletion-vectors-partitioned", [*simple(properties=DV, more="PARTITIONED BY (s)", values="(1, 'a'), (2, 'a'), (3, 'b'), (4, 'b')"),
                                       "DELETE FROM {table} WHERE id IN (2, 3)"])
plain("vacuum-protocol-check", simple(properties="'delta.feature.vacuumProtocolCheck' = 'supported'"))
plain("clustering", [*simple(more="CLUSTER BY (s)"), *commits(3), "OPTIMIZE {table}"])
plain("type-widening", [*simple(columns="id INT, s STRING", properties="'delta.enableTypeWidening' = 'true'"),
                        "ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT", "INSERT INTO {table} VALUES (9223372036854775807, 'wide')"])
plain("type-widening-more", [*simple(columns="id BIGINT, b TINYINT, f FLOAT, d DECIMAL(5, 2), dt DATE", properties="'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'",
                                     values="(1, 1, 1.5, 1.25, DATE'2024-02-29'), (2, NULL, NULL, NULL, NULL)"),
                             "ALTER TABLE {table} ALTER COLUMN b TYPE INT", "ALTER TABLE {table} ALTER COLUMN f TYPE DOUBLE",
                             "ALTER TABLE {table} ALTER COLUMN d TYPE DECIMAL(12, 4)", "ALTER TABLE {table} ALTER COLUMN dt TYPE TIMESTAMP_NTZ",
                             "INSERT INTO {table} VALUES (3, 100000, 1e300, 12345678.1234, TIMESTAMP_NTZ'2024-01-01 00:00:00.5')"],
      append=("1000", "7", "f64:3ff8000000000000", "1.0000", "us:0"))
plain("defaults-none", simple(properties="'delta.feature.allowColumnDefaults' = 'supported'"))
plain("defaults", simple(columns="id BIGINT, s STRING DEFAULT 'q'", properties="'delta.feature.allowColumnDefaults' = 'supported'"),
      refused="allowColumnDefaults")
plain("row-tracking", simple(properties="'delta.enableRowTracking' = 'true'"), refused="rowTracking")
plain("iceberg-compat-v1", simple(properties="'delta.enableIcebergCompatV1' = 'true', 'delta.columnMapping.mode' = 'name'"), refused="icebergCompatV1")
plain("iceberg-compat-v2", simple(properties="'delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name'"), refused="icebergCompatV2")
plain("txn-retention", simple(properties="'delta.setTransactionRetentionDuration' = 'interval 1 days'"))
plain("zero-indexed-columns", simple(properties="'delta.dataSkippingNumIndexedCols' = '0'"))
plain("stats-columns", simple(properties="'delta.dataSkippingStatsColumns' = 's'"))
plain("column-added", [*simple(), "ALTER TABLE {table} ADD COLUMNS (x INT)", "INSERT INTO {table} VALUES (4, 'd', 4)"], append=("1000", "x", "7"))
plain("overwritten-and-restored", [*simple(), "INSERT OVERWRITE {table} VALUES (9, 'z')", "RESTORE {table} TO VERSION AS OF 1", *commits(2)])
plain("char-varchar", simple(columns="id BIGINT, s VARCHAR(3)", values="(1, 'abc'), (2, NULL)"))


@table
def void_column(m, folder):
    m.spark(folder, "CREATE TABLE {table} (id BIGINT, s STRING, v VOID) USING delta", "INSERT INTO {table} (id, s) VALUES (1, 'a')")
    m.done("void-column", append=None)


def computed(name, columns, insert, **more):
    def make(m, folder):
        m.reader("spark").get(cmd="create", table=folder, columns=columns)
        m.spark(folder, insert)
        m.done(name, **more)
    TABLES[name] = make


computed("generated", [["id", "BIGINT"], ["s", "STRING", "CAST(id AS STRING)"]], "INSERT INTO {table} VALUES (1, '1'), (2, '2')",
         refused="generatedColumns", append=("1000", "1000"))
computed("identity", [["id", "BIGINT", "identity"], ["s", "STRING"]], "INSERT INTO {table} (s) VALUES ('a'), ('b')", refused="identityColumns")


@table
def variant(m, folder):
    m.spark(folder, "CREATE TABLE {table} (id BIGINT, s VARIANT) USING delta", "INSERT INTO {table} SELECT 1, parse_json('{\"a\": 1}')")
    # Its value has no canonical text.
    rows = m.reader("spark").get(cmd="rows", table=folder, columns=["id"])["rows"]
    m.done("variant", refused="variantType", append=None, read=False)
    m.tables[-1]["rows_of_id"] = rows


@table
def invariant(m, folder):
    m.spark(folder, "CREATE TABLE {table} (id BIGINT, s STRING) USING delta")

    def expression(a):
        if "metaData" in a:
            s = json.loads(a["metaData"]["schemaString"])
            s["fields"][0]["metadata"]["delta.invariants"] = json.dumps({"expression": {"expression": "id > 0"}})
            a["metaData"]["schemaString"] = json.dumps(s)
    m.edit(folder, 0, expression)
    m.spark(folder, "INSERT INTO {table} VALUES (1, 'a')")
    m.done("invariant", refused="invariants")


def features(m, folder, reader, writer):
    def change(a):
        if "protocol" in a:
            a["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": writer}
    m.spark(folder, *simple())
    m.edit(folder, 0, change)


@table
def catalog_managed(m, folder):
    features(m, folder, ["catalogManaged"], ["catalogManaged", "inCommitTimestamp"])
    m.done("catalog-managed", maker="by hand", refused="catalogManaged", read=False)


@table
def catalog_owned_preview(m, folder):
    features(m, folder, ["catalogOwned-preview"], ["catalogOwned-preview", "inCommitTimestamp"])
    m.done("catalog-owned-preview", maker="by hand", refused="catalogOwned-preview", read=False)


@table
def unknown_reader_feature(m, folder):
    features(m, folder, ["noSuchFeature"], ["noSuchFeature"])
    m.done("unknown-reader-feature", maker="by hand", refused="noSuchFeature", read=False)


@table
def unknown_writer_feature(m, folder):
    features(m, folder, [], ["noSuchFeature"])
    m.done("unknown-writer-feature", maker="by hand", refused="noSuchFeature", read=False)


def forget_json(folder, below):
    """Removes the commits below a version, as log cleanup does."""
    log = f"{folder}/_delta_log"
    for f in os.listdir(log):
        n = f.lstrip(".").split(".")[0]
        if n.isdigit() and int(n) < below and ".json" in f and "checkpoint" not in f:
            os.remove(f"{log}/{f}")


def checkpointed(name, properties="", before=(), settings=(), after=("INSERT INTO {table} VALUES (999, 'last')",), expect=None, unlinked=False):
    """A table with a checkpoint, the JSON below it gone, and a commit after it. `expect`: a part of the names that must be there."""
    def make(m, folder):
        m.spark(folder, *simple(properties=", ".join(x for x in ("'delta.checkpointInterval' = '1000'", properties) if x)), *commits(), *before)
        for k, v in settings:
            m.spark(folder, f"SET {k} = {v}")
        m.reader("spark").get(cmd="checkpoint", table=folder)
        for k, _ in settings:
            m.spark(folder, f"RESET {k}")
        log = f"{folder}/_delta_log"
        names = [n for d, _, files in os.walk(log) for n in ([f"{os.path.basename(d)}/{f}" for f in files])]
        if expect and not any(expect in n for n in names):
            raise RuntimeError(f"{name}: no {expect} in {names}")
        versions = [int(n[:20]) for n in os.listdir(log) if "checkpoint" in n and n[:20].isdigit()]
        forget_json(folder, max(versions))
        if unlinked:
            for f in ("_last_checkpoint", "._last_checkpoint.crc"):
                if os.path.exists(f"{log}/{f}"):
                    os.remove(f"{log}/{f}")
        m.spark(folder, *after)
        m.done(name)
    TABLES[name] = make


PARTS = [("spark.databricks.delta.checkpoint.partSize", "2")]
V2 = "'delta.checkpointPolicy' = 'v2'"
TOP = "spark.databricks.delta.checkpointV2.topLevelFileFormat"
checkpointed("checkpoint-classic", expect=".checkpoint.parquet")
checkpointed("checkpoint-classic-unlinked", expect=".checkpoint.parquet", unlinked=True)
checkpointed("checkpoint-struct-stats", properties="'delta.checkpoint.writeStatsAsStruct' = 'true', 'delta.checkpoint.writeStatsAsJson' = 'false'")
checkpointed("checkpoint-parts", settings=PARTS, expect=".checkpoint.0000000001.")
checkpointed("checkpoint-v2-parquet", properties=V2, settings=[*PARTS, (TOP, "parquet")], expect="_sidecars/")
checkpointed("checkpoint-v2-json", properties=V2, settings=[*PARTS, (TOP, "json")], expect="_sidecars/")
checkpointed("checkpoint-v2-json-unlinked", properties=V2, settings=[(TOP, "json")], expect=".json", unlinked=True)
checkpointed("checkpoint-deletion-vectors", properties=DV, before=["DELETE FROM {table} WHERE id IN (2, 10, 11)"])
checkpointed("checkpoint-v2-deletion-vectors", properties=f"{V2}, {DV}", settings=PARTS, before=["OPTIMIZE {table}", "DELETE FROM {table} WHERE id IN (2, 10)"],
             after=["DELETE FROM {table} WHERE id = 11", "INSERT INTO {table} VALUES (999, 'last')"])
checkpointed("checkpoint-clustering-domains", properties="'delta.feature.domainMetadata' = 'supported'", before=["ALTER TABLE {table} CLUSTER BY (id)"])
checkpointed("checkpoint-in-commit-timestamp", properties="'delta.enableInCommitTimestamps' = 'true'")
checkpointed("checkpoint-tombstones", before=["DELETE FROM {table} WHERE id = 12", "OPTIMIZE {table}"])


@table
def spark_transactions(m, folder):
    m.spark(folder, *simple())
    for user, n in (("a", 5), ("b", 7), ("a", 6)):
        m.reader("spark").get(cmd="append", table=folder, rows=[[str(n), user]], user=user, identifier=n)
    m.reader("spark").get(cmd="checkpoint", table=folder)
    m.done("spark-transactions")


def delta_rs(name, options=None, partition=(), checkpoint=False, **more):
    def make(m, folder):
        r = m.reader("deltalake")
        r.get(cmd="create", table=folder, columns=[["id", "BIGINT"], ["s", "STRING"]], partition=list(partition), options=options or {})
        for i in range(5):
            r.get(cmd="append", table=folder, rows=[[str(2 * i), f"s {i}/"], [str(2 * i + 1), None]], user="rs", identifier=i)
            if checkpoint and i == 3:
                r.get(cmd="checkpoint", table=folder)
                forget_json(folder, 4)
        m.done(name, maker="deltalake", **more)
    TABLES[name] = make


delta_rs("deltalake-plain")
delta_rs("deltalake-partitioned", partition=["s"])
delta_rs("deltalake-checkpoint", partition=["s"], checkpoint=True)
delta_rs("deltalake-append-only", options={"delta.appendOnly": "true"})
delta_rs("deltalake-change-data-feed", options={"delta.enableChangeDataFeed": "true"})
delta_rs("deltalake-deletion-vectors", options={"delta.enableDeletionVectors": "true"})


def main():
    out = os.path.abspath(sys.argv[1])
    with open(__file__, "rb") as f:
        stamp = hashlib.sha256(f.read()).hexdigest()
    if not sys.argv[2:] and os.path.exists(f"{out}/ready") and open(f"{out}/ready").read() == stamp:
        return
    m = Maker(out)
    if sys.argv[2:]:
        with open(f"{out}/tables.json", encoding="utf-8") as f:
            m.tables = [t for t in json.load(f) if t["name"] in TABLES and t["name"] not in sys.argv[2:]]
    else:
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
    failed = []
    for name in sys.argv[2:] or TABLES:
        shutil.rmtree(f"{out}/{name}", ignore_errors=True)
        try:
            TABLES[name](m, f"{out}/{name}")
        except RuntimeError as e:
            failed.append(f"{name}: {e}"[:700])
    with open(f"{out}/tables.json", "w", encoding="utf-8") as f:
        json.dump(m.tables, f, ensure_ascii=False, indent=1)
    print(f"{len(m.tables)} tables in {out}")
    if failed:
        sys.exit("\n".join(failed))
    if {t["name"] for t in m.tables} == set(TABLES):
        with open(f"{out}/ready", "w") as f:
            f.write(stamp)


if __name__ == "__main__":
    main()
