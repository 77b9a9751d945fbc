//! The bounds that the proto comments state are those of the code.
//!
//! [`BOUNDS`] names, for each commented element, the phrases with bounds and the constants that they state. A phrase
//! with a bound that the table lacks fails the test, and so does a constant with another value.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;

use crate::{files, report, root};

const LIMITS: &str = "crates/folio-types/src/limits.rs";
const LIST: &str = "crates/folio-operations/src/list.rs";
const AUDIT: &str = "crates/folio-operations/src/audit_log.rs";
const APPROVALS: &str = "crates/folio-operations/src/approvals.rs";
const DOCUMENTS: &str = "crates/folio-operations/src/documents.rs";
const THREADS: &str = "crates/folio-operations/src/threads.rs";
const TOKENS: &str = "crates/folio-operations/src/tokens.rs";
const WEBHOOKS: &str = "crates/folio-operations/src/webhook_endpoints.rs";
const USAGE: &str = "crates/folio-operations/src/usage.rs";
const UPLOAD: &str = "services/gateway/src/services/upload.rs";
const BLOBS: &str = "crates/folio-blobs/src/files.rs";
const CREDIT: &str = "crates/folio-credit/src/lib.rs";
const QUOTA: &str = "crates/folio-types/src/quota.rs";
const RULES: &str = "crates/folio-tools/src/rules.rs";
const PATH: &str = "crates/folio-tools/src/path.rs";
const POLICY: &str = "crates/folio-types/src/policy.rs";
const CONDITIONS: &str = "crates/folio-tools/src/policy.rs";
const PATTERN: &str = "crates/folio-tools/src/policy/pattern.rs";
const PROVIDERS: &str = "crates/folio-resources/src/model_settings.rs";
const MODELS: &str = "crates/folio-llm/src/options/check.rs";
const MODEL: &str = "crates/folio-types/src/models.rs";
const REDACT: &str = "crates/folio-types/src/audit/redact.rs";

/// Source file and name of a constant, or of a field with a default.
type Constant = (&'static str, &'static str);

