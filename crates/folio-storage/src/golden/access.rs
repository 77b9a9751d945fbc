//! Members and uses of tokens.

use super::*;

pub(super) fn access() -> Vec<Sample> {
    let member = Member { user: user(), name: "a@b.c".into(), role: Role::Viewer, created_at: at(), removed_at: None };
    vec![
        sample("removed", Member { removed_at: Some(at()), ..member.clone() }),
        sample("plain", member),
        sample("plain", TokenUse { at: at() }),
    ]
}
