//! Truncation of entries and batches to their maximum sizes.

use folio_history::journal::{CallResult, CallStatus, Entry, Outcome, Round, WorkingChange};
use folio_history::json_bytes;
use folio_history::thread::HeaderChange;
use folio_types::limits;
use folio_types::message::{ThinkingBlock, Usage};
use serde_json::Value;

use super::CheckedCall;
use super::append::Draft;

/// Maximum bytes of an entry's content. The rest of [`limits::ENTRY_BYTES`] is for the store's framing.
pub(super) const ENTRY_CONTENT_BYTES: usize = limits::ENTRY_BYTES - 1024;
/// Maximum bytes of the entries of a batch.
const BATCH_CONTENT_BYTES: usize = limits::APPEND_BYTES - 8 * 1024;
/// Maximum bytes of the arguments and repairs of all calls of a round. Together with the other fields of the calls, they
/// fit into an entry.
const ARGUMENTS_OF_ROUND: usize = 136 * 1024;
/// Maximum number of calls that a round keeps. Calls beyond the limit of runnable calls only get an error result.
const CALLS_KEPT: usize = 2 * limits::CALLS_PER_ROUND_MAX;
/// Maximum bytes of a call's `problem`.
const PROBLEM_BYTES: usize = 320;
/// Maximum bytes of the violations in a message by which a model corrects its answer.
const CORRECTION_BYTES: usize = 16 * 1024;
/// Maximum bytes of the answer of a node, with the members that the server adds. Together with the rest of its round, it fits
/// into an entry.
pub(super) const NODE_ANSWER_BYTES: usize = 160 * 1024;
/// Bytes reserved for synthetic results and ids in the entry of a turn's end.
const END_FRAME: usize = 24 * 1024;
/// Maximum bytes of a tool name and of a provider's call id.
const NAME_BYTES: usize = 128;
/// Suffix of a truncated text.
const TRUNCATION_NOTE: &str = "\n[… truncated: the text is too long]";

/// Truncates a text at a character boundary to `raw` bytes of UTF-8 and `escaped` bytes as JSON, and appends [`TRUNCATION_NOTE`].
pub(super) fn truncate(text: &mut String, raw: usize, escaped: usize) {
    if text.len() <= raw && json_fits(text, escaped) {
        return;
    }
    let raw = raw.saturating_sub(TRUNCATION_NOTE.len());
    let mut bytes_left = escaped.saturating_sub(json_bytes(&TRUNCATION_NOTE));
    let mut end = 0;
    for (at, character) in text.char_indices() {
        let size = match character {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            '\0'..='\u{1f}' => 6,
            _ => character.len_utf8(),
        };
        if at + character.len_utf8() > raw || size > bytes_left {
            break;
        }
        bytes_left -= size;
        end = at + character.len_utf8();
    }
    text.truncate(end);
    text.push_str(TRUNCATION_NOTE);
}

/// Truncates a result so that it fits into an entry.
pub(super) fn fit_result(result: &mut CallResult) {
    if json_bytes(&result.change) > ENTRY_CONTENT_BYTES / 2 {
        result.change = WorkingChange::default();
        result.content.insert_str(0, "(The working state was not updated: the change is too large.)\n");
    }
    let bytes_max = ENTRY_CONTENT_BYTES.saturating_sub(json_bytes(&result.change)).saturating_sub(1024);
    truncate(&mut result.content, limits::TOOL_RESULT_BYTES, bytes_max);
}

/// Reduces the calls of an answer so that they fit into an entry. Calls beyond the limit of a round cannot run; calls
/// beyond [`CALLS_KEPT`] are dropped.
pub(super) fn fit_calls(calls: &mut Vec<CheckedCall>) {
    calls.truncate(CALLS_KEPT);
    let many = format!("more than {} calls in one response", limits::CALLS_PER_ROUND_MAX);
    let mut bytes_left = ARGUMENTS_OF_ROUND;
    for (at, call) in calls.iter_mut().enumerate() {
        shorten(&mut call.name);
        shorten(&mut call.provider_id);
        if at >= limits::CALLS_PER_ROUND_MAX {
            call.problem.get_or_insert_with(|| many.clone());
            call.arguments = Value::Object(serde_json::Map::new());
            call.repairs = Vec::new();
        }
        let bytes = json_bytes(&call.arguments);
        let total = bytes.saturating_add(call.repairs.iter().map(json_bytes).sum());
        if total > bytes_left || bytes > limits::ARGUMENTS_BYTES {
            call.problem = Some("the arguments are too large".to_owned());
            call.arguments = Value::Object(serde_json::Map::new());
            call.repairs = Vec::new();
        } else {
            bytes_left -= total;
        }
    }
}

