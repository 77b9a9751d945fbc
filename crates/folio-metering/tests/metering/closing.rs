//! Closing expired blocks of other processes. A block that cannot be closed does not affect the others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_credit::{Grant, GrantKind};
use folio_metering::{CreditMeter, Draw, Escrow, Meter as _, Options, Settlement};
use folio_storage::CreditStore;
use folio_storage_conformance::layer::{CreditLayer, Layered};
use folio_types::{BlockId, Environment as _, Error, GrantId, Incarnation, OrgId, Reason, Result, System};

use crate::meter::Fixture;

/// Fails every seal of one block.
struct FailingSeal(BlockId);

#[async_trait]
impl CreditLayer for FailingSeal {
    async fn seal(&self, below: &dyn CreditStore, org: &OrgId, block: &BlockId) -> Result<()> {
        if *block == self.0 {
            return Err(Error::unavailable(Reason::StoreUnavailable, "unavailable"));
        }
        below.seal(org, block).await
    }
}

/// Draws a block of ten credits that expires after `lifetime`.
async fn draw(escrow: &Escrow, org: &OrgId, name: &str, lifetime: Duration) -> BlockId {
    let (id, holder) = (BlockId::derive(&[name]), Incarnation::derive(&["another process"]));
    let draw = Draw { id, holder, need: 10, want: 10, lifetime };
    escrow.draw(org, &draw).await.unwrap().unwrap().id
}

#[tokio::test]
async fn a_block_that_cannot_be_closed_does_not_block_the_others() {
    let mut fixture = Fixture::new();
    let grant = Grant::new(GrantId::derive(&["closing"]), GrantKind::Admin, 30, System.now());
    let stuck = BlockId::derive(&["a"]);
    fixture.stores.credit = Layered::over(FailingSeal(stuck.clone()), &fixture.stores.credit);
    let escrow = Escrow::new(fixture.stores.credit.clone(), fixture.stores.usage.clone(), Arc::new(System));
    escrow.grant(&fixture.org, grant).await.unwrap();
    let open = async || {
        let account = escrow.store().account(&fixture.org).await.unwrap();
        account.blocks.into_iter().map(|block| block.id).collect::<Vec<_>>()
    };
    draw(&escrow, &fixture.org, "a", Duration::ZERO).await;
    draw(&escrow, &fixture.org, "b", Duration::ZERO).await;
    let live = draw(&escrow, &fixture.org, "c", Duration::from_secs(600)).await;
    let collected = escrow.collect(&fixture.org).await;
    assert!(collected.is_err_and(|error| error.reason == Reason::StoreUnavailable));
    assert_eq!(open().await, [stuck.clone(), live.clone()]);

    // Reclaimed credit covers a call. A call that needs more fails but is not refused while a block cannot be closed.
    let options = Options { monthly_allowance: 0, ..Options::default() };
    let meter = CreditMeter::start(&fixture.stores, Arc::new(System), options).await.unwrap();
    let permit = meter.request_permit(fixture.call("enough", 10_000)).await.unwrap();
    assert!(open().await.contains(&stuck) && !open().await.contains(&live));
    let error = meter.request_permit(fixture.call("too much", 5_000)).await.unwrap_err();
    assert_eq!(error.reason, Reason::StoreUnavailable);
    meter.settle(permit, Settlement::NotSent).await.unwrap();
    meter.stop(Duration::from_secs(10)).await;
}
