//! The registry of tools, with compiled argument schemas, and of the profiles that offer them.

mod graph;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_history::journal::{Access, AnswerType, TurnNode, TurnProfile};
use folio_llm::schema::{Validator, describe, is_deeper_than};
use folio_llm::{ToolDefinition, Tools};
use folio_types::profile::{Profile, ProfileAnswer, ProfileTool, Sending, Subject, SubjectKind};
use folio_types::{Error, Reason, Result, limits};
use serde_json::{Map, Value};

use crate::rules::excerpt;
use crate::tool::{Tool, ToolSpec};
use crate::{
    arguments, auto_create, calculator, dictionary, documents, extraction, find_tools, help, images, ingestion, links,
    mcp, models, profiles, prompts, retrieval, schemas, stack, tags, tasks,
};

/// Registry of profiles and tools. Built once per process.
#[derive(Debug)]
pub struct Registry {
    profiles: BTreeMap<&'static str, Arc<ProfileTools>>,
}

pub struct ProfileTools {
    pub profile: Profile,
    answer: AnswerType,
    graph: Arc<[TurnNode]>,
    tools: Vec<Entry>,
    /// The tools of the first request of a turn in a thread without earlier work.
    definitions: Tools,
    /// As `definitions`, in a thread with earlier work.
    definitions_with_work: Tools,
    recorded: RecordedNames,
}

/// The names of tools that the acceptance of a turn records ([`TurnProfile`]).
struct RecordedNames {
    all: Arc<[String]>,
    waiting: Arc<[String]>,
    need_rule: Arc<[String]>,
}

impl RecordedNames {
    fn of(profile: &Profile) -> Self {
        let names = |is_named: fn(&ProfileTool) -> bool| {
            profile.tools.iter().filter(|tool| is_named(tool)).map(|tool| tool.name.to_owned()).collect()
        };
        Self { all: names(|_| true), waiting: names(|tool| tool.waits), need_rule: names(|tool| tool.needs_rule) }
    }
}

impl std::fmt::Debug for ProfileTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfileTools").field("profile", &self.profile.name).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Entry {
    tool: Tool,
    arguments: Arc<Validator>,
}

impl Entry {
    fn new(tool: Tool) -> Result<Self> {
        let arguments = Validator::compile(&tool.spec.parameters).map_err(|violations| {
            Error::internal(format!("invalid argument schema of tool {}: {}", tool.spec.name, describe(&violations)))
        })?;
        Ok(Self { tool, arguments: Arc::new(arguments) })
    }
}

/// A tool call of a model after lookup and validation.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedCall {
    /// Arguments in canonical spelling. An empty object if the model did not send a JSON object.
    pub arguments: Value,
    /// Access of the tool. `ReadOnly` for an unknown tool.
    pub access: Access,
    /// Message for the model if the call cannot run. None if the call is valid.
    pub problem: Option<String>,
    /// Descriptions of the repairs of the arguments, for the model.
    pub repairs: Vec<String>,
}

impl Registry {
    /// Creates the registry with all tools and profiles, and the default settings.
    ///
    /// # Errors
    /// Those of [`Self::configured`].
    pub fn standard() -> Result<Arc<Self>> {
        Self::configured(&auto_create::Options::default())
    }

    /// Creates the registry with all tools and profiles. An error is a bug: an invalid argument schema, or a profile
    /// with an unknown tool.
    pub fn configured(options: &auto_create::Options) -> Result<Arc<Self>> {
        let groups = [
            documents::tools(),
            retrieval::tools(),
            calculator::tools(),
            extraction::tools(),
            schemas::tools(),
            prompts::tools(),
            tags::tools(),
            dictionary::tools(),
            stack::tools(),
            help::tools(),
            vec![links::tool()],
            images::tools(),
            models::tools(),
            mcp::tools(),
            ingestion::tools(),
        ];
        Self::new(groups.into_iter().flatten(), profiles::all(options))
    }

    /// Creates a registry of these tools and profiles. Fails if an argument schema is invalid, or a profile has an
    /// unknown tool, a tool that waits and only reads, or a value out of its bounds.
    pub fn new(tools: impl IntoIterator<Item = Tool>, profiles: Vec<Profile>) -> Result<Arc<Self>> {
        let mut entries = BTreeMap::new();
        for tool in tools {
            entries.insert(tool.spec.name, Entry::new(tool)?);
        }
        let profiles = profiles.into_iter().map(|profile| {
            let tools = ProfileTools::build(profile, &entries)?;
            Ok((tools.profile.name, Arc::new(tools)))
        });
        let registry = Self { profiles: profiles.collect::<Result<_>>()? };
        registry.profiles.values().try_for_each(|profile| registry.check_delegates(&profile.profile))?;
        Ok(Arc::new(registry))
    }

