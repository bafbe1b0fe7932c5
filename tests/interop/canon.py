"""Canonical text of values, shared by the Python readers and by dataset.py.

Every value is null or a string (see README.md).  Arrow columns are turned into text through their integers,
never through datetime or pandas, so that no extreme value is lost or moved.
"""
import datetime
import decimal
import math
import re
import struct

import pyarrow as pa
import pyarrow.compute as pc

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def to_micros(n, unit):
    k = PER_SECOND[unit]
    return n * (10**6 // k) if k <= 10**6 else n // (k // 10**6)


def _integers(a, width):
    """The integers behind a temporal array (no range checks, no zone)."""
    return a.view(pa.int64() if width == 64 else pa.int32()).to_pylist()


def column(a):
    """Arrow array -> list of canonical values."""
    if isinstance(a, pa.ChunkedArray):
        return [v for c in a.chunks for v in column(c)]
    t = a.type
    if pa.types.is_dictionary(t):
        return column(a.dictionary_decode())
    if pa.types.is_boolean(t):
        return [None if v is None else "true" if v else "false" for v in a.to_pylist()]
    if pa.types.is_integer(t):
        return [None if v is None else str(v) for v in a.to_pylist()]
    if pa.types.is_float32(t):
        return _bits(a, 32)
    if pa.types.is_float64(t):
        return _bits(a, 64)
    if pa.types.is_decimal(t):
        return [None if v is None else format(v, "f") for v in a.to_pylist()]
    if pa.types.is_string(t) or pa.types.is_large_string(t) or t == pa.string_view():
        return a.to_pylist()
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t) or t == pa.binary_view():
        return [None if v is None else "hex:" + bytes(v).hex() for v in a.to_pylist()]
    if pa.types.is_date32(t):
        return [None if v is None else f"day:{v}" for v in _integers(a, 32)]
    if pa.types.is_date64(t):
        return [None if v is None else f"day:{v // 86400000}" for v in _integers(a, 64)]
    if pa.types.is_timestamp(t):
        return [None if v is None else f"ns:{v}" if t.unit == "ns" else f"us:{to_micros(v, t.unit)}" for v in _integers(a, 64)]
    if pa.types.is_time32(t):
        return [None if v is None else f"time-ms:{v * 1000 // PER_SECOND[t.unit]}" for v in _integers(a, 32)]
    if pa.types.is_time64(t):
        return [None if v is None else f"time-ms:{v * 1000 // PER_SECOND[t.unit]}" for v in _integers(a, 64)]
    if pa.types.is_map(t):
        out = []
        for i in range(len(a)):
            s = a[i]
            if not s.is_valid:
                out.append(None)
                continue
            e = s.values
            out.append([list(p) for p in zip(column(e.field(0)), column(e.field(1)))])
        return out
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return [column(a[i].values) if a[i].is_valid else None for i in range(len(a))]
    if pa.types.is_struct(t):
        kids = {t.field(k).name: column(pc.struct_field(a, [k])) for k in range(t.num_fields)}
        ok = a.is_valid().to_pylist()
        return [{n: c[i] for n, c in kids.items()} if ok[i] else None for i in range(len(a))]
    if pa.types.is_null(t):
        return [None] * len(a)
    raise ValueError(f"type not handled: {t}")


def _bits(a, width):
    import numpy as np

    ok = a.is_valid().to_pylist()
    f = a.fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = np.ascontiguousarray(f).view(np.uint32 if width == 32 else np.uint64).tolist()
    fmt = "f32:%08x" if width == 32 else "f64:%016x"
    return [fmt % b if v else None for b, v in zip(bits, ok)]


def f32(x):
    return "f32:%08x" % struct.unpack("<I", struct.pack("<f", x))[0]


def f64(x):
    return "f64:%016x" % struct.unpack("<Q", struct.pack("<d", x))[0]


# ---------------------------------------------------------------- text -> value

TYPE = re.compile(r"^([A-Z]+(?:_[A-Z]+)*)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?(.*?)(\s+NOT NULL)?$")


class Kind:
    """What a Paimon type string says: base name, arguments, zone, nullability."""

    def __init__(self, sql):
        m = TYPE.match(sql.strip())
        if not m:
            raise ValueError(f"not an atomic type: {sql}")
        self.base = m.group(1)
        self.a = int(m.group(2)) if m.group(2) else None
        self.b = int(m.group(3)) if m.group(3) else None
        self.ltz = "LOCAL TIME ZONE" in (m.group(4) or "") or self.base == "TIMESTAMP_LTZ"
        self.nullable = not m.group(5)
        if self.base == "TIMESTAMP_LTZ":
            self.base = "TIMESTAMP"
        if self.base == "INTEGER":
            self.base = "INT"


EPOCH = datetime.datetime(1970, 1, 1)


