"""Reading and changing what is set for topics, brokers, loggers, groups and client metrics.

Each kind of resource has its own idea of what may be set; the settings package decides that, and here is who is asked,
what the refusal is called on the wire, and the step that makes a change last. Changes take effect as the listeners of
the metadata store hear of them: the replica manager for topics, `dynamic_config.py` for the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.broker_loggers import change_logger_levels, check_logger_changes, logger_levels
from tailrace.broker.metadata_store import ALL_BROKERS, ConfigResource, ConfigResourceType, StaleMetadata
from tailrace.broker.request import ConnectionInfo
from tailrace.broker.topic_names import check_topic_name
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.settings.alter_config import (
    AlterOperation,
    ConfigChange,
    change_broker,
    change_topic,
    replace_broker,
    replace_topic,
)
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.client_metrics_config import ClientMetricsConfig
from tailrace.settings.config_error import ChangeRejected, ConfigError
from tailrace.settings.described_config import (
    ConfigSource,
    ConfigSynonym,
    DescribedConfig,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from tailrace.settings.group_config import GroupConfig

NewValues = Callable[[Mapping[str, str]], dict[str, str]]
"""Gives what will be set for a resource, from what is set now."""


def check_config_access(
    broker: Broker, connection: ConnectionInfo, operation: AclOperation, resource_type: int, name: str
) -> None:
    """Raise the fitting AUTHORIZATION_FAILED where the connection may not do this to the resource."""
    guarded, code = (ResourceType.CLUSTER, CLUSTER_NAME), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if resource_type == ConfigResourceType.TOPIC:
        guarded, code = (ResourceType.TOPIC, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif resource_type == ConfigResourceType.GROUP:
        guarded, code = (ResourceType.GROUP, name), ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not broker.authorizer.authorize(connection, operation, *guarded):
        raise ApiError(code)


def describe_resource(
    broker: Broker, resource_type: int, name: str, keys: Collection[str] | None
) -> list[DescribedConfig]:
    """List what DescribeConfigs shows of a resource; ApiError where there is no such resource."""
    match resource_type:
        case ConfigResourceType.TOPIC:
            check_topic_name(name)
            if broker.metadata.topic(name) is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return describe_topic(broker.config, broker.metadata.configs(ConfigResource.topic(name)), keys)
        case ConfigResourceType.BROKER:
            if not name:
                return describe_broker_defaults(broker.config, keys)
            _check_own_id(broker, name)
            return describe_broker(broker.config, keys)
        case ConfigResourceType.BROKER_LOGGER:
            _check_own_id(broker, name)
            return _described_loggers(keys)
        case ConfigResourceType.CLIENT_METRICS:
            _check_named(name, "client metrics subscription")
            values = broker.metadata.configs(ConfigResource(ConfigResourceType.CLIENT_METRICS, name))
            subscription = ClientMetricsConfig(values)
            return _described(subscription, ConfigSource.CLIENT_METRICS_CONFIG, keys)
        case ConfigResourceType.GROUP:
            _check_named(name, "group")
            values = broker.metadata.configs(ConfigResource(ConfigResourceType.GROUP, name))
            return _described(GroupConfig(broker.config, values), ConfigSource.GROUP_CONFIG, keys)
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


async def alter_resource(
    broker: Broker, resource_type: int, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> None:
    """Change single settings of a resource (IncrementalAlterConfigs); ApiError where one of them can't be."""
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        _check_own_id(broker, name)
        check_logger_changes(changes)
        if not validate_only:
            change_logger_levels(changes)
        return
    resource = _changeable(broker, resource_type, name)
    await _change(broker, resource, _incremental(broker, resource, changes), validate_only=validate_only)


async def replace_resource(
    broker: Broker,
    resource_type: int,
    name: str,
    values: Sequence[tuple[str, str | None]],
    *,
    validate_only: bool = False,
) -> None:
    """Replace all that is set for a resource (AlterConfigs); ApiError where it can't be."""
    resource = _changeable(broker, resource_type, name)
    proposed: dict[str, str] = {}
    for key, value in values:
        if key in proposed:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} is given more than once")
        if value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} can't be null")
        proposed[key] = value
    await _change(broker, resource, _replacement(broker, resource, proposed), validate_only=validate_only)


async def _change(broker: Broker, resource: ConfigResource, new_values: NewValues, *, validate_only: bool) -> None:
    while True:
        present = broker.metadata.configs(resource)
        try:
            values = new_values(present)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        except ChangeRejected as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
        if validate_only:
            return
        try:
            await broker.metadata.change_configs(resource, expected=present, values=values)
        except StaleMetadata:
            continue  # somebody changed it meanwhile: the change is made to what is there now
        return


