//! Blocks that others left are closed, each for itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_credit::{
    Account, AccountChange, AccountChanged, AccountEntry, Grant, GrantKind, Ledger, LedgerRow, Reserved,
};
use folio_metering::{CreditMeter, Draw, Escrow, Meter as _, Options, Settlement};
use folio_storage::CreditStore;
use folio_types::{BlockId, Environment as _, Error, GrantId, Incarnation, OrgId, Reason, Result, System};

use crate::meter::Bench;

/// Never answers a seal of one block.
struct Stuck {
    inner: Arc<dyn CreditStore>,
    block: BlockId,
}

#[async_trait]
impl CreditStore for Stuck {
    async fn account(&self, org: &OrgId) -> Result<Account> {
        self.inner.account(org).await
    }

    async fn change_account(&self, change: AccountChange) -> Result<AccountChanged> {
        self.inner.change_account(change).await
    }

    async fn account_entries(
        &self,
        org: &OrgId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AccountEntry>> {
        self.inner.account_entries(org, prefix, after, limit).await
    }

    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<Reserved> {
        self.inner.reserve(org, block, row).await
    }

    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        self.inner.settle(org, block, row).await
    }

    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()> {
        if *block == self.block {
            return Err(Error::unavailable(Reason::StoreUnavailable, "it is away"));
        }
        self.inner.seal(org, block).await
    }

    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger> {
        self.inner.ledger(org, block).await
    }
}

/// Draws a block of ten credits, which is used for as long.
async fn drawn(escrow: &Escrow, org: &OrgId, name: &str, life: Duration) -> BlockId {
    let (id, holder) = (BlockId::derive(&[name]), Incarnation::derive(&["another process"]));
    let draw = Draw { id, holder, need: 10, want: 10, life };
    escrow.draw(org, &draw).await.unwrap().unwrap().id
}

#[tokio::test]
async fn a_block_that_cannot_be_closed_does_not_keep_the_others() {
    let mut bench = Bench::new();
    let grant = Grant::new(GrantId::derive(&["closing"]), GrantKind::Admin, 30, System.now());
    let stuck = BlockId::derive(&["a"]);
    bench.stores.credit = Arc::new(Stuck { inner: bench.stores.credit.clone(), block: stuck.clone() });
    let escrow = Escrow::new(bench.stores.credit.clone(), bench.stores.usage.clone(), Arc::new(System));
    escrow.grant(&bench.org, grant).await.unwrap();
    let open = async || {
        let account = escrow.store().account(&bench.org).await.unwrap();
        account.blocks.into_iter().map(|block| block.id).collect::<Vec<_>>()
    };
    drawn(&escrow, &bench.org, "a", Duration::ZERO).await;
    drawn(&escrow, &bench.org, "b", Duration::ZERO).await;
    let lives = drawn(&escrow, &bench.org, "c", Duration::from_secs(600)).await;
    let told = escrow.collect(&bench.org).await;
    assert!(told.is_err_and(|error| error.reason == Reason::StoreUnavailable));
    assert_eq!(open().await, [stuck.clone(), lives.clone()]);

    // A call that needs what the others give back gets it; one that needs more is not told that there is none.
    let options = Options { monthly_allowance: 0, ..Options::default() };
    let meter = CreditMeter::start(&bench.stores, Arc::new(System), options).await.unwrap();
    let permit = meter.permit(bench.call("enough", 10_000)).await.unwrap();
    assert!(open().await.contains(&stuck) && !open().await.contains(&lives));
    let error = meter.permit(bench.call("too much", 5_000)).await.unwrap_err();
    assert_eq!(error.reason, Reason::StoreUnavailable);
    meter.settle(permit, Settlement::NotSent).await.unwrap();
    meter.stop(Duration::from_secs(10)).await;
}
