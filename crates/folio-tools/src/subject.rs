//! Resources that tool calls concern: parses their ids from arguments, loads them and plans writes to them.

use std::fmt::Display;
use std::str::FromStr;

use folio_resources::{Resource, Revisioned};
use folio_types::op::Expected;
use folio_types::page::PageRequest;
use serde_json::Value;

use crate::tool::{CallContext, Plan, ToolError};
use crate::{arguments, rules};

/// Maximum number of existing resources that an error lists.
const LISTED_MAX: u32 = 5;

/// A resource that tool arguments identify by its id.
pub(crate) trait ToolResource: Resource<Filter: Default> {
    const ARGUMENT: &'static str;
    /// Format of the id and the tool that finds ids, for error messages.
    const HINT: &'static str;
    /// Tool that lists the resources.
    const LIST_TOOL: &'static str;

    /// Returns the id that is used if the argument is omitted. Fails with `ForModel` if there is no default.
    fn default_id(_: &CallContext) -> Result<Self::Id, ToolError> {
        Err(ToolError::ForModel(format!("{} is missing: {}", Self::ARGUMENT, Self::HINT)))
    }

    /// Returns the ids that the turn may reach. None: those of all resources of the organization.
    fn reachable(_: &CallContext) -> Option<&[Self::Id]> {
        None
    }

    /// Returns the problem with an id for which no resource is found, as the end of a sentence.
    fn absence(_: &CallContext, _: &Self::Id) -> &'static str {
        "does not exist"
    }
}

pub(crate) async fn find<S: ToolResource>(context: &CallContext, id: &S::Id) -> Result<S, ToolError> {
    if S::reachable(context).is_some_and(|ids| !ids.contains(id)) {
        let text =
            format!("{} {id} is not the {} of this run. Call ingestion_status for its id.", S::ARGUMENT, S::KIND);
        return Err(ToolError::ForModel(text));
    }
    match context.store::<S>().get(&context.principal.org, id).await? {
        Some(found) => Ok(found),
        None => Err(not_found::<S>(context, id).await),
    }
}

/// Returns the error for an id that does not exist. It lists existing resources.
pub(crate) async fn not_found<S: ToolResource>(context: &CallContext, id: &S::Id) -> ToolError {
    let problem = format!("{} {id} {}.", S::ARGUMENT, S::absence(context, id));
    with_existing::<S>(context, problem, |existing| existing.id().to_string()).await
}

/// Returns an error that lists the newest resources of the caller's organization, because models invent ids. If the
/// resources cannot be read, returns the error of the store. `id`: the id that the argument expects.
async fn with_existing<S: ToolResource>(context: &CallContext, problem: String, id: fn(&S) -> String) -> ToolError {
    if S::reachable(context).is_some() {
        return ToolError::ForModel(problem);
    }
    let request = PageRequest { size: LISTED_MAX, ..PageRequest::default() };
    let page = match context.store::<S>().list(&context.principal.org, &S::Filter::default(), &request).await {
        Ok(page) => page,
        Err(error) => return error.into(),
    };
    let items: Vec<(String, &str)> = page.items.iter().map(|item| (id(item), item.label())).collect();
    ToolError::ForModel(format!("{problem} {}", listed(S::KIND, S::LIST_TOOL, &items, page.total)))
}

/// Returns the sentences that list existing resources, as ids with quoted names.
fn listed(kind: &str, list_tool: &str, items: &[(String, &str)], total: u64) -> String {
    if items.is_empty() {
        return format!("No {kind} exists; {list_tool} returns an empty list.");
    }
    let name = |(id, name): &(String, &str)| format!("{id} {}", Value::from(rules::excerpt(name)));
    let names = items.iter().map(name).collect::<Vec<_>>().join(", ");
    match total > items.len() as u64 {
        true => format!("The newest of {total}: {names}. Call {list_tool} to find others."),
        false => format!("Existing: {names}. {list_tool} returns details."),
    }
}

/// Returns the resource whose id is `argument`, or the default if the argument is omitted.
pub(crate) async fn find_by_argument<S: ToolResource>(
    context: &CallContext,
    argument: Option<&str>,
) -> Result<S, ToolError> {
    find(context, &id_of_argument::<S>(context, argument).await?).await
}

/// Parses the id of a resource, or returns the default if the argument is omitted.
pub(crate) async fn id_of_argument<S: ToolResource>(
    context: &CallContext,
    argument: Option<&str>,
) -> Result<S::Id, ToolError> {
    match argument.map(|text| arguments::id(S::ARGUMENT, text, S::HINT)) {
        Some(Ok(id)) => Ok(id),
        Some(Err(malformed)) => {
            Err(with_existing::<S>(context, malformed.to_string(), |existing| existing.id().to_string()).await)
        }
        None => S::default_id(context),
    }
}

