import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * A Flink of its own in this process, with one slot. Argument: a file of three statements, parted by lines of dashes: CREATE TABLE
 * of the source, with %s and %s where the log's file and offset belong, CREATE TABLE of the target, INSERT. A line on stdin, a
 * line on stdout: "start FILE OFFSET" runs the INSERT from there; "stop" has cancelled it.
 */
public final class Stream {
    private static volatile JobClient job;

    public static void main(String[] arguments) throws Exception {
        String[] statements = Files.readString(Path.of(arguments[0])).split("\n-+\n");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                StreamExecutionEnvironment local = StreamExecutionEnvironment.createLocalEnvironment(1);
                StreamTableEnvironment tables = StreamTableEnvironment.create(local);
                tables.executeSql(String.format(statements[0], words[1], words[2]));
                tables.executeSql(statements[1]);
                job = tables.executeSql(statements[2]).getJobClient().orElseThrow();
                watch(job);
                System.out.println("started");
            } else {
                JobClient ended = job;
                job = null;
                CompletableFuture<Object> end = ended.getJobExecutionResult().handle((result, error) -> null);
                ended.cancel().get();
                end.get(60, TimeUnit.SECONDS);
                System.out.println("stopped");
            }
        }
        System.exit(0);
    }

    /** Returns when it runs; ends the process when it fails before it is cancelled. */
    private static void watch(JobClient started) throws Exception {
        while (started.getJobStatus().get() != JobStatus.RUNNING) {
            Thread.sleep(10);
        }
        started.getJobExecutionResult().whenComplete((result, error) -> {
            if (error != null && job == started) {
                error.printStackTrace();
                System.exit(1);
            }
        });
    }
}
