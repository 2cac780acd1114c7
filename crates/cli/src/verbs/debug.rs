//! `debug`: a container with tools in a pod that runs, a copy of a pod that can be looked into, or a pod on a node.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::exec::{self, Io};
use super::{delete, gone, pod_target};
use crate::error::{Error, Result};
use crate::flags::{DryRun, duration, pair};
use crate::output;
use crate::select::Target;
use crate::session::{STRATEGIC, Session, Writing};

/// Look into a pod or a node with a container of your own
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s debug web -it --image=busybox --target=web
  minik8s debug web -it --image=busybox --copy-to=web-debug --share-processes
  minik8s debug node/node1 -it --image=busybox")]
pub struct Debug {
    /// POD, TYPE/NAME or node/NAME
    #[arg(value_name = "WHAT")]
    what: String,
    /// Image of the new container
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// When to pull the image
    #[arg(long, value_name = "POLICY")]
    image_pull_policy: Option<String>,
    /// Name of the new container
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Look into the processes of this container
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// KEY=VALUE for the environment; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// Pass standard input to it
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give it a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Connect to it once it runs; as -i says by default
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    attach: Option<bool>,
    /// Say less
    #[arg(short, long)]
    quiet: bool,
    /// Make a copy of the pod under this name
    #[arg(long, value_name = "NAME")]
    copy_to: Option<String>,
    /// With --copy-to: delete the pod that is copied
    #[arg(long)]
    replace: bool,
    /// With --copy-to: on the same node
    #[arg(long)]
    same_node: bool,
    /// With --copy-to: containers see each other's processes
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    share_processes: bool,
    /// With --copy-to: CONTAINER=IMAGE to change; * for all
    #[arg(long, value_name = "CONTAINER=IMAGE", value_delimiter = ',')]
    set_image: Vec<String>,
    /// What the container may do
    #[arg(long, value_name = "PROFILE", default_value = "general")]
    profile: Profile,
    /// How long to wait for it to run
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pod_running_timeout: Duration,
    /// What it runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    Legacy,
    General,
    Baseline,
    Netadmin,
    Restricted,
    Sysadmin,
}

pub async fn run(session: &Session, verb: Debug) -> Result<()> {
    let target = pod_target::named(session, &verb.what).await?;
    let (target, container) = match target.kind.plural.as_str() {
        "nodes" => on_node(session, &verb, &target).await?,
        _ => {
            let pod = pod_target::one_pod(session, &target, verb.pod_running_timeout).await?;
            let pod = Target::new(session.kind("pods").await?, pod);
            match &verb.copy_to {
                Some(name) => copied(session, &verb, &pod, name).await?,
                None => ephemeral(session, &verb, &pod).await?,
            }
        }
    };
    if !verb.attach.unwrap_or(verb.stdin) {
        return Ok(());
    }
    let pod = until_running(session, &target, &container, verb.pod_running_timeout).await?;
    let io = Io { stdin: verb.stdin, tty: verb.tty };
    if io.stdin && io.tty && !verb.quiet {
        output::remark("If you don't see a command prompt, try pressing enter.");
    }
    exec::ended(exec::run(session, &pod, &container, "attach", io, &[]).await?)
}

impl Debug {
    fn name(&self) -> String {
        match &self.container {
            Some(name) => name.clone(),
            None => format!("debugger-{}", suffix()),
        }
    }

    fn container(&self, name: &str) -> Result<Value> {
        let image = self.image.as_deref().ok_or_else(|| Error::plain("must specify --image"))?;
        let mut container = json!({
            "name": name, "image": image, "terminationMessagePolicy": "File",
            "stdin": self.stdin, "tty": self.tty,
        });
        if let Some(policy) = &self.image_pull_policy {
            container["imagePullPolicy"] = policy.clone().into();
        }
        if !self.command.is_empty() {
            container["command"] = json!(self.command);
        }
        for text in &self.env {
            let (name, value) = pair(text, "env")?;
            let one = json!({"name": name, "value": value});
            match container["env"].as_array_mut() {
                Some(list) => list.push(one),
                None => container["env"] = json!([one]),
            }
        }
        if let Some(security) = self.profile.security() {
            container["securityContext"] = security;
        }
        Ok(container)
    }

    fn tell(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            output::remark(text);
        }
    }
}

