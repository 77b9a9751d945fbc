//! Credit escrow: each operation on an account and its blocks, in steps of which each may be the last.
//!
//! A change of the account is made from what was read and written under its version; who loses reads again. A block is
//! closed by sealing it, ending its rows, and giving the rest back: whoever does so finds what others did before. Nothing
//! here asks who lives: a block says until when its holder uses it, and a row until when its call may take.

use std::sync::Arc;
use std::time::Duration;

use folio_credit::{Account, AccountEntry, Grant, InsufficientCredit, LedgerRow, OpenBlock};
use folio_storage::{AccountChange, AccountChanged, Charged, CreditStore, UsageRecord, UsageStore};
use folio_types::{BlockId, Code, Environment, Error, GrantId, Incarnation, OrgId, Reason, Result, Timestamp, UserId};

/// Attempts of a change of an account against others.
const ATTEMPTS: usize = 32;

/// What became of closing a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// It is closed.
    Closed,
    /// It is sealed, and a call of it may still run.
    Waits,
}

/// A draw.
#[derive(Debug, Clone)]
pub struct Draw {
    /// The block's id: a fresh one.
    pub id: BlockId,
    /// Who draws.
    pub holder: Incarnation,
    /// What the block must cover.
    pub need: u64,
    /// What it may hold where there is plenty.
    pub want: u64,
    /// How long it is used.
    pub life: Duration,
}

/// The operations, on these stores. Cheap to clone.
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
    /// On these stores.
    pub fn new(store: Arc<dyn CreditStore>, usage: Arc<dyn UsageStore>, environment: Arc<dyn Environment>) -> Self {
        Self { store, usage, environment }
    }

    /// The store.
    pub fn store(&self) -> &dyn CreditStore {
        self.store.as_ref()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// Changes the account: `change` makes of what was read what is to stand; none: there is nothing to change.
    async fn change<T>(
        &self,
        org: &OrgId,
        mut change: impl FnMut(&mut Account, Timestamp) -> Result<Option<(AccountEntry, T)>>,
    ) -> Result<Option<T>> {
        for _ in 0..ATTEMPTS {
            let mut account = self.store.account(org).await?;
            let expected = account.version;
            let Some((entry, made)) = change(&mut account, self.now())? else { return Ok(None) };
            let change = AccountChange { org: org.clone(), expected, account, entry };
            match self.store.change_account(change).await? {
                AccountChanged::Done => return Ok(Some(made)),
                AccountChanged::Stands(_) => return Ok(Some(made)),
                AccountChanged::Moved => {}
            }
        }
        let message = "the account is wanted by too many at once; repeat it";
        Err(Error::new(Code::Aborted, Reason::VersionConflict, message).retry_after(Duration::from_millis(100)))
    }

    /// Gives credit, once for each id.
    ///
    /// Errors: `INVALID_FIELD` of its amount; `STORE_UNAVAILABLE`: it may be given, and can be given again.
    pub async fn grant(&self, org: &OrgId, grant: Grant) -> Result<()> {
        let key = AccountEntry::Granted(grant.clone()).key();
        if !self.store.account_entries(org, &key, None, 1).await?.is_empty() {
            return Ok(());
        }
        self.change(org, |account, now| Ok(Some((account.grant(grant.clone(), now)?, ())))).await.map(|_| ())
    }

    /// Takes back what nobody has drawn, once for each id.
    ///
    /// Errors: as [`Self::grant`]; `INVALID_FIELD` where less is available.
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
            // Perhaps it was taken back before: then there may be less than that by now.
            Err(error) if error.reason == Reason::InvalidField => {
                let stands = self.store.account_entries(org, &key, None, 1).await?;
                if stands.is_empty() { Err(error) } else { Ok(()) }
            }
            done => done.map(|_| ()),
        }
    }

    /// Draws a block, or says what there is.
    ///
    /// Errors: `STORE_UNAVAILABLE`: it may be drawn; it is given back when its time is over.
    pub async fn draw(&self, org: &OrgId, draw: &Draw) -> Result<Result<OpenBlock, InsufficientCredit>> {
        let mut short = None;
        let drawn = self.change(org, |account, now| {
            let until = now.checked_add(draw.life).unwrap_or(now);
            let (id, holder) = (draw.id.clone(), draw.holder.clone());
            let block = OpenBlock { id, holder, parts: Vec::new(), at: now, until };
            match account.draw(block, (draw.need, draw.want), now) {
                Ok(block) => Ok(Some((AccountEntry::Drawn(block.clone()), block))),
                Err(told) => {
                    short = Some(told);
                    Ok(None)
                }
            }
        });
        let drawn = drawn.await?;
        Ok(drawn.ok_or_else(|| short.unwrap_or(InsufficientCredit { available: 0, in_blocks: 0 })))
    }

    /// Closes a block, as far as that can be done now. `record`: the records of its calls are written, too, for who made them may
    /// not have written them all.
    ///
    /// Errors: `STORE_UNAVAILABLE`: some of it may be done; it can be done again.
    pub async fn close(&self, org: &OrgId, block: &BlockId, record: bool) -> Result<Closing> {
        self.store.seal(org, block).await?;
        let ledger = self.store.ledger(org, block).await?;
        let (mut settled, mut waits) = (0_u64, false);
        for mut row in ledger.rows {
            let now = self.now();
            if row.settled.is_none() && row.deadline <= now {
                row = self.store.settle(org, block, row.settled_as_reserved(now)).await?;
            }
            waits |= row.settled.is_none();
            settled = settled.saturating_add(row.charge());
            if record && let Some(record) = usage_record(org, &row) {
                self.usage.record(record).await?;
            }
        }
        if waits {
            return Ok(Closing::Waits);
        }
        let close =
            |account: &mut Account, now| Ok(account.close(block, settled, now).map(|entry| (entry, Closing::Closed)));
        Ok(self.change(org, close).await?.unwrap_or(Closing::Closed))
    }

    /// Closes the blocks whose time is over, whoever drew them.
    ///
    /// Errors: the first of those of [`Self::close`]; what else could be closed is.
    pub async fn collect(&self, org: &OrgId) -> Result<()> {
        self.close_each(org, |block, now| block.until <= now).await
    }

    /// Takes what blocks hold and no call has reserved, whoever drew them: their holders draw anew when they need it.
    ///
    /// Errors: as [`Self::collect`].
    pub async fn reclaim(&self, org: &OrgId) -> Result<()> {
        self.close_each(org, |_, _| true).await
    }

    async fn close_each(&self, org: &OrgId, which: impl Fn(&OpenBlock, Timestamp) -> bool) -> Result<()> {
        let account = self.store.account(org).await?;
        let mut done = Ok(());
        for block in account.blocks.iter().filter(|block| which(block, self.now())) {
            let closed = self.close(org, &block.id, true).await;
            // One that cannot be closed does not keep the others.
            done = done.and(closed.map(|_| ()));
        }
        done
    }

    /// The record of a row that has ended and whose call was made.
    pub(crate) async fn record(&self, org: &OrgId, row: &LedgerRow) -> Result<()> {
        match usage_record(org, row) {
            Some(record) => self.usage.record(record).await,
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
