//! The verbs, one file each: its flags with their help, and what it does.

mod about;
mod apply;
mod auth;
mod certificate;
mod completion;
mod config;
mod cp;
mod create;
mod debug;
mod delete;
mod describe;
mod diff;
mod drain;
mod dump;
mod edit;
mod event_list;
mod events;
mod exec;
mod explain;
mod expose;
mod get;
mod gone;
mod kustomize;
mod labels;
mod logs;
mod node;
mod patch;
pub mod plugin;
mod pod_target;
mod port_forward;
mod proxy;
mod prune;
mod reconcile;
mod replace;
mod rollout;
mod rules;
mod run_pod;
mod scale;
mod set;
mod status;
mod top;
mod tree;
mod wait;

use std::future::Future;
use std::pin::Pin;

use clap::Subcommand;

use crate::error::{Error, Result};
use crate::session::Session;

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Verb {
    Get(get::Get),
    Describe(Box<describe::Describe>),
    Explain(explain::Explain),
    Apply(apply::Apply),
    Create(Box<create::Create>),
    Delete(delete::Delete),
    Patch(patch::Patch),
    Replace(replace::Replace),
    Diff(diff::Diff),
    Kustomize(kustomize::Kustomize),
    Edit(edit::Edit),
    #[command(subcommand)]
    Set(set::Set),
    Label(labels::Label),
    Annotate(labels::Annotate),
    Scale(scale::Scale),
    #[command(subcommand)]
    Rollout(rollout::Rollout),
    Autoscale(expose::Autoscale),
    Expose(expose::Expose),
    Run(run_pod::Run),
    Logs(logs::Logs),
    Exec(exec::Exec),
    Attach(exec::Attach),
    PortForward(port_forward::PortForward),
    Cp(cp::Cp),
    Debug(Box<debug::Debug>),
    Proxy(proxy::Proxy),
    Wait(wait::Wait),
    Cordon(node::Cordon),
    Uncordon(node::Uncordon),
    Drain(drain::Drain),
    Taint(node::Taint),
    Status(status::Status),
    Tree(tree::Tree),
    Events(events::Events),
    #[command(subcommand)]
    Top(top::Top),
    #[command(subcommand)]
    Auth(auth::Auth),
    #[command(subcommand)]
    Certificate(certificate::Certificate),
    #[command(subcommand)]
    Config(config::Config),
    ApiResources(about::ApiResources),
    ApiVersions(about::ApiVersions),
    ClusterInfo(about::ClusterInfo),
    Version(about::Version),
    Completion(completion::Completion),
    #[command(subcommand)]
    Plugin(plugin::Plugin),
}

type Work<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub async fn run(session: &Session, verb: Verb, whole: clap::Command) -> Result<()> {
    // Boxed: the largest verb would else size the future of all.
    let work: Work<'_> = match verb {
        Verb::Get(verb) => Box::pin(get::run(session, verb)),
        Verb::Describe(verb) => Box::pin(describe::run(session, *verb)),
        Verb::Apply(verb) => Box::pin(apply::run(session, verb)),
        Verb::Create(verb) => Box::pin(create::run(session, *verb)),
        Verb::Delete(verb) => Box::pin(delete::run(session, verb)),
        Verb::Patch(verb) => Box::pin(patch::run(session, verb)),
        Verb::Replace(verb) => Box::pin(replace::run(session, verb)),
        Verb::Diff(verb) => Box::pin(diff::run(session, verb)),
        Verb::Edit(verb) => Box::pin(edit::run(session, verb)),
        Verb::Set(verb) => Box::pin(set::run(session, verb)),
        Verb::Rollout(verb) => Box::pin(rollout::run(session, verb)),
        Verb::Explain(verb) => Box::pin(explain::run(session, verb)),
        Verb::Label(verb) => Box::pin(labels::label(session, verb)),
        Verb::Annotate(verb) => Box::pin(labels::annotate(session, verb)),
        Verb::Scale(verb) => Box::pin(scale::run(session, verb)),
        Verb::Autoscale(verb) => Box::pin(expose::autoscale(session, verb)),
        Verb::Expose(verb) => Box::pin(expose::expose(session, verb)),
        Verb::Run(verb) => Box::pin(run_pod::run(session, verb)),
        Verb::Logs(verb) => Box::pin(logs::run(session, verb)),
        Verb::Exec(verb) => Box::pin(exec::exec(session, verb)),
        Verb::Attach(verb) => Box::pin(exec::attach(session, verb)),
        Verb::PortForward(verb) => Box::pin(port_forward::run(session, verb)),
        Verb::Debug(verb) => Box::pin(debug::run(session, *verb)),
        Verb::Proxy(verb) => Box::pin(proxy::run(session, verb)),
        Verb::Cp(verb) => Box::pin(cp::run(session, verb)),
        Verb::Cordon(verb) => Box::pin(node::cordon(session, verb)),
        Verb::Uncordon(verb) => Box::pin(node::uncordon(session, verb)),
        Verb::Drain(verb) => Box::pin(drain::run(session, verb)),
        Verb::Taint(verb) => Box::pin(node::taint(session, verb)),
        Verb::Status(verb) => Box::pin(status::run(session, verb)),
        Verb::Tree(verb) => Box::pin(tree::run(session, verb)),
        Verb::Certificate(verb) => Box::pin(certificate::run(session, verb)),
        Verb::Wait(verb) => Box::pin(wait::run(session, verb)),
        Verb::Events(verb) => Box::pin(events::run(session, verb)),
        Verb::Top(verb) => Box::pin(top::run(session, verb)),
        Verb::Auth(verb) => Box::pin(auth::run(session, verb)),
        Verb::ApiResources(verb) => Box::pin(about::api_resources(session, verb)),
        Verb::ApiVersions(verb) => Box::pin(about::api_versions(session, verb)),
        Verb::ClusterInfo(verb) => Box::pin(about::cluster_info(session, verb)),
        Verb::Version(verb) => Box::pin(about::version(session, verb)),
        Verb::Kustomize(verb) => return kustomize::run(&verb),
        Verb::Plugin(verb) => return plugin::run(&verb),
        Verb::Config(verb) => return config::run(session, &verb),
        Verb::Completion(verb) => return completion::run(session, &verb, whole),
    };
    work.await?;
    let warned =
        session.flags.warnings_as_errors && session.client().await.is_ok_and(|client| client.was_warned());
    if warned { Err(Error::plain("1 warning received")) } else { Ok(()) }
}
