"""Random messages, delays, repetitions and crashes: no transaction is torn, and none decides another."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tailrace.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    TransactionStatus,
    metadata_of,
    record_of,
)
from tailrace.protocol.coordinator.record_codec import (
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    decode_record,
    encode_record,
)
from tailrace.protocol.coordinator.transaction_log import TransactionLogValue
from tests.broker.transactions.simulation import World


def check_world(seed: int, steps: int, *, first_epoch: int = -1) -> World:
    world = World(Random(seed), first_epoch)
    for _ in range(steps):
        world.step()
    world.settle()
    world.check()
    return world


@pytest.mark.parametrize("seed", range(60))
def test_no_transaction_is_torn_or_decided_by_another(seed: int) -> None:
    check_world(seed, 1_000)


@pytest.mark.parametrize("seed", range(15))
def test_no_transaction_is_torn_where_epochs_run_out(seed: int) -> None:
    world = check_world(seed, 1_000, first_epoch=32_760)
    assert max(metadata.producer_epoch for metadata in world.log) <= 2**15 - 1
    assert world.machine.metadata.producer_id > 7, "the producer id was to run out of epochs"


@pytest.mark.slow
def test_many_random_worlds() -> None:
    seed = Random().randrange(10**9)
    for number in range(2_000):
        print(f"seed {seed + number}")
        check_world(seed + number, 1_000, first_epoch=-1 if number % 3 else 32_750)


def test_the_simulation_commits_and_aborts_and_is_answered() -> None:
    worlds = [check_world(seed, 1_000) for seed in range(20)]
    told = [is_commit for world in worlds for is_commit in world.told.values()]
    assert told.count(True) > 30
    assert told.count(False) > 30
    assert sum(len(place.committed) for world in worlds for place in world.partitions.values()) > 30


def test_what_was_written_down_is_what_is_known_after_a_restart() -> None:
    states = {metadata for seed in range(10) for metadata in check_world(seed, 300, first_epoch=32_760).log}
    assert {metadata.status for metadata in states} >= {
        TransactionStatus.EMPTY,
        TransactionStatus.ONGOING,
        TransactionStatus.PREPARE_COMMIT,
        TransactionStatus.COMPLETE_ABORT,
    }
    for metadata in states:
        assert read_back(metadata) == replace(metadata, last_producer_epoch=NO_PRODUCER_EPOCH)


def read_back(metadata: TransactionMetadata) -> TransactionMetadata:
    key, value = encode_record(*record_of("größe", metadata))
    record = decode_record(TRANSACTION_RECORDS, key, value)
    assert isinstance(record, CoordinatorRecord)
    assert isinstance(record.value, TransactionLogValue)
    return metadata_of(record.value)
