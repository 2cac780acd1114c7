//! What a pod may do at the API: a ServiceAccount, a Role and a RoleBinding of its own, so that it reaches one object and
//! no Secret.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_runtime::{Action, Caches, Key, Object, Plan, owner_reference};

use crate::program::{MOST_PARTS, part_name};

/// Which of the three are there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    account: bool,
    role: bool,
    binding: bool,
}

impl Access {
    pub fn observe(caches: &Caches, key: &Key) -> Self {
        Access {
            account: caches.of::<ServiceAccount>().get(key).is_some(),
            role: caches.of::<Role>().get(key).is_some(),
            binding: caches.of::<RoleBinding>().get(key).is_some(),
        }
    }

    /// Makes what is missing.
    pub fn plan<O: Object>(self, owner: &O, name: &str, rules: Vec<PolicyRule>, plan: &mut Plan) {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: owner.meta().namespace.clone(),
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        };
        if !self.account {
            let account = ServiceAccount {
                metadata: metadata.clone(),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            };
            plan.act(Action::create(&account));
        }
        if !self.role {
            plan.act(Action::create(&Role { metadata: metadata.clone(), rules: Some(rules) }));
        }
        if !self.binding {
            let subject = Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: metadata.namespace.clone(),
                ..Subject::default()
            };
            let role_ref = RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "Role".to_owned(),
                name: name.to_owned(),
            };
            plan.act(Action::create(&RoleBinding { metadata, role_ref, subjects: Some(vec![subject]) }));
        }
    }
}

/// Its own job, its cluster's address, and the ConfigMaps of its results. ConfigMaps can be created under any name, as no
/// role can say which; only those of the job can be changed.
pub fn job_rules(job: &str, cluster: &str) -> Vec<PolicyRule> {
    let parts: Vec<String> = (0..MOST_PARTS).map(|number| part_name(job, number)).collect();
    vec![
        rule("minik8s.io", &["gpujobs"], &["get", "list", "watch"], &[job.to_owned()]),
        rule("minik8s.io", &["gpujobs/status"], &["patch"], &[job.to_owned()]),
        rule("minik8s.io", &["slurmclusters"], &["get"], &[cluster.to_owned()]),
        rule("", &["configmaps", "events"], &["create"], &[]),
        rule("", &["configmaps"], &["update"], &parts),
    ]
}

pub fn cluster_rules(cluster: &str) -> Vec<PolicyRule> {
    vec![
        rule("minik8s.io", &["slurmclusters"], &["get"], &[cluster.to_owned()]),
        rule("minik8s.io", &["slurmclusters/status"], &["patch"], &[cluster.to_owned()]),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str], names: &[String]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        resource_names: Some(names.to_vec()).filter(|names| !names.is_empty()),
        ..PolicyRule::default()
    }
}
