//! A fault on purpose, for tests that show that they can see: one rule of the protocol is left out.

use std::sync::OnceLock;

use crate::turn::Rules;

/// All rules but the one that `FOLIO_PLANTED_BUG` names.
pub(crate) fn rules() -> Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    *RULES.get_or_init(|| Rules::without(&std::env::var("FOLIO_PLANTED_BUG").unwrap_or_default()))
}
