//! Pages of messages, compared with the messages of the whole journal, and the number of reads that they cost.

use std::sync::Mutex;

use async_trait::async_trait;
use folio_history::journal::{Accepted, End, Ended};
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter};
use folio_types::message::FinishReason;
use folio_types::op::OpKey;
use folio_types::page::{Page, PageRequest};
use folio_types::{OrgId, Principal, RequestId, Role, ThreadId, Timestamp, UserId};

use super::*;

/// A journal in memory that counts reads and read entries.
struct Journal {
    entries: Vec<Entry>,
    read: Mutex<(usize, usize)>,
}

impl Journal {
    /// Turns as an owner writes them. `turns` are their truncations; `has_positions` states whether positions are
    /// stored.
    fn of(turns: impl IntoIterator<Item = Option<u32>>, has_positions: bool) -> Self {
        let mut history = History::new();
        let mut entries = Vec::new();
        for (turn, truncate_to) in (1u32..).zip(turns) {
            let position = has_positions.then(|| history.position(truncate_to));
            let (request, user) = (format!("r-{turn}").parse().unwrap(), UserId::derive(&["u"]));
            let accepted = Accepted::new(turn, request, user, &format!("question {turn}"), Timestamp::UNIX_EPOCH);
            let accepted = Entry::Accepted(Box::new(Accepted { truncate_to, position, ..accepted }));
            let text = format!("answer {turn}");
            let end = match turn % 5 {
                0 => End::Cancelled,
                _ => End::Completed { text, thinking: vec![], finish: FinishReason::Stop },
            };
            let ended = Entry::Ended(Box::new(Ended::new(turn, end, 1, Timestamp::UNIX_EPOCH)));
            for entry in [accepted, ended] {
                history.push(entry.clone());
                entries.push(entry);
            }
        }
        Self { entries, read: Mutex::default() }
    }

    fn header(&self) -> ThreadHeader {
        let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member);
        let id = ThreadId::derive(&["t"]);
        let new = NewThread::new(id, &principal, "document", vec![], Timestamp::UNIX_EPOCH);
        ThreadHeader { entries: self.entries.len() as u64, ..new.header() }
    }

    /// Returns the number of reads and of read entries since the previous call.
    fn cost(&self) -> (usize, usize) {
        std::mem::take(&mut *self.read.lock().unwrap())
    }
}

/// Implements the store. The methods in braces are never called.
macro_rules! journal_store {
    { $($method:ident($($argument:ty),*) -> $output:ty;)+ } => {
        #[async_trait]
        impl ThreadStore for Journal {
            async fn entries(&self, _: &OrgId, _: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>> {
                let found: Vec<_> = (0..).zip(self.entries.iter().cloned()).skip(from as usize).take(limit).collect();
                let mut read = self.read.lock().unwrap();
                *read = (read.0 + 1, read.1 + found.len());
                Ok(found)
            }

            $(async fn $method(&self, $(_: $argument),*) -> Result<$output> {
                Err(Error::internal("unexpected call"))
            })+
        }
    };
}

journal_store! {
    create(NewThread) -> ThreadHeader;
    begin(NewThread, Append) -> Appended;
    header(&OrgId, &ThreadId) -> Option<ThreadHeader>;
    append(&OrgId, &ThreadId, Append) -> Appended;
    has_batch(&OrgId, &ThreadId, u128) -> bool;
    request(&OrgId, &ThreadId, &RequestId) -> Option<RequestRow>;
    list(&OrgId, &ThreadFilter, &PageRequest) -> Page<ThreadHeader>;
    delete(&OrgId, &ThreadId, Option<&OpKey>) -> ();
    remove_unused(&OrgId, &ThreadId) -> bool;
    removed_by(&OrgId, &ThreadId) -> Option<OpKey>;
    expired(Timestamp, usize) -> Vec<(OrgId, ThreadId)>;
    expire_referrers(&OrgId, &str, Timestamp) -> ();
    expire_unused(&OrgId, &ThreadId, Fence, Timestamp) -> bool;
}

/// Returns every visible message, computed from the whole journal.
async fn all(journal: &Journal, header: &ThreadHeader) -> Vec<ThreadMessage> {
    visible(header, &history(journal, header).await.unwrap(), 0).collect()
}

async fn at(journal: &Journal, positions: impl IntoIterator<Item = usize>) -> Vec<ThreadMessage> {
    let header = journal.header();
    let mut reader = Reader::open(journal, &header).await.unwrap().unwrap();
    let mut found = Vec::new();
    for position in positions {
        found.push(reader.message(position).await.unwrap().unwrap());
    }
    found
}

#[tokio::test]
async fn a_message_at_a_position_equals_that_of_the_whole_journal() {
    let seed = folio_testkit::seed();
    for round in 0..40u64 {
        let turns = (0..round).map(|turn| {
            let dice = seed.wrapping_add(round * 131 + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            dice.is_multiple_of(3).then_some((dice / 3 % 40) as u32)
        });
        let journal = Journal::of(turns, true);
        let header = journal.header();
        let whole = all(&journal, &header).await;
        assert_eq!(at(&journal, 0..whole.len()).await, whole, "round {round}");
        let mut backwards = at(&journal, (0..whole.len()).rev()).await;
        backwards.reverse();
        assert_eq!(backwards, whole, "round {round}");
        let mut reader = Reader::open(&journal, &header).await.unwrap().unwrap();
        assert_eq!(reader.total(), whole.len());
        assert!(reader.message(whole.len()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn the_cost_of_a_page_depends_on_its_size_and_not_on_its_position() {
    let journal = Journal::of((0..2_000).map(|_| None), true);
    let whole = all(&journal, &journal.header()).await;
    let (_, every) = journal.cost();
    assert_eq!(every, 4_000);
    for first in [0, 1, whole.len() / 3, whole.len() / 2, whole.len() - 50] {
        let page = at(&journal, first..first + 50).await;
        assert_eq!(page, whole[first..first + 50]);
        let (reads, entries) = journal.cost();
        assert!(reads < 150 && entries < 700, "a page at {first}: {reads} reads of {entries} entries");
    }
    at(&journal, (0..50).map(|back| whole.len() - 1 - back)).await;
    let (reads, entries) = journal.cost();
    assert!(reads < 150 && entries < 600, "the newest page: {reads} reads of {entries} entries");
}

#[tokio::test]
async fn a_journal_without_stored_positions_is_read_completely() {
    let journal = Journal::of([None, None], false);
    assert!(Reader::open(&journal, &journal.header()).await.unwrap().is_none());
    let empty = Journal::of([], true);
    assert_eq!(Reader::open(&empty, &empty.header()).await.unwrap().unwrap().total(), 0);
}
