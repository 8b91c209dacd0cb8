import io.debezium.connector.jdbc.JdbcSinkConnectorTask;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTaskContext;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's engine and its JDBC sink in one process, without Kafka. Arguments: the engine's properties file and, where records
 * are to be written and not only counted, the sink's. A line on stdin, a line on stdout:
 *
 * <p>start: the engine runs from its stored offset. stop: it has ended, its offset is stored. count N: waits for N records since
 * the start, half an hour at most; answers the milliseconds from the first batch to the one that has the N-th, and how many records there were.
 */
public final class Follow implements DebeziumEngine.ChangeConsumer<RecordChangeEvent<SourceRecord>> {
    private static final long PATIENCE_SECONDS = 1800;

    private final JdbcSinkConnectorTask sink;
    private long records, first, last, offset;

    private Follow(JdbcSinkConnectorTask sink) {
        this.sink = sink;
    }

    @Override
    public void handleBatch(
            List<RecordChangeEvent<SourceRecord>> batch,
            DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        long now = System.nanoTime();
        if (sink != null) {
            List<SinkRecord> all = new ArrayList<>(batch.size());
            for (RecordChangeEvent<SourceRecord> event : batch) {
                all.add(forSink(event.record()));
            }
            sink.put(all);
        }
        for (RecordChangeEvent<SourceRecord> event : batch) {
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
        synchronized (this) {
            first = records == 0 ? now : first;
            records += batch.size();
            last = System.nanoTime();
            notifyAll();
        }
    }

    private SinkRecord forSink(SourceRecord of) {
        return new SinkRecord(
                of.topic(), 0, of.keySchema(), of.key(), of.valueSchema(), of.value(), offset++, of.timestamp(),
                TimestampType.CREATE_TIME, of.headers());
    }

    private synchronized String count(long wanted) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (records < wanted && System.nanoTime() < end) {
            wait(1000);
        }
        return (last - first) / 1e6 + " " + records;
    }

    private synchronized void begin() {
        records = 0;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = read(arguments[0]);
        Follow follow = new Follow(arguments.length > 1 ? sink(read(arguments[1])) : null);
        ExecutorService thread = Executors.newSingleThreadExecutor();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = null;
        CountDownLatch ended = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("start")) {
                follow.begin();
                CountDownLatch end = ended = new CountDownLatch(1);
                engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                        .using(properties)
                        .using((success, message, error) -> {
                            if (!success) {
                                System.err.println(message);
                                error.printStackTrace();
                                System.exit(1);
                            }
                            end.countDown();
                        })
                        .notifying(follow)
                        .build();
                thread.execute(engine);
                System.out.println("started");
            } else if (line.equals("stop")) {
                engine.close();
                ended.await(60, TimeUnit.SECONDS);
                System.out.println("stopped");
            } else {
                System.out.println(follow.count(Long.parseLong(line.substring("count ".length()))));
            }
        }
        System.exit(0);
    }

    private static JdbcSinkConnectorTask sink(Properties properties) {
        Map<String, String> given = new HashMap<>();
        properties.forEach((name, value) -> given.put(name.toString(), value.toString()));
        JdbcSinkConnectorTask task = new JdbcSinkConnectorTask();
        // Nobody is there to ask for pauses, offsets, retries: a record that cannot be written is an error.
        task.initialize((SinkTaskContext) Proxy.newProxyInstance(
                Follow.class.getClassLoader(), new Class<?>[] {SinkTaskContext.class}, (proxy, method, args) -> null));
        task.start(given);
        return task;
    }

    private static Properties read(String file) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(file))) {
            properties.load(reader);
        }
        return properties;
    }
}
