"""A server that plays scripted answers, with the generated services."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from folio import v1

TOKEN = "folio_token"


@dataclass
class Refusal(Exception):
    """The status of a refused call, as the server sends it."""

    code: grpc.StatusCode
    reason: str = ""
    message: str = "refused"
    retry_after: float | None = None
    violations: tuple[tuple[str, str], ...] = ()
    facts: dict[str, str] = field(default_factory=dict)

    def details(self) -> bytes:
        """Returns the encoded details. Empty: the status is of the transport."""
        if not self.reason:
            return b""
        messages: list[Any] = [error_details_pb2.ErrorInfo(reason=self.reason, domain="folio", metadata=self.facts)]
        if self.retry_after is not None:
            delay = Duration()
            delay.FromMilliseconds(int(self.retry_after * 1_000))
            messages.append(error_details_pb2.RetryInfo(retry_delay=delay))
        if self.violations:
            violation = error_details_pb2.BadRequest.FieldViolation
            violations = [violation(field=field, description=text) for field, text in self.violations]
            messages.append(error_details_pb2.BadRequest(field_violations=violations))
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for message in messages:
            packed = AnyMessage()
            packed.Pack(message)
            status.details.append(packed)
        return bytes(status.SerializeToString())


def broken() -> Refusal:
    """Returns the status of a connection that broke."""
    return Refusal(grpc.StatusCode.UNAVAILABLE, message="connection reset")


class FakeServer:
    """Answers each call with the next scripted answer of its method, and records the requests.

    An answer is a message, a `Refusal`, a list of these for a stream, or a function of the request that returns one of them. The
    last answer of a method is repeated.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.tokens: set[str] = set()
        self._scripts: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=8))
        for services in (module_services(module) for module in (v1.conversation_pb2, v1.document_pb2, v1.extraction_pb2)):
            for service in services:
                self._add(service)
        for module in (v1.inbox_pb2, v1.job_pb2, v1.stack_pb2, v1.tag_pb2):
            for service in module_services(module):
                self._add(service)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def script(self, method: str, *answers: Any) -> None:
        self._scripts[method] = list(answers)

    def of(self, method: str) -> list[Any]:
        """Returns the requests of a method."""
        return [request for name, request in self.requests if name == method]

    def stop(self) -> None:
        self._server.stop(None).wait()

    def _add(self, service: Any) -> None:
        handlers = {method.name: self._handler(method) for method in service.methods}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))

    def _handler(self, method: Any) -> grpc.RpcMethodHandler[Any, Any]:
        request, response = getattr(v1, method.input_type.name), getattr(v1, method.output_type.name)
        codec = {"request_deserializer": request.FromString, "response_serializer": response.SerializeToString}
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(self._unary(method.name, list), **codec)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._stream(method.name), **codec)
        return grpc.unary_unary_rpc_method_handler(self._unary(method.name, lambda request: request), **codec)

    def _next(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        with self._lock:
            self.requests.append((method, request))
            self.tokens.update(str(value) for key, value in context.invocation_metadata() if key == "authorization")
            answers = self._scripts.get(method, [])
            if not answers:
                raise AssertionError(f"no answer of {method}")
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer(request) if callable(answer) else answer

    def _unary(self, method: str, read: Callable[[Any], Any]) -> Callable[..., Any]:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            found = self._next(method, read(request), context)
            return self._refuse(found, context) if isinstance(found, Refusal) else found

        return answer

    def _stream(self, method: str) -> Callable[..., Iterator[Any]]:
        def answers(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            found = self._next(method, request, context)
            for item in found if isinstance(found, list) else [found]:
                if isinstance(item, Refusal):
                    self._refuse(item, context)
                yield item

        return answers

    @staticmethod
    def _refuse(refusal: Refusal, context: grpc.ServicerContext) -> None:
        if refusal.details():
            context.set_trailing_metadata((("grpc-status-details-bin", refusal.details()),))
        context.abort(refusal.code, refusal.message)


def module_services(module: Any) -> list[Any]:
    """Returns the services that a proto file declares."""
    return list(module.DESCRIPTOR.services_by_name.values())
