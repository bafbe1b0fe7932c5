import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import io.delta.tables.DeltaTable;
import io.delta.tables.DeltaTableBuilder;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Answers one JSON request per line of stdin with one JSON line on stdout, by Spark with delta-spark, in one session of local mode.
 * See ../../README.md for the requests and for the canonical text of values.
 */
public class SparkReader {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonNodeFactory N = JsonNodeFactory.instance;
    static org.apache.spark.sql.classic.SparkSession spark;

    public static void main(String[] args) throws Exception {
        PrintStream real = System.out;
        System.setOut(System.err); // libraries that print must not break the protocol
        spark = start();
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
        spark.stop();
        System.exit(0);
    }

    static org.apache.spark.sql.classic.SparkSession start() throws Exception {
        Path scratch = Files.createTempDirectory("lakeward-spark");
        SparkSession session = SparkSession.builder()
            .master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.default.parallelism", "1")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.databricks.delta.snapshotPartitions", "1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", scratch.resolve("warehouse").toString())
            .config("spark.local.dir", scratch.toString())
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            // Tests vacuum at once and drop features that others look at.
            .config("spark.databricks.delta.retentionDurationCheck.enabled", "false")
            .getOrCreate();
        session.sparkContext().setLogLevel("ERROR");
        return (org.apache.spark.sql.classic.SparkSession) session;
    }

    static String describe(Throwable t) {
        StringBuilder b = new StringBuilder(t.toString());
        for (Throwable c = t.getCause(); c != null && b.length() < 4000; c = c.getCause()) {
            b.append("; caused by ").append(c);
        }
        return b.toString();
    }

    static ObjectNode handle(JsonNode q) throws Exception {
        // What this process knows of a table may no longer be so: others write to it and remove its older files.
        if (!q.path("keep").asBoolean()) {
            DeltaLog.clearCache();
        }
        String cmd = q.path("cmd").asText("rows");
        switch (cmd) {
            case "rows":
            case "count":
                return rows(q, cmd.equals("count"));
            case "schema":
                return schema(q);
            case "create":
                return create(q);
            case "append":
                return append(q);
            case "sql":
                return sql(q);
            case "checkpoint":
                DeltaLog.forTable(spark, path(q)).checkpoint();
                return N.objectNode();
            default:
                throw new IllegalArgumentException("unknown cmd: " + cmd);
        }
    }

    static String path(JsonNode q) {
        return q.get("table").asText();
    }

    // ------------------------------------------------------------------ reading

    static Dataset<Row> open(JsonNode q) {
        org.apache.spark.sql.DataFrameReader reader = spark.read().format("delta");
        if (q.hasNonNull("snapshot")) {
            reader = reader.option("versionAsOf", q.get("snapshot").asLong());
        }
        return (Dataset<Row>) reader.load(path(q));
    }

    static ObjectNode rows(JsonNode q, boolean count) throws Exception {
        Dataset<Row> data = open(q);
        JsonNode filter = q.path("filter");
        if (filter.isTextual()) {
            data = data.filter(filter.asText());
        } else if (filter.isArray()) {
            data = of(new Filter(condition(data, filter), data.queryExecution().analyzed()));
        }
        if (q.hasNonNull("columns")) {
            List<org.apache.spark.sql.Column> columns = new ArrayList<>();
            for (JsonNode c : q.get("columns")) {
                columns.add(data.col("`" + c.asText().replace("`", "``") + "`"));
            }
            data = data.select(columns.toArray(new org.apache.spark.sql.Column[0]));
        }
        ObjectNode answer = N.objectNode();
        // The rows are counted, not their number in the statistics asked for.
        return count ? answer.put("count", data.queryExecution().executedPlan().executeCollect().length) : collect(data, answer);
    }

    static Dataset<Row> of(LogicalPlan plan) {
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(spark, plan);
    }

    /** The rows as Spark has them inside, so that no value is moved or lost by a class of Java's. */
    static ObjectNode collect(Dataset<Row> data, ObjectNode answer) {
        StructType type = data.schema();
        ArrayNode rows = answer.putArray("rows");
        for (InternalRow row : data.queryExecution().executedPlan().executeCollect()) {
            rows.add(Values.object(row, type));
        }
        return answer;
    }

    static Expression condition(Dataset<Row> data, JsonNode filter) {
        Attribute column = null;
        for (Attribute a : CollectionConverters.asJava(data.queryExecution().analyzed().output())) {
            if (a.name().equals(filter.get(0).asText())) {
                column = a;
            }
        }
        if (column == null) {
            throw new IllegalArgumentException("no column " + filter.get(0));
        }
        String op = filter.get(1).asText();
        if (op.equals("is_null")) {
            return new IsNull(column);
        }
        if (op.equals("is_not_null")) {
            return new IsNotNull(column);
        }
        Literal bound = new Literal(Values.internal(filter.get(2), column.dataType()), column.dataType());
        switch (op) {
            case "eq":
                return new EqualTo(column, bound);
            case "lt":
                return new LessThan(column, bound);
            case "le":
                return new LessThanOrEqual(column, bound);
            case "gt":
                return new GreaterThan(column, bound);
            case "ge":
                return new GreaterThanOrEqual(column, bound);
            default:
                throw new IllegalArgumentException("unknown operation: " + op);
        }
    }

    static ObjectNode schema(JsonNode q) throws Exception {
        org.apache.spark.sql.delta.Snapshot s =
            DeltaLog.forTable(spark, path(q)).update(false, Option.empty(), Option.empty());
        ObjectNode answer = N.objectNode();
        answer.put("version", s.version());
        answer.set("schema", JSON.readTree(s.metadata().schemaString()));
        ArrayNode partition = answer.putArray("partition");
        CollectionConverters.asJava(s.metadata().partitionColumns()).forEach(partition::add);
        ObjectNode options = answer.putObject("options");
        CollectionConverters.asJava(s.metadata().configuration()).forEach(options::put);
        answer.set("protocol", JSON.readTree(s.protocol().json()).get("protocol"));
        ObjectNode users = answer.putObject("transactions");
        CollectionConverters.asJava(s.transactions()).forEach((user, version) -> users.put(user, (Long) (Object) version));
        return answer;
    }

    // ------------------------------------------------------------------ writing

    static ObjectNode create(JsonNode q) {
        DeltaTableBuilder builder = DeltaTable.create(spark).location(path(q));
        for (JsonNode c : q.get("columns")) {
            StructField f = Types.field(c.get(0).asText(), c.get(1));
            builder = builder.addColumn(c.size() > 2 ? computed(f, c.get(2).asText()) : f);
        }
        String[] partition = strings(q.path("partition"));
        if (partition.length > 0) {
            builder = builder.partitionedBy(partition);
        }
        String[] cluster = strings(q.path("cluster"));
        if (cluster.length > 0) {
            builder = builder.clusterBy(cluster);
        }
        for (Map.Entry<String, JsonNode> o : q.path("options").properties()) {
            builder = builder.property(o.getKey(), o.getValue().asText());
        }
        builder.execute();
        return N.objectNode();
    }

    /** Spark's SQL takes these columns for no table of this catalog. */
    static StructField computed(StructField f, String how) {
        io.delta.tables.DeltaColumnBuilder b = DeltaTable.columnBuilder(spark, f.name()).dataType(f.dataType());
        return (how.equals("identity") ? b.generatedAlwaysAsIdentity() : b.generatedAlwaysAs(how)).build();
    }

    static String[] strings(JsonNode array) {
        List<String> all = new ArrayList<>();
        array.forEach(s -> all.add(s.asText()));
        return all.toArray(new String[0]);
    }

    /** Rows of canonical texts, all columns in order; with `user` and `identifier` as Spark's own idempotent writes do it. */
    static ObjectNode append(JsonNode q) {
        StructType type = open(q).schema();
        List<InternalRow> rows = new ArrayList<>();
        for (JsonNode r : q.get("rows")) {
            if (r.size() != type.length()) {
                throw new IllegalArgumentException("a row has " + r.size() + " values, the table " + type.length());
            }
            rows.add(Values.row(i -> r.get(i), type));
        }
        @SuppressWarnings({"unchecked", "rawtypes"})
        Seq<Attribute> columns = (Seq) DataTypeUtils.toAttributes(type);
        Seq<InternalRow> data = CollectionConverters.asScala(rows).toList();
        DataFrameWriter<Row> writer = of(new LocalRelation(columns, data, false, Option.empty())).write().format("delta")
            .mode(q.path("overwrite").asBoolean() ? "overwrite" : "append");
        if (q.hasNonNull("identifier")) {
            writer = writer.option("txnAppId", q.get("user").asText()).option("txnVersion", q.get("identifier").asLong());
        }
        writer.save(path(q));
        long version = DeltaLog.forTable(spark, path(q)).update(false, Option.empty(), Option.empty()).version();
        return N.objectNode().put("snapshot", version);
    }

    /** Any statement; `{table}` in it is the table. */
    static ObjectNode sql(JsonNode q) {
        String text = q.get("sql").asText();
        if (q.hasNonNull("table")) {
            text = text.replace("{table}", "delta.`" + path(q).replace("`", "``") + "`");
        }
        return collect(spark.sql(text), N.objectNode());
    }
}
