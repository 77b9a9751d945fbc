//! Sample resources: the values and the filters of each kind that the suites use. A new kind adds one [`Sample`] and its
//! name in [`SAMPLES`].

mod dictionary;
mod stacks;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use folio_resources::{
    AllowedMcpTool, Collection, CollectionChange, CollectionFilter, CollectionRule, DictionaryEntry,
    DictionaryQuestion, Document, DocumentChange, DocumentFilter, DocumentPatch, Extraction, ExtractionChange,
    ExtractionFilter, Kind, McpServer, McpServerChange, McpServerFilter, McpToolText, ModelDefaults, ModelSettings,
    ModelSettingsChange, ModelSettingsId, NewPrompt, NewProposal, NewToken, Organization, OrganizationChange,
    OrganizationFilter, PasswordHash, Prompt, PromptChange, PromptFilter, PromptUpdate, Proposal, ProposalChange,
    ProposalFilter, ProposalOutcome, ProposalState, ProposedResources, Resource, ResourceWrite, Schema, SchemaChange,
    SchemaFilter, Stack, StackRow, Tag, TagChange, TagFilter, TagRunsPatch, TokenChange, TokenFilter, TokenRecord,
    User, UserChange, UserFilter, WebhookEndpoint, WebhookEndpointChange, WebhookEndpointFilter,
};
use folio_types::op::Write;
use folio_types::token::Token;
use folio_types::{
    DocumentId, ExtractionId, OrgId, PromptId, PromptRevId, Result, Role, SchemaId, SchemaRevId, System, TagId, UserId,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::Outcome;
use super::context::{create_document, create_extraction, part_of};
use super::resources::{Run, list, lists, read};

/// The values of a sample. A kind ignores the values for which it has no field.
#[derive(Debug, Clone)]
pub(crate) struct Seed {
    /// The name; in a filter: the searched text.
    pub(crate) name: String,
    /// The value of all other fields.
    pub(crate) content: u64,
    /// Ids of resources of any kind. A sample refers to those that its kind can refer to, and belongs to the first that
    /// can be its parent.
    pub(crate) links: Vec<String>,
    /// The number of the revisions that it refers to.
    pub(crate) revision: u32,
}

impl Seed {
    /// Returns a seed with this name and no links.
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), content: 1, links: Vec::new(), revision: 1 }
    }

    pub(crate) fn linked(self, links: &[String]) -> Self {
        Self { links: links.to_vec(), ..self }
    }

    pub(crate) fn with(self, content: u64) -> Self {
        Self { content, ..self }
    }

    /// Returns the links to one kind.
    fn all<I: FromStr>(&self) -> Vec<I> {
        self.links.iter().filter_map(|id| id.parse().ok()).collect()
    }

    fn schema(&self) -> Option<SchemaRevId> {
        let schema = self.all::<SchemaId>().into_iter().next();
        schema.map(|schema| SchemaRevId::new(schema, self.revision))
    }

    fn prompt(&self) -> PromptRevId {
        let prompt = self.all::<PromptId>().into_iter().next();
        PromptRevId::new(prompt.unwrap_or_else(|| PromptId::derive(&["missing"])), self.revision)
    }

    fn document(&self) -> DocumentId {
        let document = self.all::<DocumentId>().into_iter().next();
        document.unwrap_or_else(|| DocumentId::derive(&["missing"]))
    }

    /// Returns the document that a part is from. It differs for different first links.
    fn whole(&self) -> DocumentId {
        DocumentId::derive(&["whole", self.links.first().map_or("", String::as_str)])
    }

    /// Returns metadata whose value a search in another case finds.
    fn metadata(&self, city: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("city".to_owned(), format!("{city} {}", self.content))])
    }

    /// Returns JSON whose members and numbers a store must keep as they are.
    fn data(&self) -> Value {
        json!({"zeta": self.content, "alpha": [31.245270191439438, null, "ü"]})
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(Seed),
    Update(Seed),
    Delete,
}

