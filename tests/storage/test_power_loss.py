"""What a loss of power leaves of a log: everything that was synced, and of the rest what the disk happened to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.protocol.errors import ApiError
from tailrace.storage.log import Log
from tailrace.storage.log_loader import LogLoader
from tailrace.storage.lost_pages import PAGE_BYTES
from tailrace.testing.faulty_disk import FaultyDisk
from tests.storage.log_workshop import (
    PARTITION,
    append,
    config,
    context,
    end_transaction,
    forget,
    open_log,
    read_all,
    values_of,
)


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    (tmp_path / "flights-0").mkdir()
    return FaultyDisk(tmp_path)


def opened(disk: FaultyDisk, **more: int) -> Log:
    settings = config(index_interval_bytes=200)
    directory = disk.root / "flights-0"
    return open_log(directory, settings=settings, surroundings=context(disk=disk), was_clean_stop=False, **more)


def after_power_loss(log: Log, disk: FaultyDisk, **more: int) -> Log:
    log.take_out_of_use()
    disk.lose_power()
    return opened(disk, **more)


def test_cut_records_do_not_come_back_below_a_segment_that_was_begun_since(disk: FaultyDisk) -> None:
    log = opened(disk)
    for number in range(10):
        append(log, b"old %d" % number)
    log.flusher.flush_now()
    log.truncate_to(4)
    append(log, b"new 4", b"new 5")
    log.roll()
    append(log, b"new 6")
    disk.sync_directory(log.directory)  # As a file system does now and then, or the cleaner.
    log = after_power_loss(log, disk, recovery_point=4)
    assert append(log, b"next").first_offset == 6
    assert values_of(read_all(log)) == [*(b"old %d" % number for number in range(4)), b"next"]


def test_removed_segments_come_back_only_with_what_was_before_them(disk: FaultyDisk) -> None:
    log = opened(disk)
    for number in range(10):
        append(log, b"old %d" % number)
        if number % 3 == 2:
            log.roll()
    log.flusher.flush_now()
    log.truncate_to(4)
    log = after_power_loss(log, disk, recovery_point=4)
    assert values_of(read_all(log)) == [b"old %d" % number for number in range(4)]


def test_a_truncation_that_was_killed_is_finished_for_good(disk: FaultyDisk) -> None:
    log = opened(disk)
    for number in range(6):
        append(log, b"old %d" % number)
        if number == 3:
            log.roll()
    log.flusher.flush_now()
    log.context.delete_later = lambda paths, _: [disk.unlink(path) for path in paths]
    disk.fail("rename", nth=2)
    with pytest.raises(ApiError):
        log.truncate_to(2)
    forget(log)
    log = opened(disk, recovery_point=2)
    assert log.log_end_offset == 4
    append(log, b"new 4", b"new 5")
    log.active.sync()
    log = after_power_loss(log, disk, recovery_point=2)
    assert values_of(read_all(log)) == [*(b"old %d" % number for number in range(4)), b"new 4", b"new 5"]


def test_a_segment_that_reaches_into_the_next_one_is_set_aside(tmp_path: Path) -> None:
    directory = tmp_path / "flights-0"
    log = open_log(directory)
    for number in range(6):
        append(log, b"%d" % number)
    log.roll()
    append(log, b"6")
    forget(log)
    log.active.log_path.rename(directory / f"{4:020d}.log")
    log = open_log(directory, was_clean_stop=False)
    assert "a batch ends at offset 4, but the next segment begins at 4" in str(log.failure)
    assert (directory / f"{0:020d}.log.damaged").stat().st_size > 0


def test_an_aborted_transaction_below_the_log_start_is_known_from_its_first_record_on(disk: FaultyDisk) -> None:
    log = opened(disk)
    append(log, b"aborted", producer=(5, 0, 0), is_transactional=True)
    log.roll()
    append(log, b"aborted, too", producer=(5, 0, 1), is_transactional=True)
    log.flusher.flush_now()
    end_transaction(log, 5, commit=False)
    append(log, b"last")
    log.update_high_watermark(4)
    log.advance_log_start_offset(3)
    forget(log)
    log = opened(disk, recovery_point=2, log_start_offset=3, high_watermark=4)
    log.roll()
    append(log, b"more")
    log.flusher.flush_now()
    assert log.delete_old_segments() == 1
    # What is deleted lies on the disk until the directory is synced. No checkpoint of the log start is needed where the
    # first segment is named for it, and so the log begins at 0 again.
    log = after_power_loss(log, disk, recovery_point=5, high_watermark=5)
    assert log.log_start_offset == 0
    aborted = log.collect_aborted_transactions(0, 5)
    assert [(one.producer_id, one.first_offset, one.last_offset) for one in aborted] == [(5, 0, 2)]


def test_leader_epochs_of_before_a_truncation_do_not_outlive_it(disk: FaultyDisk) -> None:
    log = opened(disk)
    append(log, b"0", b"1", leader_epoch=1)
    append(log, b"2", b"3", leader_epoch=1)
    append(log, b"4", leader_epoch=2)
    log.flusher.flush_now()
    log.truncate_to(2)
    append(log, b"2", leader_epoch=2)
    append(log, b"3", leader_epoch=2)
    log.active.sync()
    log = after_power_loss(log, disk, recovery_point=2)
    assert log.log_end_offset == 4
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (2, 2)]


def test_the_leader_epoch_of_a_batch_that_reaches_over_the_log_start_is_found(disk: FaultyDisk) -> None:
    log = opened(disk)
    append(log, b"0", b"1", leader_epoch=3)
    log.close()
    (log.directory / "leader-epoch-checkpoint").write_text("")
    log = opened(disk, recovery_point=2, log_start_offset=1)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(3, 1)]


def test_leader_epochs_that_a_killed_process_left_are_synced_with_the_next_flush(disk: FaultyDisk) -> None:
    log = opened(disk)
    append(log, b"0", leader_epoch=1)
    forget(log)
    log = opened(disk)
    log.flusher.flush_now()
    log.take_out_of_use()
    disk.lose_power()
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"


def log_with_a_lost_page(directory: Path, page: bytes, *, flipped: bool = False) -> tuple[Log, bytes]:
    """A log of 3 segments whose process died; in the second one a page has other bytes than were written."""
    log = open_log(directory, settings=config(segment_bytes=20_000, index_interval_bytes=200))
    for number in range(240):
        append(log, bytes([number]) * 150)
    forget(log)
    path = log.segments[1].log_path
    data = bytearray(path.read_bytes())
    if flipped:
        data[2 * PAGE_BYTES + 100] ^= 1
    else:
        data[2 * PAGE_BYTES : 3 * PAGE_BYTES] = page
    path.write_bytes(data)
    return log, bytes(data)


def test_a_page_that_was_not_on_disk_is_cut_and_what_follows_kept_beside(tmp_path: Path) -> None:
    directory = tmp_path / "flights-0"
    before, data = log_with_a_lost_page(directory, bytes(PAGE_BYTES))
    last = before.segments[2].log_path
    whole = last.read_bytes()
    point = before.segments[1].base_offset
    log = open_log(directory, was_clean_stop=False, recovery_point=point, high_watermark=1000)
    assert log.failure is None
    end, size = log.log_end_offset, log.active.size
    assert point < end < before.segments[2].base_offset
    assert PAGE_BYTES < size <= 2 * PAGE_BYTES
    assert values_of(read_all(log)) == [bytes([number]) * 150 for number in range(end)]
    assert log.segments[1].log_path.with_suffix(f".log.torn-{size}").read_bytes() == data[size:]
    assert last.with_name(last.name + ".torn-0").read_bytes() == whole
    assert append(log, b"next").first_offset == end
    log.close()
    assert open_log(directory, recovery_point=end + 1).log_end_offset == end + 1


@pytest.mark.parametrize("above", [0, 1000])
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("kind", ["zeros", "garbage", "flipped bit"])
def test_a_bad_page_is_damage_unless_it_is_empty_and_above_the_recovery_point(
    tmp_path: Path, kind: str, knows: bool, above: int
) -> None:
    directory = tmp_path / "flights-0"
    page = bytes(PAGE_BYTES) if kind == "zeros" else b"\x5a" * PAGE_BYTES
    before, _ = log_with_a_lost_page(directory, page, flipped=kind == "flipped bit")
    files = {path.name: path.read_bytes() for path in directory.glob("*.log")}
    point = before.segments[2].base_offset if above == 0 else before.segments[1].base_offset
    loader = LogLoader(PARTITION, directory, config(), context(), recovery_point=point, knows_recovery_point=knows)
    log = loader.load()
    is_cut = kind == "zeros" and knows and above == 1000
    assert log.is_offline is not is_cut
    if not is_cut:
        damaged = before.segments[1].log_path.name
        kept = {path.name.removesuffix(".damaged"): path.read_bytes() for path in directory.glob("*.log*")}
        assert kept == files
        assert (directory / f"{damaged}.damaged").exists()
