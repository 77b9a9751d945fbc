//! Grants credit in small amounts and only at a low balance, so that the credit is exhausted repeatedly. Some grants
//! expire before they are used.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::credit_service_client::CreditServiceClient;
use folio_storage::Stores;
use folio_types::{Error, OrgId, Reason, Timestamp};
use rand::Rng as _;
use tokio::sync::mpsc::UnboundedSender;

use super::simulated_user::SimulatedUser;
use crate::harness::client::Client;

/// Polling interval of the accounts.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Balance below which an organization gets credit. Its concurrent calls need at most this much.
const LOW_BALANCE: u64 = 40;

impl SimulatedUser {
    /// Grants credit to these organizations until the future is dropped. Refusals are sent to `failures`.
    pub async fn top_up(mut self, stores: Stores, orgs: Vec<OrgId>, failures: UnboundedSender<String>) {
        for number in 0_u64.. {
            for org in &orgs {
                // If the store cannot be read, no call uses credit either, so no grant is needed.
                let Ok(account) = stores.credit.account(org).await else { continue };
                if account.available_at(Timestamp::now()) < LOW_BALANCE
                    && let Err(refused) = self.grant(org, number).await
                {
                    let _ = failures.send(refused);
                }
            }
            // The balances are polled, because no event reports a low balance.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Grants credit once, with retries.
    pub(super) async fn grant(&mut self, org: &OrgId, number: u64) -> Result<(), String> {
        let soon = self.random.random_bool(0.4).then(|| Timestamp::now().as_second() + self.random.random_range(2..6));
        let request = v1::GrantCreditRequest {
            organization_id: org.to_string(),
            credits: self.random.random_range(20..60),
            expire_time: soon.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
            request_id: format!("grant-{number}-{org}"),
            ..Default::default()
        };
        let Err(error) = self.send_grant(request).await else { return Ok(()) };
        // A grant that was delayed too long has expired.
        let too_late = soon.is_some_and(|soon| soon <= Timestamp::now().as_second());
        if too_late && error.reason == Reason::InvalidField {
            return Ok(());
        }
        Err(format!("cannot grant credit to {org}: {error}"))
    }

    /// Grants credit that does not expire, with retries.
    pub(super) async fn grant_permanently(&mut self, org: &OrgId, credits: u64) -> Result<(), Error> {
        let request_id = format!("permanent-grant-{org}");
        let organization_id = org.to_string();
        self.send_grant(v1::GrantCreditRequest { organization_id, credits, request_id, ..Default::default() }).await
    }

    async fn send_grant(&mut self, request: v1::GrantCreditRequest) -> Result<(), Error> {
        let call = |client: Client| {
            let request = request.clone();
            async move { CreditServiceClient::new(client.channel).grant_credit(request).await }
        };
        self.retry(call).await.map(drop)
    }
}
