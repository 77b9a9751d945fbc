//! Pages of text that belong to resources.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{TextRecord, TextState, text_record_of};
use folio_types::{Error, OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::resources::is_live;
use super::transaction::Transaction;
use super::value::{Count, PageBoxes, PageElements, PageHeadings, PageText, PendingTextRow, decode};
use folio_storage::value::Stored;
use folio_storage::{IngestUpdate, NewPage, PageRow, PendingText, TextStore, TextWait};

/// Maximum size of stored text that is decoded on the calling thread, in bytes. The limit covers the first pages of
/// most files, which every turn reads; decoding takes tens of microseconds. Longer text is read on a blocking thread.
const SHORT_TEXT_BYTES: usize = 64 * 1024;
/// Maximum number of pages that are read on the calling thread.
const FEW_PAGES: u32 = 4;

pub(crate) struct Texts(pub(crate) Arc<Engine>);

#[async_trait]
impl TextStore for Texts {
    async fn ingest(&self, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()> {
        let (org, id) = (org.clone(), id.to_owned());
        let IngestUpdate { state, pages, lacks_program, at } = update;
        if !pages.is_empty() {
            self.0.reserve().check()?;
        }
        let text_bytes = pages.iter().map(NewPage::bytes).sum();
        // Encodes on a blocking thread rather than on the writer's thread, because the text may have megabytes.
        let pages = tokio::task::spawn_blocking(move || pages.into_iter().map(encode_page).collect::<Result<Vec<_>>>())
            .await
            .map_err(|error| Error::internal(format!("text could not be encoded: {error}")))??;
        let bytes = pages.iter().flat_map(|page| &page.rows).map(|(_, value)| value.len()).sum();
        let update = EncodedUpdate { state, pages, text_bytes, lacks_program, at };
        self.0.write_large(bytes, move |transaction| ingest(transaction, &org, &id, update)).await
    }

    async fn text(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageText>> {
        if count <= FEW_PAGES
            && let Some(pages) = self.0.read(|view| text(view, org, id, from, count, SHORT_TEXT_BYTES))?
        {
            return Ok(pages);
        }
        let (org, id) = (org.clone(), id.to_owned());
        let pages = self.0.scan(move |view| text(view, &org, &id, from, count, usize::MAX)).await?;
        Ok(pages.unwrap_or_default())
    }

    async fn boxes(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageBoxes>> {
        self.rows(PageRow::WordBoxes, org, id, (from, count)).await
    }

    async fn headings(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageHeadings>> {
        self.rows(PageRow::Headings, org, id, (from, count)).await
    }

    async fn elements(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageElements>> {
        self.rows(PageRow::Elements, org, id, (from, count)).await
    }

    async fn waiting_texts(
        &self,
        waits_for: TextWait,
        after: Option<&PendingText>,
        limit: usize,
    ) -> Result<Vec<PendingText>> {
        let mut range = Range::prefix(Space::System, keys::pending_texts(waits_for));
        if let Some(PendingText { org, id, .. }) = after {
            range = range.from(keys::after(&keys::pending_text(waits_for, org, id)));
        }
        let index_rows: Vec<PendingTextRow> = self.0.scan_index(range, limit).await?;
        let pending = |PendingTextRow { org, id, attempts }| PendingText { org, id, attempts };
        Ok(index_rows.into_iter().map(pending).collect())
    }
}

impl Texts {
    /// Returns the values of a row of at most `count` pages from number `from` on.
    async fn rows<T: Stored + Send + 'static>(
        &self,
        row: PageRow,
        org: &OrgId,
        id: &str,
        (from, count): (u32, u32),
    ) -> Result<Vec<T>> {
        let (org, id) = (org.clone(), id.to_owned());
        self.0
            .scan(move |view| {
                if !is_live(view, &org, &id)? {
                    return Ok(Vec::new());
                }
                let end = key(row, &org, &id, from.saturating_add(count));
                let range = Range::prefix(Space::Text, keys::pages(&org, &id));
                view.values(range.from(key(row, &org, &id, from)).before(end), count as usize)
            })
            .await
    }
}

fn key(row: PageRow, org: &OrgId, id: &str, page: u32) -> Vec<u8> {
    match row {
        PageRow::Text => keys::page(org, id, page),
        PageRow::WordBoxes => keys::boxes(org, id, page),
        PageRow::Headings => keys::headings(org, id, page),
        PageRow::Elements => keys::elements(org, id, page),
    }
}

/// Adds a new resource to the index of resources whose text waits to be read.
pub(crate) fn wait(transaction: &mut Transaction<'_>, org: &OrgId, id: &str) -> Result<()> {
    let index_row = PendingTextRow { org: org.clone(), id: id.to_owned(), attempts: 0 };
    transaction.put(Space::System, keys::pending_text(TextWait::Worker, org, id), &index_row)
}

/// Removes the state of a text. The pages, which no request reads without the resource, remain for the clean-up.
pub(crate) fn remove_state(transaction: &mut Transaction<'_>, org: &OrgId, id: &str) -> Result<()> {
    transaction.remove(Space::Records, keys::text_state(org, id));
    transaction.remove(Space::Records, keys::content_size(org, id));
    for waits_for in [TextWait::Worker, TextWait::Program] {
        transaction.remove(Space::System, keys::pending_text(waits_for, org, id));
    }
    transaction.remove_all(Space::Records, keys::blob_sizes(org, id))
}

/// Returns None if the stored size of the pages exceeds `bytes`.
fn text(
    reads: &impl Reads,
    org: &OrgId,
    id: &str,
    from: u32,
    count: u32,
    bytes: usize,
) -> Result<Option<Vec<PageText>>> {
    let mut pages = Vec::new();
    if !is_live(reads, org, id)? {
        return Ok(Some(pages));
    }
    let end = keys::page(org, id, from.saturating_add(count));
    let range = Range::prefix(Space::Text, keys::pages(org, id)).from(keys::page(org, id, from)).before(end);
    let mut left = Some(bytes);
    reads.walk(range, &mut |_, stored| {
        left = left.and_then(|left| left.checked_sub(stored.len()));
        if left.is_none() {
            return Ok(ControlFlow::Break(()));
        }
        pages.push(decode(stored)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(left.map(|_| pages))
}

/// A page with its encoded values.
struct EncodedPage {
    number: u32,
    rows: Vec<(PageRow, Vec<u8>)>,
}

fn encode_page(page: NewPage) -> Result<EncodedPage> {
    Ok(EncodedPage { number: page.number, rows: page.encode()? })
}

struct EncodedUpdate {
    state: TextState,
    pages: Vec<EncodedPage>,
    text_bytes: u64,
    lacks_program: bool,
    at: Timestamp,
}

fn ingest(transaction: &mut Transaction<'_>, org: &OrgId, id: &str, update: EncodedUpdate) -> Result<()> {
    let EncodedUpdate { state, pages, text_bytes, lacks_program, at } = update;
    if !is_live(transaction, org, id)? {
        return Ok(());
    }
    transaction.remove_all(Space::Text, keys::pages(org, id))?;
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    match text_bytes {
        0 => transaction.remove(Space::Records, keys::content_size(org, id)),
        bytes => transaction.put(Space::Records, keys::content_size(org, id), &Count(bytes))?,
    }
    for EncodedPage { number, rows } in pages {
        for (row, value) in rows {
            transaction.put_bytes(Space::Text, key(row, org, id, number), value)?;
        }
    }
    let state_key = keys::text_state(org, id);
    let before: Option<TextRecord> = transaction.read(Space::Records, &state_key)?;
    let record = text_record_of(before.as_ref(), state, count, lacks_program, at);
    for waits_for in [TextWait::Worker, TextWait::Program] {
        transaction.remove(Space::System, keys::pending_text(waits_for, org, id));
    }
    if let Some(waits_for) = TextWait::of(Some(&record)) {
        let index_row = PendingTextRow { org: org.clone(), id: id.to_owned(), attempts: record.attempts };
        transaction.put(Space::System, keys::pending_text(waits_for, org, id), &index_row)?;
    }
    transaction.put(Space::Records, state_key, &record)
}
