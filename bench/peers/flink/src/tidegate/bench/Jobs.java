package tidegate.bench;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.util.Collector;

/** The workloads as jobs. */
final class Jobs {
    private static final TypeInformation<byte[]> BYTES = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

    private Jobs() {}

    static void build(StreamExecutionEnvironment env, Arguments arguments) {
        long records = arguments.records;
        long keys = arguments.keys;
        switch (arguments.workload) {
            case "chain" ->
                // All of these numbers are far below 2^63, so signed remainders are the unsigned ones.
                env.fromSequence(0, records - 1)
                        .map(x -> x * 2 + 1)
                        .returns(Types.LONG)
                        .filter(x -> x % 3 != 0)
                        .map(x -> x ^ (x >>> 7))
                        .returns(Types.LONG)
                        .sinkTo(new CountSink(CountSink.What.EACH));
            case "keyed-count" ->
                count(
                        env.fromSequence(0, records - 1)
                                .map(n -> Generate.key(n, keys))
                                .returns(Types.LONG)
                                .keyBy(key -> key, Types.LONG));
            case "string-keys" ->
                count(
                        env.fromSequence(0, records - 1)
                                .map(n -> Generate.textKey(n, keys))
                                .returns(Types.STRING)
                                .keyBy(key -> key, Types.STRING));
            case "words" -> {
                SingleOutputStreamOperator<String> words =
                        env.fromSequence(0, records / Generate.WORDS_PER_LINE - 1)
                                .map(Generate::line)
                                .returns(Types.STRING)
                                .flatMap(Jobs::split)
                                .returns(Types.STRING);
                count(words.keyBy(word -> word, Types.STRING));
            }
            case "kilobyte" ->
                count(
                        env.fromSequence(0, records - 1)
                                .map(Generate::kilobyte)
                                .returns(BYTES)
                                .rebalance()
                                .map(Generate::stamp)
                                .returns(BYTES)
                                .keyBy(Generate::stamped, Types.LONG));
            case "buckets" -> buckets(env, records);
            default -> throw new IllegalArgumentException("flink doesn't do " + arguments.workload);
        }
    }

    private static void split(String line, Collector<String> out) {
        for (String word : line.split(" ")) {
            out.collect(word);
        }
    }

    private static <K, T> void count(KeyedStream<T, K> keyed) {
        keyed.process(new Count<>()).returns(Types.LONG).uid("count").sinkTo(new CountSink(CountSink.What.EACH));
    }

    private static void buckets(StreamExecutionEnvironment env, long records) {
        TypeInformation<Tuple3<Long, Long, Long>> record = Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);
        env.fromSequence(0, records - 1)
                .map(new BucketRecord(records))
                .returns(record)
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Tuple3<Long, Long, Long>>forMonotonousTimestamps()
                                .withTimestampAssigner((r, before) -> r.f2))
                .map(new Offered())
                .returns(record)
                .keyBy(r -> r.f0, Types.LONG)
                .window(TumblingEventTimeWindows.of(Duration.ofMillis(Generate.BUCKET_MS)))
                .aggregate(new Sum(), Types.LONG, Types.LONG)
                .uid("sum")
                .sinkTo(new CountSink(CountSink.What.MIXED_RESULT));
    }

    /** A running count per key, each of which is put out. */
    private static final class Count<K, T> extends KeyedProcessFunction<K, T, Long> {
        private transient ValueState<Long> seen;

        @Override
        public void open(OpenContext context) {
            seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Types.LONG));
        }

        @Override
        public void processElement(T record, Context context, Collector<Long> out) throws Exception {
            Long before = seen.value();
            Long count = before == null ? 1L : before + 1;
            seen.update(count);
            out.collect(count);
        }
    }

    /**
     * The key, the value and the event time of a record. A source subtask reads one contiguous part of the sequence;
     * what it reads is turned into every p-th number, so that event time goes on evenly in all subtasks.
     */
    private static final class BucketRecord extends RichMapFunction<Long, Tuple3<Long, Long, Long>> {
        private final long records;
        private transient long parts;
        private transient long part;
        private transient long begin;
        private transient long end;

        private BucketRecord(long records) {
            this.records = records;
        }

        @Override
        public void open(OpenContext context) {
            parts = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        }

        @Override
        public Tuple3<Long, Long, Long> map(Long v) {
            if (v < begin || v >= end) {
                find(v);
            }
            long number = (v - begin) * parts + part;
            long time = number / 1000;
            return Tuple3.of(Generate.key(number, Generate.BUCKET_KEYS), number & 0xff, time);
        }

        /** The part that a number is in: the sequence is split evenly, and the first parts have what is left over. */
        private void find(long v) {
            long size = records / parts;
            long larger = records % parts;
            long inLarger = larger * (size + 1);
            part = v < inLarger ? v / (size + 1) : larger + (v - inLarger) / size;
            begin = part * size + Math.min(part, larger);
            end = begin + size + (part < larger ? 1 : 0);
        }
    }

    /** Counts what goes by. */
    private static final class Offered
            extends RichMapFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> {
        private transient Measure.Lane lane;

        @Override
        public void open(OpenContext context) {
            lane = Measure.lane();
        }

        @Override
        public Tuple3<Long, Long, Long> map(Tuple3<Long, Long, Long> record) {
            lane.count();
            return record;
        }

        @Override
        public void close() {
            if (lane != null) {
                lane.close();
            }
        }
    }

    private static final class Sum implements AggregateFunction<Tuple3<Long, Long, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple3<Long, Long, Long> record, Long sum) {
            return sum + record.f1;
        }

        @Override
        public Long getResult(Long sum) {
            return sum;
        }

        @Override
        public Long merge(Long a, Long b) {
            return a + b;
        }
    }

    /** Counts into a lane per subtask. */
    private static final class CountSink implements Sink<Long> {
        /** What one of its records is. */
        enum What {
            /** A result that stands for a record. */
            EACH,
            /** A result of many records, which goes into the digest scattered. */
            MIXED_RESULT,
        }

        private final What what;

        private CountSink(What what) {
            this.what = what;
        }

        @Override
        public SinkWriter<Long> createWriter(WriterInitContext context) {
            Measure.Lane lane = Measure.lane();
            return switch (what) {
                case EACH -> new EachWriter(lane);
                case MIXED_RESULT -> new MixedWriter(lane);
            };
        }
    }

    private abstract static class Writer implements SinkWriter<Long> {
        final Measure.Lane lane;

        private Writer(Measure.Lane lane) {
            this.lane = lane;
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {
            lane.close();
        }
    }

    private static final class EachWriter extends Writer {
        private EachWriter(Measure.Lane lane) {
            super(lane);
        }

        @Override
        public void write(Long value, Context context) {
            lane.countResult(value);
        }
    }

    private static final class MixedWriter extends Writer {
        private MixedWriter(Measure.Lane lane) {
            super(lane);
        }

        @Override
        public void write(Long value, Context context) {
            lane.result(Generate.mix(value));
        }
    }
}
