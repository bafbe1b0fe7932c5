import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.FixedBucketRowKeyExtractor;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;

/** Asks Java Paimon where rows would go, without writing any: to which bucket, and under which partition directory. */
class Probe {
    /** {"columns": [[name, type]], "options": {...}, "rows": [[...]]}: the bucket of each row. */
    static ObjectNode buckets(JsonNode q) {
        List<DataField> fields = fields(q);
        Map<String, String> options = new HashMap<>();
        q.get("options").fields().forEachRemaining(e -> options.put(e.getKey(), e.getValue().asText()));
        TableSchema schema =
                new TableSchema(0, fields, fields.size(), Interop.strings(q.path("partition")), new ArrayList<>(), options, "");
        FixedBucketRowKeyExtractor extractor = new FixedBucketRowKeyExtractor(schema);
        ObjectNode a = Interop.N.objectNode();
        ArrayNode buckets = a.putArray("buckets");
        for (JsonNode r : q.get("rows")) {
            extractor.setRecord(row(fields, r));
            buckets.add(extractor.bucket());
        }
        return a;
    }

    /** {"table": path, "partitions": [[...]]}: the directory of each partition, as the table's writer would make it. */
    static ObjectNode directories(JsonNode q) {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(q.get("table").asText()));
        List<DataField> fields = table.rowType().project(table.partitionKeys()).getFields();
        DataType[] types = fields.stream().map(DataField::type).toArray(DataType[]::new);
        InternalRowSerializer serializer = new InternalRowSerializer(types);
        ObjectNode a = Interop.N.objectNode();
        ArrayNode out = a.putArray("directories");
        for (JsonNode r : q.get("partitions")) {
            try {
                BinaryRow partition = serializer.toBinaryRow(row(fields, r)).copy();
                out.add(table.store().pathFactory().getPartitionString(partition));
            } catch (RuntimeException e) {
                out.addObject().put("error", Interop.describe(e));
            }
        }
        return a;
    }

    private static List<DataField> fields(JsonNode q) {
        List<DataField> fields = new ArrayList<>();
        for (JsonNode c : q.get("columns")) {
            fields.add(new DataField(fields.size(), c.get(0).asText(), DataTypeJsonParser.parseDataType(c.get(1))));
        }
        return fields;
    }

    private static GenericRow row(List<DataField> fields, JsonNode r) {
        GenericRow g = new GenericRow(fields.size());
        for (int i = 0; i < fields.size(); i++) {
            g.setField(i, r.get(i).isNull() ? null : Interop.value(r.get(i).asText(), fields.get(i).type()));
        }
        return g;
    }
}
