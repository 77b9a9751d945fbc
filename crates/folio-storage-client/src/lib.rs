//! Clients of storage servers: what the adapters for CQL and Redis share.
//!
//! [`Guard`] bounds and counts the calls to a server and stops calling a server that does not answer. [`Tls`] encrypts
//! connections.

mod guard;
mod tls;

pub use guard::Guard;
pub use tls::{Material, Tls};
