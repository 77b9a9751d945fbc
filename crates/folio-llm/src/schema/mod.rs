//! Checks of schemas, and of data against them.
//!
//! A schema of Folio is an OpenAI `response_format`: `{type: "json_schema", json_schema: {name, schema, strict: true}}`.
//! [`check_response_format`] says everything that is wrong with one, each with its path; [`validate_data`] says what is
//! wrong with data. Both take hostile input: sizes, nesting, references and the work that a recursive schema can cause
//! are bounded before anything recursive touches them.
//!
//! Paths are JSON pointers in a fragment (`#/properties/total`), the notation of `$ref`; `#` is the whole.

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
pub use format::{CheckedFormat, Rules, check_response_format, check_schema, normalize};
pub use validate::{Validator, validate_data};

/// Violations of one check that are reported; more are counted only.
pub const VIOLATIONS_MAX: usize = 50;
/// Schemas within a schema, itself among them.
pub const SUBSCHEMAS_MAX: usize = 5_000;
/// Properties of a schema, over all its levels.
pub const PROPERTIES_MAX: usize = 1_000;
/// Nesting of a schema with every reference followed once.
pub const REFERENCE_NESTING_MAX: usize = 2_000;
/// Subschemas (`allOf`, `$ref`, …) that apply to one value one inside the other.
pub const IN_PLACE_NESTING_MAX: usize = 64;
/// Steps that one check of data may take (evaluations of subschemas, with their long lists and patterns), estimated from
/// above.
pub const STEPS_MAX: u64 = 500_000;
/// Patterns of a schema.
pub const PATTERNS_MAX: usize = 200;

/// Bytes after which a path in a violation is cut.
const PATH_BYTES: usize = 512;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// A JSON pointer in a fragment (`#/properties/total`); `#` is the whole.
    pub path: String,
    /// What is wrong, for a person or a model.
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

/// Violations in one text, one a line: for a model, or for the message of an error.
pub fn describe(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
}

/// The path of a member of what is at `path`.
fn join(path: &str, segment: &str) -> String {
    if path.len() > PATH_BYTES {
        return if path.ends_with('…') { path.to_owned() } else { format!("{path}/…") };
    }
    let shown: String = segment.chars().take(120).collect();
    format!("{path}/{}", shown.replace('~', "~0").replace('/', "~1"))
}

/// Leaves [`VIOLATIONS_MAX`] and says how many more there are.
fn bounded(mut violations: Vec<Violation>) -> Vec<Violation> {
    let more = violations.len().saturating_sub(VIOLATIONS_MAX);
    if more > 0 {
        violations.truncate(VIOLATIONS_MAX);
        violations.push(Violation::new("#", format!("and {more} more")));
    }
    violations
}