/// Truncates the reason why a call cannot run.
pub(super) fn fit_problem(problem: &mut String) {
    truncate(problem, PROBLEM_BYTES, 2 * PROBLEM_BYTES);
}

/// Truncates the violations in a message by which a model corrects its answer.
pub(super) fn fit_correction(problem: &mut String) {
    truncate(problem, CORRECTION_BYTES, 2 * CORRECTION_BYTES);
}

/// Truncates a round without results so that it fits into an entry. [`fit_calls`], [`fit_problem`] and [`fit_correction`]
/// must have reduced its other content.
pub(super) fn fit_round(round: &mut Round) {
    let rest = json_bytes(&(&round.calls, &round.correction, &round.node));
    fit_text(&mut round.text, &mut round.thinking, ENTRY_CONTENT_BYTES.saturating_sub(rest).saturating_sub(1024));
}

/// Truncates a name that a model returned.
fn shorten(name: &mut String) {
    if name.len() > NAME_BYTES {
        *name = name.chars().take(NAME_BYTES / 4).collect();
    }
}

/// Truncates an answer so that it fits into the entry of the end, which also contains `working` bytes of working state.
/// Thinking is dropped first.
pub(super) fn fit_answer(text: &mut String, thinking: &mut Vec<ThinkingBlock>, working: usize) {
    fit_text(text, thinking, answer_bytes_max(working));
}

/// Returns true if [`fit_answer`] does not truncate the text.
pub(super) fn answer_fits(text: &str, working: usize) -> bool {
    json_fits(text, answer_bytes_max(working))
}

/// Returns true if a text has at most `bytes_max` bytes as JSON. A byte of the text takes at most six, so that short texts
/// are not escaped to count them.
fn json_fits(text: &str, bytes_max: usize) -> bool {
    text.len().saturating_mul(6).saturating_add(2) <= bytes_max || json_bytes(&text) <= bytes_max
}

fn answer_bytes_max(working: usize) -> usize {
    ENTRY_CONTENT_BYTES.saturating_sub(working).saturating_sub(END_FRAME)
}

fn fit_text(text: &mut String, thinking: &mut Vec<ThinkingBlock>, bytes_max: usize) {
    if !thinking.is_empty() && json_bytes(text).saturating_add(json_bytes(thinking)) > bytes_max {
        thinking.clear();
    }
    truncate(text, bytes_max, bytes_max);
}

/// Converts a round to an entry with the results that fit, and one more entry per other result.
pub(super) fn round_entries(mut round: Round) -> Vec<Entry> {
    let results = std::mem::take(&mut round.results);
    let mut bytes_left = ENTRY_CONTENT_BYTES.saturating_sub(json_bytes(&round));
    let mut after = Vec::new();
    for result in results {
        let bytes = json_bytes(&result).saturating_add(1);
        if after.is_empty() && bytes <= bytes_left {
            bytes_left -= bytes;
            round.results.push(result);
        } else {
            after.push(Entry::Outcome(Outcome { turn: round.turn, result }));
        }
    }
    let mut entries = vec![Entry::Round(Box::new(round))];
    entries.extend(after);
    entries
}

/// Splits entries into at least one append, in order. The last append contains the header change.
pub(super) fn split(entries: Vec<Entry>, change: HeaderChange) -> Vec<Draft> {
    if let [_] = entries.as_slice() {
        return vec![Draft { entries, change, request: None }];
    }
    let mut drafts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0usize;
    for entry in entries {
        let size = json_bytes(&entry);
        if bytes.saturating_add(size) > BATCH_CONTENT_BYTES && !part.is_empty() {
            drafts.push(Draft { entries: std::mem::take(&mut part), ..Draft::default() });
            bytes = 0;
        }
        bytes = bytes.saturating_add(size);
        part.push(entry);
    }
    drafts.push(Draft { entries: part, change, request: None });
    drafts
}

/// Returns the result of a call that did not run.
pub(super) fn not_run(round: u32, index: u32, status: CallStatus, content: impl Into<String>) -> CallResult {
    let (content, change, usage) = (content.into(), WorkingChange::default(), Usage::default());
    CallResult { round, index, status, content, change, usage, at: None }
}
