//! The passages of documents: how they are made, stored, kept findable and found.
//!
//! | part | task |
//! |---|---|
//! | [`Knowledge`] | the handle that everything in a process shares: stores, index, models |
//! | [`ingest()`] | makes the passages of a document: sections, chunks, vectors, stored passages, index |
//! | [`IngestionJobs`] | the jobs that ingest documents |
//! | [`NetworkModes`] | the port to the agents that add summaries to an ingestion, or decide about it |
//! | [`Agents`] | its adapter: the modes `fast` and `agentic` |
//! | [`ingestion_of`] | the state of the ingestion of a document |
//! | [`IndexRebuilds`], [`Reembeddings`] | the jobs that build an index again, and that compute vectors of another model |
//! | [`Maintenance`] | the task that finds what an index lacks, and what it must not contain |
//! | [`IndexRetriever`] | searches over the index, whose hits are confirmed by the stores |
//! | [`ask()`] | an answer of a model with citations that occur in the passages |
//! | [`resolve_links`] | links between documents, and those whose document is missing |
//! | [`steward`] | abbreviations that a document does not explain |
//!
//! Stores contain the passages and their vectors. The index ([`folio_index::PassageIndex`]) is a cache: whatever it lacks is
//! added from the stores.

mod agents;
mod ask;
mod dictionary;
mod index;
mod ingest;
mod job;
mod knowledge;
mod language;
mod links;
mod maintenance;
mod memory;
mod network;
mod options;
mod rebuild;
mod reembedding;
mod search;
mod source;
mod state;
mod steward;
mod vectors;
mod work_permits;

pub use agents::{Agents, TurnDriver};
pub use ask::{ANSWER_PASSAGES_DEFAULT, ANSWER_PASSAGES_MAX, ASK_OPERATION, Answer, AnswerCitation, Question, ask};
pub use index::remove_document;
pub use ingest::{IngestRequest, Ingested, ingest};
pub use job::IngestionJobs;
pub use knowledge::Knowledge;
pub use links::{CrossReference, LinkReport, cross_references, resolve_links};
pub use maintenance::{IsResponsible, Maintenance};
pub use network::{IngestionRun, ModelContext, NetworkModes};
pub use options::{Options, Tokenizers};
pub use rebuild::{IndexRebuilds, rebuild};
pub use reembedding::{Reembeddings, update_serving_space};
pub use search::{IndexRetriever, retriever};
pub use state::{DocumentIngestion, IngestionState, ingestion_of};
pub use steward::{DICTIONARY_OPERATION, StewardReport, StewardRun, steward, steward_run};
