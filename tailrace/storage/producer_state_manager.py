"""All producers of one log: who may append what, which transactions are open, and the snapshots of it on disk.

The state is as of `map_end_offset`: the log calls `update` after each append, in offset order, and after a crash
replays its batches from the last snapshot on. Owned by the event loop (or the thread that recovers the log). Expiry
and snapshots happen when the log asks. What the answers mean for high watermark and last stable offset is the log's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import Disk
from tailrace.storage.errors import CorruptFile
from tailrace.storage.producer_snapshot import parse_snapshot, snapshot_bytes
from tailrace.storage.producer_state import (
    BatchMetadata,
    CompletedTransaction,
    ProducerAppendInfo,
    ProducerStateEntry,
    TransactionMetadata,
)

SNAPSHOT_SUFFIX = ".snapshot"
LATE_TRANSACTION_BUFFER_MS = 300_000
"""A transaction is late when its coordinator should have aborted it this long ago."""
_log = logging.getLogger(__name__)


class ProducerStateManager:
    """The producers and transactions of one log."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        *,
        log_name: object,
        producer_id_expiration_ms: int,
        transaction_max_timeout_ms: int = 900_000,
    ) -> None:
        self.directory = directory
        self.log_name = log_name
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.transaction_max_timeout_ms = transaction_max_timeout_ms
        self._disk = disk
        self._producers: dict[int, ProducerStateEntry] = {}
        self._ongoing: dict[int, TransactionMetadata] = {}
        """Open transactions by first offset, which only grows: the first is the oldest."""
        self._unreplicated: dict[int, TransactionMetadata] = {}
        """Ended transactions whose marker is not below the high watermark yet, in the order of their markers."""
        self._snapshots: list[int] = sorted(self._snapshots_on_disk())
        self.map_end_offset = 0
        """The offset up to which the state is current (exclusive): all batches below it have been taken in."""
        self._last_snapshot_offset = 0

    # ------------------------------------------------------------------ appends

    def find_duplicate(
        self, *, producer_id: int, epoch: int, first_sequence: int, last_sequence: int
    ) -> BatchMetadata | None:
        """Give the batch that a client's batch repeats: it is not appended again, and answered with these offsets."""
        entry = self._producers.get(producer_id)
        if entry is None:
            return None
        return entry.find_duplicate(epoch=epoch, first_sequence=first_sequence, last_sequence=last_sequence)

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Begin an append of a producer: give each of its batches to the result, then the result to `update`."""
        if producer_id < 0:
            raise ValueError(f"{self.log_name}: {producer_id} is no producer id")
        entry = self._producers.get(producer_id)
        return ProducerAppendInfo(self.log_name, ProducerStateEntry(producer_id) if entry is None else entry, origin)

    def update(self, info: ProducerAppendInfo) -> None:
        """Take over what was appended. Markers are completed apart, by `complete_transaction`."""
        entry = self._producers.get(info.producer_id)
        if entry is None:
            self._producers[info.producer_id] = info.updated
        else:
            entry.update(info.updated)
        for transaction in info.started_transactions:
            self._ongoing[transaction.first_offset] = transaction

    def complete_transaction(self, completed: CompletedTransaction) -> None:
        """Close a transaction; it stays unstable until its marker is below the high watermark."""
        transaction = self._ongoing.pop(completed.first_offset, None)
        if transaction is None:
            raise ValueError(f"{self.log_name}: no open transaction begins at offset {completed.first_offset}")
        transaction.last_offset = completed.last_offset
        self._unreplicated[completed.first_offset] = transaction

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Give the last stable offset once `completed` is closed, as the transaction index records it.

        Ask before `complete_transaction`.
        """
        for transaction in self._ongoing.values():
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset
        return completed.last_offset + 1

    # ------------------------------------------------------------------ questions

    @property
    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """The state of every known producer, by id; for looking only."""
        return self._producers

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._ongoing), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset that read_committed must not pass: of a transaction open, or ended and not yet
        replicated."""
        if not self._unreplicated:
            return next(iter(self._ongoing), None) if self._ongoing else None
        unreplicated = min(self._unreplicated)
        return min(unreplicated, next(iter(self._ongoing))) if self._ongoing else unreplicated

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest transaction is open for longer than any coordinator would leave it."""
        for transaction in self._ongoing.values():
            entry = self._producers.get(transaction.producer_id)
            limit_ms = self.transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS
            return entry is not None and entry.last_timestamp > 0 and now_ms - entry.last_timestamp > limit_ms
        return False

    # ------------------------------------------------------------------ the passing of time

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker every in-sync replica has."""
        if self._unreplicated:
            self._forget_unreplicated_below(high_watermark)

    def log_start_offset_moved(self, log_start_offset: int) -> None:
        """Forget ended transactions below the new start; producers are kept, they expire by time."""
        self._forget_unreplicated_below(log_start_offset)
        if self.map_end_offset < log_start_offset:
            self.map_end_offset = log_start_offset
        self._last_snapshot_offset = self.latest_snapshot_offset or log_start_offset

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forget producers silent for `producer.id.expiration.ms` that have no transaction open; say how many."""
        expired = [pid for pid, entry in self._producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        return (
            entry.current_transaction_first_offset is None
            and now_ms - entry.last_timestamp >= self.producer_id_expiration_ms
        )

    def _forget_unreplicated_below(self, offset: int) -> None:
        for first_offset, transaction in list(self._unreplicated.items()):
            if transaction.last_offset is not None and transaction.last_offset < offset:
                del self._unreplicated[first_offset]

    # ------------------------------------------------------------------ loading

    def truncate_and_reload(self, *, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to the last snapshot within the log; the log then replays its batches from `map_end_offset` on.

        Nothing is read where the state is at `log_end_offset` already. Snapshots outside the log are removed.
        """
        for offset in list(self._snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                self.delete_snapshot(offset)
        if log_end_offset != self.map_end_offset:
            self._clear()
            self._load_from_snapshot(log_start_offset, now_ms)
        else:
            self.log_start_offset_moved(log_start_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything: the log begins anew at `offset`."""
        self._clear()
        for snapshot in list(self._snapshots):
            self.delete_snapshot(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def load_entry(self, entry: ProducerStateEntry) -> None:
        """Take a producer's state over from elsewhere: a snapshot, or a leader's."""
        self._producers[entry.producer_id] = entry
        first_offset = entry.current_transaction_first_offset
        if first_offset is not None:
            self._ongoing[first_offset] = TransactionMetadata(entry.producer_id, first_offset)
            self._ongoing = dict(sorted(self._ongoing.items()))

    def _clear(self) -> None:
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    def _load_from_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        """Load the newest snapshot that is whole; one that is damaged is removed, the log has its contents too."""
        while self._snapshots:
            offset = self._snapshots[-1]
            path = self.snapshot_path(offset)
            try:
                entries = parse_snapshot(path, self._disk.read_file(path))
            except CorruptFile as error:
                _log.warning("%s: skipping a damaged producer snapshot: %s", self.log_name, error)
                self.delete_snapshot(offset)
                continue
            for entry in entries:
                if not self._is_expired(entry, now_ms):
                    self.load_entry(entry)
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset

    # ------------------------------------------------------------------ snapshots

    def snapshot_path(self, offset: int) -> Path:
        """Give the name of the snapshot as of `offset`: twenty digits, as Kafka pads them."""
        return self.directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"

    def take_snapshot(self, *, sync: bool = True) -> Path | None:
        """Write the state as of `map_end_offset`, unless that was done; give the file's path.

        Without `sync` it is not on disk yet, as when a segment rolls on the event loop; a flush does that later.
        """
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        path = self.snapshot_path(offset)
        self._disk.replace_file(path, snapshot_bytes(self._producers.values()), sync=sync)
        if offset not in self._snapshots:
            self._snapshots.append(offset)
            self._snapshots.sort()
        self._last_snapshot_offset = offset
        return path

    @property
    def snapshot_offsets(self) -> list[int]:
        """The offsets of the snapshots on disk, ascending."""
        return list(self._snapshots)

    @property
    def latest_snapshot_offset(self) -> int | None:
        """The offset of the newest snapshot."""
        return self._snapshots[-1] if self._snapshots else None

    def delete_snapshot(self, offset: int) -> None:
        """Remove one snapshot; no effect where there is none."""
        if offset in self._snapshots:
            self._snapshots.remove(offset)
        self._disk.unlink(self.snapshot_path(offset))

    def delete_snapshots_before(self, offset: int) -> None:
        """Remove the snapshots of offsets below `offset`."""
        for snapshot in [known for known in self._snapshots if known < offset]:
            self.delete_snapshot(snapshot)

    def forget_snapshot(self, offset: int) -> Path | None:
        """Stop counting on a snapshot whose segment goes; give its path, for whoever renames and deletes both."""
        if offset not in self._snapshots:
            return None
        self._snapshots.remove(offset)
        return self.snapshot_path(offset)

    def remove_stray_snapshots(self, segment_base_offsets: Iterable[int]) -> None:
        """At load, remove the snapshots that belong to no segment, except the newest if it is above all segments.

        That one was taken at a clean stop, at the log's end.
        """
        bases = set(segment_base_offsets)
        strays = [offset for offset in self._snapshots if offset not in bases]
        if strays and strays[-1] > max(bases, default=-1):
            strays.pop()
        for offset in strays:
            self.delete_snapshot(offset)

    def _snapshots_on_disk(self) -> list[int]:
        if not self._disk.exists(self.directory):
            return []
        stems = (
            name.removesuffix(SNAPSHOT_SUFFIX)
            for name in self._disk.list_directory(self.directory)
            if name.endswith(SNAPSHOT_SUFFIX)
        )
        return [int(stem) for stem in stems if stem.isdigit()]