/// A kind with sample values for the suites.
pub(crate) trait Sample: Resource {
    /// True if a resource of the kind never changes before its deletion. Every update is refused with `NOT_FOUND`.
    const IS_IMMUTABLE: bool = false;

    /// Returns the id of a sample. Always the same if an organization has one resource of the kind.
    fn sample_id(parts: &[&str]) -> Self::Id {
        Self::derive_id(parts)
    }

    fn create(seed: &Seed) -> Self::Change;

    /// Returns the change that gives a resource the values of the seed.
    fn update(seed: &Seed) -> Self::Change;

    /// Returns the filters of its lists. The first has no condition except that on the parent.
    fn filters(seed: &Seed) -> Vec<Self::Filter>;
}

impl Sample for Tag {
    fn create(seed: &Seed) -> TagChange {
        let description = Some(seed.content.to_string());
        TagChange::Create { name: seed.name.clone(), color: Some("#ff0000".to_owned()), description }
    }

    fn update(seed: &Seed) -> TagChange {
        let description = Some(Some(seed.content.to_string()));
        TagChange::Update { name: Some(seed.name.clone()), color: Some(None), description }
    }

    fn filters(seed: &Seed) -> Vec<TagFilter> {
        let all = TagFilter::default();
        vec![
            all.clone(),
            TagFilter { name_search: Some(seed.name.clone()), ..all.clone() },
            TagFilter { name: Some(seed.name.clone()), ..all },
        ]
    }
}

impl Sample for Collection {
    fn create(seed: &Seed) -> CollectionChange {
        let rule = CollectionRule { tags: seed.all(), metadata: seed.metadata("KÖLN-Süd") };
        CollectionChange::Create { name: seed.name.clone(), description: Some(seed.content.to_string()), rule }
    }

    fn update(seed: &Seed) -> CollectionChange {
        CollectionChange::Update {
            name: Some(seed.name.clone()),
            description: Some(None),
            tags: Some(seed.all()),
            metadata: Some(seed.metadata("KÖLN-Süd")),
        }
    }

    fn filters(seed: &Seed) -> Vec<CollectionFilter> {
        let all = CollectionFilter::default();
        vec![
            all.clone(),
            CollectionFilter { name_search: Some(seed.name.clone()), ..all.clone() },
            CollectionFilter { name: Some(seed.name.clone()), ..all },
        ]
    }
}
impl Sample for Schema {
    fn create(seed: &Seed) -> SchemaChange {
        SchemaChange::Create { name: seed.name.clone(), response_format: seed.data(), strict: true }
    }

    fn update(seed: &Seed) -> SchemaChange {
        SchemaChange::Update {
            name: Some(seed.name.clone()),
            response_format: Some((seed.data(), true)),
            review_rule: None,
        }
    }

    fn filters(seed: &Seed) -> Vec<SchemaFilter> {
        let all = SchemaFilter::default();
        vec![
            all.clone(),
            SchemaFilter { name_search: Some(seed.name.clone()), ..all.clone() },
            SchemaFilter { name: Some(seed.name.clone()), ..all },
        ]
    }
}

impl Sample for Prompt {
    fn create(seed: &Seed) -> PromptChange {
        let (name, content) = (seed.name.clone(), seed.content.to_string());
        let (schema, tags) = (seed.schema(), seed.all());
        PromptChange::Create(NewPrompt { name, content, schema, tags, ..NewPrompt::default() })
    }

    fn update(seed: &Seed) -> PromptChange {
        let (name, content) = (Some(seed.name.clone()), Some(seed.content.to_string()));
        let (schema, tags) = (Some(seed.schema()), Some(seed.all()));
        PromptChange::Update(PromptUpdate { name, content, schema, tags, ..PromptUpdate::default() })
    }

