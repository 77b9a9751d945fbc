//! Operations on organizations.

use folio_resources::{
    Member, MemberChange, NewToken, Organization, OrganizationChange, OrganizationFilter, TagRunsPatch, TokenChange,
    TokenRecord,
};
use folio_storage::Stores;
use folio_types::page::Order;
use folio_types::token::Token;
use folio_types::{Error, Etag, IngestionMode, OrgId, Reason, Result, Role, Secret, TokenId, UserId, limits};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::AuditRecord;
use crate::caller::Caller;
use crate::context::Context;
use crate::declaration::{Access, Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::members::{self, change_member};
use crate::operation::{Operation, outcome_as_json};
use crate::tokens::revoke_tokens;
use crate::users;

use folio_types::access::Scope;

service! {
    "OrganizationService", Some(Scope::Administration) =>
    CreateOrganization, ListOrganizations, GetOrganization, UpdateOrganization, DeleteOrganization,
    members::AddMember, members::ListMembers, members::UpdateMember, members::RemoveMember
}

/// Maximum number of accounts from which a deleted organization is removed concurrently.
const REMOVALS: usize = 16;

/// Creates an organization with its first admin and, by default, the admin's token.
#[derive(Debug, Clone, Serialize)]
pub struct CreateOrganization {
    pub name: String,
    /// The display name of the first admin.
    pub admin_name: String,
    /// The user that becomes the first admin, and that signs in with a password. None: a new user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_user_id: Option<UserId>,
    /// True if no token is created, because the caller of the operation does not return it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_without_token: bool,
}

#[derive(Debug, Clone)]
pub struct CreatedOrganization {
    pub organization: Organization,
    pub admin: Member,
    /// The complete token. None if no token was created, or if the request was repeated: the secret is not stored.
    pub admin_token: Option<Secret>,
}

impl CreateOrganization {
    fn ids(&self, context: &Context) -> (OrgId, UserId) {
        let parts = context.request.id_parts();
        (OrgId::derive(&parts), self.admin_user_id.clone().unwrap_or_else(|| UserId::derive(&parts)))
    }
}

impl Operation for CreateOrganization {
    const DECLARATION: Declaration =
        SERVICE.administer("CreateOrganization").platform().changes_platform().access(Access::Installation);
    type Output = CreatedOrganization;

    /// Records the ids only: the record belongs to the caller's organization and remains when the new one is deleted.
    fn to_outcome(created: &CreatedOrganization) -> Result<Value> {
        Ok(json!({ "organization_id": created.organization.id, "user_id": created.admin.user }))
    }

    async fn replay(&self, context: &Context, _: Value) -> Result<CreatedOrganization> {
        let (id, user) = self.ids(context);
        let organization = organization(context.stores(), &id).await?;
        let admin =
            context.stores().access().member(&id, &user).await?.ok_or_else(|| Error::not_found("member", &user))?;
        Ok(CreatedOrganization { organization, admin, admin_token: None })
    }

    async fn audit(&self, context: &Context) -> Result<AuditRecord<CreatedOrganization>> {
        let (id, user) = self.ids(context);
        // Ids only, because the log of the caller's organization remains when the new organization is deleted.
        let record = AuditRecord::new(json!({ "organization_id": id, "user_id": user }));
        Ok(record.target("organization", &id).creates(id))
    }

    /// Creates organization, admin and token in this order. After a crash, a repeated request creates the missing ones.
    async fn run(self, context: &Context) -> Result<CreatedOrganization> {
        folio_resources::fields::check_name("organization.name", &self.name)?;
        folio_resources::fields::check_name("admin_name", &self.admin_name)?;
        let (id, user) = self.ids(context);
        let access = context.stores().access();
        if let Some(user) = &self.admin_user_id {
            users::user(context.stores(), user).await?;
        }
        let create = OrganizationChange::Create { name: self.name };
        context.request.create::<Organization>(context.stores(), create).await?;
        let organization = organization(context.stores(), &id).await?;
        if self.admin_user_id.is_some() {
            // Not before the organization exists, because the user's list of organizations drops missing ones.
            context.stores().accounts().add_organization(&user, &id).await?;
        }
        let admin = match access.member(&id, &user).await? {
            Some(stored) => stored,
            None => {
                let add = MemberChange::Add { name: self.admin_name, role: Role::Admin };
                change_member(context, &id, &user, &add).await?
            }
        };
        if self.is_without_token {
            return Ok(CreatedOrganization { organization, admin, admin_token: None });
        }
        let token = Token::with_id(&id, TokenId::derive(&[id.as_str()]), context.environment());
        let new = NewToken::new(&token, user, Role::Admin, "first token");
        let write = TokenChange::create_by_platform(&token, new, context.request.received_at())?;
        let tokens = context.stores().of::<TokenRecord>();
        tokens.decide(token.id(), write).await?;
        let stored = tokens.get(&id, token.id()).await?;
        let is_new = stored.is_some_and(|stored| stored.hash == token.hash());
        let admin_token = is_new.then(|| Secret::new(&token.reveal()));
        Ok(CreatedOrganization { organization, admin, admin_token })
    }
}

/// Lists all organizations. Filter: `name:` a part of the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListOrganizations {
    pub list: ListRequest,
}

