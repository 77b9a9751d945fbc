//! Settings as an operator uses them: values out of bounds are refused before anything starts, and the chosen values
//! are printed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::command_line::{folio, text};
use crate::process::Process;

/// Returns the error output of a failing command.
fn refused(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = folio(folder, arguments, environment, "");
    let printed = text(&output.stderr);
    assert!(!output.status.success(), "{arguments:?} must be refused: {printed}");
    assert!(!printed.contains("panicked"), "{printed}");
    printed
}

#[test]
fn settings_out_of_bounds_are_all_named_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[conversation]\nsweep_interval_seconds = 0\nlive_max = 0\napproval_ttl_seconds = 9999999\n\
                    [gateway]\nshort_calls = 9223372036854775807\n[documents]\nocr_dpi = 0\n[cleanup]\nbatch = 0\n";
    std::fs::write(folder.path().join("folio.toml"), settings).unwrap();
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["config"], &["demo"]] {
        let printed = refused(folder.path(), command, &[]);
        for key in [
            "conversation.sweep_interval_seconds",
            "conversation.live_max",
            "conversation.approval_ttl_seconds",
            "gateway.short_calls",
            "documents.ocr_dpi",
            "cleanup.batch",
        ] {
            assert!(printed.contains(&format!("{key}: must be from ")), "{key} in {printed}");
        }
    }
    assert!(!folder.path().join("folio-data").exists(), "nothing was started");
}

#[test]
fn a_variable_of_a_provider_is_read_as_text_and_an_unknown_one_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("FOLIO_MODELS__PROVIDERS__A__BASE_URL", "http://127.0.0.1:9/v1"),
        ("FOLIO_MODELS__PROVIDERS__A__API_KEY", "123456"),
        ("FOLIO_MODELS__PROVIDERS__A__APIKEY", "x"),
    ];
    let output = folio(folder.path(), &["config"], &variables, "");
    let printed = text(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("APIKEY is ignored; did you mean FOLIO_MODELS__PROVIDERS__A__API_KEY?"), "{printed}");
    assert!(text(&output.stdout).contains("http://127.0.0.1:9/v1"));
}

#[test]
fn the_default_model_of_the_settings_applies_to_every_source_of_endpoints() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let key = [("OPENAI_API_KEY", "sk-x"), ("FOLIO_MODELS__DEFAULT_MODEL", "my-model")];
    let server = Process::start("folio", folder.path(), &serve, &key);
    let printed = server.printed();
    assert!(
        printed.contains("(from OPENAI_API_KEY), default model my-model"),
        "documents are stored at the configured location: {printed}"
    );
    assert!(!printed.contains("sk-x"), "{printed}");
    assert!(server.terminate());
    let printed = refused(folder.path(), &serve, &[("FOLIO_MODELS__DEFAULT_MODEL", "my-model")]);
    assert!(printed.contains("models.default_model") && printed.contains("offline-rules"), "{printed}");
}

#[test]
fn flags_without_effect_on_a_command_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for flag in ["--data", "--listen"] {
        for command in ["demo", "migrate", "health"] {
            assert!(refused(folder.path(), &[command, flag, "x"], &[]).contains("unexpected argument"), "{command}");
        }
    }
    let printed = refused(folder.path(), &["config", "--config", "missing.toml"], &[]);
    assert_eq!(printed.matches("No such file").count(), 1, "{printed}");
}

#[test]
fn the_chat_finds_its_server_by_a_variable_and_reports_failures_by_its_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start("folio", folder.path(), &["serve", "--listen", "127.0.0.1:0"], &[]);
    let url = server.url();
    let address = url.trim_start_matches("http://");
    let at = [("FOLIO_SERVER", address)];
    std::fs::write(folder.path().join("a.txt"), "Total: 12").unwrap();
    let good = folio(folder.path(), &["chat", "a.txt"], &at, "/threads\n");
    assert!(good.status.success(), "{}", text(&good.stderr));
    let bad = folio(folder.path(), &["chat", "a.txt", "--model", "nope"], &at, "hello\n");
    let printed = text(&bad.stdout) + &text(&bad.stderr);
    assert!(!bad.status.success() && printed.contains("nope"), "{printed}");
    assert!(server.terminate());
}

#[test]
fn the_data_folder_is_private_to_its_owner_even_if_it_existed() {
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