    fn filters(seed: &Seed) -> Vec<PromptFilter> {
        let (all, mut any_tag) = (PromptFilter::default(), seed.all());
        any_tag.push(TagId::derive(&["missing"]));
        vec![
            all.clone(),
            PromptFilter { name_search: Some(seed.name.clone()), ..all.clone() },
            PromptFilter { name: Some(seed.name.clone()), ..all.clone() },
            PromptFilter { any_tag, ..all.clone() },
            PromptFilter { all_tags: seed.all(), ..all.clone() },
            PromptFilter { document: Some(seed.document()), ..all.clone() },
            PromptFilter { schema: seed.schema().map(|schema| schema.of), ..all },
        ]
    }
}

impl Sample for Document {
    fn create(seed: &Seed) -> DocumentChange {
        let mut created = create_document(&seed.name, &seed.all());
        if let DocumentChange::Create(new) = &mut created {
            new.metadata = seed.metadata("KÖLN-Süd");
            new.part = Some(part_of(seed.whole()));
        }
        created
    }

    fn update(seed: &Seed) -> DocumentChange {
        let (name, tags) = (Some(seed.name.clone()), Some(seed.all()));
        DocumentChange::Update(DocumentPatch { name, tags, metadata: Some(seed.metadata("KÖLN-Süd")) })
    }

    fn filters(seed: &Seed) -> Vec<DocumentFilter> {
        let all = DocumentFilter::default();
        vec![
            all.clone(),
            DocumentFilter { parent: Some(seed.whole()), ..all.clone() },
            DocumentFilter { name_search: Some(seed.name.clone()), ..all.clone() },
            DocumentFilter { all_tags: seed.all(), ..all.clone() },
            DocumentFilter { metadata: seed.metadata("süd"), ..all.clone() },
            DocumentFilter { name: Some(seed.name.clone()), ..all.clone() },
            DocumentFilter { metadata_equals: seed.metadata("KÖLN-Süd"), ..all },
        ]
    }
}

impl Sample for Extraction {
    fn create(seed: &Seed) -> ExtractionChange {
        create_extraction(&seed.document(), &seed.prompt(), seed.data())
    }

    fn update(seed: &Seed) -> ExtractionChange {
        ExtractionChange::Edit { data: seed.data() }
    }

    fn filters(seed: &Seed) -> Vec<ExtractionFilter> {
        let all = ExtractionFilter { document: Some(seed.document()), ..ExtractionFilter::default() };
        vec![all.clone(), ExtractionFilter { prompt_revision: Some(seed.prompt()), ..all }]
    }
}

impl Sample for Proposal {
    fn create(seed: &Seed) -> ProposalChange {
        let resources = ProposedResources {
            schema: seed.schema(),
            is_schema_reused: false,
            prompt: seed.prompt(),
            extraction: ExtractionId::derive(&[&seed.content.to_string()]),
            document_type: Some(seed.name.clone()),
            similar: None,
        };
        let outcome = ProposalOutcome::Proposed(resources);
        ProposalChange::Create(Box::new(NewProposal { document: seed.document(), outcome, thread: None }))
    }

    fn update(_: &Seed) -> ProposalChange {
        ProposalChange::Accept
    }

    fn filters(seed: &Seed) -> Vec<ProposalFilter> {
        let all = ProposalFilter { document: Some(seed.document()), ..ProposalFilter::default() };
        vec![
            all.clone(),
            ProposalFilter { any_prompt: vec![seed.prompt().of], ..all.clone() },
            ProposalFilter { any_prompt: vec![seed.prompt().of], any_state: vec![ProposalState::Accepted], ..all },
        ]
    }
}

impl Sample for Organization {
    fn create(seed: &Seed) -> OrganizationChange {
        OrganizationChange::Create { name: seed.name.clone() }
    }

    fn update(seed: &Seed) -> OrganizationChange {
        let thread_retention_days = Some(u32::try_from(seed.content).ok());
        OrganizationChange::Update {
            name: Some(seed.name.clone()),
            thread_retention_days,
            tag_runs: TagRunsPatch::default(),
            auto_create: None,
            ingestion: None,
        }
    }

