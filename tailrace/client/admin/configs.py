"""The settings of topics, brokers and groups: described, and changed one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from tailrace.client.admin.session import UNKNOWN, AdminSession
from tailrace.client.errors import error_of, raise_for_code
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    """What has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class AlterOperation(IntEnum):
    """What is done to a setting: APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting; the value of a sensitive one is never told."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one setting."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


class ConfigAdmin(AdminSession):
    """Administration of settings."""

    async def describe_configs(
        self,
        resource_type: ResourceType,
        names: Sequence[str],
        *,
        keys: Sequence[str] | None = None,
        with_documentation: bool = False,
    ) -> dict[str, list[ConfigEntry] | ApiError]:
        """Give the settings of topics or brokers."""
        resources = [
            DescribeConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for name in names
        ]
        request = DescribeConfigsRequest(resources=resources, include_documentation=with_documentation)
        node_id = _node_of(resource_type, names)

        async def attempt() -> dict[str, list[ConfigEntry] | ApiError]:
            connection = await self._connection_for(node_id)
            response = await connection.request(request, DescribeConfigsResponse)
            return {result.resource_name: _read_configs(result) for result in response.results}

        return await self._cluster.retrying("describing configurations", attempt)

    async def alter_configs(
        self, resource_type: ResourceType, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change some settings of a topic or broker and leave the others; ApiError where one is refused."""
        configs = [
            AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
            for change in changes
        ]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        node_id = _node_of(resource_type, [name])

        async def attempt() -> None:
            connection = await self._connection_for(node_id)
            response = await connection.request(request, IncrementalAlterConfigsResponse)
            for result in response.responses:
                raise_for_code(result.error_code, result.error_message)

        await self._cluster.retrying("altering configurations", attempt, final=UNKNOWN)


def _node_of(resource_type: ResourceType, names: Sequence[str]) -> int | None:
    """Give the broker that has to be asked: the settings of a broker are its own, those of topics everybody's."""
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and len(names) == 1 and names[0].isdecimal():
        return int(names[0])
    return None


def _read_configs(result: DescribeConfigsResult) -> list[ConfigEntry] | ApiError:
    error = error_of(result.error_code, result.error_message or result.resource_name)
    if error is not None:
        return error
    return [
        ConfigEntry(
            entry.name,
            entry.value,
            ConfigSource(entry.config_source) if entry.config_source in _CONFIG_SOURCES else ConfigSource.UNKNOWN,
            entry.read_only,
            entry.is_sensitive,
            entry.documentation or None,
        )
        for entry in result.configs
    ]


_CONFIG_SOURCES = frozenset(ConfigSource)
