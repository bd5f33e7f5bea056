"""A certificate authority of the tests' own, with certificates in PEM as Kafka and OpenSSL read them."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """Signs certificates; `trusted` is the file of who trusts it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.trusted = folder / "trusted.pem"
        self._authority.cert_pem.write_to_path(self.trusted)

    def keystore(self, *names: str, password: str | None = None) -> Path:
        """Write the key and the certificate of somebody with these names, and give the file."""
        certificate = self._authority.issue_cert(*names, common_name=names[0], key_type=trustme.KeyType.ECDSA)
        key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        path = self._folder / f"{names[0]}{'-locked' if password else ''}.pem"
        path.write_bytes(pem + b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        return path