    fn filters(seed: &Seed) -> Vec<OrganizationFilter> {
        vec![OrganizationFilter::default(), OrganizationFilter { name_search: Some(seed.name.clone()) }]
    }
}

impl Sample for ModelSettings {
    fn sample_id(_: &[&str]) -> ModelSettingsId {
        Self::fixed_id().clone()
    }

    fn create(seed: &Seed) -> ModelSettingsChange {
        let fallbacks = Some(vec![seed.content.to_string()]);
        let default_model = Some(seed.name.clone());
        ModelSettingsChange::SetDefaults(ModelDefaults { default_model, fallbacks, ..ModelDefaults::default() })
    }

    fn update(seed: &Seed) -> ModelSettingsChange {
        Self::create(seed)
    }

    fn filters(_: &Seed) -> Vec<()> {
        vec![()]
    }
}

/// Returns the user of a token: one for each first link.
fn holder(seed: &Seed) -> UserId {
    UserId::derive(&[seed.links.first().map_or("", String::as_str)])
}

impl Sample for TokenRecord {
    const IS_IMMUTABLE: bool = true;

    fn create(seed: &Seed) -> TokenChange {
        let zeros = "0".repeat(32);
        let text = format!("folio_{zeros}_{zeros}_{:064x}", seed.content);
        let token = text.parse().unwrap_or_else(|_| Token::generate(&OrgId::platform(), &System));
        TokenChange::Create(Box::new(NewToken::new(&token, holder(seed), Role::Member, &seed.name)))
    }

    fn update(seed: &Seed) -> TokenChange {
        Self::create(seed)
    }

    fn filters(seed: &Seed) -> Vec<TokenFilter> {
        let name = TokenFilter { name_search: Some(seed.name.clone()), user: None };
        vec![TokenFilter::default(), name, TokenFilter { name_search: None, user: Some(holder(seed)) }]
    }
}

impl Sample for McpServer {
    fn create(seed: &Seed) -> McpServerChange {
        let url = format!("https://example.com/{}", seed.content);
        McpServerChange::Create { name: seed.name.clone(), url, token: None, oauth: None, enabled: true }
    }

    fn update(seed: &Seed) -> McpServerChange {
        let text = McpToolText { description: seed.content.to_string(), input_schema: json!({ "type": "object" }) };
        McpServerChange::Update {
            name: Some(seed.name.clone()),
            url: Some(format!("https://example.com/{}", seed.content)),
            token: None,
            oauth: None,
            enabled: Some(false),
            tools: Some(BTreeMap::from([("tool".to_owned(), AllowedMcpTool::new(true, text))])),
        }
    }

    fn filters(seed: &Seed) -> Vec<McpServerFilter> {
        vec![McpServerFilter::default(), McpServerFilter { name_search: Some(seed.name.clone()) }]
    }
}

impl Sample for WebhookEndpoint {
    fn create(seed: &Seed) -> WebhookEndpointChange {
        let (url, event_types) = (seed.name.clone(), BTreeSet::from([format!("event.{}", seed.content)]));
        WebhookEndpointChange::Create { url, event_types, secret: None, enabled: true }
    }

    fn update(seed: &Seed) -> WebhookEndpointChange {
        let (url, event_types) = (seed.name.clone(), BTreeSet::from([format!("event.{}", seed.content)]));
        WebhookEndpointChange::Update {
            url: Some(url),
            event_types: Some(event_types),
            secret: None,
            enabled: Some(false),
        }
    }

    fn filters(seed: &Seed) -> Vec<WebhookEndpointFilter> {
        let all = WebhookEndpointFilter::default();
        vec![
            all.clone(),
            WebhookEndpointFilter { url_search: Some(seed.name.clone()), ..all.clone() },
            WebhookEndpointFilter { event_type: Some(format!("event.{}", seed.content)), ..all },
        ]
    }
}

