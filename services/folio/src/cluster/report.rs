//! The report of `folio cluster status`, as JSON or as text.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Live nodes first.
    pub(crate) nodes: Vec<Node>,
    pub(crate) redis: Health,
    pub(crate) cql: Health,
    /// None: no CQL server responds.
    pub(crate) keyspace: Option<Keyspace>,
}

/// A node, as described by its last heartbeat.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    /// The address at which gateways and other nodes reach the node.
    pub(crate) address: String,
    pub(crate) incarnation: String,
    pub(crate) state: State,
    /// Number of conversations in memory.
    pub(crate) conversations: u64,
    /// Maximum number of conversations in memory.
    pub(crate) capacity: u64,
    /// Number of conversations with work in progress.
    pub(crate) busy_conversations: u64,
    /// Time since the last heartbeat.
    pub(crate) silent_milliseconds: u64,
    pub(crate) started_at: String,
    pub(crate) version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Up,
    /// The node accepts no new work and releases its conversations.
    Draining,
    /// The node left the cluster, or sent no heartbeat for too long.
    Dead,
}

#[derive(Debug, Serialize)]
pub(crate) struct Health {
    pub(crate) is_available: bool,
    /// The response time, or the time until the attempt failed.
    pub(crate) milliseconds: u64,
    /// None if the store responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Keyspace {
    pub(crate) name: String,
    /// None: the keyspace does not exist, or has no tables.
    pub(crate) version: Option<i32>,
    /// The newest schema version that this program creates.
    pub(crate) version_of_this_program: i32,
    /// Programs with a lower version refuse the keyspace.
    pub(crate) required_version: i32,
}

impl Report {
    /// Returns the problem that requires the operator's action. None: the cluster is healthy.
    pub(crate) fn problem(&self) -> Option<String> {
        let unavailable =
            |name: &str, health: &Health| (!health.is_available).then(|| format!("{name} does not respond"));
        let newer = self.keyspace.as_ref().filter(|keyspace| keyspace.refuses_this_program());
        unavailable("Redis", &self.redis)
            .or_else(|| unavailable("CQL", &self.cql))
            .or_else(|| newer.map(Keyspace::describe))
    }
}

impl Keyspace {
    fn refuses_this_program(&self) -> bool {
        self.required_version > self.version_of_this_program
    }

    fn describe(&self) -> String {
        let (name, newest) = (&self.name, self.version_of_this_program);
        let mismatch =
            |version, remedy| format!("keyspace {name} has version {version}, this program has {newest}: {remedy}");
        match self.version {
            None => format!("keyspace {name} does not exist: folio migrate creates it"),
            Some(version) if version < newest => mismatch(version, "the next start of this program migrates it"),
            Some(version) if self.refuses_this_program() => {
                mismatch(version, "a newer program migrated it incompatibly; use that program")
            }
            Some(version) if version > newest => mismatch(version, "a newer program migrated it compatibly"),
            Some(version) => format!("keyspace {name} has version {version}"),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Dead => "dead",
        })
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            None => write!(f, "responds in {} ms", self.milliseconds),
            Some(error) => write!(f, "does not respond: {error}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<32} {:<9} {:>13} {:>8} {:>9}  incarnation",
            "node", "state", "conversations", "busy", "silent ms"
        )?;
        for node in &self.nodes {
            writeln!(
                f,
                "{:<32} {:<9} {:>13} {:>8} {:>9}  {}",
                node.address,
                node.state,
                node.conversations,
                node.busy_conversations,
                node.silent_milliseconds,
                node.incarnation
            )?;
        }
        let count = |state| self.nodes.iter().filter(|node| node.state == state).count();
        let (up, draining, dead) = (count(State::Up), count(State::Draining), count(State::Dead));
        writeln!(f, "{up} up, {draining} draining, {dead} dead")?;
        writeln!(f, "Redis {}", self.redis)?;
        writeln!(f, "CQL {}", self.cql)?;
        match &self.keyspace {
            Some(keyspace) => writeln!(f, "{}", keyspace.describe()),
            None => Ok(()),
        }
    }
}
