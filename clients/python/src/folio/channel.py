"""A synchronous channel that authenticates calls, repeats them, and raises typed errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from .errors import of_call
from .retry import RetryPolicy, with_request_id


class Responses(Iterator[Any]):
    """Iterates over the messages of a stream, and raises typed errors."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __next__(self) -> Any:
        try:
            return next(self._call)
        except grpc.RpcError as error:
            raise of_call(error) from None

    def cancel(self) -> None:
        """Ends the stream. The turn or job whose events it streams continues on the server."""
        self._call.cancel()


class AuthorizedChannel(grpc.Channel):
    """Wraps a channel for the generated stubs.

    Each call carries the credentials and raises typed errors. Unary calls are repeated as the policy states.
    """

    def __init__(self, channel: grpc.Channel, metadata: tuple[tuple[str, str], ...], policy: RetryPolicy) -> None:
        self._channel, self._metadata, self._policy = channel, metadata, policy

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.unary_unary(method, *args, **kwargs))

        def repeated(request: Any, **options: Any) -> Any:
            request, attempt = with_request_id(request), 0
            while True:
                attempt += 1
                try:
                    return call(request, **options)
                except grpc.RpcError as failed:
                    error = of_call(failed)
                delay = self._policy.delay(error, attempt)
                if delay is None:
                    raise error
                time.sleep(delay)

        return repeated

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.unary_stream(method, *args, **kwargs))
        return lambda request, **options: Responses(call(request, **options))

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.stream_unary(method, *args, **kwargs))

        def typed(requests: Any, **options: Any) -> Any:
            try:
                return call(requests, **options)
            except grpc.RpcError as error:
                raise of_call(error) from None

        return typed

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.stream_stream(method, *args, **kwargs))
        return lambda requests, **options: Responses(call(requests, **options))

    def _authorized(self, call: Any) -> Callable[..., Any]:
        def authorized(request: Any, metadata: Any = (), **options: Any) -> Any:
            return call(request, metadata=(*(metadata or ()), *self._metadata), **options)

        return authorized

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> AuthorizedChannel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
