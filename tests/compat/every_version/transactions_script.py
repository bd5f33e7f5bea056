"""What is asked about producers and transactions, in every version, and what fetches tell of them."""

from __future__ import annotations

from typing import Any

from tests.compat.every_version.conversation import Conversation, at_most, is_settled, latest, versions_of
from tests.compat.every_version.records_script import PLAIN, batch

TIMEOUT = {"transactionTimeoutMs": 60_000}


def ask_all(talk: Conversation) -> None:
    newest = latest("InitProducerId")
    talk.until(is_settled, "InitProducerId", newest, transactionalId=None)
    talk.until(is_settled, "InitProducerId", newest, transactionalId="warm", **TIMEOUT)
    for version in versions_of("InitProducerId"):
        talk.ask("InitProducerId", version, "idempotent", transactionalId=None)
        talk.ask("InitProducerId", version, "empty", transactionalId="", **TIMEOUT)
        talk.ask("InitProducerId", version, "forever", transactionalId="forever", transactionTimeoutMs=10**9)
    for version in versions_of("EndTxn"):
        for committed in (True, False):
            go_through_a_transaction(talk, version, committed=committed)
    refused(talk)
    list_and_describe(talk)


def go_through_a_transaction(talk: Conversation, version: int, *, committed: bool) -> None:
    """Begin, add, produce, commit offsets, end and end again, each in the version that goes with EndTxn's."""
    name = f"tx-{version}-{'commit' if committed else 'abort'}"
    started = talk.ask("InitProducerId", at_most("InitProducerId", version), name, transactionalId=name, **TIMEOUT)
    producer: dict[str, Any] = {"producerId": started["producerId"], "producerEpoch": started["producerEpoch"]}
    offsets_group = {"transactionalId": name, "groupId": f"group of {name}"}
    if version < 5:
        topics = [{"name": PLAIN, "partitions": [0]}]
        add = min(at_most("AddPartitionsToTxn", version), 3)
        added = {f"v3AndBelow{key[0].upper()}{key[1:]}": value for key, value in producer.items()}
        added |= {"v3AndBelowTransactionalId": name, "v3AndBelowTopics": topics}
        talk.ask("AddPartitionsToTxn", add, name, **added)
        talk.ask("AddOffsetsToTxn", at_most("AddOffsetsToTxn", version), name, **producer, **offsets_group)
    records = batch(
        count=1,
        producer_id=started["producerId"],
        producer_epoch=started["producerEpoch"],
        base_sequence=0,
        is_transactional=True,
    )
    produce = 12 if version >= 5 else 11
    data = [{"name": PLAIN, "partitionData": [{"index": 0, "records": records}]}]
    talk.ask("Produce", produce, name, transactionalId=name, acks=-1, timeoutMs=5_000, topicData=data)
    partitions = [{"partitionIndex": 0, "committedOffset": 2, "committedLeaderEpoch": -1, "committedMetadata": ""}]
    offsets = {**producer, **offsets_group, "generationId": -1, "topics": [{"name": PLAIN, "partitions": partitions}]}
    talk.ask("TxnOffsetCommit", at_most("TxnOffsetCommit", version), name, **offsets)
    group = [{"groupId": offsets_group["groupId"], "memberEpoch": -1, "topics": None}]
    talk.ask("OffsetFetch", 9, f"while {name} is open", groups=group)
    asked = [{"name": PLAIN, "partitions": [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -1}]}]
    talk.ask("DescribeTransactions", 0, f"{name}, open", transactionalIds=[name])
    ending = {"transactionalId": name, "committed": committed}
    ended = talk.ask("EndTxn", version, name, **producer, **ending)
    wait_for_the_end(talk, name)
    talk.ask("DescribeTransactions", 0, f"{name}, ended", transactionalIds=[name])
    talk.ask("EndTxn", version, f"{name} again", **producer, **ending)
    if version >= 5:
        later = {"producerId": ended["producerId"], "producerEpoch": ended["producerEpoch"]}
        talk.ask("EndTxn", version, f"{name}, the next one, empty", **later, **ending)
        wait_for_the_end(talk, name)
    talk.ask("EndTxn", version, f"{name} of another epoch", **{**producer, "producerEpoch": 77}, **ending)
    talk.ask("OffsetFetch", 9, f"after {name}", groups=group)
    talk.ask("ListOffsets", 9, f"after {name}", isolationLevel=1, topics=asked)


def wait_for_the_end(talk: Conversation, name: str) -> None:
    """Wait until the markers are written: offsets of the transaction count from then on."""
    talk.until(
        lambda found: found["transactionStates"][0]["transactionState"].startswith("Complete"),
        "DescribeTransactions",
        0,
        transactionalIds=[name],
    )


def refused(talk: Conversation) -> None:
    stranger: dict[str, Any] = {"transactionalId": "stranger", "producerId": 987_654, "producerEpoch": 0}
    for version in versions_of("EndTxn"):
        talk.ask("EndTxn", version, "of a stranger", **stranger, committed=True)
    for version in versions_of("AddOffsetsToTxn"):
        talk.ask("AddOffsetsToTxn", version, "of a stranger", **stranger, groupId="a group")
    for version in versions_of("TxnOffsetCommit"):
        partitions = [{"partitionIndex": 0, "committedOffset": 2, "committedLeaderEpoch": -1, "committedMetadata": ""}]
        topics = [{"name": PLAIN, "partitions": partitions}]
        talk.ask(
            "TxnOffsetCommit", version, "of a stranger", **stranger, groupId="a group", generationId=-1, topics=topics
        )
    for version in range(4):
        fields = {f"v3AndBelow{key[0].upper()}{key[1:]}": value for key, value in stranger.items()}
        added = [{"name": PLAIN, "partitions": [0]}]
        talk.ask("AddPartitionsToTxn", version, "of a stranger", v3AndBelowTopics=added, **fields)
    for version in range(4, latest("AddPartitionsToTxn") + 1):
        for verify in (False, True):
            wish = {**stranger, "verifyOnly": verify, "topics": [{"name": PLAIN, "partitions": [0]}]}
            talk.ask("AddPartitionsToTxn", version, f"of a stranger, verify={verify}", transactions=[wish])


def list_and_describe(talk: Conversation) -> None:
    for version in versions_of("ListTransactions"):
        talk.ask(
            "ListTransactions", version, "complete", stateFilters=["CompleteCommit", "no such state"], durationFilter=-1
        )
        talk.ask("ListTransactions", version, "by producer", producerIdFilters=[987_654], durationFilter=-1)
    for version in versions_of("DescribeTransactions"):
        talk.ask("DescribeTransactions", version, "unknown", transactionalIds=["stranger", ""])
    for version in versions_of("DescribeProducers"):
        asked = {PLAIN: [0, 1, 9], "missing": [0], "bad/name": [0], "": [0]}
        topics = [{"name": name, "partitionIndexes": numbers} for name, numbers in asked.items()]
        talk.ask("DescribeProducers", version, topics=topics)
