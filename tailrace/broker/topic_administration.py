"""Creating, growing and deleting topics: what a wish has to satisfy, and the one durable step that grants it.

`plan_topic` and `plan_partitions` decide without changing anything, so `validate_only` is the plan alone. Every refusal
is an `ApiError` with Kafka's code and what was wrong; one topic's refusal does not touch the others of its request. The
logs appear and go as the replica manager hears of the change from the metadata store.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tailrace.broker.internal_topics import internal_topic_shape
from tailrace.broker.metadata_store import MetadataStore, NewTopic, StaleMetadata, TopicRegistration
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.broker.topic_assignment import assign_replicas, check_assignment, new_partition
from tailrace.broker.topic_names import CLUSTER_METADATA_TOPIC, check_topic_name, colliding_topic
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.uuid import random_uuid
from tailrace.settings.alter_config import check_topic
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.log_config import LogConfig

PARTITIONS_PER_REQUEST_MAX = 10_000
"""Kafka's bound on what one request may create."""

DEFAULT = -1
"""Asks for the broker's default number of partitions, or replication factor."""


class Administration(Protocol):
    """What this module needs of a broker."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings."""
        ...

    @property
    def metadata(self) -> MetadataStore:
        """Where topics are registered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWish:
    """A topic as somebody wants it; `assignments` are replicas by partition number, and exclude the two counts."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


async def create_topics(
    broker: Administration, wishes: Sequence[TopicWish], *, validate_only: bool = False
) -> list[NewTopic | ApiError]:
    """Create what can be created, in one step; give each topic, or the reason why it was not made."""
    if _partition_count(broker, wishes) > PARTITIONS_PER_REQUEST_MAX:
        refusal = f"A request may create {PARTITIONS_PER_REQUEST_MAX} partitions at most."
        return [ApiError(ErrorCode.POLICY_VIOLATION, refusal) for _ in wishes]
    outcomes: list[NewTopic | ApiError] = []
    for wish in wishes:
        try:
            outcomes.append(plan_topic(broker, wish))
        except ApiError as refusal:
            outcomes.append(refusal)
    if validate_only:
        return outcomes
    accepted = await broker.metadata.create_topics([plan for plan in outcomes if isinstance(plan, NewTopic)])
    was_created = iter(accepted)
    return [
        outcome if isinstance(outcome, ApiError) or next(was_created) else _already_exists(outcome.registration.name)
        for outcome in outcomes
    ]


def plan_topic(broker: Administration, wish: TopicWish) -> NewTopic:
    """Decide what the wished topic would be; raise ApiError where it can't be."""
    check_topic_name(wish.name)
    if wish.name == CLUSTER_METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{wish.name} is Kafka's own and can't be created.")
    if broker.metadata.topic(wish.name) is not None:
        raise _already_exists(wish.name)
    other = colliding_topic(wish.name, broker.metadata.topics)
    if other is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{wish.name}' collides with existing topic: {other}")
    configs = check_topic_configs(broker.config, wish.configs)
    partitions = _manual_partitions(broker, wish) if wish.assignments else _automatic_partitions(broker, wish)
    registration = TopicRegistration(name=wish.name, topic_id=random_uuid(), partitions=tuple(partitions))
    return NewTopic(registration, configs)


def check_topic_configs(config: BrokerConfig, configs: Mapping[str, str | None]) -> dict[str, str]:
    """Check a topic's overrides, each and together; INVALID_CONFIG says which key and what would be right."""
    checked: dict[str, str] = {}
    for key, value in configs.items():
        if key not in LogConfig.settings:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"A topic config can't be null: {key}")
        checked[key] = value
    try:
        check_topic(config, checked)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return checked


def automatic_topic(broker: Administration, name: str) -> TopicWish:
    """Give the topic that a client's mention of `name` brings into being; a coordinator's topic has its own shape."""
    shape = internal_topic_shape(broker.config, name, brokers=len(broker.metadata.brokers))
    if shape is None:
        return TopicWish(name=name)
    return TopicWish(
        name=name,
        partitions=shape.partitions,
        replication_factor=shape.replication_factor,
        configs=dict(shape.configs),
    )


