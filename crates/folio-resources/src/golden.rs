//! Golden files: `golden/v<FORMAT>/<KIND>.<CASE>.json` contains the payload of a stored record or revision.
//!
//! A released file must not change. A new format adds a folder, and files of older formats stay readable.
//! `FOLIO_WRITE_GOLDEN=1` writes missing files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::policy::{Approver, Condition, Policy, Rule, Ruling, Test};
use folio_testkit::unknown_fields::add_unknown_fields;
use folio_types::access::{Role, Scope};
use folio_types::models::{ModelKind, ModelOptions, OutputLimitField};
use folio_types::token::Token;
use folio_types::{
    BlobId, Code, Digest, DocumentId, ExtractionId, IngestionMode, OrgId, PromptId, PromptRevId, ProposalId, Reason,
    SchemaId, SchemaRevId, TagId, ThreadId, Timestamp, UserId,
};
use serde_json::{Value, json};

use crate::stored::encode_value;
use crate::{
    Document, Extraction, ExtractionReport, FieldLog, KINDS, Kind, ModelSettings, Organization, OwnQuotas, Prompt,
    PromptRevision, Proposal, ProposalState, ProposedResources, Provider, Record, Resource, Schema, SchemaRevision,
    SealedKey, SimilarProposal, Tag, TagRuns, TextState, TokenRecord,
};

pub(crate) fn at() -> Timestamp {
    Timestamp::constant(1_790_000_000, 123_456_789)
}

pub(crate) fn org() -> OrgId {
    OrgId::derive(&["golden"])
}

pub(crate) fn user() -> UserId {
    UserId::derive(&["golden"])
}

fn live<R: Resource>(case: &str, resource: R) -> (String, Vec<u8>) {
    (format!("{}.{case}", R::KIND), encode_value(R::KIND, R::FORMAT, &Record::Live(resource)).unwrap())
}

pub(crate) fn tag() -> Tag {
    Tag {
        id: TagId::derive(&["golden"]),
        org: org(),
        name: "invoice".into(),
        color: Some("#00ff00".into()),
        description: None,
        created_by: user(),
        created_at: at(),
        updated_at: at(),
        version: 2,
    }
}

pub(crate) fn schema() -> Schema {
    let revid = SchemaRevId::new(SchemaId::derive(&["golden"]), 2);
    let latest = SchemaRevision {
        revid: revid.clone(),
        org: org(),
        name: "Invoice".into(),
        response_format: json!({"type": "json_schema", "json_schema": {"name": "invoice", "schema": {}, "strict": true}}),
        strict: true,
        created_by: user(),
        created_at: at(),
    };
    Schema { id: revid.of, version: 9, created_at: at(), latest, review_rule: None }
}

pub(crate) fn prompt() -> Prompt {
    let revid = PromptRevId::new(PromptId::derive(&["golden"]), 3);
    let latest = PromptRevision {
        revid: revid.clone(),
        org: org(),
        name: "Read invoices".into(),
        content: "Read it.".into(),
        schema: Some(schema().latest.revid),
        model: Some("model".into()),
        temperature: None,
        is_run_by_agent: false,
        tags: vec![tag().id],
        created_by: user(),
        created_at: at(),
    };
    Prompt { id: revid.of, version: 9, created_at: at(), latest }
}

pub(crate) fn document() -> Document {
    Document {
        id: DocumentId::derive(&["golden"]),
        org: org(),
        name: "invoice.pdf".into(),
        media_type: "application/pdf".into(),
        size: 1234,
        sha256: Digest::of(b"golden").as_str().into(),
        blob: BlobId::derive(&["golden"]),
        is_protected: false,
        has_auto_create: false,
        auto_create_budget: None,
        part: None,
        refused_parts: Vec::new(),
        tags: vec![tag().id],
        metadata: BTreeMap::from([("customer".into(), "Äcme".into())]),
        state: TextState::NoText("no text layer".into()),
        pages: 0,
        text_generation: None,
        created_by: user(),
        created_at: at(),
        updated_at: at(),
        version: 4,
    }
}

