//! `run`: one pod from flags, and a terminal in it if asked.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::create::{MakingFlags, labels};
use super::exec::{self, Io};
use super::{delete, gone};
use crate::error::{Error, Result};
use crate::flags::{DryRun, duration, pair};
use crate::output;
use crate::print::Report;
use crate::select::Target;
use crate::session::Session;

/// Run an image in a new pod
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s run web --image=nginx --port=80
  minik8s run shell --image=busybox --rm -it --restart=Never -- sh
  minik8s run web --image=nginx --dry-run=client -o yaml")]
pub struct Run {
    /// Name of the pod
    name: String,
    /// Image to run
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// When to restart the container: Always, OnFailure or Never
    #[arg(long, value_name = "POLICY", default_value = "Always")]
    restart: String,
    /// KEY=VALUE for the container's environment; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// Labels of the pod
    #[arg(short, long, value_name = "LABELS")]
    labels: Option<String>,
    /// Annotations of the pod, KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    annotations: Vec<String>,
    /// Port that the container opens
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Also make a Service for the port
    #[arg(long)]
    expose: bool,
    /// When to pull the image
    #[arg(long, value_name = "POLICY")]
    image_pull_policy: Option<String>,
    /// What follows -- replaces the image's command, not only its arguments
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    command: bool,
    /// JSON that is merged into the pod
    #[arg(long, value_name = "JSON")]
    overrides: Option<String>,
    /// Pass standard input to the container
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give the container a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Connect to the container once it runs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    attach: Option<bool>,
    /// Delete the pod at the end
    #[arg(long)]
    rm: bool,
    /// Run as privileged
    #[arg(long)]
    privileged: bool,
    /// Say less
    #[arg(short, long)]
    quiet: bool,
    /// How long to wait for the pod to run
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pod_running_timeout: Duration,
    #[command(flatten)]
    making: MakingFlags,
    /// Arguments of the container
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

pub async fn run(session: &Session, verb: Run) -> Result<()> {
    let attach = verb.attach.unwrap_or(verb.stdin || verb.tty);
    if verb.rm && !attach {
        return Err(Error::plain("--rm should only be used for attached containers"));
    }
    let mut pod = verb.pod()?;
    if let Some(overrides) = &verb.overrides {
        let overrides: Value = serde_json::from_str(overrides)
            .map_err(|error| Error::plain(format!("invalid JSON in --overrides: {error}")))?;
        merge(&mut pod, &overrides);
    }
    let how = verb.making.writing()?;
    let report = Report::new(&verb.making.output)?;
    if how.dry_run == DryRun::Client {
        if let Some(namespace) = &session.flags.namespace {
            pod["metadata"]["namespace"] = namespace.clone().into();
        }
        return report.done(&format!("pod/{}", verb.name), "created", how.dry_run.suffix(), &pod);
    }
    let kind = session.kind("pods").await?;
    session.place(&kind, &mut pod).await?;
    let made = session.create(&kind, &pod, &how).await?;
    let target = Target::new(kind, made);
    if verb.expose {
        let service = verb.service()?;
        super::create::make(session, service, &verb.making).await?;
    }
    if !attach || how.dry_run != DryRun::None {
        return report.done(&target.shown(), "created", how.dry_run.suffix(), &target.object);
    }
    let ended = attached(session, &verb, &target).await;
    if verb.rm {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        let uid = delete::delete_one(session, &target, &options, DryRun::None).await?;
        if !verb.quiet {
            output::line(format_args!("pod {:?} deleted", verb.name));
        }
        let _progress = session.progress(format_args!("waiting until {} is gone", target.shown()));
        gone::wait(session, &target, uid.as_deref(), Duration::from_secs(60)).await?;
    }
    ended
}

impl Run {
    fn pod(&self) -> Result<Value> {
        let mut container = json!({"name": self.name, "image": self.image, "resources": {}});
        if !self.arguments.is_empty() {
            let field = if self.command { "command" } else { "args" };
            container[field] = json!(self.arguments);
        }
        let mut env = Vec::new();
        for text in &self.env {
            let (name, value) = pair(text, "env")?;
            env.push(json!({"name": name, "value": value}));
        }
        if !env.is_empty() {
            container["env"] = env.into();
        }
        if let Some(port) = self.port {
            container["ports"] = json!([{"containerPort": port}]);
        }
        if let Some(policy) = &self.image_pull_policy {
            container["imagePullPolicy"] = policy.clone().into();
        }
        if self.stdin {
            container["stdin"] = true.into();
            container["stdinOnce"] = true.into();
        }
        if self.tty {
            container["tty"] = true.into();
        }
        if self.privileged {
            container["securityContext"] = json!({"privileged": true});
        }
        let labels = match &self.labels {
            Some(text) => labels(text)?,
            None => json!({"run": self.name}),
        };
        let mut metadata = json!({"name": self.name, "labels": labels});
        for text in &self.annotations {
            let (key, value) = pair(text, "--annotations")?;
            metadata["annotations"][key] = value.into();
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": self.restart},
            "status": {},
        }))
    }

    fn service(&self) -> Result<Value> {
        let port = self.port.ok_or_else(|| Error::plain("--port must be set when exposing a service"))?;
        let selector = self.pod()?["metadata"]["labels"].clone();
        Ok(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name},
            "spec": {"ports": [{"port": port, "protocol": "TCP", "targetPort": port}], "selector": selector},
        }))
    }
}

