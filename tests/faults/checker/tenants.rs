//! Invariant 6: everything that a tenant creates contains its marker, and no other tenant's data contains it.

use folio_types::OrgId;

use super::{Broken, Evidence, Findings, effects};
use crate::faults::log::ClientEvent;

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for (org, mark) in &evidence.marks {
        let others: Vec<&String> = evidence.marks.values().filter(|other| *other != mark).collect();
        let foreign = |text: &str| others.iter().any(|other| text.contains(other.as_str()));
        let mut seen = |org: &OrgId, subject: &dyn std::fmt::Display, text: &str| {
            if foreign(text) {
                findings.add(Broken::Tenants, subject, format!("{org} holds {text:?}"));
            }
        };
        for thread in evidence.threads.iter().filter(|thread| thread.org == *org) {
            seen(org, &thread.id, &thread.header.title);
            for (_, entry) in &thread.entries {
                if let folio_history::journal::Entry::Accepted(accepted) = entry {
                    seen(org, &thread.id, &accepted.text);
                }
            }
        }
        for aggregate in effects::of(evidence, org) {
            seen(org, &aggregate.id, aggregate.name.as_deref().unwrap_or_default());
        }
        for line in evidence.log.iter().filter(|line| line.org == *org) {
            if let ClientEvent::Listed(names) = &line.event {
                names.iter().for_each(|name| seen(org, &"a list", name));
            }
        }
    }
    for thread in &evidence.threads {
        let own = thread.header.org == thread.org;
        findings.add_unless(own, Broken::Tenants, &thread.id, "its header names another organization than its key");
    }
}
