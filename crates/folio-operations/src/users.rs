//! Operations of administrators on users that sign in with an e-mail address and a password.
//!
//! The audit entries contain ids only, because the log of the administrator remains when the user is deleted.

use folio_accounts::Password;
use folio_resources::audit::{AuditEntry, AuditKind, AuditTarget};
use folio_resources::{Organization, Resource as _, User, UserChange, UserFilter};
use folio_storage::Stores;
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::{Error, Etag, OrgId, Reason, Result, Role, UserId, limits};
use serde::Serialize;
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Access, Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::members::{check_removable, erase_member};
use crate::operation::{Operation, outcome_as_json};
use crate::sign_in::set_password;
use crate::tokens::revoke_tokens;

service! {
    "UserService", Some(Scope::Administration) =>
    CreateUser, GetUser, ListUsers, UpdateUser, ResetPassword, DeleteUser
}

/// Implements [`Operation::to_outcome`] and [`Operation::replay`] for an output that is a user. The outcome is the id,
/// because a user contains the hash of its password.
macro_rules! outcome_as_user_id {
    () => {
        fn to_outcome(user: &folio_resources::User) -> folio_types::Result<serde_json::Value> {
            Ok(serde_json::json!(user.id))
        }

        async fn replay(
            &self,
            context: &crate::context::Context,
            outcome: serde_json::Value,
        ) -> folio_types::Result<folio_resources::User> {
            let id: folio_types::UserId = crate::operation::read_outcome(outcome)?;
            crate::users::user(context.stores(), &id).await
        }
    };
}
pub(crate) use outcome_as_user_id;

/// Creates a user. The request id does not cover the password, because no fast digest of a password may be stored.
#[derive(Debug, Clone, Serialize)]
pub struct CreateUser {
    pub email: String,
    pub name: String,
    #[serde(skip)]
    pub password: Password,
    /// True if the user may administer the platform.
    pub platform: bool,
}

impl Operation for CreateUser {
    const DECLARATION: Declaration =
        SERVICE.administer("CreateUser").platform().changes_platform().access(Access::Installation);
    type Output = User;
    outcome_as_user_id!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<User>> {
        folio_resources::check_email("user.email", &self.email)?;
        folio_resources::fields::check_name("user.name", &self.name)?;
        let id = User::derive_id(&context.request.id_parts());
        Ok(AuditRecord::new(json!({ "user_id": id, "platform": self.platform })).target(User::KIND, id))
    }

    async fn run(self, context: &Context) -> Result<User> {
        let Self { email, name, password, platform } = self;
        let password = context.accounts()?.hasher.hash(context.principal().user.as_str(), &password).await?;
        let create = UserChange::Create { email, name, password, platform };
        user(context.stores(), &context.request.create::<User>(context.stores(), create).await?).await
    }
}

/// Returns a user: any one to the platform's administrator, otherwise a member of the caller's organization.
#[derive(Debug, Clone, Serialize)]
pub struct GetUser {
    pub user_id: UserId,
}

impl Operation for GetUser {
    const DECLARATION: Declaration = SERVICE.read("GetUser").role(Role::Admin).access(Access::Installation);
    type Output = User;

    async fn run(self, context: &Context) -> Result<User> {
        let (caller, id) = (&context.caller, &self.user_id);
        if !caller.is_platform_admin() {
            let member = match caller.has_organization() {
                true => context.stores().access().member(&context.principal().org, id).await?,
                false => None,
            };
            member.filter(|member| member.removed_at.is_none()).ok_or_else(|| User::not_found(id))?;
        }
        user(context.stores(), id).await
    }
}

/// Lists all users. Filter: `name:` a part of the name or of the e-mail address.
#[derive(Debug, Clone, Serialize)]
pub struct ListUsers {
    pub list: ListRequest,
}

impl Operation for ListUsers {
    const DECLARATION: Declaration = SERVICE.read("ListUsers").platform().access(Access::Installation);
    type Output = ListPage<User>;

    async fn run(self, context: &Context) -> Result<ListPage<User>> {
        let filter = UserFilter { name_search: filter::name_search(&self.list.filter)? };
        let keys = SortKeys::CreateTimeAndName;
        let listing = Listing::new(&self.list, &["users"], keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let users = context.stores().of::<User>();
        listing.fetch(async |page| users.list(&OrgId::platform(), &filter, &page).await).await
    }
}

/// Updates a user. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateUser {
    pub user_id: UserId,
    pub email: Option<String>,
    pub name: Option<String>,
    pub platform: Option<bool>,
    /// The version that the update is based on. None: any version.
    pub etag: Option<Etag>,
}

impl UpdateUser {
    fn change(&self) -> UserChange {
        UserChange::Update { email: self.email.clone(), name: self.name.clone(), platform: self.platform }
    }
}

