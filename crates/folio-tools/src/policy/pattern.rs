//! Regular expressions of policies. Each is compiled once per process, with bounded size, because one organization
//! writes it and a slow search would delay all organizations. The engine does not backtrack: the time of a search is
//! proportional to the length of the text times the size of the compiled pattern.

use std::sync::{Arc, LazyLock};

use moka::sync::Cache;
use regex::{Error, Regex, RegexBuilder, RegexSetBuilder};

/// Maximum size of a compiled pattern, in bytes. A literal takes a few hundred bytes. Unicode classes are large: `\d`
/// takes 5 KiB, `\p{L}` or `\w` 50 KiB, for each repetition.
// proto: PolicyCondition.matches "takes at most {} KiB"
const COMPILED_BYTES: usize = 64 * 1024;
/// Maximum size of all compiled patterns of a policy, in bytes.
// proto: PolicyCondition.matches "of a policy at most {} KiB"
const TOGETHER_BYTES: usize = 128 * 1024;
/// Maximum size of the lazy DFA of a pattern, per concurrent search, in bytes.
const SEARCH_BYTES: usize = 64 * 1024;
/// Maximum number of cached patterns: at most 60 MiB, typically less than a tenth of that.
const CACHED_MAX: u64 = 512;

/// Cache of compiled patterns. None: the pattern is invalid or exceeds a bound.
static CACHE: LazyLock<Cache<String, Option<Arc<Regex>>>> = LazyLock::new(|| Cache::new(CACHED_MAX));

/// Returns true if the pattern matches a part of the text. None if the pattern is invalid or exceeds a bound.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> Option<bool> {
    let regex = CACHE.get_with_by_ref(pattern, || compiled(pattern).ok().map(Arc::new));
    regex.map(|regex| regex.is_match(text))
}

pub(super) fn check(pattern: &str) -> Result<(), String> {
    match compiled(pattern) {
        Ok(_) => Ok(()),
        Err(Error::CompiledTooBig(_)) => Err(too_big("takes", COMPILED_BYTES)),
        Err(error) => Err(format!("is not a regular expression: {error}")),
    }
}

/// Validates the total size of the patterns of a policy.
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

fn too_big(subject: &str, max_bytes: usize) -> String {
    let smaller = r"[0-9] for \d, [a-z] for \p{L}, (?-u:\w) for \w, or fewer repetitions";
    format!("{subject} more than {} KiB compiled; use {smaller}", max_bytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_patterns_fit_and_an_error_names_smaller_alternatives() {
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
            let message = check(pattern).unwrap_err();
            assert!(message.contains("more than 64 KiB") && message.contains("[0-9]"), "{message}");
            assert_eq!(matches_pattern(pattern, "a"), None);
        }
        assert!(check("(").unwrap_err().contains("is not a regular expression"));
    }

    #[test]
    fn a_pattern_is_compiled_once() {
        let pattern = "compiled (once|twice)";
        assert_eq!(matches_pattern(pattern, "compiled once"), Some(true));
        let first = CACHE.get(pattern).unwrap().unwrap();
        assert_eq!(matches_pattern(pattern, "compiled never"), Some(false));
        assert!(Arc::ptr_eq(&first, &CACHE.get(pattern).unwrap().unwrap()));
    }
}
