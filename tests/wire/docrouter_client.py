"""Drives a server with every method of DocRouter's published client for Python, and prints the methods as a JSON array.

Arguments: the URL of the server, the id of the organization, the name of a PDF file. The variable FOLIO_TOKEN contains the token.
"""

import base64
import inspect
import json
import os
import sys
import time
from pathlib import Path

from docrouter_sdk import DocRouterClient

FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "invoice",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"total": {"type": "number"}},
            "required": ["total"],
            "additionalProperties": False,
        },
    },
}
READY = {"ocr_completed", "llm_completed"}

url, org, file = sys.argv[1:]
client = DocRouterClient(url, os.environ["FOLIO_TOKEN"])
called: set[str] = set()


def call(name: str, *arguments, **named):
    """Calls a method of the client, such as "tags.list", in the organization."""
    group, method = name.split(".")
    called.add(name)
    function = getattr(getattr(client, group), method)
    return function(*arguments, **named) if name == "llm.list_models" else function(org, *arguments, **named)


def refusal(name: str, *arguments) -> str:
    try:
        call(name, *arguments)
    except Exception as error:
        return str(error)
    raise AssertionError(f"{name} is not refused")


def tags() -> None:
    tag = call("tags.create", {"name": "Python", "color": "#AABBCC", "description": "first"})
    assert (tag.name, tag.color, tag.description) == ("Python", "#AABBCC", "first"), tag
    assert "already exists" in refusal("tags.create", {"name": "Python"})
    assert [found.id for found in call("tags.list", skip=0, limit=100).tags if found.name == "Python"] == [tag.id]
    renamed = call("tags.update", tag.id, {"name": "Renamed"})
    assert (renamed.name, renamed.description) == ("Renamed", None), renamed
    assert "deleted successfully" in call("tags.delete", tag.id)["message"]
    assert refusal("tags.delete", tag.id) == "API Error (404): Tag not found"


def tagged_documents() -> None:
    """The cases of DocRouter's suite about documents with tags. A PDF that no reader opens is stored as well."""
    before = call("tags.list").total_count
    first, second = (call("tags.create", {"name": name, "color": "#FF0000"}) for name in ("First", "Second"))
    assert call("tags.list").total_count == before + 2
    content, metadata = b"%PDF-1.4\n%%EOF\n", {"suite": "tags", "test": "true"}
    encoded = base64.b64encode(content).decode()
    entry = {"name": "small.pdf", "content": encoded, "tag_ids": [first.id, second.id], "metadata": metadata}
    [uploaded] = call("documents.upload", [entry])["documents"]
    assert (uploaded["tag_ids"], uploaded["metadata"]) == ([first.id, second.id], metadata), uploaded
    identifier = uploaded["document_id"]
    [listed] = call("documents.list", tag_ids=[first.id, second.id]).documents
    found = call("documents.get", identifier)
    for document in listed, found:
        described = (document.id, document.document_name, document.tag_ids, document.metadata)
        assert described == (identifier, "small.pdf", [first.id, second.id], metadata), document
    assert base64.b64decode(found.content) == content
    call("documents.update", identifier, document_name="changed.pdf", tag_ids=[first.id], metadata={"updated": "true"})
    changed = call("documents.get", identifier)
    assert (changed.document_name, changed.tag_ids) == ("changed.pdf", [first.id]), changed
    assert changed.metadata == {"updated": "true"}, changed
    assert "assigned to one or more documents" in refusal("tags.delete", first.id)
    assert call("documents.delete", identifier)["message"] == "Document deleted successfully"
    assert identifier not in [document.id for document in call("documents.list", limit=100).documents]
    for tag in first, second:
        call("tags.delete", tag.id)


def loose_schema() -> None:
    """The cases of DocRouter's suite about a schema that declares strict mode and does not comply with its rules."""

    def loose(properties: dict, required: list[str]) -> dict:
        schema = {"type": "object", "additionalProperties": False, "properties": properties, "required": required}
        return {"type": "json_schema", "json_schema": {"name": "loose", "strict": True, "schema": schema}}

    vendor = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    properties = {"number": {"type": "string"}, "vendor": vendor}
    created = call("schemas.create", {"name": "Loose", "response_format": loose(properties, ["number"])})
    assert created.schema_revid in [found.schema_revid for found in call("schemas.list", limit=100).schemas]
    fields = {"name": "Looser", "response_format": loose({**properties, "date": {"type": "string"}}, ["date"])}
    updated = call("schemas.update", created.schema_id, fields)
    assert (updated.name, updated.schema_id, updated.schema_version) == ("Looser", created.schema_id, 2), updated
    assert call("schemas.get", created.schema_revid).schema_version == 1
    # A prompt without a model uses the default model, and an update without a schema removes it.
    fields = {"name": "Plain", "content": "Read.", "schema_id": created.schema_id, "schema_version": 2}
    prompt = call("prompts.create", {**fields, "description": "unused"})
    assert (prompt.prompt_version, prompt.schema_id) == (1, created.schema_id), prompt
    changed = call("prompts.update", prompt.prompt_id, {"name": "Plainer", "content": "Read all."})
    assert (changed.name, changed.schema_id) == ("Plainer", None), changed
    assert call("prompts.delete", prompt.prompt_id)["message"] == "Prompt deleted successfully"
    assert call("schemas.delete", created.schema_id)["message"] == "Schema deleted successfully"
    assert "not found" in refusal("schemas.get", created.schema_revid)


