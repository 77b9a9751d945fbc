//! The regular expressions of policies: each is compiled once for the process, within bounds, for it is an organization that
//! writes them and every organization that waits for a search. A search takes time in proportion to the text and to the
//! compiled pattern; nothing goes back in the text.

use std::sync::{Arc, LazyLock};

use moka::sync::Cache;
use regex::{Error, Regex, RegexBuilder, RegexSetBuilder};

/// Bytes of a compiled pattern. Of letters and signs it takes a few hundred; classes of Unicode are large: `\d` 5 KiB, `\p{L}` or
/// `\w` 50 KiB, each time that they are repeated.
const COMPILED_BYTES: usize = 64 * 1024;
/// Bytes of the compiled patterns of a policy together.
const TOGETHER_BYTES: usize = 128 * 1024;
/// Bytes that a pattern keeps of its searches, for each of those at the same time.
const SEARCH_BYTES: usize = 64 * 1024;
/// Patterns that are kept: at most some 60 MiB, and hardly ever a tenth of that.
const KEPT_MAX: u64 = 512;

/// None: it is none, or too large, as may be what was stored before there were these bounds.
static KEPT: LazyLock<Cache<String, Option<Arc<Regex>>>> = LazyLock::new(|| Cache::new(KEPT_MAX));

/// Whether a pattern finds something in a text; none where it is none, or too large.
pub(super) fn finds(pattern: &str, text: &str) -> Option<bool> {
    let kept = KEPT.get_with_by_ref(pattern, || compiled(pattern).ok().map(Arc::new));
    kept.map(|kept| kept.is_match(text))
}

/// What is wrong with a pattern.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    match compiled(pattern) {
        Ok(_) => Ok(()),
        Err(Error::CompiledTooBig(_)) => Err(too_big("takes", COMPILED_BYTES)),
        Err(error) => Err(format!("is no regular expression: {error}")),
    }
}

/// What is wrong with all patterns of a policy, of which each is right.
pub(super) fn check_together(patterns: &[&str]) -> Result<(), String> {
    match RegexSetBuilder::new(patterns).size_limit(TOGETHER_BYTES).build() {
        Ok(_) => Ok(()),
        Err(Error::CompiledTooBig(_)) => Err(too_big("all conditions with matches together take", TOGETHER_BYTES)),
        Err(error) => Err(format!("conditions with matches: {error}")),
    }
}

fn compiled(pattern: &str) -> Result<Regex, Error> {
    RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).dfa_size_limit(SEARCH_BYTES).build()
}

fn too_big(what: &str, most: usize) -> String {
    let smaller = r"[0-9] for \d, [a-z] for \p{L}, (?-u:\w) for \w, or fewer repetitions";
    format!("{what} more than {} KiB compiled; smaller are {smaller}", most / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_patterns_fit_and_large_ones_are_told_how_to_be_smaller() {
        for pattern in [
            r"^(invoice|receipt)_\d{4}$",
            r"^\d{4}-\d{2}-\d{2}$",
            "(?i)^acme",
            "(?i)^(urgent|overdue|final notice)",
            r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$",
            r"^(?-u:[\w.+-])+@(?-u:[\w-])+\.(?-u:\w)+$",
            r"(?i)^\p{L}+$",
            r"^\w+$",
            "^[a-z0-9-]{1,63}$",
            r"^https?://[^/]+\.example\.com/",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
        for pattern in [r"^\p{L}{1,40}$", r"^\w{1,32}$", "(?:a{100}){100}"] {
            let told = check(pattern).unwrap_err();
            assert!(told.contains("more than 64 KiB") && told.contains("[0-9]"), "{told}");
            assert_eq!(finds(pattern, "a"), None);
        }
        assert!(check("(").unwrap_err().contains("is no regular expression"));
    }

    #[test]
    fn a_pattern_is_compiled_once() {
        let pattern = "compiled (once|twice)";
        assert_eq!(finds(pattern, "compiled once"), Some(true));
        let first = KEPT.get(pattern).unwrap().unwrap();
        assert_eq!(finds(pattern, "compiled never"), Some(false));
        assert!(Arc::ptr_eq(&first, &KEPT.get(pattern).unwrap().unwrap()));
    }
}
