//! Creation of threads and fenced appends to their journals.

use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, HeaderChange, RequestRow, ThreadHeader};
use folio_resources::Kind;
use folio_types::{Code, Error, OrgId, Reason, Result, ThreadId, limits};

use super::keys::{self, Space};
use super::reads::Reads as _;
use super::transaction::Transaction;
use super::value::{Mark, ThreadRecord, encode};
use super::{resources, threads};
use folio_storage::NewThread;

/// Stored entries, encoded before the write is sent to the writer thread.
pub(crate) struct Encoded {
    /// The entries in order.
    entries: Vec<Vec<u8>>,
    /// Their total size.
    bytes: u64,
}

impl Encoded {
    /// Encodes entries; `TOO_LARGE` if one exceeds its bound.
    fn entries(entries: &[Entry]) -> Result<Self> {
        let mut encoded = Self { entries: Vec::with_capacity(entries.len()), bytes: 0 };
        for entry in entries {
            let bytes = encode(entry)?;
            if bytes.len() > limits::ENTRY_BYTES {
                return Err(Error::invalid(
                    Reason::TooLarge,
                    format!("a journal entry of {} bytes exceeds {}", bytes.len(), limits::ENTRY_BYTES),
                ));
            }
            encoded.bytes += bytes.len() as u64;
            encoded.entries.push(bytes);
        }
        Ok(encoded)
    }

    /// Encodes the imported entries of a new thread; `TOO_LARGE` if they exceed the bound of a thread.
    pub(crate) fn imported(entries: &[Entry]) -> Result<Self> {
        let encoded = Self::entries(entries)?;
        if encoded.bytes > limits::THREAD_BYTES {
            return Err(Error::invalid(Reason::TooLarge, "the imported entries exceed the bound of a thread"));
        }
        Ok(encoded)
    }

    /// Encodes the entries of an append; `TOO_LARGE` if they exceed the bound of an append.
    pub(crate) fn append(entries: &[Entry]) -> Result<Self> {
        let encoded = Self::entries(entries)?;
        if encoded.bytes > limits::APPEND_BYTES as u64 {
            return Err(Error::invalid(
                Reason::TooLarge,
                format!("an append of {} bytes exceeds {}", encoded.bytes, limits::APPEND_BYTES),
            ));
        }
        Ok(encoded)
    }

    /// Returns the total size in bytes.
    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// Appends the entries to the journal and counts them in the header.
    fn write(self, transaction: &mut Transaction<'_>, header: &mut ThreadHeader) -> Result<()> {
        for bytes in self.entries {
            transaction.put_bytes(Space::Threads, keys::entry(&header.org, &header.id, header.entries), bytes)?;
            header.entries += 1;
        }
        header.bytes += self.bytes;
        Ok(())
    }
}

/// Creates a thread unless one with its id is live. The id of a removed thread stays refused, so that no id of a turn
/// or a call is reused: op rows are keyed by them and outlive the thread.
pub(crate) fn create(transaction: &mut Transaction<'_>, new: NewThread, imported: Encoded) -> Result<ThreadHeader> {
    match transaction.read(Space::Threads, &keys::thread(&new.org, &new.id))? {
        Some(ThreadRecord::Live(header)) => return existing(transaction, *header, new.request),
        Some(ThreadRecord::Tombstone { .. }) => {
            return Err(Error::not_found("thread", &new.id));
        }
        None => {}
    }
    let mut header = new.header();
    for referenced in header.references() {
        if !resources::is_live(transaction, &new.org, referenced)? {
            return Err(Kind::of_id(referenced)?.not_found(referenced));
        }
    }
    if new.imported.iter().any(|entry| !matches!(entry, Entry::Imported(_))) {
        return Err(Error::internal("a new thread starts with imported entries only"));
    }
    imported.write(transaction, &mut header)?;
    if let Some(row) = &new.request {
        transaction.put(Space::Threads, keys::request(&header.org, &header.id, &row.request), row)?;
    }
    threads::add_to_indexes(transaction, &header)?;
    threads::store(transaction, None, &header)?;
    Ok(header)
}

