"""Files to upload, as the messages of an upload."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Union

from . import v1

_CHUNK_BYTES = 256 * 1024

Source = Union[str, "os.PathLike[str]", bytes, BinaryIO]
Progress = Callable[[int, int], None]
"""Receives the number of bytes that were sent, and the size of the file (0: unknown)."""


class Upload:
    """A file that can be sent several times."""

    def __init__(
        self,
        source: Source,
        *,
        name: str = "",
        tag_ids: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        password: str = "",
        auto_create: bool | None = None,
        credit_budget: int | None = None,
        request_id: str = "",
        progress: Progress | None = None,
    ) -> None:
        self._is_own = not hasattr(source, "read")
        if isinstance(source, bytes):
            self._file: BinaryIO = io.BytesIO(source)
        elif isinstance(source, (str, os.PathLike)):
            self._file = open(source, "rb")
            name = name or Path(source).name
        else:
            self._file = source
        if not name:
            raise ValueError("an upload of bytes or of an open file needs a name")
        self.is_repeatable = self._file.seekable()
        self._start = self._file.tell() if self.is_repeatable else 0
        self.size = self._file.seek(0, os.SEEK_END) - self._start if self.is_repeatable else 0
        self._progress = progress
        self._description = v1.DocumentDescription(
            name=name,
            tag_ids=tag_ids,
            metadata=metadata or {},
            size_bytes=self.size,
            request_id=request_id or str(uuid.uuid4()),
            password=password,
            auto_create=auto_create,
            credit_budget=credit_budget,
        )

    def messages(self) -> Iterator[v1.UploadDocumentRequest]:
        """Returns the messages of one attempt. The file is read as the messages are sent."""
        if self.is_repeatable:
            self._file.seek(self._start)
        return self._messages()

    def _messages(self) -> Iterator[v1.UploadDocumentRequest]:
        yield v1.UploadDocumentRequest(description=self._description)
        sent = 0
        while chunk := self._file.read(_CHUNK_BYTES):
            yield v1.UploadDocumentRequest(chunk=chunk)
            sent += len(chunk)
            if self._progress is not None:
                self._progress(sent, self.size)

    def close(self) -> None:
        """Closes the file if the upload opened it."""
        if self._is_own:
            self._file.close()
