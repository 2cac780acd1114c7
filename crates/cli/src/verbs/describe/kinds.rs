//! The kinds whose description is written by hand, a file for each family.

mod access;
mod configuration;
mod container;
mod network;
mod node;
mod pod;
mod policy;
mod scaling;
mod storage;
mod volume;
mod workload;

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use super::page::Page;
use crate::error::Result;
use crate::select::Target;
use crate::session::Session;
use crate::verbs::pod_target::selector_text;

pub use pod::template;

/// Writes an object; tells whether its events belong below.
pub type Writer = for<'a> fn(&'a Session, &'a Target, &'a mut Page) -> Written<'a>;
pub type Written<'a> = Pin<Box<dyn Future<Output = Result<bool>> + 'a>>;

/// None: the generic text does.
#[allow(clippy::unit_arg, reason = "what is written in the argument's place keeps a kind on a line")]
pub fn writer(group: &str, kind: &str) -> Option<Writer> {
    Some(match (group, kind) {
        ("", "Pod") => |_, target, page| ready(pod::write(&target.object, page)),
        ("", "Node") => |session, target, page| Box::pin(node::write(session, &target.object, page)),
        ("", "Service") => |session, target, page| Box::pin(network::service(session, &target.object, page)),
        ("", "ConfigMap") => |_, target, page| ready(configuration::config_map(&target.object, page)),
        ("", "Secret") => |_, target, page| without_events(configuration::secret(&target.object, page)),
        ("", "ServiceAccount") => {
            |session, target, page| Box::pin(configuration::service_account(session, &target.object, page))
        }
        ("", "Namespace") => {
            |session, target, page| Box::pin(configuration::namespace(session, &target.object, page))
        }
        ("", "LimitRange") => {
            |_, target, page| without_events(configuration::limit_range(&target.object, page))
        }
        ("", "ResourceQuota") => |_, target, page| without_events(configuration::quota(&target.object, page)),
        ("", "PersistentVolume") => |_, target, page| ready(storage::volume(&target.object, page)),
        ("", "PersistentVolumeClaim") => {
            |session, target, page| Box::pin(storage::claim(session, &target.object, page))
        }
        ("storage.k8s.io", "StorageClass") => |_, target, page| ready(storage::class(&target.object, page)),
        ("apps", "Deployment") => {
            |session, target, page| Box::pin(workload::deployment(session, &target.object, page))
        }
        ("apps", "ReplicaSet") | ("", "ReplicationController") => {
            |session, target, page| Box::pin(workload::replica_set(session, target, page))
        }
        ("apps", "StatefulSet") => {
            |session, target, page| Box::pin(workload::stateful_set(session, target, page))
        }
        ("apps", "DaemonSet") => {
            |session, target, page| Box::pin(workload::daemon_set(session, target, page))
        }
        ("batch", "Job") => |_, target, page| ready(workload::job(&target.object, page)),
        ("batch", "CronJob") => |_, target, page| ready(workload::cron_job(&target.object, page)),
        ("networking.k8s.io", "Ingress") => {
            |session, target, page| Box::pin(network::ingress(session, &target.object, page))
        }
        ("networking.k8s.io", "IngressClass") => {
            |_, target, page| ready(network::ingress_class(&target.object, page))
        }
        ("networking.k8s.io", "NetworkPolicy") => {
            |_, target, page| without_events(policy::network_policy(&target.object, page))
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            |_, target, page| ready(network::endpoint_slice(&target.object, page))
        }
        ("autoscaling", "HorizontalPodAutoscaler") => {
            |_, target, page| ready(scaling::autoscaler(&target.object, page))
        }
        ("policy", "PodDisruptionBudget") => |_, target, page| ready(scaling::budget(&target.object, page)),
        ("scheduling.k8s.io", "PriorityClass") => {
            |_, target, page| ready(configuration::priority_class(&target.object, page))
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            |_, target, page| ready(access::signing_request(&target.object, page))
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            |_, target, page| without_events(access::role(&target.object, page))
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            |_, target, page| without_events(access::binding(&target.object, page))
        }
        _ => return None,
    })
}

fn ready<'a>((): ()) -> Written<'a> {
    Box::pin(std::future::ready(Ok(true)))
}

fn without_events<'a>((): ()) -> Written<'a> {
    Box::pin(std::future::ready(Ok(false)))
}

/// `a=b,c=d` of a label selector, or `<none>`.
fn selector(selector: &Value) -> String {
    selector_text(selector).unwrap_or_else(|| "<none>".to_owned())
}

/// `Deployment/web` of the controller that owns an object.
fn controller(object: &Value) -> Option<String> {
    let owners = super::page::items(&object["metadata"]["ownerReferences"]);
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some(format!("{}/{}", owner["kind"].as_str()?, owner["name"].as_str()?))
}
