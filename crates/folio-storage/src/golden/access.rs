//! Golden samples of the values that authorize requests: members, uses of tokens, sessions, and organizations of users.

use folio_resources::{SESSION_LIFETIME, Session};

use super::*;

pub(super) fn access() -> Vec<Sample> {
    let member = Member::new(user(), "a@b.c", Role::Viewer, at());
    let text = format!("folio_session_{}_{}_{}", "ab".repeat(16), "bc".repeat(16), "cd".repeat(32));
    let token: SessionToken = text.parse().unwrap();
    let session = Session {
        id: token.id().clone(),
        hash: token.hash(),
        password_number: 3,
        created_at: at(),
        expires_at: at() + SESSION_LIFETIME,
    };
    vec![
        sample("removed", Member { removed_at: Some(at()), ..member.clone() }),
        sample("plain", member),
        sample("plain", TokenUse { at: at() }),
        sample("plain", session),
        sample("plain", UserOrganization { org: org() }),
    ]
}
