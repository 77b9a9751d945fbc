//! Settings from layers: defaults, a TOML file, `FOLIO_SECTION__KEY` variables, flags. A later layer overrides the
//! earlier ones.
//!
//! The known keys are those of the settings type's default value. An unknown key in the file is an error that names the
//! nearest known key. An unknown variable is only a warning, because the environment may contain variables of other
//! programs. [`Sources::maps`] lists the maps whose keys operators choose (providers, models), with the known keys of an entry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::error::Kind;
use figment::providers::{Format as _, Serialized, Toml};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Prefix of the environment variables that set a setting.
pub const ENV_PREFIX: &str = "FOLIO_";

/// Variables with the prefix that are not settings.
const NON_SETTING_VARIABLES: &[&str] = &["FOLIO_TOKEN", "FOLIO_SERVER", "FOLIO_SEED"];

/// Key that represents every name in a free map, that is, a map whose keys operators choose.
const ANY: &str = "*";

/// Sources of settings. The defaults of the settings type are the lowest layer.
#[derive(Debug, Default)]
pub struct Sources {
    /// The TOML file. None: no file is read.
    pub file: Option<PathBuf>,
    /// If true, a missing file is an error, because the user named the file.
    pub file_required: bool,
    pub variables: BTreeMap<String, String>,
    /// Values by key path (`gateway.listen`).
    pub flags: BTreeMap<String, Value>,
    /// The free maps: the path of each (`models.providers`, `models.providers.*.models`) with the default of an entry.
    pub maps: BTreeMap<String, Value>,
}

#[derive(Debug)]
pub struct LoadedSettings<T> {
    pub settings: T,
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the settings file {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {message}")]
    Syntax {
        path: PathBuf,
        /// The line and the reason, without the line's text.
        message: String,
    },
    #[error("{path}: unknown key `{key}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey {
        path: String,
        key: String,
        /// None if no known key is similar enough.
        nearest: Option<String>,
    },
    /// The value has the wrong type or is out of bounds.
    #[error("{0}")]
    InvalidValue(String),
}

/// Loads settings. Later layers override earlier ones: defaults, file, variables, flags.
///
/// # Errors
/// The file is missing although it is required, is malformed or contains an unknown key, or a value is invalid.
pub fn load<T: Serialize + DeserializeOwned + Default>(sources: &Sources) -> Result<LoadedSettings<T>, Error> {
    let defaults = T::default();
    let mut schema = serde_json::to_value(&defaults).map_err(|error| Error::InvalidValue(error.to_string()))?;
    for (path, entry) in &sources.maps {
        let map = path.split('.').try_fold(&mut schema, |value, part| value.get_mut(part));
        if let Some(Value::Object(map)) = map {
            map.insert(ANY.to_owned(), entry.clone());
        }
    }
    let mut figment = Figment::from(Serialized::defaults(&defaults));
    if let Some((path, text)) = read(sources)? {
        check_file(&path, &text, &schema)?;
        figment = figment.merge(Toml::string(&text));
    }
    let (set, warnings) = split_variables(&sources.variables, &schema);
    for (path, text) in set {
        figment = figment.merge(Serialized::default(&path, variable_value(leaf(&schema, &path), &text)));
    }
    for (path, value) in &sources.flags {
        figment = figment.merge(Serialized::default(path, value));
    }
    let settings = figment.extract().map_err(describe)?;
    Ok(LoadedSettings { settings, warnings })
}

