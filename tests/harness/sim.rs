//! The model endpoint of a test: `llm-sim` as a process, with its control routes.

use std::path::Path;

use llm_sim::{FaultPlan, Outcome, RecordedRequest};

use super::LIMIT;
use super::process::Process;

/// Maximum number of requests that are recorded in a long run.
const REQUESTS_MAX: usize = 200_000;

pub struct Sim {
    process: Process,
    http: reqwest::Client,
}

impl Sim {
    /// Starts an endpoint that records the last 1,000 requests.
    pub async fn start(folder: &Path, script: &str) -> Self {
        Self::start_with(folder, script, &[])
    }

    /// Starts an endpoint that records the last 200,000 requests, with hashes instead of the bodies.
    pub async fn start_for_long_run(folder: &Path, script: &str) -> Self {
        Self::start_with(folder, script, &["--hash-bodies", "--record", &REQUESTS_MAX.to_string()])
    }

    fn start_with(folder: &Path, script: &str, more: &[&str]) -> Self {
        let path = folder.join("script.yaml");
        std::fs::write(&path, script).expect("the script is written");
        let path = path.to_string_lossy();
        let arguments = [&["--listen", "127.0.0.1:0", "--script", &path], more].concat();
        let process = Process::start("llm-sim", folder, &arguments, &[]);
        Self { process, http: reqwest::Client::new() }
    }

    pub fn base_url(&self) -> String {
        format!("{}/v1", self.process.url())
    }

    fn control(&self, path: &str) -> String {
        format!("{}/sim/{path}", self.process.url())
    }

    async fn put(&self, path: &str, body: String) {
        let response = self.http.put(self.control(path)).body(body).send().await.expect("llm-sim answers");
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        assert!(status.is_success(), "{path}: {status} {text}");
    }

    pub async fn set_script(&self, yaml: &str) {
        self.put("script", yaml.to_owned()).await;
    }

    pub async fn set_faults(&self, plan: &FaultPlan) {
        self.put("faults", serde_json::to_string(plan).expect("a plan is JSON")).await;
    }

    /// Removes the recorded requests and the faults, and closes all gates.
    pub async fn reset(&self) {
        let response = self.http.post(self.control("reset")).send().await.expect("llm-sim answers");
        assert!(response.status().is_success());
    }

    pub async fn open_gate(&self, gate: &str) {
        let response = self.http.post(self.control(&format!("gates/{gate}"))).send().await.expect("llm-sim answers");
        assert!(response.status().is_success());
    }

    pub async fn chat_requests(&self) -> Vec<RecordedRequest> {
        self.requests().await.into_iter().filter(RecordedRequest::is_chat).collect()
    }

    async fn requests(&self) -> Vec<RecordedRequest> {
        let response = self.http.get(self.control("requests")).send().await.expect("llm-sim answers");
        response.json().await.expect("the response contains the recorded requests")
    }

    /// Returns every chat request since the start or the last reset.
    ///
    /// # Panics
    /// If the record does not contain all of them any more.
    pub async fn all_chat_requests(&self) -> Vec<RecordedRequest> {
        self.all_requests().await.into_iter().filter(RecordedRequest::is_chat).collect()
    }

    /// Returns every request of a model call since the start or the last reset: chats and embeddings.
    ///
    /// # Panics
    /// If the record does not contain all of them any more.
    pub async fn all_model_requests(&self) -> Vec<RecordedRequest> {
        let is_model_call = |request: &RecordedRequest| request.is_chat() || request.path.ends_with("/embeddings");
        self.all_requests().await.into_iter().filter(is_model_call).collect()
    }

    async fn all_requests(&self) -> Vec<RecordedRequest> {
        let all = self.requests().await;
        let first = all.first().map_or(1, |first| first.number);
        assert_eq!(first, 1, "llm-sim received more requests than its record keeps");
        all
    }

    /// Waits until the recorded chat requests satisfy a condition, and returns them. `subject` names the condition in the
    /// panic after `LIMIT`.
    pub async fn wait_for_requests(
        &self,
        subject: &str,
        is_met: impl Fn(&[RecordedRequest]) -> bool,
    ) -> Vec<RecordedRequest> {
        folio_testkit::wait_for(subject, LIMIT, || async {
            Some(self.chat_requests().await).filter(|chats| is_met(chats))
        })
        .await
    }

    /// Waits until the newest chat request waits at a gate, or hangs because of a fault.
    pub async fn wait_for_waiting_request(&self) {
        self.wait_for_requests("a waiting request", |chats| {
            chats.last().is_some_and(|chat| chat.outcome == Outcome::Waiting)
        })
        .await;
    }
}
