//! Who gives credit: little at a time, and only where little is left, so that it runs short again and again. A part of it expires
//! before it is used up.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::credit_service_client::CreditServiceClient;
use folio_storage::Stores;
use folio_types::{OrgId, Reason, Timestamp};
use rand::Rng as _;
use tokio::sync::mpsc::UnboundedSender;

use super::person::Person;
use crate::harness::client::Client;

/// How often accounts are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// With less than this an organization is given something: no more than its calls at once may need.
const LITTLE: u64 = 40;

impl Person {
    /// Gives these organizations what they need, for as long as it is let; complains where that is refused.
    pub async fn top_up(mut self, stores: Stores, orgs: Vec<OrgId>, complaints: UnboundedSender<String>) {
        for number in 0_u64.. {
            for org in &orgs {
                // While the store is away nothing is used, either.
                let Ok(account) = stores.credit.account(org).await else { continue };
                if account.available_at(Timestamp::now()) < LITTLE
                    && let Err(refused) = self.give(org, number).await
                {
                    let _ = complaints.send(refused);
                }
            }
            // That is how seldom it looks.
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Gives credit once, however often it has to ask.
    async fn give(&mut self, org: &OrgId, number: u64) -> Result<(), String> {
        let soon = self.random.random_bool(0.4).then(|| Timestamp::now().as_second() + self.random.random_range(2..6));
        let request = v1::GrantCreditRequest {
            organization_id: org.to_string(),
            credits: self.random.random_range(20..60),
            expire_time: soon.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
            request_id: format!("give-{number}-{org}"),
            ..Default::default()
        };
        let grant = |client: Client| {
            let request = request.clone();
            async move { CreditServiceClient::new(client.channel).grant_credit(request).await }
        };
        let Err(error) = self.asked(grant).await else { return Ok(()) };
        // What nobody took in time has expired by then.
        let too_late = soon.is_some_and(|soon| soon <= Timestamp::now().as_second());
        if too_late && error.reason == Reason::InvalidField {
            return Ok(());
        }
        Err(format!("credit was not given to {org}: {error}"))
    }
}
