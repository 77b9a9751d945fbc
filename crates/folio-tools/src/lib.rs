//! The tools of the agents: traits, registry, and one file per tool or group of tools.
//!
//! A tool that reads consists of a type with its arguments and one function (`call::ReadCall`). A tool that writes has
//! two (`call::WriteCall`): `plan` resolves the target (names to ids, the expected version) before the intent is
//! journaled, and `change` returns the change of the one deciding write. The write with its op row and the handling of
//! repeated calls are shared. A tool call cannot reach another organization: every store access uses the organization
//! of the principal.
//!
//! The API uses [`rules`], [`path`], [`extraction`] and [`sections`] too. [`ingestion`] contains the steps and the tools that turn
//! documents into passages. [`images`] has images of documents described by models. [`mcp`] contains the port to the MCP servers of
//! organizations. [`item_budgets`] divides the credit budget of a job among its items. [`policy`] evaluates the approval policy of the organization. [`links`] resolves links between documents. [`score`]
//! compares extracted values with expected ones, for evaluations. [`stack`] contains the tools, the aggregates and the jobs of tables
//! over many documents.

mod arguments;
pub mod auto_create;
pub mod calculator;
mod call;
mod decide;
mod dictionary;
mod document_text;
mod documents;
pub mod extraction;
mod find_tools;
pub mod graph;
mod help;
pub mod images;
pub mod ingestion;
pub mod item_budgets;
pub mod links;
pub mod mcp;
mod models;
mod output;
pub mod path;
pub mod policy;
pub mod preview;
mod profiles;
mod prompts;
mod references;
mod registry;
mod repair;
pub mod retrieval;
pub mod rules;
mod schemas;
mod scope;
pub mod score;
pub mod sections;
mod spelling;
pub mod stack;
mod subject;
mod tags;
pub mod tasks;
mod tool;

pub use dictionary::{dictionary_entries, document_dictionary};
pub use registry::{CheckedCall, ProfileTools, Registry};
pub use scope::DocumentScope;
pub use tool::*;
