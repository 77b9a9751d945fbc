//! Tests of the passes on the embedded store, with prompts that have the retention of documents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use folio_resources::{NewPrompt, Prompt, PromptChange};
use folio_storage::{ResourceExecutor, Stores};
use folio_storage_conformance::layer::{Layered, ResourceLayer};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::{OrgId, PromptId, Reason, limits};

use super::*;

/// Rows of a page in these tests.
const ROWS: usize = 2;
/// A batch that no test reaches.
const UNBOUNDED: usize = 1_000;
const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

/// The calls of the passes, and the calls that fail.
#[derive(Default)]
struct Calls {
    /// Number of pages that were requested.
    pages: usize,
    /// Number of the page that cannot be read.
    failing_page: Option<usize>,
    /// Number of confirmations by id.
    confirmed: BTreeMap<String, usize>,
    /// Complete clean-ups, each with whether it was final.
    cleaned: Vec<(String, bool)>,
    /// The id whose clean-up fails.
    failing: Option<String>,
    /// The id whose deletion is not confirmed.
    in_progress: Option<String>,
}

#[derive(Default)]
struct Recorder(Mutex<Calls>);

impl Recorder {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap()
    }
}

fn unavailable() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "the store is down")
}

#[async_trait]
impl ResourceLayer for Recorder {
    async fn indexed_deletions(
        &self,
        below: &dyn ResourceExecutor,
        kind: &'static Kind,
        times: &RangeInclusive<Timestamp>,
        after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>> {
        {
            let mut calls = self.calls();
            calls.pages += 1;
            if calls.failing_page == Some(calls.pages) {
                return Err(unavailable());
            }
        }
        below.indexed_deletions(kind, times, after, limit).await
    }

    async fn confirm_deletion(
        &self,
        below: &dyn ResourceExecutor,
        kind: &'static Kind,
        row: &DeletionRow,
    ) -> Result<bool> {
        {
            let mut calls = self.calls();
            *calls.confirmed.entry(row.id.clone()).or_default() += 1;
            if calls.in_progress.as_ref() == Some(&row.id) {
                return Ok(false);
            }
        }
        below.confirm_deletion(kind, row).await
    }

    async fn clean_deleted(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        kind: &'static Kind,
        id: &str,
        is_final: bool,
    ) -> Result<()> {
        {
            let mut calls = self.calls();
            if calls.failing.as_deref() == Some(id) {
                return Err(unavailable());
            }
            calls.cleaned.push((id.to_owned(), is_final));
        }
        below.clean_deleted(org, kind, id, is_final).await
    }
}

struct Fixture {
    _folder: tempfile::TempDir,
    _store: EmbeddedStore,
    stores: Stores,
    recorder: Arc<Recorder>,
    org: OrgId,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let (stores, recorder) = (store.stores(), Arc::new(Recorder::default()));
        let resources = Layered::over(Arc::clone(&recorder), &stores.resources);
        let stores = Stores { resources, ..stores };
        Self { _folder: folder, _store: store, stores, recorder, org: OrgId::derive(&["an organization"]) }
    }

    fn deletions(&self, batch: usize) -> Deletions {
        let removal = Removal { stores: self.stores.clone() };
        let mut deletions = Deletions::new(removal, Kind::get::<Prompt>(), Some(limits::DAY), batch);
        deletions.cleaner.page_rows = ROWS;
        deletions
    }

    /// Creates a prompt and deletes it at a time. Returns its id.
    async fn delete(&self, name: &str, at: Timestamp) -> String {
        let (id, content) = (PromptId::derive(&[name]), "Read it.".to_owned());
        let create = PromptChange::Create(NewPrompt { name: name.to_owned(), content, ..NewPrompt::default() });
        for (op, expected, change) in
            [("create", Expected::Absent, create), ("delete", Expected::Version(1), PromptChange::Delete)]
        {
            let key = format!("{op}-{name}").parse().unwrap();
            let write = Write::by_platform(self.org.clone(), key, at, expected, change);
            let decided = self.stores.of::<Prompt>().decide(&id, write).await.unwrap();
            assert!(matches!(decided, WriteOutcome::Row(_)), "{decided:?}");
        }
        id.to_string()
    }

    /// Deletes prompts in consecutive seconds from the start on. Returns their ids in this order.
    async fn delete_many(&self, count: i64) -> Vec<String> {
        let mut ids = Vec::new();
        for number in 0..count {
            ids.push(self.delete(&format!("prompt-{number}"), at(number)).await);
        }
        ids
    }

