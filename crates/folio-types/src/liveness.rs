//! Liveness of a node that owns threads, as another node sees it.

/// Liveness of an incarnation of a node, by the newest membership snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// The incarnation sends heartbeats and keeps its threads.
    Live,
    /// The incarnation is shutting down: it accepts no new thread and keeps the threads whose turns still run.
    Draining,
    /// The incarnation left the cluster or stopped sending heartbeats. Other nodes may take over its threads.
    Dead,
    /// The membership snapshot is too old to decide. No other node takes over the threads of the incarnation.
    Unknown,
}