pub(crate) fn extraction() -> Extraction {
    Extraction {
        id: ExtractionId::derive(&["golden"]),
        org: org(),
        document: document().id,
        prompt: prompt().latest.revid,
        schema: Some(schema().latest.revid),
        model: "model".into(),
        original: json!({"zeta": 1.5, "alpha": ["ü", null, {"deep": true}], "large": 9_007_199_254_740_993_u64}),
        edited: Some(json!({"zeta": 2})),
        verified: true,
        verified_by: Some(user()),
        report: ExtractionReport::default(),
        fields: FieldLog::default(),
        agent: None,
        created_by: user(),
        created_at: at(),
        updated_at: at(),
        version: 3,
    }
}

/// Returns an accepted proposal of a document that is similar to another one.
pub(crate) fn proposal() -> Proposal {
    let similar = SimilarProposal { proposal: ProposalId::derive(&["similar"]), similarity: 0.875, threshold: 0.75 };
    Proposal {
        id: ProposalId::derive(&["golden"]),
        org: org(),
        document: document().id,
        state: ProposalState::Accepted,
        resources: Some(ProposedResources {
            schema: Some(schema().latest.revid),
            is_schema_reused: true,
            prompt: prompt().latest.revid,
            extraction: extraction().id,
            document_type: Some("Invoice".into()),
            similar: Some(similar),
        }),
        reason: None,
        thread: Some(ThreadId::derive(&["golden"])),
        decided_by: Some(user()),
        decided_at: Some(at()),
        created_by: user(),
        created_at: at(),
        updated_at: at(),
        version: 2,
    }
}

pub(crate) fn organization() -> Organization {
    Organization {
        id: org(),
        name: "Äcme".into(),
        created_at: at(),
        version: 3,
        policy: Policy::default(),
        approval_ttl_seconds: None,
        thread_retention_days: None,
        tag_runs: TagRuns::default(),
        auto_create: false,
        ingestion: IngestionMode::default(),
        quotas: OwnQuotas::default(),
    }
}

pub(crate) fn token() -> TokenRecord {
    let text = format!("folio_{}_{}_{}", "ab".repeat(16), "bc".repeat(16), "cd".repeat(32));
    let token: Token = text.parse().unwrap();
    let (org, id, hash, name) = (token.org().clone(), token.id().clone(), token.hash(), "for a test".to_owned());
    let (role, scopes, created_at) = (Role::Member, Vec::new(), at());
    TokenRecord {
        id,
        org,
        hash,
        user: user(),
        role,
        name,
        scopes,
        platform: false,
        expires_at: None,
        created_at,
        created_by: None,
    }
}

fn policy() -> Policy {
    let test = |test| Condition { path: "a.b[0]".into(), test };
    let tests = [
        Test::Equals(json!({"a": 1.5})),
        Test::In(vec![json!("x"), json!(null)]),
        Test::Matches("^a+$".into()),
        Test::Less(5.into()),
        Test::Greater(5.into()),
        Test::Absent,
    ];
    let rule = |ruling| Rule {
        name: "a rule".into(),
        tools: vec!["create_tag".into()],
        arguments: Vec::new(),
        users: vec![user()],
        roles: vec![Role::Viewer],
        profiles: vec!["document".into()],
        ruling,
    };
    let approver = Approver { roles: vec![Role::Member, Role::Admin], not_by_requester: true };
    let denies = Rule { arguments: tests.map(test).into(), ..rule(Ruling::Deny) };
    Policy {
        rules: vec![denies, rule(Ruling::Ask(approver)), rule(Ruling::Ask(Approver::default())), rule(Ruling::Allow)],
    }
}