/// The element (`Message.field`, `Service.Rpc` or the name of a message; `*` for any message), a phrase of its comment
/// with `{}` for the value, and the constant of the value. An element may have several rows.
const BOUNDS: &[(&str, &str, Constant)] = &[
    ("*.page_size", "Default: {}.", (LIMITS, "PAGE_SIZE_DEFAULT")),
    ("*.page_size", "per page, at most {}.", (LIMITS, "PAGE_SIZE_MAX")),
    ("ListSchemasRequest.page_size", "per page, at most {}.", (LIST, "LARGE_PAGE_MAX")),
    ("ListSchemaRevisionsRequest.page_size", "per page, at most {}.", (LIST, "LARGE_PAGE_MAX")),
    ("ListPromptsRequest.page_size", "per page, at most {}.", (LIST, "LARGE_PAGE_MAX")),
    ("ListPromptRevisionsRequest.page_size", "per page, at most {}.", (LIST, "LARGE_PAGE_MAX")),
    ("ListExtractionsRequest.page_size", "per page, at most {}.", (LIST, "LARGE_PAGE_MAX")),
    ("ListAuditEntriesRequest.page_size", "per page, at most {}.", (AUDIT, "PAGE_MAX")),
    ("ListProvidersRequest.page_size", "at most {} providers.", (PROVIDERS, "PROVIDERS_MAX")),
    ("GetThreadRequest.page_size", "about {} MiB", (THREADS, "PAGE_BYTES")),
    ("*.total_size", "exact up to {}.", (LIST, "COUNT_MAX")),
    ("*.name", "1 to {} characters", (LIMITS, "NAME_CHARS")),
    ("*.tag_ids", "at most {}.", (LIMITS, "TAGS_MAX")),
    ("*.metadata", "at most {} entries", (LIMITS, "METADATA_MAX")),
    ("*.metadata", "keys of 1 to {} characters", (LIMITS, "NAME_CHARS")),
    ("*.metadata", "at most {} KiB", (LIMITS, "METADATA_VALUE_BYTES")),
    ("*.data_json", "at most {} KiB", (LIMITS, "EXTRACTION_BYTES")),
    ("*.response_format_json", "at most {} KiB", (LIMITS, "SCHEMA_BYTES")),
    ("*.note", "at most {} characters", (LIMITS, "NAME_CHARS")),
    ("*.title", "at most {} characters", (LIMITS, "NAME_CHARS")),
    ("RenameThreadRequest.title", "1 to {} characters", (LIMITS, "NAME_CHARS")),
    ("Thread.title", "the first {} characters", (LIMITS, "TITLE_CHARS")),
    ("CreateOrganizationRequest.admin_name", "1 to {} characters", (LIMITS, "NAME_CHARS")),
    ("*.document_ids", "at most {}.", (LIMITS, "DOCUMENTS_PER_THREAD")),
    ("ConversationService.Approve", "at least {} h", (LIMITS, "DAY")),
    ("ConversationService.ResumeTurn", "for {} h", (LIMITS, "DAY")),
    ("WatchPendingApprovalsResponse", "at most {} turns", (APPROVALS, "FOLLOWED_MAX")),
    ("WatchPendingApprovalsResponse.caught_up", "after {} s", (APPROVALS, "KEEP_ALIVE")),
    ("ChatRequest.ephemeral", "after {} h", (LIMITS, "DAY")),
    ("ChatRequest.history", "at most {} messages", (LIMITS, "HISTORY_MESSAGES")),
    ("ChatRequest.history", "at most {} KiB", (LIMITS, "HISTORY_MESSAGE_BYTES")),
    ("ChatRequest.history", "{} MiB together", (LIMITS, "HISTORY_BYTES")),
    ("ChatRequest.text", "at most {} KiB", (LIMITS, "USER_TEXT_BYTES")),
    ("ChatRequest.mentions", "at most {} mentions", (LIMITS, "MENTIONS_MAX")),
    ("ChatRequest.auto_approved_tools", "at most {} tools", (LIMITS, "AUTO_APPROVED_TOOLS_MAX")),
    ("IfBusy.IF_BUSY_ENQUEUE", "at most {} per thread", (LIMITS, "QUEUE_PER_THREAD")),
    ("ApproveRequest.decisions", "at most {} decisions", (LIMITS, "DECISIONS_MAX")),
    ("ApprovedEdited.arguments_json", "at most {} KiB", (LIMITS, "ARGUMENTS_BYTES")),
    ("Rejected.reason", "at most {} characters", (LIMITS, "REJECTION_REASON_CHARS")),
    ("ToolMessage.call_id", "1 to {} characters", (LIMITS, "CALL_ID_BYTES")),
    ("MessageCall.id", "1 to {} characters", (LIMITS, "CALL_ID_BYTES")),
    ("Thread.expire_time", "{} h after", (LIMITS, "DAY")),
    ("ThreadService.ForkThread", "exceed {} MiB", (LIMITS, "FORK_BYTES")),
    ("ThreadService.ForkThread", "{} user messages", (LIMITS, "FORK_TURNS")),
    ("DocumentService.UploadDocument", "at most {} MiB", (LIMITS, "DOCUMENT_BYTES")),
    ("DocumentService.DeleteDocument", "after {} hours", (LIMITS, "DAY")),
    ("UploadDocumentRequest.chunk", "at most {} MiB", (UPLOAD, "CHUNK_BYTES")),
    ("DownloadDocumentResponse.chunk", "at most {} KiB", (BLOBS, "CHUNK_BYTES")),
    ("ListDocumentsRequest.filter", "at most {} times", (LIMITS, "TAGS_MAX")),
    ("ListPromptsRequest.filter", "At most {} tags", (LIMITS, "TAGS_MAX")),
    ("GetDocumentTextRequest.page_count", "about {} MiB", (DOCUMENTS, "TEXT_BYTES")),
    ("Prompt.content", "at most {} KiB", (LIMITS, "PROMPT_BYTES")),
    ("Tag.description", "at most {} characters", (RULES, "DESCRIPTION_CHARS")),
    ("UpdateExtractionFieldRequest.path", "at most {} KiB", (PATH, "PATH_BYTES")),
    ("UpdateExtractionFieldRequest.value_json", "at most {} KiB", (LIMITS, "EXTRACTION_BYTES")),
    ("WebhookEndpoint.url", "at most {} characters", (WEBHOOKS, "URL_CHARS")),
    ("WebhookEndpoint.event_types", "1 to {} names", (WEBHOOKS, "EVENT_TYPES_MAX")),
    ("WebhookEndpoint.secret", "at most {} characters", (WEBHOOKS, "SECRET_CHARS")),
    ("AuditEntry.arguments_json", "at most {} KiB", (REDACT, "REDACTED_BYTES")),
    ("GrantCreditRequest.credits", "1 to {} credits", (CREDIT, "AMOUNT_MAX")),
    ("*.priority", "0 to {}.", ("", "u8::MAX")),
    ("OrganizationLimits", "The maximum is {} unless", (QUOTA, "QUOTA_MAX")),
    ("OrganizationLimits.documents", "at most {}.", (QUOTA, "DOCUMENTS_MAX")),
    ("OrganizationLimits.storage_bytes", "at most {}.", (QUOTA, "STORAGE_BYTES_MAX")),
    ("Organization.thread_retention_days", "0 to {}.", (LIMITS, "THREAD_RETENTION_DAYS_MAX")),
    ("Policy.rules", "at most {},", (POLICY, "RULES_MAX")),
    ("Policy.rules", "at most {} conditions", (CONDITIONS, "SEARCHES_MAX")),
    ("Policy.rules", "{} KiB in total", (POLICY, "POLICY_BYTES")),
    ("Policy.approval_ttl_seconds", "at most {}", (LIMITS, "APPROVAL_TTL_MAX")),
    ("Policy.approval_ttl_seconds", "{} days)", (LIMITS, "APPROVAL_TTL_MAX")),
    ("PolicyCondition.matches", "takes at most {} KiB", (PATTERN, "COMPILED_BYTES")),
    ("PolicyCondition.matches", "of a policy at most {} KiB", (PATTERN, "TOGETHER_BYTES")),
    ("PolicyCondition.matches", "more than {} KiB", (CONDITIONS, "SEARCHED_BYTES")),
    ("PolicyCondition.matches", "after {} searched texts", (CONDITIONS, "SEARCHES_MAX")),
    ("Provider.name", "1 to {} characters", (PROVIDERS, "PROVIDER_NAME_CHARS")),
    ("Provider.models", "at most {} for", (PROVIDERS, "MODELS_MAX")),
    ("Provider.available_models", "at most {} names", (PROVIDERS, "AVAILABLE_MAX")),
    ("Provider.available_models", "{} KiB for", (PROVIDERS, "AVAILABLE_BYTES_MAX")),
    ("ProviderModel.name", "1 to {} characters", (MODELS, "MODEL_NAME_CHARS")),
    ("ProviderModel.context_tokens", "1,000 to {}.", (MODELS, "CONTEXT_TOKENS_MAX")),
    ("ProviderModel.context_tokens", "0: {}.", (MODEL, "context_tokens")),
    ("ProviderModel.max_output_tokens", "0: {}.", (MODEL, "max_output_tokens")),
    ("ProviderModel.input_price_microdollars", "at most {}.", (MODELS, "PRICE_MAX")),
    ("SetModelDefaultsRequest.fallbacks", "At most {} models", (PROVIDERS, "FALLBACKS_MAX")),
    ("CreateTokenRequest.ttl_seconds", "at most {} (", (TOKENS, "TTL_MAX")),
    ("GetUsageResponse.rows", "More than {} groups", (USAGE, "GROUPS_MAX")),
    ("GetUsageResponse.rows", "more than {} calls", (USAGE, "CALLS_MAX")),
    ("GetUsageRequest.start_time", "{} days before", (USAGE, "PERIOD")),
    ("DownloadUsageRequest.start_time", "{} days before", (USAGE, "PERIOD")),
];

