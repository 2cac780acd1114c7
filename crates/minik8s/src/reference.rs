//! The reference page of all commands, made from the command line itself: `docs/cli.md`.

#![cfg(test)]

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use clap::Command;

use crate::flags::command_line;

#[path = "../tests/e2e/harness/words.rs"]
mod words;
use words::words;

const HEAD: &str = "# Commands\n\n\
    Made from the program's own help; to make it anew: `UPDATE_DOCS=1 cargo test -p minik8s reference`.\n\n\
    `minik8s` has the commands of a machine (server, agent, image, ...) and kubectl's verbs for objects. Through a\n\
    link named `kubectl` it prints exactly what kubectl prints:\n\n\
    ```\nln -s \"$(command -v minik8s)\" ~/bin/kubectl\n```\n\n\
    Flags that every command takes: `--kubeconfig FILE`, `--context NAME`, `-n, --namespace NAME`, `--as USER`,\n\
    `--as-group GROUP`, `--request-timeout TIME`; before the command also `--cluster`, `--user`, `--server`, `--token`,\n\
    `--certificate-authority`, `--client-certificate`, `--client-key` and `--insecure-skip-tls-verify`.\n";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for command in command_line().get_subcommands() {
        section(command, "minik8s", &mut page);
    }
    page
}

fn section(command: &Command, path: &str, page: &mut String) {
    if command.is_hide_set() {
        return;
    }
    let path = format!("{path} {}", command.get_name());
    let _ = write!(page, "\n## {path}\n\n");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "{about}.");
    if let Some(help) = command.get_after_help() {
        let _ = write!(page, "\n```\n{}\n```\n", help.to_string().trim_end());
    }
    let arguments: Vec<_> = command.get_arguments().filter(|argument| !argument.is_hide_set()).collect();
    if !arguments.is_empty() {
        page.push('\n');
    }
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
        let _ = writeln!(page, "- `{}` {help}", name(argument));
    }
    for below in command.get_subcommands() {
        section(below, &path, page);
    }
}

/// `-n, --namespace NAME` or `POD`.
fn name(argument: &clap::Arg) -> String {
    let value = argument
        .get_value_names()
        .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let value = value.unwrap_or_else(|| argument.get_id().to_string().to_uppercase());
    if argument.is_positional() {
        return value;
    }
    let mut names = Vec::new();
    names.extend(argument.get_short().map(|short| format!("-{short}")));
    names.extend(argument.get_long().map(|long| format!("--{long}")));
    let flag = names.join(", ");
    if argument.get_action().takes_values() { format!("{flag} {value}") } else { flag }
}

/// The examples of a command's help, each as its words.
fn examples(command: &Command) -> Vec<Vec<String>> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let example = |line: &str| {
        let line = &line[line.find("minik8s ")?..];
        // What the shell does with the rest is not ours.
        Some(words(line.split(" > ").next()?.trim_end_matches(')')))
    };
    help.lines().filter_map(example).collect()
}

/// What is wrong with the examples of a command and those below it.
fn complaints(command: &Command, path: &str, found: &mut Vec<String>) {
    let path = format!("{path} {}", command.get_name());
    let examples = examples(command);
    if examples.is_empty() && command.get_subcommands().next().is_none() {
        found.push(format!("{path} has no example"));
    }
    for example in examples {
        let arguments: Vec<OsString> = example.iter().map(OsString::from).collect();
        let line = if minik8s_cli::claims(&arguments) { minik8s_cli::command() } else { command_line() };
        if let Err(error) = line.try_get_matches_from(&arguments) {
            found.push(format!("{path}: {}\n{error}", example.join(" ")));
        }
    }
    command.get_subcommands().for_each(|below| complaints(below, &path, found));
}

/// Every command has an example, and its words are understood.
#[test]
fn examples_are_right() {
    let mut found = Vec::new();
    command_line().get_subcommands().for_each(|command| complaints(command, "minik8s", &mut found));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_reference_page_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, page()).expect("docs/cli.md can be written");
    }
    let current = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(current == page(), "docs/cli.md is not current: UPDATE_DOCS=1 cargo test -p minik8s reference");
}