pub(crate) fn model_settings() -> ModelSettings {
    let model = ModelOptions {
        upstream: "vendor/large-1".into(),
        context_tokens: 32_768,
        chat: false,
        thinking: true,
        input_price: Some(2_000_000),
        cached_input_price: Some(500_000),
        output_price: Some(8_000_000),
        ..ModelOptions::default()
    };
    let provider = Provider {
        base_url: "https://models.example/v1".into(),
        key: Some(SealedKey { master: "0123456789abcdef".into(), sealed: "bm9uY2UsIHRleHQgYW5kIHRhZw==".into() }),
        key_stored_at: None,
        output_limit_field: OutputLimitField::MaxCompletionTokens,
        stream_usage: false,
        models: [("large".to_owned(), model)].into(),
        available: vec!["vendor/large-1".into(), "vendor/small-1".into()],
        available_context_tokens: BTreeMap::new(),
        discovered_at: Some(at()),
        enabled: false,
    };
    ModelSettings {
        version: 3,
        created_at: at(),
        default_model: "large".into(),
        fallbacks: vec!["small".into()],
        embedding_model: String::new(),
        rerank_model: String::new(),
        image_model: String::new(),
        providers: [("own".to_owned(), provider), ("openai".to_owned(), Provider::default())].into(),
    }
}

fn retrieval_models() -> ModelSettings {
    let vectors = ModelOptions {
        kind: ModelKind::Embedding,
        context_tokens: 8_192,
        dimensions: 512,
        input_price: Some(20_000),
        ..ModelOptions::default()
    };
    let rates = ModelOptions { kind: ModelKind::Rerank, ..ModelOptions::default() };
    let models = [("vectors".to_owned(), vectors), ("rates".to_owned(), rates)].into();
    let own = Provider { base_url: "https://models.example/v1".into(), models, ..Provider::default() };
    ModelSettings {
        version: 1,
        created_at: at(),
        embedding_model: "vectors".into(),
        rerank_model: "rates".into(),
        providers: [("own".to_owned(), own)].into(),
        ..ModelSettings::default()
    }
}

fn prefixed_models() -> ModelSettings {
    let mut settings = retrieval_models();
    let models = settings.providers.values_mut().flat_map(|provider| provider.models.values_mut());
    for model in models.filter(|model| model.kind == ModelKind::Embedding) {
        model.query_prefix = "query: ".into();
        model.passage_prefix = "passage: ".into();
    }
    settings
}

fn image_models() -> ModelSettings {
    ModelSettings { version: 2, created_at: at(), image_model: "sees".into(), ..ModelSettings::default() }
}

