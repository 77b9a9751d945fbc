//! The position in a turn across all its streams. No I/O.

use folio_proto::v1;
use folio_proto::v1::event::Kind;

/// A turn across all its streams.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnPosition {
    /// Empty until the turn has started.
    pub turn_id: String,
    /// The thread, with which a further chat continues. Empty until the turn has started.
    pub thread_id: String,
    /// Empty until the turn has started.
    pub model: String,
    /// Number of the last received event.
    pub last_event: u64,
    /// The closing event with the last number.
    closing: Option<Box<Kind>>,
}

impl TurnPosition {
    /// Returns the position before an event of a known turn. 0 or 1: the beginning.
    pub fn before(turn_id: impl Into<String>, event: u64) -> Self {
        Self { turn_id: turn_id.into(), last_event: event.max(1) - 1, ..Self::default() }
    }

    /// Returns the position before a new turn of a thread. Empty: a new thread.
    pub fn in_thread(thread_id: impl Into<String>) -> Self {
        Self { thread_id: thread_id.into(), ..Self::default() }
    }

    /// Returns the closing event. None: the events of the turn were not read to their end.
    pub fn closing(&self) -> Option<&Kind> {
        self.closing.as_deref()
    }

    /// Returns the round that waits for decisions. None: the turn ended, or its events were not read to their end.
    pub fn waiting(&self) -> Option<&v1::AwaitingApproval> {
        match self.closing() {
            Some(Kind::AwaitingApproval(waiting)) => Some(waiting),
            _ => None,
        }
    }

    /// Records an event. Returns true if it is new.
    pub(crate) fn accept(&mut self, event: &v1::Event) -> bool {
        self.turn_id.clone_from(&event.turn_id);
        match &event.kind {
            Some(Kind::TurnStarted(started)) => {
                self.thread_id.clone_from(&started.thread_id);
                self.model.clone_from(&started.model);
            }
            Some(Kind::Snapshot(v1::Snapshot { turn: Some(state) })) => self.thread_id.clone_from(&state.thread_id),
            _ => {}
        }
        let is_new = event.number > self.last_event;
        self.last_event = self.last_event.max(event.number);
        // A stream of a waiting turn repeats its closing event.
        if event.number == self.last_event {
            self.closing = event.kind.as_ref().filter(|kind| is_closing(kind)).cloned().map(Box::new);
        }
        is_new
    }
}

/// Returns true if the stream of the turn ends with this event.
pub(crate) fn is_closing(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::AwaitingApproval(_)
            | Kind::Completed(_)
            | Kind::Failed(_)
            | Kind::Cancelled(_)
            | Kind::Expired(_)
            | Kind::Superseded(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64, kind: Kind) -> v1::Event {
        v1::Event { turn_id: "turn".to_owned(), number, kind: Some(kind), ..v1::Event::default() }
    }

    #[test]
    fn a_position_skips_events_that_were_received_before() {
        let mut position = TurnPosition::default();
        let started = v1::TurnStarted { thread_id: "thread".to_owned(), model: "m".to_owned() };
        assert!(position.accept(&event(1, Kind::TurnStarted(started))));
        let delta = event(2, Kind::TextDelta(v1::TextDelta { text: "a".to_owned() }));
        assert!(position.accept(&delta) && !position.accept(&delta));
        assert_eq!(
            (position.turn_id.as_str(), position.thread_id.as_str(), position.model.as_str()),
            ("turn", "thread", "m")
        );
        assert_eq!((position.last_event, position.closing()), (2, None));
        let snapshot = v1::Snapshot { turn: Some(v1::Turn { thread_id: "other".to_owned(), ..v1::Turn::default() }) };
        assert!(position.accept(&event(9, Kind::Snapshot(snapshot))));
        assert_eq!((position.thread_id.as_str(), position.last_event), ("other", 9));
    }

    #[test]
    fn the_closing_event_is_that_with_the_last_number() {
        let mut position = TurnPosition::before("turn", 8);
        let pause = event(7, Kind::AwaitingApproval(v1::AwaitingApproval { round: 1, ..Default::default() }));
        assert!(!position.accept(&pause), "a repeated pause is not new");
        assert_eq!(position.waiting().map(|waiting| waiting.round), Some(1));
        assert!(position.accept(&event(8, Kind::RoundStarted(v1::RoundStarted::default()))));
        assert_eq!(position.closing(), None, "the turn continues");
        assert!(position.accept(&event(9, Kind::Cancelled(v1::Cancelled {}))));
        assert!(!position.accept(&pause));
        assert_eq!(position.closing(), Some(&Kind::Cancelled(v1::Cancelled {})));
        assert_eq!(position.waiting(), None);
    }

    #[test]
    fn the_position_before_the_first_event_is_the_beginning() {
        for first in [0, 1] {
            assert_eq!(TurnPosition::before("turn", first).last_event, 0);
        }
    }
}
