"""The bytes of a metadata image: one JSON document with a checksum, that people can read too.

    {"format": 1, "checksum": "crc32c:1a2b3c4d", "metadata": {"cluster_id": "MkU3OEVBNTcwNTJENDM2Qg", ...}}

The checksum is CRC-32C of the `metadata` value, written without spaces and with sorted keys; it is how a changed or
torn file is told from a good one. Pure; which file it goes to, and what happens to a bad one, is the store's affair.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tailrace.broker.metadata_image import MetadataImage
from tailrace.broker.metadata_store import ConfigResource, ConfigResourceType, TopicRegistration
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.protocol.checksum import crc32c
from tailrace.protocol.uuid import parse_uuid, uuid_text

FORMAT = 1


class DamagedMetadata(Exception):
    """Bytes that are no metadata image of ours; says what is wrong with them."""


class StoredMetadata(NamedTuple):
    """What the file says: whose metadata it is, and the image."""

    cluster_id: str
    node_id: int
    image: MetadataImage


def encode_metadata(stored: StoredMetadata) -> bytes:
    """Give the file's content."""
    image = stored.image
    metadata = {
        "cluster_id": stored.cluster_id,
        "node_id": stored.node_id,
        "topics": {name: _topic_json(topic) for name, topic in image.topics.items()},
        "configs": [
            {"type": resource.resource_type.name, "name": resource.name, "values": dict(values)}
            for resource, values in sorted(image.configs.items())
        ],
        "deleted_topic_ids": [uuid_text(topic_id) for topic_id in image.deleted_topic_ids],
        "features": dict(image.features),
        "features_epoch": image.features_epoch,
        "revision": image.revision,
    }
    body = _canonical(metadata)
    return f'{{"format":{FORMAT},"checksum":"{_checksum(body)}","metadata":{body}}}\n'.encode()


def decode_metadata(data: bytes) -> StoredMetadata:
    """Read a file's content.

    Raises DamagedMetadata where it is not what was written, and ValueError where a newer version wrote it.
    """
    try:
        document: Any = json.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DamagedMetadata(f"it is not a JSON document: {error}") from error
    try:
        written_format, checksum, metadata = document["format"], document["checksum"], document["metadata"]
    except (KeyError, TypeError) as error:
        raise DamagedMetadata(f"it is JSON, but not of our form: {error!r}") from error
    if isinstance(written_format, int) and written_format > FORMAT:
        raise ValueError(f"the metadata has format {written_format}; this version of Tailrace knows {FORMAT} at most")
    if checksum != _checksum(_canonical(metadata)):
        raise DamagedMetadata(f"its content does not have the checksum {checksum!r} that it claims")
    try:
        return _stored(metadata)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedMetadata(f"its checksum is right, but it does not say what it should: {error!r}") from error


def _stored(metadata: Mapping[str, Any]) -> StoredMetadata:
    topics = {name: _topic(name, topic) for name, topic in metadata["topics"].items()}
    configs = {
        ConfigResource(ConfigResourceType[entry["type"]], entry["name"]): dict(entry["values"])
        for entry in metadata["configs"]
    }
    image = MetadataImage(
        configs=configs,
        deleted_topic_ids=tuple(parse_uuid(text) for text in metadata["deleted_topic_ids"]),
        features=dict(metadata["features"]),
        features_epoch=int(metadata["features_epoch"]),
        # Files from before the changes were counted do not say it.
        revision=int(metadata.get("revision", 0)),
    )
    return StoredMetadata(str(metadata["cluster_id"]), int(metadata["node_id"]), image.with_topics(topics))


def _topic_json(topic: TopicRegistration) -> dict[str, Any]:
    partitions = [
        {
            "replicas": partition.replicas,
            "isr": partition.isr,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
        }
        for partition in topic.partitions
    ]
    return {"id": uuid_text(topic.topic_id), "partitions": partitions}


def _topic(name: str, topic: Mapping[str, Any]) -> TopicRegistration:
    partitions = tuple(
        PartitionRegistration(
            replicas=tuple(int(node) for node in partition["replicas"]),
            isr=tuple(int(node) for node in partition["isr"]),
            leader=int(partition["leader"]),
            leader_epoch=int(partition["leader_epoch"]),
            partition_epoch=int(partition["partition_epoch"]),
        )
        for partition in topic["partitions"]
    )
    return TopicRegistration(name=name, topic_id=parse_uuid(topic["id"]), partitions=partitions)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _checksum(body: str) -> str:
    return f"crc32c:{crc32c(body.encode()):08x}"
