//! Erasure of organizations.

use std::collections::BTreeSet;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

/// Removes all data of deleted organizations.
///
/// A turn or a request that was in progress when an organization was deleted may still write rows for a while. The
/// caller therefore erases the organization again later, before it removes the record of the deletion.
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Removes every row of these organizations, including rows that no index references: reads the keys of all
    /// organizations. The records of the organizations themselves belong to the platform and are kept. Rows of indexes
    /// that span organizations ([`is_owned_by`]) are removed last. Idempotent; may be interrupted and repeated.
    async fn erase(&self, orgs: &BTreeSet<OrgId>) -> Result<()>;
}

/// Returns whether a row belongs to one of these organizations. The owner of a row is the first part of its key that is
/// the id of an organization; parts are joined by `/`.
///
/// The row of a deleted organization in the index of deletions belongs to the platform, so that the deletion remains
/// listed.
pub fn is_owned_by(orgs: &BTreeSet<OrgId>, key: &str) -> bool {
    let owner = key.split('/').find_map(|part| part.parse::<OrgId>().ok());
    owner.is_some_and(|owner| orgs.contains(&owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_belongs_to_the_first_organization_in_its_key() {
        let [erased, other] = ["erased", "other"].map(|name| OrgId::derive(&[name]));
        let (orgs, platform) = (BTreeSet::from([erased.clone()]), OrgId::platform());
        let owned = |key: String| is_owned_by(&orgs, &key);
        assert!(owned(format!("{erased}")) && owned(format!("{erased}/doc_0")));
        assert!(owned(format!("deleted/schema/8006000000000000/{erased}/sch_0")));
        assert!(!owned(format!("{other}/{erased}")), "a resource of another organization with the id of an erased one");
        assert!(!owned(format!("deleted/organization/8006000000000000/{platform}/{erased}")));
        assert!(!owned("probe".to_owned()) && !owned(String::new()));
    }
}
