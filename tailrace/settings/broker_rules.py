"""What has to hold between a broker's settings, beyond the range of each: Kafka 4.1's rules.

`check_broker_rules(config)` raises ConfigError for the first rule that is broken. Rules about parts of Kafka that
Tailrace has not (a quorum of controllers, tiered storage) are not held, so that a file may leave those parts out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.settings.config_error import ConfigError
from tailrace.settings.listeners import check_ports, parse_endpoints, parse_protocol_map

if TYPE_CHECKING:
    from tailrace.settings.broker_config import BrokerConfig


def check_broker_rules(config: BrokerConfig) -> None:
    """Raise ConfigError where two settings of a broker contradict each other."""
    _check_orders(config)
    _check_groups(config)
    _check_log(config)
    _check_network(config)
    _check_listeners(config)


_ORDERS = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    *(
        pair
        for kind in ("consumer", "share", "streams")
        for pair in (
            (f"group.{kind}.min.heartbeat.interval.ms", f"group.{kind}.max.heartbeat.interval.ms"),
            (f"group.{kind}.min.heartbeat.interval.ms", f"group.{kind}.heartbeat.interval.ms"),
            (f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.max.heartbeat.interval.ms"),
            (f"group.{kind}.min.session.timeout.ms", f"group.{kind}.max.session.timeout.ms"),
            (f"group.{kind}.min.session.timeout.ms", f"group.{kind}.session.timeout.ms"),
            (f"group.{kind}.session.timeout.ms", f"group.{kind}.max.session.timeout.ms"),
        )
    ),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)
"""Pairs of settings of which the first may not be above the second."""


def _check_orders(config: BrokerConfig) -> None:
    given = config.texts
    for lesser, greater in _ORDERS:
        if lesser not in given and greater not in given:
            continue  # Kafka's defaults keep every order
        limit: int = getattr(config, config.settings[greater].name)
        value: int = getattr(config, config.settings[lesser].name)
        if value > limit:
            raise ConfigError(lesser, value, f"at most {greater} ({limit})")


def _check_groups(config: BrokerConfig) -> None:
    for key, heartbeat, session in (
        (
            "group.consumer.heartbeat.interval.ms",
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_session_timeout_ms,
        ),
        (
            "group.share.heartbeat.interval.ms",
            config.group_share_heartbeat_interval_ms,
            config.group_share_session_timeout_ms,
        ),
        (
            "group.streams.heartbeat.interval.ms",
            config.group_streams_heartbeat_interval_ms,
            config.group_streams_session_timeout_ms,
        ),
    ):
        if heartbeat >= session:
            raise ConfigError(key, heartbeat, f"less than the session timeout ({session} ms)")
    protocols = config.group_coordinator_rebalance_protocols
    if "classic" not in protocols:
        raise ConfigError("group.coordinator.rebalance.protocols", ",".join(protocols), "a list that has classic")


def _check_log(config: BrokerConfig) -> None:
    if not config.log_directories:
        raise ConfigError("log.dirs", config.log_dirs, "at least one directory")
    for key, value, least in (
        ("log.roll.ms", config.log_roll_ms, 1),
        ("log.roll.jitter.ms", config.log_roll_jitter_ms, 0),
    ):
        if value is not None and value < least:
            raise ConfigError(key, value, f"at least {least}")
    for key, retention in (
        ("log.retention.ms", config.log_retention_ms),
        ("log.retention.minutes", config.log_retention_minutes),
        ("log.retention.hours", config.log_retention_hours),
    ):
        if retention == 0:
            raise ConfigError(key, retention, "at least 1, or -1 for ever")
    per_thread = config.log_cleaner_dedupe_buffer_size // max(config.log_cleaner_threads, 1)
    if config.log_cleaner_threads and per_thread <= 1024 * 1024:
        raise ConfigError(
            "log.cleaner.dedupe.buffer.size",
            config.log_cleaner_dedupe_buffer_size,
            f"more than 1048576 bytes for each of the {config.log_cleaner_threads} cleaner threads",
        )
    for key, codec in (
        ("offsets.topic.compression.codec", config.offsets_topic_compression_codec),
        ("share.coordinator.state.topic.compression.codec", config.share_coordinator_state_topic_compression_codec),
    ):
        if codec not in range(5):
            raise ConfigError(key, codec, "a codec's number, from 0 to 4")


def _check_network(config: BrokerConfig) -> None:
    overrides = parse_connection_overrides(config.max_connections_per_ip_overrides)
    if config.max_connections_per_ip == 0 and not overrides:
        raise ConfigError("max.connections.per.ip", 0, "at least 1 where max.connections.per.ip.overrides is empty")
    queued = config.queued_max_request_bytes
    if 0 < queued < config.socket_request_max_bytes:
        raise ConfigError(
            "queued.max.request.bytes",
            queued,
            f"at least socket.request.max.bytes ({config.socket_request_max_bytes}), or -1 for no limit",
        )
    idle = config.connections_max_idle_ms
    if 0 < idle <= config.connection_failed_authentication_delay_ms:
        raise ConfigError(
            "connection.failed.authentication.delay.ms",
            config.connection_failed_authentication_delay_ms,
            f"less than connections.max.idle.ms ({idle})",
        )


def parse_connection_overrides(text: str) -> dict[str, int]:
    """Read `max.connections.per.ip.overrides`: the limit of each host."""
    limits: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, limit = (word.strip() for word in part.rpartition(":"))
        if not host or not limit.isascii() or not limit.isdigit():
            raise ConfigError("max.connections.per.ip.overrides", text, "a list of host:count")
        limits[host] = int(limit)
    return limits


def _check_listeners(config: BrokerConfig) -> None:
    protocols = parse_protocol_map(config.effective_protocol_map)
    endpoints = parse_endpoints("listeners", config.listeners, protocols)
    if not config.listener_endpoints:
        raise ConfigError("listeners", config.listeners, "at least one listener that is not the controller's")
    check_ports("listeners", config.listeners, endpoints)
    names = {endpoint.name for endpoint in endpoints}
    advertised = config.advertised_endpoints
    text = config.advertised_listeners
    if not advertised:
        raise ConfigError("advertised.listeners", text, "at least one listener that is not the controller's")
    for endpoint in advertised:
        if endpoint.host in ("0.0.0.0", "::"):
            raise ConfigError("advertised.listeners", text, f"an address that clients can reach, not {endpoint.host}")
        if endpoint.name not in names:
            raise ConfigError("advertised.listeners", text, f"only names that listeners has, not {endpoint.name}")
    _check_listener_between_brokers(config, {endpoint.name for endpoint in advertised})
    for name in (config.early_start_listeners or "").upper().split(","):
        if name.strip() and name.strip() not in names | config.controller_listeners:
            raise ConfigError("early.start.listeners", config.early_start_listeners, "only names that listeners has")


def _check_listener_between_brokers(config: BrokerConfig, advertised: set[str]) -> None:
    expected = f"one of the advertised listeners: {', '.join(sorted(advertised))}"
    name = config.inter_broker_listener_name
    protocol = config.security_inter_broker_protocol
    if name is None:
        if protocol not in advertised:
            raise ConfigError("security.inter.broker.protocol", protocol, expected)
        return
    if "security.inter.broker.protocol" in config.texts:
        absent = "to be absent where inter.broker.listener.name is given"
        raise ConfigError("security.inter.broker.protocol", protocol, absent)
    if name.upper() not in advertised:
        raise ConfigError("inter.broker.listener.name", name, expected)
