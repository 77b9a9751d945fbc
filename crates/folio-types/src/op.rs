//! Exactly-once effects: op keys, op rows, and the version that a write expects.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::coverage::Coverage;
use crate::error::{Error, Reason};
use crate::ids::{
    CallId, Digest, DocumentId, ExtractionId, OrgId, PromptRevId, RequestId, SchemaRevId, ThreadId, UserId,
};

/// The key of an op. The effect of an op happens once per key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKey {
    /// A tool call of a turn.
    Call(CallId),
    /// A request outside turns. No process recovers it, so other writers may close it.
    Request {
        user: UserId,
        /// The client's (or gateway's) id for the request.
        request: RequestId,
    },
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => write!(f, "call:{call}"),
            Self::Request { user, request } => write!(f, "request:{user}:{request}"),
        }
    }
}

impl FromStr for OpKey {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = || Error::invalid(Reason::InvalidId, "malformed op key");
        match text.split_once(':').ok_or_else(malformed)? {
            ("call", call) => Ok(Self::Call(call.parse()?)),
            ("request", rest) => {
                let (user, request) = rest.split_once(':').ok_or_else(malformed)?;
                Ok(Self::Request { user: user.parse()?, request: request.parse()? })
            }
            _ => Err(malformed()),
        }
    }
}

text_form!(@serde OpKey);

/// The resource or thread that an op changes. The op rows are stored with the target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    kind: Arc<str>,
    id: Arc<str>,
}

impl Target {
    /// The kind of threads. A thread has no op rows: the effects of its requests are in its journal.
    pub const THREAD: &'static str = "thread";
    const OPERATION: &'static str = "operation";
    const OUTCOME: &'static str = "outcome";

    /// Returns the target with this kind (a lowercase word such as `tag`) and id.
    pub fn new(kind: &str, id: impl fmt::Display) -> Self {
        Self { kind: kind.into(), id: id.to_string().into() }
    }

    pub fn thread(id: &ThreadId) -> Self {
        Self::new(Self::THREAD, id)
    }

    /// Returns the target for an administrative operation such as `SetPolicy`. The target has no op rows: a second
    /// record contains the outcome.
    pub fn operation(name: &str) -> Self {
        Self::new(Self::OPERATION, name)
    }

    /// Returns the target that contains the outcome of an administrative operation as JSON. The target has no op rows.
    pub fn outcome(json: String) -> Self {
        Self::new(Self::OUTCOME, json)
    }

    /// Returns the JSON of an outcome. None: any other target.
    pub fn outcome_text(&self) -> Option<&str> {
        (*self.kind == *Self::OUTCOME).then_some(&self.id)
    }

    /// Returns true if the op rows of requests are stored with the target.
    pub fn has_op_rows(&self) -> bool {
        ![Self::THREAD, Self::OPERATION, Self::OUTCOME].contains(&self.kind())
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

/// The version that a deciding write expects of its target. Versions only grow; a deleted target keeps its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The target never existed.
    Absent,
    /// The target has this version.
    Version(u64),
}

/// The deciding write of an op.
#[derive(Debug, Clone)]
pub struct Write<C> {
    pub org: OrgId,
    pub op: OpKey,
    /// Digest of the call's arguments or of the request. The same key with another digest is refused with
    /// `REQUEST_ID_CONFLICT`.
    pub digest: Digest,
    /// The user on whose behalf the write happens.
    pub by: UserId,
    /// The time of the write.
    pub at: Timestamp,
    pub expected: Expected,
    pub change: C,
}

impl<C: fmt::Debug> Write<C> {
    /// A write by the platform itself, outside turns and user requests. A repetition with the same key and change
    /// returns the op row of the first write.
    pub fn by_platform(org: OrgId, key: RequestId, at: Timestamp, expected: Expected, change: C) -> Self {
        let by = UserId::platform();
        let digest = Digest::of(format!("{change:?}").as_bytes());
        Self { org, op: OpKey::Request { user: by.clone(), request: key }, digest, by, at, expected, change }
    }

    pub fn is_by_platform(&self) -> bool {
        self.by == UserId::platform()
    }
}

/// The record of an op. It is inserted once, and its outcome is final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpRow {
    pub op: OpKey,
    /// Digest of the call's arguments or of the request.
    pub digest: Digest,
    pub state: OpState,
    /// The time of the write.
    pub at: Timestamp,
}

/// The idempotency record of a request outside turns: its only target and the digest of its content. A request that
/// finds its target by a name, or is repeated with another target, is therefore executed once. The op row of the target
/// contains the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    pub target: Target,
    pub digest: Digest,
    /// The time of the request.
    pub at: Timestamp,
}

