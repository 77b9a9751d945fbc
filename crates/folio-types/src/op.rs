//! Effects that happen once: op keys, op rows, and what a write expects.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::error::{Error, Reason};
use crate::ids::{
    CallId, Digest, DocumentId, ExtractionId, OrgId, PromptId, PromptRevId, RequestId, SchemaId, SchemaRevId, TagId,
    ThreadId, UserId,
};

/// What a write is done for: its effect happens once for each key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKey {
    /// A tool call of a turn.
    Call(CallId),
    /// A request outside turns. Nobody carries it on, so others may close it.
    Request {
        /// Who asked.
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

impl Serialize for OpKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OpKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The aggregate that an op changes; its op rows lie beside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Target {
    /// A document.
    Document(DocumentId),
    /// A schema.
    Schema(SchemaId),
    /// A prompt.
    Prompt(PromptId),
    /// A tag.
    Tag(TagId),
    /// An extraction.
    Extraction(ExtractionId),
    /// A thread: what a request made, renamed, forked or removed. Its effects are in its journal; it has no op rows.
    Thread(ThreadId),
    /// An administrative operation, by name. It has no op rows: a second record holds its outcome.
    Operation(String),
    /// The outcome of an administrative operation, as JSON. It has no op rows.
    Outcome(String),
}

impl Target {
    /// An administrative operation with this name, such as `SetPolicy`.
    pub fn operation(name: &str) -> Self {
        Self::Operation(name.to_owned())
    }

    /// The outcome of an administrative operation, as JSON.
    pub fn outcome(json: String) -> Self {
        Self::Outcome(json)
    }

    /// Returns the JSON of an outcome, or none for any other target.
    pub fn outcome_text(&self) -> Option<&str> {
        match self {
            Self::Outcome(json) => Some(json),
            _ => None,
        }
    }

    /// Returns whether the op rows of requests are stored with the target.
    pub fn has_op_rows(&self) -> bool {
        !matches!(self, Self::Thread(_) | Self::Operation(_) | Self::Outcome(_))
    }

    /// What it is, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Document(_) => "document",
            Self::Schema(_) => "schema",
            Self::Prompt(_) => "prompt",
            Self::Tag(_) => "tag",
            Self::Extraction(_) => "extraction",
            Self::Thread(_) => "thread",
            Self::Operation(_) => "operation",
            Self::Outcome(_) => "outcome",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(id) => id.fmt(f),
            Self::Schema(id) => id.fmt(f),
            Self::Prompt(id) => id.fmt(f),
            Self::Tag(id) => id.fmt(f),
            Self::Extraction(id) => id.fmt(f),
            Self::Thread(id) => id.fmt(f),
            Self::Operation(text) | Self::Outcome(text) => f.write_str(text),
        }
    }
}

/// What a deciding write expects of its target. Versions only grow, and a deleted target keeps its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// It was never there.
    Absent,
    /// It is there with this version.
    Version(u64),
}

/// One deciding write: the change, for whom, and what it expects.
#[derive(Debug, Clone)]
pub struct Write<C> {
    /// The tenant.
    pub org: OrgId,
    /// The op's key.
    pub op: OpKey,
    /// Digest of what was asked (a call's arguments, a request). The same key with another digest is refused with
    /// `REQUEST_ID_CONFLICT`.
    pub digest: Digest,
    /// Who asked.
    pub by: UserId,
    /// When.
    pub at: Timestamp,
    /// What the write expects of its target.
    pub expected: Expected,
    /// The change.
    pub change: C,
}

/// The record of an op: there once, and final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpRow {
    /// The op's key.
    pub op: OpKey,
    /// Digest of what was asked.
    pub digest: Digest,
    /// What came of it.
    pub state: OpState,
    /// When.
    pub at: Timestamp,
}

/// What the id of a request outside turns stands for: the one target that it changed, and what it asked for. So a request
/// that finds its target by a name, or is repeated with another one, happens once. What came of it is in the op row there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedRow {
    /// What it changed.
    pub target: Target,
    /// Digest of what was asked.
    pub digest: Digest,
    /// When.
    pub at: Timestamp,
}

/// What came of an op.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "result")]
pub enum OpState {
    /// It happened, with this result.
    Done(OpResult),
    /// It did not, and never will: the target had moved on.
    Conflict,
    /// It did not, and never will: its turn ended first.
    Aborted,
}

/// How an op that is not there is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedAs {
    /// The target has moved on.
    Conflict,
    /// Its turn ends.
    Aborted,
}

/// What a deciding write came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// The op row that stands: made now, or found.
    Row(OpRow),
    /// No op row stands and the target is not as expected; nothing was written.
    Moved,
}

/// The result of an op that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OpResult {
    /// A schema was created, revised or renamed.
    Schema {
        /// The revision that is now the newest.
        revid: SchemaRevId,
        /// Its name.
        name: String,
        /// Whether the op made a revision (a rename and an unchanged update make none).
        revised: bool,
    },
    /// A prompt was created, revised or renamed.
    Prompt {
        /// The revision that is now the newest.
        revid: PromptRevId,
        /// Its name.
        name: String,
        /// The schema that it is linked to.
        schema: Option<SchemaRevId>,
        /// Whether the op made a revision.
        revised: bool,
    },
    /// A tag was created or changed.
    Tag {
        /// The tag.
        id: TagId,
        /// Its name.
        name: String,
    },
    /// A document was uploaded or changed.
    Document {
        /// The document.
        id: DocumentId,
        /// Its name.
        name: String,
    },
    /// An extraction was stored or changed.
    Extraction {
        /// The extraction.
        id: ExtractionId,
        /// The document that was read.
        document: DocumentId,
        /// The prompt that was run.
        prompt: PromptRevId,
        /// The data as it is after the op.
        data: Value,
    },
    /// The target is gone.
    Deleted,
}

impl OpResult {
    /// Whether the op made a revision.
    pub fn revised(&self) -> bool {
        matches!(self, Self::Schema { revised: true, .. } | Self::Prompt { revised: true, .. })
    }
}
