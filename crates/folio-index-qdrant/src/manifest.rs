//! Points that record the state of an organization's index and of each of its documents.

use std::collections::BTreeMap;

use folio_index::IndexState;
use folio_types::{DocumentId, OrgId};

use crate::wire::{
    Payload, PointId, PointStruct, get_integer, get_text, get_texts, integer, key, point, point_id, text, texts,
};

/// Version of the payloads, the words and their weights. A change of any of these increments it.
const FORMAT: i64 = 1;

/// The kind of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Organization,
    Document,
    Passage,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Organization => "organization",
            Self::Document => "document",
            Self::Passage => "passage",
        }
    }
}

/// Returns the keys that every point of an organization has.
pub(crate) fn payload_of(org: &OrgId, kind: Kind) -> Payload {
    [(key::ORG.to_owned(), text(org.as_str())), (key::KIND.to_owned(), text(kind.as_str()))].into()
}

/// The stored state of the index of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredState {
    /// Points are being removed. The index counts as missing, and a crash leaves this state.
    Emptying,
    Rebuilding,
    Ready,
}

impl StoredState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Emptying => "emptying",
            Self::Rebuilding => "rebuilding",
            Self::Ready => "ready",
        }
    }
}

pub(crate) fn org_point_id(org: &OrgId) -> PointId {
    point_id(&[Kind::Organization.as_str(), org.as_str()])
}

/// Returns the point that records the state of an index, with the number of its rebuild.
pub(crate) fn org_point(org: &OrgId, state: StoredState, rebuild: u64) -> PointStruct {
    let mut payload = payload_of(org, Kind::Organization);
    payload.insert(key::TOKEN.to_owned(), text(&rebuild.to_string()));
    payload.insert(key::STATE.to_owned(), text(state.as_str()));
    payload.insert(key::FORMAT.to_owned(), integer(FORMAT));
    point(org_point_id(org), payload, BTreeMap::new())
}

/// Returns the state that the point of an organization records. None: there is no point.
pub(crate) fn state_of(payload: Option<&Payload>) -> IndexState {
    let Some(payload) = payload else { return IndexState::Missing };
    // Another version may have other states, so its version is read first.
    match get_integer(payload, key::FORMAT) {
        None => return IndexState::Torn,
        Some(FORMAT) => {}
        Some(_) => return IndexState::OtherVersion,
    }
    let stored = [StoredState::Emptying, StoredState::Rebuilding, StoredState::Ready];
    match stored.into_iter().find(|state| get_text(payload, key::STATE) == Some(state.as_str())) {
        Some(StoredState::Emptying) => IndexState::Missing,
        Some(StoredState::Rebuilding) => IndexState::Rebuilding,
        Some(StoredState::Ready) => IndexState::Ready,
        None => IndexState::Torn,
    }
}

/// The record of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentRecord {
    pub(crate) document: DocumentId,
    /// The live generation. 0: none was stored yet.
    pub(crate) generation: u64,
    /// Number of live passages.
    pub(crate) passages: u32,
    /// The write whose passages are live. None: no passage of the document can be found.
    pub(crate) live: Option<String>,
    /// All writes that may have points, also the live one.
    pub(crate) writes: Vec<String>,
    /// Changes with each change of the record.
    pub(crate) token: String,
}

pub(crate) fn document_point_id(org: &OrgId, document: &DocumentId) -> PointId {
    point_id(&[Kind::Document.as_str(), org.as_str(), document.as_str()])
}

/// Returns the position of a document in the order of ids: the first half of its digits. A few documents may have
/// equal positions.
pub(crate) fn order_of(document: &DocumentId) -> i64 {
    let digits = document.as_str().split('_').next_back().and_then(|digits| digits.get(..16));
    let position = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    (position ^ (1 << 63)).cast_signed()
}

impl DocumentRecord {
    pub(crate) fn point(&self, org: &OrgId) -> PointStruct {
        let mut payload = payload_of(org, Kind::Document);
        payload.insert(key::DOCUMENT.to_owned(), text(self.document.as_str()));
        payload.insert(key::ORDER.to_owned(), integer(order_of(&self.document)));
        payload.insert(key::GENERATION.to_owned(), text(&self.generation.to_string()));
        payload.insert(key::PASSAGES.to_owned(), integer(self.passages.into()));
        payload.insert(key::WRITES.to_owned(), texts(self.writes.iter().map(String::as_str)));
        payload.insert(key::TOKEN.to_owned(), text(&self.token));
        if let Some(live) = &self.live {
            payload.insert(key::LIVE.to_owned(), text(live));
        }
        point(document_point_id(org, &self.document), payload, BTreeMap::new())
    }

    /// Reads a record. None: the payload is damaged, or of another kind.
    pub(crate) fn read(payload: &Payload) -> Option<Self> {
        if get_text(payload, key::KIND) != Some(Kind::Document.as_str()) {
            return None;
        }
        Some(Self {
            document: get_text(payload, key::DOCUMENT)?.parse().ok()?,
            generation: get_text(payload, key::GENERATION)?.parse().ok()?,
            passages: get_integer(payload, key::PASSAGES)?.try_into().ok()?,
            live: get_text(payload, key::LIVE).map(str::to_owned),
            writes: get_texts(payload, key::WRITES)?,
            token: get_text(payload, key::TOKEN)?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_records_its_state_or_is_damaged() {
        let org = OrgId::derive(&["a"]);
        let payload = |state| org_point(&org, state, 1).payload;
        assert_eq!(state_of(None), IndexState::Missing);
        for (stored, expected) in [
            (StoredState::Emptying, IndexState::Missing),
            (StoredState::Rebuilding, IndexState::Rebuilding),
            (StoredState::Ready, IndexState::Ready),
        ] {
            assert_eq!(state_of(Some(&payload(stored))), expected);
        }
        let mut other = payload(StoredState::Ready);
        other.insert(key::STATE.to_owned(), text("other"));
        assert_eq!(state_of(Some(&other)), IndexState::Torn);
        other.insert(key::FORMAT.to_owned(), integer(FORMAT + 1));
        assert_eq!(state_of(Some(&other)), IndexState::OtherVersion);
        other.remove(key::FORMAT);
        assert_eq!(state_of(Some(&other)), IndexState::Torn);
    }

    #[test]
    fn a_record_is_read_from_its_point() {
        let org = OrgId::derive(&["a"]);
        let record = DocumentRecord {
            document: DocumentId::derive(&["a"]),
            generation: u64::MAX,
            passages: 3,
            live: None,
            writes: vec!["a".to_owned(), "b".to_owned()],
            token: "t".to_owned(),
        };
        for record in [DocumentRecord { live: Some("a".to_owned()), ..record.clone() }, record] {
            let mut payload = record.point(&org).payload;
            assert_eq!(DocumentRecord::read(&payload), Some(record));
            payload.remove(key::TOKEN);
            assert_eq!(DocumentRecord::read(&payload), None);
        }
        assert_eq!(DocumentRecord::read(&org_point(&org, StoredState::Ready, 1).payload), None);
    }

    #[test]
    fn positions_are_in_the_order_of_ids() {
        let ids = (0..100).map(|number: u32| DocumentId::derive(&[&number.to_string()]));
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        let positions: Vec<_> = ids.iter().map(order_of).collect();
        assert!(positions.is_sorted(), "{positions:?}");
    }
}
