//! CreditService: giving credit and taking it back.

use folio_credit::{AccountEntry, Grant, GrantKind};
use folio_proto::{fields, time, v1};
use folio_types::{Error, GrantId, OrgId, Principal, Result, limits};
use serde_json::json;
use tonic::{Request, Response, Status};
use v1::credit_service_server::CreditService;

use super::Api;
use crate::audit::Made;
use crate::grants;

#[tonic::async_trait]
impl CreditService for Api {
    async fn grant_credit(
        &self,
        request: Request<v1::GrantCreditRequest>,
    ) -> Result<Response<v1::GrantCreditResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let org = api.credited(&principal, &request.organization_id).await?;
            let arguments = json!({
                "organization_id": org,
                "credits": request.credits,
                "expires_at": request.expires_at.as_ref().map(ToString::to_string),
                "priority": request.priority,
            });
            let request_id = request.request_id.clone();
            let asked = ("CreditService.GrantCredit", request_id.as_str(), arguments);
            let made = |given: &v1::GrantCreditResponse| {
                Made::here("grant", given.grant.as_ref().map(|grant| grant.grant_id.as_str()).unwrap_or_default())
            };
            api.recorded_of(&org, &principal, asked, api.granted(&principal, &org, request), made).await
        })
        .await
    }

    async fn withdraw_credit(
        &self,
        request: Request<v1::WithdrawCreditRequest>,
    ) -> Result<Response<v1::WithdrawCreditResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let org = api.credited(&principal, &request.organization_id).await?;
            let arguments = json!({ "organization_id": org, "credits": request.credits });
            let request_id = request.request_id.clone();
            let asked = ("CreditService.WithdrawCredit", request_id.as_str(), arguments);
            let made = |_: &v1::WithdrawCreditResponse| Made::here("organization", &org);
            api.recorded_of(&org, &principal, asked, api.withdrawn(&principal, &org, request), made).await
        })
        .await
    }
}

impl Api {
    async fn granted(
        &self,
        principal: &Principal,
        org: &OrgId,
        request: v1::GrantCreditRequest,
    ) -> Result<v1::GrantCreditResponse> {
        let op = self.op(principal, "GrantCredit", &request.request_id, &request)?;
        let now = self.gateway.environment.now();
        let expires_at = request.expires_at.as_ref().map(|at| time::from_proto("expires_at", at)).transpose()?;
        let priority = u8::try_from(request.priority);
        let grant = Grant {
            expires_at,
            priority: priority.map_err(|_| Error::invalid_field("priority", "must be from 0 to 255"))?,
            note: note(&request.note)?,
            by: Some(principal.user.clone()),
            ..Grant::new(GrantId::derive(&op.parts()), GrantKind::Admin, request.credits, now)
        };
        let stands = grants::give(&self.gateway.credit, org, grant).await?;
        Ok(v1::GrantCreditResponse { grant: Some(shown(&stands)) })
    }

    async fn withdrawn(
        &self,
        principal: &Principal,
        org: &OrgId,
        request: v1::WithdrawCreditRequest,
    ) -> Result<v1::WithdrawCreditResponse> {
        let op = self.op(principal, "WithdrawCredit", &request.request_id, &request)?;
        let (id, note, credits) = (GrantId::derive(&op.parts()), note(&request.note)?, request.credits);
        if grants::entry(&self.gateway.credit, org, &id).await?.is_none() {
            let by = (note.as_str(), Some(&principal.user));
            self.gateway.credit.escrow().withdraw(org, &id, credits, by).await?;
        }
        match grants::entry(&self.gateway.credit, org, &id).await? {
            Some(AccountEntry::Withdrawn { amount, note: told, .. }) if (amount, &told) == (credits, &note) => {
                Ok(v1::WithdrawCreditResponse {})
            }
            _ => Err(grants::conflict()),
        }
    }

    /// The organization whose account it is about.
    async fn credited(&self, principal: &Principal, named: &str) -> Result<OrgId> {
        let Some(org) = fields::optional_id::<OrgId>("organization_id", named)? else {
            return Ok(principal.org.clone());
        };
        let found = self.gateway.stores.access.organization(&org).await?;
        found.map(|found| found.id).ok_or_else(|| Error::not_found("organization", &org))
    }
}

fn note(text: &str) -> Result<String> {
    if text.is_empty() { Ok(String::new()) } else { fields::line("note", text, limits::NAME_CHARS) }
}

/// A grant as clients see it.
pub(super) fn shown(grant: &Grant) -> v1::Grant {
    let kind = match grant.kind {
        GrantKind::Allowance => v1::GrantKind::Allowance,
        GrantKind::Purchase => v1::GrantKind::Purchase,
        GrantKind::Admin => v1::GrantKind::Admin,
    };
    v1::Grant {
        grant_id: grant.id.to_string(),
        kind: kind.into(),
        credits: grant.amount,
        available: grant.available,
        priority: grant.priority.into(),
        expires_at: grant.expires_at.map(time::to_proto),
        note: grant.note.clone(),
        created_by: grant.by.as_ref().map(ToString::to_string).unwrap_or_default(),
        created_at: Some(time::to_proto(grant.at)),
    }
}