    /// Fails unless exactly the profiles that may delegate have the tool for it, and each of their delegates exists.
    fn check_delegates(&self, profile: &Profile) -> Result<()> {
        let Profile { name, delegates, .. } = profile;
        if let Some(unknown) = delegates.iter().find(|delegate| !self.profiles.contains_key(*delegate)) {
            return Err(Error::internal(format!("profile {name} delegates to the unknown profile {unknown}")));
        }
        if profile.tool(tasks::RUN_TASKS).is_some() == delegates.is_empty() {
            return Err(Error::internal(format!("profile {name} must have both run_tasks and delegates, or neither")));
        }
        Ok(())
    }

    /// Returns a profile, or the error `UNKNOWN_PROFILE`.
    pub fn profile(&self, name: &str) -> Result<Arc<ProfileTools>> {
        self.profiles.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.profiles.keys().copied().collect();
            let message = format!("unknown profile {:?}; available: {}", excerpt(name), known.join(", "));
            Error::invalid_field("profile", message).with_reason(Reason::UnknownProfile)
        })
    }

    /// Returns every profile in the order of their names.
    pub fn profiles(&self) -> impl Iterator<Item = &Arc<ProfileTools>> {
        self.profiles.values()
    }
}

impl ProfileTools {
    fn build(profile: Profile, all: &BTreeMap<&'static str, Entry>) -> Result<Self> {
        let entry = |name: &str| {
            let unknown = || Error::internal(format!("profile {} has the unknown tool {name}", profile.name));
            all.get(name).cloned().ok_or_else(unknown)
        };
        let mut tools = Vec::new();
        for tool in profile.tools {
            let entry = match tool.name {
                find_tools::NAME => Entry::new(find_tools::tool(Vec::new()))?,
                tasks::RUN_TASKS => Entry::new(tasks::tool(profile.delegates))?,
                name => match stack::replacement(profile.subject, name) {
                    Some(tool) => Entry::new(tool)?,
                    None => entry(name)?,
                },
            };
            if tool.waits && entry.tool.spec.access == Access::ReadOnly {
                let message = format!("tool {} of profile {} waits but only reads", tool.name, profile.name);
                return Err(Error::internal(message));
            }
            tools.push(entry);
        }
        check_bounds(&profile)?;
        let answer = answer_type(&profile)?;
        let graph = graph::turn_nodes(&profile)?;
        Ok(Self::assemble(profile, (answer, graph), tools))
    }

    /// `tools`: tools of the profile, in its order.
    fn assemble(profile: Profile, (answer, graph): (AnswerType, Arc<[TurnNode]>), mut tools: Vec<Entry>) -> Self {
        let first = |has_work: bool| -> Tools {
            let specs = tools.iter().map(|entry| &entry.tool.spec);
            let sent = specs.filter(|spec| is_sent_first(&profile, spec.name, has_work));
            sent.map(definition).collect::<Vec<_>>().into()
        };
        let (definitions, definitions_with_work) = (first(false), first(true));
        let specs = tools.iter().map(|entry| &entry.tool.spec);
        let others: Vec<ToolSpec> = specs.filter(|spec| spec.name != find_tools::NAME).cloned().collect();
        for entry in tools.iter_mut().filter(|entry| entry.tool.spec.name == find_tools::NAME) {
            entry.tool = find_tools::tool(others.clone());
        }
        Self {
            recorded: RecordedNames::of(&profile),
            profile,
            answer,
            graph,
            tools,
            definitions,
            definitions_with_work,
        }
    }

    /// Returns the type of the answer that ends a turn.
    pub fn answer(&self) -> &AnswerType {
        &self.answer
    }

    /// Returns the nodes of the graph as a turn records them. Empty: the profile has no graph.
    pub fn graph(&self) -> &[TurnNode] {
        &self.graph
    }

    /// Returns the values of the profile that the acceptance of a turn records.
    pub fn turn_profile(&self, subject: Subject) -> TurnProfile {
        let Profile { name, version, limits, .. } = &self.profile;
        let RecordedNames { all, waiting, need_rule } = &self.recorded;
        TurnProfile {
            name: (*name).to_owned(),
            version: *version,
            tools: Arc::clone(all),
            waiting_tools: Arc::clone(waiting),
            policy_tools: Arc::clone(need_rule),
            subject,
            running_seconds: limits.running_time.map(|limit| limit.as_secs()),
            credit_budget: limits.credit_budget,
            answer: self.answer.clone(),
            graph: Arc::clone(&self.graph),
        }
    }

