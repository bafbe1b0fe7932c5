import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;

/** Spark's types from the words of `create` in ../../README.md. */
class Types {
    private static final Pattern ATOMIC = Pattern.compile("([A-Z_]+)\\s*(?:\\((\\d+)(?:\\s*,\\s*(\\d+))?\\))?(.*)");

    static StructField field(String name, JsonNode type) {
        return new StructField(name, type(type), nullable(type), Metadata.empty());
    }

    static boolean nullable(JsonNode type) {
        return !(type.isTextual() ? type : type.get("type")).asText().endsWith("NOT NULL");
    }

    static DataType type(JsonNode type) {
        if (type.isTextual()) {
            return atomic(type.asText().replace("NOT NULL", "").trim());
        }
        String name = type.get("type").asText().replace("NOT NULL", "").trim();
        switch (name) {
            case "ARRAY":
                return DataTypes.createArrayType(type(type.get("element")), nullable(type.get("element")));
            case "MAP":
                return DataTypes.createMapType(type(type.get("key")), type(type.get("value")), nullable(type.get("value")));
            case "ROW":
                List<StructField> fields = new ArrayList<>();
                type.get("fields").forEach(f -> fields.add(field(f.get("name").asText(), f.get("type"))));
                return DataTypes.createStructType(fields);
            default:
                throw new IllegalArgumentException("type not handled: " + type);
        }
    }

    private static DataType atomic(String text) {
        Matcher m = ATOMIC.matcher(text);
        if (!m.matches()) {
            throw new IllegalArgumentException("type not handled: " + text);
        }
        switch (m.group(1)) {
            case "BOOLEAN":
                return DataTypes.BooleanType;
            case "TINYINT":
                return DataTypes.ByteType;
            case "SMALLINT":
                return DataTypes.ShortType;
            case "INT":
                return DataTypes.IntegerType;
            case "BIGINT":
                return DataTypes.LongType;
            case "FLOAT":
                return DataTypes.FloatType;
            case "DOUBLE":
                return DataTypes.DoubleType;
            case "DECIMAL":
                return DataTypes.createDecimalType(Integer.parseInt(m.group(2)), m.group(3) == null ? 0 : Integer.parseInt(m.group(3)));
            case "STRING":
                return DataTypes.StringType;
            case "CHAR":
                return DataTypes.createCharType(Integer.parseInt(m.group(2)));
            case "VARCHAR":
                return DataTypes.createVarcharType(Integer.parseInt(m.group(2)));
            case "BYTES":
            case "BINARY":
            case "VARBINARY":
                return DataTypes.BinaryType;
            case "DATE":
                return DataTypes.DateType;
            case "TIMESTAMP":
                return m.group(4).contains("LOCAL") ? DataTypes.TimestampType : DataTypes.TimestampNTZType;
            case "TIMESTAMP_LTZ":
                return DataTypes.TimestampType;
            default:
                throw new IllegalArgumentException("type not handled: " + text);
        }
    }
}
