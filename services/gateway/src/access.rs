//! Who may call what: the token becomes a principal, and each call names the least role that it needs.

use std::sync::Arc;
use std::time::Duration;

use folio_storage::AccessStore;
use folio_types::token::{Token, TokenId, TokenRecord};
use folio_types::{Code, Environment, Error, Principal, Reason, Result, Role};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use moka::future::Cache;

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
}

const fn rpc(path: &'static str, role: Role, class: Class) -> Rpc {
    Rpc { path, role, class }
}

use Class::{Long, Short};
use Role::{Member, Viewer};

/// Every call of the public API: viewers read, members also chat, approve and edit. A call that is not here is refused.
/// (What only admins may do, such as seeing the threads of others, is decided where the thread is read.)
pub const RPCS: &[Rpc] = &[
    rpc("/folio.v1.ConversationService/Chat", Member, Long),
    rpc("/folio.v1.ConversationService/Approve", Member, Long),
    rpc("/folio.v1.ConversationService/ResumeTurn", Member, Long),
    rpc("/folio.v1.ConversationService/CancelTurn", Member, Short),
    rpc("/folio.v1.ConversationService/GetTurn", Viewer, Short),
    rpc("/folio.v1.ConversationService/WatchTurn", Viewer, Long),
    rpc("/folio.v1.ConversationService/ListTools", Viewer, Short),
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

/// Checks a role against what a call needs.
pub(crate) fn check_role(rpc: &Rpc, principal: &Principal) -> Result<()> {
    if principal.role >= rpc.role {
        return Ok(());
    }
    let needed = match rpc.role {
        Role::Viewer => "viewer",
        Role::Member => "member",
        Role::Admin => "admin",
    };
    let message = format!("this call needs the role {needed}");
    Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, message).detail("role", needed))
}

/// Turns bearer tokens into principals. Records are believed for a moment, so that a stream of calls is not a stream of
/// reads; a revoked token is refused within that moment.
#[derive(Clone)]
pub(crate) struct Authenticator {
    store: Arc<dyn AccessStore>,
    environment: Arc<dyn Environment>,
    known: Cache<TokenId, Arc<TokenRecord>>,
}

const KNOWN_TOKENS: u64 = 10_000;
const BELIEVED_AT_MOST: Duration = Duration::from_secs(2);

impl Authenticator {
    /// Reads tokens from this store.
    pub(crate) fn new(store: Arc<dyn AccessStore>, environment: Arc<dyn Environment>, believed: Duration) -> Self {
        let known = Cache::builder().max_capacity(KNOWN_TOKENS).time_to_live(believed.min(BELIEVED_AT_MOST)).build();
        Self { store, environment, known }
    }

    /// The principal of a request's token. Every token that is not good gets the same answer.
    pub(crate) async fn principal(&self, headers: &HeaderMap) -> Result<Principal> {
        let token: Token = bearer(headers).ok_or_else(Token::refused)?.parse()?;
        let record = match self.known.get(token.id()).await {
            Some(record) => record,
            None => {
                let record = self.store.token(token.id()).await?.ok_or_else(Token::refused)?;
                let record = Arc::new(record);
                self.known.insert(token.id().clone(), Arc::clone(&record)).await;
                record
            }
        };
        record.admit(&token, self.environment.now())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
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
    fn reads_need_a_viewer_and_everything_else_a_member() {
        for rpc in RPCS {
            let name = rpc.path.rsplit('/').next().unwrap();
            let reads = ["Get", "List", "Validate", "Watch", "Download"].iter().any(|verb| name.starts_with(verb));
            assert_eq!(rpc.role == Viewer, reads, "{}", rpc.path);
        }
    }

    #[test]
    fn only_a_bearer_token_counts() {
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(bearer(&with("Bearer abc")), Some("abc"));
        assert_eq!(bearer(&with("bearer  abc ")), Some("abc"));
        for none in ["abc", "Basic abc", ""] {
            assert_eq!(bearer(&with(none)), None, "{none}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
