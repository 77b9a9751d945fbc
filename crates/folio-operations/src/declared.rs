//! Operations whose implementation is still in the gateway's services. Each moves into the module of its service.

use folio_types::Role;
use folio_types::access::Scope;

use crate::declaration::{Declaration, Quota, Service};

static CONVERSATION: Service = Service { name: "ConversationService", scope: Some(Scope::Conversations) };
static THREAD: Service = Service { name: "ThreadService", scope: Some(Scope::Conversations) };
static DOCUMENT: Service = Service { name: "DocumentService", scope: Some(Scope::Documents) };
static SCHEMA: Service = Service { name: "SchemaService", scope: Some(Scope::Definitions) };
static PROMPT: Service = Service { name: "PromptService", scope: Some(Scope::Definitions) };
static EXTRACTION: Service = Service { name: "ExtractionService", scope: Some(Scope::Extractions) };
static MODEL: Service = Service { name: "ModelService", scope: None };

pub(crate) const DECLARATIONS: &[Declaration] = &[
    CONVERSATION.change("Chat").long().quota(Quota::Turns),
    CONVERSATION.change("Approve").long().quota(Quota::Turns),
    CONVERSATION.change("ResumeTurn").long().quota(Quota::Turns),
    CONVERSATION.change("CancelTurn"),
    CONVERSATION.read("GetTurn"),
    CONVERSATION.read("WatchTurn").long(),
    CONVERSATION.read("ListTools"),
    CONVERSATION.read("ListPendingApprovals").role(Role::Member),
    CONVERSATION.read("WatchPendingApprovals").role(Role::Member).long(),
    THREAD.change("CreateThread"),
    THREAD.read("ListThreads"),
    THREAD.read("GetThread"),
    THREAD.change("RenameThread"),
    THREAD.change("DeleteThread"),
    THREAD.change("ForkThread"),
    DOCUMENT.change("UploadDocument").long().quota(Quota::Storage),
    DOCUMENT.read("GetDocument"),
    DOCUMENT.read("DownloadDocument").long(),
    DOCUMENT.read("ListDocuments"),
    DOCUMENT.change("UpdateDocument"),
    DOCUMENT.change("DeleteDocument"),
    DOCUMENT.read("GetDocumentText"),
    SCHEMA.change("CreateSchema"),
    SCHEMA.read("GetSchemaRevision"),
    SCHEMA.read("ListSchemas"),
    SCHEMA.read("ListSchemaVersions"),
    SCHEMA.change("UpdateSchema"),
    SCHEMA.change("DeleteSchema"),
    SCHEMA.read("ValidateSchema"),
    SCHEMA.read("ValidateData"),
    PROMPT.change("CreatePrompt"),
    PROMPT.read("GetPromptRevision"),
    PROMPT.read("ListPrompts"),
    PROMPT.read("ListPromptVersions"),
    PROMPT.change("UpdatePrompt"),
    PROMPT.change("DeletePrompt"),
    PROMPT.read("ValidatePrompt"),
    PROMPT.read("ValidatePromptData"),
    EXTRACTION.change("RunExtraction").long().quota(Quota::ModelCalls),
    EXTRACTION.read("GetExtraction"),
    EXTRACTION.change("UpdateExtractionField"),
    EXTRACTION.change("ReplaceExtraction"),
    EXTRACTION.change("VerifyExtraction"),
    EXTRACTION.change("DeleteExtraction"),
    EXTRACTION.read("ListExtractions"),
    MODEL.read("ListModels"),
];
