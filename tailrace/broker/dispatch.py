"""From a frame to its handler, and from the handler's answer to the bytes that leave.

`Dispatcher.dispatch` answers at once where the handler does: it gives the chunks of the response frame, or None for no
response. Otherwise it gives a `Call`, which the connection finishes when the answer is there. Handlers and codecs are
loaded at an API's first use. Bytes behind a request's last field are passed over, as Kafka does.

What goes wrong here ends in one of three ways. The peer's fault (`MalformedFrame`: bad bytes, an API or a version that
is not served) closes the connection, as Kafka does. An `ApiError` is answered with its code. Any other exception is our
own fault: it is logged whole, counted, and answered with UNKNOWN_SERVER_ERROR. An ApiVersions request of an unknown
version is no fault: it is how clients find out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable
from importlib import import_module
from types import CoroutineType, ModuleType
from typing import Any, TypeAlias, cast

from tailrace.broker.broker import Broker
from tailrace.broker.metrics.registry import RequestMetrics
from tailrace.broker.request import (
    NO_RESPONSE,
    Answer,
    CloseConnection,
    ConnectionInfo,
    ImmediateResult,
    Parked,
    Request,
)
from tailrace.broker.served_apis import SERVED_APIS, served_versions
from tailrace.clock import Clock
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.codec import decoder_of
from tailrace.protocol.codec_decoder import Decoder
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame, UnwritableMessage
from tailrace.protocol.field_plan import plan_message
from tailrace.protocol.frame import encode_response, read_request_header
from tailrace.protocol.schema import Message

LOGGER = logging.getLogger(__name__)

Deferred: TypeAlias = Parked | Coroutine[Any, Any, ImmediateResult]
DEFERRED = (Parked, CoroutineType)
Outcome: TypeAlias = "list[Buffer] | Call | None"


class Route:
    """One API: its handler, loaded at first use, its decoders by version, and what is counted of it."""

    __slots__ = ("decoders", "first", "handle", "header_versions", "key", "last", "metrics", "module", "name")

    def __init__(self, key: ApiKey, broker: Broker, module: ModuleType | None = None) -> None:
        versions = served_versions(key)
        self.key = key
        self.name = key.api.name
        self.first = versions.first
        self.last = versions.last
        self.metrics = broker.metrics.request(self.name, versions.last)
        self.module = module
        self.handle: Callable[[Broker, Request[Any]], Any] = self._load_and_handle
        self.decoders: list[Decoder | None] = [None] * (versions.last + 1)
        self.header_versions = [key.api.response_header_version(version) for version in range(versions.last + 1)]

    def load(self) -> ModuleType:
        """Import the handler's module."""
        module = self.module
        if module is None:
            module = self.module = import_module(f"tailrace.broker.handlers.{self.key.api.module_name}")
        self.handle = module.handle
        return module

    def decoder(self, version: int) -> Decoder:
        """Compile the decoder of a version."""
        decode = self.decoders[version] = decoder_of(self.key.api.request_class, version)
        return decode

    def error_response(self, request: Request[Any], code: ErrorCode, message: str | None) -> Message:
        """Make the API's response that carries an error; CloseConnection where it has no room for one."""
        make = getattr(self.load(), "error_response", None)
        if make is not None:
            return cast("Message", make(request, code, message))
        response_class = self.key.api.response_class
        plan = plan_message(response_class, request.api_version)
        names = {field.name for field in (*plan.fields, *plan.tagged)}
        if "error_code" not in names:
            raise CloseConnection(f"{self.name} v{request.api_version} can't be answered with {code.name}: {message}")
        values = {"error_code": code, "error_message": message}
        return response_class(**{name: value for name, value in values.items() if name in names})

    def _load_and_handle(self, broker: Broker, request: Request[Any]) -> Any:
        self.load()
        return self.handle(broker, request)


