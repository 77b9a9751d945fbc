//! Conformance suite of [`folio_storage::StoreHealth`].

use super::context::Context;
use super::{Outcome, same};
use folio_resources::{Tag, TagFilter};

pub(crate) async fn suite(context: &Context) -> Outcome {
    context.stores.health.check().await?;
    context.tag("a tag").await?;
    context.stores.health.check().await?;
    let page = folio_types::page::PageRequest::default();
    let tags = context.stores.of::<Tag>().list(&context.org, &TagFilter::default(), &page).await?;
    same!(tags.total, 1, "tags after a health check");
    Ok(())
}
