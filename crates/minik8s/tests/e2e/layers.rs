//! Rules about the repository itself.

mod running;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which crates a crate may depend on, from the top down. A new crate must be placed here.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "minik8s",
        &[
            "api",
            "apiserver",
            "auth",
            "authentication",
            "authorization",
            "cli",
            "controllers",
            "datadir",
            "encryption",
            "feature",
            "functions",
            "gateway",
            "informer",
            "join",
            "kinds",
            "kubelet",
            "mesh",
            "meta",
            "metrics",
            "monitoring",
            "network",
            "registry",
            "router",
            "runtime",
            "scheduler",
            "slurm",
            "storage",
            "store",
            "telemetry",
            "ui",
            "workflows",
        ],
    ),
    ("cli", &["meta", "patch"]),
    (
        "apiserver",
        &[
            "api",
            "auth",
            "cel",
            "meta",
            "metrics",
            "patch",
            "pod-security",
            "protobuf",
            "schema",
            "store",
            "telemetry",
        ],
    ),
    ("authorization", &["api", "authentication", "cel"]),
    ("authentication", &["api", "cel", "meta"]),
    ("workflows", &["api", "asl", "feature", "meta", "runtime"]),
    ("controllers", &["api", "feature", "meta", "metrics", "runtime"]),
    ("ui", &["api", "feature"]),
    ("slurm", &["api", "feature", "meta", "runtime"]),
    ("storage", &["api", "csi", "feature", "meta", "runtime"]),
    ("monitoring", &["api", "feature", "informer", "meta", "telemetry"]),
    ("mesh", &["api", "feature", "informer", "limits", "meta", "metrics", "proxy", "runtime", "telemetry"]),
    ("gateway", &["api", "feature", "meta", "runtime"]),
    ("functions", &["api", "feature", "jsonata", "meta", "registry", "runtime"]),
    ("registry", &["api", "datadir", "feature", "informer", "meta"]),
    ("feature", &["api", "informer", "meta", "runtime", "telemetry"]),
    ("scheduler", &["cel", "metrics", "runtime", "meta"]),
    ("join", &["auth", "datadir", "meta"]),
    ("kubelet", &["csi", "datadir", "informer", "meta", "metrics", "runtime", "shared-storage", "telemetry"]),
    ("router", &["informer", "limits", "meta", "metrics", "proxy", "telemetry"]),
    ("proxy", &["limits", "meta", "metrics", "telemetry"]),
    ("network", &["informer", "limits", "meta", "metrics"]),
    ("shared-storage", &["csi", "datadir", "meta"]),
    ("csi", &[]),
    ("datadir", &[]),
    ("limits", &[]),
    ("runtime", &["informer", "meta"]),
    ("informer", &["meta"]),
    ("auth", &[]),
    ("patch", &["schema"]),
    ("pod-security", &[]),
    ("protobuf", &[]),
    ("kinds", &["api", "cel", "meta", "schema"]),
    ("api", &["meta", "metrics", "schema", "telemetry"]),
    ("cel", &["schema"]),
    ("encryption", &["meta", "store"]),
    ("store", &["meta"]),
    ("telemetry", &["meta", "metrics"]),
    ("metrics", &[]),
    ("meta", &[]),
    ("schema", &[]),
    ("fuzz", &[]),
    ("asl", &["jsonata"]),
    ("jsonata", &[]),
];

const LONGEST_FILE: usize = 800;
const LONGEST_FUNCTION: usize = 80;

