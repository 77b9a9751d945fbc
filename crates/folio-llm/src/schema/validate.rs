//! Validation of data against a schema. Validators are compiled once, cached, and safe for hostile schemas and data.

use std::sync::{Arc, LazyLock};

use folio_types::{Digest, limits};
use jsonschema::{Draft, PatternOptions, ValidationError};
use moka::future::Cache;
use serde_json::Value;

use super::graph::{CostModel, Graph};
use super::{STEPS_MAX, VIOLATIONS_MAX, Violation, bounded, is_deeper_than};

/// Stack size for code that recurses with the nesting of schema and data (bounded by earlier checks), in bytes.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Maximum size of all schemas whose validators are cached, in bytes.
const CACHED_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of backtracking steps of one pattern match.
const BACKTRACK_MAX: usize = 10_000;
/// Maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES: usize = 256 * 1024;
/// Maximum validation steps of a task between two await points.
const QUICK_STEPS: u64 = 5_000;
/// Maximum length of a message, in characters.
const MESSAGE_CHARS: usize = 400;

static VALIDATORS: LazyLock<Cache<Digest, Arc<Validator>>> = LazyLock::new(|| {
    Cache::builder().weigher(|_, validator: &Arc<Validator>| validator.bytes).max_capacity(CACHED_BYTES).build()
});

/// A compiled schema.
pub struct Validator {
    compiled: jsonschema::Validator,
    cost_model: CostModel,
    bytes: u32,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Validator {
    /// Compiles a schema of JSON Schema Draft 7, which may violate the strict rules. The error lists at least one
    /// violation.
    pub fn compile(schema: &Value) -> Result<Self, Vec<Violation>> {
        super::format::compile(schema)
    }

    /// Compiles a schema whose size and references were checked.
    pub(super) fn compile_graph(graph: &Graph<'_>, schema: &Value) -> Result<Self, Vec<Violation>> {
        let cost_model = graph.cost_model().map_err(|violation| vec![violation])?;
        let compiled = on_stack(&cost_model, || build(schema))?.map_err(|violation| vec![violation])?;
        let bytes = u32::try_from(schema.to_string().len()).unwrap_or(u32::MAX);
        Ok(Self { compiled, cost_model, bytes })
    }

    /// Returns the cached validator of a schema, or compiles the schema.
    pub async fn cached(schema: &Value) -> Result<Arc<Self>, Vec<Violation>> {
        if is_deeper_than(schema, limits::JSON_DEPTH) {
            return Err(vec![too_deep()]);
        }
        let compile = async { Self::compile(schema).map(Arc::new) };
        VALIDATORS.try_get_with(Digest::of_json(schema), compile).await.map_err(|violations| (*violations).clone())
    }

    /// Validates data. Returns at most [`VIOLATIONS_MAX`] violations, none of which repeats values of the data. An
    /// empty result means that the data are valid.
    pub fn check(&self, data: &Value) -> Vec<Violation> {
        if is_deeper_than(data, limits::JSON_DEPTH) {
            return vec![too_deep()];
        }
        if self.cost_model.steps(data) > STEPS_MAX {
            return vec![Violation::new(
                "#",
                "exceeds the work limit of validation: reduce the data or the recursion of the schema",
            )];
        }
        on_stack(&self.cost_model, || self.violations(data)).unwrap_or_else(|violations| violations)
    }

    fn violations(&self, data: &Value) -> Vec<Violation> {
        if self.compiled.is_valid(data) {
            return Vec::new();
        }
        let found = self.compiled.iter_errors(data).take(VIOLATIONS_MAX + 1);
        bounded(found.map(|error| violation(&error, Values::Masked)).collect())
    }
}

/// Validates data against a bare schema. `Err`: violations of the schema itself.
pub async fn validate_data(schema: &Value, data: &Value) -> Result<Vec<Violation>, Vec<Violation>> {
    let validator = Validator::cached(schema).await?;
    if is_deeper_than(data, limits::JSON_DEPTH) || validator.cost_model.steps(data) <= QUICK_STEPS {
        return Ok(validator.check(data));
    }
    let data = data.clone();
    let check = tokio::task::spawn_blocking(move || validator.check(&data));
    check.await.map_err(|_| failed())
}

/// Returns violations of the meta-schema of Draft 7.
pub(super) fn meta_violations(schema: &Value) -> Vec<Violation> {
    let meta = jsonschema::draft7::meta::validator();
    meta.iter_errors(schema).take(VIOLATIONS_MAX + 1).map(|error| violation(&error, Values::Shown)).collect()
}

fn build(schema: &Value) -> Result<jsonschema::Validator, Violation> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_MAX).size_limit(PATTERN_BYTES);
    jsonschema::options()
        .with_draft(Draft::Draft7)
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| violation(&error, Values::Shown))
}

#[derive(Clone, Copy, PartialEq)]
enum Values {
    Shown,
    Masked,
}

fn violation(error: &ValidationError<'_>, values: Values) -> Violation {
    let message = match values {
        Values::Shown => error.to_string(),
        Values::Masked => error.masked().to_string(),
    };
    Violation::new(format!("#{}", error.instance_path().as_str()), truncate(&message))
}

fn truncate(message: &str) -> String {
    let mut text: String = message.chars().take(MESSAGE_CHARS).collect();
    if text.len() < message.len() {
        text.push('…');
    }
    text
}

pub(super) fn too_deep() -> Violation {
    Violation::new("#", format!("nests deeper than {} levels", limits::JSON_DEPTH))
}

fn failed() -> Vec<Violation> {
    vec![Violation::new("#", "the validation failed unexpectedly; retry")]
}

/// Runs recursive code: on the current thread if the schema is shallow, else on a thread with a large stack.
fn on_stack<T: Send>(cost_model: &CostModel, work: impl FnOnce() -> T + Send) -> Result<T, Vec<Violation>> {
    if cost_model.is_shallow {
        return Ok(work());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("schema-check".to_owned()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, work) {
            Ok(thread) => thread.join().map_err(|_| failed()),
            Err(_) => Err(failed()),
        }
    })
}
