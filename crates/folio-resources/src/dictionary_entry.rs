//! Entries of the dictionary of an organization: terms, such as abbreviations, with their meaning.
//!
//! An entry is found by the key of its term ([`term_key`]), which is unique among the live entries of the organization.
//! Terms, meanings and tags may come from documents and models: they are hostile input.

use std::collections::HashSet;

use folio_types::op::Write;
use folio_types::{DocumentId, Error, OrgId, Reason, Result, Timestamp, UserId, plain_id};
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

use crate::fields::check_phrase;
use crate::resource::{changed_function, common_functions};
use crate::{Condition, ListRow, Plan, Resource, fields, folded, term};

/// Maximum length of a term, in characters.
// proto: DictionaryEntry.term "1 to {} characters"
pub const TERM_CHARS: usize = 100;
/// Maximum length of an expansion, in characters.
// proto: DictionaryEntry.expansion "1 to {} characters"
pub const EXPANSION_CHARS: usize = 500;
/// Maximum length of a disambiguation, in characters.
// proto: DictionaryEntry.disambiguation "at most {} characters"
pub const DISAMBIGUATION_CHARS: usize = 2_000;
/// Maximum number of tags of an entry.
// proto: DictionaryEntry.tags "at most {} tags"
// proto: ListDictionaryEntriesRequest.filter "up to {} times"
pub const ENTRY_TAGS_MAX: usize = 20;
/// Maximum length of a tag of an entry, in characters.
// proto: DictionaryEntry.tags "1 to {} characters"
pub const ENTRY_TAG_CHARS: usize = 50;
/// Maximum number of source documents of an entry.
// proto: DictionaryEntry.source_document_ids "at most {} documents"
// proto: ProposedDictionaryEntry.document_ids "at most {} documents"
pub const ENTRY_SOURCES_MAX: usize = 20;

/// Separates the tags of an entry in a CSV file.
pub const TAG_SEPARATOR: char = ';';

plain_id!(DictionaryEntryId, "dct", "dictionary entry");

/// Returns the key of a term: its compatibility composition (Unicode NFKC) with folded case and single blanks. Spellings
/// with the same key are the same term.
pub fn term_key(term: &str) -> String {
    let composed: String = term.nfkc().collect();
    let folded: String = folded(&composed).nfkc().collect();
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The origin of the meaning of a term.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// A person entered or confirmed the meaning.
    Person,
    /// An agent read the meaning in a document or in a message.
    Agent,
    /// A model inferred the meaning.
    Inferred {
        /// From 0 to 1.
        confidence: f64,
    },
}