/// Elements of the proto files with their comments: the text in one line, without quoted code.
fn comments() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in files().into_iter().filter(|file| file.starts_with("proto/folio/v1")) {
        let text = std::fs::read_to_string(root().join(&file)).expect("a proto file is readable");
        let (mut block, mut comment) = (String::new(), String::new());
        for line in text.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("//") {
                comment = format!("{comment} {}", words.trim());
                continue;
            }
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let is_block = ["message", "enum", "service"].contains(&words[0]);
            if is_block {
                words[1].clone_into(&mut block);
            }
            let name = match line.split_once('=') {
                _ if is_block => block.clone(),
                _ if words[0] == "rpc" => format!("{block}.{}", words[1]),
                Some((declared, _)) => format!("{block}.{}", declared.split_whitespace().last().unwrap_or_default()),
                None => format!("{block}.{}", words.get(1).copied().unwrap_or_default()),
            };
            if !comment.is_empty() {
                let plain: String = comment.trim().split('`').step_by(2).collect::<Vec<_>>().join("`");
                found.insert(name, plain);
                comment.clear();
            }
        }
    }
    found
}

/// The value of a constant, in bytes or seconds if it is a size or a duration: literals, products, quotients and other
/// constants of the file.
fn value(file: &str, name: &str) -> Result<u64, String> {
    if name == "u8::MAX" {
        return Ok(u8::MAX.into());
    }
    let path: &Path = file.as_ref();
    let text = std::fs::read_to_string(root().join(path)).map_err(|error| format!("{file}: {error}"))?;
    let declaration =
        Regex::new(&format!(r"(?s)const {name}: [^=]+ = ([^;]+);|\b{name}: (\d[\d_]*),")).expect("an expression");
    let declared = declaration.captures(&text).ok_or_else(|| format!("{file} has no constant {name}"))?;
    let declared = declared.get(1).or(declared.get(2)).expect("one of both").as_str();
    let expression = declared.replace("Duration::from_secs(", "").replace([')', '_'], "");
    let parts = expression.split_inclusive(['*', '/']);
    let names = Regex::new(r"[A-Z][A-Z_]+").expect("an expression");
    let (mut result, mut divides) = (1, false);
    for part in parts {
        let operand = part.trim_end_matches(['*', '/']).trim();
        let number = match operand.parse::<u64>() {
            Ok(number) => number,
            Err(_) => {
                let other =
                    names.find_iter(declared).map(|name| name.as_str()).find(|name| name.replace('_', "") == operand);
                value(file, other.ok_or_else(|| format!("{file}: {name} is {expression}"))?)?
            }
        };
        result = if divides { result / number } else { result * number };
        divides = part.ends_with('/');
    }
    Ok(result)
}

