//! Creation of threads and fenced appends to their journals.

use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, HeaderChange, RequestRow, ThreadHeader};
use folio_types::op::Target;
use folio_types::{Code, Error, OrgId, Reason, RequestId, Result, ThreadId, Timestamp, limits};

use super::catalogue;
use super::keyspace::Keyspace;
use super::session::{Sent, Statements, Strength};
use super::table::{Part, ThreadPart, ThreadRow};
use super::threads::{enter_expiry, listed};
use super::{crash_points, dependents, open_turns, retry};
use folio_storage::NewThread;
use folio_storage::value::{Mark, ThreadRecord, decode, encode};

/// Attempts with an unknown outcome, after which the caller gets the error.
const UNKNOWN: u32 = 3;

/// A thread as it was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) record: Option<ThreadRecord>,
    /// The time of expiry, in nanoseconds.
    pub(crate) expires_at: Option<i64>,
    pub(crate) imported: Option<(u64, String)>,
}

impl Read {
    /// Returns the header of a live thread.
    pub(crate) fn live(self) -> Option<ThreadHeader> {
        match self.record {
            Some(ThreadRecord::Live(header)) => Some(*header),
            Some(ThreadRecord::Tombstone { .. }) | None => None,
        }
    }
}

/// Returns the time of a number of nanoseconds.
pub(crate) fn instant(nanoseconds: i64) -> Result<Timestamp> {
    let at = Timestamp::from_nanosecond(i128::from(nanoseconds));
    at.map_err(|error| Error::internal(format!("a stored time is out of range: {error}")))
}

pub(crate) fn nanoseconds(at: Timestamp) -> Result<i64> {
    i64::try_from(at.as_nanosecond()).map_err(|_| Error::internal("a time is out of the range that can be stored"))
}

/// Reads a thread's header.
pub(crate) async fn read(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, strength: Strength) -> Result<Read> {
    let row = keyspace.tables.threads.header(&keyspace.cql, org, id, strength).await?;
    let mut record: Option<ThreadRecord> = match row.live {
        Some(_) => Some(decode(&row.header)?),
        None => None,
    };
    if let Some(ThreadRecord::Live(header)) = &mut record {
        header.expires_at = row.expires_at.map(instant).transpose()?;
    }
    Ok(Read { record, expires_at: row.expires_at, imported: row.imported })
}

/// Returns the row of a request id.
pub(crate) async fn request(
    keyspace: &Keyspace,
    org: &OrgId,
    id: &ThreadId,
    request: &RequestId,
    strength: Strength,
) -> Result<Option<RequestRow>> {
    let key = (ThreadPart::Request, request.as_str());
    let found = keyspace.tables.threads.row(&keyspace.cql, org, id, key, strength).await?;
    found.map(|bytes| decode(&bytes)).transpose()
}

async fn request_row_of(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, batch: &Append) -> Result<Option<RequestRow>> {
    match &batch.request {
        Some(row) => request(keyspace, org, id, &row.request, Strength::Serial).await,
        None => Ok(None),
    }
}

