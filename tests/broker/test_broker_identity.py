"""Whose data directory it is: kept for ever, and not to be mixed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.broker.broker_identity import ForeignDirectory, establish_identity
from tailrace.broker.local_metadata_store import LocalMetadataStore
from tailrace.broker.metadata_store import ALL_BROKERS
from tailrace.protocol.uuid import parse_uuid
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.disk import Disk
from tailrace.storage.meta_properties import read_meta_properties

DISK = Disk()
KAFKAS = "#\n#Sat Nov 21 08:57:00 UTC 2026\nnode.id=7\ndirectory.id=BCuLSP7q2O-HrCoPyhHYOw\nversion=1\n"
KAFKAS += "cluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"


def config(*folders: Path, **settings: str) -> BrokerConfig:
    texts = {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerConfig({"log.dirs": ",".join(map(str, folders)), **texts})


def test_a_cluster_id_is_made_once(tmp_path: Path) -> None:
    first = establish_identity(DISK, config(tmp_path / "data"))
    assert len(parse_uuid(first.cluster_id)) == 16
    assert first.node_id == 1
    assert establish_identity(DISK, config(tmp_path / "data")) == first
    meta = read_meta_properties(DISK, tmp_path / "data")
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == first
    assert meta.directory_id is not None


def test_a_directory_of_apache_kafka_brings_its_ids(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(KAFKAS)
    assert establish_identity(DISK, config(tmp_path)) == ("MkU3OEVBNTcwNTJENDM2Qg", 7)
    assert (tmp_path / "meta.properties").read_text() == KAFKAS
    assert establish_identity(DISK, config(tmp_path, tmp_path / "more")).node_id == 7
    assert read_meta_properties(DISK, tmp_path / "more") is not None


def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(KAFKAS)
    with pytest.raises(ForeignDirectory, match=r"node.id=7.*node 3"):
        establish_identity(DISK, config(tmp_path, node_id="3"))
    with pytest.raises(ForeignDirectory, match=r"node.id=7.*node 3"):
        establish_identity(DISK, config(tmp_path, broker_id="3"))


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "meta.properties").write_text(KAFKAS)
    (tmp_path / "b" / "meta.properties").write_text(KAFKAS.replace("MkU3", "AAAA"))
    with pytest.raises(ForeignDirectory, match=r"cluster.id=AAAA"):
        establish_identity(DISK, config(tmp_path / "a", tmp_path / "b"))


async def with_metadata(folder: Path) -> tuple[str, int]:
    identity = establish_identity(DISK, config(folder))
    store = LocalMetadataStore.open(DISK, folder, cluster_id=identity.cluster_id, node_id=identity.node_id)
    await store.change_configs(ALL_BROKERS, expected={}, values={"a": "b"})
    return identity


async def test_damage_to_meta_properties_does_not_change_who_the_broker_is(tmp_path: Path) -> None:
    identity = await with_metadata(tmp_path)
    whole = (tmp_path / "meta.properties").read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x02
        (tmp_path / "meta.properties").write_bytes(damaged)
        assert establish_identity(DISK, config(tmp_path)) == identity, f"byte {position}"
        (tmp_path / "meta.properties").write_bytes(whole[:position])
        assert establish_identity(DISK, config(tmp_path)) == identity, f"cut at {position}"


def test_without_metadata_another_directory_tells(tmp_path: Path) -> None:
    both = config(tmp_path / "a", tmp_path / "b")
    identity = establish_identity(DISK, both)
    (tmp_path / "a" / "meta.properties").write_bytes(b"")
    assert establish_identity(DISK, both) == identity
    assert (tmp_path / "a" / "meta.properties.damaged-1").exists()


async def test_a_configured_node_id_has_to_be_that_of_the_metadata(tmp_path: Path) -> None:
    await with_metadata(tmp_path)
    with pytest.raises(ForeignDirectory, match=r"node.id=2 is configured"):
        establish_identity(DISK, config(tmp_path, node_id="2"))
