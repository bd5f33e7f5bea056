"""How a client proves who it is, and how it knows whom it talks to: TLS and SASL.

Names, types, ranges and defaults are those of Apache Kafka 4.1 but for two: Java's key stores cannot be read here, so
the type of a store is PEM, and `sasl.username` and `sasl.password`, which librdkafka has, need no JAAS around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from tailrace.settings.declare import password, string, word_list
from tailrace.settings.definition import HIGH, LOW, MEDIUM, SettingTable
from tailrace.settings.value_range import OneOf, each_one_of, one_of

PROTOCOLS = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class ClientSecuritySettings(SettingTable):
    """Security: TLS, and who the client says it is."""

    security_protocol = string(
        "PLAINTEXT",
        "Whether connections are encrypted (SSL), authenticated (SASL), or both.",
        OneOf(PROTOCOLS, any_case=True),
        MEDIUM,
        acts=True,
    )
    ssl_truststore_location = string(
        None, "A PEM file with the certificates that are trusted; else the system's.", None, HIGH, acts=True
    )
    ssl_truststore_certificates = password(None, "The trusted certificates themselves, as PEM.", None, HIGH, acts=True)
    ssl_truststore_type = string("PEM", "The format of the trust store.", one_of("PEM"), MEDIUM, acts=True)
    ssl_keystore_location = string(
        None, "A PEM file with the client's private key and certificate chain.", None, HIGH, acts=True
    )
    ssl_keystore_certificate_chain = password(
        None, "The client's certificate chain itself, as PEM.", None, HIGH, acts=True
    )
    ssl_keystore_key = password(None, "The client's private key itself, as PEM.", None, HIGH, acts=True)
    ssl_keystore_type = string("PEM", "The format of the key store.", one_of("PEM"), MEDIUM, acts=True)
    ssl_key_password = password(None, "The password of the private key.", None, HIGH, acts=True)
    ssl_enabled_protocols = word_list(
        ("TLSv1.2", "TLSv1.3"),
        "The TLS versions that connections may use.",
        each_one_of("TLSv1.2", "TLSv1.3"),
        MEDIUM,
        acts=True,
    )
    ssl_cipher_suites = word_list(
        None, "The cipher suites of TLS 1.2 by OpenSSL's names; unset allows all.", None, LOW, acts=True
    )
    ssl_endpoint_identification_algorithm = string(
        "https",
        "How a broker's name is checked against its certificate; empty turns the check off.",
        None,
        LOW,
        acts=True,
    )
    sasl_mechanism = string("GSSAPI", "How the client authenticates itself.", None, MEDIUM, acts=True)
    sasl_jaas_config = password(
        None, "User and password in the JAAS form that Java's clients take.", None, MEDIUM, acts=True
    )
    sasl_username = string(None, "The user, for PLAIN and SCRAM.", None, HIGH, acts=True)
    sasl_password = password(None, "The password, for PLAIN and SCRAM.", None, HIGH, acts=True)
    sasl_oauthbearer_token_endpoint_url = string(
        None, "Where OAUTHBEARER's tokens are fetched from, by the client credentials grant.", None, MEDIUM, acts=True
    )
    sasl_oauthbearer_client_credentials_client_id = string(
        None, "The client's id at the identity provider.", None, MEDIUM, acts=True
    )
    sasl_oauthbearer_client_credentials_client_secret = password(
        None, "The client's secret at the identity provider.", None, MEDIUM, acts=True
    )
    sasl_oauthbearer_scope = string(None, "The scope that tokens are asked for.", None, MEDIUM, acts=True)


class SecurityOptions(TypedDict, total=False):
    """The same as keyword arguments."""

    security_protocol: str
    ssl_truststore_location: str
    ssl_truststore_certificates: str
    ssl_truststore_type: str
    ssl_keystore_location: str
    ssl_keystore_certificate_chain: str
    ssl_keystore_key: str
    ssl_keystore_type: str
    ssl_key_password: str
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    ssl_endpoint_identification_algorithm: str
    sasl_mechanism: str
    sasl_jaas_config: str
    sasl_username: str
    sasl_password: str
    sasl_oauthbearer_token_endpoint_url: str
    sasl_oauthbearer_client_credentials_client_id: str
    sasl_oauthbearer_client_credentials_client_secret: str
    sasl_oauthbearer_scope: str
