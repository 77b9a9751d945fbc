//! The items of lists, and several things at once.

use std::future::Future;

use folio_types::page::{Page, PageRequest};
use folio_types::{OrgId, Result};
use futures::stream::{StreamExt as _, TryStreamExt as _};

use super::aggregate::{Aggregate, Loaded, load};
use super::catalogue::{self, Found, Listed, Query};
use super::keyspace::Keyspace;
use super::session::Strength;
use crate::value::{ListRow, Record, Stored};

/// Reads at once on behalf of one request.
const READS: usize = 16;

/// A page of a list.
pub(crate) async fn list<T>(
    keyspace: &Keyspace,
    org: &OrgId,
    query: Query<'_>,
    request: &PageRequest,
) -> Result<Page<T>>
where
    T: Aggregate,
    Record<T>: Stored,
{
    let matches = query.matches;
    catalogue::page(keyspace, org, &query, request, move |found| Box::pin(item(keyspace, org, matches, found))).await
}

/// The item of a row, where it is what the row says.
async fn item<T>(
    keyspace: &Keyspace,
    org: &OrgId,
    matches: &(dyn Fn(&ListRow) -> bool + Send + Sync),
    Found { position, row }: Found,
) -> Result<Option<(T, usize)>>
where
    T: Aggregate,
    Record<T>: Stored,
{
    let Loaded { header, record } = load::<T>(keyspace, org, &position.id, Strength::Quorum).await?;
    let bytes = header.record.as_ref().map_or(0, Vec::len);
    if header.created_at == position.at
        && let Some(item) = record.and_then(Record::live)
        && matches(&item.listed())
    {
        return Ok(Some((item.beside(&header)?, bytes)));
    }
    catalogue::mend::<T>(keyspace, org, &Listed { row, at: position.at, version: 0 }).await?;
    Ok(None)
}

/// What is found of each, in the order asked.
pub(crate) async fn each<I, R, F>(asked: impl IntoIterator<Item = I>, find: impl Fn(I) -> F) -> Result<Vec<R>>
where
    F: Future<Output = Result<Option<R>>>,
{
    let found: Vec<Option<R>> = futures::stream::iter(asked).map(find).buffered(READS).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}
