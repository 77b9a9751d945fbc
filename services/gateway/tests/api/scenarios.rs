//! Runs the scenarios of `scenarios/*.yaml`; `scenarios/README.md` describes their format. Each is a test of its own:
//! `build.rs` lists them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use folio_metering::Options as Credit;
use folio_resources::quota::Quotas;
use folio_testkit::wait_for;
use folio_types::{Error, OrgId, Role, System, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::calls::{call_fully, operation};
use crate::harness::{Answer, Client, Server};
use crate::samples::Samples;
use crate::template::fill;

/// Time limit of a step that is repeated until its result is as expected.
const SOON: Duration = Duration::from_secs(30);

/// The content of one file, or of all files.
#[derive(Default, Deserialize)]
pub(crate) struct Scenarios {
    /// The samples of operations.
    #[serde(default)]
    pub(crate) samples: BTreeMap<String, Samples>,
    #[serde(flatten)]
    by_name: BTreeMap<String, Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    after: Option<String>,
    #[serde(rename = "as")]
    caller: Option<String>,
    monthly_allowance: Option<u64>,
    concurrent_turns: Option<u32>,
    /// Documents are ingested when their text is ready.
    #[serde(default)]
    ingests: bool,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    call: String,
    #[serde(rename = "as")]
    caller: Option<String>,
    #[serde(default = "empty")]
    request: Value,
    expect: Option<Value>,
    error: Option<Value>,
    save: Option<String>,
    #[serde(default)]
    eventually: bool,
    #[serde(default)]
    model: Vec<Value>,
    model_calls: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModelAnswer {
    Text(String),
    Calls(Vec<(String, Value)>),
}

fn empty() -> Value {
    json!({})
}

pub(crate) static SCENARIOS: LazyLock<Scenarios> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/scenarios");
    let mut all = Scenarios::default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let file: Scenarios =
                serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for (name, scenario) in file.by_name {
                assert!(all.by_name.insert(name.clone(), scenario).is_none(), "{name} exists twice");
            }
            for (operation, samples) in file.samples {
                assert!(all.samples.insert(operation.clone(), samples).is_none(), "{operation} has samples twice");
            }
        }
    }
    all
});

struct Run {
    server: Server,
    organizations: BTreeMap<String, OrgId>,
    users: BTreeMap<String, Client>,
    saved: BTreeMap<String, Value>,
}

async fn run(name: &str) {
    let scenario = &SCENARIOS.by_name[name];
    let mut credit = Credit::default();
    credit.monthly_allowance = scenario.monthly_allowance.unwrap_or(credit.monthly_allowance);
    let quotas = Quotas { concurrent_turns: scenario.concurrent_turns.unwrap_or(0), ..Quotas::default() };
    let server = match scenario.ingests {
        true => Server::ingesting(credit, quotas).await,
        false => Server::configured(credit, quotas).await,
    };
    let (organizations, users, saved) = <(BTreeMap<_, _>, BTreeMap<_, _>, BTreeMap<_, _>)>::default();
    let mut run = Run { server, organizations, users, saved };
    run.play(name).await;
    run.server.stop().await;
}

impl Run {
    /// Runs the scenarios that a scenario continues, and then its own steps.
    async fn play(&mut self, name: &str) {
        let scenario = SCENARIOS.by_name.get(name).unwrap_or_else(|| panic!("no scenario is named {name}"));
        if let Some(before) = &scenario.after {
            Box::pin(self.play(before)).await;
        }
        let default = scenario.caller.as_deref().unwrap_or("member");
        for (at, step) in scenario.steps.iter().enumerate() {
            let what = format!("scenario {name}, step {} ({})", at + 1, step.call);
            self.perform(&what, step, default).await;
        }
    }

