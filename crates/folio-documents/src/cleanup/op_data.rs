//! Removes the data of op rows a day after its turn, or its request, ended.
//!
//! Until then a recovered call, or a repeated request, returns the recorded data, even if the target changed since. A
//! turn that has not ended a day after a write keeps the data; so does a turn that may have ended less than a day ago, and one
//! of an unreadable thread.

use folio_history::thread::ThreadHeader;
use folio_storage::Stores;
use folio_storage::value::OpDataIndexRow;
use folio_types::op::OpKey;
use folio_types::{Result, Timestamp, limits};

/// Maximum number of rows of the index that are read, and removed, at once.
const ROWS_AT_ONCE: usize = 100;

pub(super) async fn sweep(stores: &Stores, now: Timestamp) -> Result<()> {
    let before = now.checked_sub(limits::DAY).unwrap_or(Timestamp::MIN);
    loop {
        let due = stores.ops.indexed_data(before, ROWS_AT_ONCE).await?;
        let (read, mut ended) = (due.len(), Vec::new());
        for row in due {
            let header = match &row.op {
                OpKey::Call(call) => {
                    let (org, thread) = (&row.org, &call.turn.thread);
                    let header = stores.threads.header(org, thread).await;
                    stores.unreadable.skip(format_args!("thread {thread} of {org}"), header)?
                }
                OpKey::Request { .. } => Some(None),
            };
            let later = match header {
                Some(header) => deferred(&row, header.as_ref(), now),
                // The data of a call of an unreadable thread is kept.
                None => Some(OpDataIndexRow { at: now, ..row.clone() }),
            };
            match later {
                Some(later) => stores.ops.defer_data(row, later).await?,
                None => ended.push(row),
            }
        }
        stores.ops.remove_data(ended).await?;
        if read < ROWS_AT_ONCE {
            return Ok(());
        }
    }
}

/// Returns the row of data that is kept for another day. `header`: that of the call's thread. None: the data is removed.
fn deferred(row: &OpDataIndexRow, header: Option<&ThreadHeader>, now: Timestamp) -> Option<OpDataIndexRow> {
    let (OpKey::Call(call), Some(header)) = (&row.op, header) else { return None };
    let is_open = header.open_turn.as_ref().is_some_and(|open| open.number == call.turn.number);
    let ended_before = header.updated_at.checked_add(limits::DAY).is_ok_and(|end| end <= now);
    (is_open || !(row.has_ended || ended_before)).then(|| OpDataIndexRow {
        at: now,
        has_ended: !is_open,
        ..row.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, MutexGuard};

    use async_trait::async_trait;
    use folio_history::thread::{NewThread, OpenTurn, Phase};
    use folio_storage::{OpStore, ThreadStore};
    use folio_storage_conformance::layer::{Layered, OpLayer, ThreadLayer};
    use folio_storage_embedded::{EmbeddedStore, Options};
    use folio_types::{CallId, Error, OrgId, Principal, Role, ThreadId, TurnId, UserId};

    use super::*;

    /// The index of the data, in the memory of the test.
    struct Index(Mutex<Vec<OpDataIndexRow>>);

    impl Index {
        fn rows(&self) -> MutexGuard<'_, Vec<OpDataIndexRow>> {
            self.0.lock().unwrap()
        }
    }

    #[async_trait]
    impl OpLayer for Index {
        async fn indexed_data(&self, _: &dyn OpStore, before: Timestamp, limit: usize) -> Result<Vec<OpDataIndexRow>> {
            Ok(self.rows().iter().filter(|row| row.at <= before).take(limit).cloned().collect())
        }

        async fn remove_data(&self, _: &dyn OpStore, removed: Vec<OpDataIndexRow>) -> Result<()> {
            self.rows().retain(|row| !removed.contains(row));
            Ok(())
        }

        async fn defer_data(&self, _: &dyn OpStore, before: OpDataIndexRow, after: OpDataIndexRow) -> Result<()> {
            self.rows().iter_mut().filter(|row| **row == before).for_each(|row| *row = after.clone());
            Ok(())
        }
    }

    /// Threads whose headers are unreadable.
    struct Unreadable;

    #[async_trait]
    impl ThreadLayer for Unreadable {
        async fn header(&self, _: &dyn ThreadStore, _: &OrgId, _: &ThreadId) -> Result<Option<ThreadHeader>> {
            Err(Error::stored_format("the header is malformed"))
        }
    }

    #[tokio::test]
    async fn an_unreadable_thread_keeps_its_own_data_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let now = Timestamp::constant(1_800_000_000, 0);
        let row = |id: &str, op: OpKey| OpDataIndexRow {
            org: OrgId::derive(&["o"]),
            id: id.to_owned(),
            version: 1,
            op,
            at: now - limits::DAY,
            has_ended: false,
        };
        let call = OpKey::Call(CallId::new(TurnId::new(ThreadId::derive(&["t"]), 1), 1, 1));
        let request = OpKey::Request { user: UserId::derive(&["u"]), request: "r".parse().unwrap() };
        let unreadable = row("ext_1", call);
        let index = Arc::new(Index(Mutex::new(vec![unreadable.clone(), row("ext_2", request)])));
        let stores = store.stores();
        let ops = Layered::over(Arc::clone(&index), &stores.ops);
        let threads = Layered::over(Unreadable, &stores.threads);
        let stores = Stores { ops, threads, ..stores };
        sweep(&stores, now).await.unwrap();
        assert_eq!(*index.rows(), [OpDataIndexRow { at: now, ..unreadable }]);
        assert_eq!(stores.unreadable.count(), 1);
        drop(stores);
        store.close().await;
    }

    #[test]
    fn data_is_kept_until_a_day_after_its_turn_ended() {
        let now = Timestamp::constant(1_800_000_000, 0);
        let (org, user, thread) = (OrgId::derive(&["o"]), UserId::derive(&["u"]), ThreadId::derive(&["t"]));
        let principal = Principal::new(org.clone(), user.clone(), Role::Member);
        let call = |turn| OpKey::Call(CallId::new(TurnId::new(thread.clone(), turn), 1, 1));
        let row = |op, has_ended| OpDataIndexRow {
            org: org.clone(),
            id: "ext_1".to_owned(),
            version: 1,
            op,
            at: now - limits::DAY,
            has_ended,
        };
        let header = |open: Option<u32>, updated_at| ThreadHeader {
            open_turn: open.map(|number| OpenTurn { number, phase: Phase::Paused, expires_at: None }),
            updated_at,
            ..NewThread::new(thread.clone(), &principal, "document", Vec::new(), now).header()
        };
        let long_ago = now - limits::DAY;
        let request = OpKey::Request { user, request: "r".parse().unwrap() };
        assert_eq!(deferred(&row(request, false), None, now), None, "a request");
        assert_eq!(deferred(&row(call(1), false), None, now), None, "a removed thread");
        for (header, has_ended, later) in [
            (header(Some(1), long_ago), false, Some(false)),
            (header(Some(1), long_ago), true, Some(false)),
            (header(None, now), false, Some(true)),
            (header(Some(2), now), false, Some(true)),
            (header(Some(2), now), true, None),
            (header(None, long_ago), false, None),
        ] {
            let found = deferred(&row(call(1), has_ended), Some(&header), now);
            assert!(found.iter().all(|found| found.at == now));
            assert_eq!(found.map(|found| found.has_ended), later, "{:?} {has_ended}", header.open_turn);
        }
    }
}
