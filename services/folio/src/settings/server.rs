//! Settings of the process as a server.

use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// It serves the public API and asks nodes for conversations.
    Gateway,
    /// It hosts conversations, reads documents and cleans up.
    Node,
}

impl Role {
    /// As flags and settings name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Node => "node",
        }
    }
}

/// The process as a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerOptions {
    /// What it does; one role alone needs the stores of a cluster.
    pub(crate) roles: Vec<Role>,
    /// Where the public API is; port 0: any free one.
    pub(crate) listen: String,
    /// Where health and figures are told, in plain text and without a token; port 0: any free one; empty: nowhere but
    /// health on the listener.
    pub(crate) health_listen: String,
    /// How long running turns may take to end when the server is told to stop.
    pub(crate) drain_timeout_seconds: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            roles: vec![Role::Gateway, Role::Node],
            listen: "127.0.0.1:8080".to_owned(),
            health_listen: String::new(),
            drain_timeout_seconds: 20,
        }
    }
}

impl ServerOptions {
    /// Whether the process does this.
    pub(crate) fn is(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Checks every setting.
    pub(crate) fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("server");
        problems.check(!self.roles.is_empty(), "roles", "names none of gateway and node");
        problems.number("drain_timeout_seconds", self.drain_timeout_seconds, 0, 86_400);
        problems.verdict()
    }
}
