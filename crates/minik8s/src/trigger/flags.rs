//! The command line of `minik8s trigger`, and the Trigger that it describes.

use std::collections::BTreeMap;

use anyhow::Context;
use clap::{Args, Subcommand};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use minik8s_meta::trigger::{
    CONCURRENCY_POLICIES, Trigger, TriggerCloudEvents, TriggerFile, TriggerNats, TriggerNatsSecret,
    TriggerObject, TriggerRetry, TriggerSchedule, TriggerSecret, TriggerSource, TriggerSpec, TriggerTarget,
    TriggerWebhook,
};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub enum TriggerCommand {
    /// Make a trigger: what happens, and which function or workflow hears of it
    #[command(subcommand)]
    Create(New),
    /// List the triggers of a namespace
    #[command(after_help = "Example: minik8s trigger list")]
    List,
    /// Show a trigger: its source, its target, and when it fired and will fire
    #[command(after_help = "Example: minik8s trigger describe nightly")]
    Describe {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Fire a trigger now, with data of your own
    #[command(after_help = "Example: minik8s trigger fire nightly -d '{\"day\": 1}'")]
    Fire(FireFlags),
    /// Delete triggers
    #[command(after_help = "Example: minik8s trigger delete nightly")]
    Delete {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct FireFlags {
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The event's data
    #[arg(short = 'd', long, value_name = "JSON")]
    pub data: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum New {
    /// At certain times
    #[command(
        after_help = "Example: minik8s trigger create schedule nightly --cron '0 3 * * *' --function report"
    )]
    Schedule {
        /// Minute, hour, day of month, month, day of week
        #[arg(long, value_name = "SCHEDULE")]
        cron: String,
        /// Of the schedule; UTC by default
        #[arg(long, value_name = "ZONE")]
        time_zone: Option<String>,
        /// Forbid leaves out moments at which a call has not ended; Allow by default
        #[arg(long, value_name = "POLICY", value_parser = CONCURRENCY_POLICIES)]
        concurrency_policy: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// For requests that are signed with a key (HMAC-SHA256)
    #[command(after_help = "Example: minik8s trigger create webhook github --secret hook --function build")]
    Webhook {
        /// The Secret with the key
        #[arg(long, value_name = "NAME")]
        secret: String,
        #[command(flatten)]
        common: Common,
    },
    /// For CloudEvents that are posted to the namespace
    #[command(
        after_help = "Example: minik8s trigger create cloudevents orders --type 'com.shop.order.*' --workflow order"
    )]
    Cloudevents {
        /// A type of events, * at its end for any that begin so; all by default
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// An attribute that events must have
        #[arg(long, value_name = "NAME=VALUE")]
        filter: Vec<String>,
        /// The Secret with the key by which events must be signed
        #[arg(long, value_name = "NAME")]
        secret: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// For changes of Kubernetes objects in the namespace
    #[command(
        after_help = "Example: minik8s trigger create object pods --kind Pod --event Deleted --function audit"
    )]
    Object {
        #[arg(long, value_name = "VERSION", default_value = "v1")]
        api_version: String,
        #[arg(long, value_name = "KIND")]
        kind: String,
        /// Added, Modified or Deleted; all by default
        #[arg(long = "event", value_name = "EVENT")]
        events: Vec<String>,
        /// A label that the objects must have
        #[arg(short = 'l', long, value_name = "NAME=VALUE")]
        label: Vec<String>,
        /// Whose right to watch the objects is needed; default by default
        #[arg(long, value_name = "NAME")]
        service_account: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// For changes of files in a volume
    #[command(
        after_help = "Example: minik8s trigger create file photos --claim inbox --path incoming --pattern '*.jpg' --event Created --function thumb"
    )]
    File {
        /// The PersistentVolumeClaim with the files
        #[arg(long, value_name = "CLAIM")]
        claim: String,
        /// A folder in the volume; all of it by default
        #[arg(long, value_name = "PATH")]
        path: Option<String>,
        /// Names of the files, e.g. '*.jpg'
        #[arg(long, value_name = "PATTERN")]
        pattern: Option<String>,
        /// Created, Modified or Removed; all by default
        #[arg(long = "event", value_name = "EVENT")]
        events: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// For messages of a subject of a NATS server
    #[command(
        after_help = "Example: minik8s trigger create nats orders --url nats://nats:4222 --subject 'orders.>' --function book"
    )]
    Nats {
        #[command(flatten)]
        nats: NatsFlags,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
pub struct NatsFlags {
    /// The server, as pods of the namespace reach it
    #[arg(long, value_name = "URL")]
    url: String,
    /// * stands for a word, > at the end for all that follow
    #[arg(long, value_name = "SUBJECT")]
    subject: String,
    /// Of the listeners of a group one gets each message
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// A Secret with the keys user and password, or token
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
}

#[derive(Debug, Args)]
pub struct Common {
    #[arg(value_name = "NAME")]
    name: String,
    /// The function that is called with each event
    #[arg(long, value_name = "NAME", required_unless_present = "workflow", conflicts_with = "workflow")]
    function: Option<String>,
    /// The workflow of which each event starts a run
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// What is sent instead of the event: text, or JSON in which texts {% … %} are JSONata over $event
    #[arg(long, value_name = "TEXT|JSON")]
    input: Option<String>,
    /// Attempts at most for each event
    #[arg(long, value_name = "N")]
    attempts: Option<i32>,
    /// A function that gets what failed after the last attempt
    #[arg(long, value_name = "NAME")]
    dead_letter: Option<String>,
}

impl New {
    pub fn trigger(self) -> anyhow::Result<Trigger> {
        let (source, common) = self.source()?;
        let spec = TriggerSpec {
            source,
            target: TriggerTarget { function: common.function, workflow: common.workflow },
            input: common.input.map(template),
            retry: common.attempts.map(|n| TriggerRetry { attempts: Some(n), ..TriggerRetry::default() }),
            dead_letter: common.dead_letter,
            suspend: None,
        };
        let metadata = ObjectMeta { name: Some(common.name), ..ObjectMeta::default() };
        Ok(Trigger { metadata, spec, ..Trigger::default() })
    }

    fn source(self) -> anyhow::Result<(TriggerSource, Common)> {
        let secret = |name: String| TriggerSecret { name, key: None };
        let mut source = TriggerSource::default();
        let common = match self {
            New::Schedule { cron, time_zone, concurrency_policy, common } => {
                source.schedule = Some(TriggerSchedule { cron, time_zone, concurrency_policy });
                common
            }
            New::Webhook { secret: name, common } => {
                source.webhook = Some(TriggerWebhook { secret_ref: secret(name) });
                common
            }
            New::Cloudevents { types, filter, secret: name, common } => {
                let filter = pairs(&filter, "--filter")?;
                source.cloud_events =
                    Some(TriggerCloudEvents { types, filter, secret_ref: name.map(secret) });
                common
            }
            New::Object { api_version, kind, events, label, service_account, common } => {
                let labels = pairs(&label, "--label")?;
                let selector = LabelSelector { match_labels: Some(labels), match_expressions: None };
                source.object = Some(TriggerObject {
                    api_version,
                    kind,
                    label_selector: Some(selector).filter(|_| !label.is_empty()),
                    events,
                    service_account_name: service_account,
                });
                common
            }
            New::File { claim, path, pattern, events, common } => {
                source.file = Some(TriggerFile { claim_name: claim, path, events, pattern });
                common
            }
            New::Nats { nats: NatsFlags { url, subject, group, secret }, common } => {
                let secret_ref = secret.map(|name| TriggerNatsSecret { name });
                source.nats = Some(TriggerNats { url, subject, group, secret_ref });
                common
            }
        };
        Ok((source, common))
    }
}

/// Objects and lists are JSON; whatever else is text.
fn template(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => text.into(),
    }
}

fn pairs(given: &[String], flag: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (name, value) =
            text.split_once('=').with_context(|| format!("{flag} {text}: give NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    given.iter().map(pair).collect()
}
