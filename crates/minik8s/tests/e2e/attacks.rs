//! Each attack of `docs/security.md` is made by a test: the last column of its tables names it, a family of them with `*`
//! at its end. A name counts if it is that of a test, of a case in one of the lists of cases, or of a function that one of
//! these calls; never if it is only that of some function or module.

use std::collections::BTreeMap;
use std::path::Path;

/// How the head of a table of attacks ends.
const HEAD: &str = "| Defence | Test |";
/// How far a function may be from the test that calls it.
const DEPTH: usize = 3;

#[test]
fn every_attack_names_real_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut code = Code::default();
    code.read(&root.join("crates"));
    let (attacks, mut wrong) = attacks(&page);
    assert!(attacks.len() > 100, "{} attacks: the tables were not found", attacks.len());
    for (attack, tests) in attacks {
        if tests.is_empty() {
            wrong.push(format!("{attack}: no test makes it"));
        }
        let unreal = tests.iter().filter(|test| !code.has_test(test));
        wrong.extend(unreal.map(|test| format!("{attack}: there is no test {test}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each attack with the tests that it names, and what is wrong with the tables.
fn attacks(page: &str) -> (Vec<(&str, Vec<&str>)>, Vec<String>) {
    let (mut attacks, mut wrong) = (Vec::new(), Vec::new());
    let mut head: Option<&str> = None;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        match head {
            _ if !line.starts_with('|') => head = None,
            None => {
                // Rows after an empty line are no table any more.
                if !lines.peek().is_some_and(|next| next.starts_with("|--")) {
                    wrong.push(format!("a row outside of a table: {line}"));
                }
                head = Some(line);
            }
            Some(table) if table.ends_with(HEAD) && !line.starts_with("|--") => {
                let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
                let tests = cells.last().copied().unwrap_or_default();
                attacks.push((cells[0].trim(), tests.split('`').skip(1).step_by(2).collect()));
            }
            Some(_) => {}
        }
    }
    (attacks, wrong)
}

/// What the repository's Rust files hold, as far as it matters here.
#[derive(Default)]
struct Code {
    /// Tests and cases by name, with the file that each is in.
    tests: BTreeMap<String, Vec<String>>,
    /// Functions, with all that stands before the next one.
    functions: Vec<(String, String)>,
}

impl Code {
    fn read(&mut self, folder: &Path) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                self.read(&path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                self.add(path.to_str().unwrap(), &std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    fn add(&mut self, file: &str, text: &str) {
        let (mut is_test, mut is_in_cases) = (false, false);
        for line in text.lines() {
            let trimmed = line.trim();
            if trimmed.starts_with("//") {
                continue;
            }
            is_test |= trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test");
            if let Some(name) = function(trimmed) {
                if std::mem::take(&mut is_test) {
                    self.test(name, file);
                }
                self.functions.push((name.to_owned(), String::new()));
            } else if let Some((_, body)) = self.functions.last_mut() {
                body.extend([line, "\n"]);
            }
            // `cases! { ON =>`, then names by module; or a list of names and functions.
            if trimmed.starts_with("cases! {") {
                is_in_cases = true;
            } else if trimmed.starts_with('}') {
                is_in_cases = false;
            } else if is_in_cases {
                let names = trimmed.rsplit(": ").next().unwrap_or_default();
                names.split([',', ';', ' ']).for_each(|name| self.test(name, file));
            }
            if let Some(path) = listed(trimmed) {
                self.test(last(path), &format!("{file}/{path}"));
            }
        }
    }

    fn test(&mut self, name: &str, file: &str) {
        self.tests.entry(name.to_owned()).or_default().push(file.to_owned());
    }

    fn has_test(&self, name: &str) -> bool {
        if let Some(family) = name.strip_suffix('*') {
            return self.tests.keys().any(|test| test.starts_with(family));
        }
        // `module::test`: the module is a file or a folder.
        let is_there = |file: &String| match name.rsplit_once("::") {
            Some((module, _)) => file.contains(&format!("/{}", last(module))),
            None => true,
        };
        match self.tests.get(last(name)) {
            Some(files) => files.iter().any(is_there),
            None => self.is_called_by_a_test(last(name), DEPTH),
        }
    }

    fn is_called_by_a_test(&self, name: &str, depth: usize) -> bool {
        let call = format!("{name}(");
        let mut callers =
            self.functions.iter().filter(|(caller, body)| caller != name && body.contains(&call));
        callers.any(|(caller, _)| {
            self.tests.contains_key(caller) || (depth > 1 && self.is_called_by_a_test(caller, depth - 1))
        })
    }
}

/// The case of a line `("module::case", module::case),` or of one that holds only the name, with its module.
fn listed(line: &str) -> Option<&str> {
    let (path, rest) = line.trim_start_matches('(').strip_prefix('"')?.split_once("\",")?;
    (rest.contains(last(path)) || (rest.is_empty() && path.contains("::"))).then_some(path)
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_head =
        before.split_whitespace().all(|word| word.starts_with("pub") || matches!(word, "async" | "const"));
    let name = rest.split(['(', '<']).next()?;
    (is_head && rest.len() > name.len()).then_some(name)
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[test]
fn attack_counts_only_with_a_test() {
    let mut code = Code::default();
    code.add("a/cases.rs", "cases! { on =>\n    security: privileges, root;\n}\n");
    code.add(
        "a/list.rs",
        "(\"policies::listed\", policies::listed),\n(\n    \"policies::long\",\n    policies::long,\n),\n",
    );
    let text = "fn helper() {\n}\n#[test]\nfn zip_is_refused() {\n    helper();\n}\nfn loose() {\n    helper();\n}\n";
    code.add("a/zip.rs", text);
    let names = [
        "privileges",
        "root",
        "listed",
        "policies::long",
        "zip_is_refused",
        "zip::zip_is_refused",
        "zip_*",
        "helper",
    ];
    assert!(names.iter().all(|name| code.has_test(name)), "{:?}", code.tests);
    for name in ["loose", "tests", "zip::tests", "other::zip_is_refused", "none_*"] {
        assert!(!code.has_test(name), "{name}");
    }
    let page =
        format!("| Attack {HEAD}\n|---|---|---|\n| a | b | `c`, `d` |\n| e | f | g |\n\n| h | i | `j` |\n");
    let (attacks, wrong) = attacks(&page);
    assert_eq!(attacks, [("a", vec!["c", "d"]), ("e", vec![])]);
    assert_eq!(wrong, ["a row outside of a table: | h | i | `j` |"]);
}
