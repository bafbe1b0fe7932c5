import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.io.StringWriter;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;

import org.apache.paimon.CoreOptions;
import org.apache.paimon.Snapshot;
import org.apache.paimon.consumer.ConsumerManager;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.DataGetters;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.util.RawValue;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.IntType;
import org.apache.paimon.types.LocalZonedTimestampType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.types.TimestampType;

/**
 * Answers one JSON request per line of stdin with one JSON line on stdout, by the table API of Java Paimon.
 * See ../README.md for the requests and for the canonical text of values.
 */
public class Interop {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonNodeFactory N = JsonNodeFactory.instance;

    public static void main(String[] args) throws Exception {
        PrintStream real = System.out;
        System.setOut(System.err); // libraries that print must not break the protocol
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(real, StandardCharsets.UTF_8), 1 << 16);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.trim().isEmpty()) {
                continue;
            }
            ObjectNode answer;
            try {
                answer = handle(JSON.readTree(line));
                answer.put("ok", true);
            } catch (Throwable t) {
                answer = N.objectNode();
                answer.put("ok", false);
                answer.put("error", describe(t));
            }
            out.write(JSON.writeValueAsString(answer));
            out.write('\n');
            out.flush();
        }
        System.exit(0); // Paimon leaves non-daemon threads behind
    }

    static String describe(Throwable t) {
        StringBuilder b = new StringBuilder(t.toString());
        for (Throwable c = t.getCause(); c != null && b.length() < 4000; c = c.getCause()) {
            b.append("; caused by ").append(c);
        }
        return b.toString();
    }

    static ObjectNode handle(JsonNode q) throws Exception {
        String cmd = q.path("cmd").asText("rows");
        switch (cmd) {
            case "rows":
            case "count":
            case "summary":
                return rows(q, cmd);
            case "snapshots":
                return snapshots(q);
            case "schema":
                return schema(q);
            case "list":
                return list(q);
            case "expire":
                return expire(q);
            case "delete_consumer":
                return deleteConsumer(q);
            case "compact":
                return compact(q);
            case "tag":
                open(q).createTag(q.get("name").asText(), q.get("id").asLong());
                return N.objectNode();
            case "create":
                return create(q);
            case "append":
                return append(q);
            case "alter":
                return alter(q);
            case "options":
                return options();
            case "buckets":
                return Probe.buckets(q);
            case "directories":
                return Probe.directories(q);
            case "compact_buckets":
                return Probe.compactBuckets(q);
            default:
                throw new IllegalArgumentException("unknown cmd: " + cmd);
        }
    }

    static FileStoreTable open(JsonNode q) {
        FileStoreTable t = FileStoreTableFactory.create(LocalFileIO.create(), new Path(q.get("table").asText()));
        if (q.hasNonNull("snapshot")) {
            return t.copy(Collections.singletonMap("scan.snapshot-id", q.get("snapshot").asText()));
        }
        return t;
    }

    // ------------------------------------------------------------------ reading

    static ObjectNode rows(JsonNode q, String cmd) throws Exception {
        FileStoreTable table = open(q);
        RowType type = table.rowType();
        LinkedHashSet<Integer> wanted = new LinkedHashSet<>();
        if (q.hasNonNull("columns")) {
            List<String> names = new ArrayList<>();
            q.get("columns").forEach(c -> names.add(c.asText()));
            for (String n : names) {
                index(type, n);
            }
            for (int i = 0; i < type.getFieldCount(); i++) {
                if (names.contains(type.getFieldNames().get(i))) {
                    wanted.add(i);
                }
            }
        } else {
            for (int i = 0; i < type.getFieldCount(); i++) {
                wanted.add(i);
            }
        }
        List<Integer> shown = new ArrayList<>(wanted);
        ReadBuilder builder = table.newReadBuilder();
        boolean filtered = q.hasNonNull("filter");
        if (filtered) {
            JsonNode f = q.get("filter");
            int c = index(type, f.get(0).asText());
            wanted.add(c);
            builder = builder.withFilter(predicate(type, c, f.get(1).asText(), f.path(2)));
        }
        List<Integer> read = new ArrayList<>(wanted);
        if (read.size() != type.getFieldCount() || !inOrder(read)) {
            builder = builder.withProjection(read.stream().mapToInt(Integer::intValue).toArray());
        }
        List<Split> splits = builder.newScan().plan().splits();
        int files = 0;
        for (Split s : splits) {
            files += s instanceof DataSplit ? ((DataSplit) s).dataFiles().size() : 1;
        }
        List<Summary> summaries = new ArrayList<>();
        for (int i : shown) {
            summaries.add(new Summary(type.getTypeAt(i)));
        }
        StringWriter text = new StringWriter(); // not a tree: there may be millions of values
        JsonGenerator rows = JSON.getFactory().createGenerator(text);
        rows.writeStartArray();
        long count = 0;
        for (Split split : splits) {
            // executeFilter: the reader itself drops every row that does not match
            try (RecordReaderIterator<InternalRow> it =
                    new RecordReaderIterator<>(
                            filtered
                                    ? builder.newRead().executeFilter().createReader(split)
                                    : builder.newRead().createReader(split))) {
                while (it.hasNext()) {
                    InternalRow r = it.next();
                    count++;
                    if (cmd.equals("rows")) {
                        rows.writeStartObject();
                        for (int i = 0; i < shown.size(); i++) {
                            DataField f = type.getFields().get(shown.get(i));
                            rows.writeFieldName(f.name());
                            JSON.writeTree(rows, text(r, i, f.type()));
                        }
                        rows.writeEndObject();
                    } else if (cmd.equals("summary")) {
                        for (int i = 0; i < shown.size(); i++) {
                            summaries.get(i).add(r, i);
                        }
                    }
                }
            }
        }
        rows.writeEndArray();
        rows.close();
        ObjectNode a = N.objectNode();
        if (cmd.equals("rows")) {
            a.putRawValue("rows", new RawValue(text.toString()));
        } else {
            a.put("count", count);
        }
        if (cmd.equals("summary")) {
            ObjectNode columns = a.putObject("columns");
            for (int i = 0; i < shown.size(); i++) {
                columns.set(type.getFieldNames().get(shown.get(i)), summaries.get(i).answer());
            }
        }
        a.put("files", files);
        a.put("splits", splits.size());
        return a;
    }

    /** What is said of one column; the same facts as in the expected.json that dataset.py writes. */
    static class Summary {
        final DataType type;
        long count;
        long nulls;
        final HashSet<String> distinct = new HashSet<>();
        Comparable<Object> min;
        Comparable<Object> max;
        String minText;
        String maxText;
        BigDecimal sum = BigDecimal.ZERO; // null: not a number, or not finite

        Summary(DataType type) {
            this.type = type;
        }

        @SuppressWarnings("unchecked")
        void add(InternalRow r, int i) {
            if (r.isNullAt(i)) {
                nulls++;
                return;
            }
            count++;
            String t = text(r, i, type).asText();
            distinct.add(t);
            Object v;
            switch (type.getTypeRoot()) {
                case FLOAT:
                case DOUBLE: {
                    double d = type.getTypeRoot() == DataTypeRoot.FLOAT ? r.getFloat(i) : r.getDouble(i);
                    v = d;
                    sum = sum == null || Double.isNaN(d) || Double.isInfinite(d) ? null : sum.add(new BigDecimal(d));
                    break;
                }
                case TINYINT:
                case SMALLINT:
                case INTEGER:
                case BIGINT:
                case DECIMAL:
                    v = new BigDecimal(t);
                    sum = sum.add((BigDecimal) v);
                    break;
                case DATE:
                case TIME_WITHOUT_TIME_ZONE:
                case TIMESTAMP_WITHOUT_TIME_ZONE:
                case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                    v = new BigInteger(t.substring(t.indexOf(':') + 1));
                    sum = null;
                    break;
                default: // strings by their UTF-8 bytes; bytes by their hex text
                    v = BinaryString.fromString(t);
                    sum = null;
            }
            Comparable<Object> c = (Comparable<Object>) v;
            if (min == null || c.compareTo(min) < 0) {
                min = c;
                minText = t;
            }
            if (max == null || c.compareTo(max) > 0) {
                max = c;
                maxText = t;
            }
        }

        ObjectNode answer() {
            ObjectNode o = N.objectNode();
            o.put("count", Long.toString(count));
            o.put("nulls", Long.toString(nulls));
            o.put("distinct", Integer.toString(distinct.size()));
            o.put("min", minText);
            o.put("max", maxText);
            if (sum != null && numeric()) {
                boolean f = type.getTypeRoot() == DataTypeRoot.FLOAT || type.getTypeRoot() == DataTypeRoot.DOUBLE;
                // the exact sum, rounded once: what Python's math.fsum gives
                o.put("sum", f ? String.format("f64:%016x", Double.doubleToRawLongBits(sum.doubleValue())) : sum.toPlainString());
            }
            return o;
        }

        boolean numeric() {
            switch (type.getTypeRoot()) {
                case TINYINT:
                case SMALLINT:
                case INTEGER:
                case BIGINT:
                case DECIMAL:
                case FLOAT:
                case DOUBLE:
                    return true;
                default:
                    return false;
            }
        }
    }

    static boolean inOrder(List<Integer> l) {
        for (int i = 0; i < l.size(); i++) {
            if (l.get(i) != i) {
                return false;
            }
        }
        return true;
    }

    static int index(RowType type, String column) {
        int i = type.getFieldNames().indexOf(column);
        if (i < 0) {
            throw new IllegalArgumentException("no column " + column + " in " + type.getFieldNames());
        }
        return i;
    }

    static Predicate predicate(RowType type, int c, String op, JsonNode value) {
        PredicateBuilder b = new PredicateBuilder(type);
        if (op.equals("is_null")) {
            return b.isNull(c);
        }
        if (op.equals("is_not_null")) {
            return b.isNotNull(c);
        }
        Object v = value(value.asText(), type.getTypeAt(c));
        switch (op) {
            case "eq":
                return b.equal(c, v);
            case "lt":
                return b.lessThan(c, v);
            case "le":
                return b.lessOrEqual(c, v);
            case "gt":
                return b.greaterThan(c, v);
            case "ge":
                return b.greaterOrEqual(c, v);
            default:
                throw new IllegalArgumentException("unknown operator: " + op);
        }
    }

    // ------------------------------------------------------------------ canonical text

    static JsonNode text(DataGetters r, int i, DataType t) {
        if (r.isNullAt(i)) {
            return N.nullNode();
        }
        switch (t.getTypeRoot()) {
            case BOOLEAN:
                return N.textNode(Boolean.toString(r.getBoolean(i)));
            case TINYINT:
                return N.textNode(Integer.toString(r.getByte(i)));
            case SMALLINT:
                return N.textNode(Integer.toString(r.getShort(i)));
            case INTEGER:
                return N.textNode(Integer.toString(r.getInt(i)));
            case BIGINT:
                return N.textNode(Long.toString(r.getLong(i)));
            case FLOAT:
                return N.textNode(String.format("f32:%08x", Float.floatToRawIntBits(r.getFloat(i))));
            case DOUBLE:
                return N.textNode(String.format("f64:%016x", Double.doubleToRawLongBits(r.getDouble(i))));
            case DECIMAL:
                DecimalType d = (DecimalType) t;
                return N.textNode(r.getDecimal(i, d.getPrecision(), d.getScale()).toBigDecimal()
                        .setScale(d.getScale()).toPlainString());
            case CHAR:
            case VARCHAR:
                return N.textNode(r.getString(i).toString());
            case BINARY:
            case VARBINARY:
                return N.textNode(hex(r.getBinary(i)));
            case DATE:
                return N.textNode("day:" + r.getInt(i));
            case TIME_WITHOUT_TIME_ZONE:
                return N.textNode("time-ms:" + r.getInt(i));
            case TIMESTAMP_WITHOUT_TIME_ZONE: {
                int p = ((TimestampType) t).getPrecision();
                return moment(r.getTimestamp(i, p), p);
            }
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE: {
                int p = ((LocalZonedTimestampType) t).getPrecision();
                return moment(r.getTimestamp(i, p), p);
            }
            case ARRAY: {
                InternalArray a = r.getArray(i);
                ArrayNode o = N.arrayNode();
                for (int k = 0; k < a.size(); k++) {
                    o.add(text(a, k, ((ArrayType) t).getElementType()));
                }
                return o;
            }
            case MAP:
                return entries(r.getMap(i), ((MapType) t).getKeyType(), ((MapType) t).getValueType());
            case MULTISET: // how often each element is in it
                return entries(r.getMap(i), ((MultisetType) t).getElementType(), new IntType(false));
            case ROW: {
                RowType rt = (RowType) t;
                InternalRow s = r.getRow(i, rt.getFieldCount());
                ObjectNode o = N.objectNode();
                for (int k = 0; k < rt.getFieldCount(); k++) {
                    o.set(rt.getFieldNames().get(k), text(s, k, rt.getTypeAt(k)));
                }
                return o;
            }
            default:
                throw new IllegalArgumentException("type not handled: " + t);
        }
    }

    static ArrayNode entries(InternalMap m, DataType key, DataType value) {
        ArrayNode o = N.arrayNode();
        InternalArray keys = m.keyArray();
        InternalArray values = m.valueArray();
        for (int k = 0; k < m.size(); k++) {
            ArrayNode e = o.addArray();
            e.add(text(keys, k, key));
            e.add(text(values, k, value));
        }
        return o;
    }

    /** Microseconds, or nanoseconds where the type has more than six digits. */
    static JsonNode moment(Timestamp t, int precision) {
        BigInteger ms = BigInteger.valueOf(t.getMillisecond());
        if (precision > 6) {
            return N.textNode("ns:" + ms.multiply(BigInteger.valueOf(1000000)).add(BigInteger.valueOf(t.getNanoOfMillisecond())));
        }
        return N.textNode("us:" + ms.multiply(BigInteger.valueOf(1000)).add(BigInteger.valueOf(t.getNanoOfMillisecond() / 1000)));
    }

    static String hex(byte[] b) {
        StringBuilder s = new StringBuilder("hex:");
        for (byte x : b) {
            s.append(String.format("%02x", x));
        }
        return s.toString();
    }

    /** JSON as {@link #text} gives it to Paimon's internal value. */
    static Object value(JsonNode j, DataType t) {
        if (j.isNull()) {
            return null;
        }
        switch (t.getTypeRoot()) {
            case ARRAY: {
                Object[] a = new Object[j.size()];
                for (int k = 0; k < a.length; k++) {
                    a[k] = value(j.get(k), ((ArrayType) t).getElementType());
                }
                return new GenericArray(a);
            }
            case MAP:
                return map(j, ((MapType) t).getKeyType(), ((MapType) t).getValueType());
            case MULTISET:
                return map(j, ((MultisetType) t).getElementType(), new IntType(false));
            case ROW: {
                RowType rt = (RowType) t;
                GenericRow g = new GenericRow(rt.getFieldCount());
                for (int k = 0; k < rt.getFieldCount(); k++) {
                    g.setField(k, value(j.get(rt.getFieldNames().get(k)), rt.getTypeAt(k)));
                }
                return g;
            }
            default:
                return value(j.asText(), t);
        }
    }

    static GenericMap map(JsonNode j, DataType key, DataType value) {
        LinkedHashMap<Object, Object> m = new LinkedHashMap<>(); // keeps the order
        for (JsonNode e : j) {
            m.put(value(e.get(0), key), value(e.get(1), value));
        }
        return new GenericMap(m);
    }

    /** Text to Paimon's internal value: canonical, or as a person writes it. */
    static Object value(String s, DataType t) {
        switch (t.getTypeRoot()) {
            case BOOLEAN:
                if (!s.equals("true") && !s.equals("false")) {
                    throw new IllegalArgumentException("not a boolean: " + s);
                }
                return s.equals("true");
            case TINYINT:
                return Byte.valueOf(s);
            case SMALLINT:
                return Short.valueOf(s);
            case INTEGER:
                return Integer.valueOf(s);
            case BIGINT:
                return Long.valueOf(s);
            case FLOAT:
                return s.startsWith("f32:") ? Float.intBitsToFloat(Integer.parseUnsignedInt(s.substring(4), 16))
                        : Float.valueOf(s);
            case DOUBLE:
                return s.startsWith("f64:") ? Double.longBitsToDouble(Long.parseUnsignedLong(s.substring(4), 16))
                        : Double.valueOf(s);
            case DECIMAL:
                DecimalType d = (DecimalType) t;
                Decimal v = Decimal.fromBigDecimal(new BigDecimal(s).setScale(d.getScale()), d.getPrecision(), d.getScale());
                if (v == null) {
                    throw new IllegalArgumentException(s + " does not fit " + t);
                }
                return v;
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(s);
            case BINARY:
            case VARBINARY:
                return s.startsWith("hex:") ? unhex(s.substring(4)) : s.getBytes(StandardCharsets.UTF_8);
            case DATE:
                return s.startsWith("day:") ? Integer.valueOf(s.substring(4))
                        : Integer.valueOf(Math.toIntExact(LocalDate.parse(s).toEpochDay()));
            case TIME_WITHOUT_TIME_ZONE:
                return Integer.valueOf(s.replace("time-ms:", ""));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                if (s.startsWith("us:") || s.startsWith("ns:")) {
                    BigInteger n = new BigInteger(s.substring(3)).multiply(BigInteger.valueOf(s.startsWith("us:") ? 1000 : 1));
                    BigInteger k = BigInteger.valueOf(1000000);
                    BigInteger rest = n.mod(k);
                    return Timestamp.fromEpochMillis(n.subtract(rest).divide(k).longValueExact(), rest.intValue());
                }
                String iso = s.replace(' ', 'T');
                return Timestamp.fromLocalDateTime(
                        iso.matches(".*(Z|[+-]\\d\\d:\\d\\d)$")
                                ? OffsetDateTime.parse(iso).withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime()
                                : LocalDateTime.parse(iso.contains("T") ? iso : iso + "T00:00"));
            default:
                throw new IllegalArgumentException("type not handled: " + t);
        }
    }

    static byte[] unhex(String s) {
        byte[] b = new byte[s.length() / 2];
        for (int i = 0; i < b.length; i++) {
            b[i] = (byte) Integer.parseInt(s.substring(2 * i, 2 * i + 2), 16);
        }
        return b;
    }

    // ------------------------------------------------------------------ looking

    static ObjectNode snapshots(JsonNode q) throws Exception {
        FileStoreTable table = open(q);
        List<Snapshot> all = new ArrayList<>();
        Iterator<Snapshot> it = table.snapshotManager().snapshots();
        it.forEachRemaining(all::add);
        all.sort((a, b) -> Long.compare(a.id(), b.id()));
        ArrayNode out = N.arrayNode();
        for (Snapshot s : all) {
            JsonNode j = JSON.readTree(s.toJson());
            ObjectNode o = out.addObject();
            for (String k : new String[] {"id", "schemaId", "commitUser", "commitIdentifier", "commitKind", "timeMillis",
                    "totalRecordCount", "deltaRecordCount", "watermark", "properties"}) {
                if (j.hasNonNull(k)) {
                    o.set(k, j.get(k));
                }
            }
        }
        ObjectNode a = N.objectNode();
        a.set("snapshots", out);
        Long latest = table.snapshotManager().latestSnapshotId();
        Long earliest = table.snapshotManager().earliestSnapshotId();
        if (latest != null) {
            a.put("latest", latest);
        }
        if (earliest != null) {
            a.put("earliest", earliest);
        }
        return a;
    }

    static ObjectNode schema(JsonNode q) {
        FileStoreTable t = open(q);
        ObjectNode a = N.objectNode();
        a.put("id", t.schema().id());
        ArrayNode cols = a.putArray("columns");
        for (DataField f : t.rowType().getFields()) {
            cols.addArray().add(f.name()).add(f.type().asSQLString());
        }
        ArrayNode p = a.putArray("partition");
        t.partitionKeys().forEach(p::add);
        ArrayNode k = a.putArray("primary_key");
        t.primaryKeys().forEach(k::add);
        ObjectNode o = a.putObject("options");
        t.schema().options().forEach(o::put);
        o.remove("path"); // added on opening
        return a;
    }

    /** The live data files as this reader plans them, with the statistics it sees. */
    static ObjectNode list(JsonNode q) throws Exception {
        FileStoreTable table = open(q);
        SchemaManager schemas = new SchemaManager(table.fileIO(), table.location());
        RowType partition = table.rowType().project(table.partitionKeys());
        ReadBuilder b = table.newReadBuilder();
        if (q.hasNonNull("filter")) {
            JsonNode f = q.get("filter");
            b = b.withFilter(predicate(table.rowType(), index(table.rowType(), f.get(0).asText()), f.get(1).asText(), f.path(2)));
        }
        ArrayNode files = N.arrayNode();
        for (Split s : b.newScan().plan().splits()) {
            DataSplit d = (DataSplit) s;
            for (DataFileMeta m : d.dataFiles()) {
                ObjectNode o = files.addObject();
                o.put("file", m.fileName());
                o.put("bytes", m.fileSize());
                o.put("rows", m.rowCount());
                ObjectNode p = o.putObject("partition");
                for (int i = 0; i < partition.getFieldCount(); i++) {
                    p.set(partition.getFieldNames().get(i), text(d.partition(), i, partition.getTypeAt(i)));
                }
                o.put("bucket", d.bucket());
                o.put("level", m.level());
                o.put("schemaId", m.schemaId());
                o.put("minSequence", m.minSequenceNumber());
                o.put("maxSequence", m.maxSequenceNumber());
                List<DataField> fields = schemas.schema(m.schemaId()).fields();
                List<String> cols = statsColumns(m, fields);
                ObjectNode stats = o.putObject("stats");
                BinaryRow min = m.valueStats().minValues();
                BinaryRow max = m.valueStats().maxValues();
                for (int i = 0; i < cols.size() && i < min.getFieldCount(); i++) {
                    DataType t = typeOf(fields, cols.get(i));
                    ObjectNode c = stats.putObject(cols.get(i));
                    c.set("min", text(min, i, t));
                    c.set("max", text(max, i, t));
                    if (i < m.valueStats().nullCounts().size() && !m.valueStats().nullCounts().isNullAt(i)) {
                        c.put("nulls", m.valueStats().nullCounts().getLong(i));
                    }
                }
            }
        }
        ObjectNode a = N.objectNode();
        a.set("files", files);
        return a;
    }

    @SuppressWarnings("unchecked")
    static List<String> statsColumns(DataFileMeta m, List<DataField> fields) throws Exception {
        List<String> cols = null;
        try { // not in every version of Paimon
            cols = (List<String>) DataFileMeta.class.getMethod("valueStatsCols").invoke(m);
        } catch (NoSuchMethodException e) {
            // all columns
        }
        if (cols == null) {
            cols = new ArrayList<>();
            for (DataField f : fields) {
                cols.add(f.name());
            }
        }
        return cols;
    }

    static DataType typeOf(List<DataField> fields, String name) {
        for (DataField f : fields) {
            if (f.name().equals(name)) {
                return f.type();
            }
        }
        throw new IllegalArgumentException("statistics of an unknown column " + name);
    }

    static ObjectNode expire(JsonNode q) {
        FileStoreTable t = open(q);
        int max = q.get("retain_max").asInt();
        ExpireConfig.Builder c = ExpireConfig.builder()
                .snapshotRetainMax(max)
                .snapshotRetainMin(Math.min(max, q.path("retain_min").asInt(1)))
                .snapshotMaxDeletes(Integer.MAX_VALUE);
        if (q.hasNonNull("time_retained_ms")) {
            c = c.snapshotTimeRetain(Duration.ofMillis(q.get("time_retained_ms").asLong()));
        }
        int n = t.newExpireSnapshots().config(c.build()).expire();
        ObjectNode a = N.objectNode();
        a.put("expired", n);
        return a;
    }

    static ObjectNode deleteConsumer(JsonNode q) {
        FileStoreTable t = open(q);
        new ConsumerManager(t.fileIO(), t.location()).deleteConsumer(q.get("consumer").asText());
        return N.objectNode();
    }

    // ------------------------------------------------------------------ writing

    /**
     * Rewrites the files of each partition of an append table without buckets into one, as Flink's and Spark's compaction do: their task
     * class has another name in each version.
     */
    static ObjectNode compact(JsonNode q) throws Exception {
        FileStoreTable t = open(q);
        Map<BinaryRow, List<DataFileMeta>> byPartition = new HashMap<>();
        for (Split s : t.newReadBuilder().newScan().plan().splits()) {
            DataSplit d = (DataSplit) s;
            byPartition.computeIfAbsent(d.partition().copy(), k -> new ArrayList<>()).addAll(d.dataFiles());
        }
        Class<?> task;
        try {
            task = Class.forName("org.apache.paimon.append.AppendCompactTask");
        } catch (ClassNotFoundException e) {
            task = Class.forName("org.apache.paimon.append.UnawareAppendCompactionTask");
        }
        Method run = Arrays.stream(task.getMethods()).filter(m -> m.getName().equals("doCompact")).findFirst().get();
        List<CommitMessage> messages = new ArrayList<>();
        int files = 0;
        for (Map.Entry<BinaryRow, List<DataFileMeta>> e : byPartition.entrySet()) {
            if (e.getValue().size() < 2) {
                continue;
            }
            files += e.getValue().size();
            Object one = task.getConstructor(BinaryRow.class, List.class).newInstance(e.getKey(), e.getValue());
            messages.add((CommitMessage) run.invoke(one, t, t.store().newWrite("compaction")));
        }
        if (!messages.isEmpty()) {
            try (BatchTableCommit c = t.newBatchWriteBuilder().newCommit()) {
                c.commit(messages);
            }
        }
        ObjectNode a = N.objectNode();
        a.put("compacted", files);
        Long id = open(q).snapshotManager().latestSnapshotId();
        if (id != null) {
            a.put("snapshot", id);
        }
        return a;
    }

    static List<String> strings(JsonNode n) {
        List<String> l = new ArrayList<>();
        n.forEach(x -> l.add(x.asText()));
        return l;
    }

    static ObjectNode create(JsonNode q) throws Exception {
        Map<String, String> options = new HashMap<>();
        q.path("options").fields().forEachRemaining(e -> options.put(e.getKey(), e.getValue().asText()));
        Schema.Builder s = Schema.newBuilder() // gives the ids, to nested fields too
                .partitionKeys(strings(q.path("partition"))).primaryKey(strings(q.path("primary_key"))).options(options).comment("");
        for (JsonNode c : q.get("columns")) {
            s.column(c.get(0).asText(), type(c.get(1)));
        }
        new SchemaManager(LocalFileIO.create(), new Path(q.get("table").asText())).createTable(s.build());
        return N.objectNode();
    }

    /** A type as schema files have it; fields of a ROW may come without their ids. */
    static DataType type(JsonNode j) {
        number(j);
        return DataTypeJsonParser.parseDataType(j);
    }

    static void number(JsonNode j) {
        if (j.isObject() && j.has("name") && !j.has("id")) {
            ((ObjectNode) j).put("id", 0);
        }
        j.forEach(Interop::number);
    }

    /** Each change is one schema file, as one ALTER statement makes it. */
    static ObjectNode alter(JsonNode q) throws Exception {
        SchemaManager m = new SchemaManager(LocalFileIO.create(), new Path(q.get("table").asText()));
        for (JsonNode c : q.get("changes")) {
            String a = c.get(1).asText();
            SchemaChange change;
            switch (c.get(0).asText()) {
                case "add":
                    change = SchemaChange.addColumn(a, type(c.get(2)));
                    break;
                case "drop":
                    change = SchemaChange.dropColumn(a);
                    break;
                case "rename":
                    change = SchemaChange.renameColumn(a, c.get(2).asText());
                    break;
                case "retype":
                    change = SchemaChange.updateColumnType(a, type(c.get(2)));
                    break;
                case "nullable":
                    change = SchemaChange.updateColumnNullability(a, c.get(2).asBoolean());
                    break;
                case "set":
                    change = SchemaChange.setOption(a, c.get(2).asText());
                    break;
                case "unset":
                    change = SchemaChange.removeOption(a);
                    break;
                default:
                    throw new IllegalArgumentException("unknown change: " + c);
            }
            m.commitChanges(change);
        }
        ObjectNode a = N.objectNode();
        a.put("schema", open(q).schema().id());
        return a;
    }

    /** The keys of all table options that this version knows, with their defaults. */
    static ObjectNode options() {
        ObjectNode a = N.objectNode();
        ObjectNode o = a.putObject("options");
        for (ConfigOption<?> c : CoreOptions.getOptions()) {
            o.put(c.key(), c.defaultValue() == null ? null : c.defaultValue().toString());
        }
        return a;
    }

    static ObjectNode append(JsonNode q) throws Exception {
        FileStoreTable t = open(q);
        RowType type = t.rowType();
        List<GenericRow> rows = new ArrayList<>();
        for (JsonNode r : q.get("rows")) {
            if (r.size() != type.getFieldCount()) {
                throw new IllegalArgumentException("a row has " + r.size() + " values, the table " + type.getFieldCount());
            }
            GenericRow g = new GenericRow(type.getFieldCount());
            for (int i = 0; i < type.getFieldCount(); i++) {
                g.setField(i, value(r.get(i), type.getTypeAt(i)));
            }
            rows.add(g);
        }
        if (q.hasNonNull("identifier")) {
            StreamWriteBuilder b = t.newStreamWriteBuilder();
            if (q.hasNonNull("user")) {
                b = b.withCommitUser(q.get("user").asText());
            }
            long id = q.get("identifier").asLong();
            try (StreamTableWrite w = b.newWrite(); StreamTableCommit c = b.newCommit()) {
                w.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir"))); // lookups want a directory
                for (GenericRow g : rows) {
                    w.write(g);
                }
                c.commit(id, w.prepareCommit(false, id));
            }
        } else {
            BatchWriteBuilder b = t.newBatchWriteBuilder();
            if (q.path("overwrite").asBoolean()) {
                b = b.withOverwrite();
            }
            try (BatchTableWrite w = b.newWrite(); BatchTableCommit c = b.newCommit()) {
                w.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir"))); // lookups want a directory
                for (GenericRow g : rows) {
                    w.write(g);
                }
                c.commit(w.prepareCommit());
            }
        }
        ObjectNode a = N.objectNode();
        Long id = open(q).snapshotManager().latestSnapshotId();
        if (id != null) {
            a.put("snapshot", id);
        }
        return a;
    }
}
