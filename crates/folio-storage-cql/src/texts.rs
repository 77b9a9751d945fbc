//! Pages of text that belong to resources.
//!
//! Each text is written under a new generation. The generation is first entered in the resource's partition. After all
//! pages are written, one conditional write makes the generation valid, and the previous generation is removed. The
//! clean-up of a deleted resource finds generations that never became valid by their entries.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{TextRecord, TextState, text_record_of};
use folio_types::{Error, OrgId, Result};
use futures::stream::TryStreamExt as _;

use super::key_pages::KeyPages;
use super::keyspace::Keyspace;
use super::record::load;
use super::resources::key;
use super::session::{ConditionalResult, Read};
use super::table::{ALL_TIMES, Header, Part, SystemRow};
use super::{content_sizes, dependents, retry};
use folio_storage::value::{PageBoxes, PageElements, PageHeadings, PageText, PendingTextRow, Stored, decode, encode};
use folio_storage::{IngestUpdate, NewPage, PageRow, PendingText, TextStore, TextWait};

/// Maximum number of pages that are written concurrently.
const WRITE_CONCURRENCY: usize = 16;

/// Adds a resource to an index of waiting resources. The row is a hint; the resource's partition is authoritative.
pub(crate) async fn wait(keyspace: &Keyspace, waits_for: TextWait, org: &OrgId, id: &str) -> Result<()> {
    let index_row = PendingTextRow { org: org.clone(), id: id.to_owned(), attempts: 0 };
    keyspace
        .tables
        .system_rows
        .put(waits_for.index_name(), SystemRow { at: 0, key: key(org, id), value: encode(&index_row)? })
        .await
}

pub(crate) async fn remove_wait(keyspace: &Keyspace, waits_for: TextWait, org: &OrgId, id: &str) -> Result<()> {
    keyspace.tables.system_rows.remove(waits_for.index_name(), 0, &key(org, id)).await
}

fn text_of(header: &Header) -> Result<Option<TextRecord>> {
    header.text_state.as_deref().map(decode).transpose()
}

async fn waiting(
    keyspace: &Keyspace,
    waits_for: TextWait,
    after: Option<&PendingText>,
    limit: usize,
) -> Result<Vec<PendingText>> {
    let (mut found, mut after) = (Vec::new(), after.map(|PendingText { org, id, .. }| (0, key(org, id))));
    while found.len() < limit {
        let (index, missing) = (waits_for.index_name(), limit - found.len());
        let rows = keyspace.tables.system_rows.after(index, ALL_TIMES, after.take(), missing).await?;
        let Some(last) = rows.last() else { break };
        after = Some((last.at, last.key.clone()));
        for row in rows {
            let Some(PendingTextRow { org, id, .. }) = keyspace.decode_row(index, &row.key, &row.value)? else {
                continue;
            };
            let header = keyspace.tables.aggregates.header(&org, &id, Read::Quorum).await?;
            let text = keyspace.unreadable.skip(format_args!("text {}", row.key), text_of(&header))?;
            let Some(text) = text else { continue };
            match (header.live, TextWait::of(text.as_ref())) {
                (Some(true), found_wait) if found_wait == Some(waits_for) => {
                    found.push(PendingText { org, id, attempts: text.map_or(0, |text| text.attempts) });
                }
                // The deciding write of the resource is in progress or never happened. The row is kept, at the cost of
                // a read.
                (None, _) => {}
                (Some(_), _) => remove_wait(keyspace, waits_for, &org, &id).await?,
            }
        }
    }
    Ok(found)
}

