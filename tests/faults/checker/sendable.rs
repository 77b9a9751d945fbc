//! Invariant 4: every call that precedes a later message has one result, and the first result is final.

use folio_history::journal::Entry;

use super::Findings;
use super::Invariant::Sendable;
use super::journal::{Turn, results};

pub(super) fn check(turn: &Turn<'_>, findings: &mut Findings) {
    let calls = turn.calls();
    let newest = calls.keys().map(|(round, _)| *round).max().unwrap_or_default();
    for ((round, index), call) in &calls {
        let subject = format!("{}.{round}.{index}", turn.id);
        let mut contents: Vec<_> = call.results.iter().map(|(_, result)| (result.status, &result.content)).collect();
        contents.sort_by_key(|(status, content)| (format!("{status:?}"), *content));
        contents.dedup();
        findings.add_unless(contents.len() <= 1, Sendable, &subject, format!("the results differ: {contents:?}"));
        let followed = turn.end().is_some() || *round < newest;
        findings.add_unless(
            !followed || !contents.is_empty(),
            Sendable,
            &subject,
            "the call has no result, but entries follow",
        );
    }
    let mut paused = 0;
    for (_, entry) in &turn.entries {
        for result in results(entry) {
            let subject = format!("{}.{}.{}", turn.id, result.round, result.index);
            let has_call = calls.contains_key(&(result.round, result.index));
            findings.add_unless(has_call, Sendable, &subject, "the result has no call");
            let late = result.round < paused && matches!(entry, Entry::Outcome(_));
            findings.add_unless(!late, Sendable, &subject, "the outcome follows a later pause");
        }
        if let Entry::Paused(pause) = entry {
            paused = pause.round;
        }
    }
}
