//! Revisions of a resource: read by page and by number, their maximum, and their removal.

use folio_history::journal::WorkingState;
use folio_history::thread::{Append, HeaderChange, OpenTurn, Phase, ThreadHeader};
use folio_resources::{
    Extraction, ExtractionChange, ExtractionReport, NewExtraction, NewProposal, Prompt, Proposal, ProposalChange,
    ProposalOutcome, ProposedResources, Resource, Schema, SchemaChange, Tag,
};
use folio_storage::Stores;
use folio_types::op::{Expected, OpKey, Write};
use folio_types::page::{Order, PageRequest};
use folio_types::{CallId, ExtractionId, ProposalId, SchemaId, SchemaRevId, ThreadId, TurnId, limits};
use serde_json::json;

use super::context::{Context, done};
use super::sample::{Sample as _, Seed};
use super::threads_append::{appended, batch};
use super::{Failure, Outcome, check, refused, same};

/// Pages of revisions, each under the name that the resource has now.
pub(crate) async fn by_page(context: &Context) -> Outcome {
    let (store, org) = (context.stores.of::<Schema>(), &context.org);
    let id = context.sample::<Schema>(&Seed::named("before")).await?;
    let update = context.write(Expected::Version(1), Schema::update(&Seed::named("after").with(2)))?;
    done(store.decide(&id, update).await?)?;
    let revid = |number| SchemaRevId::new(id.clone(), number);
    for (order, expected) in [(Order::Newest, [2, 1]), (Order::Oldest, [1, 2])] {
        let (mut seen, mut page) = (Vec::new(), PageRequest { size: 1, order, ..PageRequest::default() });
        loop {
            let part = store.list_revisions(org, &id, &page).await?;
            same!(part.total, 2, "the number of revisions");
            check!(part.items.iter().all(|revision| revision.name == "after"), "a revision under an old name");
            seen.extend(part.items.into_iter().map(|revision| revision.revid.version));
            let Some(token) = part.next else { break };
            page.token = Some(token);
        }
        same!(seen, expected, "the revisions by {order:?}");
    }
    same!(store.revision(&context.other(), &revid(1)).await?, None, "a revision in another organization");
    let both = store.revisions(org, &[revid(2), revid(9), revid(1)]).await?;
    let both: Vec<_> = both.into_iter().map(|found| found.revid.version).collect();
    same!(both, [2, 1], "several revisions in the requested order");
    done(store.decide(&id, context.write(Expected::Version(2), Schema::DELETE)?).await?)?;
    same!(store.revision(org, &revid(2)).await?, None, "a revision of a deleted schema");
    same!(store.list_revisions(org, &id, &PageRequest::default()).await?.total, 0, "the revisions of a deleted schema");
    Ok(())
}

/// The references of an older revision count until the deletion of its resource, even if the clean-up has removed the
/// revision.
pub(crate) async fn references(context: &Context) -> Outcome {
    let (org, prompts) = (&context.org, context.stores.of::<Prompt>());
    let (old, new) = (context.tag("of an old revision").await?, context.tag("of a new revision").await?);
    let prompt = context.prompt("with many revisions", None, std::slice::from_ref(&old)).await?.of;
    for content in 1..=40 {
        let links = if content < 30 { vec![old.to_string()] } else { vec![new.to_string()] };
        let change = Prompt::update(&Seed::named("with many revisions").linked(&links).with(content + 1));
        done(prompts.decide(&prompt, context.write(Expected::Version(content), change)?).await?)?;
    }
    let delete_tag = async |id| {
        let write = context.write(Expected::Version(1), Tag::DELETE)?;
        Ok::<_, Failure>(context.stores.of::<Tag>().decide(id, write).await)
    };
    for tag in [&old, &new] {
        refused!(delete_tag(tag).await?, InUse, "the deletion of a tag of a revision");
    }
    done(prompts.decide(&prompt, context.write(Expected::Version(41), Prompt::DELETE)?).await?)?;
    done(delete_tag(&old).await??)?;
    prompts.clean_deleted(org, &prompt, true).await?;
    same!(
        context.stores.resources.revision_numbers(org, prompt.as_str()).await?,
        Vec::<u32>::new(),
        "the revisions after clean-up"
    );
    done(delete_tag(&new).await??).map(|_| ())
}

