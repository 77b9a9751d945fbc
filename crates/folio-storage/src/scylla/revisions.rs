//! Revisions: rows beside their schema or prompt, numbered without a gap.

use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Error, OrgId, Reason, Result, limits};

use super::decide::revision_key;
use super::items::each;
use super::keyspace::Keyspace;
use super::session::Strength;
use super::table::Part;
use crate::page_token;
use crate::value::{Stored, decode};

/// Bytes of stored revisions from which a page takes no further one.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// One revision.
pub(crate) async fn one<R: Stored>(keyspace: &Keyspace, org: &OrgId, id: &str, number: u32) -> Result<Option<R>> {
    let key = revision_key(number);
    let found =
        keyspace.tables.aggregates.row(&keyspace.cql, org, id, (Part::Revision, &key), Strength::Quorum).await?;
    found.map(|bytes| decode(&bytes)).transpose()
}

/// A page of the revisions up to `latest`.
pub(crate) async fn page<R: Stored>(
    keyspace: &Keyspace,
    org: &OrgId,
    id: &str,
    latest: u32,
    request: &PageRequest,
) -> Result<Page<R>> {
    let backward = matches!(request.order, Order::Newest | Order::NameDescending);
    let scope =
        page_token::digest(&[org.as_str().as_bytes(), id.as_bytes(), format!("{:?}", request.order).as_bytes()]);
    let after = match &request.token {
        Some(token) => {
            let (_, suffix) = page_token::decode(Some(scope), token)?;
            let bytes = <[u8; 4]>::try_from(suffix.as_slice());
            let refused = |_| Error::invalid(Reason::InvalidPageToken, "the page_token is of another list");
            Some(u32::from_be_bytes(bytes.map_err(refused)?))
        }
        None => None,
    };
    let size = match request.size {
        0 => limits::PAGE_SIZE_DEFAULT,
        size => size.min(limits::PAGE_SIZE_MAX),
    };
    let all: Vec<u32> = if backward {
        (1..after.unwrap_or(latest.saturating_add(1)).min(latest.saturating_add(1))).rev().collect()
    } else {
        (after.unwrap_or(0).saturating_add(1)..=latest).collect()
    };
    let behind: Vec<u32> = all.into_iter().skip(request.skip as usize).collect();
    let numbers = behind.iter().copied().take(size as usize);
    let aggregates = &keyspace.tables.aggregates;
    let stored = each(numbers, |number| async move {
        let key = revision_key(number);
        let found = aggregates.row(&keyspace.cql, org, id, (Part::Revision, &key), Strength::Quorum).await?;
        Ok(found.map(|bytes| (number, bytes)))
    })
    .await?;
    let mut page = Page { items: Vec::new(), next: None, total: u64::from(latest) };
    let (mut bytes, mut last) = (0_usize, None);
    for (number, stored) in stored {
        if bytes >= PAGE_BYTES {
            break;
        }
        bytes = bytes.saturating_add(stored.len());
        page.items.push(decode(&stored)?);
        last = Some(number);
    }
    if let Some(last) = last.filter(|last| behind.last() != Some(last)) {
        page.next = Some(page_token::encode(scope, "", &last.to_be_bytes()));
    }
    Ok(page)
}
