"""What a loss of power leaves of a log: everything that was synced, and of the rest what the disk happened to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.protocol.errors import ApiError
from tailrace.storage.log import Log
from tailrace.testing.faulty_disk import FaultyDisk
from tests.storage.log_workshop import append, config, context, end_transaction, forget, open_log, read_all, values_of


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


def test_leader_epochs_that_a_killed_process_left_are_synced_with_the_next_flush(disk: FaultyDisk) -> None:
    log = opened(disk)
    append(log, b"0", leader_epoch=1)
    forget(log)
    log = opened(disk)
    log.flusher.flush_now()
    log.take_out_of_use()
    disk.lose_power()
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
