//! The query parameters of the list of documents, and the states that clients know.

use std::collections::BTreeMap;

use folio_operations::ListRequest;
use folio_operations::documents::DocumentPage;
use folio_operations::filter::quote;
use folio_operations::grid::{Grid, GridFilter, GridOperator};
use folio_resources::Document;
use folio_types::DocumentId;
use futures::TryFutureExt as _;
use serde::Deserialize;
use utoipa::ToSchema;

use super::documents::tags;
use super::extract::Bounded;
use super::failure::Failure;
use super::grid::{self, Field};
use super::list::{RowPage, Skip, rows, to_i32};

/// The column with the stage of a document.
pub(super) const STAGE: &str = "stage";
/// The largest `total_size` of a list without a grid that is exact.
const EXACT_MAX: u64 = 1_024;
/// A stage that no document has.
const NO_STAGE: &str = "none";

/// The stages of documents with the states of clients, in the order of the operation. The states are in descending order.
const STATES: [(&str, &str); 6] = [
    ("uploaded", "ocr_processing"),
    ("processing", "ocr_processing"),
    ("failed", "ocr_failed"),
    ("no_text", "ocr_completed"),
    ("ready", "ocr_completed"),
    ("extracted", "llm_completed"),
];

/// The query parameters of the list of documents.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct DocumentQuery {
    /// Number of documents before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of documents of the page, at most 1,000.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 10)]
    limit: Bounded<1, 1_000, 10>,
    /// Ids of tags, separated by commas. A document must have all of them.
    tag_ids: Option<String>,
    /// Id of a mail, an archive or a split PDF. The documents must be parts of it.
    parent_id: Option<String>,
    /// Part of the name, without regard to case.
    name_search: Option<String>,
    /// Pairs `key=value`, separated by commas, each of which is percent-encoded. A document must have all of them.
    metadata_search: Option<String>,
    /// Sort model of a data grid as JSON: `[{"field": "upload_date", "sort": "asc"}]`.
    sort: Option<String>,
    /// Filter model of a data grid as JSON: `{"items": [{"field": "state", "operator": "equals", "value": "ocr_failed"}]}`.
    filters: Option<String>,
}

impl DocumentQuery {
    /// Returns a page of the documents that `read` lists. A list that is too large for an exact total is read with a grid.
    ///
    /// # Errors
    /// Those of [`DocumentQuery::filter`], [`DocumentQuery::grid`] and `read`.
    pub(super) async fn page<F>(
        &self,
        fields: &[Field],
        read: impl Fn(ListRequest) -> F,
    ) -> Result<RowPage<Document>, Failure>
    where
        F: Future<Output = Result<DocumentPage, Failure>>,
    {
        let read = |request: ListRequest| read(request).map_ok(|found| found.page);
        let (skip, limit) = (to_i32(self.skip.0), self.limit.0 as usize);
        let request = ListRequest { skip, filter: self.filter()?, grid: self.grid(fields)?, ..ListRequest::default() };
        let has_grid = request.grid.is_some();
        let mut page = rows(request.clone(), limit, &read).await?;
        if !has_grid && page.total_size > EXACT_MAX {
            page = rows(ListRequest { grid: Some(Grid::default()), ..request }, limit, &read).await?;
        }
        Ok(RowPage { rows: page.items, total_count: page.total_size, skip: self.skip.0 })
    }

    /// Returns the filter of the operation with the tags, the metadata and the parent.
    ///
    /// # Errors
    /// Status 400 if the id of a tag or of the parent is malformed.
    fn filter(&self) -> Result<String, Failure> {
        let ids = self.tag_ids.as_deref().unwrap_or_default().split(',').map(str::trim).filter(|id| !id.is_empty());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        let tags = tags(&ids)?.into_iter().map(|id| format!("tag:{id}"));
        let pairs = metadata(self.metadata_search.as_deref().unwrap_or_default());
        let pairs = pairs.iter().map(|(key, value)| format!("metadata.{}={}", quote(key), quote(value)));
        let parent = self.parent_id.as_deref().filter(|id| !id.is_empty());
        let parent = parent.map(|id| id.parse::<DocumentId>()).transpose();
        let parent = parent.map_err(|_| Failure::bad_request("Invalid document ID".to_owned()))?;
        let parent = parent.map(|id| format!("parent={id}"));
        Ok(tags.chain(pairs).chain(parent).collect::<Vec<_>>().join(" "))
    }

    /// Returns the grid of the operation. A list with metadata has one, because without a grid its pages may be incomplete.
    ///
    /// # Errors
    /// Status 400 if a model is malformed.
    fn grid(&self, fields: &[Field]) -> Result<Option<Grid>, Failure> {
        let grid = grid::parse(self.name_search.as_deref(), self.sort.as_deref(), self.filters.as_deref(), fields)?;
        let has_metadata = !metadata(self.metadata_search.as_deref().unwrap_or_default()).is_empty();
        Ok(grid.or_else(|| has_metadata.then(Grid::default)).map(by_stage))
    }
}

/// Returns the state of a stage.
pub(super) fn state_of(stage: &str) -> &'static str {
    STATES.iter().find(|(known, _)| *known == stage).map_or("ocr_processing", |(_, state)| *state)
}

/// Parses `metadata_search`. A pair without `=` or with an empty key is ignored, and a broken escape is a part of the text.
fn metadata(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').map(|pair| percent_decoded(pair.trim_start()));
    let pairs = pairs.filter_map(|pair| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())));
    pairs.filter(|(key, _)| !key.is_empty()).collect()
}