    /// Returns the ids of the first clean-ups, or of the final ones, in alphabetical order.
    fn cleaned(&self, is_final: bool) -> Vec<String> {
        let calls = self.recorder.calls();
        let found = calls.cleaned.iter().filter(|(_, of_final)| *of_final == is_final);
        sorted(&found.map(|(id, _)| id.clone()).collect::<Vec<_>>())
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_deletion_is_cleaned_up_once_and_finally_after_its_retention() {
    let fixture = Fixture::new();
    let (ids, mut deletions) = (fixture.delete_many(5).await, fixture.deletions(UNBOUNDED));
    for now in [10, 20, HOUR, HOUR + 10, 2 * HOUR] {
        assert!(!deletions.sweep(at(now)).await.unwrap());
        assert_eq!(fixture.cleaned(false), sorted(&ids), "after {now} seconds");
        assert_eq!(fixture.cleaned(true), Vec::<String>::new());
    }
    let once: BTreeMap<String, usize> = ids.iter().map(|id| (id.clone(), 1)).collect();
    assert_eq!(fixture.recorder.calls().confirmed, once);
    assert!(deletions.cleaned.later.is_empty(), "a memory of {:?}", deletions.cleaned.later);

    for _ in 0..2 {
        assert!(!deletions.sweep(at(DAY + 10)).await.unwrap());
        assert_eq!((fixture.cleaned(false), fixture.cleaned(true)), (sorted(&ids), sorted(&ids)));
    }
    let times = Timestamp::MIN..=Timestamp::MAX;
    let left = fixture.stores.of::<Prompt>().indexed_deletions(&times, None, UNBOUNDED).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn without_a_retention_the_first_clean_up_is_final() {
    let fixture = Fixture::new();
    let ids = fixture.delete_many(5).await;
    let removal = Removal { stores: fixture.stores.clone() };
    let mut deletions = Deletions::new(removal, Kind::get::<Prompt>(), None, UNBOUNDED);
    // The clock of the process that deleted the prompts may be ahead.
    for now in [-10, 10] {
        assert!(!deletions.sweep(at(now)).await.unwrap());
        assert_eq!((fixture.cleaned(false), fixture.cleaned(true)), (vec![], sorted(&ids)));
    }
}

#[tokio::test]
async fn a_row_that_is_entered_after_a_sweep_with_an_earlier_time_is_found() {
    let (fixture, now) = (Fixture::new(), at(HOUR));
    let mut deletions = fixture.deletions(UNBOUNDED);
    assert!(!deletions.sweep(now).await.unwrap());
    let bound = now - LATE_MAX;
    let in_time = fixture.delete("in-time", bound).await;
    let too_late = fixture.delete("too-late", bound - Duration::from_secs(1)).await;
    assert!(!deletions.sweep(now + Duration::from_secs(1)).await.unwrap());
    assert_eq!(fixture.cleaned(false), [in_time], "within the bound");
    assert!(!deletions.sweep(bound - Duration::from_secs(1) + limits::DAY).await.unwrap());
    assert_eq!(fixture.cleaned(true), [too_late], "the final pass reads every deletion");
}

#[tokio::test]
async fn a_failed_clean_up_delays_no_other_deletion_and_is_repeated() {
    let fixture = Fixture::new();
    let (ids, mut deletions) = (fixture.delete_many(5).await, fixture.deletions(UNBOUNDED));
    let others: Vec<_> = ids.iter().filter(|id| **id != ids[2]).cloned().collect();
    fixture.recorder.calls().failing = Some(ids[2].clone());
    for now in [10, 20, HOUR, HOUR + 10, 2 * HOUR, 2 * HOUR + 10] {
        assert!(!deletions.sweep(at(now)).await.unwrap(), "a failure waits for the next interval");
    }
    assert_eq!(fixture.cleaned(false), sorted(&others), "each of them once");
    fixture.recorder.calls().failing = None;
    for now in [3 * HOUR, 4 * HOUR] {
        assert!(!deletions.sweep(at(now)).await.unwrap());
        assert_eq!(fixture.cleaned(false), sorted(&ids));
    }
    assert!(deletions.cleaned.later.is_empty(), "a memory of {:?}", deletions.cleaned.later);
}

#[tokio::test]
async fn a_pass_continues_after_the_last_page_that_was_read() {
    let fixture = Fixture::new();
    let (ids, mut deletions) = (fixture.delete_many(5).await, fixture.deletions(UNBOUNDED));
    fixture.recorder.calls().failing_page = Some(2);
    deletions.sweep(at(10)).await.unwrap_err();
    assert_eq!(fixture.cleaned(false), sorted(&ids[..ROWS]));
    assert!(!deletions.sweep(at(20)).await.unwrap());
    assert_eq!(fixture.cleaned(false), sorted(&ids));
    // The first page, the one that failed, two further ones, and that of the final pass.
    assert_eq!(fixture.recorder.calls().pages, 5);
}

#[tokio::test]
async fn invariant_10_a_sweep_reads_at_most_its_maximum_and_the_next_one_continues() {
    let fixture = Fixture::new();
    let (ids, mut deletions) = (fixture.delete_many(5).await, fixture.deletions(ROWS));
    for (now, is_final) in [(10, false), (DAY + 10, true)] {
        for (cleaned, has_more) in [(2, true), (4, true), (5, false)] {
            assert_eq!(deletions.sweep(at(now)).await.unwrap(), has_more, "after {cleaned} deletions");
            assert_eq!(fixture.cleaned(is_final).len(), cleaned);
        }
        assert_eq!(fixture.cleaned(is_final), sorted(&ids));
    }
}

#[tokio::test]
async fn a_deletion_in_progress_is_confirmed_again_by_the_next_sweep() {
    let fixture = Fixture::new();
    let (ids, mut deletions) = (fixture.delete_many(1).await, fixture.deletions(UNBOUNDED));
    fixture.recorder.calls().in_progress = Some(ids[0].clone());
    for now in [10, 20] {
        assert!(!deletions.sweep(at(now)).await.unwrap());
        assert_eq!(fixture.cleaned(false), Vec::<String>::new());
    }
    fixture.recorder.calls().in_progress = None;
    for now in [30, 40] {
        assert!(!deletions.sweep(at(now)).await.unwrap());
        assert_eq!(fixture.cleaned(false), ids);
    }
    assert_eq!(fixture.recorder.calls().confirmed[&ids[0]], 3);
}