impl OpRow {
    /// Creates the row of an op that did not happen.
    pub fn closed(op: OpKey, digest: Digest, closed: ClosedAs, at: Timestamp) -> Self {
        Self { op, digest, state: closed.into(), at }
    }

    /// Returns the digest of an op that a process closed without the content of the request. No request has this
    /// digest, because the digest of a request covers its content, which is never empty.
    pub fn unknown_digest() -> Digest {
        Digest::of(b"")
    }

    /// Returns true if a process closed the op without the content of the request. The row then answers every request
    /// with its key.
    pub fn is_closed_by_another(&self) -> bool {
        matches!(self.state, OpState::Aborted) && self.digest == Self::unknown_digest()
    }

    /// Removes the name from the recorded result, so that only ids remain. Returns false if the result had none.
    pub fn remove_content(&mut self) -> bool {
        match &mut self.state {
            OpState::Done(OpResult::Resource { name, .. }) if !name.is_empty() => name.clear(),
            _ => return false,
        }
        true
    }

    /// Returns the version of the target whose data is part of the recorded result. A row of its own contains the data.
    /// None: the result has no data.
    pub fn data_version(&self) -> Option<u64> {
        match &self.state {
            OpState::Done(OpResult::Extraction { version, .. }) => Some(*version),
            _ => None,
        }
    }

    /// Replaces the data of the recorded result; returns the data before. None: the result has no data.
    pub fn replace_data(&mut self, new: Value) -> Option<Value> {
        match &mut self.state {
            OpState::Done(OpResult::Extraction { data, .. }) => Some(std::mem::replace(data, new)),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "result")]
#[expect(clippy::large_enum_variant, reason = "nearly every state is a result")]
pub enum OpState {
    /// The op happened, with this result.
    Done(OpResult),
    /// The op did not happen and never will: the target had another version.
    Conflict,
    /// The op did not happen and never will: its turn ended first.
    Aborted,
}

/// The reason for closing an op that did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedAs {
    /// The target has another version than expected.
    Conflict,
    Aborted,
}

impl From<ClosedAs> for OpState {
    fn from(closed: ClosedAs) -> Self {
        match closed {
            ClosedAs::Conflict => Self::Conflict,
            ClosedAs::Aborted => Self::Aborted,
        }
    }
}

/// The outcome of a deciding write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every outcome is a row")]
pub enum WriteOutcome {
    /// The stored op row: inserted by this write, or by an earlier write with the same key.
    Row(OpRow),
    /// There is no op row and the target does not have the expected version; nothing was written.
    VersionMismatch,
}

/// The result of an op that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OpResult {
    /// A schema was created, revised or renamed.
    Schema {
        /// The newest revision after the op.
        revid: SchemaRevId,
        name: String,
        /// True if the op created a revision. A rename and an unchanged update create none.
        revised: bool,
    },
    /// A prompt was created, revised or renamed.
    Prompt {
        /// The newest revision after the op.
        revid: PromptRevId,
        name: String,
        schema: Option<SchemaRevId>,
        revised: bool,
    },
    /// A resource was created or changed. The target of the op states its kind.
    Resource { id: String, name: String },
    /// An extraction was stored or changed.
    Extraction {
        id: ExtractionId,
        /// The document that the data was extracted from.
        document: DocumentId,
        prompt: PromptRevId,
        /// The version of the extraction after the op.
        version: u64,
        /// The data after the op. Null in a stored op row, and after the row with the data was removed.
        data: Value,
        /// The parts of the document that a prompt run read. None: an edit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        coverage: Option<Coverage>,
    },
    /// The target was deleted.
    Deleted,
}