/// Parses the id of a revision. If `text` is malformed, fails with `ForModel` and a list of existing ids.
pub(crate) async fn parse_revid<S>(context: &CallContext, text: &str, hint: &str) -> Result<S::RevId, ToolError>
where
    S: ToolResource + Revisioned,
    S::RevId: FromStr<Err: Display>,
{
    match arguments::id(&revid_argument::<S>(), text, hint) {
        Ok(revid) => Ok(revid),
        Err(malformed) => Err(with_existing::<S>(context, malformed.to_string(), newest_revid::<S>).await),
    }
}

/// Returns a revision. Fails with `ForModel` if the resource is deleted or does not have this revision.
pub(crate) async fn find_revision<S: ToolResource + Revisioned>(
    context: &CallContext,
    revid: &S::RevId,
) -> Result<S::Revision, ToolError> {
    if let Some(found) = context.store::<S>().revision(&context.principal.org, revid).await? {
        return Ok(found);
    }
    let problem = format!("{} {revid} does not exist", revid_argument::<S>());
    match context.store::<S>().get(&context.principal.org, S::parts(revid).0).await? {
        Some(existing) => {
            let newest = newest_revid(&existing);
            Err(ToolError::ForModel(format!("{problem}. The newest version of this {} is {newest}.", S::KIND)))
        }
        None => Err(with_existing::<S>(context, format!("{problem}."), newest_revid::<S>).await),
    }
}

/// Returns the name of the argument that identifies a revision.
fn revid_argument<S: ToolResource>() -> String {
    S::ARGUMENT.replace("_id", "_revid")
}

fn newest_revid<S: Revisioned>(resource: &S) -> String {
    format!("{}.{}", resource.id(), resource.newest().0)
}

/// Records that the call's thread refers to a revision, so that the revision is kept while the call waits. A preview
/// records nothing.
pub(crate) async fn name_revision<S: Revisioned>(context: &CallContext, revid: &S::RevId) -> Result<(), ToolError> {
    if context.is_preview {
        return Ok(());
    }
    let named = context.store::<S>().name_revision(&context.principal.org, revid, &context.call.turn).await;
    named.map_err(ToolError::from)
}

/// Plans a write to the resource whose id is `argument`, or to the default if the argument is omitted.
pub(crate) async fn plan_existing<S: ToolResource>(
    context: &CallContext,
    argument: Option<&str>,
) -> Result<Plan, ToolError> {
    find_by_argument::<S>(context, argument).await.map(|existing| plan_update(&existing))
}

/// Plans a create: a write to the resource that already has the name, else to a new one.
pub(crate) async fn plan_create<A: Resource>(context: &CallContext, name: &str) -> Result<Plan, ToolError> {
    let existing = context.store::<A>().by_name(&context.principal.org, name).await?;
    Ok(existing.map_or_else(|| plan_new::<A>(context), |existing| plan_update(&existing)))
}

/// Plans the creation of a resource. Its id is derived from the call, so a repeated call creates it once.
pub(crate) fn plan_new<A: Resource>(context: &CallContext) -> Plan {
    let id = A::derive_id(&[context.principal.org.as_str(), &context.call.to_string()]);
    Plan { target: A::target(&id), expected: Expected::Absent, resolved: Value::Null }
}

/// Plans a write to the current version of a resource.
pub(crate) fn plan_update<A: Resource>(current: &A) -> Plan {
    Plan { target: A::target(current.id()), expected: Expected::Version(current.version()), resolved: Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_resources_are_listed_with_quoted_names() {
        let long = "x".repeat(500);
        let items = [("sch_b".to_owned(), "Bill \"2\""), ("sch_a".to_owned(), long.as_str())];
        let some = listed("schema", "list_schemas", &items, 2);
        assert!(some.starts_with("Existing: sch_b \"Bill \\\"2\\\"\", sch_a \"xxx"), "{some}");
        assert!(some.contains("list_schemas") && some.len() < 300, "{some}");
        let more = listed("schema", "list_schemas", &items, 9);
        assert!(more.starts_with("The newest of 9: sch_b ") && more.contains("list_schemas"), "{more}");
        let none = listed("tag", "list_tags", &[], 0);
        assert!(none.starts_with("No tag exists") && none.contains("list_tags"), "{none}");
    }
}
