"""The single form of read.sh: arguments -> one request, one answer -> lines for a person or a test."""
import argparse
import json
import os
import sys

OPS = ("eq", "lt", "le", "gt", "ge", "is_null", "is_not_null")


def request(argv):
    p = argparse.ArgumentParser(prog="read.sh READER")
    p.add_argument("table")
    p.add_argument("cmd", choices=["rows", "count", "summary", "snapshots", "schema", "list", "expire"])
    p.add_argument("--filter", nargs="+", metavar="COL OP [VALUE]")
    p.add_argument("--columns", help="comma separated")
    p.add_argument("--snapshot", type=int)
    p.add_argument("--retain-max", type=int)
    p.add_argument("--time-retained-ms", type=int)
    a = p.parse_args(argv)
    # A reader may stand in another folder.
    q = {"cmd": a.cmd, "table": a.table if "://" in a.table else os.path.abspath(a.table)}
    if a.filter:
        if len(a.filter) < 2 or a.filter[1] not in OPS or (len(a.filter) == 2) != a.filter[1].startswith("is_") or len(a.filter) > 3:
            p.error(f"--filter COL OP VALUE, with OP one of {', '.join(OPS)}; is_null and is_not_null take no VALUE")
        q["filter"] = a.filter
    if a.columns:
        q["columns"] = a.columns.split(",")
    if a.cmd == "expire" and a.retain_max is None:
        p.error("expire needs --retain-max N")
    for k in ("snapshot", "retain_max", "time_retained_ms"):
        if getattr(a, k) is not None:
            q[k] = getattr(a, k)
    print(json.dumps(q, ensure_ascii=False))


def answer():
    line = sys.stdin.readline()
    if not line.strip():
        sys.exit("read.sh: the reader ended without an answer")
    a = json.loads(line)
    if not a.pop("ok"):
        sys.exit("read.sh: " + a["error"])
    listed = next((k for k in ("rows", "snapshots", "files") if isinstance(a.get(k), list)), None)
    if listed:
        for r in a.pop(listed):
            print(json.dumps(r, ensure_ascii=False))
        if a:
            print(json.dumps(a), file=sys.stderr)
    elif "count" in a and "columns" not in a:
        print(a.pop("count"))
        if a:
            print(json.dumps(a), file=sys.stderr)
    else:
        print(json.dumps(a, ensure_ascii=False))


if __name__ == "__main__":
    if sys.argv[1] == "request":
        request(sys.argv[2:])
    else:
        answer()