def schema():
    created = call("schemas.create", {"name": "Python invoice", "response_format": FORMAT})
    assert (created.schema_version, created.name) == (1, "Python invoice"), created
    renamed = call("schemas.update", created.schema_id, {"name": "Python bill", "response_format": FORMAT})
    assert (renamed.schema_revid, renamed.name) == (created.schema_revid, "Python bill"), renamed
    assert call("schemas.get", created.schema_revid).name == "Python bill"
    assert created.schema_id in [found.schema_id for found in call("schemas.list", limit=100).schemas]
    assert call("schemas.validate", created.schema_revid, {"data": {"total": 1}})["valid"] is True
    invalid = call("schemas.validate", created.schema_revid, {"data": {"total": "x"}})
    assert invalid["valid"] is False and invalid["errors"][0]["path"] == "total", invalid
    return created


def prompt(schema_id: str):
    fields = {"name": "Python prompt", "content": "Read the total.", "schema_id": schema_id, "schema_version": 1}
    models = call("llm.list_models").models
    assert models and models[0].max_tokens > 0, models
    fields["model"] = models[0].id
    created = call("prompts.create", fields)
    assert (created.prompt_version, created.schema_id, created.model) == (1, schema_id, models[0].id), created
    changed = call("prompts.update", created.prompt_id, {**fields, "content": "Read the total amount."})
    assert changed.prompt_version == 2 and changed.prompt_id == created.prompt_id, changed
    assert call("prompts.get", changed.prompt_revid).content == "Read the total amount."
    listed = [found.prompt_revid for found in call("prompts.list", limit=100).prompts]
    assert changed.prompt_revid in listed and created.prompt_revid not in listed, listed
    return changed


def document() -> str:
    content = Path(file).read_bytes()
    encoded = "data:application/pdf;base64," + base64.b64encode(content).decode()
    entry = {"name": "python.pdf", "content": encoded, "metadata": {"a b": "x,y=z"}}
    uploaded = call("documents.upload", [entry])["documents"]
    assert [found["document_name"] for found in uploaded] == ["python.pdf"], uploaded
    identifier = uploaded[0]["document_id"]
    deadline = time.monotonic() + 60
    while True:
        listed = call("documents.list", name_search="PYTHON", metadata_search={"a b": "x,y=z"})
        assert (listed.total_count, listed.documents[0].id) == (1, identifier), listed
        if listed.documents[0].state in READY:
            break
        assert time.monotonic() < deadline, listed
        time.sleep(0.2)
    found = call("documents.get", identifier)
    assert base64.b64decode(found.content) == content and found.metadata == {"a b": "x,y=z"}
    changed = call("documents.update", identifier, document_name="renamed.pdf", metadata={})
    assert changed == {"message": "Document updated successfully"}, changed
    assert "Invalid base64 content" in refusal("documents.upload", [{"name": "a.pdf", "content": "!"}])
    return identifier


def texts(identifier: str) -> None:
    text = call("ocr.get_text", identifier)
    assert isinstance(text, str) and "INV-2026-0417" in text, text
    assert call("ocr.get_text", identifier, page_num=1) in text
    metadata = call("ocr.get_metadata", identifier)
    assert metadata["n_pages"] == 1 and metadata["ocr_date"], metadata
    blocks = call("ocr.get_blocks", identifier)
    assert isinstance(blocks, list) and blocks[0]["BlockType"] == "PAGE", blocks


def results(identifier: str, revision: str, prompt_id: str) -> None:
    run = call("llm.run", identifier, prompt_revid=revision, force=True)
    assert (run.status, run.result) == ("success", {"total": 957.0}), run
    found = call("llm.get_result", identifier, prompt_revid=revision, fallback=True)
    assert (found.prompt_id, found.llm_result, found.is_edited) == (prompt_id, {"total": 957.0}, False), found
    edited = call("llm.update_result", identifier, {"total": 1.5}, prompt_revid=revision, is_verified=True)
    assert (edited.updated_llm_result, edited.is_edited, edited.is_verified) == ({"total": 1.5}, True, True), edited
    assert edited.llm_result == {"total": 957.0}, edited
    assert call("llm.delete_result", identifier, revision)["status"] == "success"
    assert refusal("llm.get_result", identifier, revision).startswith("API Error (404): LLM result not found")


def deletions(identifier: str, schema_id: str, prompt_id: str) -> None:
    assert refusal("schemas.delete", schema_id).startswith("API Error (400): Cannot delete schema because it has")
    assert call("prompts.delete", prompt_id)["message"] == "Prompt deleted successfully"
    assert call("schemas.delete", schema_id)["message"] == "Schema deleted successfully"
    assert call("documents.delete", identifier)["message"] == "Document deleted successfully"
    assert refusal("documents.get", identifier) == "API Error (404): Document not found"


def main() -> None:
    tags()
    tagged_documents()
    loose_schema()
    new_schema = schema()
    new_prompt = prompt(new_schema.schema_id)
    new_document = document()
    texts(new_document)
    results(new_document, new_prompt.prompt_revid, new_prompt.prompt_id)
    deletions(new_document, new_schema.schema_id, new_prompt.prompt_id)
    denied = DocRouterClient(url, "wrong")
    try:
        denied.tags.list(org)
        raise AssertionError("an invalid token is accepted")
    except Exception as error:
        assert str(error) == "API Error (401): Invalid authentication credentials: invalid token", error
    groups = ["documents", "ocr", "llm", "schemas", "prompts", "tags"]
    methods = {
        f"{group}.{name}"
        for group in groups
        for name, _ in inspect.getmembers(getattr(client, group), inspect.ismethod)
        if not name.startswith("_")
    }
    assert called == methods, methods ^ called
    print(json.dumps(sorted(called)))


main()
