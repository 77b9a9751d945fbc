//! Invariant 9: event numbers of a stream increase, it has one closing event, and the journal contains that event.

use folio_history::journal::Entry;

use super::Invariant::Streams;
use super::answers::end_name;
use super::journal::Turn;
use super::{Findings, ObservedThread};
use crate::faults::log::{ClientEvent, Logged};

const CLOSING: [&str; 6] = ["awaiting_approval", "completed", "failed", "cancelled", "expired", "superseded"];

pub(super) fn check(all: &[(&ObservedThread, Vec<Turn<'_>>)], log: &[Logged], findings: &mut Findings) {
    for line in log {
        let ClientEvent::Streamed { turn, events, complete } = &line.event else { continue };
        let mut add = |reason: String| findings.add(Streams, turn, reason);
        if let Some(two) = events.windows(2).find(|two| two[1].0 <= two[0].0) {
            add(format!("event {:?} after {:?}", two[1], two[0]));
        }
        let closings: Vec<_> = events.iter().filter(|(_, name)| CLOSING.contains(name)).collect();
        let last = events.last().is_some_and(|(_, name)| CLOSING.contains(name));
        if closings.len() > 1 || (closings.len() == 1 && !last) {
            add(format!("events follow a closing event: {closings:?}"));
        }
        if *complete && !last {
            add(format!("the stream ended without a closing event, after {:?}", events.last()));
        }
        let Some((number, name)) = closings.first() else { continue };
        let found = all.iter().flat_map(|(_, turns)| turns).find(|found| found.id == *turn);
        let recorded = found.is_some_and(|found| {
            found.entries.iter().any(|(_, entry)| match entry {
                Entry::Paused(paused) => (paused.event, "awaiting_approval") == (*number, *name),
                Entry::Ended(ended) => (ended.event, end_name(&ended.end)) == (*number, *name),
                _ => false,
            })
        });
        findings.add_unless(
            recorded,
            Streams,
            turn,
            format!("a client received {name} as event {number}, which is not in the journal"),
        );
    }
}