/// JSON merge patch.
pub fn merge(value: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let Some(map) = value.as_object_mut() else { return };
    for (key, change) in patch {
        if change.is_null() {
            map.shift_remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Connects once the container runs; if it has ended before, shows what it said.
async fn attached(session: &Session, verb: &Run, target: &Target) -> Result<()> {
    let pod = until_running(session, target, verb.pod_running_timeout).await?;
    let container = verb.name.as_str();
    let path = format!("{}/log?container={container}", target.path());
    if pod["status"]["phase"] == "Running" {
        if verb.stdin && verb.tty && !verb.quiet {
            eprintln!("If you don't see a command prompt, try pressing enter.");
        }
        let io = Io { stdin: verb.stdin, tty: verb.tty };
        exec::run(session, &pod, container, "attach", io, &[]).await?;
    } else {
        output::bytes(&session.client().await?.bytes(crate::client::Call::get(path)).await?);
    }
    if verb.restart == "Always" {
        return Ok(());
    }
    exec::ended(exit_code(session, target, container).await?)
}

async fn until_running(session: &Session, target: &Target, timeout: Duration) -> Result<Value> {
    let _progress = session.progress(format_args!("waiting until {} runs", target.shown()));
    let is_there =
        |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Running" | "Succeeded" | "Failed"));
    match tokio::time::timeout(timeout, gone::until(session, target, is_there)).await {
        Ok(pod) => pod,
        Err(_) => Err(Error::plain(
            "timed out waiting for the condition: the pod does not run; see: minik8s why pod/".to_owned()
                + &target.name,
        )),
    }
}

async fn exit_code(session: &Session, target: &Target, container: &str) -> Result<u8> {
    let code = |pod: &Value| {
        let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let mut own = statuses.filter(|status| status["name"] == container);
        own.find_map(|status| status["state"]["terminated"]["exitCode"].as_i64())
    };
    let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    match tokio::time::timeout(Duration::from_secs(30), gone::until(session, target, ended)).await {
        Ok(pod) => Ok(code(&pod?).and_then(|code| u8::try_from(code).ok()).unwrap_or(0)),
        Err(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging() {
        let mut value = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut value, &json!({"a": {"b": null, "e": 3}, "d": [2]}));
        assert_eq!(value, json!({"a": {"c": 2, "e": 3}, "d": [2]}));
    }
}
