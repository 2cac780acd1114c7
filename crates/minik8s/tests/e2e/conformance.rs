//! `docs/conformance.md` names every entry of upstream's suite once, and only tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

/// How many entries upstream's suite has at the version whose API we serve.
const ENTRIES: usize = 465;

#[test]
fn every_entry_is_there_once_and_names_real_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/conformance.md")).unwrap();
    let rows: Vec<(&str, &str)> = page.lines().filter_map(row).collect();
    let names: BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        (rows.len(), names.len()),
        (ENTRIES, ENTRIES),
        "entries, and entries with a name of their own"
    );
    let wrong: Vec<String> = rows.iter().filter_map(|(name, shown)| complaint(&root, name, shown)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `| entry | shown by |`, without the head of the table.
fn row(line: &str) -> Option<(&str, &str)> {
    let (name, shown) = line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
    (name != "Entry").then_some((name, shown))
}

/// What is wrong with a row: it must say `not yet`, or name tests as `file: function`, divided by commas.
fn complaint(root: &Path, name: &str, shown: &str) -> Option<String> {
    if shown == "not yet" {
        return None;
    }
    shown.split(", ").find_map(|test| {
        let named = test.strip_prefix('`').and_then(|test| test.strip_suffix('`')?.split_once(": "));
        let Some((file, function)) = named else {
            return Some(format!("{name}: {test:?} is neither `file: function` nor \"not yet\""));
        };
        let code = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        (!code.contains(&format!("fn {function}(")))
            .then(|| format!("{name}: there is no test {function} in {file}"))
    })
}
