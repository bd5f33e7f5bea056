"""How a producer's batches travel: to which broker, in which request, how often, and under which producer id.

One task decides what can go; each request is a task of its own, at most `in_flight_max` to a broker. A batch that fails
for a reason that may pass is put back and tried again until its delivery timeout. The sequence number is given when a
batch is first taken and stays with it. When a batch is given up, brokers would refuse what follows it in sequence; so
the producer asks for a new id, and sequences begin anew.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from tailrace.client.accumulator import Accumulator, ProducerBatch
from tailrace.client.cluster import Cluster
from tailrace.client.errors import (
    ClientClosed,
    ClientError,
    OperationTimedOut,
    calls_for_metadata,
    is_retriable,
    known_code,
    raise_for_code,
)
from tailrace.client.metadata import Leader
from tailrace.clock import TimerHandle
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.protocol.records.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID

_NAMES_VERSION_MAX = 12
"""The last version of Produce that names topics; from 13 on it has their ids."""
_SEQUENCE_MASK = 0x7FFFFFFF


class Sender:
    """Sends the batches of one accumulator."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        *,
        acks: int,
        is_idempotent: bool,
        delivery_timeout_ms: int,
        request_bytes_max: int,
        in_flight_max: int,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._delivery_timeout_ms = delivery_timeout_ms
        self._request_bytes_max = request_bytes_max
        self._in_flight_max = in_flight_max
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._requests: dict[int, set[asyncio.Task[None]]] = defaultdict(set)
        self._run_task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._timer: TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        """Have a look at what can be sent."""
        if self._run_task is None:
            self._run_task = asyncio.create_task(self._run())
        self._woken.set()

    async def room(self) -> None:
        """Wait until a batch has left the buffer."""
        self.wake()
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    async def flush(self) -> None:
        """Send what is there now without waiting for batches to fill, and wait until it is settled."""
        last = [batch.deliveries[-1][0] for batch in self._accumulator.batches()]
        if not last:
            return
        self._accumulator.flushes_count += 1
        self.wake()
        try:
            await asyncio.wait(last)
        finally:
            self._accumulator.flushes_count -= 1

    async def close(self) -> None:
        """Stop; what is left fails with ClientClosed."""
        tasks = [task for requests in self._requests.values() for task in requests]
        if self._run_task is not None:
            tasks.append(self._run_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        for batch in self._accumulator.drop_all():
            batch.fail(ClientClosed("the producer was closed before the record was sent"))
        self._let_go_on()

    async def _run(self) -> None:
        """Look for what can be sent, whenever something has changed or its time has come."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._dispatch()

    async def _dispatch(self) -> None:
        """Send what is ready, and set the timer for what is not."""
        clock = self._cluster.clock
        ready, next_at = self._accumulator.ready(clock.monotonic())
        by_node: dict[int, list[tuple[TopicPartition, Leader]]] = defaultdict(list)
        for topic_partition in ready:
            if self._give_up_expired(topic_partition):
                continue
            try:
                leader = await self._cluster.leader_of(topic_partition)
            except (ApiError, ClientError) as error:
                self._postpone(self._accumulator.take(topic_partition), error)
                continue
            by_node[leader.node_id].append((topic_partition, leader))
        for node_id, targets in by_node.items():
            if len(self._requests[node_id]) < self._in_flight_max:
                self._start(node_id, targets)
        if next_at is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = clock.call_later(max(next_at - clock.monotonic(), 0) * 1000, self._woken.set)

    def _start(self, node_id: int, targets: Sequence[tuple[TopicPartition, Leader]]) -> None:
        """Take as many batches as one request holds, and send them in a task."""
        batches: list[tuple[ProducerBatch, Leader]] = []
        size = 0
        for topic_partition, leader in targets:
            size += self._accumulator.first(topic_partition).builder.size
            if batches and size > self._request_bytes_max:
                self._woken.set()
                break
            batches.append((self._accumulator.take(topic_partition), leader))
        task = asyncio.create_task(self._send(node_id, batches))
        self._requests[node_id].add(task)
        task.add_done_callback(lambda done: self._sent(node_id, done))

    def _sent(self, node_id: int, task: asyncio.Task[None]) -> None:
        self._requests[node_id].discard(task)
        self._woken.set()

    async def _send(self, node_id: int, batches: Sequence[tuple[ProducerBatch, Leader]]) -> None:
        """Send one request, and settle each of its batches by the answer."""
        try:
            for batch, _ in batches:
                if batch.data is None:
                    await self._close_batch(batch)
            response = await self._request(node_id, batches)
        except (ApiError, ClientError) as error:
            for batch, _ in batches:
                self._settle(batch, error)
            return
        if response is None:
            for batch, _ in batches:
                self._accumulator.settle(batch)
                batch.succeed(-1, -1)
            self._let_go_on()
            return
        answers = _answers_by_partition(response)
        for batch, leader in batches:
            topic, partition = batch.topic_partition
            answer = answers.get((topic, partition)) or answers.get((leader.topic_id, partition))
            self._settle_by_answer(batch, answer)

    async def _close_batch(self, batch: ProducerBatch) -> None:
        """Make the batch's bytes, with the producer's id and the next sequence numbers of its partition."""
        producer_id, epoch, sequence = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
        if self._is_idempotent:
            if self._producer is None:
                await self._initialize_producer()
            assert self._producer is not None, "a producer id was just given"
            producer_id, epoch = self._producer
            sequence = self._sequences.get(batch.topic_partition, 0)
            self._sequences[batch.topic_partition] = (sequence + batch.builder.records_count) & _SEQUENCE_MASK
        batch.data = batch.builder.finish(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    async def _initialize_producer(self) -> None:
        """Ask any broker for a producer id."""
        connection = await self._cluster.any_connection()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        response = await connection.request(request, InitProducerIdResponse)
        raise_for_code(response.error_code, "asking for a producer id")
        if self._producer is None:
            self._producer = (response.producer_id, response.producer_epoch)

    async def _request(self, node_id: int, batches: Sequence[tuple[ProducerBatch, Leader]]) -> ProduceResponse | None:
        """Send the batches; None where no answer is asked for."""
        by_topic: dict[tuple[str, bytes], list[PartitionProduceData]] = defaultdict(list)
        for batch, leader in batches:
            topic, partition = batch.topic_partition
            by_topic[topic, leader.topic_id].append(PartitionProduceData(index=partition, records=batch.data))
            batch.attempts += 1
        timeout_ms = self._cluster.settings.request_timeout_ms
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions)
                for (name, topic_id), partitions in by_topic.items()
            ],
        )
        has_ids = all(leader.topic_id != ZERO_UUID for _, leader in batches)
        version_max = None if has_ids else _NAMES_VERSION_MAX
        connection = await self._cluster.connection_to(node_id)
        if self._acks == 0:
            await connection.send_without_answer(request, version_max=version_max)
            return None
        return await connection.request(request, ProduceResponse, version_max=version_max)

    def _settle_by_answer(self, batch: ProducerBatch, answer: PartitionProduceResponse | None) -> None:
        if answer is None:
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no answer for partition {batch.topic_partition}")
            self._settle(batch, error)
        elif answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._accumulator.settle(batch)
            batch.succeed(-1 if answer.error_code else answer.base_offset, answer.log_append_time_ms)
            self._let_go_on()
        else:
            said = "; ".join(entry.batch_index_error_message or "" for entry in answer.record_errors)
            reason = answer.error_message or said or f"partition {batch.topic_partition}"
            self._settle(batch, ApiError(known_code(answer.error_code), reason))

    def _settle(self, batch: ProducerBatch, error: Exception) -> None:
        """Have a batch tried again, or give it up."""
        if calls_for_metadata(error):
            self._cluster.expire_metadata()
        if is_retriable(error):
            self._postpone(batch, error)
            return
        self._accumulator.settle(batch)
        self._give_up(batch, error)

    def _postpone(self, batch: ProducerBatch, error: Exception) -> None:
        """Put a batch back for a later attempt, as long as its delivery timeout allows one."""
        settings = self._cluster.settings
        now = self._cluster.clock.monotonic()
        pause_ms = min(settings.retry_backoff_ms * 2 ** min(batch.attempts, 10), settings.retry_backoff_max_ms)
        if not is_retriable(error) or now + pause_ms / 1000 > batch.created_at + self._delivery_timeout_ms / 1000:
            self._accumulator.settle(batch)
            self._give_up(batch, self._expired(batch, error) if is_retriable(error) else error)
            return
        self._accumulator.put_back(batch, not_before=now + pause_ms / 1000)
        self._woken.set()

    def _give_up_expired(self, topic_partition: TopicPartition) -> bool:
        """Give up a partition's first batch if its time is over."""
        batch = self._accumulator.first(topic_partition)
        if self._cluster.clock.monotonic() <= batch.created_at + self._delivery_timeout_ms / 1000:
            return False
        self._give_up(self._accumulator.drop(topic_partition), self._expired(batch, None))
        self._woken.set()
        return True

    def _expired(self, batch: ProducerBatch, error: Exception | None) -> OperationTimedOut:
        reason = f": {error}" if error is not None else ""
        return OperationTimedOut(
            f"{batch.builder.records_count} records for {batch.topic_partition} were not acknowledged in "
            f"{self._delivery_timeout_ms} ms{reason}"
        )

    def _give_up(self, batch: ProducerBatch, error: Exception) -> None:
        """Fail a batch that has left the accumulator; its sequence numbers are lost, so begin with a new id."""
        if batch.data is not None and self._is_idempotent:
            self._producer = None
            self._sequences.clear()
        batch.fail(error)
        self._let_go_on()

    def _let_go_on(self) -> None:
        """Wake those who wait for room or for the end of a flush."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _answers_by_partition(response: ProduceResponse) -> dict[tuple[str | bytes, int], PartitionProduceResponse]:
    """Index the answer by partition, under the topic's name or its id, whichever the version has."""
    answers: dict[tuple[str | bytes, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            answers[topic.name or topic.topic_id, partition.index] = partition
    return answers
