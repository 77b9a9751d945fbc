//! The messages of Qdrant, and constructors of the parts that requests contain.

use std::collections::BTreeMap;

use folio_types::uuid_of_parts;

mod generated {
    #![allow(unreachable_pub, dead_code, clippy::all, reason = "generated code")]
    tonic::include_proto!("qdrant");
}

pub(crate) use generated::*;

/// Keys of payloads.
pub(crate) mod key {
    pub(crate) const ORG: &str = "org";
    pub(crate) const KIND: &str = "kind";
    pub(crate) const DOCUMENT: &str = "document";
    pub(crate) const GENERATION: &str = "generation";
    pub(crate) const NUMBER: &str = "number";
    pub(crate) const PASSAGES: &str = "passages";
    /// The write that stored a passage.
    pub(crate) const WRITE: &str = "write";
    /// The write whose passages are live. Missing: none.
    pub(crate) const LIVE: &str = "live";
    /// The writes that may have points.
    pub(crate) const WRITES: &str = "writes";
    /// Changes with each change of a document point. Of an organization: the number of the rebuild.
    pub(crate) const TOKEN: &str = "token";
    /// Position of a document in the order of ids.
    pub(crate) const ORDER: &str = "order";
    pub(crate) const TAGS: &str = "tags";
    pub(crate) const METADATA: &str = "metadata";
    pub(crate) const LANGUAGE: &str = "language";
    pub(crate) const DATE: &str = "date";
    pub(crate) const STATE: &str = "state";
    pub(crate) const FORMAT: &str = "format";

    /// Keys with an index of texts, except [`ORG`].
    pub(crate) const KEYWORDS: &[&str] = &[KIND, DOCUMENT, WRITE, TOKEN, TAGS, METADATA, LANGUAGE, STATE];
    /// Keys with an index of numbers.
    pub(crate) const NUMBERS: &[&str] = &[ORDER, DATE];
}

pub(crate) type Payload = BTreeMap<String, Value>;

pub(crate) fn text(text: &str) -> Value {
    Value { kind: Some(value::Kind::StringValue(text.to_owned())) }
}

pub(crate) fn integer(number: i64) -> Value {
    Value { kind: Some(value::Kind::IntegerValue(number)) }
}

pub(crate) fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Value {
    Value { kind: Some(value::Kind::ListValue(ListValue { values: texts.map(text).collect() })) }
}

fn text_of(value: &Value) -> Option<&str> {
    match &value.kind {
        Some(value::Kind::StringValue(text)) => Some(text),
        _ => None,
    }
}

/// Returns the text of a payload. None: it is missing, or no text.
pub(crate) fn get_text<'a>(payload: &'a Payload, key: &str) -> Option<&'a str> {
    text_of(payload.get(key)?)
}

/// Returns the number of a payload. None: it is missing, or no number.
pub(crate) fn get_integer(payload: &Payload, key: &str) -> Option<i64> {
    match payload.get(key)?.kind {
        Some(value::Kind::IntegerValue(number)) => Some(number),
        _ => None,
    }
}

/// Returns the texts of a list. None: it is missing, or no list of texts.
pub(crate) fn get_texts(payload: &Payload, key: &str) -> Option<Vec<String>> {
    match &payload.get(key)?.kind {
        Some(value::Kind::ListValue(list)) => {
            list.values.iter().map(|value| text_of(value).map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// Returns the id of a point, which follows from the parts of its identity.
pub(crate) fn point_id(parts: &[&str]) -> PointId {
    let uuid = uuid_of_parts(parts).to_string();
    PointId { point_id_options: Some(point_id::PointIdOptions::Uuid(uuid)) }
}

/// Returns a point. The server refuses points without a map of vectors, which may be empty.
pub(crate) fn point(id: PointId, payload: Payload, vectors: BTreeMap<String, Vector>) -> PointStruct {
    let vectors = vectors::VectorsOptions::Vectors(NamedVectors { vectors });
    PointStruct { id: Some(id), payload, vectors: Some(Vectors { vectors_options: Some(vectors) }) }
}

pub(crate) fn dense(values: Vec<f32>) -> DenseVector {
    DenseVector { data: values }
}

pub(crate) fn sparse(weights: &BTreeMap<u32, f32>) -> SparseVector {
    SparseVector { values: weights.values().copied().collect(), indices: weights.keys().copied().collect() }
}

/// Returns the selection of some keys of payloads.
pub(crate) fn payload_keys(keys: &[&str]) -> WithPayloadSelector {
    let fields = keys.iter().map(|key| (*key).to_owned()).collect();
    let include = with_payload_selector::SelectorOptions::Include(PayloadIncludeSelector { fields });
    WithPayloadSelector { selector_options: Some(include) }
}

pub(crate) fn whole_payload() -> WithPayloadSelector {
    WithPayloadSelector { selector_options: Some(with_payload_selector::SelectorOptions::Enable(true)) }
}
