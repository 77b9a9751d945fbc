//! The reasons for which a conversation leaves memory. The supervisor matches them exhaustively.

use std::fmt;

/// Reason for which a conversation left memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The conversation was idle.
    Idle,
    /// The thread was deleted.
    ThreadDeleted,
    /// The node stopped the conversation.
    Stopped,
    /// Another node owns the thread, or may own it.
    Elsewhere,
    /// A store did not answer: the conversation is reloaded at the next request, and at once if a turn is open.
    Lost,
    /// An invariant was violated, or the actor panicked.
    Broken,
}

impl Exit {
    const ALL: [Self; 6] = [Self::Idle, Self::ThreadDeleted, Self::Stopped, Self::Elsewhere, Self::Lost, Self::Broken];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::ThreadDeleted => "thread deleted",
            Self::Stopped => "stopped",
            Self::Elsewhere => "owned elsewhere",
            Self::Lost => "lost",
            Self::Broken => "broken",
        }
    }

    /// Parses the reason of a stopped actor. None: its supervisor stopped it.
    pub(crate) fn of(reason: Option<&str>) -> Self {
        match reason {
            None => Self::Stopped,
            Some(word) => Self::ALL.into_iter().find(|exit| exit.as_str() == word).unwrap_or(Self::Stopped),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