/// Parses the text of a variable as boolean, number, list or string. If the default is a string, the text stays
/// unchanged.
fn variable_value(schema: Option<&Value>, text: &str) -> figment::value::Value {
    if schema.is_some_and(Value::is_string) {
        return text.into();
    }
    match text.parse() {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

fn read(sources: &Sources) -> Result<Option<(PathBuf, String)>, Error> {
    let Some(path) = &sources.file else { return Ok(None) };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some((path.clone(), text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !sources.file_required => Ok(None),
        Err(source) => Err(Error::Read { path: path.clone(), source }),
    }
}

fn check_file(path: &Path, text: &str, schema: &Value) -> Result<(), Error> {
    let table: toml::Table = text.parse().map_err(|error| syntax(path, text, &error))?;
    let file = serde_json::to_value(table).map_err(|error| Error::InvalidValue(error.to_string()))?;
    match unknown_key(&file, schema, "") {
        Some(key) => {
            let nearest = nearest(&key, schema);
            Err(Error::UnknownKey { path: path.display().to_string(), key, nearest })
        }
        None => Ok(()),
    }
}

/// Returns a syntax error with line and reason. It omits the line's text, which may contain a secret.
fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    Error::Syntax { path: path.to_owned(), message: format!("line {line}: {}", error.message()) }
}

/// Returns the schema of the member `name`, or the schema of all members of a free map.
fn member<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).or_else(|| schema.get(ANY))
}

/// Returns the path of the first key of `file` that `schema` does not have. Lists and scalars are not checked.
fn unknown_key(file: &Value, schema: &Value, path: &str) -> Option<String> {
    let (Value::Object(file), Value::Object(_)) = (file, schema) else { return None };
    file.iter().find_map(|(name, value)| match member(schema, name) {
        None => Some(joined(path, name)),
        Some(member) => unknown_key(value, member, &joined(path, name)),
    })
}

/// Returns the path of a member of the section at `path`. An empty path: the top level.
fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Appends the paths of all keys of the schema to `into`.
fn schema_paths(schema: &Value, path: &str, into: &mut Vec<String>) {
    if let Value::Object(members) = schema {
        for (name, value) in members {
            let child_path = joined(path, name);
            schema_paths(value, &child_path, into);
            into.push(child_path);
        }
    }
}

/// Returns the known key that is most similar to an unknown one: a key of the same section, otherwise a key with the
/// same name in another section. If the section is unknown, or the key is at the top level, every key is compared.
fn nearest(key: &str, schema: &Value) -> Option<String> {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    if let Some(near) = nearest_in_section(section, name, schema) {
        return Some(near);
    }
    let is_section = !section.is_empty() && leaf(schema, section).is_some_and(Value::is_object);
    let mut paths = Vec::new();
    schema_paths(schema, "", &mut paths);
    // The names in a free map are no suggestions, because operators choose them.
    paths.retain(|path| !path.ends_with(ANY));
    // Replace the wildcards in the paths with the names that the given key has at these positions.
    let parts: Vec<&str> = key.split('.').collect();
    for path in &mut paths {
        let named = path.split('.').enumerate();
        let named: Vec<&str> =
            named.map(|(at, part)| if part == ANY { parts.get(at).copied().unwrap_or(ANY) } else { part }).collect();
        *path = named.join(".");
    }
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    paths
        .into_iter()
        .filter(|path| !is_section || last(path) == name)
        .map(|path| {
            // A correct key in the wrong section is as similar as a misspelled key in the right section.
            let distance =
                strsim::damerau_levenshtein(key, &path).min(strsim::damerau_levenshtein(&last(key), &last(&path)) + 1);
            (distance, path)
        })
        .min()
        .filter(|(distance, path)| *distance <= 2 + path.len() / 4)
        .map(|(_, path)| path)
}

/// Returns the most similar key of a section. None: the section is unknown, or none of its keys is similar enough.
fn nearest_in_section(section: &str, name: &str, schema: &Value) -> Option<String> {
    let members = if section.is_empty() { schema } else { leaf(schema, section)? }.as_object()?;
    let keys = members.keys().filter(|known| *known != ANY);
    let (distance, near) = keys.map(|known| (strsim::damerau_levenshtein(name, known), known)).min()?;
    (distance <= 1 + near.len() / 3).then(|| joined(section, near))
}

type Variables = Vec<(String, String)>;

