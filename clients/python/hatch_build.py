"""Generates the package `folio.v1` from the proto files when a wheel is built.

The generated code is not committed: the proto files are its only source. A source distribution contains the proto files in
`proto`; in a checkout of the repository they are two folders above.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import grpc_tools
from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProtoBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs protoc before the files of the wheel are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate(Path(self.root))


def generate(root: Path) -> None:
    """Writes the messages, the services and their types to `src/folio/v1`."""
    protos = next(folder for folder in (root / "proto", root / "../../proto") if folder.is_dir())
    source = root / "src"
    package = source / "folio" / "v1"
    shutil.rmtree(package, ignore_errors=True)
    files = sorted(protos.glob("folio/v1/*.proto"))
    plugins = [f"--plugin={name}={program(name)}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    outputs = [f"--{kind}_out=quiet:{source}" for kind in ("mypy", "mypy_grpc")]
    includes = [f"-I{protos.resolve()}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]
    arguments = ["protoc", *includes, *plugins, f"--python_out={source}", f"--grpc_python_out={source}", *outputs]
    if protoc.main([*arguments, *(str(file.resolve()) for file in files)]) != 0:
        raise RuntimeError("protoc failed")
    modules = [f"{file.stem}_pb2{kind}" for file in files for kind in ("", "_grpc")]
    lines = [f"from .{module} import *  # noqa: F403" for module in modules]
    text = '"""Messages and services of the package `folio.v1`, generated from its proto files."""\n\n'
    (package / "__init__.py").write_text(text + "\n".join(lines) + "\n")


def program(name: str) -> str:
    """Returns the path of a program of a build requirement: on `PATH` in an isolated build, otherwise next to the interpreter."""
    scripts = str(Path(sys.executable).parent)
    found = shutil.which(name) or shutil.which(name, path=scripts)
    if found is None:
        raise RuntimeError(f"{name} is not found: install the requirements in pyproject.toml")
    return found