/// A number as the comments write it.
fn written(number: u64) -> String {
    match number {
        1_000_000_000_000_000 => return "10^15".to_owned(),
        _ if number.to_string().len() < 4 => return number.to_string(),
        _ => {}
    }
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// The phrase of a row with the value of its constant, in the unit that follows the placeholder.
fn phrase(template: &str, value: u64) -> String {
    let unit = template.split("{}").nth(1).unwrap_or_default().trim_start();
    let divisor = match unit {
        unit if unit.starts_with("KiB") => 1 << 10,
        unit if unit.starts_with("MiB") => 1 << 20,
        unit if unit.starts_with("hours") || unit == "h" || unit.starts_with("h ") => 3_600,
        unit if unit.starts_with("days") => 24 * 3_600,
        _ => 1,
    };
    template.replace("{}", &written(value / divisor))
}

#[test]
fn the_proto_comments_state_the_bounds_of_the_code() {
    let bound = Regex::new(concat!(
        r"(?i)\b(at most|up to|more than|less than|at least|about|below|exact up to|default:|0:|after|for|maximum is) \d",
        r"|\d[\d,]* to \d|\d[\d,^]* (KiB|MiB|characters|entries|days|hours|h|s)\b",
    ))
    .expect("an expression");
    let (mut wrong, mut used) = (Vec::new(), vec![false; BOUNDS.len()]);
    for (element, comment) in comments() {
        let wildcard = element.split_once('.').map(|(_, field)| format!("*.{field}"));
        let mut rest = comment.clone();
        let of_element = |name: &str| name == element || wildcard.as_deref() == Some(name);
        // A row of the very element comes first, so that its phrase is not taken for one of any message.
        let mut rows: Vec<_> = BOUNDS.iter().enumerate().filter(|(_, (name, _, _))| of_element(name)).collect();
        rows.sort_by_key(|(_, (name, _, _))| name.starts_with('*'));
        for (at, (name, template, (file, constant))) in rows {
            let expected = match value(file, constant) {
                Ok(value) => phrase(template, value),
                Err(problem) => {
                    wrong.push(format!("{element}: {problem}"));
                    continue;
                }
            };
            if rest.contains(&expected) {
                rest = rest.replace(&expected, "");
                used[at] = true;
            } else if !name.starts_with('*') {
                wrong.push(format!("{element} does not state {expected:?} ({constant}): {comment}"));
            }
        }
        if let Some(unknown) = bound.find(&rest) {
            wrong.push(format!("{element} states {:?}, which the table lacks: {comment}", unknown.as_str()));
        }
    }
    for ((element, template, _), used) in BOUNDS.iter().zip(used) {
        if !used {
            wrong.push(format!("{element}: no comment states {template:?}"));
        }
    }
    report("bounds in proto comments differ from the code", &wrong);
}
