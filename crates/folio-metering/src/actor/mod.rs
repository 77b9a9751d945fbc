//! The meter actor of an organization: executes the effects of its wallet. A process runs one per organization with
//! traffic.
//!
//! The mailbox itself is unbounded. The admission of [`crate::CreditMeter`] bounds the requests, and the permits bound
//! the settlements.

mod supervisor;

use std::collections::HashMap;
use std::sync::Arc;

use folio_credit::{Grant, GrantKind, InsufficientCredit, LedgerRow, OpenBlock};
use folio_types::{BlockId, Environment, Error, GrantId, Incarnation, OrgId, Reason, Result};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

use crate::escrow::{Draw, Escrow};
use crate::wallet::{Effect, Ticket, Wallet};
use crate::{Closing, Options};

pub(crate) use supervisor::{Meters, Supervisor, SupervisorMsg};

pub(crate) struct Shared {
    pub(crate) escrow: Escrow,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) options: Options,
    /// Tracks the store operations in flight.
    pub(crate) tasks: TaskTracker,
    pub(crate) token: CancellationToken,
}

impl Shared {
    /// Closes expired blocks as far as currently possible. Failures are logged.
    pub(crate) async fn collect(&self, org: &OrgId) {
        if let Err(error) = self.escrow.collect(org).await {
            tracing::warn!(%org, %error, "cannot close expired blocks");
        }
    }

    /// Returns the allowance of the current month. None if the allowance is 0.
    pub(crate) fn allowance(&self, org: &OrgId) -> Option<Grant> {
        let now = self.environment.now();
        let (month_start, month_end) = month_of(now)?;
        let name = month_start.strftime("%Y-%m").to_string();
        let id = GrantId::derive(&["allowance", org.as_str(), &name]);
        let grant = Grant::new(id, GrantKind::Allowance, self.options.monthly_allowance, now);
        let note = format!("allowance of {name}");
        (grant.amount > 0).then_some(Grant { expires_at: Some(month_end), note, ..grant })
    }
}

/// Returns start and end of the calendar month (UTC) that contains a time. None: the calendar ends in this month.
pub(crate) fn month_of(now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let month = now.to_zoned(TimeZone::UTC).date().first_of_month();
    let next = month.checked_add(1.month()).ok()?;
    let [start, end] = [month, next].map(|day| day.to_zoned(TimeZone::UTC).map(|midnight| midnight.timestamp()));
    Some((start.ok()?, end.ok()?))
}

pub(crate) enum Msg {
    /// Requests a block that covers the credits of a call. The draw runs in the span of the caller.
    RequestBlock(u64, oneshot::Sender<Result<BlockId>>, Span),
    /// A call of a block is charged less than its reservation: reserved and charged credits. `Settled` follows, with the
    /// charge as both.
    Charged(BlockId, u64, u64),
    /// A call of a block ended: reserved and charged credits.
    Settled(BlockId, u64, u64),
    /// The usage record of a call could not be written. Sent before `Settled`.
    Unrecorded(BlockId),
    /// A call found its block sealed: reserved credits.
    Sealed(BlockId, u64),
    /// The outcome of a reservation is unknown: settle its row as not sent.
    CancelReservation(BlockId, Box<LedgerRow>),
    Drawn(Result<Result<OpenBlock, InsufficientCredit>>),
    /// The allowance of the current month is stored.
    AllowanceStored(GrantId),
    Tick,
    /// Returns all unreserved credit and stops. The reply is sent after the closing of blocks has started.
    Leave(oneshot::Sender<()>),
}

#[derive(Debug, Clone)]
pub(crate) struct MeterRef(ActorRef<Msg>);

impl MeterRef {
    pub(crate) fn id(&self) -> ActorId {
        self.0.get_id()
    }

    /// Returns the block that covers a call. None: the actor has stopped, and the caller must find its replacement.
    pub(crate) async fn request_block(&self, need: u64) -> Option<Result<BlockId>> {
        let (reply, answer) = oneshot::channel();
        self.0.send_message(Msg::RequestBlock(need, reply, Span::current())).ok()?;
        answer.await.ok()
    }

    pub(crate) fn charged(&self, block: BlockId, reserved: u64, credits: u64) {
        self.send(Msg::Charged(block, reserved, credits));
    }

    pub(crate) fn settled(&self, block: BlockId, reserved: u64, credits: u64) {
        self.send(Msg::Settled(block, reserved, credits));
    }

    pub(crate) fn unrecorded(&self, block: BlockId) {
        self.send(Msg::Unrecorded(block));
    }

    pub(crate) fn sealed(&self, block: BlockId, reserved: u64) {
        self.send(Msg::Sealed(block, reserved));
    }

    pub(crate) fn cancel_reservation(&self, block: BlockId, row: LedgerRow) {
        self.send(Msg::CancelReservation(block, Box::new(row)));
    }

