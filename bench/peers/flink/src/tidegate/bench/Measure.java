package tidegate.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;

/** Counting without disturbing, and the report: bench/common's, for a program in Java. */
final class Measure {
    /** A lane publishes its counts this often, in records. */
    private static final int PUBLISH_EVERY = 256;
    /** Between two points of the timeline. */
    private static final long SAMPLE_EVERY_NS = 20_000_000;

    /** The cluster runs in this process, and its subtasks find their lanes here. */
    private static final List<Lane> LANES = new CopyOnWriteArrayList<>();
    private static volatile boolean withGaps;

    private final long begun;
    private final StringJoiner timeline = new StringJoiner(",", "[", "]");
    private final Thread sampler = new Thread(this::sample, "sampler");
    private volatile boolean over;

    Measure(long begun, boolean gaps) {
        this.begun = begun;
        withGaps = gaps;
        sampler.setDaemon(true);
        sampler.start();
    }

    static Lane lane() {
        Lane lane = new Lane(withGaps ? new Gaps() : null);
        LANES.add(lane);
        return lane;
    }

    /** One subtask's counts: local to its thread, published now and then and when it is closed. */
    static final class Lane {
        private final Gaps gaps;
        private long counted;
        private long outputs;
        private long digest;
        private long last;
        // Fields that other threads read stand away from those above and from other lanes'.
        private final Published published = new Published();

        private Lane(Gaps gaps) {
            this.gaps = gaps;
        }

        /** A record went by that the timeline counts. */
        void count() {
            if (++counted % PUBLISH_EVERY == 0) {
                publish();
            }
        }

        /** A result reached a sink. */
        void result(long value) {
            outputs++;
            digest += value;
        }

        /** Both: where each result stands for a record. */
        void countResult(long value) {
            result(value);
            count();
            if (gaps != null) {
                long now = System.nanoTime();
                if (last != 0) {
                    gaps.add(now - last);
                }
                last = now;
            }
        }

        void close() {
            publish();
        }

        private void publish() {
            published.outputs = outputs;
            published.digest = digest;
            published.counted = counted;
        }
    }

    private static final class Published {
        @SuppressWarnings("unused")
        private long a, b, c, d, e, f, g, h;
        private volatile long outputs;
        private volatile long digest;
        private volatile long counted;
        @SuppressWarnings("unused")
        private long i, j, k, l, m, n, o, p;
    }

    /** How often which gap occurred, to within a 128th. */
    static final class Gaps {
        private static final int SUB = 128;
        private final long[] counts = new long[(64 - 7) * SUB];
        private long all;
        private long max;

        void add(long nanos) {
            counts[bucket(nanos)]++;
            all++;
            max = Math.max(max, nanos);
        }

        void add(Gaps other) {
            for (int i = 0; i < counts.length; i++) {
                counts[i] += other.counts[i];
            }
            all += other.all;
            max = Math.max(max, other.max);
        }

        /** Below 128 each value has its own; then each doubling has 128. */
        private static int bucket(long value) {
            int shift = Math.max(0, 56 - Long.numberOfLeadingZeros(value));
            return shift * SUB + (int) (value >>> shift);
        }

        /** The largest value of the bucket that the quantile is in. */
        private long at(double quantile) {
            long rank = Math.max(1, (long) Math.ceil(quantile * all));
            long seen = 0;
            for (int i = 0; i < counts.length; i++) {
                seen += counts[i];
                if (seen >= rank) {
                    int shift = Math.max(0, i / SUB - 1);
                    return ((long) (i - shift * SUB) + 1 << shift) - 1;
                }
            }
            return max;
        }

        String json() {
            return String.format(
                    "{\"p50\":%d,\"p99\":%d,\"p999\":%d,\"p9999\":%d,\"max\":%d}",
                    at(0.5), at(0.99), at(0.999), at(0.9999), max);
        }
    }

    private void sample() {
        while (!over) {
            LockSupport.parkNanos(SAMPLE_EVERY_NS);
            long counted = 0;
            for (Lane lane : LANES) {
                counted += lane.published.counted;
            }
            double at = (System.nanoTime() - begun) / 1e6;
            timeline.add(String.format(Locale.ROOT, "[%.3f,%d]", at, counted));
        }
    }

    /** A completed checkpoint. */
    record Completed(double durationMs, long bytes) {}

    /** The job is over and its subtasks are closed: the report, on one line. */
    String report(Arguments arguments, List<Completed> completed) throws InterruptedException {
        over = true;
        LockSupport.unpark(sampler);
        sampler.join();
        long outputs = 0;
        long digest = 0;
        Gaps gaps = withGaps ? new Gaps() : null;
        for (Lane lane : LANES) {
            outputs += lane.published.outputs;
            digest += lane.published.digest;
            if (gaps != null) {
                gaps.add(lane.gaps);
            }
        }
        StringJoiner checkpoints = new StringJoiner(",", "[", "]");
        for (Completed one : completed) {
            checkpoints.add(
                    String.format(
                            Locale.ROOT, "{\"duration_ms\":%.3f,\"bytes\":%d}", one.durationMs(), one.bytes()));
        }
        return String.format(
                Locale.ROOT,
                "{\"contestant\":\"%s\",\"workload\":\"%s\",\"parallelism\":%d,\"checkpoints\":\"%s\",\"records\":%d,"
                        + "\"result\":{\"outputs\":%d,\"digest\":%s},\"timeline\":%s,\"completed\":%s,\"gaps\":%s,"
                        + "\"processor_seconds\":%.2f,\"peak_rss_kib\":%d}",
                Main.NAME,
                arguments.workload,
                arguments.parallelism,
                arguments.checkpoints,
                arguments.records,
                outputs,
                Long.toUnsignedString(digest),
                timeline,
                checkpoints,
                gaps == null || gaps.all == 0 ? "null" : gaps.json(),
                processorSeconds(),
                peakRssKib());
    }

    private static double processorSeconds() {
        String stat = read("/proc/self/stat");
        String[] fields = stat.substring(stat.lastIndexOf(')') + 1).trim().split("\\s+");
        // Linux counts these in hundredths of a second for user space, whatever its own clock is.
        return fields.length < 13 ? 0 : (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / 100.0;
    }

    private static long peakRssKib() {
        return read("/proc/self/status")
                .lines()
                .filter(line -> line.startsWith("VmHWM:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
                .findFirst()
                .orElse(0);
    }

    private static String read(String path) {
        try {
            return Files.readString(Path.of(path));
        } catch (IOException e) {
            return "";
        }
    }
}