impl Operation for ListOrganizations {
    const DECLARATION: Declaration = SERVICE.read("ListOrganizations").platform().access(Access::Installation);
    type Output = ListPage<Organization>;

    async fn run(self, context: &Context) -> Result<ListPage<Organization>> {
        let filter = OrganizationFilter { name_search: filter::name_search(&self.list.filter)? };
        let keys = SortKeys::CreateTimeAndName;
        let listing = Listing::new(&self.list, &["organizations"], keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let organizations = context.stores().of::<Organization>();
        listing.fetch(async |page| organizations.list(&OrgId::platform(), &filter, &page).await).await
    }
}

/// An organization, with the permissions of the caller in it.
#[derive(Debug, Clone)]
pub struct FoundOrganization {
    pub organization: Organization,
    /// The role that the credential of the caller has there. None: the caller acts in another organization, or in none.
    pub caller_role: Option<Role>,
    /// The scopes that the credential of the caller is restricted to there. Empty: unrestricted, or no role.
    pub caller_scopes: Vec<Scope>,
}

#[derive(Debug, Clone, Serialize)]
pub struct GetOrganization {
    /// The organization. None: the caller's organization. Only the platform's administrator sees other organizations.
    pub organization_id: Option<OrgId>,
}

impl Operation for GetOrganization {
    // A platform administrator reads an organization without being its member; any other account finds none. Every token
    // reads its own organization, because the answer contains the scopes of the token.
    const DECLARATION: Declaration = SERVICE.read("GetOrganization").access(Access::Installation).of_any_scope();
    type Output = FoundOrganization;

    async fn run(self, context: &Context) -> Result<FoundOrganization> {
        let (caller, principal) = (&context.caller, context.principal());
        if self.organization_id.as_ref().is_some_and(|id| *id != principal.org) {
            caller.require(Scope::Administration, "another organization")?;
        }
        let organization = visible_organization(context, self.organization_id).await?;
        let is_own = organization.id == principal.org;
        let caller_role = is_own.then_some(principal.role);
        let caller_scopes = if is_own { caller.scopes.clone() } else { Vec::new() };
        Ok(FoundOrganization { organization, caller_role, caller_scopes })
    }
}

/// Updates the caller's organization. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateOrganization {
    pub name: Option<String>,
    /// Days without activity after which a thread is deleted. 0: threads are kept.
    pub thread_retention_days: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_runs_disabled: Option<bool>,
    /// Maximum number of documents on which a change of a prompt runs the prompt. 0: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_batch_documents: Option<u32>,
    /// True if an agent makes a proposal for each uploaded document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_create: Option<bool>,
    /// The mode of the ingestion that begins when the text of a document becomes ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingestion: Option<IngestionMode>,
    /// The version that the update is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateOrganization {
    const DECLARATION: Declaration = SERVICE.administer("UpdateOrganization").changes_platform();
    type Output = Organization;
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<Organization>> {
        AuditRecord::of_input(self).map(|record| record.target("organization", &context.principal().org))
    }

