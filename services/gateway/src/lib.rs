//! The gateway: the public API over gRPC, gRPC-Web, Connect, REST and MCP, with health and reflection on the same port.
//!
//! A request first passes the layers, which admit it, authenticate its caller, and check the caller's role against the
//! operation's declaration. A service then translates the message into an operation of `folio-operations`, runs the
//! operation, and translates its output. The gateway keeps no durable state, so that any number of gateways may run. It
//! must not know how a turn works.

mod access;
mod access_cache;
mod assistant_question;
mod attempts;
mod authenticator;
mod call_shares;
mod call_span;
mod client_address;
mod connect;
mod connections;
mod counters;
mod descriptors;
#[cfg(test)]
mod empty_store;
mod faces;
pub mod health;
mod http_status;
mod idempotency;
mod json_member;
mod jwt;
mod layers;
mod mcp;
mod message_json;
mod openapi;
mod options;
mod proxy_protocol;
mod public_calls;
pub mod purchases;
mod rates;
mod request_body;
mod response_body;
mod rest;
mod serve;
mod services;
mod sessions;
mod tls;
mod web_page;

pub use access::rpc_path;
pub use counters::Counters;
pub use folio_cluster::Shutdown;
pub use jwt::{IssuerOptions, RoleNames};
pub use openapi::openapi;
pub use options::Options;
pub use rest::{RestRoute, rest_routes};
pub use serve::{Gateway, serve};
pub use tls::TlsOptions;
pub use web_page::has_web_page;
