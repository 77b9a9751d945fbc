//! Tests of the public API over real connections on a real embedded store.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod accounts;
mod agent;
mod audits;
mod calls;
mod completions;
mod concurrent;
mod conversations;
mod credits;
mod faulty;
mod floods;
mod harness;
mod http;
mod inbox;
mod issuer;
mod jobs;
mod jwt;
mod limits;
mod malformed;
mod many_documents;
mod mcp_servers;
mod organizations;
mod pending;
mod proposals;
mod providers;
mod proxies;
mod roles;
mod samples;
mod scenarios;
mod server;
mod template;
mod tenants;
mod threads;
mod tls;
mod tokens;
