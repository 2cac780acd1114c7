//! Deployments, Jobs and CronJobs.

use clap::Args;
use serde_json::{Value, json};

use super::MakingFlags;
use crate::error::{Error, Result};
use crate::select;
use crate::session::Session;

/// Create a Deployment
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s create deployment web --image=nginx --replicas=3 --port=80
  minik8s create deployment shell --image=busybox -- sleep 1000")]
pub struct Deployment {
    name: String,
    /// Image to run; may be repeated for several containers
    #[arg(long, value_name = "IMAGE", required = true, value_delimiter = ',')]
    image: Vec<String>,
    /// How many pods
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    replicas: u32,
    /// Port that the container opens
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Command to run instead of the image's
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl Deployment {
    pub fn object(&self) -> Result<Value> {
        if self.image.len() > 1 && !self.command.is_empty() {
            return Err(Error::plain("cannot specify multiple --image options and command"));
        }
        let mut containers: Vec<Value> = Vec::new();
        for image in &self.image {
            let mut name = name_of(image);
            if containers.iter().any(|container| container["name"] == name) {
                name = format!("{name}-{}", containers.len() + 1);
            }
            let mut container = json!({"image": image, "name": name, "resources": {}});
            if let Some(port) = self.port {
                container["ports"] = json!([{"containerPort": port}]);
            }
            if !self.command.is_empty() {
                container["command"] = json!(self.command);
            }
            containers.push(container);
        }
        let labels = json!({"app": self.name});
        Ok(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "strategy": {},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
            "status": {},
        }))
    }
}

/// `nginx` of `registry.example/library/nginx:1.27`.
pub fn name_of(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    let name: String = last.split([':', '@']).next().unwrap_or_default().to_lowercase();
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect()
}

/// Create a Job
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s create job once --image=busybox -- echo hello
  minik8s create job now --from=cronjob/nightly")]
pub struct Job {
    name: String,
    /// Image to run
    #[arg(long, value_name = "IMAGE", required_unless_present = "from")]
    image: Option<String>,
    /// The CronJob whose Job to run now: cronjob/NAME
    #[arg(long, value_name = "cronjob/NAME", conflicts_with = "image")]
    from: Option<String>,
    /// Command to run instead of the image's
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl Job {
    pub async fn object(&self, session: &Session) -> Result<Value> {
        let Some(from) = &self.from else {
            let image = self.image.as_deref().unwrap_or_default();
            return Ok(json!({
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": self.name},
                "spec": {"template": template(&self.name, image, &self.command, "Never")},
                "status": {},
            }));
        };
        let source = select::find_one(session, std::slice::from_ref(from), None).await?;
        if source.kind.kind != "CronJob" {
            return Err(Error::plain(format!(
                "unknown object type {}: --from takes cronjob/NAME",
                source.kind.kind
            )));
        }
        let pattern = &source.object["spec"]["jobTemplate"];
        let mut annotations = pattern["metadata"]["annotations"].clone();
        if annotations.is_null() {
            annotations = json!({});
        }
        annotations["cronjob.kubernetes.io/instantiate"] = "manual".into();
        let mut metadata = json!({
            "name": self.name,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": source.object["apiVersion"], "kind": "CronJob", "name": source.name,
                "uid": source.object["metadata"]["uid"], "controller": true,
            }],
        });
        if pattern["metadata"]["labels"].is_object() {
            metadata["labels"] = pattern["metadata"]["labels"].clone();
        }
        Ok(
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": pattern["spec"], "status": {}}),
        )
    }
}

fn template(name: &str, image: &str, command: &[String], restart: &str) -> Value {
    let mut container = json!({"image": image, "name": name, "resources": {}});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    json!({"metadata": {}, "spec": {"containers": [container], "restartPolicy": restart}})
}

/// Create a CronJob
#[derive(Debug, Args)]
#[command(
    after_help = "Example: minik8s create cronjob nightly --image=busybox --schedule='0 3 * * *' -- date"
)]
pub struct CronJob {
    name: String,
    /// Image to run
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// When to run, as cron writes it
    #[arg(long, value_name = "SCHEDULE")]
    schedule: String,
    /// Restart the container when it fails: OnFailure or Never
    #[arg(long, value_name = "POLICY", default_value = "OnFailure")]
    restart: String,
    /// Command to run instead of the image's
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl CronJob {
    pub fn object(&self) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": self.name},
            "spec": {
                "jobTemplate": {
                    "metadata": {"name": self.name},
                    "spec": {"template": template(&self.name, &self.image, &self.command, &self.restart)},
                },
                "schedule": self.schedule,
            },
            "status": {},
        })
    }
}