impl Sample for User {
    fn create(seed: &Seed) -> UserChange {
        let password = PasswordHash::new(seed.content.to_string());
        UserChange::Create { email: seed.name.clone(), name: seed.name.clone(), password, platform: false }
    }

    fn update(seed: &Seed) -> UserChange {
        let platform = Some(seed.content.is_multiple_of(2));
        UserChange::Update { email: Some(seed.name.clone()), name: Some(seed.name.clone()), platform }
    }

    fn filters(seed: &Seed) -> Vec<UserFilter> {
        vec![UserFilter::default(), UserFilter { name_search: Some(seed.name.clone()) }]
    }
}

/// The samples of every kind. A kind follows those that it refers to.
pub(crate) const SAMPLES: &[Sampled] = &[
    Sampled::of::<Tag>(),
    Sampled::of::<Schema>(),
    Sampled::of::<Document>(),
    Sampled::of::<Prompt>(),
    Sampled::of::<Extraction>(),
    Sampled::of::<Proposal>(),
    Sampled::of::<WebhookEndpoint>(),
    Sampled::of::<McpServer>(),
    Sampled::of::<DictionaryEntry>(),
    Sampled::of::<DictionaryQuestion>(),
    Sampled::of::<Collection>(),
    Sampled::of::<Stack>(),
    Sampled::of::<StackRow>(),
    Sampled::of::<Organization>(),
    Sampled::of::<ModelSettings>(),
    Sampled::of::<TokenRecord>(),
    Sampled::of::<User>(),
];

/// The samples of a kind, without its type.
pub(crate) struct Sampled {
    pub(crate) kind: &'static Kind,
    /// See [`Sample::IS_IMMUTABLE`].
    pub(crate) is_immutable: bool,
    /// Returns the id that follows from the parts.
    pub(crate) id: fn(&[&str]) -> String,
    pub(crate) write: fn(&str, Write<Step>) -> Result<ResourceWrite>,
    /// Compares a resource, as it is read.
    pub(crate) read: for<'a> fn(&'a Run, &'a str) -> BoxFuture<'a, Outcome>,
    /// Compares a page of each list with a filter of a seed.
    pub(crate) list: for<'a> fn(&'a Run, &'a Seed) -> BoxFuture<'a, Outcome>,
    /// Compares the lists with the filters of these seeds, page by page.
    pub(crate) lists: for<'a> fn(&'a Run, &'a [Seed]) -> BoxFuture<'a, Outcome>,
}

impl Sampled {
    const fn of<R: Sample>() -> Self {
        Self {
            kind: Kind::get::<R>(),
            is_immutable: R::IS_IMMUTABLE,
            id: |parts| R::sample_id(parts).to_string(),
            write: |id, write| {
                let change = match &write.change {
                    Step::Create(seed) => R::create(seed),
                    Step::Update(seed) => R::update(seed),
                    Step::Delete => R::DELETE,
                };
                let Write { org, op, digest, by, at, expected, .. } = write;
                let id: R::Id = id.parse()?;
                Ok(ResourceWrite::new::<R>(&id, Write { org, op, digest, by, at, expected, change }))
            },
            read: |run, id| Box::pin(read::<R>(run, id)),
            list: |run, seed| Box::pin(list::<R>(run, seed)),
            lists: |run, seeds| Box::pin(lists::<R>(run, seeds)),
        }
    }

    /// Returns whether an organization has one resource of the kind, which is never deleted.
    pub(crate) fn is_single(&self) -> bool {
        (self.id)(&["one"]) == (self.id)(&["two"])
    }

    /// Returns the samples of the kind of an id.
    pub(crate) fn of_id(id: &str) -> Option<&'static Self> {
        SAMPLES.iter().find(|sampled| Kind::of_id(id).is_ok_and(|kind| kind == sampled.kind))
    }
}
