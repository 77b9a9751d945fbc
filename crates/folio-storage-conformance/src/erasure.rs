//! Conformance suite of [`folio_storage::ErasureStore`], and [`fill`], which writes a word into every part of an
//! organization. After the erasure, a search of a store's rows for the word must find nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use folio_credit::{AccountChange, AccountChangeOutcome, Grant, GrantKind, LedgerRow};
use folio_history::job::{
    DELIVERY_KIND, EXTRACTION_KIND, ItemOutcome, JobCommand, JobFilter, JobHeader, JobLimits, JobQueue, NewJob,
};
use folio_history::thread::{OpenTurnRow, ThreadFilter};
use folio_resources::audit::{AuditEntry, AuditKind, AuditPosition, RedactedArguments};
use folio_resources::{
    AllowedMcpTool, BoundingBox, Collection, CollectionChange, CollectionFilter, CollectionRule, DictionaryEntry,
    DictionaryEntryChange, DictionaryEntryFilter, Document, DocumentFilter, Extraction, FilledCell, Heading, Link,
    LinkCollector, LinkKey, LinkTarget, McpServer, McpServerChange, McpServerFilter, McpToolText, Member, MemberWrite,
    ModelSettings, ModelSettingsChange, NewDictionaryEntry, NewStack, NewToken, Organization, OrganizationChange,
    PageStructure, Proposal, ProposalFilter, Provenance, Provider, Schema, SchemaChange, SealedKey, Stack, StackChange,
    StackFilter, StackMembers, StackRow, StackRowChange, StackRowFilter, StackRowId, TextState, TokenChange,
    TokenFilter, TokenRecord, WebhookEndpoint, WebhookEndpointChange, WebhookEndpointFilter, WordBoxes,
};
use folio_types::access::Role;
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::models::ModelOptions;
use folio_types::op::{Expected, Write};
use folio_types::page::{Order, PageRequest};
use folio_types::token::Token;
use folio_types::{
    BlobId, BlockId, BudgetPart, BudgetRoot, DocumentId, Environment as _, GrantId, JobId, OrgId, Principal, System,
    Timestamp, TokenId, TurnId,
};
use serde_json::json;

use super::context::{Context, blob_key, create_extraction, done};
use super::jobs::{executed, new_job, start};
use super::threads_append::{appended, batch_with_state, request};
use super::{Failure, Outcome, check, same};
use folio_storage::value::DeletionRow;
use folio_storage::{HourSums, IngestUpdate, NewPage, Stores, UsageHour, UsageRecord, UsageSum, create_job};

pub(crate) async fn suite(context: &Context) -> Outcome {
    let (stores, at) = (&context.stores, context.now());
    let (store, nonce) = (&stores.erasure, context.org.to_string());
    let erased = fill(stores, &format!("{nonce} erased"), "word").await?;
    let stays = fill(stores, &format!("{nonce} stays"), "word").await?;
    let (before, theirs) = (holds(context, &erased).await?, holds(context, &stays).await?);
    check!(before.iter().all(|kind| *kind > 0) && before == theirs, "an organization lacks a kind of data: {before:?}");

    let organizations = stores.of::<Organization>();
    let (key, delete) = (format!("delete-{erased}").parse()?, OrganizationChange::Delete);
    let delete = Write::by_platform(OrgId::platform(), key, at, Expected::Version(1), delete);
    done(organizations.decide(&erased, delete).await?)?;

    for _ in 0..2 {
        store.erase(&BTreeSet::from([erased.clone()])).await?;
        stores.blobs.delete_all(&erased).await?;
        check!(holds(context, &erased).await?.iter().all(|kind| *kind == 0), "data of the erased organization is left");
        same!(holds(context, &stays).await?, theirs, "the data of another organization after the erasure");
    }
    let deletion = DeletionRow { org: OrgId::platform(), id: erased.to_string(), at };
    let is_listed = async || {
        let deleted = organizations.indexed_deletions(&(at..=at), None, 10_000).await?;
        Ok::<_, Failure>(deleted.contains(&deletion))
    };
    check!(is_listed().await?, "the deletion of an erased organization is in no index");
    check!(organizations.confirm_deletion(&deletion).await?, "the deletion of an erased organization is not confirmed");
    organizations.clean_deleted(&OrgId::platform(), &erased, true).await?;
    check!(!is_listed().await?, "the deletion of an organization is in the index after its clean-up");
    Ok(())
}

