//! The routes of DocRouter's API that this server does not have. They answer 501.
//!
//! An engineer who adds a route removes it from this table: two declarations of a route fail a test.

use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};

use super::failure::Failure;
use super::routes::{Level, Route};

/// Returns the answer to a route that is not served.
pub(super) fn answer(route: &Route) -> Response {
    let detail = format!("Not supported by this server: {} {}", route.method, route.path);
    Failure::new(StatusCode::NOT_IMPLEMENTED, detail).into_response()
}

pub(super) fn routes() -> Vec<Route> {
    let rows = UNSERVED.lines().filter_map(|row| {
        let mut words = row.split_whitespace();
        Some((words.next()?, words.next()?, words.next()?))
    });
    let mut routes = Vec::new();
    for (level, methods, path) in rows {
        let level = match level {
            "1" => Level::One,
            "2" => Level::Two,
            "3" => Level::Three,
            _ => Level::Web,
        };
        let methods = methods.split(',').filter_map(|method| method.parse::<Method>().ok());
        routes.extend(methods.map(|method| Route {
            level,
            method,
            path,
            operation: None,
            endpoint: None,
            denial: None,
        }));
    }
    routes
}

/// Level, methods and path of each route.
const UNSERVED: &str = "\
3 GET /v0/orgs/{organization_id}/ocr/export/tables.xlsx/{document_id}
3 POST /v0/orgs/{organization_id}/ocr/bulk-analyze
3 POST /v0/orgs/{organization_id}/llm/bulk-analyze
3 POST /v0/account/llm/test/embedding
2 POST /v0/account/email/verification/send/{user_id}
2 POST /v0/account/email/verification/register/{user_id}
2 POST /v0/account/email/verification/{token}
2 GET,POST /v0/account/email/invitations
2 GET /v0/account/email/invitations/{token}
2 POST /v0/account/email/invitations/{token}/accept
2 POST /v0/orgs/{organization_id}/payments/credits/purchase
2 GET,PUT,DELETE /v0/orgs/{organization_id}/payments/subscription
2 POST /v0/orgs/{organization_id}/payments/customer-portal
2 POST /v0/orgs/{organization_id}/payments/checkout-session
2 GET,POST /v0/orgs/{organization_id}/forms
2 GET,PUT,DELETE /v0/orgs/{organization_id}/forms/{form_id}
2 GET /v0/orgs/{organization_id}/forms/{form_id}/versions
2 GET,POST,DELETE /v0/orgs/{organization_id}/forms/submissions/{document_id}
2 GET,POST,DELETE /v0/account/aws_config
3 GET,POST,DELETE /v0/account/gcp_config
3 GET,POST,DELETE /v0/account/azure_config
3 GET,PATCH /v0/account/system_settings
3 GET /v0/account/license/status
3 GET,PUT /v0/account/license
3 GET,POST /v0/orgs/{organization_id}/webhooks
3 GET,PUT,DELETE /v0/orgs/{organization_id}/webhooks/{webhook_id}
3 POST /v0/orgs/{organization_id}/webhooks/{webhook_id}/test
3 GET /v0/orgs/{organization_id}/webhooks/deliveries
3 GET /v0/orgs/{organization_id}/webhooks/deliveries/{delivery_id}
3 POST /v0/orgs/{organization_id}/webhooks/deliveries/{delivery_id}/retry
3 GET,POST /v0/orgs/{organization_id}/knowledge-bases
3 POST /v0/orgs/{organization_id}/knowledge-bases/reconcile-all
3 GET,PUT,DELETE /v0/orgs/{organization_id}/knowledge-bases/{kb_id}
3 GET /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/documents
3 GET /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/documents/{document_id}/chunks
3 POST /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/search
3 POST /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/reconcile
3 POST /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/chat
3 GET,POST /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/chat/threads
3 GET,DELETE /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/chat/threads/{thread_id}
3 GET /v0/orgs/{organization_id}/credential-kinds
3 GET,POST /v0/orgs/{organization_id}/credentials
3 GET,PUT,DELETE /v0/orgs/{organization_id}/credentials/{credential_id}
3 POST /v0/orgs/{organization_id}/credentials/{credential_id}/test
3 POST /v0/orgs/{organization_id}/credentials/{credential_id}/oauth
3 GET /v0/orgs/{organization_id}/executions
3 GET,POST /v0/orgs/{organization_id}/flows
3 GET /v0/orgs/{organization_id}/flows/node-types
3 POST /v0/orgs/{organization_id}/flows/bulk-analyze
3 POST /v0/orgs/{organization_id}/flows/preview-expression
3 GET /v0/orgs/{organization_id}/flows/result/{document_id}
3 GET,PUT,PATCH,DELETE /v0/orgs/{organization_id}/flows/{flow_id}
3 GET /v0/orgs/{organization_id}/flows/{flow_id}/revisions
3 GET /v0/orgs/{organization_id}/flows/{flow_id}/revisions/{revision_id}
3 POST /v0/orgs/{organization_id}/flows/{flow_id}/activate
3 POST /v0/orgs/{organization_id}/flows/{flow_id}/deactivate
3 POST /v0/orgs/{organization_id}/flows/{flow_id}/run
3 POST /v0/orgs/{organization_id}/flows/{flow_id}/run/{document_id}
3 POST /v0/orgs/{organization_id}/flows/{flow_id}/chat-test
3 GET,DELETE /v0/orgs/{organization_id}/flows/{flow_id}/executions/{execution_id}
3 POST /v0/orgs/{organization_id}/flows/{flow_id}/executions/{execution_id}/stop
3 POST /v0/orgs/{organization_id}/flows/{flow_id}/executions/{execution_id}/resume
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_a_level_methods_and_a_path() {
        for row in UNSERVED.lines() {
            let words: Vec<&str> = row.split_whitespace().collect();
            let [level, methods, path] = words.as_slice() else { panic!("{row}") };
            assert!(["1", "2", "3", "W"].contains(level), "{row}");
            assert!(["/v0/orgs/{organization_id}/", "/v0/account/"].iter().any(|base| path.starts_with(base)), "{row}");
            for method in methods.split(',') {
                assert!(["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method), "{row}");
            }
        }
    }
}