impl OpResult {
    pub fn revised(&self) -> bool {
        matches!(self, Self::Schema { revised: true, .. } | Self::Prompt { revised: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{PromptId, SchemaId, TagId, TurnId};

    fn request() -> OpKey {
        OpKey::Request { user: UserId::derive(&["a"]), request: "once:1".parse().unwrap() }
    }

    fn row(state: OpState, digest: Digest) -> OpRow {
        OpRow { op: request(), digest, state, at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_write_of_the_platform_is_by_the_platform() {
        let key = "key".parse().unwrap();
        let write = Write::by_platform(OrgId::derive(&["o"]), key, Timestamp::UNIX_EPOCH, Expected::Absent, ());
        assert!(write.is_by_platform());
        assert!(!Write { by: UserId::derive(&["u"]), ..write }.is_by_platform());
    }

    #[test]
    fn an_op_key_is_read_back_from_its_text() {
        let call = CallId::new(TurnId::new(ThreadId::derive(&["a"]), 1), 2, 3);
        for (key, prefix) in [(OpKey::Call(call), "call:thr_"), (request(), "request:usr_")] {
            let text = key.to_string();
            assert!(text.starts_with(prefix), "{text}");
            assert_eq!(text.parse(), Ok(key.clone()));
            assert_eq!(format!("{key:?}"), text);
            assert_eq!(serde_json::from_value::<OpKey>(serde_json::to_value(&key).unwrap()).unwrap(), key);
        }
        for bad in ["", "call", "call:1", "request:usr_1", "other:1", "request::"] {
            assert!(bad.parse::<OpKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_target_without_op_rows_is_a_thread_or_an_operation() {
        let tag = Target::new("tag", TagId::derive(&["a"]));
        assert_eq!((tag.kind(), tag.id()), ("tag", TagId::derive(&["a"]).as_str()));
        assert_eq!(tag.to_string(), tag.id());
        assert!(tag.has_op_rows());
        assert_eq!(tag.outcome_text(), None);
        let thread = ThreadId::derive(&["a"]);
        let outcome = Target::outcome("{}".to_owned());
        assert_eq!((Target::thread(&thread).id(), Target::operation("SetPolicy").id()), (thread.as_str(), "SetPolicy"));
        assert_eq!(outcome.outcome_text(), Some("{}"));
        for target in [Target::thread(&thread), Target::operation("SetPolicy"), outcome] {
            assert!(!target.has_op_rows(), "{target:?}");
        }
    }

    #[test]
    fn writes_of_the_platform_differ_by_their_change() {
        let write = |change: u32| {
            let key = "once".parse().unwrap();
            Write::by_platform(OrgId::platform(), key, Timestamp::UNIX_EPOCH, Expected::Absent, change)
        };
        assert_eq!((write(1).op, write(1).digest), (write(2).op, write(1).digest));
        assert_ne!(write(1).digest, write(2).digest);
    }

    #[test]
    fn only_an_aborted_op_without_content_is_closed_by_another_process() {
        assert_eq!(OpState::from(ClosedAs::Conflict), OpState::Conflict);
        assert_eq!(OpState::from(ClosedAs::Aborted), OpState::Aborted);
        assert!(row(OpState::Aborted, OpRow::unknown_digest()).is_closed_by_another());
        assert!(!row(OpState::Aborted, Digest::of(b"{}")).is_closed_by_another());
        assert!(!row(OpState::Conflict, OpRow::unknown_digest()).is_closed_by_another());
    }

    #[test]
    fn the_data_of_a_result_is_separated_from_its_row() {
        let extraction = |data| OpResult::Extraction {
            id: ExtractionId::derive(&["a"]),
            document: DocumentId::derive(&["a"]),
            prompt: PromptRevId::new(PromptId::derive(&["a"]), 1),
            version: 7,
            data,
            coverage: None,
        };
        let mut stored = row(OpState::Done(extraction(Value::from(1))), Digest::of(b"{}"));
        assert_eq!((stored.data_version(), stored.replace_data(Value::Null)), (Some(7), Some(Value::from(1))));
        assert_eq!(stored.state, OpState::Done(extraction(Value::Null)));
        let mut without = row(OpState::Done(OpResult::Deleted), Digest::of(b"{}"));
        assert_eq!((without.data_version(), without.replace_data(Value::from(1))), (None, None));
    }

    #[test]
    fn names_are_removed_from_results() {
        let resource = |name: &str| OpResult::Resource { id: "tag_1".to_owned(), name: name.to_owned() };
        let removed = |result| {
            let mut row = row(OpState::Done(result), Digest::of(b""));
            let has_content = row.remove_content();
            (has_content, row.state)
        };
        assert_eq!(removed(resource("private")), (true, OpState::Done(resource(""))));
        assert_eq!(removed(resource("")), (false, OpState::Done(resource(""))));
        assert_eq!(removed(OpResult::Deleted), (false, OpState::Done(OpResult::Deleted)));
    }

    #[test]
    fn only_a_new_revision_counts_as_revised() {
        let schema = |revised| OpResult::Schema {
            revid: SchemaRevId::new(SchemaId::derive(&["a"]), 1),
            name: String::new(),
            revised,
        };
        let prompt = |revised| OpResult::Prompt {
            revid: PromptRevId::new(PromptId::derive(&["a"]), 1),
            name: String::new(),
            schema: None,
            revised,
        };
        assert!(schema(true).revised() && prompt(true).revised());
        assert!(!schema(false).revised() && !prompt(false).revised() && !OpResult::Deleted.revised());
    }
}
