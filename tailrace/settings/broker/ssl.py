"""TLS: certificates, protocols, and who has to show a certificate.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, class_name, password, string, word_list
from tailrace.settings.definition import LOW, MEDIUM, PER_BROKER, SettingTable
from tailrace.settings.value_range import one_of


class SslSettings(SettingTable):
    """TLS: certificates, protocols, and who has to show a certificate."""

    ssl_client_auth = string(
        "none",
        "Whether a client has to show a certificate (required), may (requested) or is not asked (none).",
        one_of("required", "requested", "none"),
        MEDIUM,
        PER_BROKER,
    )
    ssl_principal_mapping_rules = string(
        "DEFAULT", "Rules that turn a certificate's distinguished name into a user.", None, LOW
    )
    ssl_allow_dn_changes = boolean(False, "Let a new key store carry another distinguished name.", None, LOW)
    ssl_allow_san_changes = boolean(False, "Let a new key store carry other subject alternative names.", None, LOW)
    ssl_protocol = string("TLSv1.3", "The TLS protocol that contexts are made with.", None, MEDIUM, PER_BROKER)
    ssl_provider = string(None, "The Java security provider of TLS.", None, MEDIUM, PER_BROKER)
    ssl_enabled_protocols = word_list(
        ("TLSv1.2", "TLSv1.3"), "The TLS versions that connections may use.", None, MEDIUM, PER_BROKER
    )
    ssl_keystore_type = string("JKS", "The format of the key store.", None, MEDIUM, PER_BROKER)
    ssl_keystore_location = string(
        None, "The file with the broker's private key and certificate.", None, MEDIUM, PER_BROKER
    )
    ssl_keystore_password = password(None, "The password of the key store file.", None, MEDIUM, PER_BROKER)
    ssl_key_password = password(None, "The password of the private key.", None, MEDIUM, PER_BROKER)
    ssl_keystore_key = password(None, "The private key itself, as PEM.", None, MEDIUM, PER_BROKER)
    ssl_keystore_certificate_chain = password(None, "The certificate chain itself, as PEM.", None, MEDIUM, PER_BROKER)
    ssl_truststore_type = string("JKS", "The format of the trust store.", None, MEDIUM, PER_BROKER)
    ssl_truststore_location = string(None, "The file with the certificates that are trusted.", None, MEDIUM, PER_BROKER)
    ssl_truststore_password = password(None, "The password of the trust store file.", None, MEDIUM, PER_BROKER)
    ssl_truststore_certificates = password(
        None, "The trusted certificates themselves, as PEM.", None, MEDIUM, PER_BROKER
    )
    ssl_keymanager_algorithm = string("SunX509", "The Java algorithm that picks keys.", None, MEDIUM, PER_BROKER)
    ssl_trustmanager_algorithm = string(
        "PKIX", "The Java algorithm that checks certificates.", None, MEDIUM, PER_BROKER
    )
    ssl_endpoint_identification_algorithm = string(
        "https", "How the broker, as a client, checks a host name; empty turns the check off.", None, LOW, PER_BROKER
    )
    ssl_secure_random_implementation = string(None, "The Java random generator of TLS.", None, LOW, PER_BROKER)
    ssl_cipher_suites = word_list(
        (), "The cipher suites that connections may use; empty allows all.", None, MEDIUM, PER_BROKER
    )
    ssl_engine_factory_class = class_name(None, "The Java class that makes TLS engines.", None, LOW, PER_BROKER)
    security_providers = string(None, "Java classes that bring security algorithms.", None, LOW)
    principal_builder_class = class_name(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The Java class that makes a principal of a connection.",
        None,
        MEDIUM,
        PER_BROKER,
    )
