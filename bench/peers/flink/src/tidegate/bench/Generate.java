package tidegate.bench;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The records, as bench/common generates them: each is computed from its number. */
final class Generate {
    static final int WORDS = 10_000;
    static final int WORDS_PER_LINE = 8;
    static final int LINES = 1 << 16;
    static final long BUCKET_KEYS = 10_000;
    static final long BUCKET_MS = 1_000;
    static final int KILOBYTE = 1024;
    static final long KILOBYTE_KEYS = 1_000;

    private Generate() {}

    static long mix(long x) {
        x = (x ^ (x >>> 30)) * 0xbf58_476d_1ce4_e5b9L;
        x = (x ^ (x >>> 27)) * 0x94d0_49bb_1331_11ebL;
        return x ^ (x >>> 31);
    }

    static long key(long number, long keys) {
        return Long.remainderUnsigned(mix(number), keys);
    }

    /** "user-" and the key in eight digits, or more if it has more. */
    static String textKey(long number, long keys) {
        long key = key(number, keys);
        int digits = 8;
        for (long limit = 100_000_000; digits < 19 && key >= limit; limit *= 10) {
            digits++;
        }
        byte[] text = new byte[5 + digits];
        text[0] = 'u';
        text[1] = 's';
        text[2] = 'e';
        text[3] = 'r';
        text[4] = '-';
        for (int at = text.length - 1; at >= 5; at--) {
            text[at] = (byte) ('0' + key % 10);
            key /= 10;
        }
        return new String(text, StandardCharsets.ISO_8859_1);
    }

    static String line(long number) {
        return Lines.ALL[(int) (number % LINES)];
    }

    /** Computed when the first line is asked for. */
    private static final class Lines {
        static final String[] ALL = all();

        private static String[] all() {
            String[] vocabulary = new String[WORDS];
            for (int i = 0; i < WORDS; i++) {
                vocabulary[i] = word(i);
            }
            double[] cumulated = new double[WORDS];
            double sum = 0;
            for (int k = 0; k < WORDS; k++) {
                sum += 1.0 / (k + 1.0);
                cumulated[k] = sum;
            }
            String[] lines = new String[LINES];
            String[] words = new String[WORDS_PER_LINE];
            for (int i = 0; i < LINES; i++) {
                for (int k = 0; k < WORDS_PER_LINE; k++) {
                    long random = mix((long) i * WORDS_PER_LINE + k + 0x100_0000) >>> 11;
                    double at = (double) random / (double) (1L << 53) * sum;
                    words[k] = vocabulary[Math.min(firstAbove(cumulated, at), WORDS - 1)];
                }
                lines[i] = String.join(" ", words);
            }
            return lines;
        }

        private static String word(long i) {
            long h = mix(i + 1);
            StringBuilder word = new StringBuilder();
            long letters = 3 + (h & 3);
            for (long k = 0; k < letters; k++) {
                h = mix(h + k + 1);
                word.append(letter(h));
            }
            return word.append(letter(i / 676)).append(letter(i / 26)).append(letter(i)).toString();
        }

        private static char letter(long n) {
            return (char) ('a' + Long.remainderUnsigned(n, 26));
        }

        private static int firstAbove(double[] ascending, double value) {
            int at = Arrays.binarySearch(ascending, value);
            return at < 0 ? -at - 1 : at + 1;
        }
    }

    static byte[] kilobyte(long number) {
        byte[] record = new byte[KILOBYTE];
        word(record).putLong(0, number);
        return record;
    }

    /** Puts the record's key behind its number. */
    static byte[] stamp(byte[] record) {
        ByteBuffer words = word(record);
        words.putLong(8, key(words.getLong(0), KILOBYTE_KEYS));
        return record;
    }

    static long stamped(byte[] record) {
        return word(record).getLong(8);
    }

    private static ByteBuffer word(byte[] record) {
        return ByteBuffer.wrap(record).order(ByteOrder.LITTLE_ENDIAN);
    }
}
