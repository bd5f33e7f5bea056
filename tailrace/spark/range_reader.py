"""Fetches the offsets of one range: a task's work on the network.

`read_range` gives what was fetched, answer after answer, while the next fetch is under way already: at most two wait,
so memory is bounded. Leaders are followed, and errors are tried again until kafkaConsumer.pollTimeoutMs is over.
Offsets that are gone are data loss; gaps, which compaction and control records leave, are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from tailrace.client.errors import OperationTimedOut, error_of, raise_for_code
from tailrace.client.fetched_batches import AbortedRange, FetchedBatches, walk_batches
from tailrace.client.offsets import EARLIEST, LATEST, list_offsets
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tailrace.protocol.uuid import ZERO_UUID
from tailrace.settings.client_config import ConsumerConfig
from tailrace.spark.cluster_client import ClusterClient
from tailrace.spark.data_loss import report_data_loss
from tailrace.spark.offset_json import names_of
from tailrace.spark.offset_ranges import OffsetRange

_LANE: Final = "fetch"
_AHEAD_MAX: Final = 2
_NAMES_VERSION_MAX: Final = 12
_BYTES_PER_OFFSET_FIRST: Final = 1024.0
"""The guess for a partition of which nothing was read yet."""
_FETCH_BYTES_MIN: Final = 64 * 1024
_SILENCE_MS: Final = 10_000
"""For how long a log may say that it ends before the range does. Behind a restart that may be so for a moment."""


@dataclass(frozen=True, slots=True)
class FetchedPiece:
    """Batches with offsets from `first` on; those from the range's end on are not wanted."""

    walked: FetchedBatches
    first: int


@dataclass(frozen=True, slots=True)
class RangeSettings:
    """How a range is read."""

    poll_timeout_ms: int
    fails_on_data_loss: bool


def read_range(client: ClusterClient, offset_range: OffsetRange, settings: RangeSettings) -> Generator[FetchedPiece]:
    """Give what the range holds. Fetching ends when the iterator does."""
    reader = _RangeReader(client, offset_range, settings)
    task = asyncio.run_coroutine_threadsafe(reader.run(), client.loop)
    try:
        while (piece := client.run(reader.pieces.get())) is not None:
            yield piece
        task.result()
    finally:
        task.cancel()


