//! Invariant 6: tenants are isolated. The test writes a unique marker into all data that a tenant creates; no data of
//! another tenant may contain the marker.

use folio_types::OrgId;

use super::Invariant::Tenants;
use super::{Evidence, Findings};
use crate::faults::log::ClientEvent;

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for (org, marker) in &evidence.markers {
        let others: Vec<&String> = evidence.markers.values().filter(|other| *other != marker).collect();
        let foreign = |text: &str| others.iter().any(|other| text.contains(other.as_str()));
        let mut check = |org: &OrgId, subject: &dyn std::fmt::Display, text: &str| {
            if foreign(text) {
                findings.add(Tenants, subject, format!("data of {org} contains {text:?}"));
            }
        };
        for thread in evidence.threads.iter().filter(|thread| thread.org == *org) {
            check(org, &thread.id, &thread.header.title);
            for (_, entry) in &thread.entries {
                if let folio_history::journal::Entry::Accepted(accepted) = entry {
                    check(org, &thread.id, &accepted.text);
                }
            }
        }
        for aggregate in evidence.aggregates.iter().filter(|aggregate| aggregate.org == org.as_str()) {
            check(org, &aggregate.id, aggregate.name.as_deref().unwrap_or_default());
        }
        for line in evidence.log.iter().filter(|line| line.org == *org) {
            if let ClientEvent::Listed(names) = &line.event {
                names.iter().for_each(|name| check(org, &"a list", name));
            }
        }
    }
    for thread in &evidence.threads {
        let own = thread.header.org == thread.org;
        findings.add_unless(own, Tenants, &thread.id, "the header and the key name different organizations");
    }
}
