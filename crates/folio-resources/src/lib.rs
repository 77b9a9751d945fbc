//! The rules of resources as pure functions: one file per kind, and one module that maps a write to a plan.
//!
//! A file such as `tag.rs` defines a kind: its type, changes, unique name, references, list row and filters. [`KINDS`]
//! registers the kind. [`decide`] evaluates a write against the rows that a store read and returns a [`WritePlan`];
//! [`EnteredRow`] evaluates the rows of other writes. A storage adapter executes the plan without knowing any kind. The parts of an organization that other crates evaluate
//! have modules of their own: [`policy`], [`quota`], [`audit`]. [`fields`] validates what a user enters, and
//! [`WordBoxes`] are the boxes of the words of a page, [`PageImage`] is the image of one, which is a [`Rendition`] of its
//! document, and [`sheet_text()`] is the text of a sheet of a workbook. [`PageStructure`] is the structure of the text of a page, and [`Outline`]
//! are the sections of a document. [`ImageAnnotation`] is the description of an image by a model. [`ambiguous_tokens`] and [`TermSearch`] find terms of a dictionary in a text.
//! [`target_keys`] and [`document_keys`] relate links to documents.
//!
//! The crate must not know a store, the network or a clock.

mod agent_run;
pub mod audit;
mod collection;
mod decide;
mod dependent;
mod dictionary_entry;
mod dictionary_expansion;
mod dictionary_question;
mod dictionary_text;
mod document;
mod document_link;
mod document_part;
mod document_structure;
mod element_id;
mod entered_row;
mod extraction;
mod extraction_report;
mod field_review;
pub mod fields;
#[cfg(test)]
mod golden;
mod image_annotation;
mod kind;
mod link_follow;
mod listing;
mod mcp_oauth;
mod mcp_server;
mod member;
mod model_settings;
mod organization;
mod outline;
mod page_image;
pub mod policy;
mod prompt;
mod proposal;
pub mod quota;
mod rendition;
mod resource;
mod review_rule;
mod revisions;
mod schema;
mod session;
mod sheet_text;
mod stack;
mod stack_column;
mod stack_row;
mod stored;
mod tag;
mod tag_set;
mod token;
mod used_example;
mod user;
mod webhook_endpoint;
mod word_boxes;