impl Operation for UpdateUser {
    const DECLARATION: Declaration =
        SERVICE.administer("UpdateUser").platform().changes_platform().access(Access::Installation);
    type Output = User;
    outcome_as_user_id!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<User>> {
        self.change().check()?;
        let arguments = json!({ "user_id": self.user_id, "platform": self.platform, "etag": self.etag });
        Ok(AuditRecord::new(arguments).target(User::KIND, &self.user_id))
    }

    async fn run(self, context: &Context) -> Result<User> {
        update_user(context, &self.user_id, self.etag, self.change()).await
    }
}

/// Replaces the password of a user that has lost it, and ends the sessions of the user. The request id does not cover
/// the password.
#[derive(Debug, Clone, Serialize)]
pub struct ResetPassword {
    pub user_id: UserId,
    #[serde(skip)]
    pub password: Password,
    /// True if the account tokens of the user are revoked, too.
    pub revoke_account_tokens: bool,
}

impl Operation for ResetPassword {
    const DECLARATION: Declaration =
        SERVICE.administer("ResetPassword").platform().changes_platform().access(Access::Installation);
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        AuditRecord::of_input(self).map(|record| record.target(User::KIND, &self.user_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        // A hash is not computed for a missing user.
        user(context.stores(), &self.user_id).await?;
        set_password(context, &self.user_id, context.principal().user.as_str(), &self.password).await?;
        match self.revoke_account_tokens {
            true => revoke_tokens(context, &OrgId::platform(), Some(self.user_id)).await,
            false => Ok(()),
        }
    }
}

/// Deletes a user permanently: its sessions, its account tokens, and its memberships with their tokens.
#[derive(Debug, Clone, Serialize)]
pub struct DeleteUser {
    pub user_id: UserId,
    /// The e-mail address of the user, as a confirmation.
    #[serde(skip)]
    pub email: String,
}

impl Operation for DeleteUser {
    const DECLARATION: Declaration =
        SERVICE.administer("DeleteUser").platform().changes_platform().access(Access::Installation);
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        AuditRecord::of_input(self).map(|record| record.target(User::KIND, &self.user_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        delete_user(context, &self.user_id, &self.email).await
    }
}

pub(crate) async fn user(stores: &Stores, id: &UserId) -> Result<User> {
    stores.of::<User>().get(&OrgId::platform(), id).await?.ok_or_else(|| User::not_found(id))
}

/// Returns the user of the caller.
pub(crate) async fn own_user(context: &Context) -> Result<User> {
    user(context.stores(), &context.principal().user).await
}

pub(crate) async fn update_user(
    context: &Context,
    id: &UserId,
    etag: Option<Etag>,
    change: UserChange,
) -> Result<User> {
    let update = |_: User| std::future::ready(Ok(change.clone()));
    context.request.update(context.stores(), id, etag, update).await?;
    user(context.stores(), id).await
}

/// Deletes a user. Nothing is changed if an organization cannot do without the user. After a crash, a repeated request
/// continues: the record of the user is deleted after its memberships and before the rest.
///
/// # Errors
/// `INVALID_FIELD` of `email` unless it is the address of the user, without regard to case; `IN_USE` for the last admin
/// of an organization; `NOT_FOUND` if the user never existed.
pub(crate) async fn delete_user(context: &Context, id: &UserId, email: &str) -> Result<()> {
    let (stores, accounts) = (context.stores(), context.stores().accounts());
    let found = stores.of::<User>().get(&OrgId::platform(), id).await?;
    let Some(found) = found else {
        context.request.check_existed::<User>(stores, id).await?;
        return accounts.erase(id).await;
    };
    if folio_resources::folded(&found.email) != folio_resources::folded(email) {
        return Err(Error::invalid_field("email", "is not the e-mail address of the user"));
    }
    let mut orgs = accounts.organizations(id).await?;
    let live = stores.of::<Organization>().get_many(&OrgId::platform(), &orgs).await?;
    orgs.retain(|org| live.iter().any(|live| live.id == *org));
    for org in &orgs {
        check_removable(context, org, id).await?;
    }
    for org in &orgs {
        erase_member(context, org, id).await?;
        record_removal(context, org, id).await?;
    }
    revoke_tokens(context, &OrgId::platform(), Some(id.clone())).await?;
    match context.request.delete::<User>(stores, id, None).await {
        // Another request has deleted the user.
        Err(error) if error.reason == Reason::NotFound => {}
        deleted => deleted?,
    }
    accounts.erase(id).await
}

/// Records in the log of an organization that its member was removed with the user.
async fn record_removal(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    let by = &context.principal().user;
    let (key, at) = (format!("request:{by}:{}:member", context.request.id()), context.request.received_at());
    let entry = AuditEntry::new(&key, AuditKind::ChangeApplied, at, Some(by.clone()), "UserService.DeleteUser");
    let target = Some(AuditTarget::new("member", user));
    context.stores().audit.append(org, &[AuditEntry { target, ..entry }]).await
}
