"""Which partition a record goes to: by its key as every client of Kafka finds it, else in turns that fill batches."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tailrace.client.partitioner import KeyHashes, choose_partition, murmur2
from tests.client.scripted_cluster import drive
from tests.client.scripted_log import Setup


@pytest.mark.parametrize(
    ("key", "digest"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_kafka(key: bytes, digest: int) -> None:
    assert murmur2(key) == digest & 0xFFFFFFFF


def test_hashes_are_remembered_but_not_without_bound() -> None:
    hashes = KeyHashes()
    for number in range(70_000):
        assert 0 <= hashes.partition_of(b"%d" % number, 7) < 7
    assert hashes.partition_of(b"abc", 10) == 479470107 % 10
    assert len(hashes._known) < 66_000


def test_partitions_with_few_waiting_batches_are_chosen_more_often() -> None:
    random = Random(1)
    counted = Counter(choose_partition({0: 0, 1: 3, 2: 1}, random, is_adaptive=True) for _ in range(8_000))
    assert [round(counted[partition] / 1000) for partition in (0, 1, 2)] == [4, 1, 3]
    uniform = Counter(choose_partition({0: 0, 1: 3}, random, is_adaptive=False) for _ in range(4_000))
    assert abs(uniform[0] - uniform[1]) < 400


async def test_records_without_a_key_fill_one_batch_after_another() -> None:
    setup = Setup(partitions=4, batch_size=500)
    for _ in range(400):
        await setup.producer.send("flights", bytes(40))
    await drive(setup.clock, setup.producer.close())
    counts = [len(values) for values in setup.log.values.values()]
    assert len(counts) == 4
    assert sum(counts) == 400
    sizes = sorted(header.records_count for _, header in setup.log.headers)
    assert sizes[1:] == [sizes[-1]] * (len(sizes) - 1), "every batch but the last is full"


async def test_partitions_without_a_leader_get_no_records_without_a_key() -> None:
    setup = Setup(partitions=4, batch_size=100)
    setup.scripted.leaders.update({("flights", 0): -1, ("flights", 2): -1})
    for _ in range(50):
        await setup.producer.send("flights", bytes(40))
    await drive(setup.clock, setup.producer.close())
    assert set(setup.log.values) == {1, 3}


async def test_a_partition_whose_batches_wait_too_long_is_passed_over() -> None:
    setup = Setup(partitions=2, brokers=2, batch_size=100, linger_ms=0, partitioner_availability_timeout_ms=200)
    await setup.producer.send("flights", b"v", partition=1)
    await drive(setup.clock, setup.producer.flush())
    setup.scripted.unreachable.add(setup.scripted.addresses[1])
    for stream in setup.scripted.streams:
        if stream.node_id == 1:
            stream.lose(None)
    await setup.producer.send("flights", b"w", partition=1)
    await setup.clock.advance_async(300)
    deliveries = [await setup.producer.send("flights", bytes(40)) for _ in range(20)]
    await drive(setup.clock, _settled(deliveries[-1]))
    assert {delivery.result().partition for delivery in deliveries} == {0}
    await setup.producer.close(flush=False)


async def _settled(delivery: object) -> object:
    return await delivery  # type: ignore[misc]


@pytest.mark.parametrize("ignores_keys", [False, True])
async def test_keys_decide_unless_they_are_to_be_ignored(ignores_keys: bool) -> None:
    setup = Setup(partitions=8, partitioner_ignore_keys=ignores_keys)
    deliveries = [await setup.producer.send("flights", b"v", key=b"key %d" % n) for n in range(20)]
    await drive(setup.clock, setup.producer.close())
    chosen = [delivery.result().partition for delivery in deliveries]
    by_key = [(murmur2(b"key %d" % n) & 0x7FFFFFFF) % 8 for n in range(20)]
    assert (chosen == by_key) is not ignores_keys


async def test_a_user_may_choose() -> None:
    setup = Setup(partitions=3, partitioner=lambda topic, key, value, count: len(value or b"") % count)
    deliveries = [await setup.producer.send("flights", b"v" * n) for n in range(6)]
    await drive(setup.clock, setup.producer.close())
    assert [delivery.result().partition for delivery in deliveries] == [0, 1, 2, 0, 1, 2]
