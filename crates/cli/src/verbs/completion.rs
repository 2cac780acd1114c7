//! `completion`: scripts with which shells complete commands and flags.

use clap::Args;
use clap_complete::{Shell, generate};

use crate::error::Result;
use crate::output;
use crate::session::Session;

/// Print a script that completes commands in a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(minik8s completion bash)
  minik8s completion zsh > ~/.zfunc/_minik8s
  minik8s completion fish > ~/.config/fish/completions/minik8s.fish")]
pub struct Completion {
    /// bash, zsh, fish, elvish or powershell
    shell: Shell,
}

pub fn run(session: &Session, verb: &Completion, mut whole: clap::Command) -> Result<()> {
    let name = if session.as_kubectl { "kubectl" } else { "minik8s" };
    let mut script = Vec::new();
    generate(verb.shell, &mut whole, name, &mut script);
    output::bytes(&script);
    Ok(())
}
