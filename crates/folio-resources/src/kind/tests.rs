//! The indexed fields, filters and ids of every kind.

use folio_types::op::Target;
use folio_types::{DocumentId, PromptId, PromptRevId, SchemaId, SchemaRevId, TagId};

use super::*;
use crate::golden::{at, document, extraction, model_settings, organization, prompt, schema, tag, token, user};
use crate::{
    Condition, CreationPeriod, DocumentFilter, Extraction, ExtractionFilter, ModelSettings, OrganizationFilter, Prompt,
    PromptFilter, Schema, SchemaFilter, Tag, TagFilter,
};

#[test]
fn names_and_id_prefixes_of_kinds_are_unique() {
    let names: BTreeSet<_> = KINDS.iter().map(|kind| kind.name).collect();
    let prefixes: BTreeSet<_> = KINDS.iter().map(|kind| kind.id_prefix).collect();
    assert_eq!((names.len(), prefixes.len()), (KINDS.len(), KINDS.len()));
    for (index, kind) in KINDS.iter().enumerate() {
        assert_eq!(Kind::of_id(&format!("{}_0", kind.id_prefix)).unwrap(), kind);
        assert_eq!(Kind::by_name(kind.name), Some(kind));
        assert_eq!(KINDS.iter().position(|other| other == kind), Some(index));
        assert_eq!(format!("{kind:?}"), kind.name);
    }
    assert!(Kind::of_id("thr_0").is_err());
}

#[test]
fn a_tombstone_keeps_version_and_time_only() {
    for kind in KINDS {
        let stored = kind.tombstone(7, at()).unwrap();
        assert_eq!(kind.read(&stored).unwrap(), Record::Tombstone { version: 7, at: at() });
        assert!(!kind.is_live(&stored).unwrap());
    }
}

/// Returns the fields of a resource that is listed by its label, without unique name, references, revisions and parent.
fn plain(id: impl ToString, version: u64, label: &str) -> IndexedFields {
    IndexedFields {
        version,
        created_at: at(),
        label: label.to_owned(),
        unique_name: None,
        references: BTreeSet::new(),
        named_revisions: BTreeSet::new(),
        parent: None,
        revision: None,
        row: ListRow { id: id.to_string(), name: label.to_owned(), ..ListRow::default() },
    }
}

/// Returns the fields of a resource whose label is unique.
fn named(id: impl ToString, version: u64, label: &str) -> IndexedFields {
    IndexedFields { unique_name: Some(label.to_owned()), ..plain(id, version, label) }
}

#[test]
fn names_references_and_list_rows_are_derived_from_the_newest_revision() {
    let (tag, schema, prompt, document, extraction) = (tag(), schema(), prompt(), document(), extraction());
    let token = token();
    let tag_term = BTreeSet::from([format!("tag/{}", tag.id)]);
    let with = |mut fields: IndexedFields, change: &dyn Fn(&mut IndexedFields)| {
        change(&mut fields);
        fields
    };
    let of_schema = with(named(&schema.id, 9, "Invoice"), &|fields| fields.revision = Some(2));
    let of_prompt = with(named(&prompt.id, 9, "Read invoices"), &|fields| {
        fields.references = [tag.id.to_string(), schema.id.to_string()].into();
        fields.named_revisions = [(schema.id.to_string(), 2)].into();
        fields.revision = Some(3);
        fields.row.terms = tag_term.clone();
    });
    let of_document = with(plain(&document.id, 4, "invoice.pdf"), &|fields| {
        fields.references = [tag.id.to_string()].into();
        fields.row.terms = tag_term.clone();
        fields.row.metadata = [("customer".to_owned(), "Äcme".to_owned())].into();
        fields.row.size_bytes = 1234;
    });
    let of_extraction = with(plain(&extraction.id, 3, ""), &|fields| {
        let parent = document.id.to_string();
        fields.row.terms = [
            format!("of/{parent}"),
            format!("of/{parent}/{}.3", prompt.id),
            format!("prompt/{}", prompt.id),
            format!("prompt/{}.3", prompt.id),
            format!("schema/{}", schema.id),
            format!("schema/{}.2", schema.id),
            "verified/true".to_owned(),
        ]
        .into();
        fields.row.created_at = Some(at());
        (fields.parent, fields.row.parent) = (Some(parent.clone()), Some(parent));
        fields.named_revisions = extraction.named_revisions();
        assert!(fields.named_revisions.contains(&(prompt.id.to_string(), 3)));
    });
    let of_token = with(plain(&token.id, 1, "for a test"), &|fields| {
        fields.row.terms = [format!("user/{}", user())].into();
    });
    for (fields, expected) in [
        (IndexedFields::of(&tag), named(&tag.id, 2, "invoice")),
        (IndexedFields::of(&schema), of_schema),
        (IndexedFields::of(&prompt), of_prompt),
        (IndexedFields::of(&document), of_document),
        (IndexedFields::of(&extraction), of_extraction),
        (IndexedFields::of(&organization()), plain(organization().id, 3, "Äcme")),
        (IndexedFields::of(&model_settings()), plain(ModelSettings::fixed_id(), 3, "")),
        (IndexedFields::of(&token), of_token),
    ] {
        assert_eq!(fields.unwrap(), expected);
    }
}