pub use agent_run::{
    AgentData, AgentRun, AgentStep, DOCUMENT_TYPE_CHARS, DocumentType, ExtractionState, FAILURE_CHARS,
};
pub use collection::{COLLECTIONS_MAX, Collection, CollectionChange, CollectionFilter, CollectionId, CollectionRule};
pub use decide::{DecidingWrite, ListEntry, ResourceWrite, RowWrite, StoredState, WriteDecision, WritePlan, decide};
pub use dependent::DependentDeletion;
pub use dictionary_entry::{
    DISAMBIGUATION_CHARS, DictionaryEntry, DictionaryEntryChange, DictionaryEntryFilter, DictionaryEntryId,
    DictionaryEntryPatch, ENTRY_SOURCES_MAX, ENTRY_TAG_CHARS, ENTRY_TAGS_MAX, EXPANSION_CHARS, NewDictionaryEntry,
    Provenance, TAG_SEPARATOR, TERM_CHARS, check_term, term_key,
};
pub use dictionary_expansion::{StatedExpansion, stated_expansions};
pub use dictionary_question::{
    DictionaryQuestion, DictionaryQuestionChange, DictionaryQuestionFilter, DictionaryQuestionId, MeaningGuess,
    NewQuestion, QUESTION_CONTEXT_CHARS, QUESTION_CONTEXTS_MAX, QuestionState,
};
pub use dictionary_text::{AmbiguousToken, TermSearch, ambiguous_tokens, expands};
pub use document::{
    Document, DocumentChange, DocumentFilter, DocumentPatch, NewDocument, STRUCTURED_INVOICE_START, TextRecord,
    TextState, structured_invoice_name, text_record_of,
};
pub use document_link::{
    FoundLink, LINK_TARGETS_MAX, LinkCollector, LinkKey, URL_METADATA, document_keys, link_keys, target_keys,
    text_references,
};
pub use document_part::{DocumentPart, PageRange, PartBudget, RefusedPart, part_name, part_path};
pub use document_structure::{
    CELLS_PER_PAGE, ELEMENT_TEXT_CHARS, EmbeddedImage, HEADING_LEVEL_MAX, HEADINGS_MAX, Heading, IMAGES_PER_PAGE,
    LINK_TARGET_BYTES, LINKS_PER_PAGE, Link, LinkTarget, PageArea, PageStructure, TABLES_PER_PAGE, Table,
};
pub use element_id::{ImageId, SectionId, SectionRest, TextId};
pub use entered_row::{EnteredRow, RowVerdict, STALE_AFTER};
pub use extraction::{Extraction, ExtractionChange, ExtractionFilter, NewExtraction};
pub use extraction_report::{
    CITATIONS_MAX, CONFIDENCES_MAX, CONFLICT_VALUE_BYTES, CONFLICTS_MAX, Citation, CitationKind, Conflict,
    ExtractionReport, FieldConfidence, ORIGINAL_CHARS, ORIGINALS_MAX, OriginalText, QUOTE_CHARS, REPORT_PATH_BYTES,
    SECTION_CHARS,
};
pub use field_review::{
    FIELD_CHANGES_MAX, FIELD_VALUE_BYTES, FieldChange, FieldChangeKind, FieldDecision, FieldLog, FieldReview,
    REVIEWS_MAX, Review, item_path, leaves, leaves_at, member_path,
};
pub use fields::check_document_patch;
pub use image_annotation::{
    IMAGE_ANNOTATIONS_MAX, IMAGE_CAPTION_CHARS, IMAGE_ENTITIES_MAX, IMAGE_ENTITY_CHARS, IMAGE_STEP_CHARS,
    IMAGE_STEPS_MAX, ImageAnnotation, ImageDescription,
};
pub use kind::{IndexedFields, Kind, NAMED_REFERRERS_MAX};
pub use link_follow::{FOLLOW_DEPTH_MAX, FOLLOWED_MAX, FollowedLink, follow_link};
pub use listing::{
    ALWAYS_SEARCHABLE_CHARS, Condition, CreationPeriod, ListQuery, ListRow, folded, parent_term,
    partly_searchable_keys, term,
};
pub use mcp_oauth::{McpOAuth, NewMcpOAuth, check_client_secret, check_oauth_client, check_token_url};
pub use mcp_server::{
    ALLOWED_TOOLS_MAX, AllowedMcpTool, McpServer, McpServerChange, McpServerFilter, McpServerId, McpToolText,
    SERVERS_MAX, check_allowed_tools, check_server_name, check_server_token, check_server_url, is_tool_name,
};
pub use member::{Member, MemberChange, MemberWrite};
pub use model_settings::{
    ModelDefaults, ModelSettings, ModelSettingsChange, ModelSettingsId, Provider, SealedKey, check_provider_name,
};
pub use organization::{Organization, OrganizationChange, OrganizationFilter, TagRuns, TagRunsPatch};
pub use outline::{Outline, Section, TextPosition};
pub use page_image::{ImageFormat, MAX_DPI, PageImage};
pub use prompt::{NewPrompt, Prompt, PromptChange, PromptFilter, PromptRevision, PromptUpdate, check_prompt_content};
pub use proposal::{
    NewProposal, PROPOSAL_REASON_CHARS, Proposal, ProposalChange, ProposalFilter, ProposalOutcome, ProposalState,
    ProposedResources, SimilarProposal,
};
pub use quota::OwnQuotas;
pub use rendition::Rendition;
pub use resource::{Cleanup, Plan, Resource, Revisioned};
pub use review_rule::{CHECKS_MAX, CheckOutcome, CheckResult, ReviewRule};
pub use revisions::{NAMES_MAX, NewName, RevisionName, RevisionNames, StoredRevision};
pub use schema::{Schema, SchemaChange, SchemaFilter, SchemaRevision};
pub use session::{SESSION_LIFETIME, SESSIONS_MAX, Session};
pub use sheet_text::{CellPosition, cell_at, sheet_text};
pub use stack::{
    AutoFill, Completion, MemberRule, NewStack, STACK_DESCRIPTION_CHARS, Stack, StackChange, StackFilter, StackMembers,
    StackPatch,
};
pub use stack_column::{
    CELL_BYTES, COLUMN_DESCRIPTION_CHARS, COLUMN_NAME_CHARS, COLUMN_UNIT_CHARS, COLUMN_VALUE_CHARS, COLUMN_VALUES_MAX,
    Column, ColumnType, NewColumn, STACK_COLUMNS_MAX, check_columns,
};
pub use stack_row::{
    Cell, CellAuthor, CellDecision, CellEdit, CellRule, CellState, FilledCell, STACK_ROWS_MAX, StackRow,
    StackRowChange, StackRowFilter, StackRowId,
};
pub use stored::{Record, decode_value, encode_value};
pub use tag::{DESCRIPTION_CHARS, Tag, TagChange, TagFilter, check_color, check_description};
pub use token::{NewToken, TOKENS_MAX, TokenChange, TokenFilter, TokenRecord};
pub use used_example::{EXAMPLES_MAX, UsedExample};
pub use user::{ACCOUNT_TOKENS_MAX, PasswordHash, User, UserChange, UserFilter, check_email};
pub use webhook_endpoint::{
    ENDPOINTS_MAX, WebhookEndpoint, WebhookEndpointChange, WebhookEndpointFilter, WebhookEndpointId,
    check_endpoint_secret, check_endpoint_url, check_event_types,
};
pub use word_boxes::{BoundingBox, TextLine, WordBoxes, words};

pub static KINDS: &[Kind] = &[
    Kind::of::<Document>(),
    Kind::of::<Schema>(),
    Kind::of::<Prompt>(),
    Kind::of::<Tag>(),
    Kind::of::<Extraction>(),
    Kind::of::<Proposal>(),
    Kind::of::<Organization>(),
    Kind::of::<ModelSettings>(),
    Kind::of::<TokenRecord>(),
    Kind::of::<WebhookEndpoint>(),
    Kind::of::<McpServer>(),
    Kind::of::<DictionaryEntry>(),
    Kind::of::<DictionaryQuestion>(),
    Kind::of::<Collection>(),
    Kind::of::<Stack>(),
    Kind::of::<StackRow>(),
    Kind::of::<User>(),
];
