//! Sign-in, sign-out and change of the own password. They belong to `AccountService`.

use bytes::Bytes;
use folio_accounts::Password;
use folio_resources::audit::{AuditEntry, AuditKind, AuditTarget};
use folio_resources::{Session, User, UserChange, check_email};
use folio_types::access::Scope;
use folio_types::{Code, Error, OrgId, Reason, Result, Secret, SessionToken, Timestamp, UserId};
use serde::Serialize;
use serde_json::json;

use crate::accounts::SERVICE;
use crate::audit::AuditRecord;
use crate::caller::{CredentialKind, permission_denied};
use crate::context::Context;
use crate::declaration::{Access, Audit, Declaration};
use crate::operation::{Operation, outcome_as_json};
use crate::users::own_user;

/// The proof that a sign-in is one of its user.
#[derive(Debug, Clone)]
pub enum SignInProof {
    Password(Password),
    /// A page with the secret of the setting `users.page_secret` has authenticated the user.
    Signature {
        /// The signed request, which names the address of the user.
        body: Bytes,
        /// The HMAC-SHA256 of the body in hexadecimal digits.
        signature: String,
    },
}

/// Starts a session of a user.
#[derive(Debug, Clone, Serialize)]
pub struct SignIn {
    pub email: String,
    #[serde(skip)]
    pub proof: SignInProof,
    /// The client, such as its network. Clients take turns in the computation of hashes.
    #[serde(skip)]
    pub client: String,
}

#[derive(Debug, Clone)]
pub struct SignedIn {
    pub user: User,
    /// The complete token of the session.
    pub token: Secret,
    pub expires_at: Timestamp,
}

impl Operation for SignIn {
    const DECLARATION: Declaration =
        Declaration { audit: Audit::ByOperation, ..SERVICE.change("SignIn").access(Access::Public) };
    type Output = SignedIn;

    async fn run(self, context: &Context) -> Result<SignedIn> {
        let accounts = context.accounts()?;
        if let SignInProof::Signature { body, signature } = &self.proof
            && !accounts.pages.is_signed(body, signature)
        {
            return Err(Error::new(Code::Unauthenticated, Reason::SignInFailed, "the signature is invalid"));
        }
        check_email("email", &self.email)?;
        let (users, platform) = (context.stores().of::<User>(), OrgId::platform());
        let user = match users.by_name(&platform, &self.email).await? {
            // An unknown address costs the same reads as a known one.
            None => users.get(&platform, &UserId::platform()).await?,
            known => known,
        };
        let is_right = match &self.proof {
            SignInProof::Password(password) => {
                check_password(context, &self.client, &self.email, user.as_ref(), password).await?
            }
            SignInProof::Signature { .. } => true,
        };
        match user {
            Some(user) if is_right => start_session(context, user).await,
            None if is_right => {
                let unknown = Error::new(Code::Unauthenticated, Reason::SignInFailed, "the e-mail address is unknown");
                Err(unknown.detail("missing", "user"))
            }
            user => {
                record_failure(context, user);
                let message = "the e-mail address is unknown, or the password is wrong";
                Err(Error::new(Code::Unauthenticated, Reason::SignInFailed, message))
            }
        }
    }
}

/// Compares a password with that of an account. A wrong password counts as a failed sign-in. None: the account is
/// unknown, and the result is false.
///
/// # Errors
/// `TOO_MANY_ATTEMPTS`, `OVERLOADED`.
async fn check_password(
    context: &Context,
    client: &str,
    email: &str,
    user: Option<&User>,
    password: &Password,
) -> Result<bool> {
    let accounts = context.accounts()?;
    let attempt = accounts.attempts.begin(email).await?;
    let verified = accounts.hasher.verify(client, password, user.map(|user| &user.password)).await;
    // An attempt that could not be verified is no failed one.
    if !matches!(verified, Ok(false)) {
        accounts.attempts.pardon(attempt).await;
    }
    verified
}

