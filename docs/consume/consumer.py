#!/usr/bin/env python3
"""Annotated variants from Kafka, by the contract of variants.md (pip install confluent-kafka).

    consumer.py BROKERS                         the variants that passed, as they stand now
    consumer.py BROKERS --follow state.sqlite   revisions as they come, and after a stop the next ones

Following, it is a member of the consumer group --group: start several to share the partitions, each with a state file of
its own. What it has printed and how far runs have ended is in the state file; positions are committed to Kafka behind
that, so that what comes again is known and left out. A partition that it takes over from another member is read from its
beginning, as nothing of it is in its own state. So some revisions are printed twice, by two members or by one that was
killed, never none: who writes to a database instead of a terminal does so in the state's transaction, and has each once."""

import argparse
import difflib
import json
import os
import signal
import sqlite3
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

VARIANT, RUN_ENDED = b"porestream.variant.v1", b"porestream.run.ended.v1"
WORST_LAST = ["normal", "timeout", "aborted"]


def kind(message):
    return dict(message.headers() or []).get("ce_type")


def of(message, what):
    """What a record brings, by what(its document); None if it can't be read, which is said and ends nothing: it would come again after each start."""
    try:
        return what(json.loads(message.value()))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as e:  # not JSON, or not what variants.md has
        print(f"record {message.offset()} of {message.topic()}/{message.partition()} can't be read and is left out: {e!r}", file=sys.stderr, flush=True)


def need(texts, numbers):
    """Refuses what can't be printed, ordered or kept in the state."""
    for text in texts:
        text.encode()
    for n in numbers:
        if type(n) is not int or not 0 <= n < 2**63:
            raise ValueError(f"{n!r} is no number from 0 to 2**63")


def checked(event):
    """The event of a variant, if it has what is printed and folded by."""
    v = event["variant"]
    need([v["contig"], v["ref"], v["alt"], event["sample"], event["status"], event.get("reason", ""), event["annotation"]["most_severe"]["term"], *event["call"].get("filters", [])],
         [v["pos"], event["revision"]])
    return event


def checked_end(end):
    """The end of a run by one of its sources, if it has what runs' ends are told by."""
    need([end["run"], *(end.get("samples") or [end["sample"]])], [end["source"], end["sources"]])
    if end["source"] >= end["sources"]:
        raise ValueError(f"source {end['source']} of {end['sources']}")
    WORST_LAST.index(end.get("status") or "normal")
    return end


def passed(event):
    return event["status"] != "RETRACTED" and "filters" not in event["call"]


def show(event, *more):
    v = event["variant"]
    print(event["sample"], v["contig"], v["pos"], v["ref"], v["alt"], event["status"], event["annotation"]["most_severe"]["term"], *more, sep="\t", flush=True)


def reporter(brokers):
    """Says once for each time it is lost, not twenty times a second, why there is no connection, and that there is one again."""
    said = set()

    def report(error):
        if error.code() in said or error.code() == KafkaError._TRANSPORT:  # a broker of several
            return
        said.add(error.code())
        text = error.str()
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            text = f"no broker answers at {brokers}; trying on. Is it running, and is that its address? pore run and pore broker print theirs."
        print(text, file=sys.stderr, flush=True)

    def statistics(text):
        if said and any(b["state"] == "UP" for b in json.loads(text)["brokers"].values()):
            said.clear()  # the next fault is another one
            print("connected again", file=sys.stderr, flush=True)

    return {"error_cb": report, "stats_cb": statistics, "statistics.interval.ms": 1000}


def partitions(consumer, topic, timeout):
    """The topic's partitions, or why there are none: it may not exist yet, or be another's name."""
    found = consumer.list_topics(topic, timeout=timeout).topics[topic]
    if found.error is None:
        return set(found.partitions), None
    if found.error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE):  # the latter while it is being made
        sys.exit(f"listing the partitions of {topic}: {found.error.str()}")
    like = difflib.get_close_matches(topic, consumer.list_topics(timeout=timeout).topics)
    return set(), f"topic {topic} does not exist" + (f", and there is {', '.join(like)}" if like else "")


def wait_for(consumer, topic, stopping):
    """Waits for a topic that nobody has made yet, and says so again from time to time: one that is misspelt never comes."""
    say, between = time.monotonic(), 10
    while not stopping:
        try:
            _, missing = partitions(consumer, topic, timeout=1)
        except KafkaException:
            consumer.poll(0.1)  # has the reporter say it
            continue
        if not missing:
            return
        if time.monotonic() >= say:
            print("waiting:", missing, file=sys.stderr, flush=True)
            say, between = time.monotonic() + between, min(2 * between, 600)
        time.sleep(0.5)