#[test]
fn only_revisions_of_prompts_reference_other_resources() {
    let (_, stored) = schema().newest_revision().unwrap().unwrap();
    for kind in KINDS.iter().filter(|kind| kind.name != Prompt::KIND) {
        assert_eq!(kind.revision_references(&stored).unwrap(), BTreeSet::new(), "{kind:?}");
    }
    let (_, stored) = prompt().newest_revision().unwrap().unwrap();
    let references = Kind::by_name(Prompt::KIND).unwrap().revision_references(&stored).unwrap();
    let schema = prompt().latest.schema.unwrap().of.to_string();
    assert!(references.contains(&schema), "{references:?}");
}

#[test]
fn only_lists_of_extractions_have_a_parent() {
    let of_document = ExtractionFilter { document: Some(document().id), ..ExtractionFilter::default() };
    assert_eq!(Extraction::parent_in(&of_document), Some(document().id.to_string()));
    assert_eq!(Extraction::parent_in(&ExtractionFilter::default()), None);
    assert_eq!((Tag::parent_in(&TagFilter::default()), ModelSettings::parent_in(&())), (None, None));
}

#[test]
fn a_filter_matches_the_resources_that_fulfil_all_its_conditions() {
    fn matches<R: Resource>(resource: &R, filter: &R::Filter) -> bool {
        resource.list_row().matches(&R::conditions(filter))
    }
    let search = |text: &str| Some(text.to_owned());
    for (text, expected) in [("INVOICE", true), ("order", false)] {
        let name_search = search(text);
        let found = [
            matches(&tag(), &TagFilter { name_search: name_search.clone(), ..TagFilter::default() }),
            matches(&schema(), &SchemaFilter { name_search: name_search.clone(), ..SchemaFilter::default() }),
            matches(&prompt(), &PromptFilter { name_search: name_search.clone(), ..PromptFilter::default() }),
            matches(&document(), &DocumentFilter { name_search, ..DocumentFilter::default() }),
        ];
        assert_eq!(found, [expected; 4], "{text}");
    }
    let name_of_tag = Some(tag().name);
    let found = [
        matches(&tag(), &TagFilter { name: name_of_tag.clone(), ..TagFilter::default() }),
        matches(&tag(), &TagFilter { name: Some("Invoice".to_owned()), ..TagFilter::default() }),
        matches(&schema(), &SchemaFilter { name: Some("Invoice".to_owned()), ..SchemaFilter::default() }),
        matches(&schema(), &SchemaFilter { name: name_of_tag.clone(), ..SchemaFilter::default() }),
        matches(&prompt(), &PromptFilter { name: Some("Read invoices".to_owned()), ..PromptFilter::default() }),
        matches(&prompt(), &PromptFilter { name: Some("read invoices".to_owned()), ..PromptFilter::default() }),
        matches(&document(), &DocumentFilter { name: Some("invoice.pdf".to_owned()), ..DocumentFilter::default() }),
        matches(&document(), &DocumentFilter { name: Some("Invoice.pdf".to_owned()), ..DocumentFilter::default() }),
    ];
    assert_eq!(found, [true, false].repeat(4)[..], "a whole name is compared with its case");
    let organization_filter = |text| OrganizationFilter { name_search: search(text) };
    assert!(matches(&organization(), &organization_filter("äCM")));
    assert!(!matches(&organization(), &organization_filter("acm")));

    let (one, other) = (tag().id, TagId::derive(&["other"]));
    for (tags, all, any) in [
        (vec![], true, true),
        (vec![one.clone()], true, true),
        (vec![one, other.clone()], false, true),
        (vec![other], false, false),
    ] {
        let document_filter = DocumentFilter { all_tags: tags.clone(), ..DocumentFilter::default() };
        let all_filter = PromptFilter { all_tags: tags.clone(), ..PromptFilter::default() };
        let any_filter = PromptFilter { any_tag: tags.clone(), ..PromptFilter::default() };
        assert_eq!(matches(&document(), &document_filter), all, "{tags:?}");
        assert_eq!((matches(&prompt(), &all_filter), matches(&prompt(), &any_filter)), (all, any), "{tags:?}");
    }
    let shared = PromptFilter { document: Some(document().id), ..PromptFilter::default() };
    let with = document().id.to_string();
    assert_eq!(Prompt::conditions(&shared), [Condition::SharedTerm { with, field: "tag" }]);
    let linked = PromptFilter { schema: Some(schema().id), ..PromptFilter::default() };
    assert_eq!(Prompt::conditions(&linked), [Condition::RefersTo(schema().id.to_string())]);

    for (key, value, expected) in [("customer", "äcm", true), ("customer", "x", false), ("order", "", false)] {
        let metadata = [(key.to_owned(), value.to_owned())].into();
        assert_eq!(matches(&document(), &DocumentFilter { metadata, ..DocumentFilter::default() }), expected, "{key}");
    }
    for (metadata_equals, expected) in
        [(document().metadata, true), ([("customer".into(), "äcm".into())].into(), false)]
    {
        let filter = DocumentFilter { metadata_equals, ..DocumentFilter::default() };
        assert_eq!(matches(&document(), &filter), expected);
    }

    let of = Some(document().id);
    for (document, revision, expected) in [
        (None, None, true),
        (None, Some(3), true),
        (None, Some(2), false),
        (of.clone(), None, true),
        (of.clone(), Some(3), true),
        (of, Some(2), false),
        (Some(DocumentId::derive(&["other"])), None, false),
        (Some(DocumentId::derive(&["other"])), Some(3), false),
    ] {
        let prompt_revision = revision.map(|revision| PromptRevId::new(prompt().id, revision));
        let filter = ExtractionFilter { document, prompt_revision, ..ExtractionFilter::default() };
        assert_eq!(matches(&extraction(), &filter), expected, "{filter:?}");
    }
    let all = ExtractionFilter::default();
    for (filter, expected) in [
        (ExtractionFilter { prompt: Some(prompt().id), ..all.clone() }, true),
        (ExtractionFilter { prompt: Some(PromptId::derive(&["other"])), ..all.clone() }, false),
        (ExtractionFilter { schema: Some(schema().id), ..all.clone() }, true),
        (ExtractionFilter { schema: Some(SchemaId::derive(&["other"])), ..all.clone() }, false),
        (ExtractionFilter { schema_revision: Some(SchemaRevId::new(schema().id, 2)), ..all.clone() }, true),
        (ExtractionFilter { schema_revision: Some(SchemaRevId::new(schema().id, 1)), ..all.clone() }, false),
        (ExtractionFilter { verified: Some(true), ..all.clone() }, true),
        (ExtractionFilter { verified: Some(false), ..all.clone() }, false),
        (ExtractionFilter { created: Some(CreationPeriod { start: Some(at()), end: None }), ..all.clone() }, true),
        (ExtractionFilter { created: Some(CreationPeriod { start: None, end: Some(at()) }), ..all.clone() }, false),
        (ExtractionFilter { schema: Some(schema().id), verified: Some(false), ..all.clone() }, false),
    ] {
        assert_eq!(matches(&extraction(), &filter), expected, "{filter:?}");
    }
    assert!(Extraction::conditions(&all).is_empty());
    let tagged = ExtractionFilter { document_tags: vec![tag().id], ..all };
    let terms = vec![format!("tag/{}", tag().id)];
    assert_eq!(Extraction::conditions(&tagged), [Condition::ParentTerms { kind: "document", terms }]);
}

#[test]
fn the_id_in_a_target_belongs_to_the_kind_of_the_target() {
    let id = tag().id;
    assert_eq!(Tag::id_in(&Tag::target(&id)), Some(id.clone()));
    assert_eq!(Tag::id_in(&Target::new(Tag::KIND, "malformed")), None);
    assert_eq!(Tag::id_in(&Target::new(Schema::KIND, &id)), None);
}
