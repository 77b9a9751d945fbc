//! Previews of tool calls that wait for a decision.
//!
//! A preview plans the call as its turn would, applies the change of its deciding write to the stored resource, and compares
//! the two states. It writes nothing and calls no model.

use folio_resources::{Document, DocumentFilter, Extraction, Prompt, PromptFilter, Resource, Schema, Tag};
use folio_tools::preview::{Preview, ValueChange};
use folio_tools::{CallContext, DocumentScope, ToolError, ToolKind};
use folio_types::access::Scope;
use folio_types::op::Target;
use folio_types::page::PageRequest;
use folio_types::{CallId, Error, Principal, Result, Role, TagId, TurnId};
use serde::Serialize;
use serde_json::Value;

use crate::approvals::read_turn;
use crate::context::Context;
use crate::conversations::{SERVICE, registry};
use crate::declaration::Declaration;
use crate::document_selection::with_any_tag;
use crate::operation::Operation;

/// Maximum number of items of a list of affected resources.
// proto: AffectedResources.items "at most {}."
const AFFECTED_MAX: u32 = 50;

/// Returns the effect of a call that waits for a decision.
#[derive(Debug, Clone, Serialize)]
pub struct PreviewToolCall {
    pub turn_id: TurnId,
    pub call_id: CallId,
    /// Complete arguments that replace those of the call. None: those of the call.
    pub arguments: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// The effect is known only when the call runs.
    Unknown,
    Creates,
    Updates,
    Deletes,
    /// The call changes no field.
    Nothing,
}

/// A resource that a call affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedResource {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Affected {
    /// At most 50.
    pub items: Vec<AffectedResource>,
    /// Number of all affected resources, as far as they were counted.
    pub count: u64,
    /// True if there are more than `count`.
    pub has_more: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallPreview {
    pub effect: CallEffect,
    /// None: the effect is unknown, or the call cannot run.
    pub target: Option<Target>,
    /// Display name of the resource, after the call unless the call deletes it.
    pub name: String,
    pub changes: Vec<ValueChange>,
    /// Number of all changes.
    pub change_count: usize,
    pub prompts: Affected,
    pub documents: Affected,
    /// The reason why the call would fail now, as the model would receive it. None: the call can run.
    pub problem: Option<String>,
    /// True if the problem is a violation of the tool's schema by edited arguments, which a decision must not contain.
    pub is_refused: bool,
}

impl ToolCallPreview {
    fn without_effect(effect: CallEffect, problem: Option<String>) -> Self {
        Self {
            effect,
            target: None,
            name: String::new(),
            changes: Vec::new(),
            change_count: 0,
            prompts: Affected::default(),
            documents: Affected::default(),
            problem,
            is_refused: false,
        }
    }

    fn of_refused_arguments(problem: String) -> Self {
        Self { is_refused: true, ..Self::without_effect(CallEffect::Unknown, Some(problem)) }
    }
}

impl Operation for PreviewToolCall {
    // A viewer cannot decide on a call.
    const DECLARATION: Declaration = SERVICE.read("PreviewToolCall").role(Role::Member);
    type Output = ToolCallPreview;

    async fn run(self, context: &Context) -> Result<ToolCallPreview> {
        let Self { turn_id, call_id, arguments } = self;
        // The owner of the thread checks that the caller may read the turn.
        let view = context.conversations().get_turn(context.principal(), &turn_id).await?;
        let not_found = || Error::not_found("pending call", &call_id);
        let call = view.pending.into_iter().find(|call| call.id == call_id).ok_or_else(not_found)?;
        let (org, threads) = (&context.principal().org, &context.stores().threads);
        let header = threads.header(org, &turn_id.thread).await?.ok_or_else(not_found)?;
        let record = read_turn(&**threads, &header, turn_id.number).await?.ok_or_else(not_found)?;
        let options = &record.accepted.options;
        let tools = registry()?.profile(&header.profile)?.of_turn(options.tools());
        let arguments = match arguments {
            None => call.arguments,
            Some(mut edited) => {
                tools.canonicalize(&call.name, &mut edited);
                if let Some(problem) = tools.problem(&call.name, &edited) {
                    return Ok(ToolCallPreview::of_refused_arguments(problem));
                }
                edited
            }
        };
        let Some(ToolKind::Write(tool)) = tools.get(&call.name).map(|tool| &tool.kind) else {
            return Ok(ToolCallPreview::without_effect(CallEffect::Unknown, None));
        };
        let subject = options.subject(&header.documents);
        let call = CallContext {
            resources: context.preview_resources(),
            // A turn acts as its requester, at most with the role of a member.
            principal: Principal::new(org.clone(), record.accepted.user.clone(), Role::Member),
            call: call_id,
            epoch: header.epoch,
            scope: DocumentScope::of_turn(subject.as_ref(), &record.accepted.mentions),
            subject,
            documents: header.documents,
            working: record.working.clone(),
            model: options.model.clone(),
            budget_part: None,
            is_preview: true,
        };
        match tool.preview(&call, &arguments).await {
            Ok(Some(preview)) => with_affected(context, preview).await,
            Ok(None) => Ok(ToolCallPreview::without_effect(CallEffect::Unknown, None)),
            Err(ToolError::Failed(error)) => Err(error),
            Err(problem) => Ok(ToolCallPreview::without_effect(CallEffect::Unknown, Some(problem.to_string()))),
        }
    }
}

