"""Opening a log after the process died, or after the disk changed what was on it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.log import Log
from tests.storage.log_workshop import (
    append,
    batch,
    config,
    end_transaction,
    forget,
    open_log,
    read_all,
    values_of,
)

SETTINGS = {"segment_bytes": 3000, "index_interval_bytes": 200}
COUNT = 60


def written_log(directory: Path, count: int = COUNT) -> Log:
    """A log of several segments, with an idempotent producer; the process then dies."""
    log = open_log(directory, settings=config(**SETTINGS))
    for number in range(count):
        append(log, bytes([number]) * 150, producer=(7, 0, number), timestamp=1_700_000_000_000 + number)
    forget(log)
    return log


def reopened(directory: Path, **more: int) -> Log:
    return open_log(directory, settings=config(**SETTINGS), was_clean_stop=False, **more)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "flights-0"


def last_log(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def data_size(directory: Path) -> int:
    return len(last_log(directory).read_bytes().rstrip(b"\0"))


def test_everything_is_there_after_kill(directory: Path) -> None:
    before = written_log(directory)
    log = reopened(directory)
    assert [record.value for record in read_all(log)] == [bytes([number]) * 150 for number in range(COUNT)]
    assert [segment.size for segment in log.segments] == [segment.size for segment in before.segments]
    assert append(log, b"next", producer=(7, 0, COUNT)).first_offset == COUNT
    assert append(log, b"x" * 150, producer=(7, 0, COUNT - 1)).is_duplicate


def test_preallocated_zeros_are_cut(directory: Path) -> None:
    log = written_log(directory)
    assert last_log(directory).stat().st_size > log.active.size
    log = reopened(directory)
    assert last_log(directory).stat().st_size == log.active.size


@pytest.mark.parametrize("missing", range(1, 212, 7))
def test_torn_last_batch_is_truncated(directory: Path, missing: int) -> None:
    written_log(directory)
    path = last_log(directory)
    data = path.read_bytes()
    size = data_size(directory)
    path.write_bytes(data[: size - missing] + bytes(len(data) - size + missing))
    log = reopened(directory)
    assert not log.is_offline
    assert log.log_end_offset == COUNT - 1
    assert append(log, b"again", producer=(7, 0, COUNT - 1)).first_offset == COUNT - 1
    assert len(read_all(log)) == COUNT


def test_a_file_cut_at_any_byte_keeps_every_whole_batch(directory: Path) -> None:
    log = open_log(directory)
    sizes = [0]
    for number in range(3):
        append(log, bytes(5 * number))
        sizes.append(log.active.size)
    forget(log)
    path = last_log(directory)
    data = path.read_bytes()[: sizes[-1]]
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        recovered = open_log(directory, was_clean_stop=False)
        assert recovered.log_end_offset == sum(end <= size for end in sizes[1:])
        assert not recovered.is_offline
        forget(recovered)


def test_garbage_behind_the_last_batch_is_cut(directory: Path) -> None:
    log = written_log(directory)
    size = log.active.size
    path = last_log(directory)
    data = bytearray(path.read_bytes())
    data[size : size + 500] = random.Random(1).randbytes(500)
    path.write_bytes(data)
    log = reopened(directory)
    assert (log.is_offline, log.log_end_offset, log.active.size) == (False, COUNT, size)


def test_indexes_are_made_anew(directory: Path) -> None:
    before = written_log(directory)
    entries = [segment.size for segment in before.segments]
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        path.write_bytes(b"\xff" * 24)
    log = reopened(directory)
    assert [segment.size for segment in log.segments] == entries
    for segment in log.segments:
        segment.offset_index.sanity_check(log_bytes=segment.size, every_entry=True)
        segment.time_index.sanity_check(every_entry=True)
    for number in range(COUNT):
        found = log.offset_for_timestamp(1_700_000_000_000 + number)
        assert found is not None
        assert found.offset == number


def test_snapshots_that_are_damaged_are_not_believed(directory: Path) -> None:
    written_log(directory)
    for path in directory.glob("*.snapshot"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    log = reopened(directory)
    assert append(log, b"next", producer=(7, 0, COUNT)).first_offset == COUNT


def test_only_what_may_be_torn_is_read_again(directory: Path) -> None:
    before = written_log(directory)
    log = reopened(directory, recovery_point=before.active.base_offset + 1)
    assert [segment.unverified is None for segment in log.segments] == [False] * (len(log.segments) - 1) + [True]
    assert len(read_all(log)) == COUNT
    assert all(segment.unverified is None for segment in log.segments)


@pytest.mark.parametrize("slot", [0, 1, -1])
@pytest.mark.parametrize("where", [0, 9, 17, 30, 70, 200])
def test_a_damaged_batch_in_the_middle_is_set_aside(directory: Path, slot: int, where: int) -> None:
    before = written_log(directory)
    path = before.segments[slot].log_path
    data = bytearray(path.read_bytes())
    start = 2 * (len(batch(bytes(150), producer=(7, 0, 0))))
    data[start + where] ^= 0x41
    path.write_bytes(data)
    log = reopened(directory)
    assert log.is_offline
    aside = path.with_name(path.name + ".damaged")
    assert aside.read_bytes() == data
    assert not path.exists()
    with pytest.raises(ApiError) as caught:
        log.read(0, max_bytes=1, upper_offset=1, min_one_message=True)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError):
        append(log, b"x")
    assert aside.name in str(reopened(directory).failure)
    data[start + where] ^= 0x41
    path.write_bytes(data)
    aside.unlink()
    assert len(read_all(reopened(directory))) == COUNT


def test_without_the_damaged_segment_the_rest_can_be_served(directory: Path) -> None:
    before = written_log(directory)
    path = before.segments[1].log_path
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert reopened(directory).is_offline
    path.with_name(path.name + ".damaged").unlink()
    log = reopened(directory)
    first, second, third = before.segments[0], before.segments[1], before.segments[2]
    gap = set(range(second.base_offset, third.base_offset))
    assert first.base_offset == 0
    assert [record.offset for record in read_all(log)] == [offset for offset in range(COUNT) if offset not in gap]


def test_a_flipped_bit_is_found_at_the_first_read_after_a_clean_stop(directory: Path) -> None:
    log = open_log(directory, settings=config(**SETTINGS))
    for number in range(COUNT):
        append(log, bytes([number]) * 150)
    log.close()
    path = log.segments[1].log_path
    data = bytearray(path.read_bytes())
    data[500] ^= 8
    path.write_bytes(data)
    log = open_log(directory, settings=config(**SETTINGS), recovery_point=COUNT, high_watermark=COUNT)
    assert not log.is_offline
    assert log.read(0, max_bytes=1 << 20, upper_offset=COUNT, min_one_message=True).records
    start = log.segments[1].base_offset
    with pytest.raises(ApiError) as caught:
        log.read(start, max_bytes=1 << 20, upper_offset=COUNT, min_one_message=True)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline
    assert path.with_name(path.name + ".damaged").read_bytes() == data


@pytest.mark.parametrize("cut", [1, 200, 1000])
def test_missing_records_that_were_on_disk_are_damage(directory: Path, cut: int) -> None:
    log = open_log(directory, settings=config(**SETTINGS))
    for number in range(COUNT):
        append(log, bytes([number]) * 150)
    log.close()
    path = last_log(directory)
    path.write_bytes(path.read_bytes()[:-cut])
    for was_clean_stop in (True, False):
        log = open_log(directory, settings=config(**SETTINGS), was_clean_stop=was_clean_stop, recovery_point=COUNT)
        assert log.is_offline
        aside = path.with_name(path.name + ".damaged")
        aside.rename(path)


def test_a_torn_tail_after_a_stop_that_was_called_clean_is_cut(directory: Path) -> None:
    log = open_log(directory)
    append(log, b"a")
    log.close()
    path = last_log(directory)
    path.write_bytes(path.read_bytes() + bytes(5000))
    log = open_log(directory, recovery_point=1)
    assert (log.is_offline, log.log_end_offset) == (False, 1)


def test_transactions_are_known_after_kill(directory: Path) -> None:
    log = open_log(directory, settings=config(**SETTINGS))
    append(log, b"aborted", producer=(5, 0, 0), is_transactional=True)
    for number in range(40):
        append(log, bytes(150), producer=(7, 0, number))
    end_transaction(log, 5, commit=False)
    append(log, b"open", producer=(6, 0, 0), is_transactional=True)
    for number in range(40, 60):
        append(log, bytes(150), producer=(7, 0, number))
    end = log.log_end_offset
    forget(log)
    for path in [*directory.glob("*.txnindex"), *directory.glob("*.snapshot")]:
        path.unlink()
    log = reopened(directory, high_watermark=end)
    assert log.last_stable_offset == 42
    aborted = log.collect_aborted_transactions(0, end)
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in aborted] == [(5, 0, 41)]


def test_a_transaction_index_that_is_damaged_is_made_anew(directory: Path) -> None:
    log = open_log(directory, settings=config(**SETTINGS))
    append(log, b"aborted", producer=(5, 0, 0), is_transactional=True)
    end_transaction(log, 5, commit=False)
    log.close()
    path = next(iter(directory.glob("*.txnindex")))
    good = path.read_bytes()
    for bad in (good[:-1], b"\0\7" + good[2:]):
        path.write_bytes(bad)
        log = open_log(directory, settings=config(**SETTINGS), recovery_point=2)
        assert [entry.producer_id for entry in log.collect_aborted_transactions(0, 2)] == [5]
        log.close()


def test_leader_epochs_are_found_again_in_the_batches(directory: Path) -> None:
    log = open_log(directory)
    for epoch in (0, 0, 3, 5):
        append(log, b"a", leader_epoch=epoch)
    forget(log)
    (directory / "leader-epoch-checkpoint").write_text("nonsense")
    log = open_log(directory, was_clean_stop=True, recovery_point=4)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (3, 2), (5, 3)]


def test_files_without_a_log_are_removed(directory: Path) -> None:
    written_log(directory)
    stray = directory / f"{999_999:020d}.index"
    stray.write_bytes(b"12345678")
    reopened(directory)
    assert not stray.exists()


def test_deleted_and_half_cleaned_files_go_and_swapped_ones_take_their_place(directory: Path) -> None:
    log = written_log(directory)
    second, third = log.segments[1].base_offset, log.segments[2].base_offset
    names = {path.name for path in directory.iterdir()}
    (directory / f"{0:020d}.log.deleted").write_bytes(b"gone")
    (directory / f"{third:020d}.log.cleaned").write_bytes(b"half")
    (directory / f"{third:020d}.log.swap").write_bytes(b"of a split that was not complete")
    compacted = batch(b"kept", base_offset=second, last_offset=third - 1)
    (directory / f"{second:020d}.log.swap").write_bytes(compacted)
    (directory / f"{second:020d}.index.swap").write_bytes(b"")
    (directory / f"{second:020d}.timeindex.swap").write_bytes(b"")
    log = reopened(directory, recovery_point=third)
    assert not any(path.name.endswith((".deleted", ".cleaned", ".swap")) for path in directory.iterdir())
    assert {path.name for path in directory.iterdir()} <= names | {f"{COUNT:020d}.snapshot"}
    values = values_of(read_all(log))
    assert values[second] == b"kept"
    assert len(values) == COUNT - (third - second) + 1


def test_a_swap_takes_the_place_of_all_segments_it_was_made_of(directory: Path) -> None:
    log = written_log(directory)
    third = log.segments[2].base_offset
    merged = batch(b"merged", last_offset=third + 1)
    (directory / f"{0:020d}.log.swap").write_bytes(merged)
    log = reopened(directory)
    assert log.segments[0].base_offset == 0
    assert log.segments[1].base_offset > third
    assert values_of(read_all(log))[0] == b"merged"


def test_a_log_below_its_start_offset_begins_anew_there(directory: Path) -> None:
    written_log(directory)
    log = reopened(directory, log_start_offset=1000)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    assert append(log, b"a").first_offset == 1000


@pytest.mark.parametrize("seed", range(20))
def test_no_flipped_bit_is_served(directory: Path, seed: int) -> None:
    """Any bit of any file: the log answers right, or is offline, or has lost at most its torn last batch."""
    written_log(directory)
    chance = random.Random(seed)
    expected = [bytes([number]) * 150 for number in range(COUNT)]
    for _ in range(5):
        path = chance.choice(sorted(path for path in directory.iterdir() if path.stat().st_size))
        good = path.read_bytes()
        bad = bytearray(good)
        size = len(good.rstrip(b"\0")) if path.suffix == ".log" else len(good)
        bad[chance.randrange(size)] ^= 1 << chance.randrange(8)
        before = {other: other.read_bytes() for other in directory.iterdir()}
        path.write_bytes(bad)
        log = reopened(directory)
        if not log.is_offline:
            values = values_of(read_all(log))
            assert values in (expected, expected[:-1]), path.name
        forget(log)
        for other in list(directory.iterdir()):
            if other not in before:
                other.unlink()
        for other, data in before.items():
            other.write_bytes(data)
