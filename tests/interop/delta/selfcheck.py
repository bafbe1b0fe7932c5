"""Every type at its limits, in tables made by deltalake and by Spark, unpartitioned and partitioned, read alike by all readers of Delta tables.

    .venv/bin/python tests/interop/delta/selfcheck.py           about 1 min

Fails on anything that is not in KNOWN below, and on what is in it and no longer so.
"""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
READERS = ["deltalake", "deltalake-pyarrow", "duckdb", "polars", "spark"]
MAKERS = ["deltalake", "spark"]

ARRAY = {"type": "ARRAY", "element": "INT"}
MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
ROW = {"type": "ROW", "fields": [{"name": "x", "type": "INT"}, {"name": "y", "type": "STRING"}]}
LTZ = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
# name, type, values; a table of its own for each, so that one reader's trouble stays apart
COLUMNS = [
    ("b", "BOOLEAN", ["false", "true"]),
    ("i8", "TINYINT", ["-128", "0", "127"]),
    ("i16", "SMALLINT", ["-32768", "32767"]),
    ("i32", "INT", ["-2147483648", "7", "2147483647"]),
    ("i64", "BIGINT", ["-9223372036854775808", "9007199254740993", "9223372036854775807"]),
    ("f", "FLOAT", ["f32:ff800000", "f32:80000000", "f32:3fc00000", "f32:7fc00000"]),
    ("d", "DOUBLE", ["f64:fff0000000000000", "f64:0000000000000001", "f64:7fefffffffffffff", "f64:7ff8000000000000"]),
    ("dec10", "DECIMAL(10, 2)", ["-0.05", "1.00", "99999999.99"]),
    ("dec18", "DECIMAL(18, 4)", ["-99999999999999.9999", "0.0001"]),
    ("dec38", "DECIMAL(38, 10)", ["-9999999999999999999999999999.9999999999", "0.0000000001"]),
    ("s", "STRING", ["", "a/b=c d%", "é 漢字 😀", "x" * 70]),
    ("y", "BYTES", ["hex:", "hex:00ff80", "hex:" + "ff" * 40]),
    ("dt", "DATE", ["day:-719162", "day:0", "day:2932896"]),
    ("n", "TIMESTAMP(6)", ["us:-62135596800000000", "us:-1", "us:1700000000123456", "us:253402300799999999"]),
    ("t", LTZ, ["us:-62135596800000000", "us:-1", "us:1700000000123456", "us:253402300799999999"]),
    ("a", ARRAY, [[], ["1", None]]),
    ("m", MAP, [[], [["k", "1"], ["l", None]]]),
    ("r", ROW, [{"x": "1", "y": None}, {"x": None, "y": ""}]),
]
NESTED = {"a", "m", "r"}

# (reader, maker, column, partitioned or not) -> what the reader gives instead: part of its error, or "rows" for other rows
DECIMALS = ("dec10", "dec18", "dec38")
KNOWN = {
    # delta-rs spells doubles out, so that the name of the directory is too long; bytes that are no text go into a directory name escaped.
    ("deltalake", "deltalake", "d", "partitioned"): "Unable to open file",
    ("deltalake", "deltalake", "y", "partitioned"): "Unable to open file",
    # Spark takes the bytes for text.
    ("spark", "spark", "y", "partitioned"): "TASK_WRITE_FAILED",
    # A minus sign in the middle of a number.
    **{("deltalake", "deltalake", c, "partitioned"): ".-" for c in DECIMALS},
    **{("deltalake-pyarrow", "spark", c, "partitioned"): ".-" for c in DECIMALS},
    # delta-rs writes an empty text as "" where Spark writes null.
    **{(r, "deltalake", "s", "partitioned"): "rows" for r in ("deltalake", "polars", "spark")},
    # Spark writes INT96, which holds more than the nanoseconds that these readers make of it.
    ("deltalake", "spark", "t", "plain"): "rows",
    ("deltalake-pyarrow", "spark", "t", "plain"): "would lose data",
    ("polars", "spark", "t", "plain"): "rows",
}


class Reader:
    def __init__(self, name):
        self.process = subprocess.Popen([f"{HERE}/../read.sh", name, "batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, encoding="utf-8")

    def ask(self, **q):
        self.process.stdin.write(json.dumps(q) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def get(self, **q):
        a = self.ask(**q)
        if not a["ok"]:
            raise RuntimeError(f"{q}: {a['error']}")
        return a


def sorted_rows(rows):
    return sorted(json.dumps(r, sort_keys=True, ensure_ascii=False) for r in rows)


def partition_value(kind, value):
    """An empty text or binary cannot be told from a null in a partition."""
    return None if value in ("", "hex:") else value


def main():
    readers = {r: Reader(r) for r in READERS}
    wrong, met, tables, reads = [], set(), 0, 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(READERS)) as pool:
        for maker in MAKERS:
            for column, kind, values in COLUMNS:
                for partitioned in (False, True):
                    if partitioned and column in NESTED:
                        continue
                    key = (maker, column, "partitioned" if partitioned else "plain")
                    table = f"{folder}/{'-'.join(key)}"
                    rows = [[str(i), v] for i, v in enumerate(values + [None])]
                    try:
                        readers[maker].get(cmd="create", table=table, columns=[["id", "INT"], [column, kind]], partition=[column] if partitioned else [])
                        readers[maker].get(cmd="append", table=table, rows=rows)
                    except RuntimeError as e:
                        key = (maker, *key)
                        why = KNOWN.get(key)
                        met.add(key)
                        if why is None or why not in str(e):
                            wrong.append(f"{key} cannot write: {e}"[:600])
                        continue
                    tables += 1
                    expected = sorted_rows({"id": i, column: partition_value(kind, v) if partitioned else v} for i, v in rows)
                    for reader, a in zip(READERS, pool.map(lambda r: readers[r].ask(cmd="rows", table=table), READERS)):
                        reads += 1
                        found = "rows" if a["ok"] else a["error"]
                        if a["ok"] and sorted_rows(a["rows"]) == expected:
                            continue
                        met.add((reader, *key))
                        why = KNOWN.get((reader, *key))
                        if why is None or why not in found:
                            shown = sorted_rows(a["rows"]) if a["ok"] else a["error"]
                            wrong.append(f"{(reader, *key)}: {shown} instead of {expected}"[:900])
    wrong += [f"{k}: no longer so" for k in KNOWN if k not in met]
    for r in readers.values():
        r.process.stdin.close()
        r.process.wait()
    print("\n".join(wrong))
    print(f"{tables} tables, {reads} readings, {len(met)} deviations of which {len(wrong)} not known")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
