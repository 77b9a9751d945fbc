//! Principals, roles and scopes.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::{OrgId, UserId};

named_enum! {
    /// Role of a user in an organization. A higher role includes the lower ones.
    pub enum Role {
        /// May read.
        Viewer = "viewer",
        /// May also chat, approve and edit.
        Member = "member",
        /// May also manage tokens, members, policies and settings.
        Admin = "admin",
    }
}

named_enum! {
    /// Part of the API to which a token can be limited. RPCs that every token permits (listing the models) have no
    /// scope.
    pub enum Scope {
        /// Threads, turns and approvals.
        Conversations = "conversations",
        /// Documents and their text.
        Documents = "documents",
        /// Schemas, prompts, tags, collections and the dictionary.
        Definitions = "definitions",
        /// Extractions outside of conversations.
        Extractions = "extractions",
        /// Balance and usage.
        Usage = "usage",
        /// Tokens, members, policies, settings and the audit log.
        Administration = "administration",
    }
}

impl Scope {
    /// Returns the scope with this name. Fails with `INVALID_FIELD`, which lists the existing names.
    pub fn parse(field: &str, name: &str) -> Result<Self> {
        Self::from_name(name).ok_or_else(|| {
            let names = Self::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
            Error::invalid_field(field, format!("expected one of {names}"))
        })
    }
}

/// Authenticated caller. It is derived from the token and attached to every call; a request cannot set it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    pub org: OrgId,
    /// User on whose behalf the call is made.
    pub user: UserId,
    pub role: Role,
    /// User that created the presented token for `user`. None: `user` itself or the platform created the token, or the
    /// credential is a JWT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_creator: Option<UserId>,
}

impl Principal {
    /// Returns a principal whose token no other user created.
    pub fn new(org: OrgId, user: UserId, role: Role) -> Self {
        Self { org, user, role, token_creator: None }
    }

    /// Returns the id under which the bounds of organizations count the calls of this principal. A principal without an
    /// organization has bounds of its own.
    pub fn counted_as(&self) -> OrgId {
        match self.org == OrgId::platform() {
            true => OrgId::derive(&["account", self.user.as_str()]),
            false => self.org.clone(),
        }
    }

    /// Returns true if the call may have been made by this user: as the user of the token, or as its creator.
    pub fn may_be(&self, user: &UserId) -> bool {
        self.user == *user || self.token_creator.as_ref() == Some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_be_of_the_user_of_its_token_or_of_the_creator() {
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(|name| UserId::derive(&[name]));
        let principal = Principal::new(OrgId::derive(&["acme"]), ann.clone(), Role::Member);
        assert!(principal.may_be(&ann) && !principal.may_be(&bob));
        let created = Principal { token_creator: Some(bob.clone()), ..principal };
        assert!(created.may_be(&ann) && created.may_be(&bob) && !created.may_be(&eve));
    }

    #[test]
    fn each_principal_without_an_organization_has_bounds_of_its_own() {
        let counted = |org: OrgId, name| Principal::new(org, UserId::derive(&[name]), Role::Member).counted_as();
        let acme = OrgId::derive(&["acme"]);
        assert_eq!(counted(acme.clone(), "ann"), acme);
        let [ann, bob] = ["ann", "bob"].map(|name| counted(OrgId::platform(), name));
        assert!(ann != bob && ann != OrgId::platform());
    }

    #[test]
    fn an_unknown_scope_is_refused_with_the_known_ones() {
        assert_eq!(Scope::parse("scope", "usage"), Ok(Scope::Usage));
        let refused = Scope::parse("scope", "Usage").unwrap_err();
        assert!(refused.message.contains("conversations, documents"), "{refused}");
    }
}