/// Decodes `%XX`, and no other escape of a form.
fn percent_decoded(text: &str) -> String {
    let escaped = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    let decoded = form_urlencoded::parse(escaped.as_bytes()).next();
    decoded.map(|(name, _)| name.into_owned()).unwrap_or_default()
}

/// Translates filters and sort keys of states to those of stages.
fn by_stage(grid: Grid) -> Grid {
    let mut grid = grid;
    for key in grid.sort.iter_mut().filter(|key| key.field == STAGE) {
        key.descending = !key.descending;
    }
    for filter in grid.filters.iter_mut().filter(|filter| filter.field == STAGE) {
        let stages = STATES.iter().filter(|(_, state)| has_state(filter, state));
        let mut stages: Vec<String> = stages.map(|(stage, _)| (*stage).to_owned()).collect();
        if stages.is_empty() {
            stages.push(NO_STAGE.to_owned());
        }
        (filter.operator, filter.values) = (GridOperator::IsAnyOf, stages);
    }
    grid
}

/// Returns true if a state matches a filter.
fn has_state(filter: &GridFilter, state: &str) -> bool {
    let value = filter.values.first().map(String::as_str).unwrap_or_default();
    let folded = value.to_lowercase();
    match filter.operator {
        GridOperator::Contains => state.contains(&folded),
        GridOperator::DoesNotContain => !state.contains(&folded),
        GridOperator::StartsWith => state.starts_with(&folded),
        GridOperator::EndsWith => state.ends_with(&folded),
        GridOperator::Equals => state == value,
        GridOperator::DoesNotEqual => state != value,
        GridOperator::IsAnyOf => filter.values.iter().any(|value| value == state),
        GridOperator::IsEmpty => false,
        // Every document has a state, and no operator of times belongs to a text.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use folio_operations::grid::GridSort;

    use super::*;

    #[test]
    fn metadata_is_decoded_pair_by_pair() {
        for (text, expected) in [
            ("", &[][..]),
            ("a=b, c=d e", &[("a", "b"), ("c", "d e")]),
            ("a%20b%3Dx%2Cy", &[("a b", "x,y")]),
            ("a=b=c,empty=,blank=%20", &[("a", "b=c"), ("blank", " "), ("empty", "")]),
            ("a+b=c&d", &[("a+b", "c&d")]),
            ("none,=x,broken=100%,%zz=1", &[("%zz", "1"), ("broken", "100%")]),
            ("%C3%BC=%FF", &[("ü", "\u{fffd}")]),
        ] {
            let expected: BTreeMap<String, String> =
                expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            assert_eq!(metadata(text), expected, "{text}");
        }
    }

    #[test]
    fn a_filter_has_tags_and_exact_metadata() {
        let tag = folio_types::TagId::derive(&["a"]);
        let parse = |tag_ids: &str, metadata: &str| {
            let parameters = [("tag_ids", tag_ids), ("metadata_search", metadata)];
            let query = serde_json::to_value(BTreeMap::from(parameters)).unwrap();
            serde_json::from_value::<DocumentQuery>(query).unwrap().filter()
        };
        assert_eq!(parse("", "").unwrap(), "");
        assert_eq!(parse(&format!("{tag}, {tag},"), "").unwrap(), format!("tag:{tag} tag:{tag}"));
        let text = parse("", r#"a b=x"\y"#).unwrap();
        assert_eq!(text, r#"metadata."a b"="x\"\\y""#);
        let conditions = folio_operations::filter::parse(&text).unwrap();
        assert_eq!((conditions[0].field.as_str(), conditions[0].value.as_str()), ("metadata.a b", r#"x"\y"#));
        assert!(parse("nonsense", "").is_err());
    }

    #[test]
    fn states_select_and_order_stages() {
        use GridOperator as Op;
        assert!(STATES.map(|(_, state)| state).windows(2).all(|pair| pair[0] >= pair[1]));
        let stages = |operator: GridOperator, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            let filter = GridFilter { field: STAGE.to_owned(), operator, values };
            let other = GridFilter { field: "name".to_owned(), ..filter.clone() };
            let grid = by_stage(Grid { filters: vec![filter, other.clone()], ..Grid::default() });
            assert_eq!(grid.filters[1], other);
            assert_eq!(grid.filters[0].operator, GridOperator::IsAnyOf);
            grid.filters[0].values.join(" ")
        };
        for (operator, values, expected) in [
            (Op::Equals, &["ocr_completed"][..], "no_text ready"),
            (Op::Equals, &["OCR_completed"], "none"),
            (Op::DoesNotEqual, &["ocr_completed"], "uploaded processing failed extracted"),
            (Op::Contains, &["LLM"], "extracted"),
            (Op::DoesNotContain, &["completed"], "uploaded processing failed"),
            (Op::StartsWith, &["ocr_p"], "uploaded processing"),
            (Op::EndsWith, &["failed"], "failed"),
            (Op::IsAnyOf, &["ocr_failed", "llm_completed"], "failed extracted"),
            (Op::IsEmpty, &[], "none"),
            (Op::IsNotEmpty, &[], "uploaded processing failed no_text ready extracted"),
        ] {
            assert_eq!(stages(operator, values), expected, "{operator:?} {values:?}");
        }
        let sort = ["name", STAGE].map(|field| GridSort { field: field.to_owned(), descending: false });
        let grid = by_stage(Grid { sort: sort.to_vec(), ..Grid::default() });
        assert_eq!(grid.sort.iter().map(|key| key.descending).collect::<Vec<_>>(), [false, true]);
    }
}
