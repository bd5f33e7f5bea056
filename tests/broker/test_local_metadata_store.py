"""What the store promises: a change is kept before it is seen, and damage loses as little as can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.broker.broker import Endpoint
from tailrace.broker.local_metadata_store import COPY_FILE_NAME, FILE_NAME, LocalMetadataStore
from tailrace.broker.metadata_file import StoredMetadata, encode_metadata
from tailrace.broker.metadata_image import MetadataImage
from tailrace.broker.metadata_store import (
    ALL_BROKERS,
    BrokerRegistration,
    ConfigResource,
    MetadataDelta,
    NewTopic,
    StaleMetadata,
    TopicRegistration,
)
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.disk import Disk, DiskError

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def open_store(folder: Path, cluster_id: str = CLUSTER) -> LocalMetadataStore:
    return LocalMetadataStore.open(Disk(), folder, cluster_id=cluster_id, node_id=1)


def new_topic(name: str, *, number: int, partitions: int = 1, configs: dict[str, str] | None = None) -> NewTopic:
    registrations = tuple(PartitionRegistration.of_single_broker(1) for _ in range(partitions))
    return NewTopic(TopicRegistration(name, number.to_bytes(16, "big"), registrations), configs or {})


async def test_a_change_is_there_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert await store.create_topics([new_topic("b", number=2, partitions=3, configs={"retention.ms": "5"})]) == [True]
    assert await store.create_topics([new_topic("a", number=3)]) == [True]
    await store.change_configs(ALL_BROKERS, expected={}, values={"log.retention.ms": "7"})

    again = open_store(tmp_path)
    assert list(again.topics) == ["a", "b"]
    assert again.topics == store.topics
    assert again.topic_by_id((2).to_bytes(16, "big")) == store.topic("b")
    assert again.configs(ConfigResource.topic("b")) == {"retention.ms": "5"}
    assert again.configs(ALL_BROKERS) == {"log.retention.ms": "7"}
    assert again.partition("b", 2) == PartitionRegistration.of_single_broker(1)
    assert again.partition("b", 3) is None
    assert again.partition("b", -1) is None


async def test_a_cluster_of_an_earlier_version_gets_the_features_that_it_lacks(tmp_path: Path) -> None:
    earlier = MetadataImage(features={"metadata.version": 26}, features_epoch=4)
    (tmp_path / FILE_NAME).write_bytes(encode_metadata(StoredMetadata(CLUSTER, 1, earlier)))

    store = open_store(tmp_path)
    assert store.features.items() >= {"group.version": 1, "metadata.version": 26}.items()
    assert store.features_epoch == 5
    again = open_store(tmp_path)
    assert (again.features, again.features_epoch) == (store.features, 5), "it was done once"


async def test_a_name_and_an_id_are_given_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topics = [new_topic("a", number=2), new_topic("a", number=3), new_topic("b", number=4)]
    assert await store.create_topics(topics) == [True, False, True]
    assert await store.create_topics([new_topic("c", number=2)]) == [False]
    await store.delete_topics([(2).to_bytes(16, "big")])
    assert await store.create_topics([new_topic("a", number=9)]) == [True]


async def test_deletion_takes_the_overrides_and_remembers_the_id(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.create_topics([new_topic("a", number=2, configs={"retention.ms": "5"})])
    await store.delete_topics([(2).to_bytes(16, "big")])
    again = open_store(tmp_path)
    assert again.topic("a") is None
    assert again.configs(ConfigResource.topic("a")) == {}
    assert list(again.deleted_topic_ids) == [(2).to_bytes(16, "big")]
    await again.forget_deleted_topics([(2).to_bytes(16, "big")])
    assert list(open_store(tmp_path).deleted_topic_ids) == []


async def test_a_limited_number_of_deleted_topics_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.broker.metadata_image.DELETED_IDS_MAX", 2)
    store = open_store(tmp_path)
    for number in (2, 3, 4):
        await store.create_topics([new_topic("a", number=number)])
        await store.delete_topics([number.to_bytes(16, "big")])
    assert [int.from_bytes(topic_id, "big") for topic_id in store.deleted_topic_ids] == [3, 4]


async def test_listeners_hear_of_each_change_once_and_after_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    heard: list[tuple[MetadataDelta, int]] = []
    store.subscribe(lambda delta: heard.append((delta, len(store.topics))))
    topic = new_topic("a", number=2)
    await store.create_topics([topic])
    await store.create_topics([topic])
    await store.change_configs(ConfigResource.topic("a"), expected={}, values={"retention.ms": "5"})
    await store.delete_topics([topic.registration.topic_id])
    await store.register_broker(BrokerRegistration(1, (Endpoint("PLAINTEXT", "h", 9092),)))
    assert heard == [
        (MetadataDelta(created_topics=(topic.registration,)), 1),
        (MetadataDelta(changed_configs=(ConfigResource.topic("a"),)), 1),
        (MetadataDelta(deleted_topics=(topic.registration,)), 0),
        (MetadataDelta(brokers_changed=True), 0),
    ]


async def test_a_listener_that_fails_does_not_keep_the_others_from_hearing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    heard: list[MetadataDelta] = []

    def fail(_: MetadataDelta) -> None:
        raise RuntimeError("boom")

    store.subscribe(fail)
    store.subscribe(heard.append)
    assert await store.create_topics([new_topic("a", number=2)]) == [True]
    assert len(heard) == 1
    assert "boom" in caplog.text


async def test_who_looked_before_somebody_else_changed_has_to_look_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topic = new_topic("a", number=2, partitions=2)
    await store.create_topics([topic])
    more = [PartitionRegistration.of_single_broker(1)]
    await store.add_partitions(topic.registration.topic_id, expected_count=2, partitions=more)
    with pytest.raises(StaleMetadata):
        await store.add_partitions(topic.registration.topic_id, expected_count=2, partitions=more)
    with pytest.raises(StaleMetadata):
        await store.add_partitions(b"x" * 16, expected_count=0, partitions=more)
    with pytest.raises(StaleMetadata):
        await store.change_configs(ALL_BROKERS, expected={"a": "b"}, values={})

    successor = PartitionRegistration(replicas=(1,), isr=(1,), leader=1, leader_epoch=1, partition_epoch=1)
    await store.change_partition("a", 1, successor)
    assert store.partition("a", 1) == successor
    with pytest.raises(StaleMetadata):
        await store.change_partition("a", 1, successor)
    with pytest.raises(StaleMetadata):
        await store.change_partition("a", 3, successor)
    assert open_store(tmp_path).partition("a", 1) == successor


class FullDisk(Disk):
    """A disk that takes no file any more once it is full."""

    is_full = False

    def replace_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        if self.is_full:
            raise DiskError("write", path, 28)
        super().replace_file(path, data, sync=sync)


async def test_a_full_disk_fails_the_change_and_keeps_what_was_there(tmp_path: Path) -> None:
    disk = FullDisk()
    store = LocalMetadataStore.open(disk, tmp_path, cluster_id=CLUSTER, node_id=1)
    await store.create_topics([new_topic("a", number=2)])
    disk.is_full = True
    for number in (3, 4):
        with pytest.raises(ApiError) as failure:
            await store.create_topics([new_topic("b", number=number)])
        assert failure.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert list(store.topics) == ["a"]
    assert list(open_store(tmp_path).topics) == ["a"]
    disk.is_full = False
    assert await store.create_topics([new_topic("b", number=5)]) == [True]
    assert list(open_store(tmp_path).topics) == ["a", "b"]


async def two_changes(folder: Path) -> bytes:
    store = open_store(folder)
    await store.create_topics([new_topic("a", number=2)])
    await store.create_topics([new_topic("b", number=3)])
    return (folder / FILE_NAME).read_bytes()


async def test_every_truncation_is_noticed_and_the_copy_is_taken(tmp_path: Path) -> None:
    whole = await two_changes(tmp_path)
    for size in range(0, len(whole) - 1, 13):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(whole[:size])
        (folder / COPY_FILE_NAME).write_bytes(whole)
        store = open_store(folder)
        assert list(store.topics) == ["a", "b"]
        assert (folder / f"{FILE_NAME}.damaged-1").read_bytes() == whole[:size]


async def test_every_bit_flip_is_noticed(tmp_path: Path) -> None:
    whole = await two_changes(tmp_path)
    for position in range(0, len(whole) - 1, 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0x04
        folder = tmp_path / str(position)
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(damaged)
        if damaged[:11] == b'{"format":5':  # which claims to be a newer version's file: another test has that
            continue
        store = open_store(folder)
        assert list(store.topics) == []
        assert (folder / f"{FILE_NAME}.damaged-1").exists()


async def test_a_change_that_reached_only_the_copy_was_not_made(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.create_topics([new_topic("a", number=2)])
    before = (tmp_path / FILE_NAME).read_bytes()
    await store.create_topics([new_topic("b", number=3)])
    (tmp_path / FILE_NAME).write_bytes(before)
    assert list(open_store(tmp_path).topics) == ["a"]
    (tmp_path / FILE_NAME).unlink()
    assert list(open_store(tmp_path).topics) == ["a", "b"], "a copy alone is better than nothing"


async def test_damage_to_both_files_is_kept_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await two_changes(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(b"{}")
    (tmp_path / f"{FILE_NAME}.damaged-1").write_bytes(b"older damage")
    (tmp_path / COPY_FILE_NAME).write_bytes(b"\xff")
    store = open_store(tmp_path)
    assert list(store.topics) == []
    assert (tmp_path / f"{FILE_NAME}.damaged-1").read_bytes() == b"older damage"
    assert (tmp_path / f"{FILE_NAME}.damaged-2").read_bytes() == b"{}"
    assert (tmp_path / f"{COPY_FILE_NAME}.damaged-1").read_bytes() == b"\xff"
    assert "partition directories" in caplog.text


async def test_another_clusters_metadata_is_not_served(tmp_path: Path) -> None:
    await two_changes(tmp_path)
    with pytest.raises(ValueError, match="this broker is node 1 in cluster AAAA"):
        open_store(tmp_path, "AAAAAAAAAAAAAAAAAAAAAQ")


def test_a_newer_versions_metadata_is_left_alone(tmp_path: Path) -> None:
    data = encode_metadata(StoredMetadata(CLUSTER, 1, MetadataImage())).replace(b'"format":1', b'"format":2')
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(ValueError, match="format 2"):
        open_store(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == data
