//! Reasons for which a conversation stops.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Idle,
    ThreadDeleted,
    /// The node stopped the conversation.
    Stopped,
    /// Another node owns or may own the thread.
    OwnedElsewhere,
    /// A store did not answer. The conversation is restarted after a pause, because its turn may be open.
    StoreFailed,
    /// An invariant was violated, or the actor panicked.
    Failed,
}

impl StopReason {
    const ALL: [Self; 6] =
        [Self::Idle, Self::ThreadDeleted, Self::Stopped, Self::OwnedElsewhere, Self::StoreFailed, Self::Failed];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::ThreadDeleted => "thread deleted",
            Self::Stopped => "stopped",
            Self::OwnedElsewhere => "owned elsewhere",
            Self::StoreFailed => "store failed",
            Self::Failed => "failed",
        }
    }

    /// Parses the stop reason of an actor. None: the supervisor stopped the actor.
    pub(crate) fn of(reason: Option<&str>) -> Self {
        match reason {
            None => Self::Stopped,
            Some(name) => Self::ALL.into_iter().find(|stop| stop.as_str() == name).unwrap_or(Self::Stopped),
        }
    }
}
