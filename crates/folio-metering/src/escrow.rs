//! Credit escrow: the operations on an account and its blocks. An operation is a sequence of idempotent steps, so a
//! crash after any step is safe and any process can complete the operation.
//!
//! A change of the account is a compare-and-set on its version, recomputed after a conflict. Closing a block seals it,
//! settles its rows and returns the unused credit to the account. The escrow does not use liveness: a block has an
//! expiry time, and a row has a deadline.

use std::sync::Arc;
use std::time::Duration;

use folio_credit::{
    Account, AccountChange, AccountChangeOutcome, AccountEntry, Grant, InsufficientCredit, LedgerRow, OpenBlock,
};
use folio_storage::{Charged, CreditStore, UsageRecord, UsageStore};
use folio_types::{BlockId, Environment, Error, GrantId, Incarnation, OrgId, Reason, Result, Timestamp, UserId};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

/// Maximum attempts of a compare-and-set on the account.
const ATTEMPTS: usize = 32;
/// Maximum number of usage records that are written concurrently.
const RECORDS_AT_ONCE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    Closed,
    /// The block is sealed, but calls that reserved from it may still be in flight.
    CallsInFlight,
}

#[derive(Debug, Clone)]
pub struct Draw {
    /// Must be new for each draw.
    pub id: BlockId,
    /// The drawing process.
    pub holder: Incarnation,
    /// Minimum credits.
    pub need: u64,
    /// Desired credits.
    pub want: u64,
    pub lifetime: Duration,
}

#[derive(Clone)]
pub struct Escrow {
    store: Arc<dyn CreditStore>,
    usage: Arc<dyn UsageStore>,
    environment: Arc<dyn Environment>,
}

impl std::fmt::Debug for Escrow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Escrow")
    }
}

impl Escrow {
    pub fn new(store: Arc<dyn CreditStore>, usage: Arc<dyn UsageStore>, environment: Arc<dyn Environment>) -> Self {
        Self { store, usage, environment }
    }

