//! How another owner of threads stands, as a node sees it now.

/// How an incarnation of another node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It lives: it keeps its threads.
    Live,
    /// It lives and takes nothing new: it keeps the threads whose turns it still runs.
    Draining,
    /// It left, or was silent for too long: its threads may be taken over.
    Gone,
    /// Nobody can tell now: its threads wait.
    Unknown,
}