impl Profile {
    fn security(self) -> Option<Value> {
        match self {
            Profile::Legacy | Profile::Baseline => None,
            Profile::General => Some(json!({"capabilities": {"add": ["SYS_PTRACE"]}})),
            Profile::Netadmin => Some(json!({"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}})),
            Profile::Sysadmin => Some(json!({"privileged": true})),
            Profile::Restricted => Some(json!({
                "runAsNonRoot": true, "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
            })),
        }
    }

    /// Whether a pod on a node sees the node's processes, network and files.
    fn sees_host(self) -> bool {
        !matches!(self, Profile::Baseline | Profile::Restricted)
    }
}

/// Adds a container to a pod that runs.
async fn ephemeral(session: &Session, verb: &Debug, pod: &Target) -> Result<(Target, String)> {
    let name = verb.name();
    let taken = pod_target::containers(&pod.object).contains(&name);
    if taken {
        return Err(Error::plain(format!(
            "pod {} has a container named {name:?}; choose another with -c",
            pod.name
        )));
    }
    let mut container = verb.container(&name)?;
    if let Some(other) = &verb.target {
        verb.tell(format_args!(
            "Targeting container {other:?}. If you don't see processes from this container it may be because the container \
             runtime doesn't support this feature."
        ));
        container["targetContainerName"] = other.clone().into();
    }
    if verb.container.is_none() {
        verb.tell(format_args!("Defaulting debug container name to {name}."));
    }
    let patch = json!({"spec": {"ephemeralContainers": [container]}});
    let how = Writing { manager: "kubectl-debug", ..Writing::default() };
    let path = format!("{}/ephemeralcontainers", pod.path());
    let changed = session.patch(path, STRATEGIC, &patch, &how).await?;
    Ok((Target::new(pod.kind.clone(), changed), name))
}

/// Makes a copy that nobody's selector finds and no probe ends.
async fn copied(session: &Session, verb: &Debug, pod: &Target, name: &str) -> Result<(Target, String)> {
    let (copy, container) = verb.copy_of(&pod.object, name)?;
    if verb.replace {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        let uid = delete::delete_one(session, pod, &options, DryRun::None).await?;
        gone::wait(session, pod, uid.as_deref(), verb.pod_running_timeout).await?;
    }
    let how = Writing { manager: "kubectl-debug", ..Writing::default() };
    let made = session.create(&pod.kind, &copy, &how).await?;
    Ok((Target::new(pod.kind.clone(), made), container))
}

impl Debug {
    /// The copy, and the container of it to connect to.
    fn copy_of(&self, pod: &Value, name: &str) -> Result<(Value, String)> {
        let mut spec = pod["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            map.shift_remove("ephemeralContainers");
            if !self.same_node {
                map.shift_remove("nodeName");
            }
            if self.share_processes {
                map.insert("shareProcessNamespace".to_owned(), true.into());
            }
        }
        let Some(containers) = spec["containers"].as_array_mut() else {
            return Err(Error::plain("the pod has no containers"));
        };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                container.shift_remove(probe);
            }
        }
        for text in &self.set_image {
            let (wanted, image) = pair(text, "--set-image")?;
            let mut found = false;
            for one in containers.iter_mut().filter(|one| wanted == "*" || one["name"] == wanted) {
                one["image"] = image.into();
                found = true;
            }
            if !found {
                return Err(Error::plain(format!("unable to find container named {wanted:?}")));
            }
        }
        let existing =
            self.container.as_deref().and_then(|name| containers.iter_mut().find(|one| one["name"] == name));
        let shown = match existing {
            Some(one) => {
                if let Some(image) = &self.image {
                    one["image"] = image.clone().into();
                }
                if !self.command.is_empty() {
                    one["command"] = json!(self.command);
                    one.as_object_mut().map(|one| one.shift_remove("args"));
                }
                one["stdin"] = self.stdin.into();
                one["tty"] = self.tty.into();
                one["name"].as_str().unwrap_or_default().to_owned()
            }
            None if self.image.is_some() => {
                let name = self.name();
                if self.container.is_none() {
                    self.tell(format_args!("Defaulting debug container name to {name}."));
                }
                containers.push(self.container(&name)?);
                name
            }
            None if !self.set_image.is_empty() => {
                containers[0]["name"].as_str().unwrap_or_default().to_owned()
            }
            None => {
                return Err(Error::plain(
                    "must specify --image or --set-image, or an existing container with -c",
                ));
            }
        };
        let metadata = json!({
            "name": name, "namespace": pod["metadata"]["namespace"],
            "annotations": pod["metadata"]["annotations"],
        });
        Ok((json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}), shown))
    }
}