def _incremental(broker: Broker, resource: ConfigResource, changes: Sequence[ConfigChange]) -> NewValues:
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return lambda present: change_topic(broker.config, present, changes)
        case ConfigResourceType.BROKER:
            return lambda _: _dynamic_layer(
                change_broker(broker.config, changes, cluster_wide=resource == ALL_BROKERS), resource
            )
        case _:
            return lambda present: _checked(broker, resource, _set_and_delete(present, changes))


def _replacement(broker: Broker, resource: ConfigResource, proposed: Mapping[str, str]) -> NewValues:
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return lambda _: replace_topic(broker.config, proposed.items())
        case ConfigResourceType.BROKER:
            return lambda _: _dynamic_layer(
                replace_broker(broker.config, proposed, cluster_wide=resource == ALL_BROKERS), resource
            )
        case _:
            return lambda _: _checked(broker, resource, dict(proposed))


def _dynamic_layer(config: BrokerConfig, resource: ConfigResource) -> dict[str, str]:
    return dict(config.dynamic_default if resource == ALL_BROKERS else config.dynamic_broker)


def _set_and_delete(present: Mapping[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    """Make the changes that groups and subscriptions take; Kafka knows no lists among their settings."""
    values = dict(present)
    if len({change.name for change in changes}) != len(changes):
        raise ChangeRejected("a setting is given more than once")
    for change in changes:
        if change.operation is AlterOperation.DELETE:
            values.pop(change.name, None)
        elif change.operation is not AlterOperation.SET:
            raise ConfigError(change.name, change.value, f"SET or DELETE, not {change.operation.name}")
        elif change.value is None:
            raise ChangeRejected(f"{change.name} can't be null: delete it to take the default")
        else:
            values[change.name] = change.value
    return values


def _checked(broker: Broker, resource: ConfigResource, values: dict[str, str]) -> dict[str, str]:
    if resource.resource_type is ConfigResourceType.GROUP:
        GroupConfig(broker.config, values)
    else:
        ClientMetricsConfig(values)
    return values


def _changeable(broker: Broker, resource_type: int, name: str) -> ConfigResource:
    """Give the resource whose settings are kept in the metadata store; ApiError where there is none."""
    match resource_type:
        case ConfigResourceType.TOPIC:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Topics have no common default: a topic has to be named")
            check_topic_name(name)
            if broker.metadata.topic(name) is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        case ConfigResourceType.BROKER:
            if name:
                _check_own_id(broker, name)
        case ConfigResourceType.GROUP | ConfigResourceType.CLIENT_METRICS:
            _check_named(name, "group" if resource_type == ConfigResourceType.GROUP else "client metrics subscription")
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    return ConfigResource(ConfigResourceType(resource_type), name)


def _check_own_id(broker: Broker, name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    try:
        node_id = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if node_id != broker.node_id:
        # Only the broker itself knows its settings: clients send such a request to the broker it is about.
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.node_id}, not {node_id}")


def _check_named(name: str, kind: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A {kind} has to be named")


def _described_loggers(keys: Collection[str] | None) -> list[DescribedConfig]:
    return [
        DescribedConfig(
            name=name,
            value=level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            is_sensitive=False,
            synonyms=[],
            config_type=0,
            documentation="",
        )
        for name, level in logger_levels().items()
        if keys is None or name in keys
    ]


def _described(
    config: GroupConfig | ClientMetricsConfig, own_source: ConfigSource, keys: Collection[str] | None
) -> list[DescribedConfig]:
    described: list[DescribedConfig] = []
    for key, setting in config.settings.items():
        if keys is not None and key not in keys:
            continue
        text = config.text_of(setting)
        value = (setting.default_text or "") if text is None else setting.normalize(text)
        source = own_source if key in config.overrides else ConfigSource.DEFAULT_CONFIG
        # A group's default names the setting itself as its synonym, a subscription's has none: Kafka's two habits.
        has_synonym = key in config.overrides or isinstance(config, GroupConfig)
        described.append(
            DescribedConfig(
                name=key,
                value=value,
                source=source,
                read_only=False,
                is_sensitive=False,
                synonyms=[ConfigSynonym(key, value, source)] if has_synonym else [],
                config_type=setting.value_type.value,
                documentation=setting.summary,
            )
        )
    return described
