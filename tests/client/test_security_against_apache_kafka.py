"""TLS and SASL as Apache Kafka has them: every mechanism, for producers, consumers and administration alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.cli.main import main
from tailrace.client.admin import Admin, NewTopic
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.errors import AuthenticationFailed
from tailrace.client.oauth import BearerToken, TokenProvider
from tailrace.client.producer import Producer
from tailrace.clock import SystemClock
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tailrace.protocol.sasl.scram import salted_password
from tailrace.settings.client_config import AdminConfig, ConsumerConfig
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tests.broker.transactions.blocking_wire import BlockingWire
from tests.client.certificates import Authority
from tests.client.test_credentials import make_token_provider

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

MODULES = "org.apache.kafka.common.security"
REAUTHENTICATION_MS = 1_500
SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
UNSECURED = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def broker_settings(authority: Authority) -> dict[str, str]:
    sasl = "listener.name.secure"
    plain = f'{MODULES}.plain.PlainLoginModule required user_alice="alice-secret";'
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.keystore("localhost", "127.0.0.1")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "listener.name.mutual.ssl.client.auth": "required",
        "group.initial.rebalance.delay.ms": "0",
        f"{sasl}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{sasl}.plain.sasl.jaas.config": plain,
        f"{sasl}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{sasl}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{sasl}.oauthbearer.sasl.jaas.config": UNSECURED,
        f"{sasl}.connections.max.reauth.ms": str(REAUTHENTICATION_MS),
    }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[ApacheKafka]:
    listeners = {"SECURE": "SASL_SSL", "MUTUAL": "SSL"}
    folder = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(folder, broker_settings(authority), listeners=listeners) as broker:
        for number, hash_name in SCRAM.values():
            give_password(broker, number, hash_name)
        yield broker


def give_password(broker: ApacheKafka, mechanism: int, hash_name: str) -> None:
    salted = salted_password(hash_name, b"alice-secret", b"salt", 4096)
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted
    )
    with BlockingWire(broker.port) as wire:
        (result,) = wire.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0).results
        assert result.error_code == 0, result


def secure(kafka: ApacheKafka, authority: Authority, mechanism: str, **settings: Any) -> AdminConfig:
    return AdminConfig(
        {
            "bootstrap_servers": f"localhost:{kafka.ports['SECURE']}",
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": str(authority.trusted),
            "sasl_mechanism": mechanism,
            **settings,
        }
    )


def user(mechanism: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_jaas_config": UNSECURED}
    if mechanism == "PLAIN":
        module = f"{MODULES}.plain.PlainLoginModule"
        return {"sasl_jaas_config": f'{module} required username="alice" password="alice-secret";'}
    return {"sasl_username": "alice", "sasl_password": "alice-secret"}


async def check_that_records_arrive(cluster: Cluster, topic: str) -> None:
    """Create a topic, write to it, and read it in a group, over one cluster's connections."""
    assert await Admin(cluster).create_topics([NewTopic(topic, 1, 1)]) == {topic: None}
    async with Producer(cluster=cluster) as producer:
        for number in range(100):
            await producer.send(topic, b"%d" % number)
    values: list[bytes | None] = []
    group = ConsumerConfig({"group_id": topic, "auto_offset_reset": "earliest"})
    async with Consumer(group, cluster=cluster) as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            values.append(record.value)
            if len(values) == 100:
                break
    assert values == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_every_mechanism_over_tls(kafka: ApacheKafka, authority: Authority, mechanism: str) -> None:
    async with Cluster(secure(kafka, authority, mechanism, **user(mechanism))) as cluster:
        await check_that_records_arrive(cluster, f"by-{mechanism.lower()}")


async def test_certificates_on_both_sides(kafka: ApacheKafka, authority: Authority) -> None:
    settings = {
        "bootstrap_servers": f"localhost:{kafka.ports['MUTUAL']}",
        "security_protocol": "SSL",
        "ssl_truststore_location": str(authority.trusted),
        "ssl_keystore_location": str(authority.keystore("alice", password="locked")),
        "ssl_key_password": "locked",
    }
    async with Cluster(AdminConfig(settings)) as cluster:
        await check_that_records_arrive(cluster, "by-certificate")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_refused(kafka: ApacheKafka, authority: Authority, mechanism: str) -> None:
    config = secure(kafka, authority, mechanism, sasl_username="alice", sasl_password="wrong")
    async with Admin(config=config) as admin:
        with pytest.raises(AuthenticationFailed, match=f"by {mechanism} failed: Authentication failed"):
            await admin.describe_cluster()


async def test_a_broker_that_is_not_trusted_gets_no_password(
    kafka: ApacheKafka, authority: Authority, tmp_path: Path
) -> None:
    config = secure(kafka, Authority(tmp_path), "PLAIN", **user("PLAIN"))
    async with Admin(config=config) as admin:
        with pytest.raises(AuthenticationFailed, match="could not prove who it is"):
            await admin.describe_cluster()


async def test_tokens_that_are_refused_are_said(kafka: ApacheKafka, authority: Authority) -> None:
    async def provide() -> BearerToken:
        return BearerToken("no.token")

    async with Admin(config=secure(kafka, authority, "OAUTHBEARER"), token_provider=provide) as admin:
        with pytest.raises(AuthenticationFailed, match="OAUTHBEARER"):
            await admin.describe_cluster()


async def test_sessions_are_renewed_on_the_same_connections_while_records_flow(
    kafka: ApacheKafka, authority: Authority
) -> None:
    """A broker ends connections whose session is over, so records that all arrive were sent over renewed ones."""
    config = secure(kafka, authority, "OAUTHBEARER", **user("OAUTHBEARER"))
    unsecured: TokenProvider = make_token_provider(config, SystemClock())
    tokens = 0

    async def provide() -> BearerToken:
        nonlocal tokens
        tokens += 1
        return await unsecured()

    topic, count = "renewed", 0
    async with Cluster(config, token_provider=provide) as cluster:
        assert await Admin(cluster).create_topics([NewTopic(topic, 1, 1)]) == {topic: None}
        connections = {await cluster.any_connection(), await cluster.controller()}
        async with Producer(cluster=cluster, linger_ms=0, batch_size=200) as producer:
            deliveries = []
            while tokens < len(connections) * 4:
                for _ in range(50):  # several batches are in flight when a session is renewed
                    deliveries.append(await producer.send(topic, b"%d" % count))
                    count += 1
                await Admin(cluster).describe_cluster()
                await deliveries[-100 if count > 100 else -1]
        assert [delivery.result().offset for delivery in deliveries] == list(range(count))
        assert all(connection.is_open for connection in connections)


def test_commands_take_what_the_cluster_wants_from_a_file(
    kafka: ApacheKafka, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers=localhost:{kafka.ports['SECURE']}\nsecurity.protocol=SASL_SSL\n"
        f"ssl.truststore.location={authority.trusted}\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.username=alice\nsasl.password=alice-secret\nmax.poll.records=5\n"
    )
    assert main(["topics", "create", "by-command", "--command-config", str(file)]) == 0
    assert capsys.readouterr().out == "created by-command\n"
    file.write_text(file.read_text().replace("alice-secret", "wrong"))
    assert main(["topics", "list", "--command-config", str(file)]) == 1
    assert "by SCRAM-SHA-512 failed: Authentication failed" in capsys.readouterr().err
