"""Producer ids: none is given twice, whatever happens to the broker or to the file."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.broker.producer_ids import BLOCK_SIZE, FILE_NAME, PREFETCH_AT, ProducerIds
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.disk import Disk, DiskError
from tailrace.testing.virtual_clock import VirtualClock
from tests.broker.parts import batch, make_parts, stop_parts


def started(folder: Path) -> ProducerIds:
    producer_ids = ProducerIds(Disk(), folder, VirtualClock())
    producer_ids.start([])
    return producer_ids


async def test_ids_count_from_zero(tmp_path: Path) -> None:
    producer_ids = started(tmp_path)
    assert [producer_ids.next_producer_id() for _ in range(3)] == [0, 1, 2]


async def test_after_a_kill_no_id_comes_again(tmp_path: Path) -> None:
    given: set[int] = set()
    for _ in range(5):
        producer_ids = started(tmp_path)  # the one before is simply forgotten, as kill -9 does
        for _ in range(3):
            producer_id = producer_ids.next_producer_id()
            assert producer_id not in given
            given.add(producer_id)
    assert max(given) == 4 * BLOCK_SIZE + 2


async def test_the_next_block_is_on_disk_before_its_first_id_is_given(tmp_path: Path) -> None:
    producer_ids = started(tmp_path)
    given = [producer_ids.next_producer_id() for _ in range(PREFETCH_AT)]
    await producer_ids.stop()
    given += [producer_ids.next_producer_id() for _ in range(2 * BLOCK_SIZE - PREFETCH_AT - 100)]
    assert given == list(range(2 * BLOCK_SIZE - 100))
    assert started(tmp_path).next_producer_id() >= 2 * BLOCK_SIZE
    await producer_ids.stop()


async def test_while_no_block_is_reserved_producers_are_told_to_come_again(tmp_path: Path) -> None:
    producer_ids = started(tmp_path)
    for _ in range(BLOCK_SIZE):
        producer_ids.next_producer_id()
    with pytest.raises(ApiError) as caught:
        producer_ids.next_producer_id()
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await producer_ids.stop()
    assert producer_ids.next_producer_id() == BLOCK_SIZE


class RefusingDisk(Disk):
    """A disk that can be full."""

    is_full = False

    def replace_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        if self.is_full:
            raise DiskError("write", path, errno.ENOSPC)
        super().replace_file(path, data, sync=sync)


async def test_a_disk_that_refuses_a_block_is_asked_again(tmp_path: Path) -> None:
    disk = RefusingDisk()
    producer_ids = ProducerIds(disk, tmp_path, VirtualClock())
    producer_ids.start([])
    disk.is_full = True
    for _ in range(BLOCK_SIZE):
        producer_ids.next_producer_id()
    for disk.is_full in (True, False):
        with pytest.raises(ApiError):
            producer_ids.next_producer_id()
        await producer_ids.stop()
    assert producer_ids.next_producer_id() == BLOCK_SIZE


def changed_digit(data: bytes) -> bytes:
    return data.replace(b"1000", b"1001")


@pytest.mark.parametrize(
    "damage",
    [changed_digit, lambda data: data[:-2], lambda data: b"", lambda data: data + b"x 1\n", lambda data: b"\xff" * 20],
    ids=["digit", "cut", "empty", "more", "no text"],
)
async def test_a_damaged_file_gives_no_id_away(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    started(tmp_path)
    path = tmp_path / FILE_NAME
    data = damage(path.read_bytes())
    path.write_bytes(data)
    producer_ids = started(tmp_path)
    first = producer_ids.next_producer_id()
    assert first >= VirtualClock().time_ms()
    assert (tmp_path / f"{FILE_NAME}.damaged").read_bytes() == data
    assert started(tmp_path).next_producer_id() > first


async def test_ids_begin_above_those_in_the_logs(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data")
    await parts.create_topic("t")
    copied = batch(b"a", producer_id=123_456, producer_epoch=0, base_sequence=0)
    parts.partition("t").append_as_leader(copied, acks=1)
    await stop_parts(parts)
    (tmp_path / "data" / FILE_NAME).unlink()
    again = await make_parts(tmp_path / "data")
    assert again.broker.producer_ids.next_producer_id() == 123_457
    await stop_parts(again)