def comparable(text, kind):
    """Text (canonical or as a person writes it) -> a value that sorts as the column does:
    int, bool, Decimal, float, str, bytes; dates as epoch days, timestamps as epoch nanoseconds."""
    b = kind.base
    if b == "BOOLEAN":
        return {"true": True, "false": False}[text]
    if b in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return int(text)
    if b == "FLOAT":
        if text.startswith("f32:"):
            return struct.unpack("<f", struct.pack("<I", int(text[4:], 16)))[0]
        return struct.unpack("<f", struct.pack("<f", float(text)))[0]
    if b == "DOUBLE":
        return struct.unpack("<d", struct.pack("<Q", int(text[4:], 16)))[0] if text.startswith("f64:") else float(text)
    if b == "DECIMAL":
        return decimal.Decimal(text)
    if b in ("STRING", "CHAR", "VARCHAR"):
        return text
    if b in ("BYTES", "BINARY", "VARBINARY"):
        return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
    if b == "DATE":
        if text.startswith("day:"):
            return int(text[4:])
        return (datetime.date.fromisoformat(text) - EPOCH.date()).days
    if b == "TIMESTAMP":
        if text[:3] in ("us:", "ns:"):
            return int(text[3:]) * (1000 if text.startswith("us:") else 1)
        d = datetime.datetime.fromisoformat(text)
        if d.tzinfo is not None:
            d = d.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return (d - EPOCH) // datetime.timedelta(microseconds=1) * 1000
    if b == "TIME":
        return int(text.replace("time-ms:", ""))
    raise ValueError(f"type not handled: {b}")


def keeps(op, value, bound, kind):
    """Does one canonical value pass the filter?  IEEE rules for floats (NaN passes nothing)."""
    if op == "is_null":
        return value is None
    if op == "is_not_null":
        return value is not None
    if value is None:
        return False
    v = comparable(value, kind)
    return {"eq": v == bound, "lt": v < bound, "le": v <= bound, "gt": v > bound, "ge": v >= bound}[op]


class Summary:
    """What is said of one column; the same facts as in the expected.json that dataset.py writes."""

    def __init__(self, kind):
        self.kind = kind
        self.count = self.nulls = 0
        self.seen = {}  # text -> times

    def add(self, texts):
        for t in texts:
            if t is None:
                self.nulls += 1
            else:
                self.count += 1
                self.seen[t] = self.seen.get(t, 0) + 1

    def answer(self):
        values = [(comparable(t, self.kind), t) for t in self.seen]
        a = {"count": str(self.count), "nulls": str(self.nulls), "distinct": str(len(self.seen)),
             "min": min(values)[1] if values else None, "max": max(values)[1] if values else None}
        b = self.kind.base
        if b in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
            a["sum"] = str(sum(v * self.seen[t] for v, t in values))
        elif b == "DECIMAL":
            with decimal.localcontext() as c:
                c.prec = 1000
                a["sum"] = format(sum((v * self.seen[t] for v, t in values), decimal.Decimal(0)), "f")
        elif b in ("FLOAT", "DOUBLE"):
            try:
                s = math.fsum(v for v, t in values for _ in range(self.seen[t]))
            except (OverflowError, ValueError):
                s = math.nan
            if math.isfinite(s):
                a["sum"] = f64(s)
        return a


def arrow_type(t):
    """The Arrow form of a type as schema files have it (text or JSON), as the paimon crate has it: pypaimon's own lacks MULTISET."""
    if isinstance(t, dict):
        name = t["type"].split()[0]
        if name == "ARRAY":
            return pa.list_(arrow_field("element", t["element"]))
        if name == "MAP":
            return pa.map_(arrow_type(t["key"]), arrow_field("value", t["value"]))
        if name == "MULTISET":
            return pa.map_(arrow_type(t["element"]), pa.field("value", pa.int32(), False))
        if name == "ROW":
            return pa.struct([arrow_field(f["name"], f["type"]) for f in t["fields"]])
        raise ValueError(f"type not handled: {t}")
    k = Kind(t)
    if k.base == "DECIMAL":
        return pa.decimal128(k.a or 10, k.b or 0)
    if k.base == "TIMESTAMP":
        p = 6 if k.a is None else k.a
        return pa.timestamp("s" if p == 0 else "ms" if p <= 3 else "us" if p <= 6 else "ns", "UTC" if k.ltz else None)
    return {"BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
            "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "CHAR": pa.string(), "VARCHAR": pa.string(),
            "BYTES": pa.binary(), "BINARY": pa.binary(), "VARBINARY": pa.binary(), "DATE": pa.date32(), "TIME": pa.time32("ms")}[k.base]


def arrow_field(name, t):
    return pa.field(name, arrow_type(t), not (t["type"] if isinstance(t, dict) else t).endswith("NOT NULL"))


def python_value(v, t):
    """A canonical value -> what pa.array takes for this Arrow type; temporal ones as their integers."""
    if v is None:
        return None
    if pa.types.is_list(t):
        return [python_value(x, t.value_type) for x in v]
    if pa.types.is_map(t):
        return [(python_value(k, t.key_type), python_value(x, t.item_type)) for k, x in v]
    if pa.types.is_struct(t):
        return {f.name: python_value(v[f.name], f.type) for f in t}
    if pa.types.is_boolean(t):
        return {"true": True, "false": False}[v]
    if pa.types.is_integer(t):
        return int(v)
    if pa.types.is_float32(t):
        return comparable(v, Kind("FLOAT"))
    if pa.types.is_float64(t):
        return comparable(v, Kind("DOUBLE"))
    if pa.types.is_decimal(t):
        return decimal.Decimal(v)
    if pa.types.is_string(t):
        return v
    if pa.types.is_binary(t):
        return comparable(v, Kind("BYTES"))
    if pa.types.is_date32(t):
        return comparable(v, Kind("DATE"))
    if pa.types.is_timestamp(t):
        return comparable(v, Kind("TIMESTAMP")) // (10**9 // PER_SECOND[t.unit])
    if pa.types.is_time(t):
        return comparable(v, Kind("TIME")) * PER_SECOND[t.unit] // 1000
    raise ValueError(f"type not handled: {t}")


def arrow_array(values, t):
    """Canonical values -> Arrow array of this type."""
    return pa.array([python_value(v, t) for v in values], t)
