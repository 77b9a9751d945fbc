//! Serves `CreditService`.

use folio_credit::{Grant, GrantKind};
use folio_operations::credits::{GrantCredit, WithdrawCredit};
use folio_proto::{fields, time, v1};
use folio_types::{Error, Result, limits};
use v1::credit_service_server::CreditService;

use super::Api;
use super::handler::change;

#[tonic::async_trait]
impl CreditService for Api {
    change!(grant_credit, GrantCreditRequest, GrantCreditResponse { grant: to_proto }, |request| {
        let priority = u8::try_from(request.priority);
        GrantCredit {
            organization_id: fields::optional_id("organization_id", &request.organization_id)?,
            credits: request.credits,
            expire_time: time::optional_from_proto("expire_time", request.expire_time.as_ref())?,
            priority: priority.map_err(|_| Error::invalid_field("priority", "must be from 0 to 255"))?,
            note: note(&request.note)?,
        }
    });

    change!(
        withdraw_credit,
        WithdrawCreditRequest,
        WithdrawCreditResponse,
        |request| WithdrawCredit {
            organization_id: fields::optional_id("organization_id", &request.organization_id)?,
            credits: request.credits,
            note: note(&request.note)?,
        },
        |()| v1::WithdrawCreditResponse {}
    );
}

fn note(text: &str) -> Result<String> {
    fields::line("note", text, limits::NAME_CHARS)
}

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