    pub fn store(&self) -> &dyn CreditStore {
        self.store.as_ref()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// Changes the account. `change` returns None if there is nothing to change.
    async fn change<T>(
        &self,
        org: &OrgId,
        mut change: impl FnMut(&mut Account, Timestamp) -> Result<Option<(AccountEntry, T)>>,
    ) -> Result<Option<T>> {
        for _ in 0..ATTEMPTS {
            let mut account = self.store.account(org).await?;
            let expected = account.version;
            let Some((entry, output)) = change(&mut account, self.now())? else { return Ok(None) };
            let change = AccountChange { org: org.clone(), expected, account, entry };
            match self.store.change_account(change).await? {
                AccountChangeOutcome::Done | AccountChangeOutcome::EntryExists(_) => return Ok(Some(output)),
                AccountChangeOutcome::VersionMismatch => {}
            }
        }
        let message = "too many concurrent changes of the credit account; retry";
        Err(Error::version_conflict(message).retry_after(Duration::from_millis(100)))
    }

    /// Adds a grant. Idempotent by the id of the grant.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the amount is out of bounds. After `STORE_UNAVAILABLE` the outcome is unknown; the call can
    /// be repeated.
    pub async fn grant(&self, org: &OrgId, grant: Grant) -> Result<()> {
        let key = AccountEntry::Granted(grant.clone()).key();
        if !self.store.entries(org, &key, None, 1).await?.is_empty() {
            return Ok(());
        }
        self.change(org, |account, now| Ok(Some((account.grant(grant.clone(), now)?, ())))).await.map(|_| ())
    }

    /// Withdraws available credit. Idempotent by `id`.
    ///
    /// # Errors
    /// As [`Self::grant`], and `INVALID_FIELD` if `amount` exceeds the available credit.
    pub async fn withdraw(
        &self,
        org: &OrgId,
        id: &GrantId,
        amount: u64,
        (note, by): (&str, Option<&UserId>),
    ) -> Result<()> {
        let key = format!("grant/{id}");
        let change = |account: &mut Account, at| {
            account.withdraw(amount, at)?;
            let (id, note, by) = (id.clone(), note.to_owned(), by.cloned());
            Ok(Some((AccountEntry::Withdrawn { id, amount, note, by, at }, ())))
        };
        match self.change(org, change).await {
            // A repeated withdrawal may exceed the credit that the first one left.
            Err(error) if error.reason == Reason::InvalidField => {
                let entries = self.store.entries(org, &key, None, 1).await?;
                if entries.is_empty() { Err(error) } else { Ok(()) }
            }
            done => done.map(|_| ()),
        }
    }

    /// Draws a block. The inner error is the refusal of the account.
    ///
    /// # Errors
    /// After `STORE_UNAVAILABLE` the outcome is unknown; a block that was drawn is closed after its expiry.
    pub async fn draw(&self, org: &OrgId, draw: &Draw) -> Result<Result<OpenBlock, InsufficientCredit>> {
        let mut refused = None;
        let drawn = self.change(org, |account, now| {
            let reserves_until = now.checked_add(draw.lifetime).unwrap_or(now);
            let (id, holder) = (draw.id.clone(), draw.holder.clone());
            let block = OpenBlock { id, holder, parts: Vec::new(), at: now, reserves_until };
            match account.draw(block, (draw.need, draw.want), now) {
                Ok(block) => Ok(Some((AccountEntry::Drawn(block.clone()), block))),
                Err(refusal) => {
                    refused = Some(refusal);
                    Ok(None)
                }
            }
        });
        let drawn = drawn.await?;
        Ok(drawn.ok_or_else(|| refused.unwrap_or(InsufficientCredit { available: 0, in_blocks: 0 })))
    }

    /// Closes a block as far as currently possible. `record`: also writes the usage records of its calls, which the
    /// holder may not have written.
    ///
    /// # Errors
    /// After `STORE_UNAVAILABLE` some steps may be done; the call can be repeated.
    pub async fn close(&self, org: &OrgId, block: &BlockId, record: bool) -> Result<Closing> {
        self.store.seal(org, block).await?;
        let ledger = self.store.ledger(org, block).await?;
        let (mut settled, mut has_open_rows, mut records) = (0_u64, false, Vec::new());
        for mut row in ledger.rows {
            let now = self.now();
            if row.settled.is_none() && row.deadline <= now {
                row = self.store.settle(org, block, row.settled_as_reserved(now)).await?;
            }
            has_open_rows |= row.settled.is_none();
            settled = settled.saturating_add(row.charge());
            if record {
                records.extend(usage_record(org, &row));
            }
        }
        // Concurrently, because a store may write the records of an interval together.
        let now = self.now();
        let writes: Vec<_> = records.into_iter().map(|record| self.usage.record(record, now)).collect();
        stream::iter(writes).buffer_unordered(RECORDS_AT_ONCE).try_collect::<()>().await?;
        if has_open_rows {
            return Ok(Closing::CallsInFlight);
        }
        let close =
            |account: &mut Account, now| Ok(account.close(block, settled, now).map(|entry| (entry, Closing::Closed)));
        Ok(self.change(org, close).await?.unwrap_or(Closing::Closed))
    }

    /// Closes the expired blocks of every process.
    ///
    /// # Errors
    /// The first error of [`Self::close`]; the remaining blocks are closed nevertheless.
    pub async fn collect(&self, org: &OrgId) -> Result<()> {
        self.close_each(org, |block, now| block.reserves_until <= now).await
    }

    /// Reclaims the unreserved credit of every open block. The holders draw new blocks when they need credit.
    ///
    /// # Errors
    /// As [`Self::collect`].
    pub async fn reclaim(&self, org: &OrgId) -> Result<()> {
        self.close_each(org, |_, _| true).await
    }

    async fn close_each(&self, org: &OrgId, which: impl Fn(&OpenBlock, Timestamp) -> bool) -> Result<()> {
        let account = self.store.account(org).await?;
        let mut done = Ok(());
        for block in account.blocks.iter().filter(|block| which(block, self.now())) {
            let closed = self.close(org, &block.id, true).await;
            // Continue with the remaining blocks after a failure.
            done = done.and(closed.map(|_| ()));
        }
        done
    }

    /// Writes the usage record of a settled row. Does nothing if the call was not sent.
    pub(crate) async fn record(&self, org: &OrgId, row: &LedgerRow) -> Result<()> {
        match usage_record(org, row) {
            Some(record) => self.usage.record(record, self.now()).await,
            None => Ok(()),
        }
    }
}

fn usage_record(org: &OrgId, row: &LedgerRow) -> Option<UsageRecord> {
    let settled = row.settled.as_ref().filter(|settled| settled.usage.model_calls > 0)?;
    Some(UsageRecord {
        org: org.clone(),
        user: row.user.clone(),
        key: row.key.clone(),
        operation: row.operation.clone(),
        model: row.model.clone(),
        usage: settled.usage,
        completed: settled.completed,
        at: settled.at,
        document: row.document.clone(),
        charged: Some(Charged {
            credits: settled.credits,
            cost_microdollars: settled.cost_microdollars,
            basis: settled.basis,
            written_off: settled.written_off,
        }),
    })
}
