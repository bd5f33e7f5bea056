"""The client without an event loop, against a real broker in a process of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from itertools import islice

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from tailrace.client import (
    ClientClosed,
    InvalidState,
    RebalanceListener,
    SerializationFailed,
    TopicPartition,
    UnsupportedVersion,
)
from tailrace.client.admin import NewTopic
from tailrace.client.blocking import Admin, BlockingDelivery, Consumer, Producer
from tailrace.client.blocking.producer import HANDED_OVER_MAX
from tailrace.client.errors import BufferExhausted, ClientError, WokenUp
from tailrace.client.serializers import JsonDeserializer, JsonSerializer, StringDeserializer, StringSerializer
from tailrace.testing.broker_process import BrokerProcess
from tests.waiting import wait_for

pytestmark = pytest.mark.xdist_group("blocking_client")

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS) as process:
        yield process.bootstrap_servers


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.create_topics([NewTopic(name, partitions=2)]) == {name: None}
    return name


def clients_thread() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tailrace-client"]


def test_records_are_written_and_read_and_committed(servers: str, topic: str) -> None:
    with Producer(
        bootstrap_servers=servers, key_serializer=StringSerializer(), value_serializer=JsonSerializer()
    ) as producer:
        deliveries = [producer.send(topic, {"n": n}, key="k", headers=[("h", b"x")], timestamp_ms=n) for n in range(50)]
        producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        placed = [delivery.result() for delivery in deliveries]
        assert [one.offset for one in placed] == list(range(50))
        assert len(producer.partitions_for(topic)) == 2
    options = {"bootstrap_servers": servers, "group_id": topic, "auto_offset_reset": "earliest"}
    deserializers = {"key_deserializer": StringDeserializer(), "value_deserializer": JsonDeserializer()}
    with Consumer(**options, **deserializers) as consumer:
        consumer.subscribe([topic])
        records = list(islice(consumer, 20))
        assert [(one.key, one.value["n"], one.headers, one.timestamp) for one in records] == [
            ("k", n, [("h", b"x")], n) for n in range(20)
        ]
        assert consumer.subscription == {topic}
        assert consumer.assignment == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
        key = TopicPartition(topic, placed[0].partition)
        assert consumer.position(key) == 20
        consumer.commit()
        found = consumer.committed(key)[key]
        assert found is not None
        assert found.offset == 20, "records that were not handed out are not committed"
        assert consumer.end_offsets([key]) == {key: 50}
        consumer.seek(key, 45)
        assert [one.value["n"] for one in islice(consumer, 5)] == [45, 46, 47, 48, 49]
        assert consumer.poll(timeout_ms=1) == []
    with Consumer(**options) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(10) or consumer.assignment)
        assert consumer.position(key) == 50, "closing has committed what was handed out"


def test_many_threads_send_through_one_producer(servers: str, topic: str) -> None:
    deliveries: list[BlockingDelivery] = []
    registry = CollectorRegistry()
    with Producer(bootstrap_servers=servers, linger_ms=1, metrics=registry) as producer:

        def send() -> None:
            deliveries.extend([producer.send(topic, b"v", partition=0) for _ in range(3 * HANDED_OVER_MAX)])

        threads = [threading.Thread(target=send) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        assert list(registry.collect()), "what is counted is told while the producer is open"
    offsets = sorted(delivery.result().offset for delivery in deliveries)
    assert offsets == list(range(6 * HANDED_OVER_MAX))


def test_bulks_and_arrow_go_both_ways(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        first = producer.send(topic, b"first", partition=0)
        (batch,) = producer.send_batch(topic, [b"a", b"b"], partition=0).result(30)
        (arrow,) = producer.send_arrow(topic, pa.table({"value": [b"c"]}), partition=0).result(30)
        assert (first.result(30).offset, batch.offset, arrow.offset) == (0, 1, 3)
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        seen: list[bytes] = []
        wait_for(lambda: seen.extend(consumer.poll_arrow(100)["value"].to_pylist()) or len(seen) == 4)
        assert seen == [b"first", b"a", b"b", b"c"]


def test_transactions_end_with_their_block(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            kept = producer.send(topic, b"kept", partition=0)
        assert kept.result(0).offset == 0
        with pytest.raises(KeyError), producer.transaction():
            raise KeyError(producer.send(topic, b"dropped", partition=0))
        producer.begin_transaction()
        producer.send(topic, b"kept too", partition=0)
        producer.send_offsets_to_transaction({TopicPartition(topic, 1): 7}, "readers")
        producer.commit_transaction()
    with Consumer(bootstrap_servers=servers, group_id="readers", isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        assert [record.value for record in islice(consumer, 2)] == [b"kept", b"kept too"]
        found = consumer.committed(TopicPartition(topic, 1))[TopicPartition(topic, 1)]
        assert found is not None
        assert found.offset == 7


def test_what_is_wrong_with_a_record_is_told_by_its_delivery(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers, value_serializer=JsonSerializer(), max_block_ms=200) as producer:
        wrong, right = producer.send(topic, {1}), producer.send(topic, [1])
        with pytest.raises(SerializationFailed, match="not JSON serializable"):
            wrong.result(30)
        assert right.result(30).offset == 0
        assert producer.send(topic, None, partition=9).exception(30) is not None
    with pytest.raises(ClientClosed):
        producer.send(topic, [1])
    producer.close()


def test_a_producer_that_cannot_write_makes_its_threads_wait(servers: str) -> None:
    options = {"max_block_ms": 50, "bootstrap_servers": servers, "delivery_timeout_ms": 1000, "request_timeout_ms": 900}
    with Producer(**options) as producer:
        hold = threading.Event()
        blocked = threading.Event()

        def stand_still() -> None:
            blocked.set()
            hold.wait(30)

        producer._loop().loop.call_soon_threadsafe(stand_still)
        assert blocked.wait(10)
        sent = [producer.send("nope", b"v") for _ in range(HANDED_OVER_MAX)]
        with pytest.raises(BufferExhausted, match="no record could be handed over in 50 ms"):
            producer.send("nope", b"v")
        hold.set()
        producer.close(flush=False)
    assert all(isinstance(delivery.exception(30), ClientError) for delivery in sent)


def test_deliveries_are_waited_for_and_told_of_whenever_somebody_asks(servers: str, topic: str) -> None:
    told: list[str] = []
    with Producer(bootstrap_servers=servers, linger_ms=60_000, max_block_ms=5_000) as producer:
        delivery = producer.send(topic, b"v", partition=0)
        delivery.add_done_callback(lambda done: told.append(f"early {done.result().offset}"))
        with pytest.raises(TimeoutError, match=r"not acknowledged in 0\.01 s"):
            delivery.result(0.01)
        assert not delivery.done()
        producer.flush()
        assert delivery.exception() is None
        delivery.add_done_callback(lambda done: told.append(f"late {done.result().offset}"))
        wrong = producer.send(topic, 5)  # type: ignore[arg-type]
        wrong.add_done_callback(lambda done: told.append(type(done.exception()).__name__))
        with pytest.raises(TypeError, match="is int, not bytes"):
            wrong.result(10)
    assert sorted(told) == ["TypeError", "early 0", "late 0"]
    assert "TypeError" in repr(wrong)
    delivery.add_done_callback(lambda done: told.append("after the end"))
    assert told[-1] == "after the end"


def test_a_callback_that_would_wait_for_itself_is_told_so(servers: str, topic: str) -> None:
    failures: list[BaseException] = []
    with Producer(bootstrap_servers=servers) as producer:

        def flush(_: object) -> None:
            with pytest.raises(InvalidState, match="own thread"):
                producer.flush()
            failures.append(InvalidState("seen"))

        producer.send(topic, b"v").add_done_callback(flush)
    assert len(failures) == 1


def test_a_listener_uses_the_asyncio_client(servers: str, topic: str) -> None:
    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            consumer.asynchronous.seek_to_end(*partitions)

        async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            await consumer.asynchronous.commit(dict.fromkeys(partitions, 3))

    with Producer(bootstrap_servers=servers) as producer:
        producer.send_batch(topic, [b"v"] * 5, partition=0).result(30)
    key = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic], listener=Listener())
        wait_for(lambda: consumer.poll(10) or consumer.assignment)
        assert consumer.position(key) == 5
    with Consumer(bootstrap_servers=servers, group_id=topic) as consumer:
        found = consumer.committed(key)[key]
        assert found is not None
        assert found.offset == 3


def test_another_thread_wakes_a_consumer(servers: str, topic: str) -> None:
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        timer = threading.Timer(0.05, consumer.wakeup)
        timer.start()
        with pytest.raises(WokenUp):
            consumer.poll(timeout_ms=30_000)
        timer.join()


def test_one_thread_serves_all_clients_and_ends_with_the_last(servers: str) -> None:
    assert clients_thread() == []
    first, second = Admin(bootstrap_servers=servers), Producer(bootstrap_servers=servers)
    assert len(clients_thread()) == 1
    assert first.describe_cluster().controller_id == 1
    first.close()
    first.close()
    assert len(clients_thread()) == 1
    second.close()
    assert clients_thread() == []
    with pytest.raises(RuntimeError, match="the admin is closed"):
        first.describe_cluster()
    with pytest.raises(ValueError, match="is no address"):
        Admin(bootstrap_servers="host:port")
    assert clients_thread() == []


def exit_code_of_a_fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_begins_with_clients_of_its_own(servers: str) -> None:
    def work() -> None:
        with Admin(bootstrap_servers=servers) as admin:
            assert admin.describe_cluster().controller_id == 1

    with Admin(bootstrap_servers=servers) as admin:
        assert exit_code_of_a_fork(work) == 0
        assert admin.describe_cluster().controller_id == 1


def test_errors_are_those_of_the_asyncio_client(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin, pytest.raises((UnsupportedVersion, ClientError)):
        admin.abort_transaction(TopicPartition("nope", 0), producer_id=1, producer_epoch=0, coordinator_epoch=0)