async def delete_topics(broker: Administration, topics: Collection[TopicRegistration]) -> None:
    """Delete topics, with their overrides, in one step."""
    if topics:
        await broker.metadata.delete_topics([topic.topic_id for topic in topics])


async def grow_topic(
    broker: Administration,
    name: str,
    *,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    validate_only: bool = False,
) -> None:
    """Give a topic `count` partitions in all; ApiError where that is no growth or can't be done."""
    while True:
        topic = broker.metadata.topic(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        more = plan_partitions(broker, topic, count=count, assignments=assignments)
        if validate_only:
            return
        try:
            await broker.metadata.add_partitions(topic.topic_id, expected_count=len(topic.partitions), partitions=more)
        except StaleMetadata:
            continue  # somebody grew or deleted it meanwhile: what was planned no longer fits
        return


def plan_partitions(
    broker: Administration, topic: TopicRegistration, *, count: int, assignments: Sequence[Sequence[int]] | None
) -> list[PartitionRegistration]:
    """Decide the partitions that bring `topic` to `count` of them; raise ApiError where that can't be."""
    present = len(topic.partitions)
    if count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} has {present} partition(s), {count} would not be an increase.",
        )
    additional = count - present
    if additional > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"A request may create {PARTITIONS_PER_REQUEST_MAX} partitions at most."
        )
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is None:
        replicas: Sequence[Sequence[int]] = assign_replicas(
            sorted(broker.metadata.brokers),
            partitions=additional,
            replication_factor=replication_factor,
            start=_start(topic.name),
            partitions_before=present,
        )
    else:
        if len(assignments) != additional:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{additional} partition(s) would be added, but {len(assignments)} assignment(s) were given.",
            )
        for assignment in assignments:
            check_assignment(assignment, brokers=broker.metadata.brokers, replication_factor=replication_factor)
        replicas = assignments
    return [new_partition(nodes) for nodes in replicas]


def _automatic_partitions(broker: Administration, wish: TopicWish) -> list[PartitionRegistration]:
    if wish.replication_factor < 1 and wish.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be 1 or more, or -1 for the broker's default.",
        )
    if wish.partitions < 1 and wish.partitions != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be 1 or more, or -1 for the broker's default."
        )
    factor = wish.replication_factor
    assignments = assign_replicas(
        sorted(broker.metadata.brokers),
        partitions=_wished_partitions(broker, wish),
        replication_factor=broker.config.default_replication_factor if factor == DEFAULT else factor,
        start=_start(wish.name),
    )
    return [new_partition(replicas) for replicas in assignments]


def _manual_partitions(broker: Administration, wish: TopicWish) -> list[PartitionRegistration]:
    if wish.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "With a manual partition assignment the replication factor has to be -1."
        )
    if wish.partitions != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "With a manual partition assignment the number of partitions has to be -1."
        )
    given: dict[int, Sequence[int]] = {}
    factor: int | None = None
    for number, replicas in wish.assignments:
        if number in given:
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {number} is assigned more than once.")
        check_assignment(replicas, brokers=broker.metadata.brokers, replication_factor=factor)
        factor = len(replicas)
        given[number] = replicas
    if sorted(given) != list(range(len(given))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The assigned partitions must be numbered 0, 1, 2 ... without a gap."
        )
    return [new_partition(given[number]) for number in range(len(given))]


def _partition_count(broker: Administration, wishes: Sequence[TopicWish]) -> int:
    return sum(len(wish.assignments) or max(_wished_partitions(broker, wish), 0) for wish in wishes)


def _wished_partitions(broker: Administration, wish: TopicWish) -> int:
    return broker.config.num_partitions if wish.partitions == DEFAULT else wish.partitions


def _start(name: str) -> int:
    """Pick where a topic's first replica goes: by its name, so that the choice can be repeated."""
    return zlib.crc32(name.encode())


def _already_exists(name: str) -> ApiError:
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
