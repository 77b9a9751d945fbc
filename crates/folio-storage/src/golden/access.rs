//! Organizations, members, tokens, and their models.

use super::*;

fn quotas() -> OwnQuotas {
    OwnQuotas {
        requests_per_second: Some(10),
        concurrent_turns: Some(0),
        concurrent_model_calls: Some(3),
        ..OwnQuotas::default()
    }
}

/// A rule of each kind.
fn policy() -> Policy {
    let number = || serde_json::Number::from(5);
    let tests = [
        Test::Equals(json!({"a": 1.5})),
        Test::In(vec![json!("x"), json!(null)]),
        Test::Matches("^a+$".into()),
        Test::Less(number()),
        Test::Greater(number()),
        Test::Absent,
    ];
    let arguments = tests.into_iter().map(|test| Condition { path: "a.b[0]".into(), test }).collect();
    let approver = Approver { roles: vec![Role::Member, Role::Admin], not_by_asker: true };
    let rule = |ruling| Rule {
        name: "a rule".into(),
        tools: vec!["create_tag".into()],
        arguments: Vec::new(),
        users: vec![user()],
        roles: vec![Role::Viewer],
        profiles: vec!["document".into()],
        ruling,
    };
    let conditions = Rule { arguments, ..rule(Ruling::Deny) };
    Policy {
        rules: vec![
            conditions,
            rule(Ruling::Ask(approver)),
            rule(Ruling::Ask(Approver::default())),
            rule(Ruling::Allow),
        ],
    }
}

pub(super) fn access() -> Vec<Sample> {
    let token: Token = format!("folio_{}_{}", "ab".repeat(12), "cd".repeat(32)).parse().unwrap();
    let record = TokenRecord {
        id: token.id().clone(),
        hash: token.hash(),
        org: org(),
        user: user(),
        role: Role::Member,
        name: "for a test".into(),
        created_at: at(),
        expires_at: Some(at()),
        revoked_at: None,
        scopes: Vec::new(),
        platform: false,
    };
    let organization = Organization::new(org(), "Äcme", at());
    let held = OwnQuotas { documents: Some(1_000), storage_bytes: Some(7_000_000_000), ..OwnQuotas::default() };
    let limited = TokenRecord { scopes: Scope::ALL.to_vec(), platform: true, revoked_at: Some(at()), ..record.clone() };
    let member = Member { user: user(), name: "a@b.c".into(), role: Role::Viewer, created_at: at(), removed_at: None };
    vec![
        sample("plain", organization.clone()),
        sample("changed", Organization { version: 3, ..organization.clone() }),
        sample("deleted", organization.tombstone(at())),
        sample("retention", Organization { thread_retention_days: Some(30), ..organization.clone() }),
        sample("quotas_held", Organization { quotas: held, ..organization.clone() }),
        sample("quotas", Organization { quotas: quotas(), ..organization.clone() }),
        sample("policy", Organization { policy: policy(), approval_ttl_seconds: Some(86_400), ..organization }),
        sample("limited", limited),
        sample("removed", Member { removed_at: Some(at()), ..member.clone() }),
        sample("plain", member),
        sample("plain", record.id.clone()),
        sample("plain", TokenUse { at: at() }),
        sample("plain", First { org: org() }),
        sample("plain", record),
    ]
}

pub(super) fn model_settings() -> Vec<Sample> {
    let model = ModelOptions {
        upstream: "vendor/large-1".into(),
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
        output_limit_field: OutputLimitField::MaxCompletionTokens,
        stream_usage: false,
        models: [("large".to_owned(), model)].into(),
        available: vec!["vendor/large-1".into(), "vendor/small-1".into()],
        discovered_at: Some(at()),
        enabled: false,
    };
    let providers = [("own".to_owned(), provider), ("openai".to_owned(), Provider::default())].into();
    let settings =
        ModelSettings { version: 3, default_model: "large".into(), fallbacks: vec!["small".into()], providers };
    vec![sample("full", settings), sample("empty", ModelSettings { version: 1, ..ModelSettings::default() })]
}
