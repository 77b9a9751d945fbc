//! The gateway: the public API over gRPC, with health and reflection on the same port.
//!
//! A request passes the layers first: it is admitted, authenticated to a principal, and its role checked against the
//! operation's declaration. A service then translates the message into an operation of `folio-operations`, runs it, and
//! translates its output. The gateway keeps no state of its own, so that any number of them may run. It must not know
//! how a turn works.

mod access;
mod access_cache;
mod attempts;
mod caller;
mod connections;
mod counters;
#[cfg(test)]
mod empty;
pub mod health;
mod jwt;
mod layers;
mod options;
pub mod purchases;
mod rates;
mod response_body;
mod serve;
mod services;
mod sessions;
mod tls;
mod traced;

pub use access::rpc_path;
pub use counters::Counters;
pub use folio_cluster::Shutdown;
pub use jwt::{IssuerOptions, RoleNames};
pub use options::Options;
pub use serve::{Gateway, serve};
pub use tls::TlsOptions;
