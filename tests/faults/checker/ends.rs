//! Invariant 8: every accepted turn ends visibly and once, or waits for an approval.

use folio_history::journal::{Closing, ClosingCause, End, Entry, ResumeCause};
use folio_history::thread::Phase;
use folio_types::Timestamp;

use super::Invariant::{Streams, VisibleEnd};
use super::journal::Turn;
use super::{Findings, ObservedThread};

pub(super) fn check(thread: &ObservedThread, turn: &Turn<'_>, now: Timestamp, findings: &mut Findings) {
    let mut add = |reason: &str| findings.add(VisibleEnd, &turn.id, reason);
    let open = thread.header.open_turn.as_ref().filter(|open| open.number == turn.id.number);
    match (turn.end(), turn.waits(), open) {
        (Some(_), _, Some(_)) => add("the turn ended, but the header markers it as open"),
        (Some(_), _, None) => {}
        (None, Some(paused), Some(open)) if open.phase == Phase::Paused && paused.expires_at > now => {}
        (None, _, Some(open))
            if open.phase == Phase::AwaitingChildren && open.expires_at.is_some_and(|end| end > now) => {}
        (None, Some(_), Some(_)) => add("the turn waits although its pause has expired"),
        (None, _, Some(_)) => add("the turn neither ended nor waits"),
        (None, _, None) => add("the turn has no end, but the header has no open turn"),
    }
    let mut ended: Option<&End> = None;
    for (_, entry) in &turn.entries {
        match (entry, ended) {
            (Entry::Resumed(resumed), Some(End::Failed { retriable: true, .. }))
                if resumed.cause == ResumeCause::Retry =>
            {
                ended = None;
            }
            (_, Some(_)) => {
                add("an entry follows the end of the turn");
                ended = None;
            }
            (Entry::Ended(end), None) => ended = Some(&end.end),
            _ => {}
        }
    }
    let closing = turn.entries.iter().find_map(|(_, entry)| match entry {
        Entry::Closing(Closing { cause, .. }) => Some(cause),
        _ => None,
    });
    match (closing, turn.end().map(|end| &end.end)) {
        (Some(ClosingCause::Cancelled), Some(End::Cancelled))
        | (Some(ClosingCause::Superseded), Some(End::Superseded))
        | (Some(ClosingCause::Expired), Some(End::Expired | End::Failed { .. })) => {}
        (None, _) | (_, None) => {}
        (Some(_), Some(_)) => add("the turn was closing, but has another end"),
    }
    check_numbers(turn, findings);
}

/// Checks that the numbers of the closing events, which `paused` and `ended` contain, increase.
fn check_numbers(turn: &Turn<'_>, findings: &mut Findings) {
    let mut last = 0;
    for (_, entry) in &turn.entries {
        let event = match entry {
            Entry::Paused(paused) => paused.event,
            Entry::Ended(ended) => ended.event,
            _ => continue,
        };
        findings.add_unless(event > last, Streams, &turn.id, format!("closing event {event} after {last}"));
        last = event;
    }
}
