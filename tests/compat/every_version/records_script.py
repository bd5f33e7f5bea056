"""What is asked about topics and records, in every version: connecting, producing, fetching, looking up offsets."""

from __future__ import annotations

import base64
from typing import Any

from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tests.compat.every_version.conversation import Conversation, is_settled, latest, versions_of

PLAIN, COMPACTED, MISSING = "plain", "compacted", "missing"
FIRST_TIMESTAMP = 1_795_000_000_000
"""Within the retention time of whoever reads this in the next centuries: the topics keep their records for ever."""
KEPT = [{"name": "retention.ms", "value": "-1"}]


def batch(*, count: int = 3, key: bytes | None = b"k", **options: Any) -> str:
    records = [Record(n, FIRST_TIMESTAMP + n, key, b"value-%d" % n, ()) for n in range(count)]
    return base64.b64encode(write_batch(records, **options)).decode()


def damaged() -> str:
    data = bytearray(base64.b64decode(batch()))
    data[-1] ^= 1
    return base64.b64encode(data).decode()


def make_topics(talk: Conversation) -> dict[str, str]:
    """Create the topics of this script and give their ids."""
    topics = [
        {"name": PLAIN, "numPartitions": 2, "replicationFactor": 1, "configs": KEPT},
        {
            "name": COMPACTED,
            "numPartitions": 1,
            "replicationFactor": 1,
            "configs": [*KEPT, {"name": "cleanup.policy", "value": "compact"}],
        },
    ]
    talk.quietly("CreateTopics", latest("CreateTopics"), topics=topics, timeoutMs=10_000)
    named = [{"name": PLAIN}, {"name": COMPACTED}]
    answer = talk.until(
        lambda found: all(topic["errorCode"] == 0 for topic in found["topics"]), "Metadata", 12, topics=named
    )
    return {topic["name"]: topic["topicId"] for topic in answer["topics"]}


def ask_all(talk: Conversation) -> None:
    ids = make_topics(talk)
    ask_metadata(talk, ids)
    produce(talk, ids)
    fetch(talk, ids)
    list_offsets(talk)
    for version in versions_of("OffsetForLeaderEpoch"):
        asked = [{"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": epoch} for epoch in (0,)]
        other = [{"partition": 1, "currentLeaderEpoch": 5, "leaderEpoch": 0}, {"partition": 9, "leaderEpoch": 0}]
        topics = [{"topic": PLAIN, "partitions": [*asked, *other]}, {"topic": MISSING, "partitions": asked}]
        talk.ask("OffsetForLeaderEpoch", version, replicaId=-2, topics=topics)
    for version in versions_of("DeleteRecords"):
        wishes = [{"partitionIndex": 1, "offset": version + 1}, {"partitionIndex": 7, "offset": 0}]
        beyond = [{"partitionIndex": 0, "offset": 1_000_000}]
        topics = [{"name": PLAIN, "partitions": wishes}, {"name": MISSING, "partitions": beyond}]
        talk.ask("DeleteRecords", version, topics=topics, timeoutMs=5_000)
        talk.ask("DeleteRecords", version, "beyond", topics=[{"name": PLAIN, "partitions": beyond}], timeoutMs=5_000)


def ask_metadata(talk: Conversation, ids: dict[str, str]) -> None:
    for version in versions_of("Metadata"):
        options: dict[str, Any] = {
            "allowAutoTopicCreation": False,
            "includeClusterAuthorizedOperations": True,
            "includeTopicAuthorizedOperations": True,
        }
        for title, names in (
            ("one", [PLAIN]),
            ("unknown", [MISSING]),
            ("bad name", ["no/name"]),
            ("two", [COMPACTED, PLAIN]),
        ):
            # Up to v3 a mention makes the topic: an unknown one is asked for in later versions only.
            if version >= 4 or title != "unknown":
                talk.ask("Metadata", version, title, topics=[{"name": name} for name in names], **options)
        if version >= 1:
            talk.ask("Metadata", version, "none", topics=[], **options)
        if version >= 12:
            by_id: list[dict[str, Any]] = [
                {"topicId": ids[PLAIN], "name": None},
                {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "name": None},
            ]
            talk.ask("Metadata", version, "by id", topics=by_id, **options)
        if version in (10, 11):
            talk.ask("Metadata", version, "by id", topics=[{"topicId": ids[PLAIN], "name": PLAIN}], **options)
    for version in versions_of("DescribeTopicPartitions"):
        names = [{"name": name} for name in (PLAIN, MISSING, "no/name")]
        talk.ask("DescribeTopicPartitions", version, topics=names, responsePartitionLimit=100)
        talk.ask("DescribeTopicPartitions", version, "first page", topics=names[:1], responsePartitionLimit=1)
        cursor = {"topicName": PLAIN, "partitionIndex": 1}
        talk.ask("DescribeTopicPartitions", version, "next page", topics=names[:1], cursor=cursor)


