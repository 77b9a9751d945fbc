//! CreditService.

use folio_credit::{Grant, GrantKind};
use folio_operations::Call;
use folio_operations::credits::{GrantCredit, WithdrawCredit};
use folio_proto::{fields, time, v1};
use folio_types::{Error, Result, limits};
use tonic::Request;
use v1::credit_service_server::CreditService;

use super::{Api, Reply};

#[tonic::async_trait]
impl CreditService for Api {
    async fn grant_credit(&self, request: Request<v1::GrantCreditRequest>) -> Reply<v1::GrantCreditResponse> {
        let call = |request: v1::GrantCreditRequest| {
            let priority = u8::try_from(request.priority);
            let operation = GrantCredit {
                organization_id: fields::optional_id("organization_id", &request.organization_id)?,
                credits: request.credits,
                expire_time: time::optional_from_proto("expire_time", request.expire_time.as_ref())?,
                priority: priority.map_err(|_| Error::invalid_field("priority", "must be from 0 to 255"))?,
                note: note(&request.note)?,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |grant: Grant| v1::GrantCreditResponse { grant: Some(to_proto(&grant)) };
        self.call(request, call, response).await
    }

    async fn withdraw_credit(&self, request: Request<v1::WithdrawCreditRequest>) -> Reply<v1::WithdrawCreditResponse> {
        let call = |request: v1::WithdrawCreditRequest| {
            let operation = WithdrawCredit {
                organization_id: fields::optional_id("organization_id", &request.organization_id)?,
                credits: request.credits,
                note: note(&request.note)?,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |()| v1::WithdrawCreditResponse {}).await
    }
}

fn note(text: &str) -> Result<String> {
    if text.is_empty() { Ok(String::new()) } else { fields::line("note", text, limits::NAME_CHARS) }
}

/// A grant as a message.
pub(super) fn to_proto(grant: &Grant) -> v1::Grant {
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
        expire_time: grant.expires_at.map(time::to_proto),
        note: grant.note.clone(),
        created_by: grant.by.as_ref().map(ToString::to_string).unwrap_or_default(),
        create_time: Some(time::to_proto(grant.at)),
    }
}
