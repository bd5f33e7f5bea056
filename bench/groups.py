"""Groups: a commit of a thousand partitions, and two hundred members that join and rebalance.

The clients are plain sockets with requests made beforehand, so that both brokers are asked the same in the same way
and the client's own work does not count. The first join waits the group's initial delay, which is a setting and not
work; so the time is that of the rebalance that follows, and the CPU that of both.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import statistics
import struct
import time
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient, NewTopic

from bench.figures import DEADLINE_S, Scale, Server
from bench.process_figures import cpu_seconds
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.codec import decode_message
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.frame import encode_request
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tailrace.protocol.schema import Message

PARTITIONS = 1000
MEMBERS = 200
SUBSCRIPTIONS = (bytes(100), bytes([1]) * 100)
ASSIGNMENT = bytes(200)
VERSIONS = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.LEAVE_GROUP: 5,
}

_numbers = itertools.count()
_topics: dict[int, str] = {}
M = TypeVar("M", bound=Message)


class Wire:
    """One connection to a broker."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: Message) -> None:
        key = ApiKey(request.api_key or 0)
        self.socket.sendall(b"".join(encode_request(request, VERSIONS[key], correlation_id=1, client_id="bench")))

    def receive(self, key: ApiKey) -> Any:
        self.socket.settimeout(DEADLINE_S)
        size = struct.unpack(">i", self.socket.recv(4, socket.MSG_WAITALL))[0]
        frame = self.socket.recv(size, socket.MSG_WAITALL)
        version = VERSIONS[key]
        header_size = 5 if key.api.response_header_version(version) >= 1 else 4
        return decode_message(key.api.response_class, version, frame, header_size)

    def ask(self, request: Message) -> Any:
        self.send(request)
        return self.receive(ApiKey(request.api_key or 0))


def commit_offsets(server: Server, scale: Scale) -> dict[str, float]:
    """One client commits a thousand partitions again and again: the median in ms, and the broker's CPU ms a commit."""
    topic, group = wide_topic(server), f"bench-group-{next(_numbers)}"
    wire = Wire(server)
    find_coordinator(server, group)
    partitions = [OffsetCommitRequestPartition(partition_index=number) for number in range(PARTITIONS)]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)])
    frame = b"".join(encode_request(request, VERSIONS[ApiKey.OFFSET_COMMIT], correlation_id=1, client_id="bench"))
    latencies: list[float] = []
    cpu = cpu_seconds(server.pid)
    for _ in range(scale.commits):
        started = time.perf_counter()
        wire.socket.sendall(frame)
        answer = wire.receive(ApiKey.OFFSET_COMMIT)
        latencies.append(time.perf_counter() - started)
        assert not any(partition.error_code for partition in answer.topics[0].partitions)
    cpu = cpu_seconds(server.pid) - cpu
    wire.socket.close()
    return {
        "commit_1000_p50_ms": statistics.median(latencies) * 1000,
        "commit_1000_cpu_ms": cpu / scale.commits * 1000,
    }


def wide_topic(server: Server) -> str:
    """Create the topic of a thousand partitions, once for each broker."""
    if server.pid not in _topics:
        name = f"bench-wide-{next(_numbers)}"
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)], request_timeout=DEADLINE_S)[name].result(DEADLINE_S)
        deadline = time.monotonic() + DEADLINE_S
        while len(led := admin.list_topics(name).topics[name].partitions) < PARTITIONS or any(
            partition.leader < 0 for partition in led.values()
        ):
            assert time.monotonic() < deadline, f"{name} has no leaders"
            time.sleep(0.1)
        _topics[server.pid] = name
    return _topics[server.pid]


def find_coordinator(server: Server, group: str) -> None:
    """Have the offsets topic made, and wait until the group's partition serves."""
    wire = Wire(server)
    deadline = time.monotonic() + DEADLINE_S
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    while (
        wire.ask(FindCoordinatorRequest(coordinator_keys=[group])).coordinators[0].error_code
        or wire.ask(OffsetFetchRequest(groups=[asked])).groups[0].error_code
    ):
        assert time.monotonic() < deadline, "no coordinator"
        time.sleep(0.05)
    wire.socket.close()


class Member:
    """One member of the group, on a connection of its own."""

    def __init__(self, server: Server, group: str) -> None:
        self.wire = Wire(server)
        self.group = group
        self.member_id = ""
        self.joined: Any = None

    def send_join(self, subscription: bytes) -> None:
        self.wire.send(
            JoinGroupRequest(
                group_id=self.group,
                member_id=self.member_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                protocol_type="bench",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            )
        )

    def send_sync(self) -> None:
        joined = self.joined
        self.wire.send(
            SyncGroupRequest(
                group_id=self.group,
                member_id=self.member_id,
                generation_id=joined.generation_id,
                protocol_type="bench",
                protocol_name="range",
                assignments=[
                    SyncGroupRequestAssignment(member_id=member.member_id, assignment=ASSIGNMENT)
                    for member in joined.members
                ],
            )
        )


def join_members(server: Server, scale: Scale) -> dict[str, float]:
    """Two hundred members join, and then rebalance: ms until all are assigned anew, and the broker's CPU ms."""
    del scale  # it is always the same group
    group = f"bench-group-{next(_numbers)}"
    find_coordinator(server, group)
    members = [Member(server, group) for _ in range(MEMBERS)]
    cpu = cpu_seconds(server.pid)
    for member in members:
        member.send_join(SUBSCRIPTIONS[0])
        answer = member.wire.receive(ApiKey.JOIN_GROUP)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED, answer
        member.member_id = answer.member_id
    rebalance(members, SUBSCRIPTIONS[0])
    started = time.perf_counter()
    rebalance(members, SUBSCRIPTIONS[1])
    elapsed = time.perf_counter() - started
    cpu = cpu_seconds(server.pid) - cpu
    identities = [MemberIdentity(member_id=member.member_id) for member in members]
    members[0].wire.ask(LeaveGroupRequest(group_id=group, members=identities))
    for member in members:
        member.wire.socket.close()
    return {"rebalance_200_ms": elapsed * 1000, "join_200_cpu_ms": cpu * 1000}


def rebalance(members: list[Member], subscription: bytes) -> None:
    """Let every member join and fetch its assignment; another subscription than before makes each join count."""
    for member in members:
        member.send_join(subscription)
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.wire.socket, selectors.EVENT_READ, (member, ApiKey.JOIN_GROUP))
        left = len(members)
        while left:
            for key, _ in selector.select(DEADLINE_S):
                member, awaited = key.data
                answer = member.wire.receive(awaited)
                assert not answer.error_code, ErrorCode(answer.error_code)
                if awaited is ApiKey.JOIN_GROUP:
                    member.joined = answer
                    member.send_sync()
                    selector.modify(member.wire.socket, selectors.EVENT_READ, (member, ApiKey.SYNC_GROUP))
                else:
                    selector.unregister(member.wire.socket)
                    left -= 1
