//! Settings as an operator uses them: values out of bounds are refused before anything starts, and the chosen values
//! are printed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::command_line::{folio, text};
use crate::process::Process;

/// Returns the error output of a failing command.
fn refused(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = folio(folder, arguments, environment, "");
    let told = text(&output.stderr);
    assert!(!output.status.success(), "{arguments:?} is to be refused: {told}");
    assert!(!told.contains("panicked"), "{told}");
    told
}

#[test]
fn settings_out_of_bounds_are_all_named_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[conversation]\nsweep_interval_seconds = 0\nlive_max = 0\napproval_ttl_seconds = 9999999\n\
                    [gateway]\nshort_calls = 9223372036854775807\n[documents]\nocr_dpi = 0\n[cleanup]\nbatch = 0\n";
    std::fs::write(folder.path().join("folio.toml"), settings).unwrap();
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["config"], &["demo"]] {
        let told = refused(folder.path(), command, &[]);
        for key in [
            "conversation.sweep_interval_seconds",
            "conversation.live_max",
            "conversation.approval_ttl_seconds",
            "gateway.short_calls",
            "documents.ocr_dpi",
            "cleanup.batch",
        ] {
            assert!(told.contains(&format!("{key}: must be from ")), "{key} in {told}");
        }
    }
    assert!(!folder.path().join("folio-data").exists(), "nothing was started");
}

#[test]
fn a_variable_below_a_provider_is_read_as_it_is_written_and_an_unknown_one_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("FOLIO_MODELS__PROVIDERS__A__BASE_URL", "http://127.0.0.1:9/v1"),
        ("FOLIO_MODELS__PROVIDERS__A__API_KEY", "123456"),
        ("FOLIO_MODELS__PROVIDERS__A__APIKEY", "x"),
    ];
    let output = folio(folder.path(), &["config"], &variables, "");
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("APIKEY sets nothing; did you mean FOLIO_MODELS__PROVIDERS__A__API_KEY?"), "{told}");
    assert!(text(&output.stdout).contains("http://127.0.0.1:9/v1"));
}

#[test]
fn the_default_model_of_the_settings_counts_whatever_the_endpoint_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let key = [("OPENAI_API_KEY", "sk-x"), ("FOLIO_MODELS__DEFAULT_MODEL", "my-model")];
    let server = Process::start("folio", folder.path(), &serve, &key);
    let told = server.said();
    assert!(told.contains("(from OPENAI_API_KEY), default model my-model"), "documents go where it is said: {told}");
    assert!(!told.contains("sk-x"), "{told}");
    assert!(server.terminate());
    let told = refused(folder.path(), &serve, &[("FOLIO_MODELS__DEFAULT_MODEL", "my-model")]);
    assert!(told.contains("models.default_model") && told.contains("offline-rules"), "{told}");
}

#[test]
fn flags_that_mean_nothing_to_a_command_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refused(folder.path(), &["demo", "--data", "here"], &[]).contains("--data has no meaning"));
    assert!(refused(folder.path(), &["demo", "--listen", "127.0.0.1:1"], &[]).contains("--listen has no meaning"));
    let told = refused(folder.path(), &["config", "--config", "gone.toml"], &[]);
    assert_eq!(told.matches("No such file").count(), 1, "{told}");
}

#[test]
fn the_chat_finds_its_server_by_a_variable_and_says_by_its_status_that_something_failed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start("folio", folder.path(), &["serve", "--listen", "127.0.0.1:0"], &[]);
    let url = server.url();
    let address = url.trim_start_matches("http://");
    let at = [("FOLIO_SERVER", address)];
    std::fs::write(folder.path().join("a.txt"), "Total: 12").unwrap();
    let good = folio(folder.path(), &["chat", "a.txt"], &at, "/threads\n");
    assert!(good.status.success(), "{}", text(&good.stderr));
    let bad = folio(folder.path(), &["chat", "a.txt", "--model", "nope"], &at, "hello\n");
    let told = text(&bad.stdout) + &text(&bad.stderr);
    assert!(!bad.status.success() && told.contains("nope"), "{told}");
    assert!(server.terminate());
}

#[test]
fn what_is_kept_is_its_owners_alone_also_in_a_folder_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
    let server = Process::start("folio", folder.path(), &arguments, &[]);
    std::fs::write(folder.path().join("a.txt"), "Total: 12").unwrap();
    let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
    let url = server.url();
    let address = url.trim_start_matches("http://");
    let at = [("FOLIO_SERVER", address), ("FOLIO_TOKEN", token.trim())];
    assert!(folio(folder.path(), &["chat", "a.txt"], &at, "").status.success());
    assert!(server.terminate());
    let mut seen = 0;
    for entry in std::fs::read_dir(&data).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} is open to others", entry.path());
        seen += 1;
    }
    assert!(seen >= 3, "token, store and blobs");
}
