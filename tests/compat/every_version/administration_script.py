"""What is asked of an administrator's APIs, in every version: topics, partitions, configurations, the cluster."""

from __future__ import annotations

from typing import Any

from tests.compat.every_version.conversation import Conversation, normal, versions_of

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NODE_ID = "1"


def ask_all(talk: Conversation) -> None:
    api_versions(talk)
    for version in versions_of("CreateTopics"):
        topics(talk, version)
    for version in versions_of("DescribeConfigs"):
        describe_configs(talk, version)
    for version in versions_of("AlterConfigs"):
        alter_configs(talk, version)
    for version in versions_of("IncrementalAlterConfigs"):
        incremental_alter_configs(talk, version)
    cluster(talk)
    leaders_and_replicas(talk)
    quorum_and_directories(talk)


def api_versions(talk: Conversation) -> None:
    """Every version is answered; which APIs are served is compared only for those that both serve."""
    for version in versions_of("ApiVersions"):
        answer = talk.quietly("ApiVersions", version, clientSoftwareName="compat", clientSoftwareVersion="1.0")
        served = {str(api["apiKey"]): [api["minVersion"], api["maxVersion"]] for api in answer["apiKeys"]}
        talk.answers[f"ApiVersions v{version} ranges"] = served
        talk.answers[f"ApiVersions v{version} error"] = answer["errorCode"]
        talk.answers[f"ApiVersions v{version} features"] = {
            feature["name"]: feature["maxVersionLevel"] for feature in answer.get("finalizedFeatures", [])
        }
        if version >= 3:
            talk.ask("ApiVersions", version, "bad software", clientSoftwareName="-", clientSoftwareVersion="1")


def topics(talk: Conversation, version: int) -> None:
    name = f"made-{version}"
    good = {
        "name": name,
        "numPartitions": 2,
        "replicationFactor": 1,
        "configs": [{"name": "retention.ms", "value": "5"}],
    }
    talk.ask("CreateTopics", version, "tried", topics=[good], timeoutMs=5_000, validateOnly=True)
    talk.ask("CreateTopics", version, "made", topics=[good], timeoutMs=5_000)
    talk.until(lambda a: a["topics"][0]["errorCode"] == 0, "Metadata", 12, topics=[{"name": name}])
    bad = [
        {**good},
        {**good, "name": "bad/name"},
        {**good, "name": "no-partitions", "numPartitions": 0},
        {**good, "name": "no-replicas", "replicationFactor": 0},
        {**good, "name": "many-replicas", "replicationFactor": 3},
        {**good, "name": "bad-key", "configs": [{"name": "no.such.key", "value": "1"}]},
        {**good, "name": "bad-value", "configs": [{"name": "retention.ms", "value": "soon"}]},
    ]
    talk.ask("CreateTopics", version, "refused", topics=bad, timeoutMs=5_000)
    assigned = {"name": f"assigned-{version}", "numPartitions": -1, "replicationFactor": -1}
    placed = {**assigned, "assignments": [{"partitionIndex": 0, "brokerIds": [int(NODE_ID)]}]}
    misplaced = {**assigned, "name": "misplaced", "assignments": [{"partitionIndex": 0, "brokerIds": [7]}]}
    talk.ask("CreateTopics", version, "assigned", topics=[placed, misplaced], timeoutMs=5_000)
    if version in versions_of("CreatePartitions"):
        more = [
            {"name": name, "count": 4, "assignments": None},
            {"name": "no-such-topic", "count": 4, "assignments": None},
            {"name": placed["name"], "count": 1, "assignments": None},
        ]
        talk.ask("CreatePartitions", version, "tried", topics=more, timeoutMs=5_000, validateOnly=True)
        talk.ask("CreatePartitions", version, "made", topics=more, timeoutMs=5_000)
    found = talk.until(lambda a: a["topics"][0]["errorCode"] == 0, "Metadata", 12, topics=[{"name": name}])
    names = [name, "no-such-topic"]
    states: list[dict[str, Any]] = [{"name": None, "topicId": found["topics"][0]["topicId"]}, {"name": "no-such-topic"}]
    if version in versions_of("DeleteTopics"):
        talk.ask("DeleteTopics", version, topics=states, topicNames=names, timeoutMs=5_000)


