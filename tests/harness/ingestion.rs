//! A document, and the rules of a model that ingests it in the modes `fast` and `agentic`.

/// Rules of a script that match the instructions of the summarizing calls and of each agent of the ingestion network.
pub const AGENT_RULES: &str = r#"
  - when: {system: {contains: You summarize one part of a document}}
    answer: {text: About this part.}
  - when: {system: {contains: You write the summaries of one document}}
    rounds:
      - calls: [{name: ingestion_status}]
      - calls:
          - name: summary_store
            arguments: {summary: About this part., section_id: "{{last.ingestion_status.summaries.missing.0.section_id}}"}
          - name: summary_store
            arguments: {summary: About this part., section_id: "{{last.ingestion_status.summaries.missing.1.section_id}}"}
      - calls: [{name: summary_store, arguments: {summary: About this part.}}]
      - text: Three summaries are stored.
  - when: {system: {contains: You divide one document into chunks}}
    rounds:
      - calls: [{name: chunk_generate}]
      - text: "{{last.chunk_generate.chunks_id}}"
  - when: {system: {contains: You make the chunks of one document searchable}}
    rounds:
      - calls: [{name: ingestion_status}]
      - calls: [{name: rag_chunk_index, arguments: {chunks_id: "{{last.ingestion_status.chunks.0.chunks_id}}"}}]
      - text: The chunks are indexed.
  - when: {system: {contains: You plan the ingestion of one document}}
    rounds:
      - calls: [{name: ingestion_status}, {name: pdf_outline}, {name: dictionary_suggest}]
      - calls:
          - name: run_tasks
            arguments: {tasks: [{delegate_agent: {profile: summary_orchestrator, task: Summarize the document.}}]}
      - calls:
          - name: run_tasks
            arguments: {tasks: [{delegate_agent: {profile: chunk_builder, task: Divide the document.}}]}
      - calls:
          - name: run_tasks
            arguments:
              tasks:
                - delegate_agent:
                    profile: rag_ingestor
                    task: Index these chunks.
                    context: "{{last.run_tasks.tasks.0.summary}}"
      - text: The document is indexed.
"#;

/// A document with two sections that are longer than summaries.
pub fn manual() -> String {
    let long = |word: &str| format!("The {word} is described here with many words of the manual. ").repeat(15);
    format!("# Pumps\n\n{}\n\n# Valves\n\n{}\n", long("pump"), long("valve"))
}
