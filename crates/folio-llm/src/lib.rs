//! Models: the port that the rest of Folio calls, the OpenAI-compatible client behind it, the provider table, and the
//! checks of schemas and of data against them.
//!
//! This crate knows nothing of turns, tools or tenants. `async-openai` and `jsonschema` are named here only.

mod model;
pub mod schema;

pub use model::*;