/// Returns the number of an organization's rows of each kind.
async fn holds(context: &Context, org: &OrgId) -> Result<Vec<usize>, Failure> {
    let Stores { audit, blobs, credit, jobs, threads, usage, .. } = &context.stores;
    let access = context.stores.access();
    let documents = context.stores.of::<Document>();
    let page = PageRequest { size: 10, token: None, skip: 0, order: Order::Newest };
    let found = documents.list(org, &DocumentFilter::default(), &page).await?.items;
    // Reads the dependents of a document by its id, because the erased lists no longer contain the document.
    let id = Context::new(context.stores.clone(), "filled", org.as_str()).document_id();
    let filter = ThreadFilter::default();
    let settings = context.stores.of::<ModelSettings>().get(org, ModelSettings::fixed_id()).await?;
    let tokens = context.stores.of::<TokenRecord>().list(org, &TokenFilter::default(), &page).await?;
    let proposals = context.stores.of::<Proposal>().list(org, &ProposalFilter::default(), &page).await?;
    let endpoints = context.stores.of::<WebhookEndpoint>().list(org, &WebhookEndpointFilter::default(), &page).await?;
    let servers = context.stores.of::<McpServer>().list(org, &McpServerFilter::default(), &page).await?;
    let entries = context.stores.of::<DictionaryEntry>().list(org, &DictionaryEntryFilter::default(), &page).await?;
    let collections = context.stores.of::<Collection>().list(org, &CollectionFilter::default(), &page).await?;
    let stacks = context.stores.of::<Stack>().list(org, &StackFilter::default(), &page).await?;
    let rows = context.stores.of::<StackRow>().list(org, &StackRowFilter::default(), &page).await?;
    let deliveries = JobFilter { queue: JobQueue::Deliveries, ..JobFilter::default() };
    let (low, high) = (AuditPosition::before(Timestamp::UNIX_EPOCH), AuditPosition::before(Timestamp::MAX));
    let mut counts = vec![
        found.len(),
        context.stores.texts.text(org, id.as_str(), 1, 10).await?.len(),
        context.stores.texts.boxes(org, id.as_str(), 1, 10).await?.len(),
        context.stores.texts.headings(org, id.as_str(), 1, 10).await?.len(),
        context.stores.texts.elements(org, id.as_str(), 1, 10).await?.len(),
        usize::from(documents.content_bytes(org).await? > 0),
        usize::from(blobs.open(&blob_key(org, &id)).await?.is_some()),
        threads.list(org, &filter, &page).await?.items.len(),
        jobs.list(org, &JobFilter::default(), &page).await?.items.len(),
        usage.list(org, Timestamp::UNIX_EPOCH, 10).await?.len(),
        tokens.items.len(),
        access.last_uses(org, &[TokenId::derive(&[org.as_str(), "good"])]).await?.into_iter().flatten().count(),
        access.members(org).await?.len(),
        audit.list(org, &low, &high, false, 10).await?.len(),
        usize::from(settings.is_some()),
        proposals.items.len(),
        endpoints.items.len(),
        servers.items.len(),
        entries.items.len(),
        context.stores.links().links(org, &id).await?.len(),
        context.stores.links().missing(org, None, 10).await?.len(),
        collections.items.len(),
        stacks.items.len(),
        rows.items.len(),
        jobs.list(org, &deliveries, &page).await?.items.len(),
        context.stores.passages().heads(org, None, 10).await?.len(),
        context.stores.passages().read(org, &id, 1, &[0]).await?.len(),
        context.stores.summaries().list(org, &id).await?.len(),
        context.stores.chunk_sets().list(org, &id).await?.len(),
    ];
    counts.push(usize::try_from(credit.account(org).await?.granted).unwrap_or(usize::MAX));
    Ok(counts)
}

async fn filled_token(context: &Context, id: &str, name: &str) -> Result<TokenId, Failure> {
    let (org, user) = (&context.org, context.user.clone());
    let token = Token::with_id(org, TokenId::derive(&[org.as_str(), id]), &System);
    let write = TokenChange::create_by_platform(&token, NewToken::new(&token, user, Role::Admin, name), context.now())?;
    done(context.stores.of::<TokenRecord>().decide(token.id(), write).await?)?;
    context.stores.access().record_use(org, token.id(), context.now()).await?;
    Ok(token.id().clone())
}

