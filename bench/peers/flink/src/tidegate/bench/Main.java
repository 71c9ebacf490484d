package tidegate.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.AbstractCheckpointStats;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.checkpoint.CheckpointStatsStatus;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;

/** Flink as a contestant of Tidegate's benchmark: {@code WORKLOAD key=value…}, run by the script beside the sources. */
public final class Main {
    static final String NAME = "flink 2.3.0";
    /** More checkpoints than any run takes: the oldest must not be forgotten before they are reported. */
    private static final String HISTORY = "100000";

    private Main() {}

    /** Runs one job to its end and prints the report as the last line. */
    public static void main(String[] words) throws Exception {
        long begun = System.nanoTime();
        Arguments arguments;
        try {
            arguments = new Arguments(words);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(1);
            return;
        }
        Measure measure = new Measure(begun, arguments.gaps);
        Configuration configuration = configuration(arguments);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(configuration);
        env.setParallelism(arguments.parallelism);
        Jobs.build(env, arguments);
        List<Measure.Completed> completed = run(env.getStreamGraph(), arguments, configuration);
        System.out.println(measure.report(arguments, completed));
        System.out.flush();
    }

    private static Configuration configuration(Arguments arguments) throws IOException {
        Configuration configuration = new Configuration();
        configuration.setString("parallelism.default", Integer.toString(arguments.parallelism));
        configuration.setString("pipeline.object-reuse", "true");
        configuration.setString("state.backend.type", "hashmap");
        // A run that fails must not go on with counts that are wrong.
        configuration.setString("restart-strategy.type", "none");
        // Within one process a heartbeat that is late only tells that the machine stood still.
        configuration.setString("heartbeat.timeout", "1 h");
        // Any free port, so that runs don't get into each other's way.
        configuration.setString("rest.bind-port", "0");
        // 16 × 16 channels need more than the 64 MB of a local cluster.
        configuration.setString("taskmanager.memory.network.min", "256m");
        configuration.setString("taskmanager.memory.network.max", "256m");
        configuration.setString("security.delegation.tokens.enabled", "false");
        configuration.setString("web.checkpoints.history", HISTORY);
        if (!arguments.checkpoints.equals("off")) {
            Files.createDirectories(arguments.dir);
            configuration.setString("execution.checkpointing.interval", arguments.intervalMs + " ms");
            configuration.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
            configuration.setString("execution.checkpointing.storage", "filesystem");
            configuration.setString(
                    "execution.checkpointing.dir", arguments.dir.toAbsolutePath().toUri().toString());
            boolean unaligned = arguments.checkpoints.equals("unaligned");
            configuration.setString("execution.checkpointing.unaligned.enabled", Boolean.toString(unaligned));
            configuration.setString("execution.checkpointing.aligned-checkpoint-timeout", "0 ms");
        }
        arguments.conf.forEach(configuration::setString);
        return configuration;
    }

    /** Runs the job in a cluster of this process, which outlives it for as long as it is asked about checkpoints. */
    private static List<Measure.Completed> run(
            StreamGraph graph, Arguments arguments, Configuration configuration) throws Exception {
        graph.setJobName(arguments.workload);
        MiniClusterConfiguration cluster =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(configuration)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(arguments.parallelism)
                        .build();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            JobID job = flink.submitJob(graph.getJobGraph()).get().getJobID();
            // Throws if the job has failed.
            flink.requestJobResult(job).get().toJobExecutionResult(Main.class.getClassLoader());
            return completed(flink.getArchivedExecutionGraph(job).get().getCheckpointStatsSnapshot());
        }
    }

    /** The completed ones, the first of them first. */
    private static List<Measure.Completed> completed(CheckpointStatsSnapshot stats) {
        List<Measure.Completed> completed = new ArrayList<>();
        if (stats == null) {
            return completed;
        }
        for (AbstractCheckpointStats one : stats.getHistory().getCheckpoints()) {
            if (one.getStatus() == CheckpointStatsStatus.COMPLETED) {
                completed.add(0, new Measure.Completed(one.getEndToEndDuration(), one.getCheckpointedSize()));
            }
        }
        return completed;
    }
}
