//! `minik8s trigger`: make, fire, list and delete triggers. All of it goes through the API, as `kubectl apply` would.

mod flags;
mod show;

use anyhow::{Context, bail};
use http::Request;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use minik8s_cli::GlobalFlags;
use minik8s_meta::trigger::Trigger;
use serde_json::Value;

pub use flags::TriggerCommand;
use flags::{FireFlags, New};

use crate::{kubeconfig, output};

pub async fn run(command: TriggerCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    let (client, namespace) = kubeconfig::client(global).await?;
    let triggers: Api<Trigger> = Api::namespaced(client.clone(), &namespace);
    match command {
        TriggerCommand::Create(new) => create(&triggers, new).await,
        TriggerCommand::List => show::list(&triggers, &namespace).await,
        TriggerCommand::Describe { name } => show::describe(&triggers, &namespace, &name).await,
        TriggerCommand::Fire(flags) => fire(&client, &namespace, &flags).await,
        TriggerCommand::Delete { names } => {
            for name in names {
                let deleted = triggers.delete(&name, &DeleteParams::default()).await;
                deleted.with_context(|| format!("cannot delete trigger {name}"))?;
                output::line(format_args!("trigger {name} deleted"))?;
            }
            Ok(())
        }
    }
}

async fn create(triggers: &Api<Trigger>, new: New) -> anyhow::Result<()> {
    let trigger = new.trigger()?;
    let name = trigger.metadata.name.clone().unwrap_or_default();
    let created = triggers.create(&PostParams::default(), &trigger).await;
    created.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 409 => {
            anyhow::anyhow!(
                "trigger {name} exists; delete it first, or change it with `minik8s edit trigger {name}`"
            )
        }
        _ => anyhow::Error::new(error).context(format!("cannot create trigger {name}")),
    })?;
    output::line(format_args!("trigger {name} created"))?;
    let namespace = triggers.namespace().unwrap_or_default();
    let address = match (&trigger.spec.source.webhook, &trigger.spec.source.cloud_events) {
        (Some(_), _) => format!("/fn/{namespace}/-/hooks/{name}"),
        (_, Some(_)) => format!("/fn/{namespace}/-/events"),
        _ => return Ok(()),
    };
    Ok(output::line(format_args!("events are posted to http://NODE{address}"))?)
}

/// One event of the user's own, whatever the trigger's source is.
async fn fire(client: &Client, namespace: &str, flags: &FireFlags) -> anyhow::Result<()> {
    let data = flags.data.clone().unwrap_or_else(|| "{}".to_owned());
    let value: Value = serde_json::from_str(&data).with_context(|| format!("-d {data}: is not JSON"))?;
    let path = format!("/apis/minik8s.io/v1/namespaces/{namespace}/triggers/{}/events", flags.name);
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(&value)?)?;
    match client.request::<Value>(request).await {
        Ok(_) => Ok(output::line(format_args!("trigger {} fired", flags.name))?),
        Err(kube::Error::Api(error)) => bail!("cannot fire trigger {}: {}", flags.name, error.message),
        Err(error) => Err(error).with_context(|| format!("cannot fire trigger {}", flags.name)),
    }
}