/// Creates an organization with data of every kind, with a word in each.
pub async fn fill(stores: &Stores, nonce: &str, word: &str) -> Result<OrgId, Failure> {
    let org = OrgId::derive(&["filled", nonce]);
    // Ids are derived from the organization, so that reads by id work after the lists are erased.
    let mut context = Context::new(stores.clone(), "filled", org.as_str());
    context.org = org.clone();
    let (create, at) = (OrganizationChange::Create { name: word.to_owned() }, context.now());
    let write = Write::by_platform(OrgId::platform(), format!("create-{org}").parse()?, at, Expected::Absent, create);
    done(stores.of::<Organization>().decide(&org, write).await?)?;
    let name = format!("the {word}");
    let user = context.user.clone();
    let member = Member::new(user, &name, Role::Admin, context.now());
    stores.access().write_member(&org, MemberWrite::unguarded(None, member)).await?;
    filled_token(&context, "good", &name).await?;
    let revoked = filled_token(&context, "revoked", &name).await?;
    let revoke = TokenChange::revoke_by_platform(&org, &revoked, context.now())?;
    done(stores.of::<TokenRecord>().decide(&revoked, revoke).await?)?;
    let document = filled_document(&context, &name).await?;
    super::passages::fill(&context, &document, &name).await?;
    super::summaries::fill(&context, &document, &name).await?;
    filled_thread(&context, &name).await?;
    for kind in [EXTRACTION_KIND, DELIVERY_KIND] {
        filled_job(&context, kind, &name).await?;
    }
    filled_pages(&context, &name).await?;
    filled_endpoint(&context, &name).await?;
    filled_mcp_server(&context, word).await?;
    filled_dictionary(&context, word).await?;
    filled_links(&context, &document, word).await?;
    filled_collection(&context, word).await?;
    filled_stack(&context, word).await?;
    filled_account(&context, &name).await?;
    let user = Some(context.user.clone());
    let entry = AuditEntry::new("request", AuditKind::ChangeApplied, context.now(), user, word);
    let arguments = Some(RedactedArguments::request(&json!({ "name": name })));
    stores.audit.append(&org, &[AuditEntry { arguments, ..entry }]).await?;
    filled_settings(&context, &name).await?;
    Ok(org)
}

async fn filled_settings(context: &Context, name: &str) -> Outcome {
    let provider = Provider {
        key: Some(SealedKey { master: "m1".to_owned(), sealed: format!("sealed for {name}") }),
        models: [(name.to_owned(), ModelOptions::default())].into(),
        available: vec![name.to_owned()],
        ..Provider::default()
    };
    let change = ModelSettingsChange::SetProvider { name: "own".to_owned(), provider: Box::new(provider) };
    let write = context.write(Expected::Absent, change)?;
    done(context.stores.of::<ModelSettings>().decide(ModelSettings::fixed_id(), write).await?).map(drop)
}

async fn filled_document(context: &Context, name: &str) -> Result<DocumentId, Failure> {
    let (stores, id) = (&context.stores, context.document_id());
    let tag = context.tag(name).await?;
    let write = context.write(Expected::Absent, super::context::create_document(name, &[tag]))?;
    context.record::<Document, _>(&id, &write).await?;
    done(stores.of::<Document>().decide(&id, write).await?)?;
    let text = format!("Text of {name}");
    context.fill(&id, vec![text.clone()], name.to_owned()).await?;
    let boxes = text.split_whitespace().map(|_| BoundingBox::around([(1.0, 1.0), (2.0, 2.0)]));
    let structure = PageStructure {
        headings: vec![Heading { level: 1, title: name.to_owned(), word: 0 }],
        links: vec![Link { anchor: name.to_owned(), target: LinkTarget::Url(format!("https://{name}")), area: None }],
        ..PageStructure::default()
    };
    let boxes = WordBoxes::new(9.0, 9.0, boxes);
    let pages = vec![NewPage { boxes, structure, ..NewPage::of_text(1, text.clone()) }];
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: context.now() };
    stores.texts.ingest(&context.org, id.as_str(), update).await?;
    let image = BlobId::derive(&["image"]);
    stores.of::<Document>().set_blob_bytes(&context.org, &id, &image, 100, context.now()).await?;
    let schema = context.schema(name).await?;
    let prompt = context.prompt(name, Some(&schema), &[]).await?;
    let write = context.write(Expected::Absent, create_extraction(&id, &prompt, json!({ "read": name })))?;
    done(stores.of::<Extraction>().decide(&context.extraction_id(), write).await?)?;
    context.agent_extraction(&id, &prompt, name).await?;
    context.proposals(&id, &prompt, name).await?;
    // Creates and deletes a schema, whose tombstone and op rows are in no list.
    let schema = context.schema(&format!("deleted {name}")).await?;
    let delete = context.write(Expected::Version(1), SchemaChange::Delete)?;
    done(stores.of::<Schema>().decide(&schema.of, delete).await?)?;
    Ok(id)
}

