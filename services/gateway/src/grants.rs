//! Giving credit, once for each grant.

use folio_credit::{AccountEntry, Grant};
use folio_metering::CreditMeter;
use folio_types::{Code, Error, GrantId, OrgId, Reason, Result};

/// Gives it unless it was given before, and the grant that stands then.
///
/// Errors: `INVALID_FIELD` of an amount, or of a grant that has expired already; `REQUEST_ID_CONFLICT` where one of its id was given
/// that says something else.
pub(crate) async fn give(meter: &CreditMeter, org: &OrgId, grant: Grant) -> Result<Grant> {
    if entry(meter, org, &grant.id).await?.is_none() && grant.is_due(grant.at) {
        return Err(Error::invalid_field("expires_at", "lies in the past"));
    }
    meter.escrow().grant(org, grant.clone()).await?;
    match entry(meter, org, &grant.id).await? {
        Some(AccountEntry::Granted(stands)) if same(&stands, &grant) => Ok(stands),
        _ => Err(conflict()),
    }
}

/// What stands under the id of a grant, or of what was taken back.
pub(crate) async fn entry(meter: &CreditMeter, org: &OrgId, id: &GrantId) -> Result<Option<AccountEntry>> {
    let found = meter.escrow().store().account_entries(org, &format!("grant/{id}"), None, 1).await?;
    Ok(found.into_iter().next())
}

fn same(one: &Grant, other: &Grant) -> bool {
    let content = |grant: &Grant| (grant.kind, grant.amount, grant.expires_at, grant.priority, grant.note.clone());
    content(one) == content(other)
}

pub(crate) fn conflict() -> Error {
    Error::new(Code::AlreadyExists, Reason::RequestIdConflict, "this id was used for another request")
}