/// A pod that sees what its node has.
async fn on_node(session: &Session, verb: &Debug, node: &Target) -> Result<(Target, String)> {
    let name = format!("node-debugger-{}-{}", node.name, suffix());
    let container_name = verb.container.clone().unwrap_or_else(|| "debugger".to_owned());
    let mut container = verb.container(&container_name)?;
    let mut spec = json!({
        "nodeName": node.name, "restartPolicy": "Never", "tolerations": [{"operator": "Exists"}],
    });
    if verb.profile.sees_host() {
        for field in ["hostIPC", "hostNetwork", "hostPID"] {
            spec[field] = true.into();
        }
        container["volumeMounts"] = json!([{"name": "host-root", "mountPath": "/host"}]);
        spec["volumes"] = json!([{"name": "host-root", "hostPath": {"path": "/"}}]);
    }
    spec["containers"] = json!([container]);
    let kind = session.kind("pods").await?;
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    session.place(&kind, &mut pod).await?;
    verb.tell(format_args!(
        "Creating debugging pod {name} with container {container_name} on node {}.",
        node.name
    ));
    let how = Writing { manager: "kubectl-debug", ..Writing::default() };
    let made = session.create(&kind, &pod, &how).await?;
    Ok((Target::new(kind, made), container_name))
}

/// Five letters that nobody else has chosen.
fn suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let now = jiff::Timestamp::now().as_nanosecond().unsigned_abs() ^ u128::from(std::process::id());
    let letter = |place: u32| LETTERS[usize::try_from((now / 27_u128.pow(place)) % 27).unwrap_or_default()];
    (0..5).map(|place| char::from(letter(place))).collect()
}

async fn until_running(
    session: &Session,
    target: &Target,
    container: &str,
    timeout: Duration,
) -> Result<Value> {
    let _progress = session.progress(format_args!("waiting until {container} of {} runs", target.shown()));
    let started = |pod: &Value| {
        let lists = ["containerStatuses", "ephemeralContainerStatuses"];
        let mut own = lists
            .iter()
            .flat_map(|list| pod["status"][list].as_array().into_iter().flatten())
            .filter(|status| status["name"] == container);
        own.any(|status| !status["state"]["running"].is_null() || !status["state"]["terminated"].is_null())
    };
    match tokio::time::timeout(timeout, gone::until(session, target, started)).await {
        Ok(pod) => pod,
        Err(_) => Err(Error::plain(format!(
            "timed out waiting for the condition: container {container} does not run; see: minik8s why pod/{}",
            target.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        verb: Debug,
    }

    fn verb(line: &str) -> Debug {
        Line::parse_from(line.split(' ')).verb
    }

    #[test]
    fn copies_have_no_probes_and_no_labels() {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": "node1", "containers": [{"name": "web", "image": "web:1", "livenessProbe": {}}]},
        });
        let (copy, container) =
            verb("debug web --image=busybox --copy-to=copy -c tools").copy_of(&pod, "copy").unwrap();
        assert_eq!(container, "tools");
        assert_eq!(copy["metadata"], json!({"name": "copy", "namespace": "shop", "annotations": null}));
        assert_eq!(copy["spec"]["containers"][0], json!({"name": "web", "image": "web:1"}));
        assert_eq!(
            copy["spec"]["containers"][1]["securityContext"]["capabilities"]["add"],
            json!(["SYS_PTRACE"])
        );
        assert!(copy["spec"]["nodeName"].is_null() && copy["spec"]["shareProcessNamespace"] == true);
        let (copy, container) =
            verb("debug web --set-image=*=new --copy-to=copy --same-node").copy_of(&pod, "copy").unwrap();
        assert_eq!((container.as_str(), &copy["spec"]["containers"][0]["image"]), ("web", &json!("new")));
        assert_eq!(copy["spec"]["nodeName"], "node1");
        assert!(verb("debug web --copy-to=copy").copy_of(&pod, "copy").is_err());
        assert!(verb("debug web --set-image=none=x --copy-to=copy").copy_of(&pod, "copy").is_err());
    }

    #[test]
    fn container_is_as_flags_and_profile_say() {
        let made = verb("debug web -it --image=busybox --env=A=1 --profile=restricted -- sh -c date")
            .container("d")
            .unwrap();
        assert_eq!((&made["stdin"], &made["command"]), (&json!(true), &json!(["sh", "-c", "date"])));
        assert_eq!(made["env"], json!([{"name": "A", "value": "1"}]));
        assert_eq!(made["securityContext"]["runAsNonRoot"], true);
        assert!(verb("debug web").container("d").unwrap_err().to_string().contains("--image"));
        assert!(Profile::Sysadmin.sees_host() && !Profile::Restricted.sees_host());
        assert_eq!(suffix().len(), 5);
    }
}
