"""What is asked about groups, in every version: joining, committing, describing, deleting, and KIP-848's heartbeat."""

from __future__ import annotations

import base64
from typing import Any

from tests.compat.every_version.conversation import Conversation, at_most, is_settled, latest, versions_of
from tests.compat.every_version.records_script import COMPACTED, MISSING, PLAIN

SUBSCRIPTION = base64.b64encode(b"\x00\x00\x00\x00\x00\x01\x00\x05plain\xff\xff\xff\xff").decode()
ASSIGNMENT = base64.b64encode(b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff").decode()
SESSION = {"sessionTimeoutMs": 30_000, "rebalanceTimeoutMs": 30_000}
MEMBER_ID_REQUIRED = 79


def ask_all(talk: Conversation) -> None:
    talk.until(is_settled, "DescribeGroups", latest("DescribeGroups"), groups=["warm"])
    commit_and_fetch(talk)
    for version in versions_of("JoinGroup"):
        go_through_a_group(talk, version)
    refused(talk)
    consumer_groups(talk)
    describe_and_delete(talk)


def commit_and_fetch(talk: Conversation) -> None:
    """Commit without being a member, as simple consumers do, and read it back."""
    for version in versions_of("OffsetCommit"):
        partitions = [
            {
                "partitionIndex": 0,
                "committedOffset": version,
                "committedLeaderEpoch": -1,
                "committedMetadata": "as sent",
            },
            {"partitionIndex": 9, "committedOffset": 1, "committedLeaderEpoch": -1},
        ]
        long = [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": "x" * 5000}]
        topics = [{"name": PLAIN, "partitions": partitions}, {"name": MISSING, "partitions": partitions[:1]}]
        group: dict[str, Any] = {"groupId": f"simple-{version}", "generationIdOrMemberEpoch": -1, "retentionTimeMs": -1}
        talk.ask("OffsetCommit", version, "without a member", **group, topics=topics)
        talk.ask("OffsetCommit", version, "long metadata", **group, topics=[{"name": PLAIN, "partitions": long}])
        stale = {**group, "generationIdOrMemberEpoch": 4, "memberId": "nobody"}
        talk.ask("OffsetCommit", version, "of an unknown member", **stale, topics=topics[:1])
    for version in versions_of("OffsetFetch"):
        topics = [{"name": PLAIN, "partitionIndexes": [0, 1]}, {"name": MISSING, "partitionIndexes": [0]}]
        for title, group_id in (("known", "simple-5"), ("unknown", "no-such-group"), ("empty", "")):
            groups = [{"groupId": group_id, "memberEpoch": -1, "topics": topics}]
            talk.ask("OffsetFetch", version, title, groupId=group_id, topics=topics, groups=groups)
        if version >= 2:
            groups = [{"groupId": "simple-5", "memberEpoch": -1, "topics": None}]
            talk.ask("OffsetFetch", version, "all", groupId="simple-5", topics=None, groups=groups, requireStable=True)


def go_through_a_group(talk: Conversation, version: int) -> None:
    """One member joins, syncs, commits, beats and leaves, each request in the version that goes with JoinGroup's."""
    group_id = f"classic-{version}"
    joining: dict[str, Any] = {
        "groupId": group_id,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}, {"name": "roundrobin", "metadata": SUBSCRIPTION}],
        **SESSION,
    }
    joined = talk.ask("JoinGroup", version, "first", **joining)
    if joined["errorCode"] == MEMBER_ID_REQUIRED:
        joined = talk.ask("JoinGroup", version, "with the id", memberId=joined["memberId"], **joining)
    member: dict[str, Any] = {
        "groupId": group_id,
        "generationId": joined["generationId"],
        "generationIdOrMemberEpoch": joined["generationId"],
        "memberId": joined["memberId"],
    }
    synced = {
        "protocolType": "consumer",
        "protocolName": "range",
        "assignments": [{"memberId": joined["memberId"], "assignment": ASSIGNMENT}],
    }
    beat, sync = at_most("Heartbeat", version), at_most("SyncGroup", version)
    talk.ask("Heartbeat", beat, f"before the sync of {group_id}", **member)
    talk.ask("SyncGroup", sync, f"of another protocol in {group_id}", **member, **{**synced, "protocolName": "other"})
    talk.ask("SyncGroup", sync, f"of {group_id}", **member, **synced)
    talk.ask("Heartbeat", beat, f"of {group_id}", **member)
    talk.ask("Heartbeat", beat, f"of an older generation of {group_id}", **{**member, "generationId": 0})
    partitions = [{"partitionIndex": 1, "committedOffset": 1, "committedLeaderEpoch": 0, "committedMetadata": None}]
    commit = at_most("OffsetCommit", version)
    topics = [{"name": COMPACTED, "partitions": partitions[:0]}, {"name": PLAIN, "partitions": partitions}]
    talk.ask("OffsetCommit", commit, f"of {group_id}", retentionTimeMs=-1, topics=topics[1:], **member)
    without = {**member, "memberId": "", "generationIdOrMemberEpoch": -1}
    talk.ask("OffsetCommit", commit, f"from outside of {group_id}", retentionTimeMs=-1, topics=topics[1:], **without)
    describe = at_most("DescribeGroups", version)
    talk.ask("DescribeGroups", describe, f"of {group_id}", groups=[group_id], includeAuthorizedOperations=True)
    talk.ask("DeleteGroups", at_most("DeleteGroups", version), f"of stable {group_id}", groupsNames=[group_id])
    leaving = {"memberId": member["memberId"], "members": [{"memberId": member["memberId"], "groupInstanceId": None}]}
    leave = at_most("LeaveGroup", version)
    talk.ask("LeaveGroup", leave, f"of {group_id}", groupId=group_id, **leaving)
    talk.ask("LeaveGroup", leave, f"of {group_id} again", groupId=group_id, **leaving)
    talk.ask("Heartbeat", beat, f"after leaving {group_id}", **member)
    talk.ask("DescribeGroups", describe, f"of empty {group_id}", groups=[group_id])


