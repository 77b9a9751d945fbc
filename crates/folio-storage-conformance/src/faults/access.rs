//! Faults of [`AccessStore`].

use async_trait::async_trait;
use folio_resources::MemberWrite;
use folio_storage::AccessStore;
use folio_types::{OrgId, Result};

use crate::layer::AccessLayer;

#[derive(Default)]
pub(super) struct MemberOverwritten;

#[async_trait]
impl AccessLayer for MemberOverwritten {
    async fn write_member(&self, below: &dyn AccessStore, org: &OrgId, write: MemberWrite) -> Result<bool> {
        if below.write_member(org, write.clone()).await? {
            return Ok(true);
        }
        let before = below.member(org, &write.after.user).await?;
        below.write_member(org, MemberWrite { before, guard: None, ..write }).await
    }
}
