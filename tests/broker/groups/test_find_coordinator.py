"""FindCoordinator: the leader of a key's partition, of a topic that is made when somebody first asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.handlers import find_coordinator
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.parts import Parts, make_parts, stop_parts

GROUP, TRANSACTION = 0, 1


async def find(parts: Parts, *keys: str, kind: int = GROUP, version: int = 6) -> Any:
    batch = version >= 4
    body = FindCoordinatorRequest(
        key="" if batch else keys[0], key_type=kind, coordinator_keys=list(keys) if batch else []
    )
    answer: Any = parts.handle(find_coordinator, body, version)
    return await answer if hasattr(answer, "__await__") else answer


async def test_the_topic_is_made_and_its_leader_named_in_the_first_answer(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path, texts={"offsets.topic.num.partitions": "3"})
    await parts.register_broker(0)
    assert parts.metadata.topic("__consumer_offsets") is None
    answer = await find(parts, "g", "h")
    assert [(c.key, c.error_code, c.node_id, c.host) for c in answer.coordinators] == [
        ("g", 0, 0, "broker-0"),
        ("h", 0, 0, "broker-0"),
    ]
    topic = parts.metadata.topic("__consumer_offsets")
    assert topic is not None
    assert len(topic.partitions) == 3
    await stop_parts(parts)


async def test_another_broker_leads_the_partition(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path, texts={"offsets.topic.num.partitions": "1"})
    await find(parts, "g")
    await parts.register_broker(1)
    await parts.change_partition("__consumer_offsets", replicas=(1,), isr=(1,), leader=1, leader_epoch=1)
    answer = await find(parts, "g", version=2)
    assert (answer.error_code, answer.node_id, answer.host) == (0, 1, "broker-1")
    await parts.change_partition("__consumer_offsets", leader=-1, leader_epoch=2)
    answer = await find(parts, "g", version=2)
    assert (answer.error_code, answer.node_id, answer.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    await stop_parts(parts)


async def test_who_may_not_see_a_group_makes_no_topic(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.GROUP, "g")
    (coordinator,) = (await find(parts, "g")).coordinators
    assert coordinator.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert parts.metadata.topic("__consumer_offsets") is None
    await stop_parts(parts)


async def test_transactional_ids_have_a_topic_of_their_own(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path, texts={"transaction.state.log.num.partitions": "2"})
    (coordinator,) = (await find(parts, "x", kind=TRANSACTION)).coordinators
    assert (coordinator.error_code, coordinator.node_id) == (0, 0)
    assert parts.metadata.topic("__transaction_state") is not None
    assert parts.metadata.topic("__consumer_offsets") is None
    await stop_parts(parts)