    async fn perform(&mut self, what: &str, step: &Step, default: &str) {
        let caller = self.filled(&step.caller.as_deref().unwrap_or(default).into()).await;
        let client = self.client(caller.as_str().unwrap()).await;
        let request = self.filled(&step.request).await;
        assert!(step.expect.is_none() || step.error.is_none(), "{what}: both `expect` and `error`");
        let (is_refused, expected) = match (&step.error, &step.expect) {
            (Some(error), _) => (true, Some(self.filled(error).await)),
            (None, Some(expect)) => (false, Some(self.filled(expect).await)),
            (None, None) => (false, None),
        };
        for answer in &step.model {
            let answer = self.filled(answer).await;
            self.server.model.next(match serde_json::from_value(answer).unwrap() {
                ModelAnswer::Text(text) => Answer::Text(text),
                ModelAnswer::Calls(calls) => {
                    Answer::Calls(calls.into_iter().map(|(tool, arguments)| (&*tool.leak(), arguments)).collect())
                }
            });
        }
        let operation = operation(&step.call);
        let attempt = async || {
            let response = call_fully(&client, operation, &request).await;
            let (was_refused, actual) = match response {
                Ok(response) => (false, response),
                Err(error) => (true, describe(&error)),
            };
            let difference = match &expected {
                _ if was_refused != is_refused => Err(format!("refused: {was_refused}, expected {is_refused}")),
                Some(expected) => compare("", expected, &actual),
                None => Ok(()),
            };
            difference.map(|()| actual.clone()).map_err(|difference| {
                let expected = expected.as_ref().map(|expected| format!("{expected:#}")).unwrap_or_default();
                format!("{what}: {difference}\nrequest: {request:#}\nexpected: {expected}\nactual: {actual:#}")
            })
        };
        let end = Instant::now() + SOON;
        let ended = || async {
            let result = attempt().await;
            (result.is_ok() || !step.eventually || Instant::now() > end).then_some(result)
        };
        let actual = wait_for(what, 2 * SOON, ended).await.unwrap_or_else(|difference| panic!("{difference}"));
        if let Some(name) = &step.save {
            self.saved.insert(name.clone(), actual);
        }
        if let Some(expected) = step.model_calls {
            assert_eq!(self.server.model.calls(), expected, "{what}: model calls");
        }
    }

    /// Replaces the placeholders, and creates the users that they name.
    async fn filled(&mut self, value: &Value) -> Value {
        let text = value.to_string();
        for function in ["${user(", "${organization("] {
            for rest in text.split(function).skip(1) {
                self.client(rest.split(')').next().unwrap()).await;
            }
        }
        fill(value, &|name| {
            let user = |function: &str| self.users.get(name.strip_prefix(function)?.strip_suffix(')')?);
            let user_id = user("user(").map(|client| client.user.to_string().into());
            let organization = user("organization(").map(|client| client.org.to_string().into());
            user_id.or(organization).or_else(|| self.saved.get(name).cloned())
        })
    }

    /// Returns the client of a token, of a token in an organization (`TOKEN ID`), or of the user
    /// `ROLE[-NAME][@ORGANIZATION]`. Creates a missing user.
    async fn client(&mut self, name: &str) -> Client {
        if name.starts_with("folio_") {
            let (token, org) = name.split_once(' ').map_or((name, None), |(token, org)| (token, Some(org)));
            return self.server.holder(token).in_organization(org.map(|org| org.parse().unwrap()).as_ref());
        }
        if let Some(client) = self.users.get(name) {
            return client.clone();
        }
        let (user, organization) = name.split_once('@').unwrap_or((name, ""));
        let new = || OrgId::generate(&System);
        let organization = self.organizations.entry(organization.to_owned()).or_insert_with(new).clone();
        let client = match user.split('-').next().unwrap() {
            "viewer" => self.server.user(&organization, Role::Viewer).await,
            "member" => self.server.user(&organization, Role::Member).await,
            "admin" => self.server.user(&organization, Role::Admin).await,
            "platform" => self.server.platform_admin(&organization).await,
            role => panic!("unknown role {role:?}: expected viewer, member, admin or platform"),
        };
        self.users.insert(name.to_owned(), client.clone());
        client
    }
}

