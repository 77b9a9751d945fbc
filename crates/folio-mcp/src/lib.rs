//! Client of the MCP servers of organizations: the streamable HTTP transport, of versions with a handshake and of the
//! stateless version.
//!
//! A request is sent once. Its failure states whether the server may have executed it. The URL guard of `folio-llm` applies to
//! every connection, also to the endpoints that issue access tokens. Everything that a server returns is bounded and untrusted.
//! The crate must not know turns.

mod client;
mod message;
mod oauth;
mod session;

pub use client::McpClient;