def describe_configs(talk: Conversation, version: int) -> None:
    wishes: dict[str, list[dict[str, Any]]] = {
        "of a topic": [{"resourceType": TOPIC, "resourceName": "made-2", "configurationKeys": None}],
        "of two keys": [
            {
                "resourceType": TOPIC,
                "resourceName": "plain",
                "configurationKeys": ["retention.ms", "cleanup.policy", "no.such.key"],
            }
        ],
        "of the broker": [
            {
                "resourceType": BROKER,
                "resourceName": NODE_ID,
                "configurationKeys": ["num.partitions", "log.retention.ms", "message.max.bytes", "node.id"],
            }
        ],
        "of what is not there": [
            {"resourceType": TOPIC, "resourceName": "no-such-topic"},
            {"resourceType": BROKER, "resourceName": "77"},
            {"resourceType": GROUP, "resourceName": "no-such-group"},
            {"resourceType": CLIENT_METRICS, "resourceName": "no-such-subscription"},
        ],
    }
    for title, resources in wishes.items():
        talk.ask("DescribeConfigs", version, title, resources=resources, includeSynonyms=True)


def alter_configs(talk: Conversation, version: int) -> None:
    def resource(kind: int, name: str, **configs: str | None) -> dict[str, Any]:
        changes = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        return {"resourceType": kind, "resourceName": name, "configs": changes}

    resources = [
        resource(TOPIC, "made-5" if version else "plain", retention_ms="-1"),
        resource(TOPIC, "no-such-topic", retention_ms="1"),
        resource(TOPIC, "compacted", retention_ms="soon"),
        resource(BROKER, "77", log_retention_ms="1"),
    ]
    talk.ask("AlterConfigs", version, "tried", resources=resources, validateOnly=True)
    talk.ask("AlterConfigs", version, "done", resources=resources)


def incremental_alter_configs(talk: Conversation, version: int) -> None:
    def resource(kind: int, name: str, key: str, operation: int, value: str | None) -> dict[str, Any]:
        return {
            "resourceType": kind,
            "resourceName": name,
            "configs": [{"name": key, "configOperation": operation, "value": value}],
        }

    for title, wish in {
        "set": resource(TOPIC, "compacted", "max.message.bytes", 0, "2000000"),
        "delete": resource(TOPIC, "compacted", "max.message.bytes", 1, None),
        "append": resource(TOPIC, "compacted", "cleanup.policy", 2, "delete"),
        "subtract": resource(TOPIC, "compacted", "cleanup.policy", 3, "delete"),
        "append to a number": resource(TOPIC, "compacted", "max.message.bytes", 2, "5"),
        "no such operation on null": resource(TOPIC, "compacted", "max.message.bytes", 0, None),
        "dynamic": resource(BROKER, NODE_ID, "log.retention.ms", 0, "604800000"),
        "dynamic, back": resource(BROKER, NODE_ID, "log.retention.ms", 1, None),
        "read only": resource(BROKER, NODE_ID, "node.id", 0, "5"),
        "default": resource(BROKER, "", "log.cleaner.threads", 0, "2"),
        "default, back": resource(BROKER, "", "log.cleaner.threads", 1, None),
        "group": resource(GROUP, "some-group", "consumer.session.timeout.ms", 0, "50000"),
        "subscription": resource(CLIENT_METRICS, "some-metrics", "interval.ms", 0, "1000"),
    }.items():
        talk.ask("IncrementalAlterConfigs", version, title, resources=[wish])


def cluster(talk: Conversation) -> None:
    for version in versions_of("DescribeCluster"):
        talk.ask("DescribeCluster", version, includeClusterAuthorizedOperations=True, endpointType=1)
        if version >= 1:
            talk.ask("DescribeCluster", version, "controllers", endpointType=2)
            talk.ask("DescribeCluster", version, "neither", endpointType=9)
    # The one broker is not asked to go: Kafka lets it, and serves nobody from then on.
    for broker_id in (9, -1):
        talk.ask("UnregisterBroker", 0, str(broker_id), brokerId=broker_id)
    for version in versions_of("DescribeLogDirs"):
        asked = [{"topic": "plain", "partitions": [0, 9]}, {"topic": "no-such-topic", "partitions": [0]}]
        talk.ask("DescribeLogDirs", version, topics=asked)
    for version in versions_of("ListConfigResources"):
        talk.ask("ListConfigResources", version, "metrics", resourceTypes=[CLIENT_METRICS])
        if version >= 1:
            talk.ask("ListConfigResources", version, "brokers and groups", resourceTypes=[BROKER, GROUP])
            talk.ask("ListConfigResources", version, "of no kind", resourceTypes=[77])


