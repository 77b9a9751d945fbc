"""Uploads a file, lets the agent create a prompt with approvals, and extracts the data of the file.

Usage: FOLIO_SERVER=HOST:PORT FOLIO_TOKEN=TOKEN python quickstart.py FILE
"""

import os
import sys

import folio
from folio import v1

MESSAGE = "create a schema and a prompt for documents like this and extract"


def approve(approval: folio.Approval) -> folio.Decision:
    """Approves each call that this user may approve. A real program would let a person decide."""
    rule, roles = approval.rule or "none", ", ".join(approval.roles) or "any"
    excluded = "yes" if approval.is_requester_excluded else "no"
    print(f"waits: {approval.tool}; rule: {rule}; roles: {roles}; requester excluded: {excluded}")
    return folio.Approve() if approval.may_approve else folio.Leave()


def main(file: str) -> None:
    with folio.Client(os.environ["FOLIO_SERVER"], os.environ["FOLIO_TOKEN"]) as client:
        document = client.upload(file, progress=lambda sent, size: print(f"sent: {sent} of {size} bytes"))
        document = client.wait_for_text(document.document_id)
        print(f"read: {document.name}, {document.pages} page(s)")

        turn = client.chat(MESSAGE, document_ids=[document.document_id], approve=approve)
        for event in turn:
            if event.WhichOneof("kind") == "tool_result":
                result = event.tool_result
                print(f"ran: {result.name}, {v1.CallStatus.Name(result.status)}")
        answer = turn.completed()
        print(f"answer: {answer.text}")

        prompt = answer.working_state.prompt_revid
        extraction = client.extract(document.document_id, prompt)
        print(f"extracted: {extraction.original_json}")

        job = client.batch(prompt, document_ids=[document.document_id])
        client.wait_for_job(job.job_id, lambda job: print(f"batch: {job.done_items} of {job.total_items} done"))
        for item in client.iterate(client.jobs.ListJobItems, v1.ListJobItemsRequest(job_id=job.job_id)):
            print(f"item: {item.subject}, {item.result_json}")

        try:
            client.documents.GetDocument(v1.GetDocumentRequest(document_id="doc_unknown"))
        except folio.FolioError as error:
            print(f"error: {error.code}, {error.reason}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: FOLIO_SERVER=HOST:PORT FOLIO_TOKEN=TOKEN python quickstart.py FILE")
    main(sys.argv[1])
