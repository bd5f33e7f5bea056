"""Directories and metadata that disagree: which becomes what, and that nothing is lost over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.broker.local_metadata_store import LocalMetadataStore
from tailrace.broker.metadata_store import ConfigResource, NewTopic, TopicRegistration
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.broker.topic_adoption import adopt_topics, find_partitions
from tailrace.protocol.uuid import random_uuid
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.disk import Disk
from tailrace.storage.partition_metadata import read_partition_metadata, write_partition_metadata

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DISK = Disk()
FLIGHTS = bytes.fromhex("0123456789abcdef0123456789abcdef")
PLANES = bytes.fromhex("76543210fedcba9876543210fedcba98")


def open_store(folder: Path) -> LocalMetadataStore:
    return LocalMetadataStore.open(DISK, folder, cluster_id=CLUSTER, node_id=1)


def config(*folders: Path) -> BrokerConfig:
    return BrokerConfig({"log.dirs": ",".join(map(str, folders))})


def make_partition(folder: Path, name: str, topic_id: bytes | None, *, epochs: str = "") -> Path:
    directory = folder / name
    directory.mkdir(parents=True)
    (directory / "00000000000000000000.log").write_bytes(b"data of " + name.encode())
    if topic_id is not None:
        write_partition_metadata(DISK, directory, topic_id)
    if epochs:
        (directory / "leader-epoch-checkpoint").write_text(epochs)
    return directory


async def create(store: LocalMetadataStore, name: str, topic_id: bytes, partitions: int = 1) -> None:
    registrations = tuple(PartitionRegistration.of_single_broker(1) for _ in range(partitions))
    assert await store.create_topics([NewTopic(TopicRegistration(name, topic_id, registrations))]) == [True]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def data_of(folder: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in folder.rglob("*.log"))


async def test_a_directory_from_apache_kafka_becomes_a_topic_with_its_id(tmp_path: Path) -> None:
    make_partition(tmp_path, "flights-0", FLIGHTS, epochs="0\n2\n0 0\n4 17\n")
    make_partition(tmp_path, "flights-2", FLIGHTS)
    store = open_store(tmp_path)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    topic = store.topic("flights")
    assert topic is not None
    assert topic.topic_id == FLIGHTS
    assert len(topic.partitions) == 3, "the missing one in the middle is made: keys go by the number of partitions"
    assert [partition.leader_epoch for partition in topic.partitions] == [5, 0, 0]
    assert {partition.leader for partition in topic.partitions} == {1}
    assert open_store(tmp_path).topics == store.topics


async def test_retention_does_not_delete_what_an_unknown_override_kept(tmp_path: Path) -> None:
    make_partition(tmp_path, "flights-0", FLIGHTS)
    store = open_store(tmp_path)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    assert store.configs(ConfigResource.topic("flights")) == {"retention.ms": "-1", "retention.bytes": "-1"}


async def test_a_coordinators_topic_gets_its_own_overrides(tmp_path: Path) -> None:
    make_partition(tmp_path, "__consumer_offsets-49", FLIGHTS)
    store = open_store(tmp_path)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    topic = store.topic("__consumer_offsets")
    assert topic is not None
    assert len(topic.partitions) == 50
    assert store.configs(ConfigResource.topic("__consumer_offsets"))["cleanup.policy"] == "compact"


async def test_what_is_known_is_left_as_it_is(tmp_path: Path) -> None:
    make_partition(tmp_path, "flights-0", FLIGHTS)
    store = open_store(tmp_path)
    await create(store, "flights", FLIGHTS)
    before = (tmp_path / "tailrace-metadata.json").read_bytes()
    plan = await adopt_topics(DISK, store, config(tmp_path), 1)
    assert [*plan.new_topics, *plan.more_partitions, *plan.strays, *plan.mended, *plan.deletions] == []
    assert (tmp_path / "tailrace-metadata.json").read_bytes() == before
    assert store.configs(ConfigResource.topic("flights")) == {}


async def test_a_known_topic_grows_to_the_partitions_that_lie_there(tmp_path: Path) -> None:
    make_partition(tmp_path, "flights-3", FLIGHTS)
    store = open_store(tmp_path)
    await create(store, "flights", FLIGHTS)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    topic = store.topic("flights")
    assert topic is not None
    assert len(topic.partitions) == 4


async def test_a_directory_of_another_topic_of_that_name_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_partition(tmp_path, "flights-0", PLANES)
    store = open_store(tmp_path)
    await create(store, "flights", FLIGHTS)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    (kept,) = names(tmp_path)
    assert kept.startswith("flights-0.")
    assert kept.endswith("-stray")
    assert data_of(tmp_path) == [b"data of flights-0"]
    assert "is not served" in caplog.text


async def test_the_id_that_most_partitions_have_is_the_topics(tmp_path: Path) -> None:
    make_partition(tmp_path, "flights-0", PLANES)
    make_partition(tmp_path, "flights-1", FLIGHTS)
    make_partition(tmp_path, "flights-2", FLIGHTS)
    store = open_store(tmp_path)
    plan = await adopt_topics(DISK, store, config(tmp_path), 1)
    topic = store.topic("flights")
    assert topic is not None
    assert (topic.topic_id, len(topic.partitions)) == (FLIGHTS, 3)
    assert [partition.number for partition, _ in plan.strays] == [0]
    assert len(data_of(tmp_path)) == 3


async def test_a_renamed_copy_does_not_take_the_topics_id(tmp_path: Path) -> None:
    make_partition(tmp_path, "flights-0", FLIGHTS)
    make_partition(tmp_path, "flights_copy-0", FLIGHTS)
    store = open_store(tmp_path)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    assert list(store.topics) == ["flights"]
    assert len(data_of(tmp_path)) == 2


async def test_a_deleted_topics_directory_does_not_revive_it(tmp_path: Path) -> None:
    make_partition(tmp_path, "flights-0", FLIGHTS)
    store = open_store(tmp_path)
    await create(store, "flights", FLIGHTS)
    await store.delete_topics([FLIGHTS])
    await adopt_topics(DISK, store, config(tmp_path), 1)
    assert list(store.topics) == []
    (left,) = names(tmp_path)
    assert left.endswith("-delete")
    assert list(store.deleted_topic_ids) == [FLIGHTS]
    await adopt_topics(DISK, store, config(tmp_path), 1)
    assert list(store.deleted_topic_ids) == [], "no directory of it is left, so there is nothing to remember"


async def test_a_topic_made_again_keeps_its_own_directory_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await create(store, "flights", FLIGHTS)
    await store.delete_topics([FLIGHTS])
    await create(store, "flights", PLANES, partitions=2)
    make_partition(tmp_path, "flights-0", FLIGHTS)
    make_partition(tmp_path, "flights-1", PLANES)
    plan = await adopt_topics(DISK, store, config(tmp_path), 1)
    assert [partition.number for partition in plan.deletions] == [0]
    assert "flights-1" in names(tmp_path)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_flipped_bit_in_a_topic_id_is_mended(tmp_path: Path, is_known: bool) -> None:
    good = make_partition(tmp_path, "flights-0", FLIGHTS)
    whole = (good / "partition.metadata").read_bytes()
    make_partition(tmp_path, "flights-1", FLIGHTS)
    damaged = make_partition(tmp_path, "flights-2", None)
    for position in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[position] ^= 0x02
        (damaged / "partition.metadata").write_bytes(flipped)
        folder = tmp_path / "metadata" / str(position)
        folder.mkdir(parents=True)
        store = open_store(folder)
        if is_known:
            await create(store, "flights", FLIGHTS, partitions=3)
        await adopt_topics(DISK, store, config(tmp_path), 1)
        topic = store.topic("flights")
        assert topic is not None
        assert len(topic.partitions) == 3
        assert read_partition_metadata(DISK, damaged) == FLIGHTS, f"byte {position}"


async def test_a_directory_without_an_id_takes_that_of_its_topic(tmp_path: Path) -> None:
    bare = make_partition(tmp_path, "flights-0", None)
    make_partition(tmp_path, "flights-1", FLIGHTS)
    alone = make_partition(tmp_path, "planes-0", None)
    store = open_store(tmp_path)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    assert read_partition_metadata(DISK, bare) == FLIGHTS
    planes = store.topic("planes")
    assert planes is not None
    assert read_partition_metadata(DISK, alone) == planes.topic_id


async def test_the_same_partition_in_two_directories_is_left_to_the_log_manager(tmp_path: Path) -> None:
    make_partition(tmp_path / "a", "flights-0", FLIGHTS)
    make_partition(tmp_path / "b", "flights-0", FLIGHTS)
    store = open_store(tmp_path / "a")
    plan = await adopt_topics(DISK, store, config(tmp_path / "a", tmp_path / "b"), 1)
    assert plan.strays == []
    topic = store.topic("flights")
    assert topic is not None
    assert len(topic.partitions) == 1
    assert len(data_of(tmp_path)) == 2


async def test_a_number_out_of_all_proportion_is_no_partition(tmp_path: Path) -> None:
    make_partition(tmp_path, "backup-20240101", None)
    store = open_store(tmp_path)
    await adopt_topics(DISK, store, config(tmp_path), 1)
    assert list(store.topics) == []
    assert data_of(tmp_path) == [b"data of backup-20240101"]


@pytest.mark.parametrize(
    "name",
    ["__cluster_metadata-0", "flights", "flights-", "flights-00", "flights-x", "a b-0", "flights-0.1f-delete", "-0"],
)
def test_other_directories_are_left_alone(tmp_path: Path, name: str) -> None:
    make_partition(tmp_path, name, random_uuid())
    assert find_partitions(DISK, [tmp_path]) == []


def test_a_directory_with_nothing_of_a_log_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "flights-0").mkdir()
    (tmp_path / "planes-0").write_text("a file")
    assert find_partitions(DISK, [tmp_path, tmp_path / "missing"]) == []
