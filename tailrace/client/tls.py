"""What TLS needs to know, made of the ssl.* settings.

Stores are PEM: one file with what is trusted, one with the client's key and certificate chain, or the same as text in
the settings. Without a trust store the system's certificates are trusted. The broker's name is checked against its
certificate unless ssl.endpoint.identification.algorithm is empty; the certificate itself always is.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Final

from tailrace.settings.client_config import ClientConfig
from tailrace.settings.config_error import ConfigError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def make_tls_context(config: ClientConfig) -> ssl.SSLContext:
    """Make the context of all connections of one client; ConfigError where a store cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.check_hostname = config.ssl_endpoint_identification_algorithm.lower() == "https"
    if config.ssl_cipher_suites:
        _set_ciphers(context, config.ssl_cipher_suites)
    _trust(context, config)
    _identify(context, config)
    return context


def _set_ciphers(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError as error:
        raise ConfigError("ssl.cipher.suites", ",".join(names), "cipher suites by OpenSSL's names") from error


def _trust(context: ssl.SSLContext, config: ClientConfig) -> None:
    location, text = config.ssl_truststore_location, config.ssl_truststore_certificates
    expected = "certificates in PEM"
    try:
        if text is not None:
            context.load_verify_locations(cadata=text)
        elif location is not None:
            context.load_verify_locations(cafile=location)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except (OSError, ValueError) as error:
        if text is not None:
            raise ConfigError("ssl.truststore.certificates", "[hidden]", expected) from error
        raise ConfigError("ssl.truststore.location", location, f"a file with {expected} ({error})") from error


def _identify(context: ssl.SSLContext, config: ClientConfig) -> None:
    """Load the client's key and certificates. OpenSSL reads them from files only, so a text is put into one for it."""
    password = config.ssl_key_password
    location, key, chain = config.ssl_keystore_location, config.ssl_keystore_key, config.ssl_keystore_certificate_chain
    expected = "a private key and its certificate chain in PEM, and the key's password in ssl.key.password"
    try:
        if key is not None and chain is not None:
            with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:  # readable by this user only
                file = Path(folder) / "keystore.pem"
                file.write_text(f"{key}\n{chain}\n")
                context.load_cert_chain(file, password=password or "")
        elif location is not None:
            context.load_cert_chain(location, password=password or "")
    except (OSError, ValueError) as error:
        if key is not None:
            raise ConfigError("ssl.keystore.key", "[hidden]", expected) from error
        raise ConfigError("ssl.keystore.location", location, f"a file with {expected} ({error})") from error