class Call:
    """A dispatched request whose answer comes later.

    `size` is what its frame is counted with while it waits.
    """

    __slots__ = ("_dispatcher", "_request", "_returned_at", "_route", "_started_at", "result", "size")

    def __init__(
        self,
        dispatcher: Dispatcher,
        route: Route,
        request: Request[Any],
        result: Deferred,
        *,
        started_at: float,
        returned_at: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._route = route
        self._request = request
        self._started_at = started_at
        self._returned_at = returned_at
        self.result = result
        self.size = request.size_bytes

    def finish(self, answer: Answer | None, error: Exception | None) -> list[Buffer]:
        """Give the chunks of the response frame, none for no response; CloseConnection where there can be no answer.

        The connection calls `record` when they are on their way.
        """
        dispatcher, route, request = self._dispatcher, self._route, self._request
        if error is not None:
            answer = dispatcher.answer_error(route, request, error)
        if answer is NO_RESPONSE:
            return []
        return dispatcher.encode(route, request, answer)

    def record(self) -> None:
        """Count the request and how long it took; also for an answer whose connection is gone."""
        request = self._request
        self._route.metrics.record(
            request.api_version,
            received_at=request.received_at,
            started_at=self._started_at,
            returned_at=self._returned_at,
            answered_at=self._dispatcher.clock.monotonic(),
        )


class Dispatcher:
    """Serves frames; one for a broker. `modules` replaces handlers' modules, for tests."""

    def __init__(self, broker: Broker, modules: dict[ApiKey, ModuleType] | None = None) -> None:
        self.clock: Clock = broker.clock
        self._broker = broker
        self._monotonic = broker.clock.monotonic
        self._answered: list[tuple[RequestMetrics, int, float, float, float]] = []
        self._routes = {int(key): Route(key, broker, (modules or {}).get(key)) for key in SERVED_APIS}

    def dispatch(self, frame: memoryview, connection: ConnectionInfo, received_at: float) -> Outcome:
        """Serve one frame; MalformedFrame or CloseConnection where the connection has to end."""
        started_at = self._monotonic()
        api_key, version, correlation_id, client_id, position = read_request_header(frame)
        route = self._routes.get(api_key)
        if route is None or not route.first <= version <= route.last:
            return self._answer_unsupported(api_key, version, correlation_id)
        body, _ = (route.decoders[version] or route.decoder(version))(frame, position)
        request = Request(api_key, version, correlation_id, client_id, body, connection, received_at, len(frame))
        try:
            result = route.handle(self._broker, request)
        except Exception as error:  # noqa: BLE001 - answer_error tells foreseen errors from others, and logs
            result = self.answer_error(route, request, error)
        returned_at = self._monotonic()
        if isinstance(result, DEFERRED):
            deferred = cast("Deferred", result)
            return Call(self, route, request, deferred, started_at=started_at, returned_at=returned_at)
        self._answered.append((route.metrics, version, received_at, started_at, returned_at))
        return None if result is NO_RESPONSE else self.encode(route, request, result)

    def count_answered(self) -> None:
        """Count what `dispatch` has answered; called when the answers are on their way, so that nobody waits for it."""
        for metrics, version, received_at, started_at, returned_at in self._answered:
            metrics.record(
                version,
                received_at=received_at,
                started_at=started_at,
                returned_at=returned_at,
                answered_at=returned_at,
            )
        self._answered.clear()

    def encode(self, route: Route, request: Request[Any], response: Any) -> list[Buffer]:
        """Write a response frame; what can't be written is our own fault and answered so, if that can be written."""
        version, correlation_id = request.api_version, request.correlation_id
        header_version = route.header_versions[version]
        try:
            return encode_response(response, version, correlation_id=correlation_id, header_version=header_version)
        except (UnwritableMessage, AttributeError) as error:  # the latter is what comes of something that is no message
            response = self.answer_error(route, request, error)
            return encode_response(response, version, correlation_id=correlation_id, header_version=header_version)

    def answer_error(self, route: Route, request: Request[Any], error: Exception) -> Message:
        """Turn what a handler raised into its response; re-raise what ends the connection."""
        if isinstance(error, CloseConnection | MalformedFrame):
            raise error
        if isinstance(error, ApiError):
            self._broker.metrics.record_error(route.name, error.code)
            return route.error_response(request, error.code, error.message)
        LOGGER.error(
            "%s v%d of %s (client id %s) failed unexpectedly",
            route.name,
            request.api_version,
            request.connection.id,
            request.client_id,
            exc_info=error,
        )
        self._broker.metrics.record_unexpected_error(route.name)
        return route.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)

    def preload(self, keys: Iterable[ApiKey]) -> None:
        """Load handlers before the first client asks for them."""
        for key in keys:
            self._routes[key].load()

    def forget(self, connection: ConnectionInfo) -> None:
        """Take back what was counted for a connection that closed."""
        if connection.client_software is not None:
            self._broker.metrics.client_disconnected(connection.client_software)

    def _answer_unsupported(self, api_key: int, version: int, correlation_id: int) -> list[Buffer]:
        if api_key != ApiKey.API_VERSIONS:
            raise MalformedFrame(f"API key {api_key} in version {version} is not served")
        response: Message = self._routes[api_key].load().unsupported_version()
        return encode_response(response, 0, correlation_id=correlation_id, header_version=0)
