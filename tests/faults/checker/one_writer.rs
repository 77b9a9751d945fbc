//! Invariant 1: one writer. Epochs increase, versions are consecutive, and no committed append was overwritten.

use folio_history::journal::Entry;

use super::Invariant::OneWriter;
use super::{Findings, ObservedThread};

pub(super) fn check(thread: &ObservedThread, findings: &mut Findings) {
    let mut add = |reason: String| findings.add(OneWriter, &thread.id, reason);
    let header = &thread.header;
    if (header.epoch, header.version) != (thread.epoch, thread.version) {
        add(format!(
            "the header has epoch {} and version {}, the columns have {} and {}",
            header.epoch, header.version, thread.epoch, thread.version
        ));
    }
    if thread.batches != thread.version {
        add(format!("{} appends are committed, but the version is {}", thread.batches, thread.version));
    }
    if let Some((at, (number, _))) = thread.entries.iter().enumerate().find(|(at, (number, _))| *at as u64 != *number) {
        add(format!("entry {at} is missing; found {number}"));
    }
    if thread.entries.len() as u64 != header.entries {
        add(format!("{} entries exist, but the header states {}", thread.entries.len(), header.entries));
    }
    let accepted = thread.entries.iter().filter(|(_, entry)| matches!(entry, Entry::Accepted(_))).count();
    if accepted as u64 != u64::from(header.turns) {
        add(format!("{accepted} turns were accepted, but the header states {}", header.turns));
    }
    let mut epoch = 0;
    for (number, entry) in &thread.entries {
        let Entry::Resumed(resumed) = entry else { continue };
        if resumed.epoch <= epoch || resumed.epoch > header.epoch {
            add(format!("entry {number} has epoch {} after {epoch}; the header has {}", resumed.epoch, header.epoch));
        }
        epoch = resumed.epoch;
    }
}
