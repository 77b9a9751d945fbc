//! Sample requests of every operation: those that name resources, and those that are malformed.
//!
//! A new operation adds its samples here. The tests of tenants, malformed requests and audit entries use them.

use std::collections::BTreeMap;

use folio_types::Reason::{self, InvalidField, InvalidId, InvalidPageToken, InvalidSchema, TooLarge};
use folio_types::{
    DocumentId, ExtractionId, OrgId, PromptId, SchemaId, TagId, ThreadId, TokenId, UserId, WebhookEndpointId,
};
use serde_json::{Value, json};

use crate::harness::format;

/// Ids and names of one organization's resources, by kind.
pub(crate) type Ids = BTreeMap<&'static str, String>;

/// Requests of one operation.
pub(crate) struct Samples {
    /// Requests that are valid if what they name exists. A client stream has an array of messages.
    pub(crate) valid: Vec<Value>,
    /// Requests that are refused with `INVALID_ARGUMENT`: the reason, the field, the request.
    pub(crate) malformed: Vec<(Reason, &'static str, Value)>,
}

/// Creates one resource of an organization: the kind, the operation, its request, and the id in the response.
type Creation = (&'static str, &'static str, fn(&str, &Ids) -> Value, &'static str);

/// The creations of an organization's resources, in order, under names that another organization uses as well. Secrets
/// contain the word SECRET, which no response contains.
pub(crate) const CREATIONS: &[Creation] = &[
    ("tag", "CreateTag", |_, _| json!({"tag": {"name": "same"}}), "/tag/tag_id"),
    (
        "schema",
        "CreateSchema",
        |_, _| json!({"schema": {"name": "same", "response_format_json": format("total")}}),
        "/schema/schema_id",
    ),
    (
        "prompt",
        "CreatePrompt",
        |_, ids| json!({"prompt": {"name": "same", "content": "Read the total.", "schema_revid": ids["schema"]}}),
        "/prompt/prompt_id",
    ),
    (
        "extraction",
        "RunExtraction",
        |_, ids| json!({"document_id": ids["document"], "prompt_revid": ids["prompt"]}),
        "/extraction/extraction_id",
    ),
    (
        "member",
        "AddMember",
        |_, _| json!({"member": {"name": "same", "role": "ROLE_MEMBER"}, "request_id": "same-member"}),
        "/member/user_id",
    ),
    (
        "token",
        "CreateToken",
        |_, ids| {
            let token = json!({"name": "same", "user_id": ids["member"], "role": "ROLE_VIEWER"});
            json!({"token": token, "request_id": "same"})
        },
        "/token/token_id",
    ),
    ("provider", "UpdateProvider", |whose, _| provider(&format!("of-{whose}"), whose, &[]), "/provider/name"),
    (
        "webhook_endpoint",
        "CreateWebhookEndpoint",
        |whose, _| json!({"webhook_endpoint": webhook_endpoint(&format!("https://{whose}.example/hooks"))}),
        "/webhook_endpoint/webhook_endpoint_id",
    ),
    ("model", "UpdateProvider", |whose, _| provider("same", whose, &["same", whose]), "/provider/models/1/name"),
];

fn provider(name: &str, whose: &str, models: &[&str]) -> Value {
    let models: Vec<_> = models
        .iter()
        .map(|name| {
            let price = whose.len();
            json!({"name": name, "enabled": true, "chat": true, "prompts": true, "input_price_microdollars": price})
        })
        .collect();
    let base_url = format!("https://{whose}.example/v1");
    json!({"provider": {"name": name, "base_url": base_url, "models": models, "api_key": format!("SECRET-{whose}")}})
}

fn webhook_endpoint(url: &str) -> Value {
    json!({"url": url, "event_types": ["document.ready"], "secret": "SECRET", "enabled": true})
}

/// Returns well-formed ids of missing resources.
pub(crate) fn missing() -> Ids {
    let prefixes = [
        ("organization", OrgId::PREFIX),
        ("document", DocumentId::PREFIX),
        ("tag", TagId::PREFIX),
        ("schema", SchemaId::PREFIX),
        ("prompt", PromptId::PREFIX),
        ("extraction", ExtractionId::PREFIX),
        ("thread", ThreadId::PREFIX),
        ("member", UserId::PREFIX),
        ("token", TokenId::PREFIX),
        ("webhook_endpoint", WebhookEndpointId::PREFIX),
    ];
    let ids = prefixes.into_iter().map(|(kind, prefix)| (kind, format!("{prefix}_{}", "0".repeat(32))));
    ids.chain([("provider", "of-no-such-model".to_owned()), ("model", "no-such-model".to_owned())]).collect()
}

/// A text that is not an id of any kind.
const BAD_ID: &str = "../../etc/passwd";

fn long(chars: usize) -> String {
    "x".repeat(chars)
}

/// JSON whose depth exceeds the bound.
fn deep() -> String {
    format!("{}{}", "[".repeat(100), "]".repeat(100))
}

/// Returns the samples of an operation. They name resources of `named`, and otherwise resources of the caller, `own`.
pub(crate) fn samples(operation: &str, own: &Ids, named: &Ids) -> Samples {
    let turn = format!("{}.1", named["thread"]);
    let (schema_revision, prompt_revision) = (format!("{}.1", named["schema"]), format!("{}.1", named["prompt"]));
    let of_user = format!("user={}", named["member"]);
    match operation {
        "Chat" => Samples {
            valid: vec![
                json!({"text": "hello", "thread_id": named["thread"]}),
                json!({"text": "hello", "document_ids": [named["document"]]}),
            ],
            malformed: vec![
                (InvalidField, "text", json!({})),
                (TooLarge, "text", json!({"text": long(200_000)})),
                (InvalidField, "text", json!({"text": "a\0b"})),
                (InvalidId, "thread_id", json!({"text": "a", "thread_id": BAD_ID})),
                (InvalidField, "if_busy", json!({"text": "a", "if_busy": 9})),
            ],
        },
        "Approve" => Samples {
            valid: vec![json!({"turn_id": turn, "decisions": [{"call_id": format!("{turn}.1.1"), "approved": {}}]})],
            malformed: vec![
                (InvalidId, "turn_id", json!({"turn_id": BAD_ID})),
                (InvalidField, "round", json!({"turn_id": turn})),
                (InvalidField, "undecided", json!({"turn_id": turn, "round": 1, "undecided": 7})),
            ],
        },
        "ResumeTurn" => Samples {
            valid: vec![json!({"turn_id": turn})],
            malformed: vec![
                (InvalidId, "turn_id", json!({"turn_id": format!("{}.0", named["thread"])})),
                (InvalidId, "request_id", json!({"turn_id": turn, "request_id": " "})),
            ],
        },
        "CancelTurn" => Samples {
            valid: vec![json!({"turn_id": turn})],
            malformed: vec![(InvalidId, "turn_id", json!({"turn_id": BAD_ID}))],
        },
        "GetTurn" => {
            Samples { valid: vec![json!({"turn_id": turn})], malformed: vec![(InvalidField, "turn_id", json!({}))] }
        }
        "WatchTurn" => Samples {
            valid: vec![json!({"turn_id": turn})],
            malformed: vec![(InvalidId, "turn_id", json!({"turn_id": named["thread"]}))],
        },
        "ListTools" => Samples {
            valid: vec![json!({})],
            malformed: vec![
                (InvalidField, "filter", json!({"filter": "access:sudo"})),
                (InvalidField, "profile", json!({"profile": "a b"})),
            ],
        },
        "ListPendingApprovals" => Samples {
            valid: vec![json!({}), json!({"filter": of_user})],
            malformed: vec![
                (InvalidField, "page_size", json!({"page_size": -1})),
                (InvalidPageToken, "page_token", json!({"page_token": BAD_ID})),
            ],
        },
        "WatchPendingApprovals" => {
            Samples { valid: vec![json!({})], malformed: vec![(InvalidId, "filter", json!({"filter": "user:x"}))] }
        }
        "CreateThread" => Samples {
            valid: vec![json!({"document_ids": [named["document"]]})],
            malformed: vec![
                (InvalidId, "document_ids[0]", json!({"document_ids": [BAD_ID]})),
                (InvalidField, "title", json!({"title": long(201)})),
            ],
        },
        "ListThreads" => Samples {
            valid: vec![json!({}), json!({"filter": of_user})],
            malformed: vec![
                (InvalidField, "page_size", json!({"page_size": -1})),
                (InvalidField, "order_by", json!({"order_by": "owner"})),
            ],
        },
        "GetThread" => Samples {
            valid: vec![json!({"thread_id": named["thread"]})],
            malformed: vec![
                (InvalidId, "thread_id", json!({"thread_id": named["document"]})),
                (InvalidField, "filter", json!({"thread_id": named["thread"], "filter": "role:root"})),
            ],
        },
        "RenameThread" => Samples {
            valid: vec![json!({"thread_id": named["thread"], "title": "mine"})],
            malformed: vec![(InvalidField, "title", json!({"thread_id": named["thread"]}))],
        },
        "ForkThread" => Samples {
            valid: vec![json!({"thread_id": named["thread"]})],
            malformed: vec![(InvalidField, "title", json!({"thread_id": named["thread"], "title": "a\nb"}))],
        },
        "DeleteThread" => Samples {
            valid: vec![json!({"thread_id": named["thread"]})],
            malformed: vec![(InvalidId, "thread_id", json!({"thread_id": BAD_ID}))],
        },
        "UploadDocument" => Samples {
            valid: vec![json!([{"description": {"name": "n.txt", "tag_ids": [named["tag"]]}}, {"chunk": "dGV4dA=="}])],
            malformed: vec![
                (InvalidField, "part", json!([{}])),
                (InvalidField, "description.name", json!([{"description": {"name": " a"}}])),
            ],
        },
        "GetDocument" => Samples {
            valid: vec![json!({"document_id": named["document"]})],
            malformed: vec![(InvalidId, "document_id", json!({"document_id": BAD_ID}))],
        },
        "DownloadDocument" => Samples {
            valid: vec![json!({"document_id": named["document"]})],
            malformed: vec![(InvalidField, "document_id", json!({}))],
        },
        "GetDocumentText" => Samples {
            valid: vec![json!({"document_id": named["document"]})],
            malformed: vec![(InvalidId, "document_id", json!({"document_id": BAD_ID}))],
        },
        "ListDocuments" => Samples {
            valid: vec![json!({}), json!({"filter": format!("tag:{}", named["tag"])})],
            malformed: vec![
                (InvalidField, "filter", json!({"filter": "name:\""})),
                (InvalidPageToken, "page_token", json!({"page_token": long(5_000)})),
            ],
        },
        "UpdateDocument" => Samples {
            valid: vec![
                json!({"document": {"document_id": named["document"], "name": "mine"}}),
                json!({"document": {"document_id": own["document"], "tag_ids": [named["tag"]]}}),
            ],
            malformed: vec![
                (InvalidField, "update_mask", json!({"document": {"document_id": named["document"]}})),
                (
                    InvalidField,
                    "document.tag_ids",
                    json!({"document": {"document_id": named["document"], "tag_ids": vec![&named["tag"]; 51]}}),
                ),
                (
                    InvalidField,
                    "document.metadata",
                    json!({"document": {"document_id": named["document"], "metadata": {"": ""}}}),
                ),
            ],
        },
        "DeleteDocument" => Samples {
            valid: vec![json!({"document_id": named["document"]})],
            malformed: vec![(
                InvalidId,
                "request_id",
                json!({"document_id": named["document"], "request_id": long(129)}),
            )],
        },
        "CreateSchema" => Samples {
            valid: vec![json!({"schema": {"name": "mine", "response_format_json": format("mine")}})],
            malformed: vec![
                (InvalidField, "schema.name", json!({"schema": {"response_format_json": "{}"}})),
                (
                    InvalidField,
                    "schema.response_format_json",
                    json!({"schema": {"name": "a", "response_format_json": "{"}}),
                ),
                (
                    InvalidField,
                    "schema.response_format_json",
                    json!({"schema": {"name": "a", "response_format_json": deep()}}),
                ),
                (
                    TooLarge,
                    "schema.response_format_json",
                    json!({"schema": {"name": "a", "response_format_json": long(200_000)}}),
                ),
                (
                    InvalidSchema,
                    "schema.response_format_json",
                    json!({"schema": {"name": "a", "response_format_json": "{}"}}),
                ),
            ],
        },
        "GetSchemaRevision" => Samples {
            valid: vec![json!({"schema_revid": named["schema"]}), json!({"schema_revid": schema_revision})],
            malformed: vec![(InvalidId, "schema_revid", json!({"schema_revid": format!("{}.x", named["schema"])}))],
        },
        "ListSchemas" => Samples {
            valid: vec![json!({})],
            malformed: vec![(InvalidField, "filter", json!({"filter": "colour:red"}))],
        },
        "ListSchemaRevisions" => Samples {
            valid: vec![json!({"schema_id": named["schema"]})],
            malformed: vec![(InvalidField, "filter", json!({"schema_id": named["schema"], "filter": "a:b"}))],
        },
        "UpdateSchema" => Samples {
            valid: vec![json!({"schema": {"schema_id": named["schema"], "name": "mine"}})],
            malformed: vec![
                (InvalidField, "schema.name", json!({"schema": {"schema_id": named["schema"], "name": long(201)}})),
                (InvalidId, "schema.schema_id", json!({"schema": {"schema_id": BAD_ID}})),
            ],
        },
        "DeleteSchema" => Samples {
            valid: vec![json!({"schema_id": named["schema"]})],
            malformed: vec![(InvalidField, "schema_id", json!({}))],
        },
        "ValidateSchema" => Samples {
            valid: vec![json!({"response_format_json": format("mine")})],
            malformed: vec![(InvalidField, "response_format_json", json!({"response_format_json": "nonsense"}))],
        },
        "ValidateData" => Samples {
            valid: vec![json!({"schema_revid": schema_revision, "data_json": "{}"})],
            malformed: vec![(
                InvalidField,
                "data_json",
                json!({"schema_revid": named["schema"], "data_json": "[123456789012345678901]"}),
            )],
        },
        "CreatePrompt" => Samples {
            valid: vec![
                json!({"prompt": {"name": "n", "content": "c", "schema_revid": schema_revision}}),
                json!({"prompt": {"name": "n", "content": "c", "tag_ids": [named["tag"]]}}),
            ],
            malformed: vec![
                (InvalidField, "prompt", json!({})),
                (InvalidField, "prompt.content", json!({"prompt": {"name": "a", "content": long(70_000)}})),
                (InvalidField, "prompt.name", json!({"prompt": {"content": "b"}})),
            ],
        },
        "GetPromptRevision" => Samples {
            valid: vec![json!({"prompt_revid": named["prompt"]}), json!({"prompt_revid": prompt_revision})],
            malformed: vec![(InvalidId, "prompt_revid", json!({"prompt_revid": named["schema"]}))],
        },
        "ListPrompts" => Samples {
            valid: vec![json!({}), json!({"filter": format!("document:{}", named["document"])})],
            malformed: vec![(InvalidId, "filter", json!({"filter": "tag:x"}))],
        },
        "ListPromptRevisions" => Samples {
            valid: vec![json!({"prompt_id": named["prompt"]})],
            malformed: vec![(InvalidField, "skip", json!({"prompt_id": named["prompt"], "skip": -1}))],
        },
        "UpdatePrompt" => Samples {
            valid: vec![
                json!({"prompt": {"prompt_id": named["prompt"], "name": "mine"}}),
                json!({"prompt": {"prompt_id": own["prompt"], "tag_ids": [named["tag"]]}}),
            ],
            malformed: vec![(
                InvalidField,
                "prompt.content",
                json!({"prompt": {"prompt_id": named["prompt"], "content": ""}, "update_mask": "content"}),
            )],
        },
        "DeletePrompt" => Samples {
            valid: vec![json!({"prompt_id": named["prompt"]})],
            malformed: vec![(InvalidId, "prompt_id", json!({"prompt_id": BAD_ID}))],
        },
        "ValidatePrompt" => Samples {
            valid: vec![json!({
                "prompt": {"name": "n", "content": "c", "schema_revid": schema_revision, "tag_ids": [named["tag"]]}
            })],
            malformed: vec![(InvalidField, "prompt", json!({}))],
        },
        "ValidatePromptData" => Samples {
            valid: vec![json!({"prompt_revid": prompt_revision, "data_json": "{}"})],
            malformed: vec![(InvalidField, "data_json", json!({"prompt_revid": named["prompt"], "data_json": "["}))],
        },
        "CreateTag" => Samples {
            valid: vec![json!({"tag": {"name": "mine"}})],
            malformed: vec![
                (InvalidField, "tag.color", json!({"tag": {"name": "a", "color": "red"}})),
                (InvalidField, "tag.name", json!({"tag": {"name": "a\tb"}})),
                (InvalidField, "tag.description", json!({"tag": {"name": "a", "description": long(2_001)}})),
            ],
        },
        "GetTag" => Samples {
            valid: vec![json!({"tag_id": named["tag"]})],
            malformed: vec![(InvalidId, "tag_id", json!({"tag_id": named["tag"].to_uppercase()}))],
        },
        "ListTags" => Samples {
            valid: vec![json!({})],
            malformed: vec![(InvalidField, "order_by", json!({"order_by": "name sideways"}))],
        },
        "UpdateTag" => Samples {
            valid: vec![json!({"tag": {"tag_id": named["tag"], "name": "mine"}})],
            malformed: vec![(InvalidField, "tag.color", json!({"tag": {"tag_id": named["tag"], "color": "#12"}}))],
        },
        "DeleteTag" => Samples {
            valid: vec![json!({"tag_id": named["tag"]})],
            malformed: vec![(InvalidId, "tag_id", json!({"tag_id": BAD_ID}))],
        },
        "RunExtraction" => Samples {
            valid: vec![
                json!({"document_id": named["document"], "prompt_revid": own["prompt"]}),
                json!({"document_id": own["document"], "prompt_revid": named["prompt"]}),
            ],
            malformed: vec![
                (InvalidId, "prompt_revid", json!({"document_id": named["document"], "prompt_revid": BAD_ID})),
                (
                    InvalidField,
                    "model",
                    json!({"document_id": named["document"], "prompt_revid": named["prompt"], "model": "a b"}),
                ),
            ],
        },
        "GetExtraction" => Samples {
            valid: vec![json!({"extraction_id": named["extraction"]})],
            malformed: vec![(InvalidId, "extraction_id", json!({"extraction_id": BAD_ID}))],
        },
        "UpdateExtractionField" => Samples {
            valid: vec![json!({"extraction_id": named["extraction"], "path": "total", "value_json": "1"})],
            malformed: vec![
                (
                    TooLarge,
                    "path",
                    json!({"extraction_id": named["extraction"], "path": long(1_025), "value_json": "1"}),
                ),
                (
                    InvalidField,
                    "value_json",
                    json!({"extraction_id": named["extraction"], "path": "a", "value_json": deep()}),
                ),
            ],
        },
        "ReplaceExtraction" => Samples {
            valid: vec![json!({"extraction_id": named["extraction"], "data_json": "{}"})],
            malformed: vec![(
                TooLarge,
                "data_json",
                json!({"extraction_id": named["extraction"], "data_json": format!("\"{}\"", long(200_000))}),
            )],
        },
        "VerifyExtraction" => Samples {
            valid: vec![json!({"extraction_id": named["extraction"], "verified": true})],
            malformed: vec![(InvalidField, "extraction_id", json!({}))],
        },
        "ListExtractions" => Samples {
            valid: vec![json!({"document_id": named["document"]})],
            malformed: vec![(InvalidId, "document_id", json!({"document_id": BAD_ID}))],
        },
        "DeleteExtraction" => Samples {
            valid: vec![json!({"extraction_id": named["extraction"]})],
            malformed: vec![(InvalidId, "extraction_id", json!({"extraction_id": named["document"]}))],
        },
        "ListModels" => Samples { valid: vec![json!({})], malformed: vec![(InvalidField, "use", json!({"use": 8}))] },
        "ListProviders" => {
            Samples { valid: vec![json!({})], malformed: vec![(InvalidField, "owner", json!({"owner": 9}))] }
        }
        "UpdateProvider" => Samples {
            valid: vec![json!({
                "provider": {"name": "mine", "base_url": "https://mine.example/v1", "api_key": "SECRET-mine"}
            })],
            malformed: vec![
                (InvalidField, "provider.name", json!({"provider": {"name": "A b", "enabled": true}})),
                (InvalidField, "provider.base_url", json!({"provider": {"name": "a", "enabled": true}})),
                (
                    InvalidField,
                    "provider.base_url",
                    json!({"provider": {"name": "a", "base_url": "http://me:pw@x/v1"}}),
                ),
                (
                    InvalidField,
                    "provider.base_url",
                    json!({"provider": {"name": "a", "base_url": "http://[::ffff:10.0.0.1]/v1"}}),
                ),
                (InvalidField, "provider.api_key", json!({"provider": {"name": "openai", "api_key": "a b"}})),
                (
                    InvalidField,
                    "provider.output_limit_field",
                    json!({"provider": {"name": "openai", "output_limit_field": 9}}),
                ),
                (
                    InvalidField,
                    "provider.models[unknown]",
                    json!({"provider": {"name": "openai", "models": [{"name": "unknown"}]}}),
                ),
            ],
        },
        "SetModelDefaults" => Samples {
            valid: vec![json!({"default_model": named["model"]})],
            malformed: vec![
                (InvalidField, "default_model", json!({"default_model": "a b"})),
                (InvalidField, "fallbacks", json!({"fallbacks": {"models": vec!["hub-model"; 9]}})),
            ],
        },
        "DiscoverModels" => Samples {
            valid: vec![json!({"name": named["provider"]})],
            malformed: vec![(InvalidField, "name", json!({}))],
        },
        "TestProvider" => Samples {
            valid: vec![json!({"name": named["provider"]}), json!({"name": "same", "model": named["model"]})],
            malformed: vec![(InvalidField, "name", json!({"name": "a b"}))],
        },
        "DeleteProvider" => Samples {
            valid: vec![json!({"name": named["provider"]})],
            malformed: vec![(InvalidField, "name", json!({}))],
        },
        "CreateOrganization" => Samples {
            valid: vec![json!({"organization": {"name": "mine"}, "admin_name": "me"})],
            malformed: vec![
                (InvalidField, "organization", json!({})),
                (InvalidField, "admin_name", json!({"organization": {"name": "a"}, "admin_name": " "})),
            ],
        },
        "ListOrganizations" => {
            Samples { valid: vec![json!({})], malformed: vec![(InvalidField, "page_size", json!({"page_size": -1}))] }
        }
        "GetOrganization" => Samples {
            valid: vec![json!({"organization_id": named["organization"]}), json!({})],
            malformed: vec![(InvalidId, "organization_id", json!({"organization_id": BAD_ID}))],
        },
        "UpdateOrganization" => Samples {
            valid: vec![json!({"organization": {"name": "mine"}})],
            malformed: vec![(InvalidField, "organization.name", json!({"organization": {"name": " a"}}))],
        },
        "DeleteOrganization" => Samples {
            valid: vec![json!({"organization_id": named["organization"], "name": "test"})],
            malformed: vec![(InvalidId, "organization_id", json!({"organization_id": BAD_ID}))],
        },
        "AddMember" => Samples {
            valid: vec![json!({"member": {"name": "mine", "role": "ROLE_VIEWER"}})],
            malformed: vec![
                (InvalidField, "member.name", json!({"member": {"role": 1}})),
                (InvalidField, "member.role", json!({"member": {"name": "a"}})),
                (InvalidId, "member.user_id", json!({"member": {"name": "a", "role": 1, "user_id": "x"}})),
            ],
        },
        "ListMembers" => Samples {
            valid: vec![json!({})],
            malformed: vec![(InvalidField, "filter", json!({"filter": "role:admin"}))],
        },
        "UpdateMember" => Samples {
            valid: vec![json!({"member": {"user_id": named["member"], "name": "mine"}})],
            malformed: vec![(InvalidId, "member.user_id", json!({"member": {"user_id": BAD_ID}}))],
        },
        "RemoveMember" => Samples {
            valid: vec![json!({"user_id": named["member"]})],
            malformed: vec![(InvalidId, "user_id", json!({"user_id": named["member"][1..]}))],
        },
        "GetPolicy" => Samples {
            valid: vec![json!({"organization_id": named["organization"]}), json!({})],
            malformed: vec![(InvalidId, "organization_id", json!({"organization_id": BAD_ID}))],
        },
        "SetPolicy" => Samples {
            valid: vec![json!({"policy": {"rules": [{"name": "mine", "deny": {}}]}})],
            malformed: vec![(InvalidField, "policy.rules[0].ruling", json!({"policy": {"rules": [{}]}}))],
        },
        "CreateToken" => Samples {
            valid: vec![
                json!({"token": {"name": "mine", "role": "ROLE_VIEWER", "user_id": named["member"]}}),
                json!({"token": {"name": "mine", "role": "ROLE_VIEWER"}}),
            ],
            malformed: vec![
                (InvalidField, "token", json!({})),
                (InvalidField, "token.role", json!({"token": {"name": "a", "role": 9}})),
                (InvalidId, "token.user_id", json!({"token": {"name": "a", "role": 1, "user_id": BAD_ID}})),
            ],
        },
        "ListTokens" => Samples {
            valid: vec![json!({}), json!({"filter": of_user})],
            malformed: vec![(InvalidId, "filter", json!({"filter": "user:x"}))],
        },
        "RevokeToken" => Samples {
            valid: vec![json!({"token_id": named["token"]})],
            malformed: vec![(InvalidId, "token_id", json!({"token_id": BAD_ID}))],
        },
        "GrantCredit" => Samples {
            valid: vec![json!({"organization_id": named["organization"], "credits": 1})],
            malformed: vec![
                (InvalidId, "organization_id", json!({"credits": 1, "organization_id": BAD_ID})),
                (InvalidField, "priority", json!({"credits": 1, "priority": 256})),
                (InvalidField, "credits", json!({"credits": 1_000_000_000_001_u64})),
                (InvalidField, "note", json!({"credits": 1, "note": "a\nb"})),
            ],
        },
        "WithdrawCredit" => Samples {
            valid: vec![json!({"organization_id": named["organization"], "credits": 1})],
            malformed: vec![(InvalidField, "credits", json!({"credits": 0}))],
        },
        "GetLimits" => Samples {
            valid: vec![json!({"organization_id": named["organization"]}), json!({})],
            malformed: vec![(InvalidId, "organization_id", json!({"organization_id": BAD_ID}))],
        },
        "SetLimits" => Samples {
            valid: vec![json!({"organization_id": named["organization"]})],
            malformed: vec![(InvalidField, "own.concurrent_turns", json!({"own": {"concurrent_turns": 2_000_000}}))],
        },
        "GetBalance" => Samples {
            valid: vec![json!({"organization_id": named["organization"]}), json!({})],
            malformed: vec![(InvalidId, "organization_id", json!({"organization_id": BAD_ID}))],
        },
        "GetUsage" => Samples {
            valid: vec![json!({"group_by": ["USAGE_GROUP_USER", "USAGE_GROUP_DOCUMENT"]})],
            malformed: vec![
                (InvalidField, "group_by", json!({"group_by": [9]})),
                (InvalidField, "end_time", json!({"end_time": "9999-12-31T23:59:59Z"})),
            ],
        },
        "DownloadUsage" => Samples {
            valid: vec![json!({})],
            malformed: vec![(InvalidField, "start_time", json!({"start_time": "2255-03-14T16:00:00Z"}))],
        },
        "ListAuditEntries" => Samples {
            valid: vec![json!({}), json!({"filter": of_user})],
            malformed: vec![
                (InvalidField, "filter", json!({"filter": "kind:x"})),
                (InvalidId, "filter", json!({"filter": "user:x"})),
                (InvalidPageToken, "page_token", json!({"page_token": BAD_ID})),
                (InvalidField, "order_by", json!({"order_by": "name"})),
            ],
        },
        "DownloadAuditEntries" => Samples {
            valid: vec![json!({})],
            malformed: vec![
                (
                    InvalidField,
                    "start_time",
                    json!({"start_time": "1970-01-01T00:00:02Z", "end_time": "1970-01-01T00:00:01Z"}),
                ),
                (InvalidId, "filter", json!({"filter": "thread:x"})),
            ],
        },
        "CreateWebhookEndpoint" => Samples {
            valid: vec![json!({"webhook_endpoint": webhook_endpoint("https://mine.example/hooks")})],
            malformed: vec![
                (InvalidField, "webhook_endpoint", json!({})),
                (
                    InvalidField,
                    "webhook_endpoint.url",
                    json!({"webhook_endpoint": webhook_endpoint("ftp://mine.example")}),
                ),
                (
                    InvalidField,
                    "webhook_endpoint.event_types",
                    json!({"webhook_endpoint": {"url": "https://mine.example", "event_types": ["Ready"]}}),
                ),
            ],
        },
        "GetWebhookEndpoint" => Samples {
            valid: vec![json!({"webhook_endpoint_id": named["webhook_endpoint"]})],
            malformed: vec![(InvalidId, "webhook_endpoint_id", json!({"webhook_endpoint_id": BAD_ID}))],
        },
        "ListWebhookEndpoints" => Samples {
            valid: vec![json!({}), json!({"filter": "event_type:document.ready"})],
            malformed: vec![(InvalidField, "filter", json!({"filter": "secret:a"}))],
        },
        "UpdateWebhookEndpoint" => Samples {
            valid: vec![json!({
                "webhook_endpoint": {"webhook_endpoint_id": named["webhook_endpoint"], "secret": "SECRET-new"}
            })],
            malformed: vec![(
                InvalidField,
                "webhook_endpoint.secret",
                json!({
                    "webhook_endpoint": {"webhook_endpoint_id": named["webhook_endpoint"], "secret": long(1_001)}
                }),
            )],
        },
        "DeleteWebhookEndpoint" => Samples {
            valid: vec![json!({"webhook_endpoint_id": named["webhook_endpoint"]})],
            malformed: vec![(InvalidId, "webhook_endpoint_id", json!({"webhook_endpoint_id": BAD_ID}))],
        },
        unknown => panic!("add samples of {unknown}"),
    }
}
