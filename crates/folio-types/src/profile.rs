//! Profiles, which define agents.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{DocumentId, ExtractionId, IngestionId, ProposalId, StackId};

/// Name of the default profile.
pub const DOCUMENT_PROFILE: &str = "document";
/// Name of the profile of the agent that makes a proposal for an uploaded document.
pub const AUTO_CREATE_PROFILE: &str = "auto_create";
/// Name of the profile of the agent that divides requests into tasks for other agents.
pub const COORDINATOR_PROFILE: &str = "coordinator";
/// Name of the profile of the agent that writes an extraction.
pub const EXTRACTION_PROFILE: &str = "extraction";

/// Name of the profile of the agent that defines the table of a stack with a person.
pub const STACK_PROFILE: &str = "stack";
/// Name of the profile of the agent that fills the row of one document of a stack.
pub const STACK_ROW_PROFILE: &str = "stack_row";

named_enum! {
    /// The kind of a [`Subject`].
    pub enum SubjectKind {
        Document = "document",
        Extraction = "extraction",
        Stack = "stack",
        Ingestion = "ingestion",
        Proposal = "proposal",
    }
}

/// The resource that a thread is about. It is fixed when the thread is created. Tools receive it in their context, so no
/// argument of a call can name another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Subject {
    Document(DocumentId),
    Extraction(ExtractionId),
    Stack(StackId),
    Ingestion(IngestionId),
    Proposal(ProposalId),
}

impl Subject {
    pub fn kind(&self) -> SubjectKind {
        match self {
            Self::Document(_) => SubjectKind::Document,
            Self::Extraction(_) => SubjectKind::Extraction,
            Self::Stack(_) => SubjectKind::Stack,
            Self::Ingestion(_) => SubjectKind::Ingestion,
            Self::Proposal(_) => SubjectKind::Proposal,
        }
    }

    /// Returns the subject of a thread that records none: its first document. None: the thread has no document.
    pub fn first_document(documents: &[DocumentId]) -> Option<Self> {
        documents.first().cloned().map(Self::Document)
    }
}

/// The documents of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentRule {
    pub min: usize,
    pub max: usize,
    /// Permitted media types, such as `application/pdf`. Empty: every type.
    pub media_types: &'static [&'static str],
}

/// Defines the requests to a model that contain a tool. A model may call a tool of its profile at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Each request contains the tool.
    Always,
    /// The requests contain the tool if the working state of the thread had a schema, a prompt or an extraction at the
    /// start of the turn. In other threads the tool is sent on request.
    WithWork,
    /// The requests contain the tool after a call of `find_tools`, or of the tool, in the same turn.
    OnRequest,
}

/// A tool of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileTool {
    pub name: &'static str,
    /// True if its calls wait for a decision, unless a rule of the organization's policy or the turn's options permit them.
    /// Only a tool that writes can wait. A rule that requires an approval or denies applies in either case.
    pub waits: bool,
    /// True if only a rule of the organization's policy permits its calls in advance: the turn's options do not.
    pub needs_rule: bool,
    pub sending: Sending,
}

impl ProfileTool {
    /// Returns a tool whose calls run without approval.
    pub const fn runs(name: &'static str) -> Self {
        Self { name, waits: false, needs_rule: false, sending: Sending::Always }
    }

    /// Returns a tool whose calls wait for a decision.
    pub const fn waits(name: &'static str) -> Self {
        Self { name, waits: true, needs_rule: false, sending: Sending::Always }
    }

    /// Returns a tool whose calls wait for a decision unless a rule of the organization's policy permits them.
    pub const fn needs_rule(name: &'static str) -> Self {
        Self { needs_rule: true, ..Self::waits(name) }
    }

    /// Returns the tool as one that is sent on request only.
    #[must_use]
    pub const fn on_request(self) -> Self {
        Self { sending: Sending::OnRequest, ..self }
    }

    /// Returns the tool as one that needs a schema, a prompt or an extraction.
    #[must_use]
    pub const fn with_work(self) -> Self {
        Self { sending: Sending::WithWork, ..self }
    }
}

/// The type of the answer that ends a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileAnswer {
    Text,
    /// JSON that matches this JSON Schema (draft 7), which has at most
    /// [`ANSWER_SCHEMA_BYTES`](crate::limits::ANSWER_SCHEMA_BYTES).
    Json(&'static str),
}

/// The limits of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileLimits {
    /// Maximum model calls, from 1 to [`ROUNDS_MAX`](crate::limits::ROUNDS_MAX).
    pub model_calls: u32,
    /// Maximum time that the turn runs, without the time that it waits for decisions, in whole seconds up to
    /// [`DAY`](crate::limits::DAY). At the limit, a model call is stopped and no other one starts; tool calls that the model
    /// requested before end. None: no limit.
    pub running_time: Option<Duration>,
    /// Credit that the turn may use, in credit units. None: no limit of its own.
    pub credit_budget: Option<u64>,
}

/// An agent. Each profile is one file of `folio-tools`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub name: &'static str,
    /// Incremented with each change of the profile, from 1.
    pub version: u32,
    pub documents: DocumentRule,
    /// Kind of the subject of each thread. With [`SubjectKind::Document`], the subject is the first document of the thread.
    pub subject: SubjectKind,
    /// True if the system message contains the beginning of the documents' text.
    pub has_excerpt: bool,
    /// Instructions in the system message.
    pub instructions: &'static str,
    /// Guide in the system message while the thread has no schema. Empty: none.
    pub guide: &'static str,
    pub tools: &'static [ProfileTool],
    /// Names of the profiles to which a turn may delegate tasks with `run_tasks`. Empty: the profile does not have this tool.
    pub delegates: &'static [&'static str],
    pub limits: ProfileLimits,
    /// Model of a turn if neither the chat nor the thread names one. None, or a model that the organization does not
    /// offer: the organization's default model.
    pub model: Option<&'static str>,
    pub answer: ProfileAnswer,
    /// True if the usage names the profile as the operation of all model calls of a turn, including those of tools.
    pub has_own_usage: bool,
}

impl Profile {
    /// Returns a tool of the profile. None: the profile has no such tool.
    pub fn tool(&self, name: &str) -> Option<&ProfileTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}
