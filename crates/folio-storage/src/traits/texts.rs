//! Pages of text that belong to resources of kinds with text. The bytes of their files are in the [`super::BlobStore`].

use async_trait::async_trait;
use folio_resources::{TextRecord, TextState};
use folio_types::{OrgId, Result, Timestamp};

/// The text of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPage {
    /// The page, from 1.
    pub number: u32,
    /// The text of the page.
    pub text: String,
}

/// The result of a step of ingestion. Storing it does not change the resource's `version`, and has no effect on a
/// deleted resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestUpdate {
    /// The new state.
    pub state: TextState,
    /// All pages, if the text was read.
    pub pages: Vec<NewPage>,
    /// True if a program that is not installed could read more text: the resource stays in the index of
    /// [`TextWait::Program`], although its state is settled.
    pub lacks_program: bool,
    /// The time of the step.
    pub at: Timestamp,
}

/// The condition that a resource waits for before its text can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextWait {
    /// A free worker. The state of the text is `uploaded` or `processing`.
    Worker,
    /// A program that was not installed when the file was read. The state of the text is settled.
    Program,
}

impl TextWait {
    /// Returns the condition that a text waits for. Returns None if its state is settled and no program is missing.
    /// `text` is None before the first step of ingestion.
    pub fn of(text: Option<&TextRecord>) -> Option<Self> {
        match text {
            Some(text) if text.text.is_settled() => text.lacks_program.then_some(Self::Program),
            Some(_) | None => Some(Self::Worker),
        }
    }
}

/// A resource whose text waits to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingText {
    /// The tenant.
    pub org: OrgId,
    /// The id of the resource.
    pub id: String,
    /// Number of times that [`TextState::Processing`] was stored without a settled state after it. Bounds the attempts
    /// on a file that crashes the process.
    pub attempts: u32,
}

/// The text of resources, by their ids.
#[async_trait]
pub trait TextStore: Send + Sync {
    /// Stores the result of a step of ingestion.
    async fn ingest(&self, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()>;

    /// Returns the pages `from..from + count` (from 1) of a live resource, in order.
    async fn text(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<NewPage>>;

    /// Returns live resources that wait, of all organizations, at most `limit`: a system index that no request reads. A
    /// resource is in at most one of the two indexes.
    async fn pending_text(&self, waits: TextWait, limit: usize) -> Result<Vec<PendingText>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_waits_until_it_is_settled_and_then_for_a_missing_program() {
        let waits = |text: TextState, lacks_program| {
            let record =
                TextRecord { text, pages: 0, generation: None, attempts: 0, lacks_program, at: Timestamp::UNIX_EPOCH };
            TextWait::of(Some(&record))
        };
        assert_eq!(TextWait::of(None), Some(TextWait::Worker));
        for open in [TextState::Uploaded, TextState::Processing] {
            assert_eq!([false, true].map(|lacks| waits(open.clone(), lacks)), [Some(TextWait::Worker); 2]);
        }
        for settled in [TextState::Ready, TextState::NoText("blank".to_owned())] {
            let found = [false, true].map(|lacks| waits(settled.clone(), lacks));
            assert_eq!(found, [None, Some(TextWait::Program)]);
        }
    }
}
