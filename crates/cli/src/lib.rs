//! The command line of clusters: kubectl's verbs with kubectl's output, for our cluster and any other, and
//! some friendlier ones.
//!
//! What the server can say is asked of the server: which kinds there are, how their tables look, what their
//! fields mean, how a manifest merges. So nothing here knows a kind that it need not know, and a custom kind
//! is treated like any other. The exceptions are the texts of `describe` and the objects that `create` and
//! `run` make.
//!
//! This crate never touches the machine it runs on, but for kubeconfig files and what the user names.

mod client;
mod config;
mod discovery;
mod error;
mod flags;
mod kustomize;
mod manifest;
mod output;
mod print;
mod progress;
mod select;
mod session;
mod stream;
mod verbs;
mod watch;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

pub use error::Error;
pub use flags::GlobalFlags;
pub use manifest::place;
pub use print::bar;
pub use print::tabs::escaped;
pub use progress::Progress;
use session::Session;
use verbs::Verb;

/// The verbs, without the commands that are not about a cluster's objects.
#[derive(Debug, Parser)]
#[command(name = "kubectl", disable_help_subcommand = true, max_term_width = 100, args_override_self = true)]
struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    verb: Verb,
}

/// The command line of this crate, for help, completion and the reference page.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Whether the arguments are a verb of this crate: then [`main`] is to run them.
pub fn claims(arguments: &[OsString]) -> bool {
    let command = command();
    let mut words = arguments.iter().skip(1).map(|argument| argument.to_string_lossy());
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return command.find_subcommand(word.as_ref()).is_some();
        }
        if !word.contains('=') && takes_value(&command, &word) {
            words.next();
        }
    }
    false
}

fn takes_value(command: &clap::Command, word: &str) -> bool {
    let flag = command.get_arguments().find(|argument| match word.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| word == format!("-{short}")),
    });
    flag.is_some_and(|flag| flag.get_action().takes_values())
}

/// Whether the program was called through a link named `kubectl`.
pub fn is_kubectl(program: Option<&OsString>) -> bool {
    program.and_then(|program| Path::new(program).file_stem()).is_some_and(|name| name == "kubectl")
}

/// The cluster that the program's other commands talk to, found as the verbs find it.
pub async fn cluster(flags: &GlobalFlags) -> Result<kube::Config, Error> {
    config::load(flags).await
}

/// A command that is none may be a program named `kubectl-NAME`: then that goes on instead, and this returns only if it
/// cannot.
pub fn plugin(error: &clap::Error, arguments: &[OsString]) -> Option<std::io::Error> {
    (error.kind() == clap::error::ErrorKind::InvalidSubcommand)
        .then(|| verbs::plugin::become_one(arguments))?
}

/// Runs one command to its end. `whole` is the program's own command line, of which the verbs are a part.
pub fn main(arguments: Vec<OsString>, whole: clap::Command) -> ExitCode {
    let as_kubectl = is_kubectl(arguments.first());
    let name = if as_kubectl { "kubectl" } else { "minik8s" };
    let matches = match command().name(name).bin_name(name).try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => {
            if let Some(trouble) = plugin(&error, &arguments) {
                eprintln!("error: {trouble}");
                return ExitCode::FAILURE;
            }
            let _ = error.print();
            // Asking for help is no mistake; mistakes have kubectl's code.
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let session = Session::new(cli.global, as_kubectl);
    let ended = runtime.block_on(verbs::run(&session, cli.verb, whole));
    // A thread that waits for standard input must not delay the end.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.tell();
            ExitCode::from(error.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn which_words_are_verbs() {
        let check = |line: &str, expected: bool| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(claims(&words), expected, "{line}");
        };
        check("minik8s get pods", true);
        check("minik8s -n x get pods", true);
        check("minik8s --kubeconfig f -n x apply -f -", true);
        check("minik8s --kubeconfig=f get", true);
        check("minik8s server --port 1", false);
        check("minik8s -n get server", false);
        check("minik8s --help", false);
    }

    /// Every command tells how it is used.
    #[test]
    fn help_has_examples() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if command.get_subcommands().next().is_none() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "{path} has no example");
            }
            for below in command.get_subcommands() {
                check(below, &path);
            }
        }
        for verb in command().get_subcommands() {
            check(verb, "minik8s");
        }
    }
}
