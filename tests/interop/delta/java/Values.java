import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.function.IntFunction;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** Canonical text from Spark's internal values, and back. */
class Values {
    private static final JsonNodeFactory N = JsonNodeFactory.instance;

    static ObjectNode object(InternalRow row, StructType type) {
        ObjectNode o = N.objectNode();
        for (int i = 0; i < type.length(); i++) {
            StructField f = type.apply(i);
            o.set(f.name(), text(row, i, f.dataType()));
        }
        return o;
    }

    private static ArrayNode array(ArrayData a, DataType element) {
        ArrayNode n = N.arrayNode();
        for (int i = 0; i < a.numElements(); i++) {
            n.add(text(a, i, element));
        }
        return n;
    }

    private static JsonNode text(SpecializedGetters row, int i, DataType t) {
        if (row.isNullAt(i)) {
            return N.nullNode();
        }
        if (t instanceof StructType) {
            return object(row.getStruct(i, ((StructType) t).length()), (StructType) t);
        }
        if (t instanceof ArrayType) {
            return array(row.getArray(i), ((ArrayType) t).elementType());
        }
        if (t instanceof MapType) {
            MapType mt = (MapType) t;
            MapData m = row.getMap(i);
            ArrayNode keys = array(m.keyArray(), mt.keyType());
            ArrayNode values = array(m.valueArray(), mt.valueType());
            ArrayNode n = N.arrayNode();
            for (int k = 0; k < keys.size(); k++) {
                n.add(N.arrayNode().add(keys.get(k)).add(values.get(k)));
            }
            return n;
        }
        return N.textNode(atomic(row.get(i, t), t));
    }

    private static String atomic(Object v, DataType t) {
        if (t instanceof FloatType) {
            return String.format("f32:%08x", Float.floatToRawIntBits((Float) v));
        }
        if (t instanceof DoubleType) {
            return String.format("f64:%016x", Double.doubleToRawLongBits((Double) v));
        }
        if (t instanceof DecimalType) {
            return ((Decimal) v).toJavaBigDecimal().setScale(((DecimalType) t).scale()).toPlainString();
        }
        if (t instanceof BinaryType) {
            StringBuilder b = new StringBuilder("hex:");
            for (byte x : (byte[]) v) {
                b.append(String.format("%02x", x));
            }
            return b.toString();
        }
        if (t instanceof DateType) {
            return "day:" + v;
        }
        if (t instanceof TimestampType || t instanceof TimestampNTZType) {
            return "us:" + v;
        }
        return v.toString(); // numbers, booleans, UTF8String
    }

    static InternalRow row(IntFunction<JsonNode> values, StructType type) {
        Object[] out = new Object[type.length()];
        for (int i = 0; i < out.length; i++) {
            out[i] = internal(values.apply(i), type.apply(i).dataType());
        }
        return new GenericInternalRow(out);
    }

    /** A canonical value, or one as a person writes it, in the form that Spark has inside. */
    static Object internal(JsonNode v, DataType t) {
        if (v == null || v.isNull()) {
            return null;
        }
        if (t instanceof StructType) {
            StructType st = (StructType) t;
            return row(i -> v.get(st.apply(i).name()), st);
        }
        if (t instanceof ArrayType) {
            Object[] out = new Object[v.size()];
            for (int i = 0; i < out.length; i++) {
                out[i] = internal(v.get(i), ((ArrayType) t).elementType());
            }
            return new GenericArrayData(out);
        }
        if (t instanceof MapType) {
            Object[] keys = new Object[v.size()];
            Object[] values = new Object[v.size()];
            for (int i = 0; i < keys.length; i++) {
                keys[i] = internal(v.get(i).get(0), ((MapType) t).keyType());
                values[i] = internal(v.get(i).get(1), ((MapType) t).valueType());
            }
            return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
        }
        return leaf(v.asText(), t);
    }

    private static Object leaf(String s, DataType t) {
        if (t instanceof StringType) {
            return UTF8String.fromString(s);
        }
        if (t instanceof BooleanType) {
            return Boolean.parseBoolean(s);
        }
        if (t instanceof ByteType) {
            return Byte.parseByte(s);
        }
        if (t instanceof ShortType) {
            return Short.parseShort(s);
        }
        if (t instanceof IntegerType) {
            return Integer.parseInt(s);
        }
        if (t instanceof LongType) {
            return Long.parseLong(s);
        }
        if (t instanceof FloatType) {
            return s.startsWith("f32:") ? Float.intBitsToFloat(Integer.parseUnsignedInt(s.substring(4), 16)) : Float.parseFloat(s);
        }
        if (t instanceof DoubleType) {
            return s.startsWith("f64:") ? Double.longBitsToDouble(Long.parseUnsignedLong(s.substring(4), 16)) : Double.parseDouble(s);
        }
        if (t instanceof DecimalType) {
            DecimalType d = (DecimalType) t;
            return Decimal.apply(new BigDecimal(s).setScale(d.scale()), d.precision(), d.scale());
        }
        if (t instanceof BinaryType) {
            if (!s.startsWith("hex:")) {
                return s.getBytes(java.nio.charset.StandardCharsets.UTF_8);
            }
            byte[] b = new byte[(s.length() - 4) / 2];
            for (int i = 0; i < b.length; i++) {
                b[i] = (byte) Integer.parseInt(s.substring(4 + 2 * i, 6 + 2 * i), 16);
            }
            return b;
        }
        if (t instanceof DateType) {
            return s.startsWith("day:") ? Integer.parseInt(s.substring(4)) : (int) LocalDate.parse(s).toEpochDay();
        }
        if (t instanceof TimestampType || t instanceof TimestampNTZType) {
            return micros(s);
        }
        throw new IllegalArgumentException("type not handled: " + t);
    }

    private static long micros(String s) {
        if (s.startsWith("us:")) {
            return Long.parseLong(s.substring(3));
        }
        LocalDateTime at = s.endsWith("Z") || s.matches(".*[+-]\\d\\d:\\d\\d")
            ? OffsetDateTime.parse(s).withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime() : LocalDateTime.parse(s);
        return ChronoUnit.MICROS.between(LocalDateTime.of(1970, 1, 1, 0, 0), at);
    }
}
