"""Who this broker is: its node id and its cluster's id, kept in `meta.properties` of every data directory.

A cluster's id is made once, at the first start on an empty directory, and kept for ever; a directory that Apache Kafka
wrote brings its own. A directory of another broker or cluster is refused, because its partitions are not ours to serve.
A damaged file is renamed and written anew from what the metadata file beside it, or another directory, still says.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from tailrace.broker.local_metadata_store import read_stored_metadata, set_aside
from tailrace.protocol.uuid import random_uuid, uuid_text
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.meta_properties import FILE_NAME, MetaProperties, read_meta_properties, write_meta_properties

LOGGER = logging.getLogger(__name__)


class BrokerIdentity(NamedTuple):
    """The two names a broker has."""

    cluster_id: str
    node_id: int


class ForeignDirectory(Exception):
    """A data directory that belongs to another broker or cluster; says which, and how one finds out."""


def metadata_directory(config: BrokerConfig) -> Path:
    """Give the directory of the metadata file: `metadata.log.dir`, else the first of the log directories."""
    return Path(config.metadata_log_dir or config.log_directories[0])


def establish_identity(disk: Disk, config: BrokerConfig) -> BrokerIdentity:
    """Find out who this broker is, and write it into every data directory that does not say so yet.

    Raises ForeignDirectory where directories disagree with the settings or with each other, and DiskError where the
    metadata directory can't be used. Another directory that can't be used is left to the log manager.
    """
    directories = list(dict.fromkeys([metadata_directory(config), *map(Path, config.log_directories)]))
    found = {directory: meta for directory in directories if (meta := _read(disk, directory)) is not None}
    stored = read_stored_metadata(disk, directories[0])
    if stored is not None:
        # The metadata has a checksum and meta.properties has none: where both lie side by side, it decides.
        beside = found.get(directories[0])
        if beside is not None and (beside.cluster_id, beside.node_id) != (stored.cluster_id, stored.node_id):
            kept = set_aside(disk, directories[0] / FILE_NAME)
            LOGGER.error("%s does not agree with the metadata beside it; kept as %s", FILE_NAME, kept)
            del found[directories[0]]
        identity = BrokerIdentity(stored.cluster_id, stored.node_id)
    else:
        identity = _identity_of(found, config)
    _check(identity, found, config)
    for directory in directories:
        if directory not in found:
            _write(disk, directory, identity, is_needed=directory == directories[0])
    return identity


def _identity_of(found: dict[Path, MetaProperties], config: BrokerConfig) -> BrokerIdentity:
    cluster_ids = [meta.cluster_id for meta in found.values() if meta.cluster_id is not None]
    node_ids = [meta.node_id for meta in found.values()]
    cluster_id = cluster_ids[0] if cluster_ids else uuid_text(random_uuid())
    configured = _configured_node_id(config)
    if configured is not None:
        return BrokerIdentity(cluster_id, configured)
    return BrokerIdentity(cluster_id, node_ids[0] if node_ids else config.node_id)


def _configured_node_id(config: BrokerConfig) -> int | None:
    if "node.id" in config.static:
        return config.node_id
    return config.broker_id if config.broker_id >= 0 else None


def _check(identity: BrokerIdentity, found: dict[Path, MetaProperties], config: BrokerConfig) -> None:
    configured = _configured_node_id(config)
    if configured is not None and configured != identity.node_id:
        raise ForeignDirectory(
            f"node.id={configured} is configured, but {metadata_directory(config)} is that of node {identity.node_id}"
        )
    for directory, meta in found.items():
        if meta.node_id != identity.node_id:
            raise ForeignDirectory(
                f"{directory / FILE_NAME} says node.id={meta.node_id}, and this broker is node {identity.node_id};"
                " a directory belongs to one broker"
            )
        if meta.cluster_id not in (None, identity.cluster_id):
            raise ForeignDirectory(
                f"{directory / FILE_NAME} says cluster.id={meta.cluster_id}, and this cluster is {identity.cluster_id};"
                " a directory belongs to one cluster"
            )


def _read(disk: Disk, directory: Path) -> MetaProperties | None:
    try:
        return read_meta_properties(disk, directory)
    except CorruptFile as error:
        kept = set_aside(disk, directory / FILE_NAME)
        LOGGER.error("%s; it is kept as %s and written anew", error, kept.name)
        return None


def _write(disk: Disk, directory: Path, identity: BrokerIdentity, *, is_needed: bool) -> None:
    meta = MetaProperties(cluster_id=identity.cluster_id, node_id=identity.node_id, directory_id=random_uuid())
    try:
        disk.make_directory(directory)
        write_meta_properties(disk, directory, meta)
    except DiskError:
        if is_needed:
            raise
        LOGGER.exception("%s can't be written to", directory)
