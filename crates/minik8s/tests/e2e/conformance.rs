//! `docs/conformance.md` names every entry of upstream's suite once, and it and `docs/security.md` only tests that exist.
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

/// Each attack of `docs/security.md` is made by a test: the last column names it, a family of them with `*` at its end.
#[test]
fn every_attack_names_real_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let code = rust_code(&root.join("crates"));
    let attacks: Vec<(&str, &str)> =
        page.lines().filter_map(row).filter(|(_, test)| test.starts_with('`')).collect();
    assert!(attacks.len() > 50, "{} attacks: the tables were not found", attacks.len());
    let is_real = |test: &str| {
        let last = test.rsplit("::").next().unwrap_or_default();
        match last.strip_suffix('*') {
            Some(family) => code.contains(&format!("fn {family}")),
            None => ["fn", "mod"].iter().any(|what| {
                code.contains(&format!("{what} {last}(")) || code.contains(&format!("{what} {last} {{"))
            }),
        }
    };
    let named = attacks
        .iter()
        .flat_map(|(attack, tests)| tests.split('`').skip(1).step_by(2).map(move |test| (attack, test)));
    let wrong: Vec<String> = named
        .filter(|(_, test)| !is_real(test))
        .map(|(attack, test)| format!("{attack}: there is no test {test}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All that stands in Rust files below a folder.
fn rust_code(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.fold(String::new(), |code, path| match path.extension().is_some_and(|ending| ending == "rs") {
        _ if path.is_dir() => code + &rust_code(&path),
        true => code + &std::fs::read_to_string(&path).unwrap(),
        false => code,
    })
}
