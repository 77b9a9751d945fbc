//! The rules of collections, for the filters of searches.

use folio_resources::{Collection, CollectionId, CollectionRule, Resource as _};
use folio_types::{OrgId, Result};

use super::ResourceStore;

impl ResourceStore<Collection> {
    /// Returns the rules of collections, in the order of the ids.
    ///
    /// # Errors
    /// `NOT_FOUND` if a collection does not exist.
    pub async fn rules(&self, org: &OrgId, ids: &[CollectionId]) -> Result<Vec<CollectionRule>> {
        let mut rules = Vec::with_capacity(ids.len());
        for id in ids {
            let found = self.get(org, id).await?.ok_or_else(|| Collection::not_found(id))?;
            rules.push(found.rule);
        }
        Ok(rules)
    }
}
