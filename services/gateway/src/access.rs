//! Who may call what: each call names the least role that it needs, and each service the scope that its calls belong to.

use folio_types::access::Scope;
use folio_types::{Code, Error, Reason, Result, Role};

use crate::caller::Caller;

/// How long a call is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Reads or changes one thing: has a deadline.
    Short,
    /// Streams, waits for a model, or carries bytes: has limits of its own.
    Long,
}

/// One call of the public API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    /// Its path.
    pub path: &'static str,
    /// The least role that may make it.
    pub role: Role,
    /// How long it is under way.
    pub class: Class,
    /// Whether it concerns the whole installation: the token must say so, too.
    pub platform: bool,
}

const fn rpc(path: &'static str, role: Role, class: Class) -> Rpc {
    Rpc { path, role, class, platform: false }
}

const fn platform(path: &'static str) -> Rpc {
    Rpc { path, role: Admin, class: Short, platform: true }
}

use Class::{Long, Short};
use Role::{Admin, Member, Viewer};

/// The scope of each service's calls; none: any token may make them.
const SCOPES: &[(&str, Option<Scope>)] = &[
    ("ConversationService", Some(Scope::Conversations)),
    ("ThreadService", Some(Scope::Conversations)),
    ("DocumentService", Some(Scope::Documents)),
    ("SchemaService", Some(Scope::Definitions)),
    ("PromptService", Some(Scope::Definitions)),
    ("TagService", Some(Scope::Definitions)),
    ("ExtractionService", Some(Scope::Extractions)),
    ("ModelService", None),
    ("ProviderService", Some(Scope::Administration)),
    ("UsageService", Some(Scope::Usage)),
    ("CreditService", Some(Scope::Administration)),
    ("LimitService", Some(Scope::Administration)),
    ("TokenService", Some(Scope::Administration)),
    ("OrganizationService", Some(Scope::Administration)),
    ("PolicyService", Some(Scope::Administration)),
    ("AuditService", Some(Scope::Administration)),
];

impl Rpc {
    /// The scope that a limited token must have; none: any token will do. A service that is not in the table is taken for one of
    /// administration.
    pub fn scope(&self) -> Option<Scope> {
        let service = self.path.trim_start_matches("/folio.v1.").split('/').next().unwrap_or_default();
        SCOPES.iter().find(|(name, _)| *name == service).map_or(Some(Scope::Administration), |(_, scope)| *scope)
    }
}

