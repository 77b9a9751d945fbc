//! Settings of the index and of the passages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio_index::EmbeddedOptions;
use folio_llm::count_tokens;
use folio_passages::{ChunkOptions, Estimate, FileTokenizer, TokenCounter};
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Error, Result, Secret};

const MIB: u64 = 1024 * 1024;

folio_types::settings! {
    /// The settings section `index`. The process connects to the Qdrant server.
    #[derive(Eq)]
    pub struct Options {
        /// Folder of the embedded index. None: `index` in the data folder.
        pub folder: Option<PathBuf> = None,
        /// Maximum bytes of vectors in memory, of all organizations together.
        pub memory_bytes: u64 = 512 * MIB,
        /// Maximum bytes of the passages and vectors of the documents that are ingested at the same time, half of it for one organization.
        pub ingestion_bytes: u64 = 768 * MIB,
        /// Maximum bytes of all indexes on the disk, half of it for one organization. An index counts twice.
        pub disk_bytes: u64 = 64 * 1024 * MIB,
        /// Number of passages of an organization from which its vectors are kept in memory as 8-bit integers.
        pub quantize_above: u64 = 100_000,
        /// Maximum number of open indexes without an operation in progress.
        pub readers_max: usize = 64,
        /// Maximum number of open writers.
        pub writers_max: usize = 4,
        /// Maximum number of searches that run at the same time.
        pub searches_max: usize = 4,
        /// Maximum tokens of the text of a passage.
        pub window_tokens: u32 = 200,
        /// Maximum tokens at the start of a passage that repeat the end of the passage before it.
        pub overlap_tokens: u32 = 30,
        /// Maximum tokens of the context of a passage.
        pub padding_tokens: u32 = 120,
        /// Files `tokenizer.json` by the names of embedding models. Tokens of other models are estimated.
        pub tokenizers: BTreeMap<String, PathBuf> = BTreeMap::new(),
        /// Time between two comparisons of an index with the stored passages.
        pub sweep_interval: Duration as "sweep_interval_seconds" = Duration::from_secs(600),
        /// The gRPC address of a Qdrant server: `http://HOST:PORT` or `https://HOST:PORT`. Empty: the index is in folders
        /// of the nodes.
        pub qdrant_url: String = String::new(),
        /// The API key of the server. Empty: none.
        pub qdrant_api_key: Secret = Secret::default(),
        /// The collection, which is created if it is missing.
        pub qdrant_collection: String = "folio".to_owned(),
        /// If true, the API key is sent to other machines without encryption, too.
        pub qdrant_insecure: bool = false,
        /// The authorities of the server's certificate. None: the public authorities.
        pub qdrant_ca: Option<PathBuf> = None,
        /// Time limit of a call.
        pub qdrant_timeout: Duration as "qdrant_timeout_seconds" = Duration::from_secs(10),
    }
}

impl Options {
    /// Returns every invalid setting.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("index");
        problems.number("memory_bytes", self.memory_bytes, MIB, 1024 * 1024 * MIB);
        problems.number("ingestion_bytes", self.ingestion_bytes, 64 * MIB, 1024 * 1024 * MIB);
        problems.number("disk_bytes", self.disk_bytes, 64 * MIB, 100 * 1024 * 1024 * MIB);
        problems.number("quantize_above", self.quantize_above, 1, 100_000_000);
        problems.number("readers_max", self.readers_max, 1, 10_000);
        problems.number("writers_max", self.writers_max, 1, 100);
        problems.number("searches_max", self.searches_max, 1, 1_000);
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(86_400));
        problems.seconds("sweep_interval_seconds", self.sweep_interval, min, max);
        if let Err(error) = self.chunks().validate() {
            for violation in error.violations {
                problems.add(format_args!("{}_tokens", violation.field), violation.description);
            }
        }
        problems.into_result()
    }

    /// Returns the settings of the embedded index.
    pub fn embedded(&self) -> EmbeddedOptions {
        EmbeddedOptions {
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes,
            quantize_above: self.quantize_above,
            readers_max: self.readers_max,
            writers_max: self.writers_max,
            searches_max: self.searches_max,
            ..EmbeddedOptions::default()
        }
    }

    /// Returns the sizes of passages.
    pub fn chunks(&self) -> ChunkOptions {
        ChunkOptions {
            window: self.window_tokens,
            overlap: self.overlap_tokens,
            padding: self.padding_tokens,
            input_tokens_max: None,
        }
    }
}

/// Counts the tokens of texts for embedding models. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tokenizers(Arc<BTreeMap<String, Arc<dyn TokenCounter>>>);

impl std::fmt::Debug for Tokenizers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Tokenizers {
    /// Reads the files of the setting `index.tokenizers`.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a file cannot be read, or is no `tokenizer.json`.
    pub fn read(files: &BTreeMap<String, PathBuf>) -> Result<Self> {
        let mut tokenizers: BTreeMap<String, Arc<dyn TokenCounter>> = BTreeMap::new();
        for (model, path) in files {
            let unreadable = |error: std::io::Error| {
                let problem = format!("the file {} cannot be read: {error}", path.display());
                Error::invalid_field(format!("index.tokenizers.{model}"), problem)
            };
            let file = std::fs::read(path).map_err(unreadable)?;
            tokenizers.insert(model.clone(), Arc::new(FileTokenizer::parse(model.as_str(), &file)?));
        }
        Ok(Self(Arc::new(tokenizers)))
    }

    /// Returns the counter for an embedding model. None: the organization has no embedding model.
    pub(crate) fn of(&self, model: Option<&str>) -> Arc<dyn TokenCounter> {
        let found = model.and_then(|model| self.0.get(model));
        found.map_or_else(|| Arc::new(Estimate(count_tokens)) as Arc<dyn TokenCounter>, Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_sizes_are_named_by_their_settings() {
        assert_eq!(Options::default().check(), Ok(()));
        let wrong = Options { window_tokens: 31, memory_bytes: 0, ..Options::default() };
        let problems = wrong.check().unwrap_err().problems.join("\n");
        assert!(problems.contains("index.window_tokens") && problems.contains("index.memory_bytes"), "{problems}");
        let wrong = Options { overlap_tokens: 100, ..Options::default() };
        assert!(wrong.check().unwrap_err().to_string().contains("index.overlap_tokens"));
    }

    #[test]
    fn a_model_without_a_tokenizer_is_estimated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, "{}").unwrap();
        let refused = Tokenizers::read(&BTreeMap::from([("own/vectors".to_owned(), path)])).unwrap_err();
        assert!(refused.message.contains("tokenizer.json"), "{refused}");
        let missing = BTreeMap::from([("own/vectors".to_owned(), folder.path().join("missing"))]);
        assert!(Tokenizers::read(&missing).is_err());
        assert!(Tokenizers::default().of(Some("own/vectors")).count("four words are here").unwrap() > 3);
    }
}
