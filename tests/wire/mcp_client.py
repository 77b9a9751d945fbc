"""Drives a server with the official client of MCP, and prints what the client received as one JSON object.

Arguments: the URL of the endpoint or "stdio", the mode of the client ("legacy", "auto" or a version), the id of a document,
whether the user approves ("approve", "reject", or "none" for a client that does not elicit), then the command for "stdio".
The variable FOLIO_TOKEN contains the token.
"""

import asyncio
import json
import os
import sys

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    target, mode, document, choice, *command = sys.argv[1:]
    questions: list[str] = []

    async def elicit(_context, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        questions.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": choice == "approve"})

    headers = {"Authorization": f"Bearer {os.environ['FOLIO_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        if target == "stdio":
            server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        else:
            server = streamable_http_client(target, http_client=http)
        callback = None if choice == "none" else elicit
        async with Client(server, mode=mode, elicitation_callback=callback, read_timeout_seconds=60) as client:
            found = await client.call_tool("search_documents", {"name": "invoice"})
            text = await client.call_tool("get_ocr_text", {"document": document})
            templates = await client.list_resource_templates()
            resources = await client.list_resources()
            read = await client.read_resource(resources.resources[0].uri)
            arguments = {"document": document, "name": f"made by {mode} {target == 'stdio'} {choice}"}
            meta = {"request_id": f"create {mode} {choice}".replace(" ", "-") + ("-stdio" if target == "stdio" else "")}
            created = await client.call_tool("create_tag", arguments, meta=meta)
            repeated = await client.call_tool("create_tag", arguments, meta=meta)
            turn = created.meta["turn_id"]
            state = await client.call_tool("get_turn", {"turn_id": turn})
            wrong = await client.call_tool("get_tag", {"document": document, "tag_id": 7}) if choice != "none" else None
            report = {
                "version": client.protocol_version,
                "tools": [tool.name for tool in (await client.list_tools()).tools],
                "found": found.structured_content,
                "text": text.structured_content,
                "templates": [template.uri_template for template in templates.resource_templates],
                "resource": read.contents[0].text,
                "created": created.structured_content,
                "is_error": created.is_error,
                "repeated": repeated.structured_content,
                "state": state.structured_content,
                "turn": turn,
                "wrong": wrong.is_error if wrong else None,
                "questions": questions,
            }
    print(json.dumps(report))


asyncio.run(main())
