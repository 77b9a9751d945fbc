//! What is told of a cluster, for a program or for a person.

use std::fmt;

use serde::Serialize;

/// A cluster at one moment.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Its nodes: those that live first.
    pub(crate) nodes: Vec<Node>,
    /// Whether Redis answers.
    pub(crate) redis: Health,
    /// Whether the CQL servers answer.
    pub(crate) cql: Health,
    /// The keyspace; none where no server answers.
    pub(crate) keyspace: Option<Keyspace>,
}

/// A node as it says of itself with each heartbeat.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    /// Where its peers reach it.
    pub(crate) address: String,
    /// This life of it.
    pub(crate) incarnation: String,
    /// Whether it works.
    pub(crate) state: State,
    /// Conversations that it holds.
    pub(crate) conversations: u64,
    /// Conversations that it can hold.
    pub(crate) capacity: u64,
    /// Conversations that have work.
    pub(crate) turns_running: u64,
    /// How long it has been silent.
    pub(crate) silent_milliseconds: u64,
    /// When it started.
    pub(crate) started_at: String,
    /// The version of its program.
    pub(crate) version: String,
}

/// Whether a node works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// It takes work.
    Up,
    /// It takes nothing new, and hands back what it has.
    Draining,
    /// It left, or was silent for too long.
    Gone,
}

/// Whether a store answers.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    /// Whether it did.
    pub(crate) answers: bool,
    /// How long it took, or was waited for.
    pub(crate) milliseconds: u64,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The keyspace.
#[derive(Debug, Serialize)]
pub(crate) struct Keyspace {
    /// Its name.
    pub(crate) name: String,
    /// Its version; none: it is not there, or has no tables yet.
    pub(crate) version: Option<i32>,
    /// The version that this program works with.
    pub(crate) version_of_this_program: i32,
}

impl Report {
    /// What an operator has to do something about.
    pub(crate) fn problem(&self) -> Option<String> {
        let silent = |name: &str, health: &Health| (!health.answers).then(|| format!("{name} does not answer"));
        let newer = self.keyspace.as_ref().filter(|keyspace| keyspace.is_newer());
        silent("Redis", &self.redis).or_else(|| silent("CQL", &self.cql)).or_else(|| newer.map(Keyspace::told))
    }
}

impl Keyspace {
    fn is_newer(&self) -> bool {
        self.version.is_some_and(|version| version > self.version_of_this_program)
    }

    fn told(&self) -> String {
        let (name, mine) = (&self.name, self.version_of_this_program);
        match self.version {
            None => format!("keyspace {name} is not there yet: folio migrate makes it"),
            Some(version) if version < mine => {
                format!("keyspace {name} has version {version}, this program {mine}: its start migrates it")
            }
            Some(version) if version > mine => {
                format!("keyspace {name} has version {version}, this program only {mine}: it is of a newer one")
            }
            Some(version) => format!("keyspace {name} has version {version}"),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Gone => "gone",
        })
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            None => write!(f, "answers in {} ms", self.milliseconds),
            Some(error) => write!(f, "does not answer: {error}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<32} {:<9} {:>13} {:>8} {:>9}  incarnation",
            "node", "state", "conversations", "running", "silent ms"
        )?;
        for node in &self.nodes {
            writeln!(
                f,
                "{:<32} {:<9} {:>13} {:>8} {:>9}  {}",
                node.address,
                node.state,
                node.conversations,
                node.turns_running,
                node.silent_milliseconds,
                node.incarnation
            )?;
        }
        let count = |state| self.nodes.iter().filter(|node| node.state == state).count();
        let (up, draining, gone) = (count(State::Up), count(State::Draining), count(State::Gone));
        writeln!(f, "{up} up, {draining} draining, {gone} gone")?;
        writeln!(f, "Redis {}", self.redis)?;
        writeln!(f, "CQL {}", self.cql)?;
        match &self.keyspace {
            Some(keyspace) => writeln!(f, "{}", keyspace.told()),
            None => Ok(()),
        }
    }
}
