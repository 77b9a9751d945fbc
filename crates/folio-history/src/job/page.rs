//! Pages of the items of a job. A job with more than [`JOB_PAGE_ITEMS`] items runs one page after another: the header
//! contains the current page, and the other pages are stored separately.

use folio_types::limits::JOB_PAGE_ITEMS;
use serde::{Deserialize, Serialize};

use super::{ItemState, JobHeader, JobItem};

/// A page of a job's items outside the header. The items of a page before the current one have ended, and those of a page
/// after the current one are pending.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPage {
    pub items: Vec<JobItem>,
}

/// The pages of a job with several pages: their number, the current page, and the counts of the items before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPages {
    /// Digest of the subjects of all items. It identifies the stored pages, so that concurrent creations of the job with other
    /// items do not mix their pages.
    pub set: String,
    /// Number of items of the job.
    pub items: u32,
    /// Number of the page in the header, from 0.
    pub current: u32,
    /// Number of done items before the current page.
    pub done: u32,
    /// Number of failed items before the current page.
    pub failed: u32,
}

/// Returns [`JOB_PAGE_ITEMS`] in the type of item numbers.
fn page_items() -> u32 {
    u32::try_from(JOB_PAGE_ITEMS).unwrap_or(u32::MAX)
}

impl JobPages {
    /// Returns the number of items before the current page.
    pub(super) fn items_before(&self) -> u32 {
        self.current.saturating_mul(page_items())
    }

    /// Returns the number of pages.
    pub fn count(&self) -> u32 {
        self.items.div_ceil(page_items())
    }

    /// Returns the number, from 0, of the page that contains an item. `item`: the number of the item, from 1.
    pub fn page_of(item: u32) -> u32 {
        item.saturating_sub(1) / page_items()
    }
}

impl JobHeader {
    /// Returns the number of pages.
    pub fn page_count(&self) -> u32 {
        self.pages.as_ref().map_or(1, JobPages::count)
    }

    /// Returns the number of the page in the header, from 0.
    pub fn current_page(&self) -> u32 {
        self.pages.as_ref().map_or(0, |pages| pages.current)
    }

    /// Returns the number of the page after the current one. None: the current page is the last one.
    pub fn next_page(&self) -> Option<u32> {
        let next = self.current_page().saturating_add(1);
        (next < self.page_count()).then_some(next)
    }

    /// Replaces the current page by the next one. All items of the current page have ended, and are added to the counts.
    pub(super) fn advance(&mut self, page: JobPage) {
        let count = |wanted: fn(&ItemState) -> bool| {
            let found = self.items.iter().filter(|item| wanted(&item.state)).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        let (done, failed) =
            (count(|state| matches!(state, ItemState::Done)), count(|state| matches!(state, ItemState::Failed(_))));
        if let Some(pages) = &mut self.pages {
            pages.current = pages.current.saturating_add(1);
            pages.done = pages.done.saturating_add(done);
            pages.failed = pages.failed.saturating_add(failed);
        }
        self.items = page.items;
    }
}

/// Returns the pages of a new job with an item for each subject. All items are pending.
pub(super) fn divide(subjects: Vec<String>) -> Vec<JobPage> {
    let mut pages: Vec<JobPage> = Vec::with_capacity(subjects.len().div_ceil(JOB_PAGE_ITEMS));
    for id in subjects {
        let item = JobItem { id, state: ItemState::Pending, attempt: 0, failures: 0, steps: None };
        match pages.last_mut().filter(|page| page.items.len() < JOB_PAGE_ITEMS) {
            Some(page) => page.items.push(item),
            None => pages.push(JobPage { items: vec![item] }),
        }
    }
    pages
}
