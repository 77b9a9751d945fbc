//! Validation of schemas, and of data against schemas.
//!
//! A schema of Folio is an OpenAI `response_format` of type `json_schema` with a name, a schema and `strict`.
//! [`check_response_format`] returns every violation of a response format with its path. [`validate_data`] returns the
//! violations of data. Both accept hostile input: size, nesting, references and the work of recursive schemas are
//! bounded before any recursive code runs.
//!
//! Paths are JSON pointers in a fragment (`#/properties/total`), the notation of `$ref`. `#` is the root.

mod bounds;
mod format;
#[cfg(test)]
mod fuzz;
mod graph;
mod strict;
#[cfg(test)]
mod tests;
mod validate;
mod walk;

use std::fmt;

use serde::Serialize;

pub use bounds::is_deeper_than;
pub use format::{CheckedFormat, Rules, check_response_format, check_schema, format_name};
pub use validate::{Validator, validate_data};

/// Maximum number of reported violations. Further ones are only counted.
pub const VIOLATIONS_MAX: usize = 50;
/// Maximum number of subschemas of a schema, including the root.
pub const SUBSCHEMAS_MAX: usize = 5_000;
/// Maximum number of properties of a schema, over all levels.
pub const PROPERTIES_MAX: usize = 1_000;
/// Maximum nesting of a schema, in levels, if every reference is followed once.
pub const REFERENCE_NESTING_MAX: usize = 2_000;
/// Maximum number of nested subschemas (`allOf`, `$ref`, …) that apply to one value.
pub const IN_PLACE_NESTING_MAX: usize = 64;
/// Maximum number of steps of one validation of data. A step is the evaluation of one subschema; long lists and
/// patterns count as several. An upper bound of the steps is computed before the validation.
pub const STEPS_MAX: u64 = 500_000;
/// Maximum number of patterns of a schema.
pub const PATTERNS_MAX: usize = 200;

/// Maximum length of a path in a violation, in bytes.
const PATH_BYTES: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// JSON pointer in a fragment (`#/properties/total`). `#` is the root.
    pub path: String,
    /// Description for a user or a model.
    pub message: String,
}

impl Violation {
    fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Formats violations as one text, one per line, for a model or an error message.
pub fn describe(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
}

/// Returns the path of a member of the value at `path`.
fn join(path: &str, segment: &str) -> String {
    if path.len() > PATH_BYTES {
        return if path.ends_with('…') { path.to_owned() } else { format!("{path}/…") };
    }
    let shown: String = segment.chars().take(120).collect();
    format!("{path}/{}", shown.replace('~', "~0").replace('/', "~1"))
}

/// Truncates the violations to [`VIOLATIONS_MAX`] and appends a violation that states the number of the removed ones.
fn bounded(mut violations: Vec<Violation>) -> Vec<Violation> {
    let more = violations.len().saturating_sub(VIOLATIONS_MAX);
    if more > 0 {
        violations.truncate(VIOLATIONS_MAX);
        violations.push(Violation::new("#", format!("{more} more violations are not listed")));
    }
    violations
}