    async fn run(self, context: &Context) -> Result<Organization> {
        let thread_retention_days = self.thread_retention_days.map(|days| Some(days).filter(|days| *days > 0));
        let tag_runs = TagRunsPatch { disabled: self.tag_runs_disabled, batch_documents: self.tag_batch_documents };
        let (name, auto_create, ingestion) = (self.name, self.auto_create, self.ingestion);
        let update = OrganizationChange::Update { name, thread_retention_days, tag_runs, auto_create, ingestion };
        change_organization(context, &context.principal().org, self.etag, update).await
    }
}

/// Deletes an organization permanently.
#[derive(Debug, Clone, Serialize)]
pub struct DeleteOrganization {
    /// The organization to delete. The caller's own organization and the first organization of the installation are
    /// refused.
    pub organization_id: OrgId,
    /// The exact name of the organization, as a confirmation.
    pub name: String,
}

impl Operation for DeleteOrganization {
    const DECLARATION: Declaration =
        SERVICE.administer("DeleteOrganization").platform().changes_platform().access(Access::Installation);
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        let id = &self.organization_id;
        // Ids only, because the log of the deleted organization is erased with it.
        Ok(AuditRecord::new(json!({ "organization_id": id })).target("organization", id))
    }

    /// Writes the tombstone, then revokes the tokens. After a crash, a repeated request revokes the remaining ones; the
    /// sweep erases all other data.
    async fn run(self, context: &Context) -> Result<()> {
        let id = &self.organization_id;
        let delete = |stored: Organization| {
            let deletion = if stored.name != self.name {
                Err(Error::invalid_field("name", "is not the name of the organization"))
            } else if *id == context.principal().org {
                Err(Error::precondition(Reason::InUse, "the caller's own organization cannot be deleted"))
            } else {
                Ok(OrganizationChange::Delete)
            };
            std::future::ready(deletion)
        };
        match context.request.update(context.stores(), id, None, delete).await {
            // After a crash, tokens of the deleted organization may still have to be revoked.
            Err(error) if error.reason == Reason::NotFound => {
                context.request.check_existed::<Organization>(context.stores(), id).await?;
            }
            deleted => drop(deleted?),
        }
        remove_from_accounts(context, id).await?;
        context.clean_up().sweep_soon();
        revoke_tokens(context, id, None).await
    }
}

/// Removes a deleted organization from those of its members. What a crash leaves is removed when the user lists its
/// organizations.
async fn remove_from_accounts(context: &Context, org: &OrgId) -> Result<()> {
    let (accounts, members) = (context.stores().accounts(), context.stores().access().members(org).await?);
    let remove = |member: Member| {
        let accounts = accounts.clone();
        async move { accounts.remove_organization(&member.user, org).await }
    };
    futures::stream::iter(members).map(remove).buffer_unordered(REMOVALS).try_collect().await
}

/// Returns an organization that the caller may see: its own (also if `id` is None), or any organization if the caller
/// is the platform's administrator.
pub(crate) async fn visible_organization(context: &Context, id: Option<OrgId>) -> Result<Organization> {
    let caller: &Caller = &context.caller;
    let own = &caller.principal.org;
    let id = id.unwrap_or_else(|| own.clone());
    if id != *own && !caller.is_platform_admin() {
        return Err(Error::not_found("organization", &id));
    }
    organization(context.stores(), &id).await
}

pub(crate) async fn organization(stores: &Stores, id: &OrgId) -> Result<Organization> {
    let found = stores.of::<Organization>().get(&OrgId::platform(), id).await?;
    found.ok_or_else(|| Error::not_found("organization", id))
}

/// Changes an organization and returns it. `etag` is the version that the change is based on. None: any version.
pub(crate) async fn change_organization(
    context: &Context,
    id: &OrgId,
    etag: Option<Etag>,
    change: OrganizationChange,
) -> Result<Organization> {
    let update = |_: Organization| std::future::ready(Ok(change.clone()));
    context.request.update(context.stores(), id, etag, update).await?;
    organization(context.stores(), id).await
}
