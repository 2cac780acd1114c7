//! Each attack of `docs/security.md` is made by a test: the last column of its tables names it, a family of them with `*`
//! at its end. A name counts if it is that of a test, of a case in one of the lists of cases, or of a function that one of
//! these calls; never if it is only that of some function or module. None of them is tried again when it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How the head of a table of attacks ends.
const HEAD: &str = "| Defence | Test |";
/// How far a function may be from the test that calls it.
const DEPTH: usize = 3;

fn text_of(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

#[test]
fn every_attack_names_real_tests() {
    let page = text_of("docs/security.md");
    let code = Code::of_the_repository();
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

/// An attack that succeeds every other time succeeds.
#[test]
fn no_attack_is_tried_again() {
    let (page, code) = (text_of("docs/security.md"), Code::of_the_repository());
    let retries = retries(&text_of(".config/nextest.toml"));
    let (attacks, _) = attacks(&page);
    let named: BTreeSet<&str> = attacks.iter().flat_map(|(_, tests)| tests).copied().collect();
    let run = |name: &str| code.runs_of(name);
    let (forgiven, strict): (Vec<String>, Vec<String>) =
        named.into_iter().flat_map(run).partition(|test| is_tried_again(&retries, test));
    assert!(forgiven.is_empty(), ".config/nextest.toml tries these again: {forgiven:?}");
    let case = |test: &String| test == "node::cases::guards::security::seccomp_profiles";
    assert!(strict.iter().any(case), "names are not as nextest has them: {strict:?}");
}

/// Any other that passes only at its second try fails `make test` (`scripts/check-flaky`).
#[test]
fn only_tests_known_to_be_flaky_are_tried_again() {
    let retries = retries(&text_of(".config/nextest.toml"));
    let tried = retries.iter().filter(|(is_tried, _)| *is_tried);
    let tried: BTreeSet<&str> = tried.flat_map(|(_, patterns)| patterns).map(String::as_str).collect();
    let list = text_of(".config/flaky-tests.toml");
    let listed = list.lines().filter_map(|line| line.strip_prefix("test = \"")?.strip_suffix('"'));
    let listed: BTreeSet<&str> = listed.filter_map(|test| test.split(' ').nth(1)).collect();
    assert_eq!(tried, listed);
}

/// The entries of nextest's settings that have `retries`, in their order: whether there are any, and for which tests. `*`
/// stands for the rest of a name.
fn retries(settings: &str) -> Vec<(bool, Vec<String>)> {
    let mut entries = Vec::new();
    for entry in settings.split("[[profile.default.overrides]]").skip(1) {
        let Some(count) = entry.lines().find_map(|line| line.strip_prefix("retries = ")) else { continue };
        let quoted = entry.split("filter = ").nth(1).unwrap_or_default().trim_start_matches('\'');
        let filter = quoted.split('\'').next().unwrap_or_default();
        let mut patterns = Vec::new();
        for word in filter.split(|c: char| c.is_whitespace() || "()".contains(c)) {
            let prefix = word.strip_prefix("/^").and_then(|word| word.strip_suffix('/'));
            match (word.strip_prefix('='), prefix) {
                (Some(name), _) => patterns.push(name.to_owned()),
                (_, Some(prefix)) => patterns.push(format!("{prefix}*")),
                _ if ["", "package", "test", "&", "|"].contains(&word) || word.starts_with("minik8s") => {}
                _ => panic!("say which tests by test(=NAME) or test(/^PREFIX/), not by {word}"),
            }
        }
        assert!(!patterns.is_empty(), "say which tests: {filter}");
        entries.push((count.trim() != "0", patterns));
    }
    entries
}

/// The first entry that fits decides.
fn is_tried_again(retries: &[(bool, Vec<String>)], test: &str) -> bool {
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => test.starts_with(prefix),
        None => test == pattern,
    };
    retries.iter().find(|(_, patterns)| patterns.iter().any(fits)).is_some_and(|(is_tried, _)| *is_tried)
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
    fn of_the_repository() -> Self {
        let mut code = Code::default();
        code.read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        code
    }

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
        let (mut outer, mut module) = ("", "");
        for line in text.lines() {
            let trimmed = line.trim();
            if line.starts_with("mod ") || line == "}" {
                outer =
                    line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {")).unwrap_or_default();
            }
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
                let (begun, names) = trimmed.split_once(": ").unwrap_or((module, trimmed));
                module = begun;
                let place = format!("{file}/{outer}/{module}");
                let names = names.split([',', ';', ' ']).filter(|name| !name.is_empty());
                names.for_each(|name| self.test(name, &place));
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

    /// What nextest calls the tests of that name, or those that call the function. Of other packages the name alone.
    fn runs_of(&self, name: &str) -> Vec<String> {
        let family = name.strip_suffix('*');
        let is_named = |test: &str| family.map_or(test == last(name), |family| test.starts_with(family));
        let mut tests: BTreeSet<&str> =
            self.tests.keys().map(String::as_str).filter(|test| is_named(test)).collect();
        if tests.is_empty() {
            self.add_callers(last(name), DEPTH, &mut tests);
        }
        let places = |test: &str| self.tests[test].iter().map(|file| run(file, test)).collect::<Vec<_>>();
        tests.into_iter().flat_map(places).collect()
    }

    fn add_callers<'a>(&'a self, name: &str, depth: usize, tests: &mut BTreeSet<&'a str>) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let calls = |body: &str| {
            let mut found = body.match_indices(name);
            found.any(|(at, _)| body[at + name.len()..].starts_with('(') && !body[..at].ends_with(is_word))
        };
        for (caller, _) in self.functions.iter().filter(|(caller, body)| caller != name && calls(body)) {
            if self.tests.contains_key(caller) {
                tests.insert(caller);
            } else if depth > 1 {
                self.add_callers(caller, depth - 1, tests);
            }
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

/// `…/e2e/node/cases.rs/guards/security` with a case are `node::cases::guards::security::CASE`.
fn run(file: &str, test: &str) -> String {
    let Some((_, inside)) = file.split_once("/tests/e2e/") else { return test.to_owned() };
    let folders = inside.replace(".rs", "").replace("//", "/");
    format!("{}::{test}", folders.trim_end_matches("/mod").replace('/', "::"))
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

#[test]
fn retries_of_a_test_are_those_of_the_first_entry_that_fits() {
    let settings = "[profile.default]\nretries = 0\n[[profile.default.overrides]]\nfilter = 'all() - test(x)'\n\
        threads-required = 1\n# why\n[[profile.default.overrides]]\nfilter = 'package(minik8s) & test(=a::b::c)'\nretries = 0\n\
        [[profile.default.overrides]]\nfilter = '''package(minik8s) & (\n  test(/^a::b::/)\n  | test(=d)\n)'''\nretries = 1\n";
    let retries = retries(settings);
    let once = (false, vec!["a::b::c".to_owned()]);
    assert_eq!(retries, [once, (true, vec!["a::b::*".to_owned(), "d".to_owned()])]);
    let names = ["a::b::c", "a::b::d", "a::c", "d", "d::e"];
    assert_eq!(names.map(|name| is_tried_again(&retries, name)), [false, true, false, true, false]);
    let mut code = Code::default();
    let cases = "cases! { on =>\n    security: privileges,\n        root;\n}\nmod guards {\n    cases! { on =>\n        \
        volumes: secret;\n    }\n}\n";
    code.add("crates/minik8s/tests/e2e/node/cases.rs", cases);
    let text = "#[test]\nfn whole() {\n    my_step();\n}\nfn my_step() {\n    step(1);\n}\n#[test]\nfn other() {\n    misstep(1);\n}\n";
    code.add("crates/minik8s/tests/e2e/a/mod.rs", text);
    let check = |name: &str, want: &str| assert_eq!(code.runs_of(name), [want], "{name}");
    check("root", "node::cases::security::root");
    check("secret", "node::cases::guards::volumes::secret");
    check("whole", "a::whole");
    check("step", "a::whole");
}
