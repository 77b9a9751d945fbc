//! Conformance suite of [`folio_storage::TurnEventStore`].

use folio_history::event::{Event, EventKind, TurnView};
use folio_types::{Incarnation, OrgId, ThreadId, TurnId};

use super::super::{Failure, Outcome, check, same};
use super::eventually;
use folio_storage::{EventsAppended, EventsRead, SharedStores};

struct Turn<'a> {
    stores: &'a SharedStores,
    org: OrgId,
    turn: TurnId,
    owner: Incarnation,
    epoch: u64,
}

impl<'a> Turn<'a> {
    fn new(stores: &'a SharedStores, nonce: &str, name: &str) -> Self {
        let turn = TurnId::new(ThreadId::derive(&[nonce, name]), 1);
        Self { stores, org: OrgId::derive(&[nonce]), turn, owner: Incarnation::derive(&["one"]), epoch: 1 }
    }

    fn event(&self, number: u64, text: &str) -> Event {
        Event::new(self.turn.clone(), number, EventKind::TextDelta { text: text.to_owned() })
    }

    fn events(&self, numbers: std::ops::RangeInclusive<u64>) -> Vec<Event> {
        numbers.map(|number| self.event(number, &format!("delta {number}"))).collect()
    }

    fn snapshot(&self, number: u64) -> Event {
        let text = "so far".to_owned();
        let view = TurnView { text, next_event: number + 1, ..TurnView::new(self.turn.clone(), "m", "hello") };
        Event::new(self.turn.clone(), number, EventKind::Snapshot(Box::new(view)))
    }

    async fn append(&self, events: &[Event]) -> Result<EventsAppended, Failure> {
        Ok(self.stores.events.append(&self.org, &self.turn, &self.owner, self.epoch, events).await?)
    }

    async fn read(&self, from: u64) -> Result<EventsRead, Failure> {
        Ok(self.stores.events.read(&self.org, &self.turn, from, 100).await?)
    }
}

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    order(Turn::new(stores, nonce, "order")).await?;
    takeover(Turn::new(stores, nonce, "takeover")).await?;
    bounds(Turn::new(stores, nonce, "bounds")).await
}

async fn order(turn: Turn<'_>) -> Outcome {
    same!(turn.read(1).await?, EventsRead::Expired, "events of a turn without events");
    same!(
        turn.append(&turn.events(2..=2)).await?,
        EventsAppended::NeedsSnapshot,
        "first events that do not start at 1"
    );
    same!(turn.append(&turn.events(1..=3)).await?, EventsAppended::Done, "the first events");
    same!(turn.read(1).await?, EventsRead::Events(turn.events(1..=3)), "events");
    same!(turn.read(3).await?, EventsRead::Events(turn.events(3..=3)), "the last event");
    same!(turn.read(4).await?, EventsRead::Events(Vec::new()), "events that were not appended yet");
    same!(turn.read(5).await?, EventsRead::Expired, "a read beyond the next event");
    let limited = turn.stores.events.read(&turn.org, &turn.turn, 1, 2).await?;
    same!(limited, EventsRead::Events(turn.events(1..=2)), "a bounded read");
    same!(turn.append(&turn.events(2..=4)).await?, EventsAppended::Done, "repeated events with a new one");
    same!(turn.read(1).await?, EventsRead::Events(turn.events(1..=4)), "repeated events are stored once");
    same!(turn.append(&turn.events(6..=6)).await?, EventsAppended::NeedsSnapshot, "a gap");
    same!(turn.read(1).await?, EventsRead::Events(turn.events(1..=4)), "events after a refused gap");
    same!(turn.append(&[turn.snapshot(6)]).await?, EventsAppended::Done, "a snapshot over a gap");
    let EventsRead::Events(found) = turn.read(2).await? else {
        return Err(Failure("a snapshot does not replace the events before it".to_owned()));
    };
    same!(found, vec![turn.snapshot(6)], "only the snapshot");
    same!(turn.append(&turn.events(7..=7)).await?, EventsAppended::Done, "the event after a snapshot");
    let other = Turn { org: OrgId::derive(&["other"]), ..turn };
    same!(other.read(1).await?, EventsRead::Expired, "invariant 6: events in another organization");
    Ok(())
}

async fn takeover(mut turn: Turn<'_>) -> Outcome {
    turn.append(&turn.events(1..=3)).await?;
    let first = Incarnation::derive(&["one"]);
    turn.owner = Incarnation::derive(&["two"]);
    same!(
        turn.append(&turn.events(4..=4)).await?,
        EventsAppended::Fenced { epoch: 1 },
        "another owner in the same epoch"
    );
    turn.epoch = 2;
    let higher = (1 << 32) + 1;
    same!(turn.append(&turn.events(4..=4)).await?, EventsAppended::NeedsSnapshot, "a new owner without a snapshot");
    same!(turn.append(&[turn.snapshot(higher)]).await?, EventsAppended::Done, "a new owner");
    same!(turn.append(&turn.events(higher + 1..=higher + 2)).await?, EventsAppended::Done, "the events of a new owner");
    (turn.owner, turn.epoch) = (first, 1);
    same!(turn.append(&turn.events(4..=4)).await?, EventsAppended::Fenced { epoch: 2 }, "invariant 1: the old owner");
    let EventsRead::Events(found) = turn.read(3).await? else {
        return Err(Failure("a reader of the old owner's events gets no snapshot".to_owned()));
    };
    same!(found.iter().map(|event| event.number).collect::<Vec<_>>(), [higher, higher + 1, higher + 2], "numbers");
    Ok(())
}

async fn bounds(turn: Turn<'_>) -> Outcome {
    turn.append(&turn.events(1..=12)).await?;
    same!(turn.read(4).await?, EventsRead::Expired, "invariant 10: a read of an evicted event");
    same!(turn.read(5).await?, EventsRead::Events(turn.events(5..=12)), "the newest events");
    let large: Vec<_> = (13..=16).map(|number| turn.event(number, &"x".repeat(1_500))).collect();
    turn.append(&large).await?;
    same!(turn.read(14).await?, EventsRead::Expired, "invariant 10: a read of an event evicted by size");
    check!(matches!(turn.read(15).await?, EventsRead::Events(found) if found.len() == 2), "the newest bytes");
    eventually("events expire after the last append", async || {
        Ok((turn.read(16).await? == EventsRead::Expired).then_some(()))
    })
    .await
}
