//! The public actions of Folio, independent of the protocol that carries them.
//!
//! An [`Operation`] is one action: its type is the input, [`Operation::Output`] is the output, and its [`Declaration`]
//! states the required role and scope, the duration class, the effect, the audit entry and the quota.
//! [`Operations::run`] derives everything else from the declaration: authorization, idempotency, the audit log and the
//! permits of administrative changes. gRPC handlers, REST handlers, MCP tools and commands translate their messages
//! into operations and call [`Operations::run`].
//!
//! Idempotency: an operation that changes something carries a request id. The digest of a request covers the
//! operation's name and the canonical JSON of its input. A repeated request returns the stored output of the first; a
//! different request with the same id is refused with `REQUEST_ID_CONFLICT`.
//!
//! This crate must know no protocol: no protobuf, no gRPC, no HTTP.

pub mod account_sessions;
pub mod account_tokens;
pub mod accounts;
pub mod agent_extractions;
pub mod approvals;
mod audit;
pub mod audit_log;
pub mod call_previews;
mod caller;
mod candidates;
pub mod collections;
pub mod completions;
mod context;
pub mod conversations;
pub mod credits;
mod declaration;
pub mod dictionary;
pub mod dictionary_import;
pub mod dictionary_questions;
pub mod dictionary_review;
pub mod document_notes;
mod document_selection;
pub mod document_splits;
pub mod document_structure;
pub mod document_watch;
pub mod documents;
mod export_permits;
pub mod exports;
pub mod extractions;
pub mod filter;
mod followed_list;
pub mod grid;
pub mod inbox;
pub mod ingestions;
pub mod jobs;
pub mod limits;
pub mod links;
mod list;
pub mod mcp_servers;
pub mod members;
pub mod message_images;
pub mod models;
mod operation;
pub mod organizations;
mod pending_pollers;
mod pending_reviews;
pub mod policies;
pub mod policy_test;
pub mod prompts;
pub mod proposals;
pub mod providers;
mod reference;
mod registry;
mod request;
pub mod retrieval;
mod reuse;
pub mod schemas;
mod shared_poller;
pub mod sign_in;
mod single_flight;
pub mod stack_rows;
pub mod stack_tables;
pub mod stacks;
pub mod tag_runs;
pub mod tags;
mod thread_messages;
pub mod threads;
pub mod tokens;
pub mod usage;
pub mod users;
mod waiting_items;
pub mod webhook_endpoints;

pub use audit::{AuditRecord, AuditedChange};
pub use caller::{Caller, CredentialKind, ORGANIZATION};
pub use context::{Components, Context, Operations};
pub use declaration::{Access, Audit, Class, Declaration, Effect, Idempotency, Quota, Service};
pub use export_permits::RunningExports;
pub use list::{ListPage, ListRequest, Listing, Period, SortKeys};
pub use operation::{Call, Operation};
pub use reference::{PromptRef, RevisionRef, SchemaRef};
pub use registry::{declaration, operations};
pub use request::ChangeRequest;
pub use single_flight::{SingleFlight, SingleFlightGuard};

/// The declarations of all operations, by service.
const GROUPS: &[&[Declaration]] = &[
    conversations::DECLARATIONS,
    threads::DECLARATIONS,
    documents::DECLARATIONS,
    schemas::DECLARATIONS,
    prompts::DECLARATIONS,
    tags::DECLARATIONS,
    collections::DECLARATIONS,
    dictionary::DECLARATIONS,
    retrieval::DECLARATIONS,
    links::DECLARATIONS,
    stacks::DECLARATIONS,
    extractions::DECLARATIONS,
    proposals::DECLARATIONS,
    jobs::DECLARATIONS,
    ingestions::DECLARATIONS,
    inbox::DECLARATIONS,
    models::DECLARATIONS,
    providers::DECLARATIONS,
    completions::DECLARATIONS,
    tokens::DECLARATIONS,
    organizations::DECLARATIONS,
    policies::DECLARATIONS,
    limits::DECLARATIONS,
    credits::DECLARATIONS,
    usage::DECLARATIONS,
    audit_log::DECLARATIONS,
    webhook_endpoints::DECLARATIONS,
    mcp_servers::DECLARATIONS,
    users::DECLARATIONS,
    accounts::DECLARATIONS,
];
