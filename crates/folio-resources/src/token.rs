//! Access tokens of an organization.

use folio_types::access::Scope;
use folio_types::op::{Expected, OpResult, Write};
use folio_types::token::{Token, TokenHash};
use folio_types::{OrgId, Principal, Result, Role, Timestamp, TokenId, UserId};
use serde::{Deserialize, Serialize};

use crate::resource::id_functions;
use crate::{Condition, ListRow, Plan, Resource, term};

/// Maximum number of live tokens of an organization. Concurrent requests may exceed it slightly.
// proto: TokenService.CreateToken "at most {} tokens"
pub const TOKENS_MAX: u64 = 1_000;

/// A live token. A revoked token leaves a tombstone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    pub id: TokenId,
    pub org: OrgId,
    /// Hash of the secret.
    pub hash: TokenHash,
    /// User whose calls the token authenticates.
    pub user: UserId,
    pub role: Role,
    /// Description for display.
    pub name: String,
    /// Empty: everything that the role permits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Scope>,
    /// True if the token also permits operations on the installation, such as managing organizations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub platform: bool,
    /// None: the token does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// User that created the token. None: the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<UserId>,
}

impl TokenRecord {
    /// Returns the principal of a request that presents this token. `role_max` bounds the role. None: the token's role
    /// applies.
    ///
    /// # Errors
    /// `INVALID_TOKEN` if the secret differs, or, with the detail [`Token::EXPIRED`], if the token has expired.
    pub fn authenticate(&self, presented: &Token, role_max: Option<Role>, now: Timestamp) -> Result<Principal> {
        if self.hash != presented.hash() {
            return Err(Token::refused());
        }
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err(Token::refused().detail(Token::EXPIRED, true));
        }
        let role = role_max.map_or(self.role, |role_max| role_max.min(self.role));
        let token_creator = self.created_by.clone().filter(|creator| *creator != self.user);
        Ok(Principal { token_creator, ..Principal::new(self.org.clone(), self.user.clone(), role) })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Hash of the secret.
    pub hash: TokenHash,
    /// User whose calls the token authenticates.
    pub user: UserId,
    pub role: Role,
    /// Description for display.
    pub name: String,
    /// Empty: everything that the role permits.
    pub scopes: Vec<Scope>,
    /// True if the token also permits operations on the installation.
    pub platform: bool,
    /// None: the token does not expire.
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// Returns a token without expiry and with every scope that its role permits in the organization.
    pub fn new(token: &Token, user: UserId, role: Role, name: &str) -> Self {
        let (hash, name) = (token.hash(), name.to_owned());
        Self { hash, user, role, name, scopes: Vec::new(), platform: false, expires_at: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenChange {
    Create(Box<NewToken>),
    /// Revokes the token permanently.
    Revoke,
}

impl TokenChange {
    /// Returns the write that creates a token outside of requests. The op key is derived from the token's id, so that
    /// several processes together create one token.
    pub fn create_by_platform(token: &Token, new: NewToken, at: Timestamp) -> Result<Write<Self>> {
        let key = format!("create-{}", token.id()).parse()?;
        Ok(Write::by_platform(token.org().clone(), key, at, Expected::Absent, Self::Create(Box::new(new))))
    }

    /// Returns the write that revokes a token as part of another change, such as the removal of a member. The op key is
    /// derived from the token's id, so that a repeated write has no effect.
    pub fn revoke_by_platform(org: &OrgId, id: &TokenId, at: Timestamp) -> Result<Write<Self>> {
        let key = format!("revoke-{id}").parse()?;
        Ok(Write::by_platform(org.clone(), key, at, Expected::Version(VERSION), Self::Revoke))
    }
}

/// Version of every live token: a token does not change until it is revoked.
const VERSION: u64 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
    pub user: Option<UserId>,
}

impl Resource for TokenRecord {
    type Change = TokenChange;
    type Filter = TokenFilter;
    const KIND: &'static str = "token";
    const DELETE: TokenChange = TokenChange::Revoke;

    id_functions!(TokenId);

    fn version(&self) -> u64 {
        VERSION
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn list_row(&self) -> ListRow {
        let terms = [term("user", &self.user)].into();
        ListRow { id: self.id.to_string(), name: self.name.clone(), terms, ..ListRow::default() }
    }

    fn conditions(filter: &TokenFilter) -> Vec<Condition> {
        let user = filter.user.as_ref().map(|user| Condition::AnyTerm(vec![term("user", user)]));
        Condition::name_search(filter.name_search.as_ref()).into_iter().chain(user).collect()
    }

    fn apply(id: &TokenId, write: &Write<TokenChange>, before: Option<Self>) -> Result<Plan<Self>> {
        match (&write.change, before) {
            (TokenChange::Create(new), None) => {
                let NewToken { hash, user, role, name, scopes, platform, expires_at } = (**new).clone();
                let (id, org, created_at) = (id.clone(), write.org.clone(), write.at);
                let created_by = (!write.is_by_platform()).then(|| write.by.clone());
                // Omits the name, because the op row is kept after the revocation.
                let result = OpResult::Resource { id: id.to_string(), name: String::new() };
                let token =
                    Self { id, org, hash, user, role, name, scopes, platform, expires_at, created_at, created_by };
                Ok(Plan { after: Some(token), result })
            }
            (TokenChange::Revoke, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{Reason, System};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token() -> (Token, NewToken) {
        let token = Token::generate(&OrgId::derive(&["acme"]), &System);
        let new = NewToken::new(&token, UserId::derive(&["ann"]), Role::Member, "for a test");
        (token, new)
    }

    fn created(token: &Token, new: NewToken) -> TokenRecord {
        let write = TokenChange::create_by_platform(token, new, at(5)).unwrap();
        TokenRecord::apply(token.id(), &write, None).unwrap().after.unwrap()
    }

    #[test]
    fn a_token_is_created_once_and_revoked_permanently() {
        let (token, new) = token();
        let record = created(&token, new.clone());
        assert_eq!((&record.org, &record.id, record.created_at), (token.org(), token.id(), at(5)));
        let again = TokenChange::create_by_platform(&token, new, at(6)).unwrap();
        let refused = TokenRecord::apply(token.id(), &again, Some(record.clone())).unwrap_err();
        assert_eq!(refused.reason, Reason::NotFound);
        let revoke = TokenChange::revoke_by_platform(token.org(), token.id(), at(7)).unwrap();
        let plan = TokenRecord::apply(token.id(), &revoke, Some(record)).unwrap();
        assert_eq!((plan.after, plan.result), (None, OpResult::Deleted));
        let refused = TokenRecord::apply(token.id(), &revoke, None).unwrap_err();
        assert_eq!(refused.reason, Reason::NotFound);
    }

    #[test]
    fn a_token_authenticates_its_user_with_the_lower_role_until_it_expires() {
        let (token, new) = token();
        let record = created(&token, NewToken { expires_at: Some(at(10)), ..new });
        let role = |role_max| record.authenticate(&token, role_max, at(9)).unwrap().role;
        let roles = [None, Some(Role::Admin), Some(Role::Viewer)].map(role);
        assert_eq!(roles, [Role::Member, Role::Member, Role::Viewer]);
        assert_eq!(
            record.authenticate(&token, None, at(10)).unwrap_err(),
            Token::refused().detail(Token::EXPIRED, true)
        );
        let other = Token::with_id(token.org(), token.id().clone(), &System);
        for time in [at(9), at(10)] {
            assert_eq!(record.authenticate(&other, None, time).unwrap_err(), Token::refused());
        }
    }

    #[test]
    fn a_token_of_another_user_names_its_creator() {
        let (token, new) = token();
        let ann = new.user.clone();
        let write = TokenChange::create_by_platform(&token, new, at(5)).unwrap();
        let creators = |by: &UserId| {
            let write = Write { by: by.clone(), ..write.clone() };
            let record = TokenRecord::apply(token.id(), &write, None).unwrap().after.unwrap();
            let principal = record.authenticate(&token, None, at(9)).unwrap();
            (record.created_by, principal.token_creator)
        };
        let admin = UserId::derive(&["admin"]);
        assert_eq!(creators(&admin), (Some(admin.clone()), Some(admin)));
        assert_eq!(creators(&ann), (Some(ann), None));
        assert_eq!(creators(&UserId::platform()), (None, None));
    }

    #[test]
    fn lists_filter_by_name_and_user() {
        let (token, new) = token();
        let row = created(&token, new).list_row();
        let matches = |name: Option<&str>, user: Option<&str>| {
            let user = user.map(|user| UserId::derive(&[user]));
            row.matches(&TokenRecord::conditions(&TokenFilter { name_search: name.map(str::to_owned), user }))
        };
        assert!(matches(None, None) && matches(Some("TEST"), Some("ann")));
        assert!(!matches(Some("other"), None) && !matches(None, Some("bob")));
    }
}