/// Returns an error in the form that a scenario expects.
fn describe(error: &Error) -> Value {
    let code = serde_json::to_value(error.code).unwrap();
    json!({
        "code": code.as_str().unwrap().to_uppercase(),
        "reason": error.reason.as_str(),
        "field": error.violations.first().map(|violation| &violation.field),
        "fields": error.violations.iter().map(|violation| &violation.field).collect::<Vec<_>>(),
        "message": error.message,
        "details": error.details,
        "retry": error.retry_after.is_some(),
    })
}

/// Compares a value with its expectation. The error names the JSON pointer of the first difference.
fn compare(at: &str, expected: &Value, actual: &Value) -> Result<(), String> {
    match (expected, actual) {
        (Value::Object(fields), _) if fields.len() == 1 && fields.keys().all(|name| name.starts_with('$')) => {
            fields.iter().try_for_each(|(operator, operand)| apply(at, operator, operand, actual))
        }
        (Value::Object(expected), Value::Object(actual)) => expected.iter().try_for_each(|(name, expected)| {
            let at = format!("{at}/{name}");
            compare(&at, expected, actual.get(name).ok_or_else(|| format!("{at} does not exist"))?)
        }),
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let mut pairs = expected.iter().zip(actual).enumerate();
            pairs.try_for_each(|(index, (expected, actual))| compare(&format!("{at}/{index}"), expected, actual))
        }
        _ if expected == actual => Ok(()),
        _ => Err(format!("{at} is {}, expected {expected}", start_of(actual))),
    }
}

fn start_of(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// Applies an operator such as `$contains` to a value.
fn apply(at: &str, operator: &str, operand: &Value, actual: &Value) -> Result<(), String> {
    let holds = match (operator, actual) {
        ("$contains", Value::String(actual)) => actual.contains(operand.as_str().unwrap()),
        ("$contains", Value::Array(items)) => items.iter().any(|item| compare(at, operand, item).is_ok()),
        // An object is searched as JSON text, so that `$not` can exclude a word anywhere in it.
        ("$contains", Value::Object(_)) => actual.to_string().contains(operand.as_str().unwrap()),
        ("$length", Value::Array(items)) => *operand == items.len(),
        ("$length", Value::String(text)) => *operand == text.len(),
        ("$not", _) => compare(at, operand, actual).is_err(),
        ("$all", _) => operand.as_array().unwrap().iter().all(|expected| compare(at, expected, actual).is_ok()),
        ("$last", Value::Array(items)) => {
            return compare(&format!("{at}/last"), operand, items.last().unwrap_or(&Value::Null));
        }
        ("$json", Value::String(text)) => return compare(at, operand, &serde_json::from_str(text).unwrap()),
        ("$json_lines", Value::String(text)) => {
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
            return compare(at, operand, &lines);
        }
        ("$duration", Value::Object(fields)) => {
            let time = |end: &str| fields[operand[end].as_str().unwrap()].as_str()?.parse::<Timestamp>().ok();
            let times = time("from").zip(time("to"));
            times.is_some_and(|(from, to)| operand["seconds"] == to.as_second() - from.as_second())
        }
        ("$contains" | "$length" | "$last" | "$json" | "$json_lines" | "$duration", _) => false,
        _ => panic!("unknown operator {operator}"),
    };
    if holds { Ok(()) } else { Err(format!("{at} is {}, expected {operator} {operand}", start_of(actual))) }
}

/// Declares one test for each scenario, and a test that every scenario is declared.
macro_rules! scenarios {
    ($($name:ident)+) => {
        $(#[tokio::test]
        async fn $name() {
            run(stringify!($name)).await;
        })+

        #[test]
        fn every_scenario_is_a_test() {
            let mut names = [$(stringify!($name)),+];
            names.sort_unstable();
            assert_eq!(SCENARIOS.by_name.keys().collect::<Vec<_>>(), names);
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));
