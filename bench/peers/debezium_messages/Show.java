import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Debezium's engine, which prints what it would send: for each message a line of JSON, [topic, key, value], the last two as the
 * texts that they are, or null. Argument: its properties file. It ends with its standard input.
 */
public final class Show {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(reader);
        }
        ObjectMapper json = new ObjectMapper();
        ExecutorService thread = Executors.newSingleThreadExecutor();
        thread.execute(DebeziumEngine.create(Json.class)
                .using(properties)
                .using((success, message, error) -> {
                    if (!success) {
                        System.err.println(message);
                        if (error != null) {
                            error.printStackTrace();
                        }
                        System.exit(1);
                    }
                })
                .notifying((List<ChangeEvent<String, String>> batch,
                        DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                    for (ChangeEvent<String, String> event : batch) {
                        List<String> message = Arrays.asList(event.destination(), event.key(), event.value());
                        System.out.println(json.valueToTree(message).toString());
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                })
                .build());
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
