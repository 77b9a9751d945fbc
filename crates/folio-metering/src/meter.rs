//! The credit meter: handle of the meter actors of a process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_credit::{Account, LedgerRow, ReserveOutcome};
use folio_storage::Stores;
use folio_types::{BlockId, Environment, Error, OrgId, Reason, Result, Timestamp, UnknownFields};
use ractor::{Actor, ActorId, ActorRef};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::{MeterRef, Meters, Shared, Supervisor, SupervisorMsg, month_of};
use crate::escrow::Escrow;
use crate::reservation::{Reservation, UnconfirmedReservation, charge, settled};
use crate::{Counters, Meter, MeteredCall, Options, Permit, Settlement};

/// Maximum time that a call waits for credit.
const CREDIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of calls of a process that wait for credit. Further calls are refused.
const WAITING_MAX: usize = 8_192;
/// Maximum number of blocks that a call requests if each of them is sealed before the call reserves credit.
const BLOCK_ATTEMPTS: u32 = 16;
const SETTLE_ATTEMPTS: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    pub account: Account,
    /// Credits that can be drawn.
    pub available: u64,
    /// Credits in open blocks, including reserved and charged ones.
    pub in_blocks: u64,
}

/// The meter of a process. Clones share the actors and counters.
#[derive(Clone)]
pub struct CreditMeter {
    shared: Arc<Shared>,
    meters: Meters,
    supervisor: ActorRef<SupervisorMsg>,
    admission: Arc<Semaphore>,
    counters: Counters,
}

impl std::fmt::Debug for CreditMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CreditMeter")
    }
}

impl CreditMeter {
    pub async fn start(stores: &Stores, environment: Arc<dyn Environment>, options: Options) -> Result<Self> {
        let (credit, usage) = (Arc::clone(&stores.credit), Arc::clone(&stores.usage));
        let shared = Arc::new(Shared {
            escrow: Escrow::new(credit, usage, Arc::clone(&environment)),
            environment,
            options,
            tasks: TaskTracker::new(),
            token: CancellationToken::new(),
        });
        let meters = Meters::default();
        let (supervisor, _joined) = Actor::spawn(None, Supervisor, (Arc::clone(&shared), meters.clone()))
            .await
            .map_err(|error| Error::internal(format!("cannot start the meters: {error}")))?;
        let admission = Arc::new(Semaphore::new(WAITING_MAX));
        Ok(Self { shared, meters, supervisor, admission, counters: Counters::default() })
    }

    pub fn escrow(&self) -> &Escrow {
        &self.shared.escrow
    }

    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    pub fn is_unlimited(&self) -> bool {
        self.shared.options.unlimited
    }

    /// Closes expired blocks of an organization as far as currently possible, so that their calls are charged and
    /// recorded. Failures are logged.
    pub async fn collect(&self, org: &OrgId) {
        self.shared.collect(org).await;
    }

    /// Returns the price of a credit in micro-dollars.
    pub fn credit_microdollars(&self) -> u64 {
        self.shared.options.price.credit_microdollars
    }

    /// Returns start and end of the current calendar month (UTC), in which the monthly allowance applies. None: the calendar
    /// ends in this month.
    pub fn month(&self) -> Option<(Timestamp, Timestamp)> {
        month_of(self.shared.environment.now())
    }

    /// Adds the monthly allowance, closes expired blocks and returns the credit of an organization.
    pub async fn balance(&self, org: &OrgId) -> Result<Balance> {
        if let Some(grant) = self.shared.allowance(org) {
            self.shared.escrow.grant(org, grant).await?;
        }
        self.collect(org).await;
        let account = self.shared.escrow.store().account(org).await?;
        let (available, in_blocks) = (account.available_at(self.shared.environment.now()), account.in_blocks());
        Ok(Balance { account, available, in_blocks })
    }

    /// Returns unreserved credit and stops. Waits at most `limit` for the meter actors, and again for the store
    /// operations.
    pub async fn stop(&self, limit: Duration) {
        if tokio::time::timeout(limit, self.meters.leave()).await.is_err() {
            tracing::warn!("meter actors did not stop within the limit");
        }
        self.supervisor.stop(None);
        self.shared.token.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(limit, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("blocks not closed in time; another process closes them after expiry");
        }
    }

