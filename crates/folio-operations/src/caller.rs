//! The authenticated caller of an operation.

use folio_types::access::Scope;
use folio_types::{Code, Error, OrgId, Principal, Reason, Result, Role, Timestamp, TokenId, UserId};

use crate::accounts::AccountOrganization;
use crate::declaration::{Access, Declaration};

/// Name of the header with the organization that a request selects, and of the field in errors about it.
pub const ORGANIZATION: &str = "folio-organization";

/// The kind of the credential that a caller presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// An access token of an organization.
    Token,
    /// A JWT, which is not stored.
    Jwt,
    /// A token of a user over all its organizations.
    AccountToken,
    /// A session of a user over all its organizations.
    Session,
    /// No credential.
    Absent,
}

impl CredentialKind {
    /// Returns true if the credential names a user and no organization.
    pub fn is_of_account(self) -> bool {
        matches!(self, Self::AccountToken | Self::Session)
    }

    /// Returns true if the credential is a stored access token.
    pub fn is_token(self) -> bool {
        matches!(self, Self::Token | Self::AccountToken)
    }
}

/// An authenticated caller: its principal, and the restrictions of the credential that it presented.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The organization is [`OrgId::platform`] if the caller selects none. The role is then the highest one that the
    /// credential permits in any organization.
    pub principal: Principal,
    /// Id of the presented token or session; for a JWT, an id that is derived from its text.
    pub token: TokenId,
    pub credential: CredentialKind,
    /// Scopes that the token is restricted to. Empty: unrestricted.
    pub scopes: Vec<Scope>,
    /// True if the credential permits operations on the whole installation.
    pub has_platform_right: bool,
    /// Expiry of the credential. None: it does not expire.
    pub expires_at: Option<Timestamp>,
}

impl Caller {
    /// Returns the caller of a request without a credential, which may run public operations only.
    pub fn anonymous() -> Self {
        Self {
            principal: Principal::new(OrgId::platform(), UserId::platform(), Role::Viewer),
            token: TokenId::derive(&["anonymous"]),
            credential: CredentialKind::Absent,
            scopes: Vec::new(),
            has_platform_right: false,
            expires_at: None,
        }
    }

    /// Returns the caller outside of any organization, for an operation on its account.
    #[must_use]
    pub(crate) fn without_organization(&self) -> Self {
        let principal = Principal { org: OrgId::platform(), ..self.principal.clone() };
        Self { principal, ..self.clone() }
    }

    /// Returns the caller in an organization of its user, with the lower role of user and credential. `found` was just read
    /// from the member row of this user: a caller cannot name an organization without a membership.
    #[must_use]
    pub fn in_organization(&self, found: &AccountOrganization) -> Self {
        let principal = Principal {
            org: found.organization.id.clone(),
            role: self.principal.role.min(found.role),
            ..self.principal.clone()
        };
        Self { principal, ..self.clone() }
    }

    pub fn covers(&self, scope: Scope) -> bool {
        self.scopes.is_empty() || self.scopes.contains(&scope)
    }

    /// Returns true if the request selects an organization, or the credential names one.
    pub fn has_organization(&self) -> bool {
        self.principal.org != OrgId::platform()
    }

    /// Returns true if the caller administers the platform: the credential permits it, and its user is still an admin
    /// of the organization, if the caller has one.
    pub fn is_platform_admin(&self) -> bool {
        self.has_platform_right && self.principal.role == Role::Admin
    }

    /// Checks credential, role, platform right and scope against the declaration of an operation.
    ///
    /// # Errors
    /// `ROLE_NOT_ALLOWED` or `SCOPE_NOT_ALLOWED`; the detail `role` or `scope` names what is missing. `INVALID_FIELD` of
    /// [`ORGANIZATION`] if the request selects no organization and the operation requires one.
    pub fn authorize(&self, operation: &Declaration) -> Result<()> {
        match operation.access {
            Access::Public => return Ok(()),
            Access::Account => self.require_account(operation)?,
            Access::Installation => {
                if !self.has_organization() {
                    self.require_account(operation)?;
                }
                self.check_role(operation)?;
            }
            Access::Organization => {
                if !self.has_organization() {
                    let problem = format!("{} requires the id of an organization of the user", operation.name);
                    return Err(Error::invalid_field(ORGANIZATION, problem));
                }
                self.check_role(operation)?;
            }
        }
        operation.scope().map_or(Ok(()), |scope| self.require(scope, operation.name))
    }

    fn require_account(&self, operation: &Declaration) -> Result<()> {
        if self.credential.is_of_account() {
            return Ok(());
        }
        let message = format!("{} requires a session or an account token", operation.name);
        Err(permission_denied(Reason::RoleNotAllowed, message, "role", "account"))
    }

    fn check_role(&self, operation: &Declaration) -> Result<()> {
        let role = operation.role;
        if self.principal.role < role {
            let message = format!("{} requires the role {}", operation.name, role.as_str());
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", role.as_str()));
        }
        if operation.platform && !self.is_platform_admin() {
            let message = format!("{} requires a token of the platform's administrator", operation.name);
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", "platform"));
        }
        Ok(())
    }

