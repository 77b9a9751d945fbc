//! Organizations and users beside the first ones, made in the store, so that a test can choose their ids.

use folio_storage::Stores;
use folio_types::access::Organization;
use folio_types::token::{Token, TokenRecord};
use folio_types::{Environment as _, OrgId, Principal, Role, System, Timestamp, UserId};

use crate::client::Client;
use crate::sandbox::Sandbox;

/// The user whose token the first start makes.
pub(crate) const FIRST_USER: &str = "first user";

/// A user's token, and when it ceases to be one.
#[derive(Clone)]
pub(crate) struct Person {
    org: OrgId,
    user: &'static str,
    role: Role,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl Person {
    /// A user of an organization with a token that is good for ever.
    pub(crate) fn new(org: &OrgId, user: &'static str, role: Role) -> Self {
        Self { org: org.clone(), user, role, expires_at: None, revoked_at: None }
    }

    /// The token has expired.
    pub(crate) fn expired(mut self) -> Self {
        self.expires_at = Some(System.now());
        self
    }

    /// The token was revoked.
    pub(crate) fn revoked(mut self) -> Self {
        self.revoked_at = Some(System.now());
        self
    }

    /// Stores the token.
    pub(crate) async fn token(self, stores: &Stores) -> String {
        let token = Token::generate(&System);
        let holder = Principal { org: self.org, user: UserId::derive(&[self.user]), role: self.role };
        let record = TokenRecord {
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            ..TokenRecord::new(&token, holder, self.user, System.now())
        };
        stores.access.create_token(record).await.expect("the token is stored");
        token.reveal()
    }
}

/// The organization of the first start.
pub(crate) async fn first(stores: &Stores) -> OrgId {
    stores.access.first_organization().await.expect("the store is read").expect("there is one").id
}

/// Makes an organization.
pub(crate) async fn another(stores: &Stores, name: &str) -> OrgId {
    let organization = Organization::new(OrgId::generate(&System), name, System.now());
    stores.access.create_organization(organization).await.expect("the organization is stored").id
}

impl Sandbox {
    /// Makes users of the first organization; their clients.
    pub(crate) async fn colleagues(&mut self, people: &[(&'static str, Role)]) -> Vec<Client> {
        let tokens = self
            .offline(async |stores| {
                let org = first(&stores).await;
                let mut tokens = Vec::new();
                for (user, role) in people {
                    tokens.push(Person::new(&org, user, *role).token(&stores).await);
                }
                tokens
            })
            .await;
        let mut clients = Vec::new();
        for token in &tokens {
            clients.push(Client::connect(&self.url(), Some(token)).await);
        }
        clients
    }
}