/// Returns settings by key path, and warnings about variables with the prefix that are not settings.
fn split_variables(variables: &BTreeMap<String, String>, schema: &Value) -> (Variables, Vec<String>) {
    let mut set = Vec::new();
    let mut warnings = Vec::new();
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(ENV_PREFIX) else { continue };
        if NON_SETTING_VARIABLES.contains(&name.as_str()) || name.starts_with("FOLIO_TEST_") {
            continue;
        }
        let path = rest.to_ascii_lowercase().replace("__", ".");
        if is_leaf(schema, &path) {
            set.push((path, text.clone()));
        } else {
            // A section cannot be set by a variable, so it is no suggestion.
            let hint = nearest(&path, schema).filter(|near| is_leaf(schema, near)).map(variable_name);
            let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            warnings.push(format!("unknown variable {name} is ignored{hint}"));
        }
    }
    (set, warnings)
}

fn leaf<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(schema, member)
}

fn is_leaf(schema: &Value, path: &str) -> bool {
    leaf(schema, path).is_some_and(|found| !found.is_object())
}

fn variable_name(path: String) -> String {
    format!("{ENV_PREFIX}{}", path.replace('.', "__").to_ascii_uppercase())
}

fn describe(error: figment::Error) -> Error {
    let path = error.path.join(".");
    // The other kinds contain no value. A value may be a secret, so the error never shows it.
    let what = match &error.kind {
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            format!("expected {}", kind_of_number(expected).unwrap_or(expected))
        }
        Kind::Message(message) => message.clone(),
        other => other.to_string(),
    };
    Error::InvalidValue(format!("setting `{path}`: {what}"))
}