async fn start_session(context: &Context, user: User) -> Result<SignedIn> {
    let (accounts, now) = (context.stores().accounts(), context.environment().now());
    let token = SessionToken::generate(&user.id, context.environment());
    let session = Session::new(&token, &user, now);
    accounts.add_session(&user.id, &session, now).await?;
    let target = Some(AuditTarget::new("session", &session.id));
    let entry = AuditEntry { target, ..entry(context, AuditKind::ChangeApplied, &user) };
    if let Err(error) = context.stores().audit.append(&context.audit_org(), &[entry]).await {
        // A session without an entry must not be used.
        accounts.remove_session(&user.id, &session.id).await?;
        return Err(error);
    }
    Ok(SignedIn { user, token: Secret::new(&token.reveal()), expires_at: session.expires_at })
}

/// Records a failed sign-in to an account after the response, so that the response to a known address takes no longer.
fn record_failure(context: &Context, user: Option<User>) {
    let Some(user) = user else { return };
    let outcome = Some(Reason::SignInFailed.as_str().to_owned());
    let entry = AuditEntry { outcome, ..entry(context, AuditKind::ChangeFailed, &user) };
    let (audit, org) = (context.stores().audit.clone(), context.audit_org());
    context.tasks().spawn(async move {
        if let Err(error) = audit.append(&org, &[entry]).await {
            tracing::warn!(%error, "a failed sign-in is missing in the audit log");
        }
    });
}

fn entry(context: &Context, kind: AuditKind, user: &User) -> AuditEntry {
    let (key, now) = (format!("request:{}:{}", user.id, context.request.id()), context.environment().now());
    AuditEntry::new(&key, kind, now, Some(user.id.clone()), "AccountService.SignIn")
}

/// Ends the session of the caller.
#[derive(Debug, Clone, Serialize)]
pub struct SignOut {}

impl Operation for SignOut {
    const DECLARATION: Declaration = SERVICE.change("SignOut").access(Access::Account).recorded();
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<()>> {
        Ok(AuditRecord::new(json!({})).target("session", &context.caller.token))
    }

    async fn run(self, context: &Context) -> Result<()> {
        if context.caller.credential != CredentialKind::Session {
            let message = "SignOut requires a session; revoke an account token with RevokeAccountToken";
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", "session"));
        }
        context.stores().accounts().remove_session(&context.principal().user, &context.caller.token).await
    }
}

/// Changes the password of the caller and ends all its sessions. The request id does not cover the passwords, because
/// no fast digest of a password may be stored.
#[derive(Debug, Clone, Serialize)]
pub struct ChangePassword {
    #[serde(skip)]
    pub current_password: Password,
    #[serde(skip)]
    pub new_password: Password,
}

impl Operation for ChangePassword {
    const DECLARATION: Declaration = SERVICE.change("ChangePassword").access(Access::Account).recorded();
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<()>> {
        Ok(AuditRecord::of_own_user(context))
    }

    async fn run(self, context: &Context) -> Result<()> {
        context.caller.require(Scope::Administration, "ChangePassword")?;
        let user = own_user(context).await?;
        let client = user.id.as_str();
        if !check_password(context, client, &user.email, Some(&user), &self.current_password).await? {
            return Err(Error::invalid_field("current_password", "is wrong").with_reason(Reason::SignInFailed));
        }
        set_password(context, &user.id, client, &self.new_password).await
    }
}

/// Replaces the password of a user. The change ends the sessions; their rows are removed afterwards. `client` waits in
/// turn for the computation of the hash.
pub(crate) async fn set_password(context: &Context, user: &UserId, client: &str, password: &Password) -> Result<()> {
    let hash = context.accounts()?.hasher.hash(client, password).await?;
    let change = |_: User| std::future::ready(Ok(UserChange::SetPassword(hash.clone())));
    context.request.update(context.stores(), user, None, change).await?;
    context.stores().accounts().remove_sessions(user).await
}