/// A schema with the maximum of revisions.
struct FullSchema {
    context: Context,
    id: SchemaId,
    /// Number of the newest revision, which is also the version of the schema.
    newest: u32,
}

/// Creates a schema with more than the maximum of revisions. Each further revision removes the oldest that nothing names.
pub async fn bounded_revisions(stores: Stores, nonce: &str) -> Outcome {
    let context = Context::new(stores, "bounded-revisions", nonce);
    let id = context.sample::<Schema>(&Seed::named("bounded")).await?;
    let max = u32::try_from(limits::REVISIONS_MAX).unwrap_or(u32::MAX);
    let mut schema = FullSchema { context, id, newest: 1 };
    let prompt = schema.context.prompt("names the first", Some(&schema.revid(1)), &[]).await?;
    schema.revise().await?;
    let thread = schema.thread_with(2).await?;
    schema.revise().await?;
    let extraction = schema.extraction_with(3).await??;
    while schema.newest < max {
        schema.revise().await?;
    }
    schema.assert_missing(&[max + 1]).await?;
    schema.revise().await?;
    schema.assert_missing(&[4]).await?;
    schema.assert_total().await?;
    schema.refuses_names(4).await?;
    let waiting = schema.open_turn(5).await?;
    schema.revise().await?;
    schema.assert_missing(&[4, 6]).await?;

    let prompts = schema.context.stores.of::<Prompt>();
    done(prompts.decide(&prompt.of, schema.context.write(Expected::Version(1), Prompt::DELETE)?).await?)?;
    schema.revise().await?;
    schema.assert_missing(&[1, 4, 6]).await?;
    let working = WorkingState { schema_revid: Some(schema.revid(schema.newest)), ..WorkingState::default() };
    schema.change_thread(thread, HeaderChange { working: Some(working), ..HeaderChange::default() }).await?;
    schema.revise().await?;
    schema.assert_missing(&[1, 2, 4, 6]).await?;
    let extractions = schema.context.stores.of::<Extraction>();
    done(extractions.decide(&extraction, schema.context.write(Expected::Version(1), Extraction::DELETE)?).await?)?;
    schema.revise().await?;
    schema.assert_missing(&[1, 2, 3, 4, 6]).await?;
    schema.change_thread(waiting, HeaderChange { open_turn: Some(None), ..HeaderChange::default() }).await?;
    schema.revise().await?;
    schema.assert_missing(&[1, 2, 3, 4, 5, 6]).await?;
    schema.assert_total().await?;
    schema.refuses_if_all_are_named().await?;
    schema.assert_total().await?;
    schema.deleted().await
}

impl FullSchema {
    fn revid(&self, number: u32) -> SchemaRevId {
        SchemaRevId::new(self.id.clone(), number)
    }

    fn revision(&self) -> Result<Write<SchemaChange>, Failure> {
        let change = Schema::update(&Seed::named("bounded").with(u64::from(self.newest) + 1));
        self.context.write(Expected::Version(u64::from(self.newest)), change)
    }

    async fn revise(&mut self) -> Outcome {
        done(self.context.stores.of::<Schema>().decide(&self.id, self.revision()?).await?)?;
        self.newest += 1;
        Ok(())
    }