    /// Returns the profile with the tools of a turn: those that its acceptance names, as far as this binary has them. None:
    /// every tool.
    #[must_use]
    pub fn of_turn(self: &Arc<Self>, names: Option<&[String]>) -> Arc<Self> {
        let is_named = |entry: &&Entry| names.is_none_or(|names| names.iter().any(|name| name == entry.tool.spec.name));
        // Most turns have the names that this binary records, which takes one comparison for each name.
        if names.is_none_or(|names| *names == *self.recorded.all) || self.tools.iter().all(|entry| is_named(&entry)) {
            return Arc::clone(self);
        }
        let tools = self.tools.iter().filter(is_named).cloned().collect();
        let answers = (self.answer.clone(), Arc::clone(&self.graph));
        Arc::new(Self::assemble(self.profile.clone(), answers, tools))
    }

    /// Returns the tools as they are sent to a model: first those of every request of the turn, in the profile's order, so
    /// that the start of each request is equal. `has_work`: the thread had a schema, a prompt or an extraction at the start
    /// of the turn. `calls`: the calls of the turn so far, as names and arguments, in order. The tools that they found or
    /// called follow, in the order of the calls.
    pub fn definitions<'a>(&self, has_work: bool, calls: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Tools {
        let first = if has_work { &self.definitions_with_work } else { &self.definitions };
        let mut enabled: Vec<&ToolSpec> = Vec::new();
        for (name, arguments) in calls {
            let requested = match name {
                find_tools::NAME => find_tools::find(self.others(), arguments),
                name => self.others().filter(|spec| spec.name == name).collect(),
            };
            for spec in requested {
                if !is_sent_first(&self.profile, spec.name, has_work) && !enabled.contains(&spec) {
                    enabled.push(spec);
                }
            }
        }
        if enabled.is_empty() {
            return first.clone();
        }
        first.iter().cloned().chain(enabled.into_iter().map(definition)).collect::<Vec<_>>().into()
    }

    /// Returns the descriptions of the tools that `find_tools` finds, in the profile's order: all except itself.
    pub(crate) fn others(&self) -> impl Iterator<Item = &ToolSpec> + Clone {
        self.tools.iter().map(|entry| &entry.tool.spec).filter(|spec| spec.name != find_tools::NAME)
    }

    /// Returns the descriptions of the tools, in the profile's order.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|entry| &entry.tool.spec)
    }

    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.entry(name).map(|entry| &entry.tool)
    }

    /// Checks that every name is a tool of the profile. Fails with `UNKNOWN_TOOL` and the index in `field`.
    pub fn check_names(&self, field: &str, names: &[String]) -> Result<()> {
        let mut indexed = names.iter().enumerate();
        let unknown = indexed.find_map(|(index, name)| self.find(name).err().map(|error| (index, error)));
        match unknown {
            None => Ok(()),
            Some((index, error)) => {
                Err(Error::invalid_field(format!("{field}[{index}]"), error.message).with_reason(error.reason))
            }
        }
    }

    /// Returns a tool of the profile, or the error `UNKNOWN_TOOL`.
    pub fn find(&self, name: &str) -> Result<&Tool> {
        self.get(name).ok_or_else(|| {
            let message = format!("profile {} has no tool {:?}", self.profile.name, excerpt(name));
            Error::invalid(Reason::UnknownTool, message)
        })
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.tools.iter().find(|entry| entry.tool.spec.name == name)
    }

    /// Converts a call's arguments to the canonical spelling, which the policy evaluates and which is stored.
    pub fn canonicalize(&self, name: &str, arguments: &mut Value) {
        if let Some(tool) = self.get(name) {
            tool.spellings.canonicalize(arguments);
        }
    }

    /// Validates a call's arguments. Returns a message for the model or the user, None if the arguments are valid.
    pub fn problem(&self, name: &str, arguments: &Value) -> Option<String> {
        let Some(entry) = self.entry(name) else { return Some(self.unknown(name)) };
        if !arguments.is_object() {
            return Some("The arguments must be a JSON object.".to_owned());
        }
        let bytes = arguments.to_string().len();
        if bytes > limits::ARGUMENTS_BYTES {
            return Some(format!("The arguments have {bytes} bytes; the maximum is {}.", limits::ARGUMENTS_BYTES));
        }
        let violations = entry.arguments.check(arguments);
        (!violations.is_empty())
            .then(|| format!("The arguments do not match the schema of {name}:\n{}", describe(&violations)))
    }

    /// Repairs near misses in a call's arguments. Returns a description of each kind of repair. A repair that nests deeper
    /// than [`JSON_DEPTH`](folio_types::limits::JSON_DEPTH) is discarded, because stored JSON is bounded in depth.
    fn repair(&self, name: &str, arguments: &mut Value) -> Vec<String> {
        let Some(tool) = self.get(name) else { return Vec::new() };
        let mut repaired = arguments.clone();
        let repairs = tool.spellings.repair(&mut repaired);
        if repairs.is_empty() || is_deeper_than(&repaired, limits::JSON_DEPTH) {
            return Vec::new();
        }
        *arguments = repaired;
        repairs
    }

    /// Repairs and validates a tool call from a model. `name` and `arguments` are untrusted.
    pub fn check(&self, name: &str, arguments: &str) -> CheckedCall {
        let access = self.get(name).map_or(Access::ReadOnly, |tool| tool.spec.access);
        match arguments::parse_text(arguments) {
            Ok(mut arguments) => {
                let mut repairs = self.repair(name, &mut arguments);
                self.canonicalize(name, &mut arguments);
                repairs.extend(self.repair_references(&mut arguments));
                let problem = self.problem(name, &arguments);
                CheckedCall { arguments, access, problem, repairs }
            }
            Err(problem) => {
                let problem = if self.get(name).is_none() { self.unknown(name) } else { problem };
                let arguments = Value::Object(Map::new());
                CheckedCall { arguments, access, problem: Some(problem), repairs: Vec::new() }
            }
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.specs().map(|spec| spec.name).collect();
        format!("Unknown tool {:?}. Available tools: {}.", excerpt(name), known.join(", "))
    }
}