#[test]
fn crates_depend_downwards_only() {
    let allowed: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    for directory in crates() {
        let name = file_name(&directory);
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let Some(below) = allowed.get(name.as_str()) else {
            panic!("crate {name} has no place among the layers: add it to LAYERS in {}", file!());
        };
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for line in dependencies.lines().filter(|line| line.starts_with("minik8s-")) {
            let dependency = line["minik8s-".len()..].split(['.', ' ', '=']).next().unwrap_or_default();
            assert!(below.contains(&dependency), "crate {name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_layers_have_no_cycle() {
    let height = |name: &str| LAYERS.iter().position(|(layer, _)| *layer == name);
    for (name, below) in LAYERS {
        for other in *below {
            assert!(height(other) > height(name), "{other} must stand below {name} in LAYERS");
        }
    }
}

/// Whatever a feature or the control plane runs: no controller can be added without a test that it settles, from any state
/// in which it was stopped.
#[test]
fn controllers_have_a_test_that_they_converge() {
    let mut found = 0;
    for directory in crates() {
        let texts: Vec<String> = rust_files(&directory.join("src"))
            .into_iter()
            .map(|file| std::fs::read_to_string(file).unwrap())
            .collect();
        let tests = texts.iter().filter_map(|text| text.rsplit("#[cfg(test)]").next());
        let tests: Vec<&str> = tests.filter(|text| text.contains("check_convergence(")).collect();
        for controller in texts.iter().flat_map(|text| controllers(text)) {
            found += 1;
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let has_test =
                tests.iter().any(|text| text.split(|c| !is_word(c)).any(|word| word == controller));
            assert!(has_test, "{}: no check_convergence test runs {controller}", directory.display());
        }
    }
    assert!(found > 30, "{found} controllers found");
}

/// Types that implement `Controller`.
fn controllers(text: &str) -> Vec<String> {
    let impls = text.lines().filter(|line| line.starts_with("impl") && line.contains(" Controller for "));
    let named = impls.filter_map(|line| line.split(" Controller for ").nth(1));
    named.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric()).collect()).collect()
}

#[test]
fn source_files_are_short_and_say_what_they_are() {
    let mut problems = Vec::new();
    for file in rust_files(&root().join("crates")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        let is_test = shown.contains("tests");
        if !text.starts_with("//!") && !is_test {
            problems.push(format!("{shown}: begin with a //! paragraph: what it is and why"));
        }
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            problems.push(format!("{shown}: {lines} lines; split it by responsibility"));
        }
        for word in ["todo!(", "unimplemented!(", "FIXME", "XXX"] {
            if text.contains(word) && !shown.ends_with("layers.rs") {
                problems.push(format!("{shown}: contains {word}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn functions_are_short() {
    let mut problems = Vec::new();
    for file in crates().iter().flat_map(|path| rust_files(&path.join("src"))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for start in (0..lines.len()).filter(|start| begins_function(lines[*start])) {
            let length = function_length(&lines[start..]);
            if length > LONGEST_FUNCTION {
                problems.push(format!("{}:{}: {length} lines; split it", file.display(), start + 1));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn begins_function(line: &str) -> bool {
    let code = line.trim_start();
    let public = code.strip_prefix("pub(").and_then(|rest| rest.split_once(") "));
    let code = public.map_or(code, |(_, rest)| rest);
    let mut words = code.split(' ').take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()));
    words.any(|word| word == "fn")
}

/// As rustfmt writes them: a body ends with a brace, and a mere declaration with a semicolon, below the first letter.
fn function_length(lines: &[&str]) -> usize {
    let first = lines[0];
    if first.ends_with([';', '}']) {
        return 1;
    }
    let indent = &first[..first.len() - first.trim_start().len()];
    let is_end = |line: &&str| {
        let rest = line.strip_prefix(indent);
        rest.is_some_and(|rest| rest == "}" || (rest.starts_with(')') && rest.ends_with(';')))
    };
    lines.iter().position(is_end).map_or(lines.len(), |last| last + 1)
}

#[test]
fn names_use_the_words_of_the_field() {
    let guide = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let words = guide.split("## Words").nth(1).and_then(|rest| rest.split("## ").next()).unwrap();
    let rows = words.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).skip(1);
    let instead: BTreeMap<&str, &str> =
        rows.flat_map(|(avoided, term)| avoided.split(", ").map(move |word| (word, term))).collect();
    assert!(instead.len() > 5, "the table in CONTRIBUTING.md was not found");
    let mut problems = Vec::new();
    for file in rust_files(&root().join("crates")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            for word in words_of_names(line) {
                if let Some(term) = instead.get(word.as_str()) {
                    let place = file.strip_prefix(root()).unwrap().display();
                    problems.push(format!("{place}:{}: {word}: say {term}", number + 1));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// `connectPatience`, `CONNECT_PATIENCE` and `connect_patience` are two words each. Comments and texts are no names.
fn words_of_names(line: &str) -> Vec<String> {
    let code: String = line.split("//").next().unwrap_or_default().split('"').step_by(2).collect();
    let mut words = vec![String::new()];
    let mut last = ' ';
    for letter in code.chars() {
        let begins = letter.is_uppercase() && !last.is_uppercase();
        if begins || !letter.is_alphabetic() {
            words.push(String::new());
        }
        if letter.is_alphabetic() {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
        last = letter;
    }
    words
}

/// The library's function walks through bind mounts, where the files are somebody else's.
#[test]
fn trees_are_removed_by_datadir_alone() {
    let mut problems = Vec::new();
    for file in rust_files(&root().join("crates")) {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains(concat!("remove_dir", "_all")) {
            problems.push(format!("{}: use minik8s_datadir::remove_tree", file.display()));
        }
    }
    for file in scripts() {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        // The lab's nodes mount in namespaces of their own, and it looks before it removes.
        if text.contains("rm -r") && file_name(&file) != "lab" {
            problems.push(format!("{}: use minik8s teardown --purge", file.display()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Pauses that grow are a matter of `minik8s_meta::Backoff`.
#[test]
fn backoff_is_written_once() {
    let doubles = |line: &str| {
        let is_bounded = line.contains(".min(") && line.contains(concat!("* ", "2)"));
        let named = ["pause", "delay", "retry", "wait", "backoff"];
        let counted = ["doubling", "attempt", "failures", "rounds", "tries", "count.saturating_sub"];
        is_bounded
            || ["2_u32.pow(", "2u32.pow("].iter().any(|power| line.contains(power))
            || named.iter().any(|name| line.contains(&format!("{name} *= 2")))
            || line.split_once("<<").is_some_and(|(_, by)| counted.iter().any(|name| by.contains(name)))
    };
    let mut problems = Vec::new();
    for file in crates().iter().flat_map(|path| rust_files(&path.join("src"))) {
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, _) in text.lines().enumerate().filter(|(_, line)| doubles(line)) {
            problems.push(format!("{}:{}: use minik8s_meta::Backoff", file.display(), number + 1));
        }
    }
    assert!(doubles("pause = (pause * 2).min(MOST);") && !doubles("let half = LIFETIME * 2 / 3;"));
    assert!(
        doubles("Duration::from_millis(25 << attempt.min(4))") && !doubles("const LARGEST: u64 = 1 << 20;")
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// By `minik8s_metrics::Text`. What users' programs do is theirs, as in an example.
#[test]
fn text_of_metrics_is_written_once() {
    let mut problems = Vec::new();
    for directory in crates().into_iter().filter(|path| file_name(path) != "metrics") {
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        if manifest.split("[dev-dependencies]").next().unwrap_or_default().contains("prometheus-client") {
            problems.push(format!("{}: count with minik8s_metrics::Counters", directory.display()));
        }
        for file in rust_files(&directory.join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            if !file.ends_with("tests.rs") && text.contains("# TYPE ") {
                problems.push(format!("{}: write metrics with minik8s_metrics::Text", file.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Else a purge leaves it behind, and a data dir that holds it is taken for somebody's own.
#[test]
fn names_in_the_data_dir_are_known_to_datadir() {
    let mut problems = Vec::new();
    let mut found = 0;
    for file in crates().iter().flat_map(|path| rust_files(&path.join("src"))) {
        let text = std::fs::read_to_string(&file).unwrap();
        for (_, rest) in
            text.match_indices("data_dir.join(\"").map(|(at, start)| text.split_at(at + start.len()))
        {
            let name = rest.split(['"', '/']).next().unwrap_or_default();
            found += 1;
            if !minik8s_datadir::is_known(name.as_ref()) {
                problems
                    .push(format!("{}: crates/datadir/src/purge.rs does not know {name}", file.display()));
            }
        }
    }
    assert!(found > 10, "the names are found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Each would be linked with the whole program once more.
#[test]
fn end_to_end_tests_are_one_binary() {
    let entries = std::fs::read_dir(root().join("crates/minik8s/tests")).unwrap();
    let names: Vec<String> = entries.map(|entry| file_name(&entry.unwrap().path())).collect();
    assert_eq!(names, ["e2e"], "an area is a module of crates/minik8s/tests/e2e/main.rs");
}

fn scripts() -> Vec<PathBuf> {
    let entries = |dir: PathBuf| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let examples = entries(root().join("examples")).map(|example| example.join("run"));
    entries(root().join("scripts")).chain(examples).chain([root().join("Makefile")]).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn crates() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.join("Cargo.toml").is_file()).collect()
}

fn rust_files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(rust_files(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found
}