    /// Creates a thread whose call changes nothing, and whose working state names the newest revision from then on.
    async fn thread_with(&self, number: u32) -> Result<ThreadHeader, Failure> {
        same!(number, self.newest, "the newest revision");
        let thread = self.context.stores.threads.create(self.context.new_thread(&[])).await?;
        let op = OpKey::Call(CallId::new(TurnId::new(thread.id.clone(), 1), 1, 1));
        let change = Schema::update(&Seed::named("bounded").with(u64::from(number)));
        let write = Write { op, ..self.context.write(Expected::Version(u64::from(number)), change)? };
        done(self.context.stores.of::<Schema>().decide(&self.id, write).await?)?;
        let working = WorkingState { schema_revid: Some(self.revid(number)), ..WorkingState::default() };
        self.change_thread(thread, HeaderChange { working: Some(working), ..HeaderChange::default() }).await
    }

    /// Creates a thread with an open turn, whose waiting call names a revision.
    async fn open_turn(&self, number: u32) -> Result<ThreadHeader, Failure> {
        let thread = self.context.stores.threads.create(self.context.new_thread(&[])).await?;
        let open = OpenTurn { number: 1, phase: Phase::Paused, expires_at: None };
        let change = HeaderChange { open_turn: Some(Some(open)), ..HeaderChange::default() };
        let thread = self.change_thread(thread, change).await?;
        self.name(number, &thread.id).await?;
        Ok(thread)
    }

    async fn name(&self, number: u32, thread: &ThreadId) -> folio_types::Result<()> {
        self.context
            .stores
            .of::<Schema>()
            .name_revision(&self.context.org, &self.revid(number), &TurnId::new(thread.clone(), 1))
            .await
    }

    async fn change_thread(&self, thread: ThreadHeader, change: HeaderChange) -> Result<ThreadHeader, Failure> {
        let append = Append { change, ..batch(&self.context, thread.fence(), Vec::new()) };
        appended(self.context.stores.threads.append(&self.context.org, &thread.id, append).await?)
    }