    /// Checks that the token covers a scope. `what`: the operation, or the part of a request, that requires the scope.
    ///
    /// # Errors
    /// `SCOPE_NOT_ALLOWED`; the detail `scope` names what is missing.
    pub(crate) fn require(&self, scope: Scope, what: &str) -> Result<()> {
        if self.covers(scope) {
            return Ok(());
        }
        let message = format!("{what} requires the scope {}, which this token lacks", scope.as_str());
        Err(permission_denied(Reason::ScopeNotAllowed, message, "scope", scope.as_str()))
    }
}

/// Creates the error of a caller without a permission. `name` and `missing` are the name and the value of the detail
/// that states the missing permission.
pub(crate) fn permission_denied(reason: Reason, message: impl Into<String>, name: &str, missing: &str) -> Error {
    Error::new(Code::PermissionDenied, reason, message).detail(name, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declaration::Service;

    static SERVICE: Service = Service { name: "Service", scope: Some(Scope::Administration) };

    fn caller(credential: CredentialKind, org: Option<&str>, role: Role, has_platform_right: bool) -> Caller {
        let org = org.map_or_else(OrgId::platform, |org| OrgId::derive(&[org]));
        let principal = Principal::new(org, UserId::derive(&["ann"]), role);
        Caller { principal, credential, has_platform_right, ..Caller::anonymous() }
    }

    fn refusal(caller: &Caller, operation: Declaration) -> Option<Reason> {
        caller.authorize(&operation).err().map(|error| error.reason)
    }

    #[test]
    fn an_operation_of_an_organization_requires_one_and_its_role() {
        use CredentialKind::{Absent, AccountToken, Jwt, Session, Token};
        let operation = SERVICE.change("CreateThing");
        for credential in [Token, Jwt, AccountToken, Session] {
            for (role, expected) in [(Role::Viewer, Some(Reason::RoleNotAllowed)), (Role::Member, None)] {
                assert_eq!(refusal(&caller(credential, Some("acme"), role, false), operation), expected);
            }
        }
        for credential in [AccountToken, Session, Absent] {
            let without = caller(credential, None, Role::Admin, true).authorize(&operation).unwrap_err();
            assert_eq!((without.code, without.violations[0].field.as_str()), (Code::InvalidArgument, ORGANIZATION));
        }
    }

    #[test]
    fn an_operation_of_an_account_refuses_credentials_of_organizations() {
        use CredentialKind::{Absent, AccountToken, Jwt, Session, Token};
        let operation = SERVICE.change("ChangeOwnThing").access(Access::Account);
        for (credential, is_permitted) in
            [(Token, false), (Jwt, false), (Absent, false), (AccountToken, true), (Session, true)]
        {
            let expected = (!is_permitted).then_some(Reason::RoleNotAllowed);
            for org in [None, Some("acme")] {
                let caller = caller(credential, org, Role::Viewer, false);
                assert_eq!(refusal(&caller, operation), expected, "{credential:?}");
            }
        }
        let limited = Caller { scopes: vec![Scope::Usage], ..caller(AccountToken, None, Role::Admin, true) };
        assert_eq!(refusal(&limited, operation), Some(Reason::ScopeNotAllowed));
    }

    #[test]
    fn an_operation_on_the_installation_requires_an_admin_of_the_organization_or_no_organization() {
        let operation = SERVICE.administer("CreateThing").platform().access(Access::Installation);
        for (org, role, platform, expected) in [
            (None, Role::Admin, true, None),
            (None, Role::Viewer, false, Some(Reason::RoleNotAllowed)),
            (Some("acme"), Role::Admin, true, None),
            (Some("acme"), Role::Admin, false, Some(Reason::RoleNotAllowed)),
            (Some("acme"), Role::Member, true, Some(Reason::RoleNotAllowed)),
        ] {
            let caller = caller(CredentialKind::Session, org, role, platform);
            assert_eq!(refusal(&caller, operation), expected, "{org:?} {role:?} {platform}");
        }
    }

    #[test]
    fn a_caller_without_scopes_covers_all_of_them() {
        let &[one, other, ..] = Scope::ALL else { panic!("fewer than two scopes") };
        for (scopes, covered) in [(vec![], [true, true]), (vec![one], [true, false]), (vec![one, other], [true, true])]
        {
            let caller = Caller { scopes, ..Caller::anonymous() };
            assert_eq!([one, other].map(|scope| caller.covers(scope)), covered);
        }
    }

    #[test]
    fn a_caller_without_a_credential_runs_public_operations_only() {
        let anonymous = Caller::anonymous();
        assert_eq!(refusal(&anonymous, SERVICE.change("SignIn").access(Access::Public)), None);
        for access in [Access::Account, Access::Installation, Access::Organization] {
            assert!(refusal(&anonymous, SERVICE.change("ChangeThing").access(access)).is_some(), "{access:?}");
        }
        assert!(refusal(&anonymous, SERVICE.read("GetThing").access(Access::Installation)).is_some());
    }
}
