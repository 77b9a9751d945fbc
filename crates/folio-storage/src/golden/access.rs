//! Members and tokens.

use super::*;

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
    let limited = TokenRecord { scopes: Scope::ALL.to_vec(), platform: true, revoked_at: Some(at()), ..record.clone() };
    let member = Member { user: user(), name: "a@b.c".into(), role: Role::Viewer, created_at: at(), removed_at: None };
    vec![
        sample("limited", limited),
        sample("removed", Member { removed_at: Some(at()), ..member.clone() }),
        sample("plain", member),
        sample("plain", record.id.clone()),
        sample("plain", TokenUse { at: at() }),
        sample("plain", record),
    ]
}