/// Creates a thread together with its first append, unless one with its id exists.
pub(crate) fn begin(
    transaction: &mut Transaction<'_>,
    new: NewThread,
    imported: Encoded,
    first: Append,
    entries: Encoded,
) -> Result<Appended> {
    let (org, id) = (new.org.clone(), new.id.clone());
    match threads::live(transaction, &org, &id)? {
        Some(header) if transaction.contains(Space::Threads, &keys::batch(&org, &id, first.batch))? => {
            Ok(Appended::Done(Box::new(header)))
        }
        Some(header) => {
            let request = request_row(transaction, &org, &id, &first)?;
            Ok(Appended::Refused { header: Box::new(header), request })
        }
        None => {
            let created = create(transaction, new, imported)?;
            if first.fence != (Fence { epoch: created.epoch, version: created.version }) {
                return Err(Error::internal("the first append to a thread needs epoch 0 and version 0"));
            }
            append(transaction, &org, &id, first, entries)
        }
    }
}

/// Returns the stored row of an append's request id.
fn request_row(
    transaction: &Transaction<'_>,
    org: &OrgId,
    id: &ThreadId,
    batch: &Append,
) -> Result<Option<RequestRow>> {
    match &batch.request {
        Some(row) => transaction.read(Space::Threads, &keys::request(org, id, &row.request)),
        None => Ok(None),
    }
}

/// Returns the existing thread, unless its request id was used for another request.
fn existing(transaction: &Transaction<'_>, header: ThreadHeader, request: Option<RequestRow>) -> Result<ThreadHeader> {
    let Some(request) = request else { return Ok(header) };
    let key = keys::request(&header.org, &header.id, &request.request);
    match transaction.read::<RequestRow>(Space::Threads, &key)? {
        Some(stored) if stored.digest != request.digest => Err(Error::new(
            Code::AlreadyExists,
            Reason::RequestIdConflict,
            "the request_id was used for another request; a request id identifies one request only",
        )),
        _ => Ok(header),
    }
}

/// Appends under the fence.
pub(crate) fn append(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    id: &ThreadId,
    batch: Append,
    entries: Encoded,
) -> Result<Appended> {
    let before = threads::live(transaction, org, id)?.ok_or_else(|| Error::not_found("thread", id))?;
    let own_row = keys::batch(org, id, batch.batch);
    if transaction.contains(Space::Threads, &own_row)? {
        return Ok(Appended::Done(Box::new(before)));
    }
    let taken = request_row(transaction, org, id, &batch)?;
    let fenced = before.epoch != batch.fence.epoch || before.version != batch.fence.version;
    if fenced || taken.is_some() {
        return Ok(Appended::Refused { header: Box::new(before), request: taken });
    }
    let mut header = before.clone();
    if let Some((epoch, owner)) = batch.take {
        if epoch <= before.epoch {
            return Err(Error::internal(format!("epoch {epoch} is not above {}: epochs only grow", before.epoch)));
        }
        header.epoch = epoch;
        header.owner = Some(owner);
    }
    header.version += 1;
    header.updated_at = batch.at;
    apply(&mut header, batch.change);
    entries.write(transaction, &mut header)?;
    if let Some(row) = &batch.request {
        transaction.put(Space::Threads, keys::request(org, id, &row.request), row)?;
    }
    if let Some(row) = &batch.opens {
        transaction.put(Space::System, keys::open_turn(row), row)?;
    }
    transaction.put(Space::Threads, own_row, &Mark)?;
    threads::store(transaction, Some(&before), &header)?;
    Ok(Appended::Done(Box::new(header)))
}

fn apply(header: &mut ThreadHeader, change: HeaderChange) {
    let HeaderChange { open_turn, working, title, model, turns } = change;
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
}
