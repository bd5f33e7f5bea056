"""A client's settings as one object that is valid: `ProducerConfig({"linger_ms": 20, "compression.type": "lz4"})`.

A setting is given by Kafka's name, with dots or with underscores, as a Python value or as the text that a properties
file has. Each is checked when the object is made, and so is what several of them say together; ConfigError names the
key, the value and what would be right. The object is never changed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final, cast

from tailrace.settings.client.admin import AdminSettings
from tailrace.settings.client.connection import ConnectionSettings
from tailrace.settings.client.consumer import ConsumerSettings
from tailrace.settings.client.offset_reset import OffsetReset, parse_offset_reset
from tailrace.settings.client.producer import ProducerSettings
from tailrace.settings.client.security import MECHANISMS, ClientSecuritySettings
from tailrace.settings.config_error import ConfigError
from tailrace.settings.definition import Setting

IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
"""How many of a producer's batches a broker remembers for each partition: more in flight, and order is lost."""

_COMPRESSION_LEVELS: Final = {
    "gzip": "compression_gzip_level",
    "lz4": "compression_lz4_level",
    "zstd": "compression_zstd_level",
}


class ClientConfig(ConnectionSettings, ClientSecuritySettings):
    """What every client goes by; every setting is an attribute, `config.request_timeout_ms`."""

    given: Mapping[str, str]
    """The texts that were given, by Kafka's names."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        given: dict[str, str] = {}
        self.__dict__["given"] = given
        for name, value in (options or {}).items():
            if value is None:
                continue
            setting = self.settings.get(name.replace("_", "."))
            if setting is None:
                raise ConfigError(name, value, self._expected_instead_of(name))
            given[setting.key] = text = _text_of(value)
            self.__dict__[setting.name] = setting.parse(text)
        self._check()

    def text_of(self, setting: Setting[Any]) -> str | None:
        """Give the text that was given for a setting, or None where the default holds."""
        return self.given.get(setting.key)

    @property
    def api_timeout_ms(self) -> int:
        """How long one operation is tried, all its requests together."""
        return 60_000

    @property
    def is_encrypted(self) -> bool:
        """Whether connections use TLS."""
        return self.security_protocol.upper() in ("SSL", "SASL_SSL")

    @property
    def is_authenticated(self) -> bool:
        """Whether connections begin with SASL."""
        return self.security_protocol.upper().startswith("SASL")

    def _check(self) -> None:
        """Raise ConfigError where settings contradict each other."""
        if self.is_authenticated and self.sasl_mechanism not in MECHANISMS:
            raise ConfigError("sasl.mechanism", self.sasl_mechanism, f"one of {', '.join(MECHANISMS)}")
        if (self.ssl_keystore_certificate_chain is None) != (self.ssl_keystore_key is None):
            missing = "ssl.keystore.key" if self.ssl_keystore_key is None else "ssl.keystore.certificate.chain"
            raise ConfigError(missing, None, "the certificate chain and its private key, both or none")

    def _expected_instead_of(self, name: str) -> str:
        """Say what an unknown name may have meant."""
        near = difflib.get_close_matches(name.replace(".", "_"), [s.name for s in self.settings.values()], n=1)
        return f"the name of a setting; is {near[0]} meant?" if near else "the name of a setting"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} can't be set: make another {type(self).__name__}")

    def __repr__(self) -> str:
        shown = {key: "[hidden]" if self.settings[key].is_sensitive else text for key, text in self.given.items()}
        return f"{type(self).__name__}({shown})"


class AdminConfig(ClientConfig, AdminSettings):
    """What an administration client goes by."""

    @property
    def api_timeout_ms(self) -> int:
        """How long one operation is tried, all its requests together."""
        return self.default_api_timeout_ms


class ConsumerConfig(ClientConfig, ConsumerSettings):
    """What a consumer goes by. Without a group.id nothing is committed unless that is asked for."""

    @property
    def api_timeout_ms(self) -> int:
        """How long one operation is tried, all its requests together."""
        return self.default_api_timeout_ms

    @property
    def offset_reset(self) -> OffsetReset:
        """What `auto.offset.reset` says."""
        return parse_offset_reset(self.auto_offset_reset) or OffsetReset("latest")

    @property
    def is_read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.isolation_level == "read_committed"

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the coordinator assigns the partitions (KIP-848)."""
        return self.group_protocol.upper() == "CONSUMER"

    @property
    def commits_by_itself(self) -> bool:
        """Whether positions are committed now and then."""
        return self.enable_auto_commit and self.group_id is not None

    def _check(self) -> None:
        super()._check()
        if self.group_id is not None and not self.group_id.strip():
            raise ConfigError("group.id", self.group_id, "the name of a group, or none")
        if self.group_id is None and "enable.auto.commit" in self.given and self.enable_auto_commit:
            raise ConfigError("enable.auto.commit", "true", "false without a group.id, for who would commit")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group.instance.id", self.group_instance_id, "a group.id beside it")
        self._check_protocol()

    def _check_protocol(self) -> None:
        """Raise ConfigError for settings of the other protocol, and for times that do not fit together."""
        if self.uses_consumer_protocol:
            for key in ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"):
                if key in self.given:
                    raise ConfigError(key, self.given[key], "nothing with group.protocol=consumer: the broker decides")
            return
        if self.group_remote_assignor is not None:
            raise ConfigError("group.remote.assignor", self.group_remote_assignor, "group.protocol=consumer beside it")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            expected = f"less than session.timeout.ms, {self.session_timeout_ms}"
            raise ConfigError("heartbeat.interval.ms", self.heartbeat_interval_ms, expected)
        if not self.partition_assignment_strategy:
            raise ConfigError("partition.assignment.strategy", "", "the name of at least one assignor")


