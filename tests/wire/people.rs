//! Organizations and users in addition to the first ones, created in the store, so that a test can choose their ids.

use folio_resources::{NewToken, Organization, TokenChange, TokenRecord};
use folio_storage::Stores;
use folio_tests::harness::tenant;
use folio_types::token::Token;
use folio_types::{Environment as _, OrgId, Role, System, Timestamp, UserId};

use crate::client::Client;
use crate::sandbox::Sandbox;

/// The user of the first token.
pub(crate) const FIRST_USER: &str = "first user";

/// A user's token.
#[derive(Clone)]
pub(crate) struct Person {
    org: OrgId,
    user: &'static str,
    role: Role,
    expires_at: Option<Timestamp>,
    is_revoked: bool,
}

impl Person {
    /// Creates a user of an organization with a token that does not expire.
    pub(crate) fn new(org: &OrgId, user: &'static str, role: Role) -> Self {
        Self { org: org.clone(), user, role, expires_at: None, is_revoked: false }
    }

    /// The same user with an expired token.
    pub(crate) fn expired(mut self) -> Self {
        self.expires_at = Some(System.now());
        self
    }

    /// The same user with a revoked token.
    pub(crate) fn revoked(mut self) -> Self {
        self.is_revoked = true;
        self
    }

    /// Stores the token.
    pub(crate) async fn token(self, stores: &Stores) -> String {
        let token = Token::generate(&self.org, &System);
        let new = NewToken::new(&token, UserId::derive(&[self.user]), self.role, self.user);
        tenant::store_token(stores, &token, NewToken { expires_at: self.expires_at, ..new }).await;
        if self.is_revoked {
            let revoke = TokenChange::revoke_by_platform(&self.org, token.id(), System.now()).expect("an op key");
            stores.of::<TokenRecord>().decide(token.id(), revoke).await.expect("the token is revoked");
        }
        token.reveal()
    }
}

/// Returns the organization of the first start.
pub(crate) async fn first(stores: &Stores) -> OrgId {
    let first = stores.of::<Organization>().get(&OrgId::platform(), &OrgId::first()).await;
    first.expect("the store is read").expect("there is one").id
}

/// Creates an organization.
pub(crate) async fn another(stores: &Stores, name: &str) -> OrgId {
    let org = OrgId::generate(&System);
    tenant::organization(stores, &org, name).await;
    org
}

impl Sandbox {
    /// Creates users of the first organization, and returns their clients.
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