def produce(talk: Conversation, ids: dict[str, str]) -> None:
    wishes = {
        "records": (PLAIN, 0, batch()),
        "damaged": (PLAIN, 0, damaged()),
        "nothing": (PLAIN, 0, ""),
        "two batches": (PLAIN, 0, base64.b64encode(base64.b64decode(batch()) * 2).decode()),
        "no such partition": (PLAIN, 5, batch()),
        "no such topic": (MISSING, 0, batch()),
        "no key to compact by": (COMPACTED, 0, batch(key=None)),
        "other partition": (PLAIN, 1, batch(count=1)),
    }
    for version in versions_of("Produce"):
        for title, (topic, partition, records) in wishes.items():
            data = {
                "name": topic,
                "topicId": ids.get(topic, "AAAAAAAAAAAAAAAAAAAAAQ"),
                "partitionData": [{"index": partition, "records": records}],
            }
            for acks in (-1, 1, 2):
                if acks == 1 or title == "records":
                    talk.ask("Produce", version, f"{title} acks={acks}", acks=acks, timeoutMs=5_000, topicData=[data])


def fetch(talk: Conversation, ids: dict[str, str]) -> None:
    wishes = {
        "from 0": (PLAIN, 0, {"fetchOffset": 0}),
        "from the middle of a batch": (PLAIN, 0, {"fetchOffset": 4}),
        "beyond the end": (PLAIN, 0, {"fetchOffset": 1_000_000}),
        "before the start": (PLAIN, 0, {"fetchOffset": -7}),
        "an older epoch": (PLAIN, 1, {"fetchOffset": 0, "currentLeaderEpoch": 3}),
        "a later last epoch": (PLAIN, 1, {"fetchOffset": 0, "currentLeaderEpoch": 0, "lastFetchedEpoch": 0}),
        "no such partition": (PLAIN, 5, {"fetchOffset": 0}),
        "no such topic": (MISSING, 0, {"fetchOffset": 0}),
    }
    for version in versions_of("Fetch"):
        for title, (topic, partition, asked) in wishes.items():
            partitions = [{"partition": partition, "partitionMaxBytes": 300, **asked}]
            topics = [{"topic": topic, "topicId": ids.get(topic, "AAAAAAAAAAAAAAAAAAAAAQ"), "partitions": partitions}]
            for isolation in (0, 1):
                if isolation == 0 or title == "from 0":
                    full_title = f"{title}, isolation {isolation}"
                    talk.ask("Fetch", version, full_title, maxBytes=10_000, isolationLevel=isolation, topics=topics)
        if version >= 7:
            fetch_in_session(talk, version, ids)


def fetch_in_session(talk: Conversation, version: int, ids: dict[str, str]) -> None:
    partitions = [{"partition": n, "fetchOffset": 3 - 3 * n, "partitionMaxBytes": 100} for n in (0, 1)]
    topics = [{"topic": PLAIN, "topicId": ids[PLAIN], "partitions": partitions}]
    begun = talk.ask("Fetch", version, "a session begins", sessionEpoch=0, maxBytes=10_000, topics=topics)
    session = {"sessionId": begun["sessionId"], "maxBytes": 10_000}
    talk.ask("Fetch", version, "a session goes on", sessionEpoch=1, **session)
    forgotten = [{"topic": PLAIN, "topicId": ids[PLAIN], "partitions": [0]}]
    talk.ask("Fetch", version, "a session forgets", sessionEpoch=2, forgottenTopicsData=forgotten, **session)
    talk.ask("Fetch", version, "a session out of step", sessionEpoch=9, **session)
    talk.ask("Fetch", version, "a session ends", sessionEpoch=-1, **session)
    talk.ask("Fetch", version, "a session that ended", sessionEpoch=3, **session)


def list_offsets(talk: Conversation) -> None:
    for version in versions_of("ListOffsets"):
        for timestamp in (-1, -2, -3, -4, -5, -6, 0, FIRST_TIMESTAMP + 1, FIRST_TIMESTAMP + 1_000_000):
            asked = [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": timestamp}]
            topics = [{"name": PLAIN, "partitions": asked}, {"name": MISSING, "partitions": asked}]
            talk.ask("ListOffsets", version, f"at {timestamp}", isolationLevel=0, topics=topics)
        stale = [{"partitionIndex": 1, "currentLeaderEpoch": 5, "timestamp": -1}]
        twice = [{"partitionIndex": 1, "currentLeaderEpoch": -1, "timestamp": -1}] * 2
        talk.ask("ListOffsets", version, "of a later epoch", topics=[{"name": PLAIN, "partitions": stale}])
        talk.ask("ListOffsets", version, "of one partition twice", topics=[{"name": PLAIN, "partitions": twice}])


def find_coordinators(talk: Conversation) -> None:
    """Wait until both coordinators are there, and ask for them in every version."""
    for kind, key in ((0, "a group"), (1, "a transaction")):
        newest = latest("FindCoordinator")
        talk.until(is_settled, "FindCoordinator", newest, keyType=kind, coordinatorKeys=[key])
        for version in versions_of("FindCoordinator"):
            if version > 0 or kind == 0:
                talk.ask("FindCoordinator", version, key, key=key, keyType=kind, coordinatorKeys=[key])
    for version in versions_of("FindCoordinator"):
        if version > 0:
            talk.ask("FindCoordinator", version, "of no kind", key="x", keyType=7, coordinatorKeys=["x"])
