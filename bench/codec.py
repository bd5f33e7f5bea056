"""The generated codec beside hand-written `struct` code and beside construct: `python -m bench.codec`.

For Produce v9-13 and Fetch v12-18, requests and responses, both ways, for one partition and for fifty. Prints
microseconds and ratios; the exit status is 1 where the generated codec takes more than three times as long as the code
of `handwritten`. Rounds alternate, CPU time is measured, and the best round of each counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench import handwritten
from tailrace.protocol.codec import decode_message, encode_message
from tailrace.protocol.construct_schema import construct_schema, plain_values
from tailrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tailrace.protocol.schema import Message

RATIO_MAX = 3.0
ROUNDS = 7
ROUND_S = 0.004

RECORDS = bytes(range(200)) * 2


@dataclass(frozen=True, slots=True)
class Case:
    """One message at one version in one direction, three ways."""

    name: str
    handwritten: Callable[[], Any]
    generated: Callable[[], Any]
    construct: Callable[[], Any]


def messages(version: int, partitions: int, *, is_fetch: bool) -> Iterator[Message]:
    """Make the request and the response of an API: ten partitions a topic."""
    names: dict[str, Any] = {"topic" if is_fetch else "name": "" if version >= 13 else "flights", "topic_id": b"i" * 16}
    if version < 13:
        del names["topic_id"]
    topics = [(names, range(first, min(first + 10, partitions))) for first in range(0, partitions, 10)]
    if is_fetch:
        request = [
            FetchTopic(**names, partitions=[FetchPartition(partition=i, fetch_offset=i) for i in some])
            for names, some in topics
        ]
        yield FetchRequest(topics=request, max_wait_ms=500, min_bytes=1)
        response = [
            FetchableTopicResponse(
                **names, partitions=[PartitionData(partition_index=i, records=RECORDS) for i in some]
            )
            for names, some in topics
        ]
        yield FetchResponse(responses=response)
    else:
        data = [
            TopicProduceData(**names, partition_data=[PartitionProduceData(index=i, records=RECORDS) for i in some])
            for names, some in topics
        ]
        yield ProduceRequest(acks=-1, timeout_ms=1500, topic_data=data)
        answers = [
            TopicProduceResponse(
                **names, partition_responses=[PartitionProduceResponse(index=i, base_offset=i) for i in some]
            )
            for names, some in topics
        ]
        yield ProduceResponse(responses=answers)


def cases(partitions: int) -> Iterator[Case]:
    """Go through both APIs, their versions, both messages and both directions."""
    for is_fetch, versions in ((False, range(9, 14)), (True, range(12, 19))):
        for version in versions:
            for message in messages(version, partitions, is_fetch=is_fetch):
                yield from cases_of(message, version)


def cases_of(message: Message, version: int) -> Iterator[Case]:
    """Make the two cases of a message, and make sure that all three ways agree."""
    cls = type(message)
    short = {
        ProduceRequest: "produce_request",
        ProduceResponse: "produce_response",
        FetchRequest: "fetch_request",
        FetchResponse: "fetch_response",
    }[cls]
    by_hand_decode = getattr(handwritten, f"decode_{short}")
    by_hand_encode = getattr(handwritten, f"encode_{short}")
    body = memoryview(bytearray(encode_message(message, version)))
    by_hand = by_hand_decode(body, version)
    schema, values, plain = construct_schema(cls, version), plain_values(message, version), bytes(body)
    assert by_hand_encode(by_hand, version) == plain == schema.build(values)
    yield Case(
        f"{cls.__name__} v{version} decode",
        lambda: by_hand_decode(body, version),
        lambda: decode_message(cls, version, body),
        lambda: schema.parse(plain),
    )
    yield Case(
        f"{cls.__name__} v{version} encode",
        lambda: by_hand_encode(by_hand, version),
        lambda: encode_message(message, version),
        lambda: schema.build(values),
    )


def microseconds(function: Callable[[], Any], seconds: float) -> float:
    """Give the microseconds of a call, measured for about `seconds`."""
    count, clock = 0, time.process_time
    begin = now = clock()
    while now - begin < seconds:
        for _ in range(10):
            function()
        count += 10
        now = clock()
    return (now - begin) / count * 1e6


def measure(case: Case) -> tuple[float, float, float]:
    """Give the best round of hand-written, generated and construct."""
    rounds = [(microseconds(case.handwritten, ROUND_S), microseconds(case.generated, ROUND_S)) for _ in range(ROUNDS)]
    return min(hand for hand, _ in rounds), min(made for _, made in rounds), microseconds(case.construct, ROUND_S)


def main() -> int:
    """Print the table and give the exit status."""
    worst = 0.0
    for partitions in (1, 50):
        print(f"\n{partitions} partition{'s' if partitions > 1 else ''}: microseconds a message")
        print(f"{'':32}{'by hand':>10}{'generated':>11}{'construct':>11}{'generated/by hand':>19}")
        for case in cases(partitions):
            hand, made, constructed = measure(case)
            worst = max(worst, made / hand)
            print(f"{case.name:32}{hand:10.2f}{made:11.2f}{constructed:11.1f}{made / hand:18.2f}x")
    print(f"\nworst ratio {worst:.2f}x, at most {RATIO_MAX:.0f}x is required")
    return 0 if worst <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
