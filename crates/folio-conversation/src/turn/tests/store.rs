//! A store in memory with the same conditional writes as the real stores.

use std::collections::{BTreeMap, BTreeSet};

use folio_history::journal::{CallStatus, Entry, Intent};
use folio_history::thread::{Append, Appended, NewThread, OpenTurnRow, RequestRow, ThreadHeader};
use folio_types::op::Expected;
use folio_types::{CallId, OrgId, Principal, RequestId, Role, ThreadId, Timestamp, UserId};

use super::rig::result;
use crate::turn::ToolResult;

/// A thread's partition and the index of open turns.
#[derive(Debug, Clone)]
pub(super) struct ThreadRow {
    pub(super) header: ThreadHeader,
    pub(super) entries: Vec<Entry>,
    pub(super) batches: BTreeSet<u128>,
    pub(super) requests: BTreeMap<RequestId, RequestRow>,
    pub(super) open_rows: BTreeSet<(u32, u64)>,
    pub(super) is_fenced: bool,
}

impl ThreadRow {
    pub(super) fn new() -> Self {
        let principal = Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member);
        let new = NewThread::new(ThreadId::derive(&["thread"]), &principal, "document", vec![], start_time());
        Self {
            header: new.header(),
            entries: Vec::new(),
            batches: BTreeSet::new(),
            requests: BTreeMap::new(),
            open_rows: BTreeSet::new(),
            is_fenced: true,
        }
    }

    pub(super) fn append(&mut self, append: &Append) -> Appended {
        let header = &mut self.header;
        let is_current = header.fence() == append.fence;
        let existing = append.request.as_ref().and_then(|row| self.requests.get(&row.request)).cloned();
        if (self.is_fenced && !is_current) || existing.is_some() {
            return Appended::Refused { header: Box::new(header.clone()), request: existing };
        }
        header.version += 1;
        if let Some((epoch, owner)) = &append.new_owner {
            header.epoch = *epoch;
            header.owner = Some(owner.clone());
        }
        let change = append.change.clone();
        header.open_turn = change.open_turn.unwrap_or(header.open_turn.take());
        header.working = change.working.unwrap_or_else(|| header.working.clone());
        header.title = change.title.unwrap_or_else(|| header.title.clone());
        header.model = change.model.or(header.model.take());
        header.turns = change.turns.unwrap_or(header.turns);
        header.entries += append.entries.len() as u64;
        let bytes: usize = append.entries.iter().map(folio_history::json_bytes).sum();
        assert!(bytes <= folio_types::limits::APPEND_BYTES, "an append has {bytes} bytes");
        for entry in &append.entries {
            let bytes = folio_history::json_bytes(entry);
            assert!(bytes <= folio_types::limits::ENTRY_BYTES, "an entry has {bytes} bytes");
        }
        header.bytes += bytes as u64;
        self.entries.extend(append.entries.iter().cloned());
        self.batches.insert(append.batch);
        if let Some(row) = &append.request {
            self.requests.insert(row.request.clone(), row.clone());
        }
        Appended::Done(Box::new(header.clone()))
    }

    pub(super) fn open(&mut self, row: &OpenTurnRow) {
        self.open_rows.insert((row.turn.number, row.epoch));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum OpOutcome {
    Done,
    Conflict,
    Aborted,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RecordedEffect {
    /// `turn.round.index` of the call.
    pub call: String,
    pub tool: String,
    /// Version of the target that the effect overwrote.
    pub overwritten: u64,
}

/// The aggregates that calls change: one for each target, with its version and op rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Aggregates {
    /// Version by target, 0: absent.
    pub versions: BTreeMap<String, u64>,
    pub rows: BTreeMap<(String, String), OpOutcome>,
    pub effects: Vec<RecordedEffect>,
}

impl Aggregates {
    fn key(call: &CallId, intent: &Intent) -> (String, String) {
        (intent.target.to_string(), format!("{}.{}.{}", call.turn.number, call.round, call.index))
    }

    pub(super) fn row(&self, call: &CallId, intent: &Intent) -> Option<OpOutcome> {
        self.rows.get(&Self::key(call, intent)).copied()
    }

    /// Makes the deciding write. Returns the op row, or none if the target has changed.
    pub(super) fn write(&mut self, call: &CallId, tool: &str, intent: &Intent) -> Option<OpOutcome> {
        self.row(call, intent).or_else(|| self.write_unconditionally(call, tool, intent))
    }

    /// Makes the deciding write without reading the op row.
    pub(super) fn write_unconditionally(&mut self, call: &CallId, tool: &str, intent: &Intent) -> Option<OpOutcome> {
        let key = Self::key(call, intent);
        let version = self.versions.entry(key.0.clone()).or_default();
        if *version != expected(intent) {
            return None;
        }
        self.effects.push(RecordedEffect { call: key.1.clone(), tool: tool.into(), overwritten: *version });
        *version += 1;
        self.rows.insert(key, OpOutcome::Done);
        Some(OpOutcome::Done)
    }

    /// Closes the op unless its row exists.
    pub(super) fn close(&mut self, call: &CallId, intent: &Intent, outcome: OpOutcome) -> OpOutcome {
        *self.rows.entry(Self::key(call, intent)).or_insert(outcome)
    }

    /// Executes all steps of a recovery: the write, or closing the op as a conflict.
    pub(super) fn recover(&mut self, call: &CallId, tool: &str, intent: &Intent) -> OpOutcome {
        self.write(call, tool, intent).unwrap_or_else(|| self.close(call, intent, OpOutcome::Conflict))
    }

    /// Returns the calls that took effect, in order.
    pub(super) fn calls(&self) -> Vec<&str> {
        self.effects.iter().map(|effect| effect.call.as_str()).collect()
    }
}

/// Returns the version that an intent expects. 0: absent.
pub(super) fn expected(intent: &Intent) -> u64 {
    match intent.expected {
        Expected::Absent => 0,
        Expected::Version(version) => version,
    }
}

pub(super) fn tool_result(outcome: OpOutcome) -> ToolResult {
    let (status, content) = match outcome {
        OpOutcome::Done => (CallStatus::Ok, r#"{"made_id":"x_1"}"#),
        OpOutcome::Conflict => (CallStatus::Conflict, "conflict"),
        OpOutcome::Aborted => (CallStatus::Cancelled, "aborted"),
    };
    ToolResult { status, ..result(content) }
}

pub(super) fn start_time() -> Timestamp {
    Timestamp::constant(1_790_000_000, 0)
}
