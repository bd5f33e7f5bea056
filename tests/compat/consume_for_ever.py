"""A member of a consumer group that somebody will kill: `consume_for_ever.py SERVERS GROUP TOPIC`."""

from __future__ import annotations

import sys

import confluent_kafka


def main(servers: str, group: str, topic: str) -> None:
    settings = {"bootstrap.servers": servers, "group.id": group, "group.protocol": "consumer"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic], on_assign=lambda *_: print("assigned", flush=True))
    while True:
        consumer.poll(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
