#!/usr/bin/env bash
# One would guess: emitStrategy(EmitStrategy.onWindowClose()) of Kafka Streams gives each window's result once, when event time has
# passed its end and the grace period, as its documentation has it, and so what suppress(untilWindowCloses()) gives.
# What happens: a record that closes windows is put into the store first, and moves the store's time on; what has outlived the
# retention there can't be read any more; and only then are the results of closed windows read from it. The retention is the length
# and the grace period if nobody says otherwise (of sessions the gap and the grace period), the least that is allowed. So the
# windows before a pause never come out. A session is closed by a pause: of a gap of 10 s and 5 s of grace none comes out of memory,
# and none of RocksDB, the default, before pauses of a minute. Sliding windows go the same way, and so do tumbling ones without
# a cache; only a cache, which holds the record back from the store, keeps these. The same windows come by suppress(); no record
# counts as dropped; a longer retention moves the pause that loses. Kafka Streams 4.3.1 with its TopologyTestDriver.
# Who is hurt: who counts reads, molecules or alarms of a fleet by session or minute: what came before each pause (a wash, a change
# of the flow cell, the night) is missing in the next topic, as though nobody had sequenced, and the quieter the stream, the more.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >pom.xml <<'POM'
<project><modelVersion>4.0.0</modelVersion><groupId>finding</groupId><artifactId>streams</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams-test-utils</artifactId><version>4.3.1</version></dependency></dependencies></project>
POM
mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$dir/lib"
cat >Try.java <<'JAVA'
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

class Try {
    // Windows are 10 s long, or a gap of 10 s ends a session; the grace period is 5 s. Times are in seconds.
    static final long LENGTH = 10_000, GRACE = 5_000;
    static final int BURSTS = 4, BURST = 61;

    /** One record a second for a minute, a pause, and so on; one key, in order. */
    static List<Long> times(long pause) {
        List<Long> times = new ArrayList<>();
        for (long burst = 0; burst < BURSTS; burst++) {
            for (long at = 0; at < BURST; at++) {
                times.add(1000 * (100 + burst * (BURST - 1 + pause) + at));
            }
        }
        // The last record is between two seconds, so that no window closes at the very time of it.
        times.add(times.get(times.size() - 1) + 500);
        return times;
    }

    /** Start and number of records of all windows that are closed when the last record has come. */
    static TreeMap<Long, Long> byHand(String kind, List<Long> times) {
        long last = times.get(times.size() - 1);
        TreeMap<Long, Long> windows = new TreeMap<>();
        if (kind.equals("sessions")) {
            long start = times.get(0), before = start, records = 0;
            for (long at : times) {
                if (at - before > LENGTH) {
                    windows.put(start, records);
                    start = at;
                    records = 0;
                }
                before = at;
                records++;
            }
            return windows;
        }
        for (long time : times) {
            // A sliding window ends with a record, or begins a millisecond behind one; its end belongs to it.
            boolean sliding = kind.equals("sliding");
            for (long start : sliding ? new long[] {time - LENGTH, time + 1} : new long[] {time / LENGTH * LENGTH}) {
                long behind = start + LENGTH + (sliding ? 1 : 0);
                long records = times.stream().filter(at -> at >= start && at < behind).count();
                if (records > 0 && start + LENGTH + GRACE <= last) {
                    windows.put(start, records);
                }
            }
        }
        return windows;
    }

