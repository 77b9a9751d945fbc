//! Pages of jobs with many items, as rows of a [`RowStore`]. Each job has a partition of its own.

use std::sync::Arc;

use folio_history::job::{JobHeader, JobPage};
use folio_types::{Error, JobId, OrgId, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use super::{ConditionalRow, RowStore};
use crate::value::{Stored as _, decode, encode};

/// Maximum attempts of a write that meets other writes.
const ATTEMPTS: usize = 8;
/// Maximum number of pages that are written concurrently.
const WRITES_AT_ONCE: usize = 16;

/// The pages of jobs, except the page in the header. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JobPageStore(Arc<dyn RowStore>);

fn group(job: &JobId) -> String {
    format!("{}/{job}", JobPage::KIND)
}

/// Returns the key of a page. None: the job has one page, which is in its header.
fn key(header: &JobHeader, page: u32) -> Option<String> {
    header.pages.as_ref().map(|pages| format!("{}/{page:05}", pages.set))
}

impl JobPageStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Checks that new work may be stored. Errors: those of [`RowStore::check_space`].
    pub(crate) async fn check_space(&self) -> Result<()> {
        self.0.check_space().await
    }

    /// Stores the pages after the first one of a job that is not created yet. Idempotent. A page that is stored remains: another
    /// process may have created the job with the same pages, and the owner may have stored the end of a page.
    pub async fn create(&self, header: &JobHeader, pages: &[JobPage]) -> Result<()> {
        let store = |(page, number): (&JobPage, u32)| {
            let page = page.clone();
            async move { self.insert(header, number, &page).await }
        };
        // Collected, because a stream of borrowed pages is not general enough for the bounds of a task.
        let writes: Vec<_> = pages.iter().zip(1..).map(store).collect();
        futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
    }

    /// Stores the current page of a job, all of whose items have ended. Idempotent.
    pub async fn finish(&self, header: &JobHeader) -> Result<()> {
        self.write(header, header.current_page(), &JobPage { items: header.items.clone() }).await
    }

    /// Returns the pages with these numbers, in order. The page in the header is not read.
    ///
    /// # Errors
    /// `INTERNAL` if a page is missing.
    pub async fn pages(&self, header: &JobHeader, numbers: &[u32]) -> Result<Vec<JobPage>> {
        let current = header.current_page();
        let stored: Vec<u32> = numbers.iter().copied().filter(|number| *number != current).collect();
        let keys: Vec<String> = stored.iter().filter_map(|number| key(header, *number)).collect();
        let mut rows = match keys.is_empty() {
            true => Vec::new(),
            false => self.0.get(header.org(), &group(&header.id), &keys).await?,
        }
        .into_iter();
        let mut pages = Vec::with_capacity(numbers.len());
        for number in numbers {
            if *number == current {
                pages.push(JobPage { items: header.items.clone() });
                continue;
            }
            let row = rows.next().flatten();
            let row =
                row.ok_or_else(|| Error::internal(format!("page {number} of the job {} is missing", header.id)))?;
            pages.push(decode(&row)?);
        }
        Ok(pages)
    }

    /// Removes all pages of a job. Idempotent.
    pub async fn remove(&self, org: &OrgId, job: &JobId) -> Result<()> {
        self.0.remove_group(org, &group(job)).await
    }

    async fn insert(&self, header: &JobHeader, number: u32, page: &JobPage) -> Result<()> {
        let Some(key) = key(header, number) else { return Ok(()) };
        let (group, after) = (group(&header.id), encode(page)?);
        let row = ConditionalRow { group, key, before: None, after, guard: None };
        self.0.compare_and_set(header.org(), row).await.map(drop)
    }

    async fn write(&self, header: &JobHeader, number: u32, page: &JobPage) -> Result<()> {
        let Some(key) = key(header, number) else { return Ok(()) };
        let (org, group, after) = (header.org(), group(&header.id), encode(page)?);
        for _ in 0..ATTEMPTS {
            let before = self.0.get(org, &group, std::slice::from_ref(&key)).await?.pop().flatten();
            if before.as_ref() == Some(&after) {
                return Ok(());
            }
            let (group, key, after) = (group.clone(), key.clone(), after.clone());
            if self.0.compare_and_set(org, ConditionalRow { group, key, before, after, guard: None }).await? {
                return Ok(());
            }
        }
        let message = format!("too many concurrent changes of a page of the job {}; retry", header.id);
        Err(Error::version_conflict(message))
    }
}