/// Returns a description of a numeric Rust type for operators. None: the type is not numeric.
fn kind_of_number(rust_type: &str) -> Option<&'static str> {
    match rust_type {
        "u8" | "u16" | "u32" | "u64" | "usize" => Some("a whole number that is not negative"),
        "i8" | "i16" | "i32" | "i64" | "isize" => Some("a whole number"),
        "f32" | "f64" => Some("a number"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Settings {
        gateway: Gateway,
        node: Node,
        providers: BTreeMap<String, Provider>,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Node {
        listener: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Gateway {
        listen: String,
        streams: u32,
        public_name: Option<String>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, Default)]
    #[serde(deny_unknown_fields, default)]
    struct Provider {
        base_url: String,
    }

    impl Default for Gateway {
        fn default() -> Self {
            Self { listen: "127.0.0.1:8080".to_owned(), streams: 8, public_name: None }
        }
    }

    fn sources(file: &str, variables: &[(&str, &str)], flags: &[(&str, Value)]) -> (tempfile::TempDir, Sources) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folio.toml");
        std::fs::write(&path, file).unwrap();
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let flags = flags.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let maps = BTreeMap::from([("providers".to_owned(), serde_json::to_value(Provider::default()).unwrap())]);
        (dir, Sources { file: Some(path), file_required: true, variables, flags, maps })
    }

    #[test]
    fn flags_override_variables_override_the_file_overrides_defaults() {
        let file = "[gateway]\nlisten = \"file:1\"\nstreams = 1\npublic_name = \"file\"\n";
        let variables = [("FOLIO_GATEWAY__STREAMS", "2"), ("FOLIO_GATEWAY__PUBLIC_NAME", "variable")];
        let (_dir, sources) = sources(file, &variables, &[("gateway.public_name", "flag".into())]);
        let loaded = load::<Settings>(&sources).unwrap();
        let gateway = loaded.settings.gateway;
        assert_eq!(
            (gateway.listen.as_str(), gateway.streams, gateway.public_name.as_deref()),
            ("file:1", 2, Some("flag"))
        );
        assert!(loaded.warnings.is_empty());
    }

    #[test]
    fn an_unknown_key_in_the_file_names_the_nearest_one() {
        for (file, key, near) in [
            ("[gateway]\nlistn = \"x\"\n", "gateway.listn", Some("gateway.listen")),
            ("[gatway]\nlisten = \"x\"\n", "gatway", Some("gateway")),
            ("listen = \"x\"\n", "listen", Some("gateway.listen")),
            ("[providers.a]\nbase_ur = \"x\"\n", "providers.a.base_ur", Some("providers.a.base_url")),
            ("[node]\nlisten = \"x\"\n", "node.listen", Some("node.listener")),
            ("[node]\nstreams = 1\n", "node.streams", Some("gateway.streams")),
            ("[node]\nstrems = 1\n", "node.strems", None),
            ("zzzzzzzzzzzzzzzzzzzz = 1\n", "zzzzzzzzzzzzzzzzzzzz", None),
        ] {
            let (_dir, sources) = sources(file, &[], &[]);
            match load::<Settings>(&sources) {
                Err(Error::UnknownKey { key: found, nearest, .. }) => {
                    assert!(found.ends_with(key), "{found}");
                    assert_eq!(nearest.as_deref(), near);
                }
                other => panic!("{file}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_unknown_variable_is_a_warning() {
        let variables = [
            ("FOLIO_GATEWAY__LISTN", "x"),
            ("FOLIO_SEED", "1"),
            ("FOLIO_GATEWAY", "x"),
            ("FOLIO_PROVIDERS__A__BASE_URL", "123"),
            ("FOLIO_PROVIDERS__A__BASEURL", "x"),
            ("PATH", "p"),
        ];
        let (_dir, sources) = sources("", &variables, &[]);
        let loaded = load::<Settings>(&sources).unwrap();
        assert_eq!(
            loaded.warnings,
            [
                "unknown variable FOLIO_GATEWAY is ignored",
                "unknown variable FOLIO_GATEWAY__LISTN is ignored; did you mean FOLIO_GATEWAY__LISTEN?",
                "unknown variable FOLIO_PROVIDERS__A__BASEURL is ignored; did you mean FOLIO_PROVIDERS__A__BASE_URL?"
            ]
        );
        assert_eq!(loaded.settings.providers["a"].base_url, "123", "a text of digits stays a text");
    }

    #[test]
    fn a_wrong_type_is_an_error_that_names_the_key_and_hides_the_value() {
        let (_dir, sources) = sources("", &[("FOLIO_GATEWAY__STREAMS", "hunter2")], &[]);
        let message = load::<Settings>(&sources).unwrap_err().to_string();
        assert!(message.contains("gateway.streams") && !message.contains("hunter2"), "{message}");
        assert!(message.contains("expected a whole number"), "{message}");
    }

    #[test]
    fn a_text_of_digits_stays_a_text() {
        let (_dir, sources) = sources("", &[("FOLIO_GATEWAY__LISTEN", "0123")], &[]);
        assert_eq!(load::<Settings>(&sources).unwrap().settings.gateway.listen, "0123");
    }

    #[test]
    fn a_syntax_error_names_its_position_without_the_line() {
        let (_dir, sources) = sources("[gateway]\nlisten = \"sk-secret\n", &[], &[]);
        let message = load::<Settings>(&sources).unwrap_err().to_string();
        assert!(message.contains("line 2") && !message.contains("sk-secret"), "{message}");
    }

    #[test]
    fn a_malformed_or_missing_file_is_an_error() {
        let (_dir, sources) = sources("[gateway\n", &[], &[]);
        assert!(matches!(load::<Settings>(&sources), Err(Error::Syntax { .. })));
        let missing_file =
            Sources { file: Some("/nonexistent/folio.toml".into()), file_required: true, ..Sources::default() };
        assert!(matches!(load::<Settings>(&missing_file), Err(Error::Read { .. })));
        let optional = Sources { file_required: false, ..missing_file };
        assert_eq!(load::<Settings>(&optional).unwrap().settings, Settings::default());
    }
}
