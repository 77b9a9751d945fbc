//! The bounds of a run without a person. The text of the document may make the model call any tool, and every call runs without
//! a decision. A run may therefore change only what it has created, and nothing that it creates takes effect on other
//! documents before a person accepts the proposal.

use folio_history::job::KIND as JOB;
use folio_resources::{Extraction, ExtractionFilter, Prompt, Resource as _, Schema, Tag};
use folio_types::limits::CALLS_PER_ROUND_MAX;
use folio_types::op::{Expected, Target};
use folio_types::page::PageRequest;
use folio_types::profile::Subject;
use folio_types::{CallId, ExtractionId, PromptId, PromptRevId, SchemaId, TagId};
use serde::Deserialize as _;
use serde_json::Value;

use crate::tool::{CallContext, Plan, ToolError};

/// Maximum number of refinements of a run: changes after the first extraction, with another extraction each.
// proto: none "the message of a tool"
pub const REFINEMENTS_MAX: usize = 2;
/// Number of the newest extractions of the document among which those of the run are counted. The document is new, so that
/// it has few others.
const LISTED_MAX: u32 = 100;

/// A planned write of a run.
struct PlannedWrite<'a> {
    /// Kind of the target.
    kind: &'a str,
    is_new: bool,
    /// True if the run created the target. Of a new extraction: if the run created its prompt.
    is_of_run: bool,
    has_tags: bool,
    /// Number of extractions that the run has stored.
    extractions: usize,
}

/// Checks a planned write of a turn that works on a proposal. Other turns have no such bounds.
///
/// # Errors
/// `ForModel` if a run without a person may not make the write.
pub async fn check_plan(context: &CallContext, arguments: &Value, plan: &Plan) -> Result<(), ToolError> {
    if !matches!(context.subject, Some(Subject::Proposal(_))) {
        return Ok(());
    }
    let (kind, is_new) = (plan.target.kind(), plan.expected == Expected::Absent);
    let is_extraction = is_new && kind == Extraction::KIND;
    let prompt = plan.resolved.get("prompt").and_then(|prompt| PromptRevId::deserialize(prompt).ok());
    let write = PlannedWrite {
        kind,
        is_new,
        is_of_run: match prompt.filter(|_| is_extraction) {
            Some(prompt) => is_of_run(context, &Prompt::target(&prompt.of)),
            None => is_of_run(context, &plan.target),
        },
        has_tags: arguments.get("tag_ids").and_then(Value::as_array).is_some_and(|tags| !tags.is_empty()),
        extractions: if is_extraction { extractions(context).await? } else { 0 },
    };
    refusal(&write).map_or(Ok(()), |text| Err(ToolError::ForModel(text)))
}

/// Returns the reason for which a run may not make a write. None: it may.
fn refusal(write: &PlannedWrite<'_>) -> Option<String> {
    let PlannedWrite { kind, is_new, is_of_run, has_tags, extractions } = *write;
    let text = if kind == JOB {
        "This run starts no jobs: it extracts its own document only, with run_extraction and a prompt that no agent runs."
    } else if has_tags {
        "This run sets no tags, because a tag would run the prompt on other documents. Omit tag_ids."
    } else if is_new && kind == Extraction::KIND && !is_of_run {
        "This run extracts with a prompt that it has created. Call create_prompt first."
    } else if is_new && kind == Extraction::KIND && extractions > REFINEMENTS_MAX {
        return Some(format!("This run has made its {REFINEMENTS_MAX} refinements. Summarize the result and end."));
    } else if !is_new && !is_of_run {
        "This run changes only what it has created. Choose another name if the name is in use."
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// Returns true if a call of the turn created the target: the id of a new resource derives from its call.
fn is_of_run(context: &CallContext, target: &Target) -> bool {
    calls(context).any(|call| derived(context, target.kind(), &call).as_deref() == Some(target.id()))
}

/// Returns the calls that the turn can have made so far.
fn calls(context: &CallContext) -> impl Iterator<Item = CallId> {
    let last = u32::try_from(CALLS_PER_ROUND_MAX).unwrap_or(u32::MAX);
    let CallId { turn, round, .. } = context.call.clone();
    (1..=round).flat_map(move |round| {
        let turn = turn.clone();
        (1..=last).map(move |index| CallId::new(turn.clone(), round, index))
    })
}

/// Returns the id of the resource of a kind that a call creates. None: no call creates resources of the kind.
fn derived(context: &CallContext, kind: &str, call: &CallId) -> Option<String> {
    let call = call.to_string();
    let parts = [context.principal.org.as_str(), call.as_str()];
    match kind {
        Schema::KIND => Some(SchemaId::derive(&parts).to_string()),
        Prompt::KIND => Some(PromptId::derive(&parts).to_string()),
        Tag::KIND => Some(TagId::derive(&parts).to_string()),
        Extraction::KIND => Some(ExtractionId::derive(&parts).to_string()),
        _ => None,
    }
}

/// Returns the number of extractions that the run has stored.
async fn extractions(context: &CallContext) -> Result<usize, ToolError> {
    let filter = ExtractionFilter { document: context.documents.first().cloned(), ..ExtractionFilter::default() };
    let page = PageRequest { size: LISTED_MAX, ..PageRequest::default() };
    let found = context.store::<Extraction>().list(&context.principal.org, &filter, &page).await?.items;
    Ok(found.iter().filter(|found| is_of_run(context, &Extraction::target(&found.id))).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_of_a_run_is_permitted_or_refused() {
        let kinds = [JOB, Schema::KIND, Prompt::KIND, Tag::KIND, Extraction::KIND, "document"];
        for kind in kinds {
            for (is_new, is_of_run, has_tags) in
                [false, true].into_iter().flat_map(|a| [(a, false, false), (a, true, false), (a, true, true)])
            {
                for extractions in 0..=REFINEMENTS_MAX + 1 {
                    let write = PlannedWrite { kind, is_new, is_of_run, has_tags, extractions };
                    let is_extraction = is_new && kind == Extraction::KIND;
                    let is_permitted = kind != JOB
                        && !has_tags
                        && (is_of_run || (is_new && !is_extraction))
                        && !(is_extraction && extractions > REFINEMENTS_MAX);
                    let found = refusal(&write);
                    assert_eq!(found.is_none(), is_permitted, "{kind} {is_new} {is_of_run} {has_tags}: {found:?}");
                }
            }
        }
    }
}