    fn send(&self, message: Msg) {
        // A stopped actor has no wallet. Its rows are settled when their blocks are closed.
        let _ = self.0.send_message(message);
    }
}

pub(crate) struct MeterActor;

pub(crate) struct MeterState {
    shared: Arc<Shared>,
    org: OrgId,
    /// Holder of the drawn blocks. Any process closes the blocks of an earlier incarnation after their expiry.
    holder: Incarnation,
    wallet: Wallet,
    pending_requests: HashMap<Ticket, (u64, oneshot::Sender<Result<BlockId>>)>,
    next: Ticket,
    /// The last allowance that is known to be stored.
    stored_allowance: Option<GrantId>,
    used_at: Timestamp,
}

impl Actor for MeterActor {
    type Msg = Msg;
    type State = MeterState;
    type Arguments = (Arc<Shared>, OrgId);

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        (shared, org): Self::Arguments,
    ) -> Result<MeterState, ActorProcessingErr> {
        tick_until_stopped(&shared, &myself);
        let (holder, wallet) = (Incarnation::generate(shared.environment.as_ref()), Wallet::new(&shared.options));
        let used_at = shared.environment.now();
        let (pending_requests, next, stored_allowance) = (HashMap::new(), 0, None);
        Ok(MeterState { shared, org, holder, wallet, pending_requests, next, stored_allowance, used_at })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut MeterState,
    ) -> Result<(), ActorProcessingErr> {
        let now = state.shared.environment.now();
        let mut caller_span = Span::none();
        if matches!(message, Msg::Drawn(_)) {
            // Otherwise the wallet would draw again for cancelled calls.
            state.remove_abandoned();
        }
        let effects = match message {
            Msg::RequestBlock(need, reply, span) => {
                caller_span = span;
                state.request_block(need, reply, now)
            }
            Msg::Charged(block, reserved, credits) => {
                state.wallet.charged(&block, reserved, credits);
                Vec::new()
            }
            Msg::Settled(block, reserved, credits) => state.wallet.settled(&block, reserved, credits, now),
            Msg::Unrecorded(block) => {
                state.wallet.unrecorded(&block);
                Vec::new()
            }
            Msg::Sealed(block, reserved) => state.wallet.sealed(&block, reserved, now),
            Msg::CancelReservation(block, row) => {
                state.cancel_reservation(myself.clone(), block, *row);
                Vec::new()
            }
            Msg::Drawn(Ok(Ok(block))) => state.wallet.drawn(&block, now),
            Msg::Drawn(Ok(Err(refusal))) => state.wallet.refused(refusal, now),
            Msg::Drawn(Err(error)) => {
                tracing::warn!(org = %state.org, %error, "cannot draw credit");
                state.wallet.failed()
            }
            Msg::AllowanceStored(grant) => {
                state.stored_allowance = Some(grant);
                Vec::new()
            }
            Msg::Tick => state.tick(&myself, now),
            Msg::Leave(reply) => {
                for effect in state.wallet.retire_all() {
                    state.run(&myself, effect);
                }
                let _ = reply.send(());
                myself.stop(Some("left".to_owned()));
                Vec::new()
            }
        };
        // A draw belongs to the trace of the call that caused it.
        caller_span.in_scope(|| {
            for effect in effects {
                state.run(&myself, effect);
            }
        });
        Ok(())
    }
}

