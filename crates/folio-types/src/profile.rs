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
/// Name of the profile of the agent that answers questions about all documents of an organization.
pub const ASSISTANT_PROFILE: &str = "assistant";
/// Name of the profile of the agent that writes an extraction.
pub const EXTRACTION_PROFILE: &str = "extraction";
/// Name of the profile of the agent with which a run of the ingestion network begins. It divides the work.
pub const INGEST_PLANNER_PROFILE: &str = "ingest_planner";
/// Name of the profile of the agent that reports the structure of a document.
pub const STRUCTURE_SCANNER_PROFILE: &str = "structure_scanner";
/// Name of the profile of the agent that summarizes the parts of a document.
pub const SUMMARY_ORCHESTRATOR_PROFILE: &str = "summary_orchestrator";
/// Name of the profile of the agent that divides a document into chunks.
pub const CHUNK_BUILDER_PROFILE: &str = "chunk_builder";
/// Name of the profile of the agent that records the meaning of abbreviations.
pub const DICTIONARY_STEWARD_PROFILE: &str = "dictionary_steward";
/// Name of the profile of the agent that reports the links of a document.
pub const HYPERLINK_AUDITOR_PROFILE: &str = "hyperlink_auditor";
/// Name of the profile of the agent that has the images of a document described.
pub const IMAGE_DESCRIBER_PROFILE: &str = "image_describer";
/// Name of the profile of the agent that indexes the chunks of a document.
pub const RAG_INGESTOR_PROFILE: &str = "rag_ingestor";

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
        Organization = "organization",
    }
}

named_enum! {
    /// The role of a node in the graph of its profile.
    pub enum NodeKind {
        /// The answer of the node chooses the next node.
        Route = "route",
        /// The answer of the node is that of the turn.
        Answer = "answer",
        /// The node updates the memory of the thread after the answer of the turn. Its failure never fails the turn.
        Memory = "memory",
    }
}

named_enum! {
    /// A check of a node's answer by code, in addition to its JSON Schema.
    pub enum AnswerCheck {
        /// `sources` are ids of documents that a call of `retrieve_documents` returned in the same turn.
        Sources = "sources",
        /// `result` is the value that a successful call of `calculator` or `ask_table` in the same turn has for `expression`.
        Calculated = "calculated",
    }
}

/// A node of the graph of a profile: model calls with instructions, tools and an answer of their own. The first node of a
/// graph starts each turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileNode {
    /// Unique in the graph.
    pub name: &'static str,
    pub kind: NodeKind,
    /// Follow the instructions of the profile in the system message.
    pub instructions: &'static str,
    /// The tools of the profile that the node may call.
    pub tools: &'static [&'static str],
    /// Name of the type of the answer.
    pub answer_type: &'static str,
    /// JSON Schema (draft 7) of the answer, with at most [`ANSWER_SCHEMA_BYTES`](crate::limits::ANSWER_SCHEMA_BYTES).
    pub answer_schema: &'static str,
    pub checks: &'static [AnswerCheck],
    /// Members of the answer whose values, joined by ` = `, are the text of the turn's answer. Empty unless the kind is
    /// [`NodeKind::Answer`].
    pub text_members: &'static [&'static str],
    /// The answer, as JSON, after a second violation of the schema or of a check. None: the turn fails.
    pub default_answer: Option<&'static str>,
    pub routes: ProfileRoutes,
}

/// The nodes that may follow a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileRoutes {
    /// Member of the answer whose value chooses the next node. Empty: no value does.
    pub member: &'static str,
    /// The next node by value.
    pub by_value: &'static [(&'static str, &'static str)],
    /// The next node for any other value. None: the turn ends.
    pub otherwise: Option<&'static str>,
}

impl ProfileRoutes {
    /// Returns routes that always lead to one node, or to the end of the turn.
    pub const fn to(next: Option<&'static str>) -> Self {
        Self { member: "", by_value: &[], otherwise: next }
    }

    /// Returns the names of the nodes that may follow.
    pub fn targets(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.by_value.iter().map(|(_, next)| *next).chain(self.otherwise)
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
    /// All documents of the organization, or those of the thread if it has some.
    Organization,
}

impl Subject {
    pub fn kind(&self) -> SubjectKind {
        match self {
            Self::Document(_) => SubjectKind::Document,
            Self::Extraction(_) => SubjectKind::Extraction,
            Self::Stack(_) => SubjectKind::Stack,
            Self::Ingestion(_) => SubjectKind::Ingestion,
            Self::Proposal(_) => SubjectKind::Proposal,
            Self::Organization => SubjectKind::Organization,
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
    /// The type of the answer. [`ProfileAnswer::Text`] if the profile has a graph, whose nodes have types of their own.
    pub answer: ProfileAnswer,
    /// The nodes of a turn; the first one starts it. Empty: the profile has no graph.
    pub graph: &'static [ProfileNode],
    /// True if the usage names the profile as the operation of all model calls of a turn, including those of tools.
    pub has_own_usage: bool,
}

impl Profile {
    /// Returns a tool of the profile. None: the profile has no such tool.
    pub fn tool(&self, name: &str) -> Option<&ProfileTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Returns a node of the graph. None: the graph has no such node.
    pub fn node(&self, name: &str) -> Option<&'static ProfileNode> {
        self.graph.iter().find(|node| node.name == name)
    }
}
