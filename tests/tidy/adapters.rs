//! Storage adapters execute plans: they name no kind of resource. The REST face has no access to the stores.

use regex::Regex;

use crate::language::parts;
use crate::{is_test, report, sources};

/// Folders of the storage adapters, each with its identifiers that contain the word of a kind with another meaning:
/// page tokens, policies, schemas and the user of the CQL driver, hash tags and members of sets in Redis, members of a
/// cluster, the collections of the standard library, and the ids of the users that wait for approvals.
const ADAPTERS: &[(&str, &str)] = &[
    ("crates/folio-storage-embedded/src", "page_token token collections"),
    (
        "crates/folio-storage-cql/src",
        "page_token token calculate_token is_after_token policies retry_policy set_retry_policy RetryPolicy DefaultRetryPolicy \
         FallthroughRetryPolicy SerialReadRetryPolicy SingleTargetLoadBalancingPolicy set_load_balancing_policy \
         SimpleSpeculativeExecutionPolicy speculative_execution_policy system_schema fetch_schema_metadata \
         fetch_full_schema_metadata schema_agreement_timeout await_schema_agreement user collections",
    ),
    ("crates/folio-storage-memory/src", "members UserId collections"),
    ("crates/folio-storage-redis/src", "tag member members UserId"),
];

/// Returns the kinds of resources, and the words of parts and rows that are no kinds.
fn kinds() -> Vec<String> {
    let kind = Regex::new(r#"const KIND: &'static str = "(\w+)";"#).expect("an expression");
    let resources = sources().into_iter().filter(|(file, _)| file.starts_with("crates/folio-resources/src"));
    let of_file = |text: String| kind.captures_iter(&text).map(|found| found[1].to_owned()).collect::<Vec<_>>();
    let kinds: Vec<_> = resources.flat_map(|(_, text)| of_file(text)).collect();
    assert!(kinds.len() > 8, "only these kinds were found: {kinds:?}");
    kinds.into_iter().chain(["member", "provider", "policy", "policie"].map(str::to_owned)).collect()
}

/// Returns true if an identifier in a line of code, except `others`, contains a kind as a word.
fn names_a_kind(line: &str, kinds: &[String], others: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let mut identifiers = code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    identifiers.any(|identifier| {
        let words = format!("_{}_", parts(identifier).join("_"));
        let is_named = |kind: &String| words.contains(&format!("_{kind}_")) || words.contains(&format!("_{kind}s_"));
        kinds.iter().any(is_named) && !others.split(' ').any(|other| other == identifier)
    })
}

#[test]
fn no_storage_adapter_names_a_kind_of_resource() {
    let (kinds, mut wrong) = (kinds(), Vec::new());
    for (folder, others) in ADAPTERS {
        let inside = sources().into_iter().filter(|(file, _)| file.starts_with(folder) && !is_test(file));
        let inside: Vec<_> = inside.collect();
        assert!(!inside.is_empty(), "{folder} has no sources: name the adapter's folder in ADAPTERS");
        for (file, text) in inside {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let named = code.lines().enumerate().filter(|(_, line)| names_a_kind(line, &kinds, others));
            wrong.extend(named.map(|(at, line)| format!("{}:{}: {}", file.display(), at + 1, line.trim())));
        }
    }
    report("a storage adapter knows a kind of resource", &wrong);
}

/// Returns true if a line of code contains the word of a variable or a type with the stores.
fn names_the_stores(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .any(|word| ["stores", "Stores"].contains(&word))
}

#[test]
fn routes_reach_the_stores_only_through_operations() {
    let inside = sources().into_iter().filter(|(file, _)| file.starts_with("services/gateway/src/rest"));
    let inside: Vec<_> = inside.collect();
    assert!(!inside.is_empty(), "the folder of the REST face has no sources");
    let named = inside.iter().flat_map(|(file, text)| {
        let named = text.lines().enumerate().filter(|(_, line)| names_the_stores(line));
        named.map(move |(at, line)| format!("{}:{}: {}", file.display(), at + 1, line.trim()))
    });
    report("a route of the REST face has access to the stores: use an operation", &named.collect::<Vec<_>>());
}

#[test]
fn a_line_that_names_the_stores_is_found() {
    assert!(
        names_the_stores("let found = context.stores().of::<Tag>();") && names_the_stores("fn list(stores: &Stores)")
    );
    assert!(!names_the_stores("/// Stores a tag.") && !names_the_stores("use folio_storage::StoredSummary;"));
}

#[test]
fn a_line_that_names_a_kind_is_found() {
    let kinds = kinds();
    for named in
        ["fn plan(change: TagChange) {", "let webhook_endpoint_id = row.id;", "let policy = retry_policy(org);"]
    {
        assert!(names_a_kind(named, &kinds, "retry_policy"), "{named}");
    }
    for other in ["statement.retry_policy(org)", "let staged = vintage(row); // a tag"] {
        assert!(!names_a_kind(other, &kinds, "retry_policy"), "{other}");
    }
}
