#!/usr/bin/env bash
# One would guess: final(closing_strategy="partition") of Quix Streams gives each window once, when time in the partition has
# passed its end and the grace period, and tells on_late of each record that comes after that; a hopping window may have any
# step that is shorter than its length (the docstrings of final() and hopping_window(); another step is refused).
# What happens: it looks for windows to close at ends that are multiples of the step, from the first on. The ends of hopping windows
# are that only if the step divides the length. Windows of 10 s each 4 s never come, not one, and stay in the state for good; those
# each 5 s do, and so do all with closing_strategy="key". And a record that comes after its window was closed, but within the grace
# period of the last closed one's end, opens the window again, which is not looked at a second time: it is in no result and on_late
# is not told. Exit status 0, without a word in the log.
# quixstreams 3.28.1, Apache Kafka 4.3.1.
# Who is hurt: who watches a run or a fleet of sensors by moving sums of all keys of a partition, which is what this strategy is
# for: an empty result looks like a quiet stream, and counts of late records as if there were fewer.
set -euo pipefail
dir=$(mktemp -d)
broker=
trap 'if [ -n "$broker" ]; then kill "$broker"; wait "$broker" || true; fi; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check quixstreams==3.28.1
cat >pom.xml <<'POM'
<project><modelVersion>4.0.0</modelVersion><groupId>finding</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version></dependency></dependencies></project>
POM
mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$dir/lib"
cat >ports.py <<'PYTHON'
import socket

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))
PYTHON
read -r port other <<<"$(python3 ports.py)"
cat >server.properties <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$other
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$other
log.dirs=$dir/log
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
PROPERTIES
java -cp "lib/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ -c server.properties >broker.log 2>&1
java -Xmx512m -cp "lib/*" kafka.Kafka server.properties >>broker.log 2>&1 &
broker=$!
cat >try.py <<'PYTHON'
import itertools
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from quixstreams import Application

address = f"127.0.0.1:{sys.argv[1]}"
admin = AdminClient({"bootstrap.servers": address})
admin.list_topics(timeout=120)
# A whole minute, so that windows of every step below begin here; times are shown from it on.
zero = 1_699_999_980_000
length = 10
numbers = itertools.count()


def run(records, strategy, grace, step):
    """Final windows and late records, times in seconds."""
    name = f"records-{next(numbers)}"
    for created in admin.create_topics([NewTopic(name, 1, 1)]).values():
        created.result()
    producer = Producer({"bootstrap.servers": address})
    for at, key, value in records:
        producer.produce(name, key=key, value=json.dumps(value), timestamp=zero + 1000 * at)
    producer.flush()
    app = Application(
        broker_address=address,
        consumer_group=name,
        auto_offset_reset="earliest",
        state_dir=name,
        use_changelog_topics=False,
        loglevel="WARNING",
    )
    seconds = lambda at: (at - zero) // 1000
    windows, late, seen = [], [], itertools.count(1)

    def stop_after_last(_):
        # The record that is being processed goes through the windows before the application stops.
        if next(seen) == len(records):
            app.stop()

    def on_late(value, key, timestamp, late_by, start, *_):
        late.append((seconds(timestamp), seconds(start)))
        return False

    sdf = app.dataframe(app.topic(name, key_deserializer="str", value_deserializer="json"))
    sdf = sdf.update(stop_after_last)
    settings = {"grace_ms": 1000 * grace, "on_late": on_late}
    if step == length:
        window = sdf.tumbling_window(1000 * length, **settings)
    else:
        window = sdf.hopping_window(1000 * length, 1000 * step, **settings)
    sdf = window.sum().final(closing_strategy=strategy)
    sdf.update(lambda w, key, *_: windows.append((seconds(w["start"]), key, w["value"])), metadata=True)
    app.run(timeout=120)
    assert next(seen) == len(records) + 1
    return sorted(windows), sorted(late)


def by_hand(records, grace, step):
    """The same, where every record moves the time of all keys."""
    now, open_windows, windows, late = 0, {}, [], []
    for at, key, value in records:
        now = max(now, at)
        for start in range(at // step * step, at - length, -step):
            if start + length + grace <= now:
                late.append((at, start))
            else:
                open_windows[start, key] = open_windows.get((start, key), 0) + value
        for start, k in [w for w in open_windows if w[0] + length + grace <= now]:
            windows.append((start, k, open_windows.pop((start, k))))
    return sorted(windows), sorted(late)


def verdict(got, expected):
    windows, late = got
    added, reported = sum(v for _, _, v in windows), len(late)
    right = "right" if got == expected else f"WRONG, by hand {len(expected[0])} windows with {sum(v for _, _, v in expected[0])}, {len(expected[1])} late"
    return f"{len(windows)} windows with {added} together, {reported} late: {right}"


# One record a second of two keys in turn, each of value 1, in order.
ordered = [(at, "ab"[at % 2], 1) for at in range(121)]
for strategy in ("key", "partition"):
    for step in (10, 5, 4, 3):
        # By key the last windows of a key wait for its next record, so each has one behind all windows.
        records = ordered + [(240, "a", 0), (240, "b", 0)]
        print(f"{strategy}, windows of {length} s each {step} s: {verdict(run(records, strategy, 0, step), by_hand(records, 0, step))}")
# Two records come late: that of second 9 by more than the grace period after its window, that of second 14 too.
disordered = [(1, "a", 1), (26, "a", 10), (9, "a", 100), (14, "a", 200), (60, "a", 1000), (240, "a", 0)]
for strategy in ("key", "partition"):
    for grace in (0, 5, 20):
        got, expected = run(disordered, strategy, grace, length), by_hand(disordered, grace, length)
        print(f"{strategy}, grace {grace} s, two records out of order: {verdict(got, expected)}")
PYTHON
echo "quixstreams $(venv/bin/python -c 'from importlib.metadata import version; print(version("quixstreams"))')"
venv/bin/python -W ignore try.py "$port" 2>errors | tee seen
cat >expected <<'EXPECTED'
key, windows of 10 s each 10 s: 25 windows with 121 together, 0 late: right
key, windows of 10 s each 5 s: 51 windows with 242 together, 0 late: right
key, windows of 10 s each 4 s: 65 windows with 303 together, 0 late: right
key, windows of 10 s each 3 s: 86 windows with 404 together, 0 late: right
partition, windows of 10 s each 10 s: 25 windows with 121 together, 0 late: right
partition, windows of 10 s each 5 s: 51 windows with 242 together, 0 late: right
partition, windows of 10 s each 4 s: 0 windows with 0 together, 0 late: WRONG, by hand 65 windows with 303, 0 late
partition, windows of 10 s each 3 s: 0 windows with 0 together, 0 late: WRONG, by hand 86 windows with 404, 0 late
key, grace 0 s, two records out of order: 3 windows with 1011 together, 2 late: right
key, grace 5 s, two records out of order: 3 windows with 1011 together, 2 late: right
key, grace 20 s, two records out of order: 4 windows with 1311 together, 0 late: right
partition, grace 0 s, two records out of order: 3 windows with 1011 together, 2 late: right
partition, grace 5 s, two records out of order: 3 windows with 1011 together, 1 late: WRONG, by hand 3 windows with 1011, 2 late
partition, grace 20 s, two records out of order: 4 windows with 1311 together, 0 late: right
EXPECTED
if ! diff expected seen; then
	echo "quixstreams behaves otherwise by now" >&2
	exit 1
fi
