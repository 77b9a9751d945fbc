//! Operations that grant and withdraw credit.

use folio_credit::{AccountEntry, Grant, GrantKind};
use folio_metering::CreditMeter;
use folio_resources::audit::{AuditEntry, AuditKind, AuditTarget, RedactedArguments};
use folio_storage::Stores;
use folio_types::access::Scope;
use folio_types::{Error, GrantId, OrgId, Result, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::operation::{Operation, outcome_as_json};
use crate::organizations::organization;

service! {
    "CreditService", Some(Scope::Administration) =>
    GrantCredit, WithdrawCredit
}

/// Grants credit to an organization, once per request id.
#[derive(Debug, Clone, Serialize)]
pub struct GrantCredit {
    /// The organization. None: the caller's.
    pub organization_id: Option<OrgId>,
    pub credits: u64,
    /// The time at which the unused credits expire. None: never.
    pub expire_time: Option<Timestamp>,
    /// Grants with a lower value are used first.
    // proto: *.priority "0 to {}."
    pub priority: u8,
    /// The purpose, one line.
    pub note: String,
}

impl Operation for GrantCredit {
    const DECLARATION: Declaration = SERVICE.administer("GrantCredit").platform();
    type Output = Grant;

    /// Records no output: the request record belongs to the caller's organization, the grant to the credited one.
    fn to_outcome(_: &Grant) -> Result<Value> {
        Ok(Value::Null)
    }

    async fn replay(&self, context: &Context, _: Value) -> Result<Grant> {
        let org = credited(context, self.organization_id.as_ref()).await?;
        let id = GrantId::derive(&context.request.id_parts());
        match stored_entry(context.credit(), &org, &id).await? {
            Some(AccountEntry::Granted(grant)) => Ok(grant),
            _ => Err(Error::not_found("grant", id)),
        }
    }

    async fn audit(&self, context: &Context) -> Result<AuditRecord<Grant>> {
        let org = credited(context, self.organization_id.as_ref()).await?;
        let record = AuditRecord::new(json!({
            "organization_id": org,
            "credits": self.credits,
            "expire_time": self.expire_time,
            "priority": self.priority,
        }));
        Ok(record.target_of(|grant: &Grant| AuditTarget::new("grant", &grant.id)).other_org(org))
    }

    async fn run(self, context: &Context) -> Result<Grant> {
        let org = credited(context, self.organization_id.as_ref()).await?;
        let id = GrantId::derive(&context.request.id_parts());
        let grant = Grant {
            expires_at: self.expire_time,
            priority: self.priority,
            note: self.note,
            by: Some(context.principal().user.clone()),
            ..Grant::new(id, GrantKind::Admin, self.credits, context.environment().now())
        };
        grant_once(context.credit(), &org, grant).await
    }
}

/// Withdraws credit that no process has drawn, once per request id.
#[derive(Debug, Clone, Serialize)]
pub struct WithdrawCredit {
    /// The organization. None: the caller's.
    pub organization_id: Option<OrgId>,
    pub credits: u64,
    /// The purpose, one line.
    pub note: String,
}

impl Operation for WithdrawCredit {
    const DECLARATION: Declaration = SERVICE.administer("WithdrawCredit").platform();
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<()>> {
        let org = credited(context, self.organization_id.as_ref()).await?;
        let record = AuditRecord::new(json!({ "organization_id": org, "credits": self.credits }));
        Ok(record.target("organization", &org).other_org(org))
    }

    async fn run(self, context: &Context) -> Result<()> {
        let org = credited(context, self.organization_id.as_ref()).await?;
        let meter = context.credit();
        let (id, credits, note) = (GrantId::derive(&context.request.id_parts()), self.credits, self.note);
        if stored_entry(meter, &org, &id).await?.is_none() {
            let by = (note.as_str(), Some(&context.principal().user));
            meter.escrow().withdraw(&org, &id, credits, by).await?;
        }
        match stored_entry(meter, &org, &id).await? {
            Some(AccountEntry::Withdrawn { amount, note: stored, .. }) if (amount, &stored) == (credits, &note) => {
                Ok(())
            }
            _ => Err(Error::request_id_conflict()),
        }
    }
}

/// None: the caller's organization. Error: `NOT_FOUND` if the organization does not exist.
async fn credited(context: &Context, named: Option<&OrgId>) -> Result<OrgId> {
    let Some(org) = named else { return Ok(context.principal().org.clone()) };
    organization(context.stores(), org).await.map(|found| found.id)
}

/// Grants purchased credit once per id of the grant, and records the stored grant in the organization's audit log. A
/// repetition writes the same entry.
///
/// # Errors
/// `NOT_FOUND` if the organization does not exist. `INVALID_FIELD` of an amount, or of a new grant that has expired
/// already; `REQUEST_ID_CONFLICT` if a grant with this id and other content is stored.
pub async fn grant_purchase(stores: &Stores, meter: &CreditMeter, org: &OrgId, grant: Grant) -> Result<()> {
    organization(stores, org).await?;
    let Grant { id, amount, priority, expires_at, at, .. } = grant_once(meter, org, grant).await?;
    let arguments = json!({ "credits": amount, "priority": priority, "expires_at": expires_at });
    let entry = AuditEntry {
        arguments: Some(RedactedArguments::request(&arguments)),
        target: Some(AuditTarget::new("grant", &id)),
        ..AuditEntry::new(&format!("grant:{id}"), AuditKind::ChangeApplied, at, None, "purchase")
    };
    stores.audit.append(org, &[entry]).await
}

/// Grants credit unless a grant with this id is stored, and returns the stored grant.
///
/// # Errors
/// `INVALID_FIELD` of an amount, or of a new grant that has expired already; `REQUEST_ID_CONFLICT` if a grant with this
/// id and other content is stored.
async fn grant_once(meter: &CreditMeter, org: &OrgId, grant: Grant) -> Result<Grant> {
    if stored_entry(meter, org, &grant.id).await?.is_none() && grant.is_due(grant.at) {
        return Err(Error::invalid_field("expire_time", "is in the past"));
    }
    meter.escrow().grant(org, grant.clone()).await?;
    match stored_entry(meter, org, &grant.id).await? {
        Some(AccountEntry::Granted(stored)) if is_same(&stored, &grant) => Ok(stored),
        _ => Err(Error::request_id_conflict()),
    }
}

/// Returns the entry of the account under the id of a grant or a withdrawal.
async fn stored_entry(meter: &CreditMeter, org: &OrgId, id: &GrantId) -> Result<Option<AccountEntry>> {
    let found = meter.escrow().store().entries(org, &format!("grant/{id}"), None, 1).await?;
    Ok(found.into_iter().next())
}

fn is_same(one: &Grant, other: &Grant) -> bool {
    let content = |grant: &Grant| (grant.kind, grant.amount, grant.expires_at, grant.priority, grant.note.clone());
    content(one) == content(other)
}