async fn ingest(keyspace: &Keyspace, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()> {
    let IngestUpdate { state, pages, lacks_program, at } = update;
    let header = keyspace.tables.aggregates.header(org, id, Read::Quorum).await?;
    if header.live != Some(true) {
        return Ok(());
    }
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    let bytes = pages.iter().map(NewPage::bytes).sum();
    let generation = match pages.is_empty() {
        true => None,
        false => Some(write(keyspace, org, id, pages).await?),
    };
    // The index row is entered before the resource waits and removed after it, so that a waiting resource is never
    // missing.
    let text = TextRecord { generation, ..text_record_of(None, state, count, lacks_program, at) };
    let waits_for = TextWait::of(Some(&text));
    if let Some(waits_for) = waits_for {
        wait(keyspace, waits_for, org, id).await?;
    }
    let is_live = replace(keyspace, org, id, (&text, bytes)).await?;
    for other in [TextWait::Worker, TextWait::Program] {
        if !is_live || waits_for != Some(other) {
            remove_wait(keyspace, other, org, id).await?;
        }
    }
    Ok(())
}

/// Replaces the state of a text of `bytes`; returns whether the resource is live.
async fn replace(keyspace: &Keyspace, org: &OrgId, id: &str, (text, bytes): (&TextRecord, u64)) -> Result<bool> {
    let tables = &keyspace.tables;
    for attempt in 0..retry::ATTEMPTS {
        let header = tables.aggregates.header(org, id, Read::Serial).await?;
        let before = text_of(&header)?;
        if header.live != Some(true) {
            if let Some(generation) = &text.generation {
                tables.text_pages.remove((org, id), generation).await?;
            }
            return Ok(false);
        }
        let begins = u32::from(text.text == TextState::Processing);
        let TextRecord { text: state, pages, generation, lacks_program, at, .. } = text.clone();
        let counted = text_record_of(before.as_ref(), state, pages, lacks_program, at);
        let record = TextRecord { generation, ..counted };
        if before.as_ref() == Some(&record) && begins == 0 {
            // The previous attempt had an unknown outcome and was applied.
            return Ok(true);
        }
        if bytes > 0 || before.as_ref().is_some_and(|before| before.generation.is_some()) {
            content_sizes::put(keyspace, org, id, bytes, header.text_version + 1).await?;
        }
        let change = tables.aggregates.text(org, id, header.text_version, encode(&record)?);
        match keyspace.commit(vec![change]).await? {
            ConditionalResult::Applied => {
                if let Some(old) = before.and_then(|before| before.generation) {
                    tables.text_pages.remove((org, id), &old).await?;
                    dependents::remove(keyspace, org, id, (Part::Text, &old)).await?;
                }
                return Ok(true);
            }
            ConditionalResult::Refused => {}
            ConditionalResult::Unknown(error) if begins == 1 => {
                // A repetition could count the attempt twice and abandon the file too early: the caller retries.
                return Err(error);
            }
            ConditionalResult::Unknown(_) => {}
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the text"))
}

/// Writes pages under a new generation, which is not read before it is valid.
async fn write(keyspace: &Keyspace, org: &OrgId, id: &str, pages: Vec<NewPage>) -> Result<String> {
    let generation = format!("{:032x}", keyspace.random());
    dependents::enter(keyspace, org, id, (Part::Text, &generation)).await?;
    // Encodes on a blocking thread, because the text may have megabytes.
    let encoded = tokio::task::spawn_blocking(move || {
        let mut rows = Vec::with_capacity(2 * pages.len());
        for page in pages {
            let number = page.number;
            rows.extend(page.encode()?.into_iter().map(|(row, value)| ((number, row), value)));
        }
        Ok::<_, Error>(rows)
    });
    let encoded = encoded.await.map_err(|error| Error::internal(format!("text could not be encoded: {error}")))??;
    let name = generation.as_str();
    futures::stream::iter(encoded.into_iter().map(Ok))
        .try_for_each_concurrent(WRITE_CONCURRENCY, |(page, value)| async move {
            keyspace.tables.text_pages.put((org, id), name, page, value).await
        })
        .await?;
    Ok(generation)
}

/// Returns the rows of at most `count` pages from number `from` on.
async fn pages<T: Stored>(
    keyspace: &Keyspace,
    (org, id): (&OrgId, &str),
    row: PageRow,
    (from, count): (u32, u32),
) -> Result<Vec<T>> {
    let loaded = load(keyspace, org, id, Read::Quorum).await?;
    let text = text_of(&loaded.header)?;
    let is_live = loaded.live().is_some();
    let (count_of_all, generation) = text.map_or((0, None), |text| (text.pages, text.generation));
    let Some(generation) = generation.filter(|_| is_live) else { return Ok(Vec::new()) };
    let (mut found, mut next) = (Vec::new(), from);
    let end = from.saturating_add(count).min(count_of_all.saturating_add(1));
    while next < end {
        // A page may have hundreds of kilobytes, so each read returns a bounded number of pages.
        let part = (end - next).min(if row == PageRow::Headings { HEADINGS_PER_READ } else { PAGES_PER_READ });
        let stored = keyspace.tables.text_pages.pages((org, id), &generation, row, (next, part)).await?;
        for bytes in stored {
            found.push(decode(&bytes)?);
        }
        next += part;
    }
    Ok(found)
}

const PAGES_PER_READ: u32 = 32;
/// Number of pages whose headings are read together. A text has a bounded number of headings.
const HEADINGS_PER_READ: u32 = 1_024;

pub(crate) async fn remove_all(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<()> {
    let mut generations = KeyPages::new(keyspace, org, id, Part::Text);
    while let Some(page) = generations.next_page().await? {
        for generation in &page {
            keyspace.tables.text_pages.remove((org, id), generation).await?;
        }
    }
    content_sizes::remove(keyspace, org, id).await
}

pub(crate) struct Texts(pub(crate) Arc<Keyspace>);

#[async_trait]
impl TextStore for Texts {
    async fn ingest(&self, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()> {
        ingest(&self.0, org, id, update).await
    }

    async fn text(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageText>> {
        pages(&self.0, (org, id), PageRow::Text, (from, count)).await
    }

    async fn boxes(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageBoxes>> {
        pages(&self.0, (org, id), PageRow::WordBoxes, (from, count)).await
    }

    async fn headings(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageHeadings>> {
        pages(&self.0, (org, id), PageRow::Headings, (from, count)).await
    }

    async fn elements(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageElements>> {
        pages(&self.0, (org, id), PageRow::Elements, (from, count)).await
    }

    async fn waiting_texts(
        &self,
        waits_for: TextWait,
        after: Option<&PendingText>,
        limit: usize,
    ) -> Result<Vec<PendingText>> {
        waiting(&self.0, waits_for, after, limit).await
    }
}