def refused(talk: Conversation) -> None:
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    for version in versions_of("JoinGroup"):
        wishes: dict[str, dict[str, Any]] = {
            "without a name": {"groupId": "", "protocolType": "consumer", "protocols": protocols, **SESSION},
            "with a short session": {
                "groupId": "refused",
                "protocolType": "consumer",
                "protocols": protocols,
                **SESSION,
                "sessionTimeoutMs": 5,
            },
            "without protocols": {"groupId": "refused", "protocolType": "consumer", **SESSION},
            "as somebody unknown": {
                "groupId": "refused",
                "memberId": "nobody",
                "protocolType": "consumer",
                "protocols": protocols,
                **SESSION,
            },
        }
        for title, wish in wishes.items():
            talk.ask("JoinGroup", version, title, **wish)


def consumer_groups(talk: Conversation) -> None:
    for version in versions_of("ConsumerGroupHeartbeat"):
        group_id = f"modern-{version}"
        member_id = "AAAAAAAAAAAAAAAAAAAAAQ" if version else ""
        first: dict[str, Any] = {
            "groupId": group_id,
            "memberId": member_id,
            "memberEpoch": 0,
            "rebalanceTimeoutMs": 30_000,
            "subscribedTopicNames": [PLAIN],
            "topicPartitions": [],
        }
        joined = talk.ask("ConsumerGroupHeartbeat", version, "first", **first)
        member = {"groupId": group_id, "memberId": joined["memberId"] or member_id}
        epoch = joined["memberEpoch"]
        talk.ask("ConsumerGroupHeartbeat", version, "next", memberEpoch=epoch, **member)
        talk.ask("ConsumerGroupHeartbeat", version, "of a later epoch", memberEpoch=epoch + 5, **member)
        talk.ask("ConsumerGroupHeartbeat", version, "of nobody", groupId=group_id, memberId="nobody", memberEpoch=3)
        talk.ask("ConsumerGroupHeartbeat", version, "with an assignor", **{**first, "serverAssignor": "no such"})
        describe = at_most("ConsumerGroupDescribe", version)
        talk.ask("ConsumerGroupDescribe", describe, group_id, groupIds=[group_id, "no-such-group", "classic-9"])
        partitions = [{"partitionIndex": 0, "committedOffset": 1, "committedLeaderEpoch": -1}]
        talk.ask(
            "OffsetCommit",
            latest("OffsetCommit"),
            f"of {group_id}",
            generationIdOrMemberEpoch=epoch,
            topics=[{"name": PLAIN, "partitions": partitions}],
            **member,
        )
        asked = [{**member, "memberEpoch": epoch, "topics": None}]
        talk.ask("OffsetFetch", latest("OffsetFetch"), f"of {group_id}", groups=asked)
        talk.ask("DescribeGroups", latest("DescribeGroups"), f"of {group_id}", groups=[group_id])
        talk.ask("ConsumerGroupHeartbeat", version, "leaving", memberEpoch=-1, **member)
        talk.ask("ConsumerGroupDescribe", describe, f"{group_id}, left", groupIds=[group_id])


def describe_and_delete(talk: Conversation) -> None:
    for version in versions_of("DescribeGroups"):
        talk.ask("DescribeGroups", version, "unknown", groups=["no-such-group"], includeAuthorizedOperations=True)
    for version in versions_of("ListGroups"):
        talk.ask("ListGroups", version)
        talk.ask("ListGroups", version, "filtered", statesFilter=["Empty"], typesFilter=["consumer"])
    for version in versions_of("OffsetDelete"):
        partitions = [{"partitionIndex": 0}, {"partitionIndex": 9}]
        topics = [{"name": PLAIN, "partitions": partitions}]
        talk.ask("OffsetDelete", version, groupId="simple-5", topics=topics)
        talk.ask("OffsetDelete", version, "unknown", groupId="no-such-group", topics=topics)
    for version in versions_of("DeleteGroups"):
        names = [f"classic-{version}", "no-such-group", f"simple-{version + 2}"]
        talk.ask("DeleteGroups", version, "empty", groupsNames=names)
