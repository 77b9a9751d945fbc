//! Parts that the adapters for CQL and Redis share: [`Guard`] limits and counts the calls to a server and stops calling
//! an unavailable server; [`Tls`] encrypts connections.

mod guard;
mod tls;

pub use guard::Guard;
pub use tls::{Material, Tls};
