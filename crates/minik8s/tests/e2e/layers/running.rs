//! Rules about what runs: plans have no effects, nothing blocks a thread of others, no task ends unseen, nothing waits in
//! memory without bound.

use super::{crates, file_name, function_length, root, rust_files};

/// One object that a type cannot hold would keep all others of a list or watch from being read: servers and agents read
/// them by the shared caches, or as `Lenient`. What is for people to type may fail before their eyes.
#[test]
fn lists_and_watches_of_servers_and_agents_are_lenient() {
    const COMMANDS: [&str; 3] = ["cli", "fuzz", "informer"];
    // To be emptied: what does it, and why it may.
    const STRICT: [(&str, &str); 2] = [
        ("functions/src/collect.rs", "the server itself makes ImageRepositories when they are read"),
        ("workflows/src/verbs/mod.rs", "the commands of `minik8s workflow`"),
    ];
    let is_command = |name: &str| {
        name.contains("/src/command/")
            || ["function", "trigger", "monitoring", "storage", "why"]
                .iter()
                .any(|command| name.starts_with(&format!("minik8s/src/{command}/")))
            || name == "minik8s/src/token.rs"
    };
    let mut problems = Vec::new();
    for folder in crates().iter().filter(|path| !COMMANDS.contains(&file_name(path).as_str())) {
        for file in rust_files(&folder.join("src")) {
            let name = file.strip_prefix(root().join("crates")).unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            // With tests at its end, as everywhere.
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let reads = (text.contains("ListParams") && text.contains(".list(")) || text.contains("watcher(");
            let is_strict = reads && !text.contains("Lenient<");
            if is_strict && !is_command(&name) && !STRICT.iter().any(|(known, _)| *known == name) {
                problems.push(format!("{name}: read lists and watches as minik8s_informer::Lenient"));
            }
        }
    }
    for (known, _) in STRICT {
        if !root().join("crates").join(known).is_file() {
            problems.push(format!("{known} is not there any more: remove it from the list"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What a plan says follows from what it is given and from nothing else, or no test could show what it does.
#[test]
fn plans_are_pure() {
    const EFFECTS: [&str; 8] = [
        "async fn",
        "Timestamp::now",
        "Instant::now",
        "SystemTime::now",
        "tracing::",
        "kube::Client",
        "Api::",
        "rand::",
    ];
    let mut problems = Vec::new();
    let mut found = 0;
    for file in crates().iter().flat_map(|path| rust_files(&path.join("src"))) {
        if !["plan.rs", "decide.rs"].contains(&file_name(&file).as_str()) {
            continue;
        }
        found += 1;
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for effect in EFFECTS.iter().filter(|effect| text.contains(**effect)) {
            problems.push(format!("{}: {effect}: give it to the plan", file.display()));
        }
    }
    assert!(found > 20, "{found} plans found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A thread that waits for a disk, or for the server of a volume, waits for all pods of the node.
#[test]
fn pods_and_volumes_block_no_async_thread() {
    let mut problems = Vec::new();
    let folders = ["pod", "csi", "storage", "volume", "image_pull"];
    for file in folders.iter().flat_map(|name| rust_files(&root().join("crates/kubelet/src").join(name))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        if !file.ends_with("tests.rs") && blocks(text) {
            problems.push(format!("{}: use tokio::fs or spawn_blocking", file.display()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let asynchronous =
        |body: &str| blocks(&format!("impl A {{\n    async fn f() {{\n        {body}\n    }}\n}}\n"));
    assert!(asynchronous("std::fs::copy(a, b)?;") && asynchronous("(a, fs::copy(b(), c)?)"));
    assert!(!asynchronous("tokio::fs::copy(a, b).await?;") && !asynchronous("a_fs::walk(a);"));
    assert!(!asynchronous("spawn_blocking(move || (fs::copy(a, b), c())).await?;"));
    assert!(!blocks("fn f() {\n    fs::copy(a, b);\n}\n"));
}

/// Whether an `async fn` calls `std::fs` itself, other than in a `spawn_blocking`.
fn blocks(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| line.contains("async fn ") && !line.trim_start().starts_with("//");
    (0..lines.len()).filter(|start| begins(lines[*start])).any(|start| {
        let body = lines[start..start + function_length(&lines[start..])].join("\n");
        let mut parts = body.split("spawn_blocking(");
        let first = parts.next().unwrap_or_default();
        let own = std::iter::once(first).chain(parts.map(after_arguments));
        let mut calls = own.flat_map(|own| own.split("fs::").zip(own.split("fs::").skip(1)));
        calls.any(|(before, after)| {
            let is_std = before.ends_with("std::") || !before.ends_with([':', '_']);
            is_std
                && after
                    .split('(')
                    .next()
                    .is_some_and(|name| name.chars().all(|c| c.is_lowercase() || c == '_'))
        })
    })
}

/// What follows the parenthesis that is open at the beginning.
fn after_arguments(text: &str) -> &str {
    let mut open = 1;
    for (at, letter) in text.char_indices() {
        open += i32::from(letter == '(') - i32::from(letter == ')');
        if open == 0 {
            return &text[at..];
        }
    }
    ""
}

/// A task that is spawned and forgotten ends with a line in the log. Servers and agents give theirs to the supervisor.
#[test]
fn tasks_of_servers_and_agents_are_supervised() {
    /// It only logs.
    const FORGOTTEN: [(&str, &str); 1] =
        [("server.rs", "tokio::spawn(async move {\n        while changes.changed().await.is_ok() {")];
    const SUPERVISED: [(&str, &str); 4] = [
        ("agent.rs", "lives(member.keep_fresh())"),
        ("agent.rs", "lives(server_list::follow("),
        ("server.rs", "lives(certificate.clone().keep_fresh())"),
        ("server.rs", "lives(server_list::publish("),
    ];
    for name in ["agent.rs", "server.rs", "export.rs"] {
        let text = std::fs::read_to_string(root().join("crates/minik8s/src").join(name)).unwrap();
        let mut rest = text.clone();
        for (_, only_logs) in FORGOTTEN.iter().filter(|(file, _)| *file == name) {
            assert!(text.contains(only_logs), "{name}: remove it from the list: {only_logs}");
            rest = rest.replace(only_logs, "");
        }
        assert!(!rest.contains("spawn("), "{name}: give the task to parts.require or parts.restart");
        for (_, task) in SUPERVISED.iter().filter(|(file, _)| *file == name) {
            let before = text.split(task).next().filter(|before| before.len() < text.len());
            let before = before.unwrap_or_else(|| panic!("{name}: nothing runs {task}"));
            let given = before.rfind("parts.restart(").or(before.rfind("parts.require("));
            let statement = given.map(|at| &before[at..]).unwrap_or_default();
            let is_open = statement.matches('(').count() > statement.matches(')').count();
            assert!(is_open, "{name}: {task} must run by parts.restart");
        }
    }
}

/// What waits in memory must not grow with what others write: a bounded channel, or `minik8s_runtime::Queue`.
#[test]
fn channels_are_bounded() {
    const BOUNDED: [(&str, &str); 3] = [
        (
            "informer/src/cache.rs",
            "what happens while a subscriber works on one change, which ends by itself",
        ),
        ("mesh/src/agent/identities.rs", "one of each service account of the node's pods in 16 hours"),
        ("workflows/src/engine/drive.rs", "the tasks of a run that are under way, which its limits bound"),
    ];
    let mut found = Vec::new();
    for file in crates().iter().flat_map(|path| rust_files(&path.join("src"))) {
        let name = file.strip_prefix(root().join("crates")).unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains("unbounded_channel") && !name.contains("/tests/") {
            found.push(name);
        }
    }
    found.sort();
    assert_eq!(found, BOUNDED.map(|(name, _)| name), "bound it, or add what bounds it");
}
