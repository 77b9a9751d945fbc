//! Idempotency of grants and withdrawals on every store.

use std::sync::Arc;

use folio_credit::{Grant, GrantKind};
use folio_metering::Escrow;
use folio_storage::CreditStore;
use folio_types::{Environment as _, GrantId, OrgId, System};

use crate::interleaving::{cql, embedded};
use crate::memory::{Memory, Records};

async fn check_idempotency(store: Arc<dyn CreditStore>) {
    let escrow = Escrow::new(store, Arc::new(Records::default()), Arc::new(System));
    let (org, withdrawal) = (OrgId::generate(&System), GrantId::generate(&System));
    let grant = Grant::new(GrantId::generate(&System), GrantKind::Admin, 50, System.now());
    for _ in 0..2 {
        escrow.grant(&org, grant.clone()).await.unwrap();
    }
    for _ in 0..2 {
        // At the second attempt, less than this amount is available.
        escrow.withdraw(&org, &withdrawal, 30, ("withdrawn", None)).await.unwrap();
    }
    let account = escrow.store().account(&org).await.unwrap();
    assert_eq!((account.version, account.granted, account.available()), (2, 20, 20));
}

#[tokio::test]
async fn invariant_5_credit_is_granted_and_withdrawn_once() {
    check_idempotency(Arc::new(Memory::default())).await;
    let (folder, store) = embedded();
    check_idempotency(store.stores().credit).await;
    drop(folder);
}

#[tokio::test]
async fn invariant_5_credit_is_granted_and_withdrawn_once_on_cql() {
    let (folder, blobs) = embedded();
    check_idempotency(cql().await.stores(blobs.stores().blobs).credit).await;
    drop(folder);
}
