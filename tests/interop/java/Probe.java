import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.FixedBucketRowKeyExtractor;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;

/** Asks Java Paimon where rows would go, without writing any: to which bucket, and under which partition directory. */
class Probe {
    /** {"columns": [[name, type]], "options": [{...}], "rows": [[...]]}: for each set of options the bucket of each row. */
    static ObjectNode buckets(JsonNode q) {
        List<DataField> fields = fields(q);
        List<GenericRow> rows = new ArrayList<>();
        q.get("rows").forEach(r -> rows.add(row(fields, r)));
        ObjectNode a = Interop.N.objectNode();
        ArrayNode all = a.putArray("buckets");
        for (JsonNode set : q.get("options")) {
            Map<String, String> options = new HashMap<>();
            set.fields().forEachRemaining(e -> options.put(e.getKey(), e.getValue().asText()));
            TableSchema schema = new TableSchema(
                    0, fields, fields.size(), Interop.strings(q.path("partition")), new ArrayList<>(), options, "");
            FixedBucketRowKeyExtractor extractor = new FixedBucketRowKeyExtractor(schema);
            ArrayNode buckets = all.addArray();
            for (GenericRow r : rows) {
                extractor.setRecord(r);
                buckets.add(extractor.bucket());
            }
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

    /** {"table": path}: Java's own compaction of every bucket of a table with fixed buckets; "compacted" files, "snapshot". */
    static ObjectNode compactBuckets(JsonNode q) throws Exception {
        FileStoreTable table = Interop.open(q);
        ObjectNode a = Interop.N.objectNode();
        int files = 0;
        try (BatchTableWrite write = table.newBatchWriteBuilder().newWrite(); BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            for (Split split : table.newReadBuilder().newScan().plan().splits()) {
                DataSplit s = (DataSplit) split;
                files += s.dataFiles().size();
                write.compact(s.partition(), s.bucket(), true);
            }
            commit.commit(write.prepareCommit());
        }
        a.put("compacted", files);
        a.put("snapshot", Interop.open(q).snapshotManager().latestSnapshotId());
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