async fn filled_thread(context: &Context, name: &str) -> Outcome {
    let threads = &context.stores.threads;
    let mut new = context.new_thread(&[]);
    new.title = name.to_owned();
    new.expires_at = context.now().checked_add(folio_types::limits::DAY).ok();
    let header = threads.create(new).await?;
    let mut append = batch_with_state(context, header.fence(), name);
    append.request = Some(request(context, 1)?);
    let turn = TurnId::new(header.id.clone(), 1);
    let until = Timestamp::from_second(2_000_000_000).unwrap_or(Timestamp::MAX);
    append.opens = Some(OpenTurnRow { org: context.org.clone(), turn, epoch: 1, at: context.now(), until });
    appended(threads.append(&context.org, &header.id, append).await?).map(|_| ())
}

/// Creates a job of a kind with an outcome. A delivery contains an event and an attempt.
async fn filled_job(context: &Context, kind: &str, name: &str) -> Outcome {
    // Uses the real time, because the row of the index expires by the clock of the store.
    let new = JobHeader { created_at: System.now(), ..new_job(context, kind, json!({ "name": name }))? };
    let header = context.stores.jobs.create(new).await?;
    let started = executed(context, &header, start(context), None).await?;
    let begun = executed(context, &started, JobCommand::Begin { item: 0 }, None).await?;
    let outcome = ItemOutcome { item: 1, attempt: 1, value: json!(name), at: context.now() };
    let finish = JobCommand::Finish { item: 0, result: Ok(()) };
    let done = executed(context, &begun, finish, Some(outcome)).await?;
    executed(context, &done, JobCommand::Cancel, None).await.map(drop)
}

/// Creates a job with two pages and a credit budget.
async fn filled_pages(context: &Context, name: &str) -> Outcome {
    let (stores, org) = (&context.stores, &context.org);
    let new = NewJob {
        id: JobId::derive(&context.parts().each_ref().map(String::as_str)),
        principal: Principal::new(org.clone(), context.user.clone(), Role::Member),
        kind: EXTRACTION_KIND.to_owned(),
        input: json!({}),
        items: (0..=JOB_PAGE_ITEMS).map(|number| format!("{name} {number}")).collect(),
        running_max: Duration::from_secs(3_600),
        at: System.now(),
    };
    let job = create_job(&*stores.jobs, &stores.job_pages(), &JobLimits::default(), new).await?;
    let budget = BudgetPart::whole(BudgetRoot::Job(job.id), 5);
    Ok(stores.budgets().change(org, &budget, |budget| budget.reserve("", name, 2)).await?)
}

async fn filled_endpoint(context: &Context, name: &str) -> Outcome {
    let secret = SealedKey { master: "m1".to_owned(), sealed: format!("sealed for {name}") };
    let event_types = BTreeSet::from(["document.ready".to_owned()]);
    let create =
        WebhookEndpointChange::Create { url: name.to_owned(), event_types, secret: Some(secret), enabled: true };
    let (endpoints, id) = (context.stores.of::<WebhookEndpoint>(), context.id::<WebhookEndpoint>());
    done(endpoints.decide(&id, context.write(Expected::Absent, create)?).await?)?;
    let report = WebhookEndpointChange::Report { error: Some(format!("error of {name}")) };
    done(endpoints.decide(&id, context.write(Expected::Version(1), report)?).await?).map(drop)
}