/// Returns whether a batch is committed: its batch row exists.
pub(crate) async fn has_batch(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool> {
    let key = batch_key(batch);
    let row = (ThreadPart::Batch, key.as_str());
    Ok(keyspace.tables.threads.row(&keyspace.cql, org, id, row, Strength::Serial).await?.is_some())
}

fn batch_key(batch: u128) -> String {
    format!("{batch:032x}")
}

/// Encodes entries; `TOO_LARGE` if one entry, or all together, exceed their bounds.
fn encoded(entries: &[Entry], bound: u64, what: &str) -> Result<(Vec<Vec<u8>>, u64)> {
    let mut all = Vec::with_capacity(entries.len());
    let mut bytes = 0;
    for entry in entries {
        let stored = encode(entry)?;
        if stored.len() > limits::ENTRY_BYTES {
            return Err(Error::invalid(
                Reason::TooLarge,
                format!("a journal entry of {} bytes exceeds {}", stored.len(), limits::ENTRY_BYTES),
            ));
        }
        bytes += stored.len() as u64;
        all.push(stored);
    }
    if bytes > bound {
        return Err(Error::invalid(Reason::TooLarge, format!("{what} of {bytes} bytes exceeds {bound}")));
    }
    Ok((all, bytes))
}

/// Creates a thread unless one with its id is live.
pub(crate) async fn create(keyspace: &Keyspace, new: NewThread) -> Result<ThreadHeader> {
    match make(keyspace, new, None).await? {
        Creation::New(header) | Creation::Existing(header) => Ok(header),
    }
}

/// Creates a thread together with its first append.
pub(crate) async fn begin(keyspace: &Keyspace, new: NewThread, first: Append) -> Result<Appended> {
    let (org, id) = (new.org.clone(), new.id.clone());
    match make(keyspace, new, Some(&first)).await? {
        Creation::New(header) => Ok(Appended::Done(Box::new(header))),
        Creation::Existing(header) if has_batch(keyspace, &org, &id, first.batch).await? => {
            Ok(Appended::Done(Box::new(header)))
        }
        Creation::Existing(header) => {
            let request = request_row_of(keyspace, &org, &id, &first).await?;
            Ok(Appended::Refused { header: Box::new(header), request })
        }
    }
}

/// The result of a creation: created by this call, or existing before.
enum Creation {
    New(ThreadHeader),
    Existing(ThreadHeader),
}

async fn make(keyspace: &Keyspace, new: NewThread, first: Option<&Append>) -> Result<Creation> {
    let (org, id) = (new.org.clone(), new.id.clone());
    let (imported, bytes) = encoded(&new.imported, limits::THREAD_BYTES, "an import")?;
    if new.imported.iter().any(|entry| !matches!(entry, Entry::Imported(_))) {
        return Err(Error::internal("a new thread starts with imported entries only"));
    }
    let mut header = new.header();
    header.entries = imported.len() as u64;
    header.bytes = bytes;
    let entries = match first {
        Some(batch) if batch.fence != (Fence { epoch: 0, version: 0 }) => {
            return Err(Error::internal("the first append to a thread needs epoch 0 and version 0"));
        }
        Some(batch) => {
            let (entries, bytes) = encoded(&batch.entries, limits::APPEND_BYTES as u64, "an append")?;
            header = next(&header, batch, (entries.len() as u64, bytes))?;
            entries
        }
        None => Vec::new(),
    };
    let (mut unknown, making) = (0, format!("{:032x}", keyspace.random()));
    for attempt in 0..retry::ATTEMPTS {
        match read(keyspace, &org, &id, Strength::Serial).await?.record {
            Some(ThreadRecord::Live(header)) => {
                return existing(keyspace, *header, new.request.filter(|_| first.is_none())).await;
            }
            Some(ThreadRecord::Tombstone { .. }) => return Err(Error::not_found("thread", &id)),
            None => {}
        }
        if attempt == 0 {
            for referenced in header.references() {
                dependents::check(keyspace, &org, referenced).await?;
            }
            prepare(keyspace, &header, first, (&making, &imported)).await?;
        }
        let stored = encode(&ThreadRecord::Live(Box::new(header.clone())))?;
        let bytes = stored.len();
        let statements = creation(keyspace, (&header, stored), &new, first, (&making, imported.len()), &entries)?;
        match keyspace.commit(statements).await? {
            Sent::Applied => {
                keyspace.headers.wrote(&header, bytes).await;
                return Ok(Creation::New(header));
            }
            Sent::Refused => {}
            Sent::Unknown(error) => {
                unknown += 1;
                if unknown >= UNKNOWN {
                    return Err(error);
                }
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the thread"))
}

/// Writes the rows that precede a thread: imported entries, its entries below the resources it refers to, and index rows.
async fn prepare(
    keyspace: &Keyspace,
    header: &ThreadHeader,
    first: Option<&Append>,
    (making, imported): (&str, &[Vec<u8>]),
) -> Result<()> {
    let (org, id) = (&header.org, &header.id);
    for referenced in header.references() {
        dependents::enter(keyspace, org, referenced, (Part::Thread, id.as_str())).await?;
    }
    for (at, entry) in (0..).zip(imported) {
        keyspace.tables.threads.import(&keyspace.cql, (org, id), making, at, entry.clone()).await?;
    }
    if let Some(at) = header.expires_at {
        enter_expiry(keyspace, org, id, at).await?;
    }
    if let Some(listed) = listed(header) {
        catalogue::enter(keyspace, org, Target::THREAD, None, &listed).await?;
    }
    if let Some(row) = first.and_then(|batch| batch.opens.as_ref()) {
        open_turns::insert(keyspace, row).await?;
    }
    Ok(())
}

fn creation<'a>(
    keyspace: &'a Keyspace,
    (header, stored): (&ThreadHeader, Vec<u8>),
    new: &NewThread,
    first: Option<&Append>,
    (making, imported): (&str, usize),
    entries: &[Vec<u8>],
) -> Result<Statements<'a>> {
    let (threads, thread) = (&keyspace.tables.threads, (&header.org, &header.id));
    let row = ThreadRow {
        live: Some(true),
        header: stored,
        expires_at: header.expires_at.map(nanoseconds).transpose()?,
        imported: (imported > 0).then(|| (imported as u64, making.to_owned())),
    };
    let mut statements = vec![threads.create(thread, (header.epoch, header.version), row)];
    if let Some(row) = &new.request {
        statements.push(threads.insert_once(thread, (ThreadPart::Request, row.request.as_str()), encode(row)?));
    }
    if let Some(batch) = first {
        let same = |row: &&RequestRow| new.request.as_ref().is_none_or(|created| created.request != row.request);
        statements.extend(rows(keyspace, thread, imported as u64, batch, entries, same)?);
    }
    Ok(statements)
}

/// Returns the rows of a batch: the batch row, the request row and the entries.
fn rows<'a>(
    keyspace: &'a Keyspace,
    thread: (&OrgId, &ThreadId),
    from: u64,
    batch: &Append,
    entries: &[Vec<u8>],
    inserts: impl Fn(&&RequestRow) -> bool,
) -> Result<Statements<'a>> {
    let threads = &keyspace.tables.threads;
    let key = batch_key(batch.batch);
    let mut statements = vec![threads.insert_once(thread, (ThreadPart::Batch, &key), encode(&Mark)?)];
    if let Some(row) = batch.request.as_ref().filter(inserts) {
        let (key, value) = ((ThreadPart::Request, row.request.as_str()), encode(row)?);
        statements.push(threads.insert_once(thread, key, value));
    }
    for (at, entry) in (from..).zip(entries) {
        statements.push(threads.entry(thread, at, entry.clone()));
    }
    Ok(statements)
}

