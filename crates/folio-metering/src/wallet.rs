//! The wallet of one organization in one process. It decides when to draw a block of credit from the organization's
//! account, which block covers a model call, and when to close a block.
//!
//! A pure state machine: commands change it and return effects. It does no I/O and receives the time as an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use folio_credit::{InsufficientCredit, OpenBlock};
use folio_types::{BlockId, Timestamp};

use crate::Options;

/// Id of a waiting call, unique per wallet, assigned by the caller.
pub type Ticket = u64;

/// An instruction to the actor that drives the wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Insert the ledger row of the call, which the block covers.
    Cover(Ticket, BlockId),
    /// Draw a block of at least `need` and preferably `want` credits.
    Draw { need: u64, want: u64 },
    /// Refuse the call, which the account does not cover.
    Refuse(Ticket, InsufficientCredit),
    /// Fail the call, because the draw failed. The call may be repeated.
    Fail(Ticket),
    /// Close the block. `record`: true if usage records of its calls may be missing.
    Close { block: BlockId, record: bool },
}

#[derive(Debug, Clone)]
struct DrawnBlock {
    amount: u64,
    /// Credits that are reserved for or charged to its calls.
    used: u64,
    /// Number of its calls that are not settled.
    open_calls: u32,
    /// Time from which the block covers no further call.
    reserves_until: Timestamp,
    used_at: Timestamp,
    /// A retired block covers no further call.
    retired: bool,
    /// If true, the usage record of a call was not written.
    unrecorded: bool,
}

impl DrawnBlock {
    /// Returns the effect that closes the block. A call that was never settled may have no usage record.
    fn close(&self, block: BlockId) -> Effect {
        Effect::Close { block, record: self.unrecorded || self.open_calls > 0 }
    }
}

#[derive(Debug, Clone)]
struct WaitingCall {
    ticket: Ticket,
    need: u64,
    /// If true, the call was queued when the draw in flight started, so the result of that draw applies to it.
    in_current_draw: bool,
}

/// Drawn blocks, and the calls that wait for credit.
#[derive(Debug)]
pub struct Wallet {
    blocks: BTreeMap<BlockId, DrawnBlock>,
    waiting: VecDeque<WaitingCall>,
    /// Credits that the draw in flight must cover. None: no draw is in flight.
    draw_in_flight: Option<u64>,
    want: u64,
    drawn_at: Option<Timestamp>,
    want_min: u64,
    want_max: u64,
    idle: Duration,
}

impl Wallet {
    pub fn new(options: &Options) -> Self {
        Self {
            blocks: BTreeMap::new(),
            waiting: VecDeque::new(),
            draw_in_flight: None,
            want: options.block_credits,
            drawn_at: None,
            want_min: options.block_credits,
            want_max: options.block_credits_max,
            idle: options.idle_seconds,
        }
    }

