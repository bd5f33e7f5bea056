"""SASL mechanisms against the examples of their RFCs, and against servers that lie."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from tailrace.protocol.sasl.mechanism import SaslFailure
from tailrace.protocol.sasl.oauthbearer import OauthBearerClient
from tailrace.protocol.sasl.plain import PlainClient
from tailrace.protocol.sasl.scram import ScramClient, salted_password

SCRAM_EXAMPLES = {
    # RFC 5802, section 5
    "sha1": [
        "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ],
    # RFC 7677, section 3
    "sha256": [
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ],
}


def scram(hash_name: str = "sha256", user: str = "user") -> ScramClient:
    nonce = SCRAM_EXAMPLES.get(hash_name, SCRAM_EXAMPLES["sha256"])[0].rpartition("r=")[2]
    return ScramClient("SCRAM-SHA-256", user, "pencil", nonce=nonce, hash_name=hash_name)


@pytest.mark.parametrize("hash_name", SCRAM_EXAMPLES)
def test_scram_says_what_the_rfcs_say(hash_name: str) -> None:
    client_first, server_first, client_final, server_final = SCRAM_EXAMPLES[hash_name]
    client = scram(hash_name)
    assert client.first() == client_first.encode()
    assert client.answer(server_first.encode()) == client_final.encode()
    assert client.answer(server_final.encode()) is None
    with pytest.raises(SaslFailure, match="after the end"):
        client.answer(b"v=AA==")


def test_scram_with_sha512_is_proved_to_who_knows_the_stored_key() -> None:
    client = ScramClient("SCRAM-SHA-512", "us=er,", "pencil", nonce="abc")
    assert client.first() == b"n,,n=us=3Der=2C,r=abc"
    server_first = f"r=abcdef,s={base64.b64encode(b'salt').decode()},i=8192"
    final = client.answer(server_first.encode())
    assert final is not None
    without_proof, _, proof = final.decode().rpartition(",p=")
    salted = salted_password("sha512", b"pencil", b"salt", 8192)
    stored_key = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    signed = f"n=us=3Der=2C,r=abc,{server_first},{without_proof}".encode()
    signature = hmac.digest(stored_key, signed, "sha512")
    client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(client_key).digest() == stored_key
    server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), signed, "sha512")
    assert client.answer(b"v=" + base64.b64encode(server_signature)) is None


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (b"e=unknown-user", "refuses: unknown-user"),
        (b"r=other,s=AA==,i=4096", "does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=AA==,i=4096", "does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=4095", "'4095' iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=99999999999", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=many", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AA==", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=!,i=4096", "no s= in base64"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,i=4096", "no s= in base64"),
        (b"m=ext,r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=4096", "extension"),
        (b"r=a,r=b", "no SCRAM message"),
        (b"", "no SCRAM message"),
        (b"\xff", "no text"),
    ],
)
def test_a_scram_server_that_lies_is_not_believed(challenge: bytes, said: str) -> None:
    client = scram()
    client.first()
    with pytest.raises(SaslFailure, match=said):
        client.answer(challenge)


def test_a_scram_server_that_does_not_know_the_password_is_not_believed() -> None:
    client = scram()
    client.first()
    client.answer(SCRAM_EXAMPLES["sha256"][1].encode())
    with pytest.raises(SaslFailure, match="does not know the password"):
        client.answer(b"v=" + base64.b64encode(bytes(32)))


def test_plain_says_what_the_rfc_says() -> None:
    # RFC 4616, section 4
    assert PlainClient("tim", "tanstaaftanstaaf").first() == b"\0tim\0tanstaaftanstaaf"
    client = PlainClient("Kurt", "xipj3plmq", authorization_id="Ursel")
    assert client.first() == b"Ursel\0Kurt\0xipj3plmq"
    assert client.answer(b"") is None
    with pytest.raises(SaslFailure, match="challenge"):
        client.answer(b"?")
    with pytest.raises(ValueError, match="zero byte"):
        PlainClient("a\0b", "c")


def test_oauthbearer_says_what_the_rfc_says() -> None:
    # RFC 7628, section 4.1; the order of the pairs is free.
    token = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
    example = f"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer {token}\x01\x01"
    extensions = {"host": "server.example.com", "port": "143"}
    client = OauthBearerClient(token, authorization_id="user@example.com", extensions=extensions)
    assert sorted(client.first().decode().split("\x01")) == sorted(example.split("\x01"))
    assert client.answer(b"") is None
    assert OauthBearerClient("t").first() == b"n,,\x01auth=Bearer t\x01\x01"


def test_oauthbearer_acknowledges_a_refusal_as_the_rfc_says() -> None:
    # RFC 7628, section 4.3
    client = OauthBearerClient("t")
    assert client.answer(b'{"status":"invalid_token","scope":"example_scope"}') == b"\x01"
    with pytest.raises(SaslFailure, match="status invalid_token, scope example_scope"):
        client.answer(b"")


@pytest.mark.parametrize("token", ["", "a b", "a\x01b", "a=b"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="bearer token"):
        OauthBearerClient(token)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": "\x01"}, {"a": ""}])
def test_what_is_no_extension_is_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        OauthBearerClient("t", extensions=extensions)
