//! Conformance suite of [`folio_storage::SlotStore`].

use folio_types::OrgId;

use super::super::{Outcome, check, same};
use super::eventually;
use folio_storage::SharedStores;

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    let (store, org) = (&stores.slots, OrgId::derive(&[nonce]));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    check!(store.take(&org, "turns", "a", 2).await?, "the first of two slots is refused");
    check!(store.take(&org, "turns", "b", 2).await?, "the second of two slots is refused");
    check!(!store.take(&org, "turns", "c", 2).await?, "a third slot is granted although the limit is two");
    check!(store.take(&org, "turns", "a", 2).await?, "a taken slot is not renewed");
    check!(store.take(&org, "calls", "c", 1).await?, "a slot of another kind is refused");
    check!(
        store.take(&OrgId::derive(&[nonce, "x"]), "turns", "c", 1).await?,
        "a slot of another organization is refused"
    );
    check!(store.take(&org, "turns", "c", 3).await?, "a slot under a higher limit is refused");
    check!(!store.take(&org, "turns", "d", 1).await?, "a slot is granted below the number of taken slots");

    store.sync(&org, "turns", &[], &names(&["a", "b", "unknown"])).await?;
    check!(store.take(&org, "turns", "d", 2).await?, "a slot is refused although one was freed");
    // Synced slots are taken regardless of the limit for as long as they are renewed; all others expire.
    store.sync(&org, "turns", &names(&["e", "f"]), &[]).await?;
    check!(!store.take(&org, "turns", "g", 4).await?, "more slots than the limit are taken");
    eventually("slots that are not renewed become free", async || {
        store.sync(&org, "turns", &names(&["e", "f"]), &[]).await?;
        Ok(store.take(&org, "turns", "g", 3).await?.then_some(()))
    })
    .await?;
    check!(!store.take(&org, "turns", "h", 3).await?, "a fourth slot is granted although the limit is three");
    store.sync(&org, "turns", &[], &names(&["e", "f", "g"])).await?;
    store.sync(&org, "turns", &[], &[]).await?;
    same!(store.take(&org, "turns", "i", 1).await?, true, "the only slot after all expired");
    same!(store.take(&org, "turns", "j", 0).await?, false, "a slot with a limit of zero");
    Ok(())
}
