"""The server's side of SASL for scripted brokers: users with passwords, tokens, and how long a session lasts."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tailrace.protocol.sasl.scram import MECHANISM_HASHES, salted_password
from tests.client.scripted_cluster import ScriptedCluster


@dataclass
class SaslServer:
    """Scripts for SaslHandshake and SaslAuthenticate."""

    mechanisms: list[str]
    users: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    session_lifetime_ms: int = 0
    signs_truly: bool = True
    said: list[bytes] = field(default_factory=list)
    _mechanism: str = ""
    _exchange: list[str] = field(default_factory=list)

    def serve(self, scripted: ScriptedCluster) -> None:
        scripted.scripts[ApiKey.SASL_HANDSHAKE] = self.handshake
        scripted.scripts[ApiKey.SASL_AUTHENTICATE] = self.authenticate

    def handshake(self, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        self._mechanism, self._exchange = request.mechanism, []
        known = request.mechanism in self.mechanisms
        code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        said = bytes(request.auth_bytes)
        self.said.append(said)
        if self._mechanism == "PLAIN":
            _, user, password = said.decode().split("\0")
            return self._answer(b"") if self.users.get(user) == password else self._refuse("no such user or password")
        if self._mechanism == "OAUTHBEARER":
            return self._oauth(said)
        return self._scram(said.decode(), MECHANISM_HASHES[self._mechanism])

    def _oauth(self, said: bytes) -> SaslAuthenticateResponse:
        if said == b"\x01":
            return self._refuse("the token is not valid")
        token = said.decode().split("\x01")[1].removeprefix("auth=Bearer ")
        return self._answer(b"" if token in self.tokens else b'{"status":"invalid_token"}')

    def _scram(self, said: str, hash_name: str) -> SaslAuthenticateResponse:
        if not self._exchange:
            bare = said.removeprefix("n,,")
            server_first = f"{bare[bare.index('r=') :]}MORE,s={base64.b64encode(b'salt').decode()},i=4096"
            self._exchange = [bare, server_first]
            return self._answer(server_first.encode())
        bare, server_first = self._exchange
        user = bare[2 : bare.index(",")]
        salted = salted_password(hash_name, self.users.get(user, "").encode(), b"salt", 4096)
        without_proof, _, proof = said.rpartition(",p=")
        signed = f"{bare},{server_first},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        if base64.b64decode(proof) != expected:
            return self._refuse("no such user or password")
        key = hmac.digest(salted, b"Server Key" if self.signs_truly else b"?", hash_name)
        return self._answer(b"v=" + base64.b64encode(hmac.digest(key, signed, hash_name)))

    def _answer(self, challenge: bytes) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            auth_bytes=challenge, error_message=None, session_lifetime_ms=self.session_lifetime_ms
        )

    def _refuse(self, message: str) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)