def snapshot(consumer, topic):
    """Folds the topic by key from its beginning to where it ends now."""
    try:
        reading, missing = partitions(consumer, topic, timeout=30)
    except KafkaException as e:
        sys.exit(f"listing the partitions of {topic}: {e.args[0].str()}")
    if missing:
        sys.exit(f"{missing}; processors make it when they start")
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in reading])
    newest = {}
    while reading:
        message = consumer.poll()
        if message.error():
            if message.error().code() != KafkaError._PARTITION_EOF:
                sys.exit(str(message.error()))
            reading.discard(message.partition())
        elif kind(message) == VARIANT:
            event = of(message, checked)
            known = newest.get(message.key())
            if event and (known is None or event["revision"] > known["revision"]):
                newest[message.key()] = event
    for event in sorted(newest.values(), key=lambda e: (e["sample"], e["variant"]["contig"], e["variant"]["pos"], e["variant"]["alt"])):
        if passed(event):
            show(event)


def follow(consumer, topic, state):
    """Prints revisions that are higher than what was printed before, and the ends of runs in the partitions that it reads."""
    state.execute("create table if not exists revisions (key blob primary key, revision integer not null, passed integer not null)")
    state.execute("create table if not exists ends (run, partition, source, sources, status, primary key (run, partition, source))")
    state.execute("create table if not exists folded (partition primary key)")  # those of which nothing is missing here
    mine, told, stopping = set(), set(), []

    def given(_, partitions):
        for p in partitions:
            mine.add(p.partition)
            if not state.execute("select 1 from folded where partition = ?", (p.partition,)).fetchone():
                p.offset = OFFSET_BEGINNING
                state.execute("insert into folded values (?)", (p.partition,))
        consumer.assign(partitions)

    def taken(_, partitions):
        for p in partitions:
            mine.discard(p.partition)
            if not stopping:  # another member goes on with it
                state.execute("delete from folded where partition = ?", (p.partition,))

    def variant(message):
        event = of(message, checked)
        if not event:
            return
        known = state.execute("select revision, passed from revisions where key = ?", (message.key(),)).fetchone()
        if known and event["revision"] <= known[0]:
            return
        stands = passed(event)
        state.execute("replace into revisions values (?, ?, ?)", (message.key(), event["revision"], stands))
        if stands or known and known[1]:  # what fails a filter is news only if it was shown before
            show(event, *([] if stands else ["taken back: " + (event.get("reason") or ",".join(event["call"].get("filters", [])))]))

    def ended(message):
        e = of(message, checked_end)
        if not e:
            return
        state.execute("replace into ends values (?, ?, ?, ?, ?)", (e["run"], message.partition(), e["source"], e["sources"], e.get("status") or "normal"))
        marks = [row for row in state.execute("select partition, sources, status from ends where run = ?", (e["run"],)) if row[0] in mine]
        if not marks:
            return  # of a partition that another member has by now
        status = max((s for _, _, s in marks), key=WORST_LAST.index)
        if len(marks) >= max(n for _, n, _ in marks) * len(mine) and (e["run"], status) not in told:
            told.add((e["run"], status))
            print("run", e["run"], "of", ", ".join(e.get("samples") or [e["sample"]]), "has ended:", status, file=sys.stderr, flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.append(True))  # what was printed is committed first
    wait_for(consumer, topic, stopping)
    consumer.subscribe([topic], on_assign=given, on_revoke=taken)
    while not stopping:
        messages = consumer.consume(500, timeout=1)
        for message in messages:
            if message.error():
                sys.exit(str(message.error()))
            {VARIANT: variant, RUN_ENDED: ended}.get(kind(message), lambda _: None)(message)
        state.commit()  # before the position: what is read again is known
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as e:  # brokers away, or the group has moved on: what comes again is known
                if e.args[0].code() != KafkaError._NO_OFFSET:  # all of these messages are of partitions that another member has by now
                    print("positions are not committed:", e.args[0].str(), file=sys.stderr, flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("brokers", help="host:port[,host:port...]")
    args.add_argument("topic", nargs="?", default="variants")
    args.add_argument("--follow", metavar="STATE", help="go on with what comes, and keep in this file what was printed")
    args.add_argument("--group", default="consumer-py", help="consumer group when following; pore acls --role consumer gives the right to those that begin with consumer-")
    args = args.parse_args()
    consumer = Consumer({
        "bootstrap.servers": args.brokers,
        "group.id": args.group,
        "isolation.level": "read_committed",  # revisions of transactions that were given up were never published
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 2,  # librdkafka's own lines on stderr: not each attempt to connect, which the reporter sums up
        **reporter(args.brokers),
        "enable.partition.eof": not args.follow,
    })
    try:
        if args.follow:
            follow(consumer, args.topic, sqlite3.connect(args.follow))
        else:
            snapshot(consumer, args.topic)
    except sqlite3.Error as e:  # nothing is committed that isn't in the state: it comes again
        sys.exit(f"state file {args.follow}: {e}")
    except OSError as e:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer can't be written either
        sys.exit(f"writing variants: {e.strerror}")
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