def leaders_and_replicas(talk: Conversation) -> None:
    for version in versions_of("ElectLeaders"):
        asked = [{"topic": "plain", "partitions": [0, 9]}, {"topic": "no-such-topic", "partitions": [0]}]
        for election in (0, 1, 5) if version >= 1 else (0,):
            talk.ask("ElectLeaders", version, f"kind {election}", electionType=election, topicPartitions=asked)
        talk.ask("ElectLeaders", version, "all", topicPartitions=None)
    for version in versions_of("AlterPartitionReassignments"):
        wishes = {
            "to where it is": [int(NODE_ID)],
            "to nowhere": [],
            "to a broker that is not there": [int(NODE_ID), 9],
            "twice to one": [int(NODE_ID), int(NODE_ID)],
            "to a negative one": [-5],
            "cancelled": None,
        }
        for title, replicas in wishes.items():
            partitions = [{"partitionIndex": 0, "replicas": replicas}, {"partitionIndex": 9, "replicas": replicas}]
            other = [{"partitionIndex": 0, "replicas": replicas}]
            topics = [{"name": "plain", "partitions": partitions}, {"name": "no-such-topic", "partitions": other}]
            talk.ask("AlterPartitionReassignments", version, title, topics=topics, timeoutMs=5_000)
    for version in versions_of("ListPartitionReassignments"):
        asked = [{"name": "plain", "partitionIndexes": [0, 9]}, {"name": "no-such-topic", "partitionIndexes": [0]}]
        talk.ask("ListPartitionReassignments", version, topics=asked, timeoutMs=5_000)
        talk.ask("ListPartitionReassignments", version, "all", topics=None, timeoutMs=5_000)


def quorum_and_directories(talk: Conversation) -> None:
    metadata = "__cluster_metadata"
    for version in versions_of("DescribeQuorum"):
        for title, topics in {
            "of the metadata": {metadata: [0]},
            "of another partition": {metadata: [1]},
            "of one partition twice": {metadata: [0, 0]},
            "of no partition": {metadata: []},
            "of another topic": {"plain": [0]},
            "of two topics": {metadata: [0], "plain": [0]},
            "of nothing": {},
        }.items():
            asked = [
                {"topicName": name, "partitions": [{"partitionIndex": number} for number in numbers]}
                for name, numbers in topics.items()
            ]
            talk.answers[f"DescribeQuorum v{version} {title}"] = normal(quorum(talk, version, asked))
    directory = talk.quietly("DescribeLogDirs", 4, topics=[])["results"][0]["logDir"]
    names = {"plain": [0, 9], "no-such-topic": [0], "bad/name": [0], "": [0]}
    asked = [{"name": name, "partitions": numbers} for name, numbers in names.items()]
    for version in versions_of("AlterReplicaLogDirs"):
        for title, path in {
            "to where it is": directory,
            "to where it is, with a slash": f"{directory}/",
            "to a directory that is not there": "/no/such/directory",
            "to a relative directory": "data",
        }.items():
            talk.ask("AlterReplicaLogDirs", version, title, dirs=[{"path": path, "topics": asked}])


def quorum(talk: Conversation, version: int, asked: list[dict[str, Any]]) -> Any:
    """Ask for the quorum; of offsets and addresses it counts that everything is committed, and how many there are."""
    answer = talk.quietly("DescribeQuorum", version, topics=asked)
    for partition in (partition for topic in answer["topics"] for partition in topic["partitions"]):
        ends = [voter["logEndOffset"] for voter in partition["currentVoters"]]
        partition["highWatermark"] = partition["highWatermark"] == max(ends, default=0)
    for node in answer.get("nodes", []):
        node["listeners"] = len(node["listeners"])
    return answer
