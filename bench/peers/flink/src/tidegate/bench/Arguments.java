package tidegate.bench;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** A contestant's command line, as bench/common reads it. */
final class Arguments {
    private static final Set<String> WORKLOADS =
            Set.of("chain", "keyed-count", "words", "buckets", "kilobyte", "string-keys");

    final String workload;
    long records = 10_000_000;
    int parallelism = 1;
    long keys = 1_000_000;
    String checkpoints = "off";
    long intervalMs = 1_000;
    Path dir = Path.of(System.getProperty("java.io.tmpdir"), "tidegate-bench");
    boolean gaps;
    /** Options of Flink's. */
    final Map<String, String> conf = new LinkedHashMap<>();

    Arguments(String[] words) {
        if (words.length == 0) {
            throw new IllegalArgumentException("say which workload: WORKLOAD key=value…");
        }
        workload = words[0];
        if (!WORKLOADS.contains(workload)) {
            throw new IllegalArgumentException(
                    "there is no workload `" + workload + "`; there are " + String.join(", ", WORKLOADS));
        }
        for (int i = 1; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            if (equals < 0) {
                throw new IllegalArgumentException("`" + words[i] + "` isn't key=value");
            }
            set(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
    }

    private void set(String key, String value) {
        switch (key) {
            case "records" -> records = number(key, value);
            case "p" -> parallelism = Math.toIntExact(number(key, value));
            case "keys" -> keys = number(key, value);
            case "interval-ms" -> intervalMs = number(key, value);
            case "dir" -> dir = Path.of(value);
            case "checkpoints" -> checkpoints = oneOf(key, value, "off", "aligned", "unaligned");
            case "gaps" -> gaps = oneOf(key, value, "on", "off").equals("on");
            // The heap is given to the virtual machine.
            case "heap" -> {}
            default -> {
                if (!key.startsWith("conf.")) {
                    throw new IllegalArgumentException("`" + key + "` isn't a key of this program");
                }
                conf.put(key.substring("conf.".length()), value);
            }
        }
    }

    private static long number(String key, String value) {
        try {
            long number = Long.parseLong(value.replace("_", ""));
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // Said below, as for numbers that are too small.
        }
        throw new IllegalArgumentException("`" + key + "=" + value + "`: it must be a whole number above zero");
    }

    private static String oneOf(String key, String value, String... allowed) {
        for (String one : allowed) {
            if (one.equals(value)) {
                return value;
            }
        }
        String meaning = String.join(", ", allowed);
        throw new IllegalArgumentException("`" + key + "=" + value + "`: it must be one of " + meaning);
    }
}
