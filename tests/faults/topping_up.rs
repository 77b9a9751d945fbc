//! Who gives credit: little at a time, and only where little is left, so that it runs short again and again. A part of it expires
//! before it is used up.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::credit_service_client::CreditServiceClient;
use folio_storage::Stores;
use folio_types::token::{Token, TokenRecord};
use folio_types::{Environment as _, OrgId, Principal, Role, System, Timestamp, UserId};
use rand::Rng as _;

use super::person::Person;
use crate::harness::client::Client;
use crate::harness::tenant::Tenant;

/// How often accounts are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// With less than this an organization is given something: no more than its calls at once may need.
const LITTLE: u64 = 40;

/// The platform's administrator, of whom no organization knows.
///
/// # Panics
/// The store refuses.
pub async fn administrator(stores: &Stores) -> Tenant {
    let house = Tenant::make(stores, "house").await;
    let (token, at) = (Token::generate(&System), System.now());
    let admin = Principal { org: house.org.clone(), user: UserId::generate(&System), role: Role::Admin };
    let record = TokenRecord { platform: true, ..TokenRecord::new(&token, admin, "platform", at) };
    stores.access.create_token(record).await.expect("a token is made");
    Tenant { token: token.reveal(), ..house }
}

impl Person {
    /// Gives these organizations what they need, for as long as it is let.
    pub async fn top_up(mut self, stores: Stores, orgs: Vec<OrgId>) {
        for number in 0_u64.. {
            for org in &orgs {
                // While the store is away nothing is used, either.
                let Ok(account) = stores.credit.account(org).await else { continue };
                if account.available_at(Timestamp::now()) < LITTLE {
                    self.give(org, number).await;
                }
            }
            // That is how seldom it looks.
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Gives credit once, however often it has to ask.
    async fn give(&mut self, org: &OrgId, number: u64) {
        let soon = self.random.random_bool(0.4).then(|| Timestamp::now().as_second() + self.random.random_range(2..6));
        let request = v1::GrantCreditRequest {
            organization_id: org.to_string(),
            credits: self.random.random_range(20..60),
            expires_at: soon.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
            request_id: format!("give-{number}-{org}"),
            ..Default::default()
        };
        let grant = |client: Client| {
            let request = request.clone();
            async move { CreditServiceClient::new(client.channel).grant_credit(request).await }
        };
        if let Err(error) = self.asked(grant).await {
            println!("  credit was not given: {error}");
        }
    }
}
