//! Ways in which documents become passages.

named_enum! {
    /// The steps of the ingestion of a document.
    #[derive(Default)]
    pub enum IngestionMode {
        /// Documents are ingested on request only.
        Off = "off",
        /// Everything that needs no agent: sections, chunks, dictionary entries, vectors, index.
        #[default]
        Index = "index",
        /// As `Index`, with summaries by a model.
        Fast = "fast",
        /// The agents of the ingestion network decide.
        Agentic = "agentic",
    }
}

impl IngestionMode {
    /// Returns true for the mode of an organization without a choice.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