/// Returns true if every request of a turn contains the tool. `has_work`: as in [`ProfileTools::definitions`].
fn is_sent_first(profile: &Profile, name: &str, has_work: bool) -> bool {
    profile.tool(name).is_some_and(|tool| match tool.sending {
        Sending::Always => true,
        Sending::WithWork => has_work,
        Sending::OnRequest => false,
    })
}

fn answer_type(profile: &Profile) -> Result<AnswerType> {
    let ProfileAnswer::Json(text) = profile.answer else { return Ok(AnswerType::Text) };
    let invalid =
        |problem: String| Error::internal(format!("invalid answer schema of profile {}: {problem}", profile.name));
    compiled_schema(text, &invalid).map(|schema| AnswerType::Json { schema })
}

/// Reads the schema of an answer.
fn compiled_schema(text: &str, invalid: &dyn Fn(String) -> Error) -> Result<Value> {
    if text.len() > limits::ANSWER_SCHEMA_BYTES {
        return Err(invalid(format!("it has {} bytes", text.len())));
    }
    let schema = folio_types::json::read(text).map_err(|error| invalid(error.to_string()))?;
    Validator::compile(&schema).map_err(|violations| invalid(describe(&violations)))?;
    Ok(schema)
}

fn check_bounds(profile: &Profile) -> Result<()> {
    let (documents, model_calls) = (profile.documents, profile.limits.model_calls);
    let problem = if documents.min > documents.max || documents.max > limits::DOCUMENTS_PER_THREAD {
        "number of documents"
    } else if profile.subject == SubjectKind::Document && documents.min == 0 {
        "number of documents for its subject"
    } else if model_calls == 0 || model_calls > limits::ROUNDS_MAX {
        "maximum of model calls"
    } else if profile.limits.running_time.is_some_and(|time| time < Duration::from_secs(1) || time > limits::DAY) {
        "running time"
    } else {
        return Ok(());
    };
    Err(Error::internal(format!("profile {} has an invalid {problem}", profile.name)))
}

/// Converts a description to the form that is sent to models. Members that repeat a default of JSON Schema or that only
/// serve the validation are omitted, because each request contains every tool.
fn definition(spec: &ToolSpec) -> ToolDefinition {
    let mut parameters = spec.parameters.clone();
    if let Some(members) = parameters.as_object_mut() {
        members.shift_remove("additionalProperties");
        if members.get("required").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            members.shift_remove("required");
        }
    }
    let properties = parameters.get_mut("properties").and_then(Value::as_object_mut);
    for kind in properties.into_iter().flat_map(Map::values_mut).filter_map(|property| property.get_mut("type")) {
        // The first type is the canonical one.
        if let Some(canonical) = kind.get(0).cloned() {
            *kind = canonical;
        }
    }
    ToolDefinition { name: spec.name.to_owned(), description: spec.description.to_owned(), parameters }
}

#[cfg(test)]
mod tests;
