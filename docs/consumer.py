#!/usr/bin/env python3
"""Prints the variants of all samples as they stand: consumer.py BROKERS [TOPIC]  (pip install confluent-kafka)"""
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

topic = sys.argv[2] if len(sys.argv) > 2 else "variants"
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
reading = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in reading])

newest = {}
while reading:  # until the end of every partition; a service would go on
    message = consumer.poll()
    if message.error():
        if message.error().code() != KafkaError._PARTITION_EOF:
            sys.exit(str(message.error()))
        reading.discard(message.partition())
    elif dict(message.headers() or []).get("ce_type") == b"porestream.variant.v1":
        event = json.loads(message.value())
        known = newest.get(message.key())
        if known is None or event["revision"] > known["revision"]:
            newest[message.key()] = event

for event in sorted(newest.values(), key=lambda e: (e["sample"], e["variant"]["contig"], e["variant"]["pos"], e["variant"]["alt"])):
    if event["status"] != "RETRACTED" and "filters" not in event["call"]:
        v = event["variant"]
        print(event["sample"], v["contig"], v["pos"], v["ref"], v["alt"], event["status"], event["annotation"]["most_severe"]["term"], sep="\t")
