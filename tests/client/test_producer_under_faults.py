"""A producer against brokers that fail in every way, many times, by chance: what it says is what is in the log.

Each seed is one run with a virtual clock: connections are lost before and after records are written, errors that pass
are answered, leaders move. With idempotence nothing may be lost, doubled, or out of order; without it nothing that was
acknowledged may be lost.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tailrace.client.delivery import Delivery
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.client.scripted_cluster import drive
from tests.client.scripted_log import Setup

PARTITIONS = 3
RECORDS = 100
PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
]


def unreliable(setup: Setup, random: Random, rate: float) -> None:
    """Have the brokers fail at this rate."""

    def produce(request: ProduceRequest) -> ProduceResponse | None:
        if random.random() < rate:
            setup.log.loses = 1
        elif random.random() < rate:
            setup.log.loses_answers = 1
        setup.log.errors = [random.choice(PASSING) if random.random() < rate else 0 for _ in range(PARTITIONS)]
        if random.random() < rate:
            setup.scripted.leaders["flights", random.randrange(PARTITIONS)] = random.randrange(2)
        return setup.log.produce(request)

    setup.scripted.scripts[ApiKey.PRODUCE] = produce


async def send_all(setup: Setup, random: Random) -> list[tuple[int, bytes, Delivery]]:
    sent = []
    for number in range(RECORDS):
        partition = random.randrange(PARTITIONS)
        value = b"%d:%s" % (number, random.randbytes(random.randrange(60)).hex().encode())
        sent.append((partition, value, await setup.producer.send("flights", value, partition=partition)))
        if random.random() < 0.1:
            await asyncio.sleep(0)
    return sent


@pytest.mark.parametrize("seed", range(24))
async def test_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    random = Random(seed)
    setup = Setup(
        partitions=PARTITIONS,
        brokers=2,
        checks_sequences=True,
        batch_size=random.choice([0, 150, 400, 16_384]),
        linger_ms=random.choice([0, 5]),
        max_in_flight_requests_per_connection=random.choice([1, 2, 5]),
        buffer_memory=random.choice([2_000, 1 << 25]),
        compression_type=random.choice(["none", "lz4"]),
    )
    setup.log.batch_bytes_max = random.choice([250, 1 << 30])
    unreliable(setup, random, rate=random.choice([0.02, 0.1, 0.25]))
    sent = await drive(setup.clock, send_all(setup, random), step_ms=250)
    assert setup.producer._accumulator.memory.available_bytes <= setup.producer.config.buffer_memory
    await drive(setup.clock, setup.producer.close(), step_ms=250)
    assert setup.producer._accumulator.memory.available_bytes == setup.producer.config.buffer_memory
    for partition in range(PARTITIONS):
        expected = [value for number, value, _ in sent if number == partition]
        assert setup.log.values.get(partition, []) == expected, f"seed {seed}, partition {partition}"
        offsets = [delivery.result().offset for number, _, delivery in sent if number == partition]
        assert offsets == list(range(len(expected))), f"seed {seed}, partition {partition}"


@pytest.mark.parametrize("seed", range(10))
async def test_without_idempotence_what_was_acknowledged_is_there(seed: int) -> None:
    random = Random(seed)
    setup = Setup(partitions=PARTITIONS, brokers=2, batch_size=150, enable_idempotence=False)
    unreliable(setup, random, rate=0.1)
    sent = await drive(setup.clock, send_all(setup, random), step_ms=250)
    await drive(setup.clock, setup.producer.close(), step_ms=250)
    for partition, value, delivery in sent:
        assert setup.log.values[partition][delivery.result().offset] == value


@pytest.mark.parametrize("seed", range(10))
async def test_what_is_given_up_does_not_disturb_the_others(seed: int) -> None:
    """Delivery timeouts so short that many batches are given up: the rest is in order and there once."""
    random = Random(seed)
    setup = Setup(
        partitions=PARTITIONS,
        brokers=2,
        checks_sequences=True,
        batch_size=150,
        request_timeout_ms=300,
        linger_ms=0,
        delivery_timeout_ms=400,
    )
    unreliable(setup, random, rate=0.3)
    sent = await drive(setup.clock, send_all(setup, random), step_ms=250)
    await drive(setup.clock, setup.producer.close(), step_ms=250)
    for partition in range(PARTITIONS):
        mine = [(value, delivery) for number, value, delivery in sent if number == partition]
        written = setup.log.values.get(partition, [])
        acknowledged = [value for value, delivery in mine if delivery.exception() is None]
        assert len(set(written)) == len(written), "nothing is doubled"
        assert [value for value in written if value in acknowledged] == acknowledged, (
            "what was acknowledged is in order"
        )
        for value, delivery in mine:
            if delivery.exception() is None:
                assert written[delivery.result().offset] == value


@pytest.mark.parametrize("seed", range(10))
async def test_bulks_are_whole_and_in_order_while_leaders_move(seed: int) -> None:
    random = Random(seed)
    setup = Setup(
        partitions=PARTITIONS,
        brokers=2,
        checks_sequences=True,
        max_request_size=random.choice([400, 2_000, 1 << 20]),
        buffer_memory=random.choice([3_000, 1 << 25]),
        max_in_flight_requests_per_connection=random.choice([1, 5]),
    )
    setup.log.batch_bytes_max = random.choice([250, 1 << 30])
    unreliable(setup, random, rate=random.choice([0.02, 0.1]))
    expected: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    deliveries = []
    for first in range(0, 200, 20):
        partition = random.randrange(PARTITIONS)
        values = [b"%d:%s" % (number, b"x" * random.randrange(60)) for number in range(first, first + 20)]
        sending = setup.producer.send_batch("flights", values, partition=partition)
        deliveries.append((partition, len(expected[partition]), await drive(setup.clock, sending, step_ms=250)))
        expected[partition] += values
    await drive(setup.clock, setup.producer.close(), step_ms=250)
    assert {number: setup.log.values.get(number, []) for number in range(PARTITIONS)} == expected
    for partition, first, delivery in deliveries:
        ranges = delivery.result()
        assert {found.partition for found in ranges} == {partition}
        assert [
            offset for found in ranges for offset in range(found.offset, found.offset + found.records_count)
        ] == list(range(first, first + 20))
    assert setup.producer._accumulator.memory.available_bytes == setup.producer.config.buffer_memory
