//! `certificate`: requests for certificates, approved or denied.

use clap::{Args, Subcommand};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::FileFlags;
use crate::output;
use crate::select::{self, Filter, Target};
use crate::session::Session;

/// How often a request is looked at that others change meanwhile.
const TRIES: u32 = 10;

/// Approve or deny requests for certificates
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Certificate {
    /// Approve requests
    #[command(after_help = "Example: minik8s certificate approve node-n1")]
    Approve(Requests),
    /// Deny requests
    #[command(after_help = "Example: minik8s certificate deny node-n1")]
    Deny(Requests),
}

#[derive(Debug, Args)]
pub struct Requests {
    /// Names of requests
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    /// Also change what was decided before
    #[arg(long)]
    force: bool,
}

pub async fn run(session: &Session, verb: Certificate) -> Result<()> {
    match verb {
        Certificate::Approve(requests) => decide(session, &requests, "Approved", "approved").await,
        Certificate::Deny(requests) => decide(session, &requests, "Denied", "denied").await,
    }
}

async fn decide(session: &Session, requests: &Requests, condition: &str, done: &str) -> Result<()> {
    let mut words = vec!["certificatesigningrequests".to_owned()];
    words.extend(requests.names.iter().cloned());
    let filter = Filter { files: Some(&requests.files), ..Filter::default() };
    for target in select::find_all(session, &words, &filter).await? {
        let shown = target.shown();
        decide_one(session, target, condition, requests.force).await?;
        output::line(format_args!("{shown} {done}"));
    }
    Ok(())
}

/// Others may write conditions, too: then it is looked at again.
async fn decide_one(session: &Session, mut target: Target, condition: &str, force: bool) -> Result<()> {
    let mut tries = TRIES;
    loop {
        let conditions = target.object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let other = if condition == "Approved" { "Denied" } else { "Approved" };
        if conditions.iter().any(|known| known["type"] == other) {
            return Err(Error::plain(format!(
                "certificate signing request {:?} is already {other}",
                target.name
            )));
        }
        let decided = conditions.iter().any(|known| known["type"] == condition);
        if decided && !force {
            return Ok(());
        }
        tries -= 1;
        match send(session, &target, conditions, condition).await {
            Err(error) if error.is_conflict() && tries > 0 => target = select::fetch(session, target).await?,
            sent => return sent,
        }
    }
}

async fn send(session: &Session, target: &Target, mut conditions: Vec<Value>, condition: &str) -> Result<()> {
    let (word, reason) = match condition {
        "Approved" => ("approve", "KubectlApprove"),
        _ => ("deny", "KubectlDeny"),
    };
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    conditions.retain(|known| known["type"] != condition);
    conditions.push(json!({
        "type": condition, "status": "True", "reason": reason, "lastUpdateTime": now,
        "message": format!("This CSR was {} by kubectl certificate {word}.", condition.to_lowercase()),
    }));
    let mut object = target.object.clone();
    object["status"]["conditions"] = conditions.into();
    let path = format!("{}/approval", target.path());
    session.client().await?.send(Call::new(Method::PUT, path).json(&object)).await.map(|_| ())
}