    /// Returns true if there are no blocks, no waiting calls and no draw in flight.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.waiting.is_empty() && self.draw_in_flight.is_none()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn request(&mut self, ticket: Ticket, need: u64, now: Timestamp) -> Vec<Effect> {
        self.waiting.push_back(WaitingCall { ticket, need, in_current_draw: false });
        self.cover_or_draw(now)
    }

    pub fn remove_cancelled(&mut self, is_cancelled: impl Fn(Ticket) -> bool) {
        self.waiting.retain(|call| !is_cancelled(call.ticket));
    }

    /// Frees the part of a reservation that a settled call was not charged. The call stays open until its usage record is
    /// written and [`Self::settled`] is called with the charge as its reservation.
    pub fn charged(&mut self, block: &BlockId, reserved: u64, credits: u64) {
        if let Some(drawn) = self.blocks.get_mut(block) {
            drawn.used = drawn.used.saturating_sub(reserved.saturating_sub(credits));
        }
    }

    /// Handles the end of a call. `credits`: the charge of the call, 0 if the call was not sent.
    pub fn settled(&mut self, block: &BlockId, reserved: u64, credits: u64, now: Timestamp) -> Vec<Effect> {
        self.charged(block, reserved, credits);
        if let Some(drawn) = self.blocks.get_mut(block) {
            drawn.open_calls = drawn.open_calls.saturating_sub(1);
            drawn.used_at = now;
        }
        self.close_retired()
    }

    /// Notes that a usage record was not written. Must precede [`Self::settled`], which may close the block.
    pub fn unrecorded(&mut self, block: &BlockId) {
        if let Some(drawn) = self.blocks.get_mut(block) {
            drawn.unrecorded = true;
        }
    }

    /// Retires a block that another process sealed before the call reserved credit.
    pub fn sealed(&mut self, block: &BlockId, reserved: u64, now: Timestamp) -> Vec<Effect> {
        if let Some(drawn) = self.blocks.get_mut(block) {
            drawn.retired = true;
        }
        self.settled(block, reserved, 0, now)
    }

    pub fn drawn(&mut self, block: &OpenBlock, now: Timestamp) -> Vec<Effect> {
        self.draw_in_flight = None;
        let is_frequent = self.drawn_at.is_some_and(|at| now.duration_since(at).unsigned_abs() < self.idle);
        self.want = if is_frequent {
            self.want.saturating_mul(2).min(self.want_max)
        } else {
            (self.want / 2).max(self.want_min)
        };
        self.drawn_at = Some(now);
        let (amount, reserves_until) = (block.amount(), block.reserves_until);
        let drawn = DrawnBlock {
            amount,
            used: 0,
            open_calls: 0,
            reserves_until,
            used_at: now,
            retired: false,
            unrecorded: false,
        };
        self.blocks.insert(block.id.clone(), drawn);
        self.cover_or_draw(now)
    }

    /// Handles a refused draw: refuses every call that was queued at the start of the draw and needs more than the
    /// available credit. If the account has enough credit but too many blocks, only the first call is refused.
    pub fn refused(&mut self, short: InsufficientCredit, now: Timestamp) -> Vec<Effect> {
        let has_too_many_blocks = self.draw_in_flight.take().is_some_and(|need| need <= short.available);
        let mut effects = Vec::new();
        let mut first = has_too_many_blocks;
        self.waiting.retain(|call| {
            let exceeds = call.in_current_draw && call.need > short.available;
            let refused = exceeds || std::mem::take(&mut first);
            if refused {
                effects.push(Effect::Refuse(call.ticket, short));
            }
            !refused
        });
        effects.extend(self.cover_or_draw(now));
        effects
    }

    /// Fails all waiting calls, because the draw failed or its outcome is unknown.
    pub fn failed(&mut self) -> Vec<Effect> {
        self.draw_in_flight = None;
        self.waiting.drain(..).map(|call| Effect::Fail(call.ticket)).collect()
    }

    /// Closes idle and expired blocks. A block with unsettled calls is closed `overdue` after its expiry, which settles
    /// the calls.
    pub fn tick(&mut self, overdue: Duration, now: Timestamp) -> Vec<Effect> {
        for drawn in self.blocks.values_mut() {
            let idle = drawn.open_calls == 0 && now.duration_since(drawn.used_at).unsigned_abs() >= self.idle;
            drawn.retired |= idle || drawn.reserves_until <= now;
        }
        let mut effects = self.close_retired();
        let is_overdue =
            |drawn: &DrawnBlock| now.duration_since(drawn.reserves_until).as_secs() > overdue.as_secs().cast_signed();
        effects.extend(self.close(is_overdue));
        effects
    }

    /// Closes every block without unsettled calls, and retires the others.
    pub fn retire_all(&mut self) -> Vec<Effect> {
        for drawn in self.blocks.values_mut() {
            drawn.retired = true;
        }
        self.close_retired()
    }

    /// Covers waiting calls in order, or draws a block.
    fn cover_or_draw(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(call) = self.waiting.front().cloned() {
            let fits = |drawn: &&mut DrawnBlock| {
                !drawn.retired && drawn.reserves_until > now && drawn.amount - drawn.used >= call.need
            };
            let found = self.blocks.iter_mut().map(|(id, drawn)| (id.clone(), drawn)).find(|(_, drawn)| fits(drawn));
            let Some((id, drawn)) = found else { break };
            drawn.used += call.need;
            drawn.open_calls += 1;
            drawn.used_at = now;
            effects.push(Effect::Cover(call.ticket, id));
            self.waiting.pop_front();
        }
        if let Some(need) = self.waiting.front().map(|first| first.need)
            && self.draw_in_flight.is_none()
        {
            self.draw_in_flight = Some(need);
            let all: u64 = self.waiting.iter().map(|call| call.need).sum();
            for call in &mut self.waiting {
                call.in_current_draw = true;
            }
            effects.push(Effect::Draw { need, want: self.want.max(all) });
            // The next block replaces all blocks that do not cover the call.
            for drawn in self.blocks.values_mut() {
                drawn.retired = true;
            }
            effects.extend(self.close_retired());
        }
        effects
    }

    fn close_retired(&mut self) -> Vec<Effect> {
        self.close(|drawn| drawn.retired && drawn.open_calls == 0)
    }

    fn close(&mut self, done: impl Fn(&DrawnBlock) -> bool) -> Vec<Effect> {
        let done = self.blocks.extract_if(.., |_, drawn| done(drawn));
        done.map(|(id, drawn)| drawn.close(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use folio_credit::BlockPart;
    use folio_types::{GrantId, Incarnation};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    fn block(name: &str, amount: u64) -> OpenBlock {
        OpenBlock {
            id: BlockId::derive(&[name]),
            holder: Incarnation::derive(&["holder"]),
            parts: vec![BlockPart { grant: GrantId::derive(&["grant"]), amount }],
            at: at(0),
            reserves_until: at(60),
        }
    }

    fn closed(block: &OpenBlock) -> Effect {
        Effect::Close { block: block.id.clone(), record: false }
    }

    fn wallet() -> Wallet {
        Wallet::new(&Options::default())
    }

    #[test]
    fn calls_wait_for_one_draw_and_are_covered_in_order() {
        let (mut wallet, a) = (wallet(), block("a", 15));
        assert_eq!(wallet.request(1, 10, at(0)), [Effect::Draw { need: 10, want: 100 }]);
        assert_eq!(wallet.request(2, 10, at(0)), []);
        assert_eq!(wallet.request(3, 5, at(0)), []);
        let effects = wallet.drawn(&a, at(0));
        assert_eq!(effects, [Effect::Cover(1, a.id.clone()), Effect::Draw { need: 10, want: 100 }]);
        let b = block("b", 100);
        assert_eq!(wallet.drawn(&b, at(1)), [Effect::Cover(2, b.id.clone()), Effect::Cover(3, b.id.clone())]);
        assert_eq!(
            wallet.settled(&a.id, 10, 4, at(2)),
            [closed(&a)],
            "block a was retired by the second draw, so it is closed"
        );
    }

    #[test]
    fn a_call_that_exceeds_the_credit_is_refused_and_does_not_block_the_next_call() {
        let mut wallet = wallet();
        let short = InsufficientCredit { available: 7, in_blocks: 0 };
        assert_eq!(wallet.request(1, 10, at(0)), [Effect::Draw { need: 10, want: 100 }]);
        assert_eq!(wallet.request(2, 5, at(0)), []);
        let effects = wallet.refused(short, at(0));
        assert_eq!(effects, [Effect::Refuse(1, short), Effect::Draw { need: 5, want: 100 }]);
        assert_eq!(wallet.failed(), [Effect::Fail(2)]);
        assert!(wallet.is_empty());
    }

    #[test]
    fn calls_that_waited_when_a_draw_started_are_refused_with_the_first_call() {
        let mut wallet = wallet();
        let (draw, short) = (Effect::Draw { need: 10, want: 100 }, InsufficientCredit { available: 7, in_blocks: 0 });
        assert_eq!(wallet.request(1, 10, at(0)), std::slice::from_ref(&draw));
        for (ticket, need) in [(2, 10), (3, 8), (4, 7), (5, 9)] {
            assert_eq!(wallet.request(ticket, need, at(0)), []);
        }
        // A call is never refused because of a balance that was read before its request.
        assert_eq!(wallet.refused(short, at(1)), [Effect::Refuse(1, short), draw]);
        assert_eq!(wallet.request(6, 8, at(1)), []);
        let refused = [2, 3, 5].map(|ticket| Effect::Refuse(ticket, short));
        let effects = wallet.refused(short, at(2));
        assert_eq!(effects[..3], refused);
        assert_eq!(effects[3..], [Effect::Draw { need: 7, want: 100 }], "the credit covers this call");
    }

    #[test]
    fn without_capacity_for_another_block_only_the_first_call_is_refused() {
        let mut wallet = wallet();
        let has_too_many_blocks = InsufficientCredit { available: 50, in_blocks: 90 };
        wallet.request(1, 10, at(0));
        wallet.request(2, 10, at(0));
        let effects = wallet.refused(has_too_many_blocks, at(1));
        assert_eq!(effects, [Effect::Refuse(1, has_too_many_blocks), Effect::Draw { need: 10, want: 100 }]);
    }

    #[test]
    fn no_credit_is_drawn_for_a_cancelled_call() {
        let mut wallet = wallet();
        let short = InsufficientCredit { available: 7, in_blocks: 0 };
        wallet.request(1, 10, at(0));
        wallet.request(2, 10, at(0));
        wallet.request(3, 5, at(0));
        wallet.remove_cancelled(|ticket| ticket == 2);
        assert_eq!(wallet.waiting(), 2);
        let effects = wallet.refused(short, at(1));
        assert_eq!(effects, [Effect::Refuse(1, short), Effect::Draw { need: 5, want: 100 }]);
        wallet.remove_cancelled(|ticket| ticket == 3);
        assert_eq!(wallet.refused(short, at(2)), []);
        assert!(wallet.is_empty());
    }

    #[test]
    fn a_wallet_with_a_block_or_a_draw_is_not_empty() {
        let (mut wallet, a) = (wallet(), block("a", 10));
        assert!(wallet.is_empty());
        wallet.request(1, 10, at(0));
        wallet.remove_cancelled(|_| true);
        assert!(!wallet.is_empty(), "the draw is in flight");
        wallet.drawn(&a, at(1));
        assert!(!wallet.is_empty(), "the block is not closed");
        assert_eq!(wallet.retire_all(), [closed(&a)]);
        assert!(wallet.is_empty());
    }

    #[test]
    fn a_charged_call_frees_its_credit_and_keeps_its_block_until_it_is_recorded() {
        let (mut wallet, a) = (wallet(), block("a", 10));
        wallet.request(1, 10, at(0));
        wallet.drawn(&a, at(0));
        wallet.charged(&a.id, 10, 4);
        assert_eq!(wallet.request(2, 6, at(1)), [Effect::Cover(2, a.id.clone())]);
        assert_eq!(wallet.settled(&a.id, 6, 6, at(2)), []);
        assert_eq!(wallet.retire_all(), [], "the usage record of the first call is not written");
        assert_eq!(wallet.settled(&a.id, 4, 4, at(3)), [closed(&a)]);
    }

    #[test]
    fn idle_old_and_sealed_blocks_are_returned_when_no_call_uses_them() {
        let (mut wallet, a, b) = (wallet(), block("a", 50), block("b", 50));
        wallet.request(1, 10, at(0));
        wallet.drawn(&a, at(0));
        assert_eq!(wallet.tick(Duration::ZERO, at(20)), [], "a call of the block is in flight");
        wallet.settled(&a.id, 10, 10, at(21));
        assert_eq!(wallet.tick(Duration::ZERO, at(30)), []);
        assert_eq!(wallet.tick(Duration::ZERO, at(40)), [closed(&a)]);
        wallet.request(2, 10, at(41));
        wallet.drawn(&b, at(41));
        wallet.request(3, 10, at(42));
        assert_eq!(wallet.sealed(&b.id, 10, at(42)), []);
        let draw = Effect::Draw { need: 10, want: 100 };
        assert_eq!(wallet.request(4, 10, at(43)), [draw], "a sealed block covers no further call");
        assert_eq!(wallet.tick(Duration::from_secs(900), at(960)), [], "the call of block b may still be in flight");
        let close = Effect::Close { block: b.id, record: true };
        assert_eq!(wallet.tick(Duration::from_secs(900), at(1_000)), [close], "the call was not settled in time");
    }

    #[test]
    fn a_block_covers_no_call_from_its_expiry_on() {
        let (mut wallet, a) = (wallet(), block("a", 50));
        wallet.request(1, 10, at(0));
        wallet.drawn(&a, at(0));
        assert_eq!(wallet.request(2, 10, at(59)), [Effect::Cover(2, a.id)]);
        assert_eq!(wallet.request(3, 10, at(60)), [Effect::Draw { need: 10, want: 100 }]);
    }

    #[test]
    fn a_block_with_a_missing_record_reports_it_when_it_is_returned() {
        let (mut wallet, a) = (wallet(), block("a", 50));
        for ticket in [1, 2] {
            wallet.request(ticket, 10, at(0));
        }
        wallet.drawn(&a, at(0));
        wallet.unrecorded(&a.id);
        for _ in 0..2 {
            assert_eq!(wallet.settled(&a.id, 10, 10, at(1)), []);
        }
        assert_eq!(wallet.retire_all(), [Effect::Close { block: a.id, record: true }]);
    }

    #[test]
    fn frequent_draws_increase_the_size_of_a_block() {
        let mut wallet = wallet();
        for (second, want) in [(0, 100), (1, 100), (2, 200), (3, 400), (100, 800), (200, 400), (215, 200), (300, 100)] {
            let effects = wallet.request(1, 60, at(second));
            let drawn = effects.iter().find_map(|effect| match effect {
                Effect::Draw { want, .. } => Some(*want),
                _ => None,
            });
            assert_eq!(drawn, Some(want), "at {second}");
            let reserves_until = at(second + 60);
            let block = OpenBlock { reserves_until, ..block(&second.to_string(), 100) };
            wallet.drawn(&block, at(second));
        }
    }
}