impl MeterState {
    fn request_block(&mut self, need: u64, reply: oneshot::Sender<Result<BlockId>>, now: Timestamp) -> Vec<Effect> {
        if reply.is_closed() {
            return Vec::new();
        }
        self.used_at = now;
        let waiting_max = self.shared.options.waiting_calls_max;
        if self.wallet.waiting() >= waiting_max {
            self.remove_abandoned();
        }
        if self.wallet.waiting() >= waiting_max {
            let message = "too many calls of the organization wait for credit";
            let _ = reply.send(Err(Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_AFTER)));
            return Vec::new();
        }
        self.next += 1;
        self.pending_requests.insert(self.next, (need, reply));
        self.wallet.request(self.next, need, now)
    }

    /// Removes calls that were cancelled while they waited.
    fn remove_abandoned(&mut self) {
        self.pending_requests.retain(|_, (_, reply)| !reply.is_closed());
        self.wallet.remove_cancelled(|ticket| !self.pending_requests.contains_key(&ticket));
    }

    fn run(&mut self, myself: &ActorRef<Msg>, effect: Effect) {
        match effect {
            Effect::Cover(ticket, block) => {
                let Some((need, reply)) = self.pending_requests.remove(&ticket) else { return };
                if let Err(Ok(block)) = reply.send(Ok(block)) {
                    // The caller cancelled the call after it was covered, and no row was written.
                    let _ = myself.send_message(Msg::Settled(block, need, 0));
                }
            }
            Effect::Refuse(ticket, refusal) => {
                let Some((need, reply)) = self.pending_requests.remove(&ticket) else { return };
                let _ = reply.send(Err(exhausted(need, refusal)));
            }
            Effect::Fail(ticket) => {
                let Some((_, reply)) = self.pending_requests.remove(&ticket) else { return };
                let error = Error::unavailable(Reason::StoreUnavailable, "cannot draw credit");
                let _ = reply.send(Err(error.retry_after(RETRY_AFTER)));
            }
            Effect::Draw { need, want } => self.draw(myself.clone(), need, want),
            Effect::Close { block, record } => self.close(block, record),
        }
    }

    /// Draws a block. If the account has too little, first reclaims unreserved credit of other blocks.
    fn draw(&self, myself: ActorRef<Msg>, need: u64, want: u64) {
        let (shared, org, holder) = (Arc::clone(&self.shared), self.org.clone(), self.holder.clone());
        let stored_allowance = self.stored_allowance.clone();
        let draws = async move {
            let run = async {
                if let Some(grant) = shared.allowance(&org).filter(|grant| stored_allowance.as_ref() != Some(&grant.id))
                {
                    let id = grant.id.clone();
                    shared.escrow.grant(&org, grant).await?;
                    let _ = myself.send_message(Msg::AllowanceStored(id));
                    shared.collect(&org).await;
                }
                let draw = || Draw {
                    id: BlockId::generate(shared.environment.as_ref()),
                    holder: holder.clone(),
                    need,
                    want,
                    lifetime: shared.options.block_seconds,
                };
                match shared.escrow.draw(&org, &draw()).await? {
                    Err(refusal) if refusal.in_blocks > 0 => {
                        let reclaimed = shared.escrow.reclaim(&org).await;
                        let drawn = shared.escrow.draw(&org, &draw()).await?;
                        // The account may refuse only because of credit that could not be reclaimed.
                        if drawn.is_ok() { Ok(drawn) } else { reclaimed.map(|()| drawn) }
                    }
                    drawn => Ok(drawn),
                }
            };
            let drawn = run.await;
            let _ = myself.send_message(Msg::Drawn(drawn));
        };
        self.shared.tasks.spawn(draws.in_current_span());
    }

    fn close(&self, block: BlockId, record: bool) {
        let (shared, org) = (Arc::clone(&self.shared), self.org.clone());
        self.shared.tasks.spawn(async move {
            match shared.escrow.close(&org, &block, record).await {
                Ok(Closing::Closed) => {}
                Ok(Closing::CallsInFlight) => tracing::debug!(%org, %block, "block waits for its last call"),
                Err(error) => {
                    tracing::warn!(%org, %block, %error, "block not closed; another process closes it after expiry")
                }
            }
        });
    }

    /// Settles a row with an unknown outcome as not sent, then releases its reservation.
    fn cancel_reservation(&self, myself: ActorRef<Msg>, block: BlockId, row: LedgerRow) {
        let (shared, org, reserved) = (Arc::clone(&self.shared), self.org.clone(), row.credits);
        self.shared.tasks.spawn(async move {
            let settled_row = row.settled_as_not_sent(shared.environment.now());
            let used = match shared.escrow.store().settle(&org, &block, settled_row).await {
                Ok(stored) => stored.charge().min(reserved),
                Err(error) => {
                    tracing::warn!(%org, key = row.key, %error, "cannot cancel a reservation; it is charged");
                    reserved
                }
            };
            let _ = myself.send_message(Msg::Settled(block, reserved, used));
        });
    }

    fn tick(&mut self, myself: &ActorRef<Msg>, now: Timestamp) -> Vec<Effect> {
        let effects = self.wallet.tick(self.shared.options.reservation_seconds, now);
        let idle = now.duration_since(self.used_at).unsigned_abs() >= self.shared.options.block_seconds;
        if idle && self.wallet.is_empty() {
            myself.stop(Some("idle".to_owned()));
        } else {
            let (shared, org) = (Arc::clone(&self.shared), self.org.clone());
            self.shared.tasks.spawn(async move { shared.collect(&org).await });
        }
        effects
    }
}

/// Retry delay of a call that was refused temporarily.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(500);

fn exhausted(need: u64, refusal: InsufficientCredit) -> Error {
    let message = format!("the call needs up to {need} credits, but only {} are available", refusal.available);
    Error::exhausted(Reason::CreditExhausted, message)
        .detail("balance", refusal.available)
        .detail("reserved", refusal.in_blocks)
        .detail("need", need)
}

fn tick_until_stopped(shared: &Arc<Shared>, actor: &ActorRef<Msg>) {
    let (token, actor, every) = (shared.token.clone(), actor.clone(), shared.options.idle_seconds);
    shared.tasks.spawn(async move {
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                () = tokio::time::sleep(every) => {}
            }
            if actor.send_message(Msg::Tick).is_err() {
                return;
            }
        }
    });
}