    /// Creates an extraction with a schema revision.
    async fn extraction_with(&self, number: u32) -> Result<folio_types::Result<ExtractionId>, Failure> {
        let context = &self.context;
        let name = format!("of extraction {}", context.fresh());
        let new = NewExtraction {
            document: context.document("read").await?,
            prompt: context.prompt(&name, None, &[]).await?,
            schema: Some(self.revid(number)),
            model: "model".to_owned(),
            data: json!({}),
            report: ExtractionReport::default(),
            approvals: None,
        };
        let id = context.extraction_id();
        let write = context.write(Expected::Absent, ExtractionChange::Create(Box::new(new)))?;
        match context.stores.of::<Extraction>().decide(&id, write).await {
            Ok(decided) => done(decided).map(|_| Ok(id)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Creates a proposal with a schema revision.
    async fn proposal_with(&self, number: u32) -> Result<ProposalId, Failure> {
        let context = &self.context;
        let proposed = ProposedResources {
            schema: Some(self.revid(number)),
            is_schema_reused: true,
            prompt: context.prompt("of a proposal", None, &[]).await?,
            extraction: context.extraction_id(),
            document_type: None,
            similar: None,
        };
        let document = context.document("with a proposal").await?;
        let new = NewProposal { document, outcome: ProposalOutcome::Proposed(proposed), thread: None };
        let id = context.id::<Proposal>();
        let write = context.write(Expected::Absent, ProposalChange::Create(Box::new(new)))?;
        done(context.stores.of::<Proposal>().decide(&id, write).await?)?;
        Ok(id)
    }

    /// Names all revisions: one by a proposal, the others by a thread. Checks that a further revision is refused, and that it
    /// replaces the first revision whose name is removed.
    async fn refuses_if_all_are_named(&mut self) -> Outcome {
        let stores = self.context.stores.clone();
        let numbers = stores.resources.revision_numbers(&self.context.org, self.id.as_str()).await?;
        let oldest = numbers.first().copied().unwrap_or_default();
        let proposed = numbers.get(numbers.len() / 2).copied().unwrap_or_default();
        let mut missing: Vec<u32> = (1..oldest).collect();
        let proposal = self.proposal_with(proposed).await?;
        let waiting = self.open_turn(oldest).await?;
        for number in numbers.into_iter().filter(|number| *number != proposed) {
            self.name(number, &waiting.id).await?;
        }
        self.refuses_revision().await?;
        let unchanged = Schema::update(&Seed::named("bounded").with(u64::from(self.newest)));
        let unchanged = self.context.write(Expected::Version(u64::from(self.newest)), unchanged)?;
        done(stores.of::<Schema>().decide(&self.id, unchanged).await?)?;

        let delete = self.context.write(Expected::Version(1), Proposal::DELETE)?;
        done(stores.of::<Proposal>().decide(&proposal, delete).await?)?;
        self.revise().await?;
        missing.push(proposed);
        self.assert_missing(&missing).await?;
        self.refuses_revision().await?;
        self.change_thread(waiting, HeaderChange { open_turn: Some(None), ..HeaderChange::default() }).await?;
        self.revise().await?;
        missing.push(oldest);
        self.assert_missing(&missing).await
    }

    async fn refuses_revision(&self) -> Outcome {
        let decided = self.context.stores.of::<Schema>().decide(&self.id, self.revision()?).await;
        refused!(decided, LimitReached, "a revision of a schema whose revisions are all named");
        self.assert_total().await
    }

    /// Checks that a removed revision cannot be named.
    async fn refuses_names(&self, number: u32) -> Outcome {
        let context = &self.context;
        refused!(self.extraction_with(number).await?, NotFound, "an extraction with a removed revision");
        let links = [self.id.to_string()];
        let seed = Seed { revision: number, ..Seed::named("names a removed one").linked(&links) };
        let write = context.write(Expected::Absent, Prompt::create(&seed))?;
        refused!(
            context.stores.of::<Prompt>().decide(&context.id::<Prompt>(), write).await,
            NotFound,
            "a prompt with a removed revision"
        );
        refused!(self.name(number, &context.thread_id()).await, NotFound, "a thread with a removed revision");
        Ok(())
    }

    /// Checks that of the first and the newest revisions exactly these are missing.
    async fn assert_missing(&self, missing: &[u32]) -> Outcome {
        let (schemas, org) = (self.context.stores.of::<Schema>(), &self.context.org);
        for number in (1..=10).chain([self.newest - 1, self.newest]).chain(missing.iter().copied()) {
            let found = schemas.revision(org, &self.revid(number)).await?;
            same!(
                found.is_none(),
                missing.contains(&number),
                "whether revision {number} of {} is missing",
                self.newest
            );
        }
        Ok(())
    }

    async fn assert_total(&self) -> Outcome {
        let (schemas, org) = (self.context.stores.of::<Schema>(), &self.context.org);
        let oldest = PageRequest { size: 3, order: Order::Oldest, ..PageRequest::default() };
        let page = schemas.list_revisions(org, &self.id, &oldest).await?;
        same!(page.total, limits::REVISIONS_MAX as u64, "the number of revisions");
        same!(page.items.len(), 3, "the revisions of a page");
        Ok(())
    }

    /// Deletes the schema. Its revisions are invisible at once, and removed by the clean-up.
    async fn deleted(&self) -> Outcome {
        let (context, id) = (&self.context, self.id.as_str());
        let (schemas, resources, org) = (context.stores.of::<Schema>(), &context.stores.resources, &context.org);
        let write = context.write(Expected::Version(u64::from(self.newest)), Schema::DELETE)?;
        done(schemas.decide(&self.id, write).await?)?;
        same!(schemas.revision(org, &self.revid(self.newest)).await?, None, "a revision of a deleted schema");
        refused!(self.name(self.newest, &context.thread_id()).await, NotFound, "a name of a deleted schema");
        schemas.clean_deleted(org, &self.id, true).await?;
        let all: Vec<u32> = (1..=self.newest).collect();
        let left = resources.revisions(org, id, &all).await?;
        same!(left.iter().flatten().count(), 0, "the number of revisions after the clean-up");
        same!(
            resources.revision_numbers(org, id).await?,
            Vec::<u32>::new(),
            "the numbers of revisions after the clean-up"
        );
        Ok(())
    }
}