impl Provenance {
    /// The names of the kinds, as filters and files contain them.
    pub const NAMES: [&str; 3] = ["person", "agent", "inferred"];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Agent => "agent",
            Self::Inferred { .. } => "inferred",
        }
    }

    /// Returns the confidence of an inferred meaning.
    pub fn confidence(self) -> Option<f64> {
        match self {
            Self::Inferred { confidence } => Some(confidence),
            Self::Person | Self::Agent => None,
        }
    }

    /// Returns the provenance with a name and a confidence.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the name is unknown, the confidence is not from 0 to 1, or another kind than `inferred` has one.
    pub fn parse(field: &str, name: &str, confidence: Option<f64>) -> Result<Self> {
        match (name, confidence) {
            ("person", None) => Ok(Self::Person),
            ("agent", None) => Ok(Self::Agent),
            ("inferred", Some(confidence)) if (0.0..=1.0).contains(&confidence) => Ok(Self::Inferred { confidence }),
            ("inferred", _) => Err(Error::invalid_field(field, "requires a confidence from 0 to 1")),
            ("person" | "agent", Some(_)) => {
                Err(Error::invalid_field(field, format!("{name} has no confidence; only an inferred meaning has one")))
            }
            _ => Err(Error::invalid_field(field, format!("expected one of {}", Self::NAMES.join(", ")))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DictionaryEntry {
    pub id: DictionaryEntryId,
    pub org: OrgId,
    /// The spelling of the term.
    pub term: String,
    /// The key of the term: see [`term_key`].
    pub key: String,
    /// The meaning in a few words, such as the words of an abbreviation.
    pub expansion: String,
    /// Text that distinguishes the meaning from others of the same term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disambiguation: Option<String>,
    /// Short texts such as a region or a business unit, without duplicates. They are no [`Tag`](crate::Tag).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Documents that contain the term with this meaning. A document may have been deleted since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<DocumentId>,
    pub provenance: Provenance,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDictionaryEntry {
    pub term: String,
    pub expansion: String,
    pub disambiguation: Option<String>,
    pub tags: Vec<String>,
    pub sources: Vec<DocumentId>,
    pub provenance: Provenance,
}

impl NewDictionaryEntry {
    /// Validates the content. `prefix` (`dictionary_entry.` or empty) precedes the field names in errors.
    pub fn checked(self, prefix: &str) -> Result<Self> {
        check_term(&format!("{prefix}term"), &self.term)?;
        check_phrase(&format!("{prefix}expansion"), &self.expansion, EXPANSION_CHARS)?;
        Ok(Self {
            disambiguation: checked_disambiguation(prefix, self.disambiguation)?,
            tags: checked_tags(prefix, self.tags)?,
            sources: checked_sources(prefix, self.sources)?,
            ..self
        })
    }
}

/// A change of the content of an entry. None: unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DictionaryEntryPatch {
    pub term: Option<String>,
    pub expansion: Option<String>,
    /// Inner None: removes the text.
    pub disambiguation: Option<Option<String>>,
    pub tags: Option<Vec<String>>,
    pub sources: Option<Vec<DocumentId>>,
    /// None: a change of the meaning makes the provenance [`Provenance::Person`].
    pub provenance: Option<Provenance>,
}

impl DictionaryEntryPatch {
    /// Validates the new values like [`NewDictionaryEntry::checked`].
    pub fn checked(self, prefix: &str) -> Result<Self> {
        if let Some(term) = &self.term {
            check_term(&format!("{prefix}term"), term)?;
        }
        if let Some(expansion) = &self.expansion {
            check_phrase(&format!("{prefix}expansion"), expansion, EXPANSION_CHARS)?;
        }
        Ok(Self {
            disambiguation: self.disambiguation.map(|text| checked_disambiguation(prefix, text)).transpose()?,
            tags: self.tags.map(|tags| checked_tags(prefix, tags)).transpose()?,
            sources: self.sources.map(|sources| checked_sources(prefix, sources)).transpose()?,
            ..self
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum DictionaryEntryChange {
    /// Creates an entry. The key of its term must be unique among the live entries of the organization.
    Create(Box<NewDictionaryEntry>),
    Update(Box<DictionaryEntryPatch>),
    /// Records the meaning that an agent found: creates an entry, or replaces the meaning of one that no person entered or
    /// confirmed. Tags and sources are added to those of the entry.
    Learn(Box<NewDictionaryEntry>),
    Delete,
}

/// All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DictionaryEntryFilter {
    /// Part of the term, in any spelling.
    pub term_search: Option<String>,
    /// The whole term, in any spelling.
    pub term: Option<String>,
    /// Tags, in any spelling. The entry must have all of them.
    pub all_tags: Vec<String>,
    /// The name of a kind of provenance.
    pub provenance: Option<String>,
}

/// Validates the spelling of a term. Its key must not be longer than a term, either.
pub fn check_term(field: &str, term: &str) -> Result<()> {
    check_phrase(field, term, TERM_CHARS)?;
    fields::at_most(field, &term_key(term), TERM_CHARS)
}

fn checked_disambiguation(prefix: &str, text: Option<String>) -> Result<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let text = fields::paragraph(&format!("{prefix}disambiguation"), &text, DISAMBIGUATION_CHARS)?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// Returns the tags without duplicates, in the given order.
fn checked_tags(prefix: &str, tags: Vec<String>) -> Result<Vec<String>> {
    let field = format!("{prefix}tags");
    if tags.len() > ENTRY_TAGS_MAX {
        return Err(Error::invalid_field(field, format!("has more than {ENTRY_TAGS_MAX} elements")));
    }
    for (index, tag) in tags.iter().enumerate() {
        let field = format!("{field}[{index}]");
        check_phrase(&field, tag, ENTRY_TAG_CHARS)?;
        if tag.contains(TAG_SEPARATOR) {
            return Err(Error::invalid_field(field, format!("must not contain {TAG_SEPARATOR:?}")));
        }
    }
    Ok(merged(Vec::new(), tags, usize::MAX, |tag| term_key(tag)))
}

/// Returns the documents without duplicates, in the given order.
fn checked_sources(prefix: &str, sources: Vec<DocumentId>) -> Result<Vec<DocumentId>> {
    if sources.len() > ENTRY_SOURCES_MAX {
        let problem = format!("has more than {ENTRY_SOURCES_MAX} elements");
        return Err(Error::invalid_field(format!("{prefix}source_document_ids"), problem));
    }
    Ok(merged(Vec::new(), sources, usize::MAX, Clone::clone))
}

/// Returns the first `max` elements of two lists together, without duplicates.
fn merged<T, K: std::hash::Hash + Eq>(first: Vec<T>, second: Vec<T>, max: usize, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut seen = HashSet::new();
    first.into_iter().chain(second).filter(|element| seen.insert(key(element))).take(max).collect()
}

impl DictionaryEntry {
    changed_function!();

    /// Returns true if an agent may replace the meaning: no person entered or confirmed it.
    pub fn is_learnable(&self) -> bool {
        self.provenance != Provenance::Person
    }

    /// Returns the error of a change by an agent to an entry that a person entered or confirmed.
    pub fn confirmed_error(&self) -> Error {
        let message = format!(
            "the meaning of {:?} was entered or confirmed by a person and can only be changed by a person: {:?}",
            self.term, self.expansion
        );
        Error::precondition(Reason::NameTaken, message)
    }

    fn created(id: &DictionaryEntryId, write: &Write<DictionaryEntryChange>, new: &NewDictionaryEntry) -> Self {
        let NewDictionaryEntry { term, expansion, disambiguation, tags, sources, provenance } = new.clone();
        Self {
            id: id.clone(),
            org: write.org.clone(),
            key: term_key(&term),
            term,
            expansion,
            disambiguation,
            tags,
            sources,
            provenance,
            created_by: write.by.clone(),
            created_at: write.at,
            updated_at: write.at,
            version: 1,
        }
    }

    fn patched(&self, patch: &DictionaryEntryPatch) -> Self {
        let mut entry = self.clone();
        if let Some(term) = &patch.term {
            (entry.term, entry.key) = (term.clone(), term_key(term));
        }
        entry.expansion.clone_from(patch.expansion.as_ref().unwrap_or(&self.expansion));
        entry.disambiguation.clone_from(patch.disambiguation.as_ref().unwrap_or(&self.disambiguation));
        entry.tags.clone_from(patch.tags.as_ref().unwrap_or(&self.tags));
        entry.sources.clone_from(patch.sources.as_ref().unwrap_or(&self.sources));
        let has_other_meaning = entry.expansion != self.expansion || entry.disambiguation != self.disambiguation;
        let implied = if has_other_meaning { Provenance::Person } else { self.provenance };
        entry.provenance = patch.provenance.unwrap_or(implied);
        entry
    }

    /// The term keeps its spelling. An omitted disambiguation remains.
    fn learned(&self, new: &NewDictionaryEntry) -> Result<Self> {
        if !self.is_learnable() {
            return Err(self.confirmed_error());
        }
        let NewDictionaryEntry { expansion, disambiguation, tags, sources, provenance, .. } = new.clone();
        let entry = self.clone();
        Ok(Self {
            expansion,
            disambiguation: disambiguation.or(entry.disambiguation),
            tags: merged(entry.tags, tags, ENTRY_TAGS_MAX, |tag| term_key(tag)),
            sources: merged(entry.sources, sources, ENTRY_SOURCES_MAX, Clone::clone),
            provenance,
            ..entry
        })
    }
}

impl Resource for DictionaryEntry {
    type Change = DictionaryEntryChange;
    type Filter = DictionaryEntryFilter;
    const KIND: &'static str = "dictionary_entry";
    const DELETE: DictionaryEntryChange = DictionaryEntryChange::Delete;

    common_functions!(DictionaryEntryId);

    fn label(&self) -> &str {
        &self.term
    }

    fn unique_name(&self) -> Option<&str> {
        Some(&self.key)
    }

    fn list_row(&self) -> ListRow {
        let tags = self.tags.iter().map(|tag| term("tag", term_key(tag)));
        let terms = tags.chain([term("provenance", self.provenance.name())]).collect();
        ListRow { id: self.id.to_string(), name: self.key.clone(), terms, ..ListRow::default() }
    }

    fn conditions(filter: &DictionaryEntryFilter) -> Vec<Condition> {
        let any = |field: &str, value: &str| Condition::AnyTerm(vec![term(field, value)]);
        let (search, whole) = (filter.term_search.as_deref().map(term_key), filter.term.as_deref().map(term_key));
        let tags = filter.all_tags.iter().map(|tag| any("tag", &term_key(tag)));
        let provenance = filter.provenance.iter().map(|name| any("provenance", name));
        Condition::names(search.as_ref(), whole.as_ref()).chain(tags).chain(provenance).collect()
    }

    fn apply(id: &DictionaryEntryId, write: &Write<DictionaryEntryChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |entry: Self| Ok(Plan::stored(entry));
        match (&write.change, before) {
            (DictionaryEntryChange::Create(new) | DictionaryEntryChange::Learn(new), None) => {
                done(Self::created(id, write, new))
            }
            (DictionaryEntryChange::Update(patch), Some(before)) => {
                done(before.patched(patch).changed(&before, write.at))
            }
            (DictionaryEntryChange::Learn(new), Some(before)) => done(before.learned(new)?.changed(&before, write.at)),
            (DictionaryEntryChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests;