/// Every call of the public API: viewers read, members also chat, approve and edit, admins also manage who may what. A call that
/// is not here is refused.
/// (What only admins may do, such as seeing the threads of others, is decided where the thread is read.)
pub const RPCS: &[Rpc] = &[
    rpc("/folio.v1.ConversationService/Chat", Member, Long),
    rpc("/folio.v1.ConversationService/Approve", Member, Long),
    rpc("/folio.v1.ConversationService/ResumeTurn", Member, Long),
    rpc("/folio.v1.ConversationService/CancelTurn", Member, Short),
    rpc("/folio.v1.ConversationService/GetTurn", Viewer, Short),
    rpc("/folio.v1.ConversationService/WatchTurn", Viewer, Long),
    rpc("/folio.v1.ConversationService/ListTools", Viewer, Short),
    rpc("/folio.v1.ConversationService/ListPendingApprovals", Member, Short),
    rpc("/folio.v1.ConversationService/WatchPendingApprovals", Member, Long),
    rpc("/folio.v1.ThreadService/CreateThread", Member, Short),
    rpc("/folio.v1.ThreadService/ListThreads", Viewer, Short),
    rpc("/folio.v1.ThreadService/GetThread", Viewer, Short),
    rpc("/folio.v1.ThreadService/RenameThread", Member, Short),
    rpc("/folio.v1.ThreadService/DeleteThread", Member, Short),
    rpc("/folio.v1.ThreadService/ForkThread", Member, Short),
    rpc("/folio.v1.DocumentService/UploadDocument", Member, Long),
    rpc("/folio.v1.DocumentService/GetDocument", Viewer, Short),
    rpc("/folio.v1.DocumentService/DownloadDocument", Viewer, Long),
    rpc("/folio.v1.DocumentService/ListDocuments", Viewer, Short),
    rpc("/folio.v1.DocumentService/UpdateDocument", Member, Short),
    rpc("/folio.v1.DocumentService/DeleteDocument", Member, Short),
    rpc("/folio.v1.DocumentService/GetDocumentText", Viewer, Short),
    rpc("/folio.v1.SchemaService/CreateSchema", Member, Short),
    rpc("/folio.v1.SchemaService/GetSchemaRevision", Viewer, Short),
    rpc("/folio.v1.SchemaService/ListSchemas", Viewer, Short),
    rpc("/folio.v1.SchemaService/ListSchemaVersions", Viewer, Short),
    rpc("/folio.v1.SchemaService/UpdateSchema", Member, Short),
    rpc("/folio.v1.SchemaService/DeleteSchema", Member, Short),
    rpc("/folio.v1.SchemaService/ValidateSchema", Viewer, Short),
    rpc("/folio.v1.SchemaService/ValidateData", Viewer, Short),
    rpc("/folio.v1.PromptService/CreatePrompt", Member, Short),
    rpc("/folio.v1.PromptService/GetPromptRevision", Viewer, Short),
    rpc("/folio.v1.PromptService/ListPrompts", Viewer, Short),
    rpc("/folio.v1.PromptService/ListPromptVersions", Viewer, Short),
    rpc("/folio.v1.PromptService/UpdatePrompt", Member, Short),
    rpc("/folio.v1.PromptService/DeletePrompt", Member, Short),
    rpc("/folio.v1.PromptService/ValidatePrompt", Viewer, Short),
    rpc("/folio.v1.PromptService/ValidatePromptData", Viewer, Short),
    rpc("/folio.v1.TagService/CreateTag", Member, Short),
    rpc("/folio.v1.TagService/GetTag", Viewer, Short),
    rpc("/folio.v1.TagService/ListTags", Viewer, Short),
    rpc("/folio.v1.TagService/UpdateTag", Member, Short),
    rpc("/folio.v1.TagService/DeleteTag", Member, Short),
    rpc("/folio.v1.ExtractionService/RunExtraction", Member, Long),
    rpc("/folio.v1.ExtractionService/GetExtraction", Viewer, Short),
    rpc("/folio.v1.ExtractionService/UpdateExtractionField", Member, Short),
    rpc("/folio.v1.ExtractionService/ReplaceExtraction", Member, Short),
    rpc("/folio.v1.ExtractionService/VerifyExtraction", Member, Short),
    rpc("/folio.v1.ExtractionService/DeleteExtraction", Member, Short),
    rpc("/folio.v1.ExtractionService/ListExtractions", Viewer, Short),
    rpc("/folio.v1.ModelService/ListModels", Viewer, Short),
    rpc("/folio.v1.ProviderService/ListProviders", Admin, Short),
    rpc("/folio.v1.ProviderService/UpdateProvider", Admin, Short),
    rpc("/folio.v1.ProviderService/DeleteProvider", Admin, Short),
    rpc("/folio.v1.ProviderService/SetModelDefaults", Admin, Short),
    rpc("/folio.v1.ProviderService/DiscoverModels", Admin, Long),
    rpc("/folio.v1.ProviderService/TestProvider", Admin, Long),
    rpc("/folio.v1.TokenService/CreateToken", Admin, Short),
    rpc("/folio.v1.TokenService/ListTokens", Admin, Short),
    rpc("/folio.v1.TokenService/RevokeToken", Admin, Short),
    platform("/folio.v1.OrganizationService/CreateOrganization"),
    platform("/folio.v1.OrganizationService/ListOrganizations"),
    platform("/folio.v1.OrganizationService/DeleteOrganization"),
    rpc("/folio.v1.OrganizationService/GetOrganization", Viewer, Short),
    rpc("/folio.v1.OrganizationService/UpdateOrganization", Admin, Short),
    rpc("/folio.v1.OrganizationService/AddMember", Admin, Short),
    rpc("/folio.v1.OrganizationService/ListMembers", Viewer, Short),
    rpc("/folio.v1.OrganizationService/UpdateMember", Admin, Short),
    rpc("/folio.v1.OrganizationService/RemoveMember", Admin, Short),
    rpc("/folio.v1.PolicyService/GetPolicy", Viewer, Short),
    rpc("/folio.v1.PolicyService/SetPolicy", Admin, Short),
    rpc("/folio.v1.AuditService/ListAuditEntries", Admin, Short),
    rpc("/folio.v1.AuditService/DownloadAuditEntries", Admin, Long),
    rpc("/folio.v1.UsageService/GetBalance", Viewer, Short),
    rpc("/folio.v1.UsageService/GetUsage", Viewer, Long),
    rpc("/folio.v1.UsageService/DownloadUsage", Viewer, Long),
    platform("/folio.v1.CreditService/GrantCredit"),
    platform("/folio.v1.CreditService/WithdrawCredit"),
    rpc("/folio.v1.LimitService/GetLimits", Admin, Short),
    platform("/folio.v1.LimitService/SetLimits"),
];

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// A call of the public API.
    Api(&'static Rpc),
    /// Health and reflection: need no token.
    Public,
    /// Nothing that is served.
    Unknown,
}

