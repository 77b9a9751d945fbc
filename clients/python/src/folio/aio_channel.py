"""An asynchronous channel that authenticates calls, repeats them, and raises typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from .errors import of_call
from .retry import RetryPolicy, with_request_id


class AsyncResponses(AsyncIterator[Any]):
    """The messages of a stream."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._messages = aiter_of(call)

    async def __anext__(self) -> Any:
        try:
            return await self._messages.__anext__()
        except grpc.aio.AioRpcError as error:
            raise of_call(error) from None

    def cancel(self) -> None:
        """Ends the stream. The work that it shows continues on the server."""
        self._call.cancel()


def aiter_of(call: Any) -> AsyncIterator[Any]:
    messages: AsyncIterator[Any] = call.__aiter__()
    return messages


class AuthorizedAsyncChannel:
    """Wraps a channel. The generated stubs use it like a `grpc.aio.Channel`."""

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...], policy: RetryPolicy) -> None:
        self._channel, self._metadata, self._policy = channel, metadata, policy

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.unary_unary(method, *args, **kwargs))

        async def repeated(request: Any, **options: Any) -> Any:
            request, attempt = with_request_id(request), 0
            while True:
                attempt += 1
                try:
                    return await call(request, **options)
                except grpc.aio.AioRpcError as failed:
                    error = of_call(failed)
                delay = self._policy.delay(error, attempt)
                if delay is None:
                    raise error
                await asyncio.sleep(delay)

        return repeated

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.unary_stream(method, *args, **kwargs))
        return lambda request, **options: AsyncResponses(call(request, **options))

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.stream_unary(method, *args, **kwargs))

        async def typed(requests: Any, **options: Any) -> Any:
            try:
                return await call(requests, **options)
            except grpc.aio.AioRpcError as error:
                raise of_call(error) from None

        return typed

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = self._authorized(self._channel.stream_stream(method, *args, **kwargs))
        return lambda requests, **options: AsyncResponses(call(requests, **options))

    def _authorized(self, call: Any) -> Callable[..., Any]:
        def authorized(request: Any, metadata: Any = (), **options: Any) -> Any:
            return call(request, metadata=(*(metadata or ()), *self._metadata), **options)

        return authorized

    async def close(self) -> None:
        await self._channel.close()
