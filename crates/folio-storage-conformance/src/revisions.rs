//! Revisions of a resource, read by page and by number.

use folio_resources::{Resource as _, Schema};
use folio_types::SchemaRevId;
use folio_types::op::Expected;
use folio_types::page::{Order, PageRequest};

use super::context::{Context, done};
use super::sample::{Sample as _, Seed};
use super::{Outcome, check, same};

/// Pages of revisions, each under the name that the resource has now.
pub(crate) async fn by_page(context: &Context) -> Outcome {
    let (store, org) = (context.stores.of::<Schema>(), &context.org);
    let id = context.sample::<Schema>(&Seed::named("before")).await?;
    let update = context.write(Expected::Version(1), Schema::update(&Seed::named("after").with(2)))?;
    done(store.decide(&id, update).await?)?;
    let revid = |number| SchemaRevId::new(id.clone(), number);
    for (order, expected) in [(Order::Newest, [2, 1]), (Order::Oldest, [1, 2])] {
        let (mut seen, mut page) = (Vec::new(), PageRequest { size: 1, order, ..PageRequest::default() });
        loop {
            let part = store.list_revisions(org, &id, &page).await?;
            same!(part.total, 2, "the number of revisions");
            check!(part.items.iter().all(|revision| revision.name == "after"), "a revision under an old name");
            seen.extend(part.items.into_iter().map(|revision| revision.revid.version));
            let Some(token) = part.next else { break };
            page.token = Some(token);
        }
        same!(seen, expected, "the revisions by {order:?}");
    }
    same!(store.revision(&context.other(), &revid(1)).await?, None, "a revision in another organization");
    let both = store.revisions(org, &[revid(2), revid(9), revid(1)]).await?;
    let both: Vec<_> = both.into_iter().map(|found| found.revid.version).collect();
    same!(both, [2, 1], "several revisions in the requested order");
    done(store.decide(&id, context.write(Expected::Version(2), Schema::DELETE)?).await?)?;
    same!(store.revision(org, &revid(2)).await?, None, "a revision of a deleted schema");
    same!(store.list_revisions(org, &id, &PageRequest::default()).await?.total, 0, "the revisions of a deleted schema");
    Ok(())
}