class _RangeReader:
    """Fetches one range, and puts what came into `pieces`; None is the end."""

    def __init__(self, client: ClusterClient, offset_range: OffsetRange, settings: RangeSettings) -> None:
        assert isinstance(client.config, ConsumerConfig)
        self.pieces: asyncio.Queue[FetchedPiece | None] = asyncio.Queue(_AHEAD_MAX)
        self._client = client
        self._cluster = client.cluster
        self._config: ConsumerConfig = client.config
        self._range = offset_range
        self._key = offset_range.topic_partition
        self._settings = settings
        self._position = offset_range.first
        self._moved_at = self._cluster.clock.monotonic()

    async def run(self) -> None:
        """Fetch until the range is read, or cannot be."""
        try:
            await self._read()
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self.pieces.put(None)
            raise
        await self.pieces.put(None)

    async def _read(self) -> None:
        while self._position < self._range.until:
            data = await self._fetch()
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._skip_what_is_gone()
            elif (piece := self._take(data)) is not None:
                await self.pieces.put(piece)
            else:
                self._look_at_silence(data)

    def _take(self, data: PartitionData) -> FetchedPiece | None:
        """Look at the batches of an answer, and move behind them; None where there were none."""
        records = data.records
        if not records:
            return None
        aborted = [AbortedRange(t.first_offset, t.producer_id) for t in data.aborted_transactions or []]
        first = self._position
        walked = walk_batches(
            bytes(records),
            first,
            aborted=aborted if self._config.is_read_committed else None,
            check_crcs=self._config.check_crcs,
        )
        if walked.next_offset <= first:
            return None
        self._move(walked.next_offset)
        self._client.bytes_per_offset[self._key] = len(records) / (walked.next_offset - first)
        return FetchedPiece(walked, first)

    def _move(self, position: int) -> None:
        self._position = position
        self._moved_at = self._cluster.clock.monotonic()

    async def _fetch(self) -> PartitionData:
        """Fetch from the position on, following the leader and trying again what may succeed later."""
        what = f"fetching {names_of([self._key])} from offset {self._position}"
        return await self._cluster.retrying(what, self._fetch_once, timeout_ms=self._settings.poll_timeout_ms)

    async def _fetch_once(self) -> PartitionData:
        config = self._config
        leader = await self._cluster.leader_of(self._key)
        bytes_max = self._bytes_wanted()
        partition = FetchPartition(
            partition=self._key.partition,
            current_leader_epoch=leader.leader_epoch,
            fetch_offset=self._position,
            partition_max_bytes=bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=max(bytes_max, config.fetch_max_bytes),
            isolation_level=int(config.is_read_committed),
            topics=[FetchTopic(topic=self._key.topic, topic_id=leader.topic_id, partitions=[partition])],
            rack_id=config.client_rack,
        )
        connection = await self._cluster.connection_to(leader.node_id, lane=_LANE)
        version_max = _NAMES_VERSION_MAX if leader.topic_id == ZERO_UUID else None
        response = await connection.request(request, FetchResponse, version_max=version_max)
        raise_for_code(response.error_code, "fetch")
        data = response.responses[0].partitions[0]
        error = error_of(data.error_code, f"fetching {names_of([self._key])} from offset {self._position}")
        if error is not None and data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise error
        return data

    def _bytes_wanted(self) -> int:
        """Give how much to ask for: all there may be, but not much more than what is left of the range."""
        each = self._client.bytes_per_offset.get(self._key, _BYTES_PER_OFFSET_FIRST)
        wanted = int((self._range.until - self._position) * each * 1.05) + _FETCH_BYTES_MIN
        return min(wanted, self._config.max_partition_fetch_bytes)

    async def _skip_what_is_gone(self) -> None:
        """Go to where the log begins, or to the end of the range where the log ends before it."""
        first = (await list_offsets(self._cluster, {self._key: EARLIEST}))[self._key].offset
        last = (await list_offsets(self._cluster, {self._key: LATEST}))[self._key].offset
        position, until = self._position, self._range.until
        if position < first:
            self._report(f"Offsets {position} to {min(first, until)} of {names_of([self._key])} are not there any more")
            self._move(min(first, until))
        elif position > last:
            self._report(f"Partition {names_of([self._key])} ends at {last}, before offset {position} was read")
            self._move(until)
        else:
            self._look_at_time(self._settings.poll_timeout_ms)
            await self._cluster.clock.sleep(self._config.retry_backoff_ms)

    def _look_at_silence(self, data: PartitionData) -> None:
        """Take notice that nothing came; after a while what is missing is lost, or late."""
        ends_before = data.high_watermark <= self._position
        silent_ms = (self._cluster.clock.monotonic() - self._moved_at) * 1000
        if ends_before and silent_ms > min(_SILENCE_MS, self._settings.poll_timeout_ms):
            where = f"{names_of([self._key])} ends at {data.high_watermark}"
            self._report(f"Partition {where}, before offsets {self._position} to {self._range.until} were read")
            self._move(self._range.until)
        else:
            self._look_at_time(self._settings.poll_timeout_ms)

    def _look_at_time(self, timeout_ms: int) -> None:
        if (self._cluster.clock.monotonic() - self._moved_at) * 1000 > timeout_ms:
            where = f"{names_of([self._key])} at offset {self._position}"
            raise OperationTimedOut(f"nothing came of {where} for {timeout_ms} ms (kafkaConsumer.pollTimeoutMs)")

    def _report(self, what: str) -> None:
        report_data_loss(what, fails=self._settings.fails_on_data_loss)
