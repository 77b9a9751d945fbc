//! Members and uses of tokens.

use super::*;

pub(super) fn access() -> Vec<Sample> {
    let member = Member::new(user(), "a@b.c", Role::Viewer, at());
    vec![
        sample("removed", Member { removed_at: Some(at()), ..member.clone() }),
        sample("plain", member),
        sample("plain", TokenUse { at: at() }),
    ]
}
