//! Who is next: the places of an endpoint are shared between organizations by weighted deficit round robin. Pure; it knows
//! neither time nor tasks.
//!
//! Organizations that wait stand in a circle. Whose turn it is takes as many places as its weight says, one by one as they become
//! free, then the next one's turn begins. So a call waits for the calls of its own organization before it and for at most one
//! turn of each other one, however many calls those have. Nobody waits while a place is free, and nobody saves turns up: an
//! organization that waits for nothing leaves the circle.
//!
//! As many calls wait as may in all. One more is refused, unless its organization has fewer waiting, for its weight, than the one
//! that has most: then the newest of that one makes room.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What tells a waiting call from others.
pub(super) type Ticket = u64;

/// The places, who holds how many, and who waits.
#[derive(Debug)]
pub(super) struct Shares<K, W> {
    places: usize,
    taken: usize,
    waiting_max: usize,
    waiting: usize,
    tickets: Ticket,
    queues: HashMap<K, Queue<W>>,
    /// Who waits, in the order of turns; the first one's turn it is.
    circle: VecDeque<K>,
}

#[derive(Debug)]
struct Queue<W> {
    weight: u32,
    /// Places that it may still take in this turn.
    deficit: u32,
    calls: VecDeque<(Ticket, W)>,
}

/// What came of asking for a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<W> {
    /// It is taken.
    Taken,
    /// The call waits, known by this; another one, perhaps, was put out for it.
    Waits(Ticket, Option<W>),
    /// As many wait as may.
    Full,
}

impl<K: Hash + Eq + Clone, W> Shares<K, W> {
    /// So many places, for which so many calls may wait.
    pub(super) fn new(places: usize, waiting_max: usize) -> Self {
        let (queues, circle) = (HashMap::new(), VecDeque::new());
        Self { places, taken: 0, waiting_max, waiting: 0, tickets: 0, queues, circle }
    }

    /// Places that are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Calls that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// A call of an organization wants a place. `waiter` is given back when it is its turn, or when it is put out.
    pub(super) fn ask(&mut self, of: &K, weight: u32, waiter: W) -> Asked<W> {
        // Where a place is free nobody waits: each that became free went to the next.
        if self.taken < self.places {
            self.taken += 1;
            return Asked::Taken;
        }
        let mut put_out = None;
        if self.waiting >= self.waiting_max {
            match self.put_out_for(of, weight.max(1)) {
                None => return Asked::Full,
                out => put_out = out,
            }
        }
        self.tickets += 1;
        let queue = self.queues.entry(of.clone()).or_insert_with(|| {
            self.circle.push_back(of.clone());
            Queue { weight: 1, deficit: 0, calls: VecDeque::new() }
        });
        queue.weight = weight.max(1);
        queue.calls.push_back((self.tickets, waiter));
        self.waiting += 1;
        Asked::Waits(self.tickets, put_out)
    }

    /// A call no longer waits. False: it did not.
    pub(super) fn leave(&mut self, of: &K, ticket: Ticket) -> bool {
        let Some(queue) = self.queues.get_mut(of) else { return false };
        let before = queue.calls.len();
        queue.calls.retain(|(waiting, _)| *waiting != ticket);
        if queue.calls.len() == before {
            return false;
        }
        self.waiting -= 1;
        self.tidy(of);
        true
    }

    /// A place became free. Gives whose it is now, or none where nobody waits.
    pub(super) fn free(&mut self) -> Option<W> {
        self.taken = self.taken.saturating_sub(1);
        let first = self.circle.front()?.clone();
        let queue = self.queues.get_mut(&first)?;
        if queue.deficit == 0 {
            queue.deficit = queue.weight;
        }
        let (_, waiter) = queue.calls.pop_front()?;
        queue.deficit -= 1;
        if queue.deficit == 0 {
            self.circle.rotate_left(1);
        }
        self.waiting -= 1;
        self.taken += 1;
        self.tidy(&first);
        Some(waiter)
    }

    /// Who waits for nothing leaves the circle.
    fn tidy(&mut self, of: &K) {
        if self.queues.get(of).is_some_and(|queue| queue.calls.is_empty()) {
            self.queues.remove(of);
            self.circle.retain(|other| other != of);
        }
    }

    /// Puts the newest waiting call out of whoever has most waiting for its weight, if that is more than one more call of `of`
    /// would make.
    fn put_out_for(&mut self, of: &K, weight: u32) -> Option<W> {
        let calls = |queue: &Queue<W>| u64::try_from(queue.calls.len()).unwrap_or(u64::MAX);
        let own = self.queues.get(of).map_or(0, calls).saturating_add(1);
        // In the circle's order, so that the same history always gives the same answer.
        let most = self.circle.iter().filter_map(|other| Some((other, self.queues.get(other)?)));
        let (most, queue) = most.max_by(|(_, a), (_, b)| {
            let (a_share, b_share) =
                (calls(a).saturating_mul(b.weight.into()), calls(b).saturating_mul(a.weight.into()));
            a_share.cmp(&b_share)
        })?;
        let more = calls(queue).saturating_mul(weight.into()) > own.saturating_mul(queue.weight.into());
        let most = more.then(|| most.clone())?;
        let (_, waiter) = self.queues.get_mut(&most)?.calls.pop_back()?;
        self.waiting -= 1;
        self.tidy(&most);
        Some(waiter)
    }
}

#[cfg(test)]
#[path = "shares/tests.rs"]
mod tests;