    static TreeMap<Long, Long> run(String kind, List<Long> times, boolean suppressed, boolean memory, long retention) {
        StreamsBuilder builder = new StreamsBuilder();
        var grouped = builder.<String, Long>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        var strategy = suppressed ? EmitStrategy.onWindowUpdate() : EmitStrategy.onWindowClose();
        Duration length = Duration.ofMillis(LENGTH), grace = Duration.ofMillis(GRACE);
        Materialized<String, Long, WindowStore<Bytes, byte[]>> kept = Materialized.with(Serdes.String(), Serdes.Long());
        Materialized<String, Long, SessionStore<Bytes, byte[]>> keptSessions = Materialized.with(Serdes.String(), Serdes.Long());
        if (retention > 0) {
            kept = kept.withRetention(Duration.ofSeconds(retention));
            keptSessions = keptSessions.withRetention(Duration.ofSeconds(retention));
        }
        KTable<Windowed<String>, Long> counts = switch (kind) {
            case "tumbling", "tumbling, no cache" -> grouped.windowedBy(TimeWindows.ofSizeAndGrace(length, grace)).emitStrategy(strategy).reduce(Long::sum, kept);
            case "sliding" -> grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(length, grace)).emitStrategy(strategy).reduce(Long::sum, kept);
            default -> grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(length, grace)).emitStrategy(strategy).reduce(Long::sum, keptSessions);
        };
        if (suppressed) {
            counts = counts.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
        }
        TreeMap<Long, Long> results = new TreeMap<>();
        counts.toStream().foreach((window, records) -> {
            if (results.put(window.window().start(), records) != null) {
                throw new IllegalStateException("a window came twice");
            }
        });
        Properties properties = new Properties();
        properties.put("application.id", "finding");
        properties.put("bootstrap.servers", "nowhere:1");
        properties.put("state.dir", "state");
        properties.put("statestore.cache.max.bytes", kind.endsWith("no cache") ? 0 : 10_485_760);
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.LongSerde.class);
        properties.put("dsl.store.suppliers.class", memory ? BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class : BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties, Instant.EPOCH)) {
            var in = driver.createInputTopic("in", new StringSerializer(), new LongSerializer());
            for (long at : times) {
                // Closed windows are looked for once a second by the clock on the wall; here that is for each record.
                driver.advanceWallClockTime(Duration.ofSeconds(2));
                in.pipeInput("reads", 1L, at);
            }
            driver.metrics().forEach((name, metric) -> {
                if (name.name().equals("dropped-records-total") && (double) metric.metricValue() != 0) {
                    throw new IllegalStateException("dropped records are counted");
                }
            });
        }
        return results;
    }

    static String shown(TreeMap<Long, Long> windows) {
        return windows.size() + " with " + windows.values().stream().mapToLong(records -> records).sum();
    }

    public static void main(String[] arguments) {
        for (String kind : List.of("sessions", "sliding", "tumbling, no cache", "tumbling")) {
            for (boolean memory : new boolean[] {false, true}) {
                for (long[] pauseAndRetention : new long[][] {{20, 0}, {60, 0}, {10_800, 0}, {60, 3600}, {10_800, 3600}}) {
                    long pause = pauseAndRetention[0], retention = pauseAndRetention[1];
                    List<Long> times = times(pause);
                    TreeMap<Long, Long> expected = byHand(kind, times);
                    if (!run(kind, times, true, memory, retention).equals(expected)) {
                        throw new IllegalStateException("suppress() gives other windows than a count by hand");
                    }
                    TreeMap<Long, Long> got = run(kind, times, false, memory, retention);
                    System.out.println(kind + (memory ? ", in memory" : ", RocksDB") + (retention > 0 ? ", retention " + retention + " s" : "") + ", pauses of " + pause + " s: "
                        + shown(expected) + " by hand, " + (got.equals(expected) ? "the same" : "WRONG, " + shown(got)));
                }
            }
        }
    }
}
JAVA
echo "kafka-streams $(basename lib/kafka-streams-[0-9]*.jar .jar | cut -d- -f3)"
java -cp "lib/*" Try.java 2>errors | tee seen
cat >expected <<'EXPECTED'
sessions, RocksDB, pauses of 20 s: 3 with 183 by hand, the same
sessions, RocksDB, pauses of 60 s: 3 with 183 by hand, WRONG, 0 with 0
sessions, RocksDB, pauses of 10800 s: 3 with 183 by hand, WRONG, 0 with 0
sessions, RocksDB, retention 3600 s, pauses of 60 s: 3 with 183 by hand, the same
sessions, RocksDB, retention 3600 s, pauses of 10800 s: 3 with 183 by hand, WRONG, 0 with 0
sessions, in memory, pauses of 20 s: 3 with 183 by hand, WRONG, 0 with 0
sessions, in memory, pauses of 60 s: 3 with 183 by hand, WRONG, 0 with 0
sessions, in memory, pauses of 10800 s: 3 with 183 by hand, WRONG, 0 with 0
sessions, in memory, retention 3600 s, pauses of 60 s: 3 with 183 by hand, the same
sessions, in memory, retention 3600 s, pauses of 10800 s: 3 with 183 by hand, WRONG, 0 with 0
sliding, RocksDB, pauses of 20 s: 465 with 4534 by hand, the same
sliding, RocksDB, pauses of 60 s: 465 with 4534 by hand, WRONG, 402 with 4021
sliding, RocksDB, pauses of 10800 s: 465 with 4534 by hand, WRONG, 402 with 4021
sliding, RocksDB, retention 3600 s, pauses of 60 s: 465 with 4534 by hand, the same
sliding, RocksDB, retention 3600 s, pauses of 10800 s: 465 with 4534 by hand, WRONG, 402 with 4021
sliding, in memory, pauses of 20 s: 465 with 4534 by hand, WRONG, 462 with 4501
sliding, in memory, pauses of 60 s: 465 with 4534 by hand, WRONG, 402 with 4021
sliding, in memory, pauses of 10800 s: 465 with 4534 by hand, WRONG, 402 with 4021
sliding, in memory, retention 3600 s, pauses of 60 s: 465 with 4534 by hand, the same
sliding, in memory, retention 3600 s, pauses of 10800 s: 465 with 4534 by hand, WRONG, 402 with 4021
tumbling, no cache, RocksDB, pauses of 20 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, no cache, RocksDB, pauses of 60 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, no cache, RocksDB, pauses of 10800 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, no cache, RocksDB, retention 3600 s, pauses of 60 s: 26 with 233 by hand, the same
tumbling, no cache, RocksDB, retention 3600 s, pauses of 10800 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, no cache, in memory, pauses of 20 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, no cache, in memory, pauses of 60 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, no cache, in memory, pauses of 10800 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, no cache, in memory, retention 3600 s, pauses of 60 s: 26 with 233 by hand, the same
tumbling, no cache, in memory, retention 3600 s, pauses of 10800 s: 26 with 233 by hand, WRONG, 20 with 200
tumbling, RocksDB, pauses of 20 s: 26 with 233 by hand, the same
tumbling, RocksDB, pauses of 60 s: 26 with 233 by hand, the same
tumbling, RocksDB, pauses of 10800 s: 26 with 233 by hand, the same
tumbling, RocksDB, retention 3600 s, pauses of 60 s: 26 with 233 by hand, the same
tumbling, RocksDB, retention 3600 s, pauses of 10800 s: 26 with 233 by hand, the same
tumbling, in memory, pauses of 20 s: 26 with 233 by hand, the same
tumbling, in memory, pauses of 60 s: 26 with 233 by hand, the same
tumbling, in memory, pauses of 10800 s: 26 with 233 by hand, the same
tumbling, in memory, retention 3600 s, pauses of 60 s: 26 with 233 by hand, the same
tumbling, in memory, retention 3600 s, pauses of 10800 s: 26 with 233 by hand, the same
EXPECTED
if ! diff expected seen; then
	echo "Kafka Streams behaves otherwise by now" >&2
	exit 1
fi
