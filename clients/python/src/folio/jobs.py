"""Results of jobs. No I/O."""

from __future__ import annotations

import json

from . import v1
from .errors import Cancelled, of_message

ENDED_JOB_STATES = frozenset({v1.JOB_STATE_COMPLETED, v1.JOB_STATE_FAILED, v1.JOB_STATE_CANCELLED})


def extraction_of(job: v1.Job) -> str:
    """Returns the id of the extraction of an ended job with one item. Raises the error of the item or of the job."""
    item = job.items[0] if job.items else v1.JobItem()
    result = json.loads(item.result_json or "{}")
    if "extraction_id" in result:
        return str(result["extraction_id"])
    for failed in (item, job):
        if failed.HasField("error"):
            raise of_message(failed.error)
    raise Cancelled("CANCELLED", "", f"the job {job.job_id} ended without an extraction")