class ProducerConfig(ClientConfig, ProducerSettings):
    """What a producer goes by.

    Idempotence is on unless it was turned off, or acks, retries or the requests in flight were given so that it cannot
    be: as in Kafka, a setting that is given decides over a default.
    """

    @property
    def api_timeout_ms(self) -> int:
        """How long one operation is tried, all its requests together."""
        return self.max_block_ms

    @property
    def required_acks(self) -> int:
        """The number that stands for `acks` in a request; -1 is all."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression_level(self) -> int | None:
        """The level of the codec that is set; None where it has none, or its own default is asked for."""
        name = _COMPRESSION_LEVELS.get(self.compression_type)
        level = None if name is None else cast("int", getattr(self, name))
        return None if level == -1 and self.compression_type == "gzip" else level

    @property
    def is_idempotent(self) -> bool:
        """Whether batches are numbered."""
        return self.enable_idempotence and self._obstacle() is None

    def _obstacle(self) -> ConfigError | None:
        """Say which setting does not go with idempotence."""
        if self.required_acks != -1:
            return ConfigError("acks", self.acks, "all, which idempotence needs")
        if self.retries == 0:
            return ConfigError("retries", self.retries, "at least 1, which idempotence needs")
        if self.max_in_flight_requests_per_connection > IDEMPOTENT_IN_FLIGHT_MAX:
            key, value = "max.in.flight.requests.per.connection", self.max_in_flight_requests_per_connection
            return ConfigError(key, value, f"at most {IDEMPOTENT_IN_FLIGHT_MAX}, which idempotence needs")
        return None

    def _check(self) -> None:
        super()._check()
        obstacle = self._obstacle()
        if obstacle is not None and "enable.idempotence" in self.given and self.enable_idempotence:
            raise obstacle
        if self.transactional_id is not None and not self.is_idempotent:
            raise obstacle or ConfigError("enable.idempotence", "false", "true, which transactions need")
        needed = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < needed:
            if "delivery.timeout.ms" in self.given:
                expected = f"at least linger.ms and request.timeout.ms together, {needed}"
                raise ConfigError("delivery.timeout.ms", self.delivery_timeout_ms, expected)
            self.__dict__["delivery_timeout_ms"] = needed


def _text_of(value: Any) -> str:
    """Write a Python value as a properties file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in cast("tuple[object, ...]", value))
    return str(value)