async fn filled_mcp_server(context: &Context, word: &str) -> Outcome {
    let token = SealedKey { master: "m1".to_owned(), sealed: format!("sealed for {word}") };
    let url = format!("https://example.com/{word}");
    let create = McpServerChange::Create { name: word.to_owned(), url, token: Some(token), oauth: None, enabled: true };
    let (servers, id) = (context.stores.of::<McpServer>(), context.id::<McpServer>());
    done(servers.decide(&id, context.write(Expected::Absent, create)?).await?)?;
    let text = McpToolText { description: word.to_owned(), input_schema: json!({ "title": word }) };
    let tools = Some(BTreeMap::from([(word.to_owned(), AllowedMcpTool::new(true, text))]));
    let allow = McpServerChange::Update { name: None, url: None, token: None, oauth: None, enabled: None, tools };
    done(servers.decide(&id, context.write(Expected::Version(1), allow)?).await?).map(drop)
}

async fn filled_collection(context: &Context, word: &str) -> Outcome {
    let rule = CollectionRule { tags: Vec::new(), metadata: [(word.to_owned(), word.to_owned())].into() };
    let create = CollectionChange::Create { name: word.to_owned(), description: Some(word.to_owned()), rule };
    let (collections, id) = (context.stores.of::<Collection>(), context.id::<Collection>());
    done(collections.decide(&id, context.write(Expected::Absent, create)?).await?).map(drop)
}

async fn filled_dictionary(context: &Context, word: &str) -> Outcome {
    let new = NewDictionaryEntry {
        term: word.to_owned(),
        expansion: word.to_owned(),
        disambiguation: Some(word.to_owned()),
        tags: vec![word.to_owned()],
        sources: vec![context.document_id()],
        provenance: Provenance::Agent,
    };
    let (entries, id) = (context.stores.of::<DictionaryEntry>(), context.id::<DictionaryEntry>());
    let create = DictionaryEntryChange::Create(Box::new(new));
    done(entries.decide(&id, context.write(Expected::Absent, create)?).await?).map(drop)
}

async fn filled_links(context: &Context, document: &DocumentId, word: &str) -> Outcome {
    let (links, org) = (context.stores.links(), &context.org);
    let mut found = LinkCollector::default();
    found.add_link(1, word, &format!("https://missing.example/{word}.pdf"));
    links.write_keys(org, document, &[LinkKey::Title(word.to_owned())]).await?;
    Ok(links.write_links(org, document, found.finish().0, context.now()).await?)
}

async fn filled_stack(context: &Context, word: &str) -> Outcome {
    let (stack, document) = (context.id::<Stack>(), context.document_id());
    let new = NewStack {
        name: word.to_owned(),
        description: word.to_owned(),
        members: StackMembers::Documents(vec![document.clone()]),
        model: None,
        review_rule: None,
        auto_fill: None,
    };
    let create = context.write(Expected::Absent, StackChange::Create(Box::new(new)))?;
    done(context.stores.of::<Stack>().decide(&stack, create).await?)?;
    let cell = FilledCell { column: 1, revision: 1, value: Some(json!(word)), confidence: Some(0.5), citation: None };
    let id = StackRowId::of(&stack, &document);
    let fill = StackRowChange::Fill {
        stack,
        document,
        cells: vec![cell],
        columns: Vec::new(),
        rule: None,
        text_generation: None,
    };
    let write = context.write(Expected::Absent, fill)?;
    done(context.stores.of::<StackRow>().decide(&id, write).await?).map(drop)
}

async fn filled_account(context: &Context, name: &str) -> Outcome {
    let (credit, org) = (&context.stores.credit, &context.org);
    let (mut account, now) = (credit.account(org).await?, context.now());
    let id = GrantId::derive(&["filled", org.as_str()]);
    let grant = Grant { note: name.to_owned(), ..Grant::new(id, GrantKind::Admin, 100, now) };
    let expected = account.version;
    let entry = account.grant(grant, now)?;
    let change = AccountChange { org: org.clone(), expected, account, entry };
    same!(credit.change_account(change).await?, AccountChangeOutcome::Done, "a grant");
    let row = LedgerRow { model: name.to_owned(), ..context.ledger_row("call", 1) };
    credit.reserve(org, &BlockId::derive(&["filled", org.as_str()]), row).await?;
    let record = UsageRecord { model: name.to_owned(), ..context.usage_record("call") };
    let (start, late) = (UsageHour::start_of(record.at), record.at + Duration::from_secs(2 * 60 * 60));
    let sums = HourSums { groups: vec![UsageSum::from(&record)], has_documents: true, late_at: None };
    context.stores.usage.put_sums(&record.org, start, sums).await?;
    Ok(context.stores.usage.record(record, late).await?)
}