    /// Returns the meter of an organization, unless its actor is `ended`.
    async fn meter(&self, org: &OrgId, ended: Option<ActorId>) -> Result<MeterRef> {
        if let Some(meter) = self.meters.find(org, ended) {
            return Ok(meter);
        }
        let (reply, answer) = oneshot::channel();
        let stopping = || Error::unavailable(Reason::Draining, "the process is stopping");
        self.supervisor.send_message(SupervisorMsg::Find(org.clone(), ended, reply)).map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Returns the block that covers a call, and the meter that holds the block.
    async fn cover(&self, org: &OrgId, need: u64) -> Result<(BlockId, MeterRef)> {
        let _permit = self.admission.try_acquire().map_err(|_| {
            let message = "too many calls of this process wait for credit";
            Error::exhausted(Reason::Overloaded, message).retry_after(Duration::from_millis(500))
        })?;
        let request = async {
            // A meter may stop before it replies; then request the block from its replacement.
            let mut ended = None;
            for _ in 0..3 {
                let meter = self.meter(org, ended).await?;
                if let Some(answer) = meter.request_block(need).await {
                    return Ok((answer?, meter));
                }
                ended = Some(meter.id());
            }
            Err(Error::unavailable(Reason::Overloaded, "the organization's meter stops repeatedly; retry later"))
        };
        tokio::time::timeout(CREDIT_TIMEOUT, request)
            .await
            .map_err(|_| Error::unavailable(Reason::StoreUnavailable, "drawing credit timed out"))?
    }

    /// Reserves the credit of a call. None: the block was sealed before the row was written.
    async fn reserve(&self, call: &MeteredCall, need: u64) -> Result<Option<Reservation>> {
        let (block, actor) = self.cover(&call.org, need).await?;
        let now = self.shared.environment.now();
        let row = LedgerRow {
            key: call.key.clone(),
            permit: format!("{:032x}", self.shared.environment.random()),
            user: call.user.clone(),
            operation: call.operation.to_owned(),
            model: call.model.clone(),
            document: call.document.clone(),
            credits: need,
            input_tokens: call.input_tokens,
            at: now,
            deadline: now.checked_add(self.shared.options.reservation_seconds).unwrap_or(now),
            settled: None,
            unknown: UnknownFields::default(),
        };
        let covered = UnconfirmedReservation::new(Reservation { block, row, actor });
        let Some((block, row)) = covered.parts() else { return Ok(None) };
        match self.shared.escrow.store().reserve(&call.org, block, row.clone()).await? {
            ReserveOutcome::Done => Ok(covered.confirm()),
            ReserveOutcome::Sealed => {
                covered.sealed();
                Ok(None)
            }
            ReserveOutcome::Exists(_) => {
                covered.unused();
                let message = format!("a model call with the key {} already exists", call.key);
                Err(Error::version_conflict(message))
            }
        }
    }
}

#[async_trait]
impl Meter for CreditMeter {
    fn max_price(&self, call: &MeteredCall) -> u64 {
        self.shared.options.price.max_price(&call.prices, call.input_tokens, call.max_output_tokens)
    }

    fn charge(&self, call: &MeteredCall, settlement: &Settlement) -> u64 {
        charge(call, settlement, &self.shared.options.price, self.max_price(call))
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        let need = self.max_price(&call);
        for _ in 0..BLOCK_ATTEMPTS {
            let reserved = self.reserve(&call, need).await.inspect_err(|error| {
                if error.reason == Reason::CreditExhausted {
                    self.counters.add_refused();
                }
            });
            if let Some(reservation) = reserved? {
                let _reserved = Some(self.counters.reserve(need));
                let abandoned_calls = self.shared.options.abandoned_calls;
                return Ok(Permit { call, abandoned_calls, reservation: Some(reservation), slot: None, _reserved });
            }
        }
        let message = "other processes repeatedly reclaim the organization's credit; retry later";
        Err(Error::unavailable(Reason::Overloaded, message).retry_after(Duration::from_millis(500)))
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64> {
        let Permit { call, reservation, slot: _slot, _reserved, .. } = permit;
        let Some(Reservation { block, row, actor }) = reservation else {
            return Err(Error::internal("the permit belongs to another meter"));
        };
        let settled_row = settled(&row, &call, settlement, &self.shared.options.price, self.shared.environment.now());
        let escrow = &self.shared.escrow;
        let mut stored = escrow.store().settle(&call.org, &block, settled_row.clone()).await;
        for _ in 1..SETTLE_ATTEMPTS {
            if stored.is_ok() {
                break;
            }
            stored = escrow.store().settle(&call.org, &block, settled_row.clone()).await;
        }
        // If the settlement fails, the reservation is charged.
        let charge = stored.as_ref().map_or(row.credits, LedgerRow::charge);
        self.counters.add_used(charge);
        if stored.as_ref().is_ok_and(|stored| stored.settled != settled_row.settled) {
            self.counters.add_settled_late();
            let (key, used) = (&row.key, settled_row.charge());
            tracing::warn!(org = %call.org, key, charged = charge, used, "call settled after its row had been settled by another process");
        }
        // The store may write the records of an interval together, so the credit is freed before the record is written.
        if charge < row.credits {
            actor.charged(block.clone(), row.credits, charge);
        }
        if let Ok(row) = &stored
            && let Err(error) = escrow.record(&call.org, row).await
        {
            tracing::warn!(org = %call.org, key = row.key, %error, "usage record not written; closing the block writes it");
            actor.unrecorded(block.clone());
        }
        actor.settled(block, charge, charge);
        stored.map(|_| charge)
    }
}