fn samples() -> Vec<(String, Vec<u8>)> {
    let without_options =
        Prompt { latest: PromptRevision { schema: None, model: None, tags: vec![], ..prompt().latest }, ..prompt() };
    let revision = |case: &str, stored: Option<(u32, Vec<u8>)>| (case.to_owned(), stored.unwrap().1);
    let mut samples = vec![
        live("live", schema()),
        live("live", prompt()),
        live("live", document()),
        live("ready", Document { state: TextState::Ready, pages: 7, ..document() }),
        live("protected", Document { is_protected: true, ..document() }),
        live("live", extraction()),
        live("live", model_settings()),
        live("retrieval", retrieval_models()),
        live("prefixes", prefixed_models()),
        live("images", image_models()),
        live("empty", ModelSettings { version: 1, created_at: at(), ..ModelSettings::default() }),
        live("live", organization()),
        live("live", token()),
        live(
            "limited",
            TokenRecord {
                scopes: Scope::ALL.to_vec(),
                platform: true,
                expires_at: Some(at()),
                created_by: Some(user()),
                ..token()
            },
        ),
        live(
            "settings",
            Organization {
                policy: policy(),
                approval_ttl_seconds: Some(86_400),
                thread_retention_days: Some(30),
                quotas: OwnQuotas { concurrent_turns: Some(0), storage_bytes: Some(7), ..OwnQuotas::default() },
                ..organization()
            },
        ),
        live("auto_create", Organization { auto_create: true, ..organization() }),
        live("ingestion", Organization { ingestion: IngestionMode::Agentic, ..organization() }),
        live("auto_create", Document { has_auto_create: true, ..document() }),
        live("auto_create_budget", Document { has_auto_create: true, auto_create_budget: Some(500), ..document() }),
        live("tag_runs", Organization { tag_runs: TagRuns { disabled: true, batch_documents: 25 }, ..organization() }),
        revision("schema_revision.plain", schema().newest_revision().unwrap()),
        revision("prompt_revision.plain", prompt().newest_revision().unwrap()),
        revision("prompt_revision.bare", without_options.newest_revision().unwrap()),
    ];
    samples.extend(KINDS.iter().map(|kind| (format!("{}.tombstone", kind.name), kind.tombstone(5, at()).unwrap())));
    samples
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Compares the stored format of a resource with its golden file. Called by the tests of kinds for further cases.
pub(crate) fn assert_golden<R: Resource>(case: &str, resource: R) {
    let (case, bytes) = live(case, resource);
    assert_written(&case, &bytes);
}

fn assert_written(case: &str, bytes: &[u8]) {
    let (format, payload) = bytes.split_first().unwrap();
    let path = folder().join(format!("v{format}/{case}.json"));
    if !path.exists() && std::env::var_os("FOLIO_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, [payload, b"\n"].concat()).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let written = String::from_utf8(payload.to_vec()).unwrap();
    assert_eq!(written, golden.trim_end(), "the format of {case} changed: give it a new number");
}

#[test]
fn the_written_format_is_that_of_the_golden_files() {
    for (case, bytes) in samples() {
        assert_written(&case, &bytes);
    }
}

/// Returns the golden files whose name starts with `kind`, with the format and the stored value.
fn golden_files(kind: &str) -> Vec<(PathBuf, u8, Vec<u8>)> {
    let mut found = Vec::new();
    for version in std::fs::read_dir(folder()).unwrap() {
        let version = version.unwrap().path();
        let format: u8 = version.file_name().unwrap().to_str().unwrap().trim_start_matches('v').parse().unwrap();
        for file in std::fs::read_dir(version).unwrap() {
            let path = file.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().split('.').next() == Some(kind) {
                let stored = [&[format], std::fs::read(&path).unwrap().trim_ascii_end()].concat();
                found.push((path, format, stored));
            }
        }
    }
    found
}

#[test]
fn every_kind_has_golden_files_and_reads_all_of_them() {
    for kind in KINDS {
        let records = golden_files(kind.name);
        for (path, _, stored) in &records {
            let read = kind.read(stored).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(kind.is_live(stored).unwrap(), read.live().is_some(), "{}", path.display());
        }
        for (_, _, stored) in golden_files(&format!("{}_revision", kind.name)) {
            kind.revision_references(&stored).unwrap();
        }
        assert!(records.len() >= 2, "{kind:?} has no golden file of a live record and of a tombstone");
    }
}

#[test]
fn a_change_of_any_kind_keeps_the_fields_that_a_newer_build_wrote() {
    for kind in KINDS {
        let mut added = 0;
        for (path, format, stored) in golden_files(kind.name) {
            // A tombstone is never changed, and only values of the newest format have unknown fields.
            if kind.read(&stored).unwrap().live().is_none() || (kind.rewrite)(&stored).unwrap()[0] != format {
                continue;
            }
            let mut value: Value = serde_json::from_slice(&stored[1..]).unwrap();
            added += add_unknown_fields(&mut value, |value| {
                (kind.parse)(value.to_string().as_bytes()).map_err(|error| error.to_string())
            });
            let after = (kind.rewrite)(&[&[format], value.to_string().as_bytes()].concat()).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&after[1..]).unwrap(), value, "{}", path.display());
        }
        assert!(added > 0, "{kind:?}");
    }
}

#[test]
fn a_newer_or_damaged_format_is_refused_with_an_error_that_names_the_kind() {
    for (case, stored) in samples().into_iter().filter(|(case, _)| !case.contains("_revision")) {
        let kind: &Kind = Kind::by_name(case.split('.').next().unwrap()).unwrap();
        let payload = &stored[1..];
        for bad in [vec![], [&[200], payload].concat(), [&[0], payload].concat(), stored[..stored.len() - 1].to_vec()] {
            let error = kind.read(&bad).unwrap_err();
            assert_eq!((error.code, error.reason), (Code::DataLoss, Reason::StoredFormat), "{case}: {error}");
            assert!(error.message.contains(kind.name), "{error}");
        }
    }
}
