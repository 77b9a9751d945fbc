//! The passages of documents: how they are made, stored, kept findable and found.
//!
//! | part | task |
//! |---|---|
//! | [`Knowledge`] | the handle that everything in a process shares: stores, index, models |
//! | [`ingest()`] | makes the passages of a document: sections, chunks, vectors, stored passages, index |
//! | [`IngestionJobs`] | the jobs that ingest documents |
//! | [`NetworkModes`] | the port to the agents that add summaries to an ingestion, or decide about it |
//! | [`ingestion_of`] | the state of the ingestion of a document |
//! | [`IndexRebuilds`], [`Reembeddings`] | the jobs that build an index again, and that compute vectors of another model |
//! | [`Maintenance`] | the task that finds what an index lacks, and what it must not contain |
//! | [`IndexRetriever`] | searches over the index, whose hits are confirmed by the stores |
//! | [`ask()`] | an answer of a model with citations that occur in the passages |
//!
//! Stores contain the passages and their vectors. The index ([`folio_index::PassageIndex`]) is a cache: whatever it lacks is
//! added from the stores.

mod ask;
mod dictionary;
mod index;
mod ingest;
mod job;
mod knowledge;
mod language;
mod maintenance;
mod network;
mod options;
mod rebuild;
mod reembedding;
mod search;
mod source;
mod state;
mod vectors;

pub use ask::{ANSWER_PASSAGES_DEFAULT, ANSWER_PASSAGES_MAX, ASK_OPERATION, Answer, AnswerCitation, Question, ask};
pub use index::remove_document;
pub use ingest::{IngestRequest, Ingested, ingest};
pub use job::IngestionJobs;
pub use knowledge::Knowledge;
pub use maintenance::{IsResponsible, Maintenance};
pub use network::{IngestionRun, NetworkModes};
pub use options::{Options, Tokenizers};
pub use rebuild::{IndexRebuilds, rebuild};
pub use reembedding::{Reembeddings, update_serving_space};
pub use search::{IndexRetriever, retriever};
pub use state::{DocumentIngestion, IngestionState, ingestion_of};
