//! Settings of the process as a server.

use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

/// A role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Serves the public API and calls nodes for conversations.
    Gateway,
    /// Hosts conversations, reads documents and cleans up.
    Node,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Node => "node",
        }
    }
}

folio_types::settings! {
    pub(crate) struct ServerOptions {
        /// A single role requires the stores of a cluster.
        pub(crate) roles: Vec<Role> = vec![Role::Gateway, Role::Node],
        /// The address of the public API. Port 0: any free port.
        pub(crate) listen: String = "127.0.0.1:8080".to_owned(),
        /// The address of the health port, which serves health and metrics in plain text without a token. Port 0: any
        /// free port. Empty: only health, on the listener.
        pub(crate) health_listen: String = String::new(),
        /// Maximum time for running turns to end after the stop signal.
        pub(crate) drain_timeout_seconds: u64 = 20,
    }
}

impl ServerOptions {
    pub(crate) fn is(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    pub(crate) fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("server");
        problems.check(!self.roles.is_empty(), "roles", "must contain gateway, node or both");
        problems.number("drain_timeout_seconds", self.drain_timeout_seconds, 0, 86_400);
        problems.into_result()
    }
}
