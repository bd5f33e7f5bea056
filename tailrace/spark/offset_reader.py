"""What the driver asks the cluster: which partitions there are, and where they begin and end.

A query's limits become offsets here. What fails is tried again, `fetchOffset.numRetries` times beyond what the client
does by itself; a topic that is not there fails the query at last. Partitions that come, go or shrink between two
micro-batches are looked at in `ranges_between`, so that no record is left out unseen.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError, broker_error
from tailrace.client.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.spark.data_loss import report_data_loss
from tailrace.spark.offset_json import Offsets, names_of
from tailrace.spark.offset_limits import Earliest, GivenOffsets, GivenTimestamp, GivenTimestamps, Latest, OffsetLimit
from tailrace.spark.offset_ranges import OffsetRange
from tailrace.spark.options import SourceOptions
from tailrace.spark.topic_selection import SubscribePattern, select, topics_of

T = TypeVar("T")

_NO_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
_log = logging.getLogger("tailrace.spark")


class OffsetReader:
    """Asks a cluster about the partitions that a query reads."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._partitions: tuple[float, set[TopicPartition]] = (float("-inf"), set())
        is_committed = options.kafka.get("isolation.level") == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED

    async def partitions(self, *, age_max_ms: float = 0) -> set[TopicPartition]:
        """Give the partitions to read as they are now, or were `age_max_ms` ago."""
        now = self._cluster.clock.monotonic()
        asked_at, partitions = self._partitions
        if (now - asked_at) * 1000 >= age_max_ms:
            partitions = await self._retrying(self._ask_for_partitions)
            self._partitions = now, partitions
        return partitions

    async def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Give each partition's first offset."""
        return await self._offsets(dict.fromkeys(partitions, EARLIEST))

    async def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Give each partition's end: the high watermark, or the last stable offset for who reads committed data."""
        return await self._offsets(dict.fromkeys(partitions, LATEST))

    async def starting(self, partitions: set[TopicPartition]) -> Offsets:
        """Give the offsets that the options say to begin with."""
        return await self._resolve(self._options.starting, partitions, "starting")

    async def ending(self, partitions: set[TopicPartition]) -> Offsets:
        """Give the offsets that the options say to end before."""
        return await self._resolve(self._options.ending, partitions, "ending")

    async def batch_ranges(self) -> list[OffsetRange]:
        """Give what a batch query reads."""
        partitions = await self.partitions()
        starts, ends = await self.starting(partitions), await self.ending(partitions)
        ranges = [OffsetRange(key, starts[key], ends[key]) for key in sorted(partitions)]
        for offset_range in ranges:
            if offset_range.size < 0:
                raise ValueError(
                    f"The resolved start offset {offset_range.first} is greater than the resolved end offset "
                    f"{offset_range.until} for topic-partition {names_of([offset_range.topic_partition])}."
                )
        return ranges

    async def ranges_between(self, start: Mapping[TopicPartition, int], end: Offsets) -> list[OffsetRange]:
        """Give what a micro-batch reads, and report what is missing between its ends."""
        begin = await self.with_new_partitions(start, end)
        deleted = start.keys() - end.keys()
        if deleted:
            self._report(f"Partitions {names_of(deleted)} are gone")
        ranges: list[OffsetRange] = []
        for key in sorted(end):
            if end[key] < begin[key]:
                self._report(f"Partition {names_of([key])}'s offset was changed from {begin[key]} to {end[key]}")
            ranges.append(OffsetRange(key, begin[key], end[key]))
        return ranges

    async def with_new_partitions(self, start: Mapping[TopicPartition, int], end: Offsets) -> Offsets:
        """Give the starts of all partitions of `end`; those that are new begin with their first record."""
        added = end.keys() - start.keys()
        first = await self.earliest(added) if added else {}
        for key, offset in first.items():
            if offset > 0:
                self._report(f"Added partition {names_of([key])} starts from {offset} instead of 0")
        return {key: start[key] if key in start else first[key] for key in end}

    def _report(self, what: str) -> None:
        report_data_loss(what, fails=self._options.fails_on_data_loss)

    async def _ask_for_partitions(self) -> set[TopicPartition]:
        selection = self._options.selection
        names = topics_of(selection)
        fresh = await self._cluster.retrying("asking for metadata", lambda: self._cluster.metadata(names))
        for name in names or ():
            topic = fresh.topics.get(name)
            if topic is None or topic.error_code:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode(topic.error_code)
                raise broker_error(code, f"topic {name} cannot be read")
        chosen = select(selection, fresh.topics)
        there = {TopicPartition(name, number) for name, topic in fresh.topics.items() for number in topic.partitions}
        if chosen - there:
            missing = names_of(chosen - there)
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {missing}")
        if not chosen and isinstance(selection, SubscribePattern):
            _log.info("no topic matches the pattern '%s' yet", selection.pattern)
        return chosen

    async def _offsets(self, targets: Mapping[TopicPartition, int]) -> Offsets:
        if not targets:
            return {}

        async def ask() -> Offsets:
            found = await list_offsets(self._cluster, targets, isolation=self._isolation)
            return {key: place.offset for key, place in found.items()}

        return await self._retrying(ask)

    async def _resolve(self, limit: OffsetLimit, partitions: set[TopicPartition], which: str) -> Offsets:
        match limit:
            case Earliest():
                return await self.earliest(partitions)
            case Latest():
                return await self.latest(partitions)
            case GivenOffsets(offsets):
                _check_all_given(f"{which}Offsets", offsets, partitions)
                symbolic = {key: offset for key, offset in offsets.items() if offset in (EARLIEST, LATEST)}
                return {**offsets, **await self._offsets(symbolic)}
            case GivenTimestamp(timestamp_ms):
                return await self._at_times(dict.fromkeys(partitions, timestamp_ms), which)
            case GivenTimestamps(timestamps_ms):
                _check_all_given(f"{which}OffsetsByTimestamp", timestamps_ms, partitions)
                return await self._at_times(timestamps_ms, which)

    async def _at_times(self, timestamps_ms: Mapping[TopicPartition, int], which: str) -> Offsets:
        """Find the first record of each time or later; where there is none, the end, or an error."""
        found = await self._offsets({key: max(time, 0) for key, time in timestamps_ms.items()})
        unmatched = sorted(key for key, offset in found.items() if offset < 0)
        if unmatched and which == "starting" and not self._options.begins_at_latest_without_match:
            key = unmatched[0]
            raise ValueError(
                f"No offset matched from request of topic-partition {names_of([key])} and timestamp "
                f"{timestamps_ms[key]}."
            )
        return {**found, **await self.latest(unmatched)}

    async def _retrying(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again some times, with a pause between."""
        for attempt in range(1, self._options.offset_attempts + 1):
            try:
                return await ask()
            except ClientError as error:
                if attempt == self._options.offset_attempts:
                    raise
                _log.warning("attempt %d to ask for offsets failed: %s", attempt, error)
                self._cluster.expire_metadata()
                await self._cluster.clock.sleep(self._options.offset_retry_interval_ms)
        raise AssertionError("at least one attempt is made")


def _check_all_given(option: str, given: Mapping[TopicPartition, int], partitions: set[TopicPartition]) -> None:
    if set(given) != partitions:
        raise ValueError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions.\n"
            f"Use -1 for latest, -2 for earliest, if you don't care.\n"
            f"Specified: {names_of(given)} Assigned: {names_of(partitions)}"
        )
