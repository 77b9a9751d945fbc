//! The gateway: the public API over gRPC, with health and reflection on the same port.
//!
//! A request first passes the layers, which admit it, authenticate its caller, and check the caller's role against the
//! operation's declaration. A service then translates the message into an operation of `folio-operations`, runs the
//! operation, and translates its output. The gateway keeps no durable state, so that any number of gateways may run. It
//! must not know how a turn works.

mod access;
mod access_cache;
mod attempts;
mod authenticator;
mod call_shares;
mod call_span;
mod client_address;
mod connections;
mod counters;
#[cfg(test)]
mod empty_store;
pub mod health;
mod jwt;
mod layers;
mod options;
mod proxy_protocol;
mod public_calls;
pub mod purchases;
mod rates;
mod request_body;
mod response_body;
mod serve;
mod services;
mod sessions;
mod tls;

pub use access::rpc_path;
pub use counters::Counters;
pub use folio_cluster::Shutdown;
pub use jwt::{IssuerOptions, RoleNames};
pub use options::Options;
pub use serve::{Gateway, serve};
pub use tls::TlsOptions;