async fn with_affected(context: &Context, preview: Preview) -> Result<ToolCallPreview> {
    let (changes, change_count) = preview.changes();
    let name = [&preview.after, &preview.before].into_iter().flatten().find_map(name_of).unwrap_or_default();
    let (prompts, documents) = affected(context, &preview).await?;
    let effect = effect(&preview, change_count);
    Ok(ToolCallPreview {
        effect,
        target: Some(preview.target),
        name,
        changes,
        change_count,
        prompts,
        documents,
        problem: None,
        is_refused: false,
    })
}

fn effect(preview: &Preview, change_count: usize) -> CallEffect {
    match (&preview.before, &preview.after) {
        (None, _) => CallEffect::Creates,
        (Some(_), None) => CallEffect::Deletes,
        (Some(_), Some(_)) if change_count == 0 => CallEffect::Nothing,
        (Some(_), Some(_)) => CallEffect::Updates,
    }
}

fn name_of(state: &Value) -> Option<String> {
    let name = state.pointer("/latest/name").or_else(|| state.get("name"))?;
    name.as_str().map(str::to_owned)
}

/// Returns the prompts and the documents that a call affects: the prompts with the schema or the tag, the documents with the
/// tag, those on which the prompt runs by its tags, and the changed document. A list is empty if the token of the caller lacks
/// its scope.
async fn affected(context: &Context, preview: &Preview) -> Result<(Affected, Affected)> {
    let (prompts, documents) = (context.caller.covers(Scope::Definitions), context.caller.covers(Scope::Documents));
    let (kind, id) = (preview.target.kind(), preview.target.id());
    let none = Affected::default;
    Ok(match kind {
        Schema::KIND if prompts && preview.before.is_some() => {
            let filter = PromptFilter { schema: Some(id.parse()?), ..PromptFilter::default() };
            (list::<Prompt>(context, &filter).await?, none())
        }
        Tag::KIND if preview.before.is_some() => {
            let tags: Vec<TagId> = vec![id.parse()?];
            let by_tag = PromptFilter { any_tag: tags.clone(), ..PromptFilter::default() };
            let with_tag = DocumentFilter { all_tags: tags, ..DocumentFilter::default() };
            (
                if prompts { list::<Prompt>(context, &by_tag).await? } else { none() },
                if documents { list::<Document>(context, &with_tag).await? } else { none() },
            )
        }
        Prompt::KIND if documents => {
            let prompt: Prompt = resource(preview)?;
            (none(), documents_of(context, &prompt.latest.tags).await?)
        }
        Document::KIND if documents => {
            let document: Document = resource(preview)?;
            (none(), one(AffectedResource { id: document.id.to_string(), name: document.name }))
        }
        Extraction::KIND if documents => {
            let extraction: Extraction = resource(preview)?;
            let store = context.stores().of::<Document>();
            let document = store.get(&context.principal().org, &extraction.document).await?;
            let found = document.map(|found| AffectedResource { id: found.id.to_string(), name: found.name });
            (none(), found.map(one).unwrap_or_default())
        }
        _ => (none(), none()),
    })
}

/// Returns the resource after the call, or the deleted one.
fn resource<R: Resource>(preview: &Preview) -> Result<R> {
    let state = preview.after.as_ref().or(preview.before.as_ref()).cloned().unwrap_or_default();
    serde_json::from_value(state)
        .map_err(|error| Error::internal(format!("the state of a {} in a preview is malformed: {error}", R::KIND)))
}

fn one(found: AffectedResource) -> Affected {
    Affected { items: vec![found], count: 1, has_more: false }
}

async fn list<R: Resource>(context: &Context, filter: &R::Filter) -> Result<Affected> {
    let page = PageRequest { size: AFFECTED_MAX, ..PageRequest::default() };
    let page = context.stores().of::<R>().list(&context.principal().org, filter, &page).await?;
    let item = |found: &R| AffectedResource { id: found.id().to_string(), name: found.label().to_owned() };
    let items: Vec<_> = page.items.iter().map(item).collect();
    let has_more = page.next.is_some() && page.total <= items.len() as u64;
    Ok(Affected { count: page.total.max(items.len() as u64), items, has_more })
}

async fn documents_of(context: &Context, tags: &[TagId]) -> Result<Affected> {
    let max = usize::try_from(AFFECTED_MAX).unwrap_or(usize::MAX);
    let (selected, has_more) = with_any_tag(context, tags, max).await?;
    let ids: Vec<_> = selected.into_iter().map(|document| document.id).collect();
    let found = context.stores().of::<Document>().get_many(&context.principal().org, &ids).await?;
    let item = |found: Document| AffectedResource { id: found.id.to_string(), name: found.name };
    let items: Vec<_> = found.into_iter().map(item).collect();
    Ok(Affected { count: items.len() as u64, items, has_more })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn preview(before: Option<Value>, after: Option<Value>) -> Preview {
        Preview { target: Target::new("tag", "tag_1"), before, after }
    }

    #[test]
    fn the_effect_follows_from_the_states_and_their_differences() {
        let state = || Some(json!({ "name": "a" }));
        for (before, after, count, expected) in [
            (None, state(), 1, CallEffect::Creates),
            (state(), state(), 2, CallEffect::Updates),
            (state(), state(), 0, CallEffect::Nothing),
            (state(), None, 1, CallEffect::Deletes),
        ] {
            assert_eq!(effect(&preview(before, after), count), expected);
        }
    }

    #[test]
    fn the_name_of_a_resource_with_revisions_is_that_of_its_newest_one() {
        assert_eq!(name_of(&json!({ "latest": { "name": "new" }, "name": "x" })), Some("new".to_owned()));
        assert_eq!(name_of(&json!({ "name": "tag" })), Some("tag".to_owned()));
        assert_eq!(name_of(&json!({ "id": "ext_1" })), None);
    }
}