/// What a path is.
pub(crate) fn route(path: &str) -> Route {
    if let Some(rpc) = RPCS.iter().find(|rpc| rpc.path == path) {
        Route::Api(rpc)
    } else if path.starts_with("/grpc.health.v1.Health/") || path.starts_with("/grpc.reflection.v1.ServerReflection/") {
        Route::Public
    } else {
        Route::Unknown
    }
}

/// Checks what a call needs against who calls.
pub(crate) fn check(rpc: &Rpc, caller: &Caller) -> Result<()> {
    if caller.principal.role < rpc.role {
        let needed = rpc.role.as_str();
        let message = format!("this call needs the role {needed}");
        return Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, message).detail("role", needed));
    }
    if rpc.platform && !caller.is_platform_admin() {
        let message = "this call needs a token of the platform's administrator";
        return Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, message).detail("role", "platform"));
    }
    match rpc.scope() {
        Some(scope) if !caller.covers(scope) => {
            let message = format!("this token is limited, and lacks the scope {}", scope.as_str());
            Err(Error::new(Code::PermissionDenied, Reason::ScopeNotAllowed, message).detail("scope", scope.as_str()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use prost::Message as _;

    #[test]
    fn every_call_of_the_api_is_in_the_table_and_streams_are_long() {
        let set = prost_types::FileDescriptorSet::decode(folio_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut described = BTreeMap::new();
        for file in set.file.iter().filter(|file| file.package() == "folio.v1") {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/folio.v1.{}/{}", service.name(), method.name());
                    described.insert(path, method.server_streaming() || method.client_streaming());
                }
            }
        }
        let table: BTreeMap<String, &Rpc> = RPCS.iter().map(|rpc| (rpc.path.to_owned(), rpc)).collect();
        assert_eq!(table.len(), RPCS.len(), "a path stands twice");
        assert_eq!(described.keys().collect::<Vec<_>>(), table.keys().collect::<Vec<_>>());
        for (path, streams) in described {
            assert!(!streams || table[&path].class == Long, "{path}");
        }
    }

    #[test]
    fn reads_need_a_viewer_and_everything_else_at_least_a_member() {
        for rpc in RPCS.iter().filter(|rpc| rpc.role < Admin) {
            let name = rpc.path.rsplit('/').next().unwrap();
            let reads = ["Get", "List", "Validate", "Watch", "Download"].iter().any(|verb| name.starts_with(verb));
            // Who may only read decides nothing: nothing waits for a viewer.
            let reads = reads && !name.ends_with("PendingApprovals");
            assert_eq!(rpc.role == Viewer, reads, "{}", rpc.path);
        }
    }

    #[test]
    fn every_service_has_its_scope_and_only_administration_is_an_admins() {
        for rpc in RPCS {
            let service = rpc.path.trim_start_matches("/folio.v1.").split('/').next().unwrap();
            assert!(SCOPES.iter().any(|(name, _)| *name == service), "{service}");
            assert!(rpc.role < Admin || rpc.scope() == Some(Scope::Administration), "{}", rpc.path);
        }
    }
}
