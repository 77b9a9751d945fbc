//! Runs of prompts on documents with which they share a tag: once for each text of a document and each revision of a prompt.

use std::time::Duration;

use folio_history::job::{TagRun, TagRunWrite};
use folio_resources::{Document, Extraction, Prompt, TextState};
use folio_types::{Digest, DocumentId, Error, ExtractionId, OrgId, PromptRevId, Reason, RequestId, Result, Timestamp};
use serde_json::json;

use super::job::Effect;
use crate::tool::ToolResources;

/// Time after which a write that is not stored was refused or lost.
pub(crate) const STORED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// The effect of an item whose prompt shares a tag with its document.
pub(super) enum TagRunEffect {
    Run(Effect),
    /// The extraction of the run, which is stored.
    Exists(Box<Extraction>),
    /// The run has no effect, for this reason.
    Skip(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// The text of the document that the prompt reads.
    Run(Timestamp),
    /// The write that caused the run is not stored yet.
    Wait,
    Skip(&'static str),
}

/// Returns the effect of an item.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the write that caused the run may be stored later.
pub(super) async fn effect(
    resources: &ToolResources,
    org: &OrgId,
    document: &DocumentId,
    prompt: &PromptRevId,
    cause: &TagRun,
) -> Result<TagRunEffect> {
    let (documents, prompts) = (resources.stores.of::<Document>(), resources.stores.of::<Prompt>());
    let found = tokio::try_join!(documents.get(org, document), prompts.get(org, &prompt.of))?;
    let generation = match decide(found.0.as_ref(), found.1.as_ref(), cause, resources.environment.now()) {
        Decision::Run(generation) => generation,
        Decision::Skip(reason) => return Ok(TagRunEffect::Skip(reason)),
        Decision::Wait => {
            let message = "the change of the document that causes the extraction is not stored yet";
            return Err(Error::unavailable(Reason::StoreUnavailable, message));
        }
    };
    let content = json!({ "tag_run": prompt, "document": document, "text_generation": generation });
    let digest = Digest::of_json(&content);
    let request: RequestId = format!("tag-run.{}", digest.as_str()).parse()?;
    let extraction = ExtractionId::derive(&[org.as_str(), request.as_str()]);
    let stored = resources.stores.of::<Extraction>().get(org, &extraction).await?;
    let effect = || TagRunEffect::Run(Effect { extraction, request, digest });
    Ok(stored.map_or_else(effect, |found| TagRunEffect::Exists(Box::new(found))))
}

/// The state of the write that causes an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CauseState {
    Stored,
    /// The write may be stored later.
    Pending,
    /// The write was refused or lost.
    Lost,
}

/// Returns the state of the write of a document that causes an item.
pub(crate) fn cause_state(document: &Document, cause: &TagRun, now: Timestamp) -> CauseState {
    let is_stored = match cause.write {
        TagRunWrite::Text => document.text_generation.is_some_and(|generation| generation >= cause.at),
        TagRunWrite::Document(version) => document.version >= version,
        TagRunWrite::Prompt => true,
    };
    let age = Duration::try_from(now.duration_since(cause.at)).unwrap_or_default();
    match is_stored {
        true => CauseState::Stored,
        false if age > STORED_WITHIN => CauseState::Lost,
        false => CauseState::Pending,
    }
}

fn decide(document: Option<&Document>, prompt: Option<&Prompt>, cause: &TagRun, now: Timestamp) -> Decision {
    let Some(document) = document else { return Decision::Skip("the document was deleted") };
    match cause_state(document, cause, now) {
        CauseState::Stored => {}
        CauseState::Pending => return Decision::Wait,
        CauseState::Lost => return Decision::Skip("the document was not changed"),
    }
    let Some(generation) = document.text_generation.filter(|_| document.state == TextState::Ready) else {
        return Decision::Skip("the document has no text");
    };
    let shares_tag = prompt.is_some_and(|prompt| prompt.latest.tags.iter().any(|tag| document.tags.contains(tag)));
    if shares_tag { Decision::Run(generation) } else { Decision::Skip("the prompt shares no tag with the document") }
}

#[cfg(test)]
mod tests {
    use folio_resources::{DocumentChange, NewDocument, NewPrompt, PromptChange, Resource};
    use folio_types::op::{Expected, Write};
    use folio_types::{BlobId, PromptId, TagId};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::constant(1_790_000_000 + seconds, 0)
    }

    fn created<R: Resource>(id: &R::Id, change: R::Change) -> R {
        let org = OrgId::derive(&["o"]);
        let write = Write::by_platform(org, "key".parse().unwrap(), at(0), Expected::Absent, change);
        R::apply(id, &write, None).unwrap().after.unwrap()
    }

    /// Returns a document with a tag and a text that was stored at second 10.
    fn document() -> Document {
        let create = DocumentChange::Create(NewDocument {
            tags: vec![TagId::derive(&["t"])],
            ..NewDocument::file("a.txt", "text/plain", b"x", BlobId::derive(&["b"]))
        });
        let document: Document = created(&DocumentId::derive(&["d"]), create);
        Document { state: TextState::Ready, text_generation: Some(at(10)), ..document }
    }

    fn prompt(tag: &str) -> Prompt {
        let (name, content, tags) = ("p".into(), "c".into(), vec![TagId::derive(&[tag])]);
        let create = NewPrompt { name, content, tags, ..NewPrompt::default() };
        created(&PromptId::derive(&["p"]), PromptChange::Create(create))
    }

    #[test]
    fn a_prompt_runs_once_its_cause_is_stored_and_only_on_a_text_with_a_common_tag() {
        let (ready, shared) = (document(), prompt("t"));
        let decide = |document: Option<&Document>, prompt: Option<&Prompt>, write: TagRunWrite, seconds: i64| {
            decide(document, prompt, &TagRun { at: at(10), write }, at(seconds))
        };
        let run = Decision::Run(at(10));
        for write in [TagRunWrite::Text, TagRunWrite::Document(1), TagRunWrite::Prompt] {
            assert_eq!(decide(Some(&ready), Some(&shared), write.clone(), 11), run, "{write:?}");
            assert_eq!(decide(None, Some(&shared), write, 11), Decision::Skip("the document was deleted"));
        }
        let old = Document { text_generation: Some(at(9)), ..ready.clone() };
        for (document, write) in [(&old, TagRunWrite::Text), (&ready, TagRunWrite::Document(2))] {
            assert_eq!(decide(Some(document), Some(&shared), write.clone(), 610), Decision::Wait);
            let late = decide(Some(document), Some(&shared), write, 611);
            assert_eq!(late, Decision::Skip("the document was not changed"));
        }
        let waiting = Document { state: TextState::Uploaded, text_generation: None, ..ready.clone() };
        let found = decide(Some(&waiting), Some(&shared), TagRunWrite::Prompt, 11);
        assert_eq!(found, Decision::Skip("the document has no text"));
        for prompt in [None, Some(&prompt("other"))] {
            let found = decide(Some(&ready), prompt, TagRunWrite::Text, 11);
            assert_eq!(found, Decision::Skip("the prompt shares no tag with the document"));
        }
    }
}