/// Returns the existing thread, unless its request id was used for another request.
async fn existing(keyspace: &Keyspace, header: ThreadHeader, request_row: Option<RequestRow>) -> Result<Creation> {
    if let Some(request_row) = request_row {
        let stored = request(keyspace, &header.org, &header.id, &request_row.request, Strength::Serial).await?;
        if stored.is_some_and(|stored| stored.digest != request_row.digest) {
            return Err(Error::new(
                Code::AlreadyExists,
                Reason::RequestIdConflict,
                "the request_id was used for another request; a request id identifies one request only",
            ));
        }
    }
    Ok(Creation::Existing(header))
}

/// Appends under the fence.
pub(crate) async fn append(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, batch: Append) -> Result<Appended> {
    let (entries, added) = encoded(&batch.entries, limits::APPEND_BYTES as u64, "an append")?;
    if let Some(row) = &batch.opens {
        open_turns::insert(keyspace, row).await?;
    }
    let mut cached = keyspace.headers.at(org, id, batch.fence).await;
    let (mut strength, mut unknown) = (Strength::Quorum, 0);
    for attempt in 0..retry::ATTEMPTS {
        let before = match cached.take() {
            Some(header) => Some(header),
            None => read(keyspace, org, id, strength).await?.live(),
        };
        let fits = before
            .as_ref()
            .is_some_and(|before| before.epoch == batch.fence.epoch && before.version == batch.fence.version);
        if strength == Strength::Serial {
            // Reads the header first: if the batch row is missing now, it was missing when the header was read.
            let Some(header) = before.as_ref() else { return Err(Error::not_found("thread", id)) };
            if has_batch(keyspace, org, id, batch.batch).await? {
                let header = read(keyspace, org, id, Strength::Serial).await?.live();
                let header = header.ok_or_else(|| Error::not_found("thread", id))?;
                return Ok(Appended::Done(Box::new(header)));
            }
            let request = request_row_of(keyspace, org, id, &batch).await?;
            if !fits || request.is_some() {
                return Ok(Appended::Refused { header: Box::new(header.clone()), request });
            }
        }
        strength = Strength::Serial;
        let Some(before) = before.filter(|_| fits) else { continue };
        let header = next(&before, &batch, (entries.len() as u64, added))?;
        let after = listed(&header).filter(|_| header.title != before.title);
        if let Some(after) = &after {
            catalogue::enter(keyspace, org, Target::THREAD, listed(&before).as_ref(), after).await?;
        }
        let stored = encode(&ThreadRecord::Live(Box::new(header.clone())))?;
        let (to, bytes) = ((header.epoch, header.version), stored.len());
        let (from, expires_at) = ((before.epoch, before.version), before.expires_at.map(nanoseconds).transpose()?);
        let mut statements = vec![keyspace.tables.threads.append((org, id), from, expires_at, to, stored)];
        statements.extend(rows(keyspace, (org, id), before.entries, &batch, &entries, |_| true)?);
        crash_points::stop_at("append");
        match keyspace.commit(statements).await? {
            Sent::Applied => {
                if let (Some(old), Some(_)) = (listed(&before), &after) {
                    settle(keyspace, &header, &old).await;
                }
                keyspace.headers.wrote(&header, bytes).await;
                return Ok(Appended::Done(Box::new(header)));
            }
            Sent::Refused => {}
            Sent::Unknown(error) => {
                unknown += 1;
                if unknown >= UNKNOWN {
                    return Err(error);
                }
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the thread"))
}

/// Removes the list rows of the previous title of a thread.
async fn settle(keyspace: &Keyspace, header: &ThreadHeader, old: &catalogue::Listed) {
    let version = header.version.saturating_add(1);
    let settled = catalogue::settle(keyspace, &header.org, Target::THREAD, old, listed(header).as_ref(), version).await;
    if let Err(error) = settled {
        tracing::warn!(%error, thread = %header.id, "list rows stay until a reader repairs them");
    }
}

/// Returns the header after a batch with this number of entries and bytes.
fn next(before: &ThreadHeader, batch: &Append, (entries, bytes): (u64, u64)) -> Result<ThreadHeader> {
    let mut header = before.clone();
    if let Some((epoch, owner)) = &batch.take {
        if *epoch <= before.epoch {
            return Err(Error::internal(format!("epoch {epoch} is not above {}: epochs only grow", before.epoch)));
        }
        header.epoch = *epoch;
        header.owner = Some(owner.clone());
    }
    header.version += 1;
    header.updated_at = batch.at;
    header.entries += entries;
    header.bytes += bytes;
    let HeaderChange { open_turn, working, title, model, turns } = batch.change.clone();
    if let Some(open_turn) = open_turn {
        header.open_turn = open_turn;
    }
    if let Some(working) = working {
        header.working = working;
    }
    if let Some(title) = title {
        header.title = title;
    }
    if let Some(model) = model {
        header.model = Some(model);
    }
    if let Some(turns) = turns {
        header.turns = turns;
    }
    Ok(header)
}
