"""The broker's settings that change while it runs: from the metadata store into `broker.config` and whoever goes by it.

Two layers are kept in the store, that of all brokers and that of this one. `effective_config` lays them over the static
settings at start; `follow_dynamic_config` does so again whenever one of them changes. Only settings whose update mode
allows it ever get there, so a part that reads `broker.config` when it needs a value is up to date without being told;
logs keep their own `LogConfig`, and the replica manager gives them another.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tailrace.broker.broker import Broker
from tailrace.broker.metadata_store import ALL_BROKERS, ConfigResource, MetadataDelta, MetadataStore
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError

LOGGER = logging.getLogger(__name__)


def effective_config(static: BrokerConfig, metadata: MetadataStore, node_id: int) -> BrokerConfig:
    """Lay the dynamic settings over the static ones, which tell the node's id under both of its names, as Kafka's do.

    A stored value that is no longer valid (another version wrote it) is left out and named in the log: the broker
    starts, and the next change of that resource can mend it.
    """
    own_id = {"node.id": str(node_id), "broker.id": str(node_id)}
    static = BrokerConfig({**static.static, **own_id})
    all_brokers, own = metadata.configs(ALL_BROKERS), metadata.configs(ConfigResource.broker(node_id))
    try:
        return static.with_dynamic(dynamic_default=all_brokers, dynamic_broker=own)
    except ConfigError:
        return static.with_dynamic(
            dynamic_default=_valid_part(static, all_brokers), dynamic_broker=_valid_part(static, own)
        )


def follow_dynamic_config(broker: Broker) -> None:
    """Keep `broker.config` and its logs up to date from now on."""
    watched = {ALL_BROKERS, ConfigResource.broker(broker.node_id)}

    def on_metadata(delta: MetadataDelta) -> None:
        if watched.isdisjoint(delta.changed_configs):
            return
        broker.config = effective_config(broker.config, broker.metadata, broker.node_id)
        broker.replica_manager.reconfigure(broker.config)
        broker.log_manager.reconfigure(broker.config)
        LOGGER.info(
            "dynamic settings are now %s for all brokers and %s for this one",
            sorted(broker.config.dynamic_default),
            sorted(broker.config.dynamic_broker),
        )

    broker.metadata.subscribe(on_metadata)


def _valid_part(static: BrokerConfig, texts: Mapping[str, str]) -> dict[str, str]:
    valid: dict[str, str] = {}
    for key, text in texts.items():
        try:
            static.with_dynamic(dynamic_default={**valid, key: text}, dynamic_broker={})
        except ConfigError as error:
            LOGGER.error("a stored dynamic setting is left out: %s", error)
        else:
            valid[key] = text
    return valid
