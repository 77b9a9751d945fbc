//! Durable answers of windows.
//!
//! The answer of a window is the outcome of a request whose id derives from the run, the model and the number of the window.
//! A repeated run finds it and does not pay for the window again, on any node. The digest covers everything that the model
//! read, so that a run with another text or prompt ignores the record. Records are kept for 48 hours, like those of other
//! requests.

use folio_storage::Stores;
use folio_types::op::{IdempotencyRecord, OpKey, Target};
use folio_types::{Digest, Error, Principal, RequestId, Result, Timestamp};

use super::merge::WindowAnswer;

/// The identity of the answer of one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WindowRecord {
    op: OpKey,
    digest: Digest,
}

impl WindowRecord {
    /// `run`: identity of the run, equal for each repetition. `question`: text that the model reads, with the prompt.
    /// `window`: its number, from 1.
    pub(super) fn new(principal: &Principal, run: &str, model: &str, window: usize, question: &str) -> Result<Self> {
        let id = Digest::of(format!("{window} {model} {run}").as_bytes());
        let request: RequestId = format!("folio-window-{id}").parse()?;
        let op = OpKey::Request { user: principal.user.clone(), request };
        Ok(Self { op, digest: Digest::of(question.as_bytes()) })
    }

    /// Returns the recorded answer. None: the window was not answered, or with another question.
    pub(super) async fn read(&self, stores: &Stores, principal: &Principal) -> Result<Option<WindowAnswer>> {
        let record = stores.ops.request(&principal.org, &self.op).await?;
        let Some(record) = record.filter(|record| record.digest == self.digest) else { return Ok(None) };
        let answer = record.target.outcome_text().map(serde_json::from_str).transpose();
        answer.map_err(|error| Error::internal(format!("a recorded answer of a window is malformed: {error}")))
    }

    /// Records the answer. A failure only means that a repeated run pays for the window again.
    pub(super) async fn write(&self, stores: &Stores, principal: &Principal, answer: &WindowAnswer, at: Timestamp) {
        let text = match serde_json::to_string(answer) {
            Ok(text) => text,
            Err(error) => return tracing::error!(%error, "the answer of a window cannot be encoded"),
        };
        let record = IdempotencyRecord { target: Target::outcome(text), digest: self.digest.clone(), at };
        if let Err(error) = stores.ops.record_request(&principal.org, &self.op, record).await {
            tracing::warn!(%error, "the answer of a window is not recorded; a repeated run pays for it again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use folio_storage_embedded::{EmbeddedStore, Options};
    use folio_types::{OrgId, Role, UserId};
    use serde_json::json;

    use super::*;
    use crate::extraction::model_evidence::ValueEvidence;

    #[tokio::test]
    async fn an_answer_is_found_by_the_same_run_model_window_and_question_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let stores = store.stores();
        let principal = Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member);
        let record =
            |run, model, window, question| WindowRecord::new(&principal, run, model, window, question).unwrap();
        let quoted = ValueEvidence { quote: Some("Sum 1,50".to_owned()), confidence: Some(0.9) };
        let answer = WindowAnswer {
            data: json!({"total": 1.5}),
            pages: BTreeMap::from([("total".to_owned(), 3)]),
            originals: BTreeMap::from([("total".to_owned(), "1,50".to_owned())]),
            evidence: BTreeMap::from([("total".to_owned(), quoted)]),
            structured: BTreeSet::from(["total".to_owned()]),
            model_calls: 2,
        };
        let first = record("run", "base", 1, "text");
        assert_eq!(first.read(&stores, &principal).await.unwrap(), None);
        first.write(&stores, &principal, &answer, Timestamp::UNIX_EPOCH).await;
        assert_eq!(record("run", "base", 1, "text").read(&stores, &principal).await.unwrap(), Some(answer));
        for other in [
            record("another run", "base", 1, "text"),
            record("run", "other", 1, "text"),
            record("run", "base", 2, "text"),
            record("run", "base", 1, "another text"),
        ] {
            assert_eq!(other.read(&stores, &principal).await.unwrap(), None, "{other:?}");
        }
        let stranger = Principal::new(OrgId::derive(&["other"]), UserId::derive(&["user"]), Role::Member);
        assert_eq!(first.read(&stores, &stranger).await.unwrap(), None, "invariant 6");
    }
}
