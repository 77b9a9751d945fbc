//! Tests of the tools on the embedded store, with a scripted model.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod agent;
mod assistant;
mod auto_create;
mod dictionary;
mod documents;
mod evidence;
mod examples;
mod extraction;
mod extraction_job;
mod fixture;
mod images;
mod ingestion;
mod invented_ids;
mod links;
mod mcp;
mod once;
mod prompts;
mod retrieval;
mod schemas;
mod stacks;
mod tags;
mod tenants;
