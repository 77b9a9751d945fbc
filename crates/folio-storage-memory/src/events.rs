//! The events of turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use async_trait::async_trait;
use folio_history::event::{Event, EventKind};
use folio_types::{Incarnation, OrgId, Result, Timestamp, TurnId};

use super::{Context, locked, since};
use folio_storage::{EventsAppended, EventsRead, TurnEventStore};

/// Maximum number of turns whose events are kept; the least recently written ones are evicted.
const TURNS_MAX: usize = 4_096;

pub(super) struct MemoryEvents {
    context: Context,
    turns: Mutex<HashMap<(OrgId, String), Buffer>>,
}

struct Buffer {
    owner: Incarnation,
    epoch: u64,
    first: u64,
    /// True if the oldest event is a snapshot or the first event, so that nothing before it is missing.
    is_complete: bool,
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    written_at: Timestamp,
}

impl Buffer {
    fn next(&self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }
}

impl MemoryEvents {
    pub(super) fn new(context: Context) -> Self {
        Self { context, turns: Mutex::default() }
    }
}

#[async_trait]
impl TurnEventStore for MemoryEvents {
    async fn append(
        &self,
        org: &OrgId,
        turn: &TurnId,
        owner: &Incarnation,
        epoch: u64,
        events: &[Event],
    ) -> Result<EventsAppended> {
        let (now, options) = (self.context.now(), &self.context.options);
        let mut turns = locked(&self.turns);
        turns.retain(|_, buffer| since(buffer.written_at, now) <= options.events_ttl);
        let key = (org.clone(), turn.to_string());
        let mut buffer = match turns.remove(&key) {
            Some(old) if epoch < old.epoch || (epoch == old.epoch && *owner != old.owner) => {
                let epoch = old.epoch;
                turns.insert(key, old);
                return Ok(EventsAppended::Fenced { epoch });
            }
            Some(old) if epoch == old.epoch => Some(old),
            _ => None,
        };
        let mut answer = EventsAppended::Done;
        for event in events {
            let (number, bytes) = (event.number, folio_history::json_bytes(event));
            let following = buffer.as_ref().map(Buffer::next);
            if following.is_some_and(|next| number < next) {
                continue;
            }
            let begins = matches!(event.kind, EventKind::Snapshot(_)) || (following.is_none() && number == 1);
            match &mut buffer {
                _ if begins => {
                    let events = VecDeque::from([(event.clone(), bytes)]);
                    let (owner, written_at) = (owner.clone(), now);
                    buffer = Some(Buffer { owner, epoch, first: number, is_complete: true, events, bytes, written_at });
                }
                Some(buffer) if following == Some(number) => {
                    buffer.events.push_back((event.clone(), bytes));
                    buffer.bytes = buffer.bytes.saturating_add(bytes);
                }
                _ => {
                    answer = EventsAppended::NeedsSnapshot;
                    break;
                }
            }
        }
        if let Some(mut buffer) = buffer {
            while buffer.events.len() > 1
                && (buffer.events.len() > options.events_max || buffer.bytes > options.events_bytes_max)
            {
                if let Some((_, bytes)) = buffer.events.pop_front() {
                    buffer.bytes = buffer.bytes.saturating_sub(bytes);
                    buffer.first = buffer.first.saturating_add(1);
                    buffer.is_complete = false;
                }
            }
            buffer.written_at = now;
            if turns.len() >= TURNS_MAX
                && let Some(oldest) =
                    turns.iter().min_by_key(|(_, buffer)| buffer.written_at).map(|(key, _)| key.clone())
            {
                turns.remove(&oldest);
            }
            turns.insert(key, buffer);
        }
        Ok(answer)
    }

    async fn read(&self, org: &OrgId, turn: &TurnId, from: u64, limit: usize) -> Result<EventsRead> {
        let (now, options) = (self.context.now(), &self.context.options);
        let turns = locked(&self.turns);
        let buffer = turns.get(&(org.clone(), turn.to_string()));
        let Some(buffer) = buffer.filter(|buffer| since(buffer.written_at, now) <= options.events_ttl) else {
            return Ok(EventsRead::Expired);
        };
        let from = if buffer.is_complete { from.max(buffer.first) } else { from };
        if from < buffer.first || from > buffer.next() {
            return Ok(EventsRead::Expired);
        }
        let skipped = usize::try_from(from - buffer.first).unwrap_or(usize::MAX);
        let events = buffer.events.iter().skip(skipped).take(limit).map(|(event, _)| event.clone());
        Ok(EventsRead::Events(events.collect()))
    }
}
