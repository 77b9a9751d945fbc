//! [`folio_storage::SlotStore`].

use folio_types::OrgId;

use super::super::{Outcome, check, same};
use super::eventually;
use folio_storage::SharedStores;

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    let (store, org) = (&stores.slots, OrgId::derive(&[nonce]));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    check!(store.take(&org, "turns", "a", 2).await?, "the first of two");
    check!(store.take(&org, "turns", "b", 2).await?, "the second of two");
    check!(!store.take(&org, "turns", "c", 2).await?, "a third of two");
    check!(store.take(&org, "turns", "a", 2).await?, "one that is held is taken again");
    check!(store.take(&org, "calls", "c", 1).await?, "another kind");
    check!(store.take(&OrgId::derive(&[nonce, "x"]), "turns", "c", 1).await?, "another organization");
    check!(store.take(&org, "turns", "c", 3).await?, "a higher limit");
    check!(!store.take(&org, "turns", "d", 1).await?, "a limit that is lower than what is held");

    store.tell(&org, "turns", &[], &names(&["a", "b", "nobody's"])).await?;
    check!(store.take(&org, "turns", "d", 2).await?, "what was freed");
    // What is told is held, also beyond the limit, and for as long as it is told; all else ends with its lease.
    store.tell(&org, "turns", &names(&["e", "f"]), &[]).await?;
    check!(!store.take(&org, "turns", "g", 4).await?, "more than the limit is held");
    eventually("slots of which nothing is told any more are free", async || {
        store.tell(&org, "turns", &names(&["e", "f"]), &[]).await?;
        Ok(store.take(&org, "turns", "g", 3).await?.then_some(()))
    })
    .await?;
    check!(!store.take(&org, "turns", "h", 3).await?, "three are held");
    store.tell(&org, "turns", &[], &names(&["e", "f", "g"])).await?;
    store.tell(&org, "turns", &[], &[]).await?;
    same!(store.take(&org, "turns", "i", 1).await?, true, "nothing is held");
    same!(store.take(&org, "turns", "j", 0).await?, false, "none of none");
    Ok(())
}
