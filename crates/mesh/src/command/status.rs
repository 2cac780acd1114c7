//! `minik8s mesh status`: what VirtualServices and MeshPolicies say of themselves, and which proxies do not follow yet.

use std::io::Write;

use kube::api::ListParams;
use kube::{Api, Client};
use minik8s_meta::mesh::{ProxyCounts, SubsetRoute, VirtualService, WaitingProxy};

use super::{list, no_mesh};
use crate::policy::MeshPolicy;

pub async fn show(api: &Api<VirtualService>, client: Client, namespace: &str) -> anyhow::Result<()> {
    let (policies, all) = (Api::<MeshPolicy>::namespaced(client, namespace), ListParams::default());
    let (services, policies) = tokio::join!(list(api), policies.list(&all));
    let text = status(services, policies.map(|list| list.items).map_err(no_mesh))?;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Whoever may list one of the kinds sees that one, and why not the other.
fn status(
    services: anyhow::Result<Vec<VirtualService>>,
    policies: anyhow::Result<Vec<MeshPolicy>>,
) -> anyhow::Result<String> {
    let (services, policies) = match (services, policies) {
        (Err(error), Err(_)) => return Err(error),
        one_at_least => one_at_least,
    };
    let mut text = match services {
        Ok(all) if all.is_empty() => {
            "no VirtualServices in this namespace: requests go to all pods of a Service\n".to_owned()
        }
        Ok(all) => all.iter().map(describe).collect(),
        Err(error) => unlisted("VirtualServices", &error),
    };
    match policies {
        Ok(all) => text.extend(all.iter().map(describe_policy)),
        Err(error) => text += &unlisted("MeshPolicies", &error),
    }
    Ok(text)
}

fn unlisted(kind: &str, error: &anyhow::Error) -> String {
    let why = match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => status.message.clone(),
        _ => format!("{error:#}"),
    };
    format!("{kind} cannot be listed: {why}\n")
}

pub fn print(one: &VirtualService) -> anyhow::Result<()> {
    std::io::stdout().write_all(describe(one).as_bytes())?;
    Ok(())
}

/// A line for the object, one for each subset, and one for whatever is not as it should be.
fn describe(one: &VirtualService) -> String {
    let status = one.status.clone().unwrap_or_default();
    let mut text = format!(
        "{} (Service {}, port {}): {} of {} proxies route by it\n",
        one.metadata.name.as_deref().unwrap_or_default(),
        one.spec.service_ref,
        one.spec.port,
        status.proxies.applied,
        status.proxies.total
    );
    for subset in &one.spec.subsets {
        let known = status.subsets.iter().find(|known| known.name == subset.name);
        let pods = known.map_or(0, |known| known.ready);
        let share = known.and_then(|known| known.share.clone()).unwrap_or_else(|| condition(subset));
        text += &format!("  {:20} {share:10} {pods} ready pods\n", subset.name);
    }
    text += &waiting(&status.proxies);
    for problem in status.conditions.iter().filter(|one| one.status == "False" && !one.message.is_empty()) {
        text += &format!("  {}: {}\n", problem.reason, problem.message);
    }
    text
}

fn condition(subset: &SubsetRoute) -> String {
    let url = subset.url.iter().map(|url| format!("url {url}"));
    let all: Vec<String> =
        url.chain(subset.headers.iter().map(|(name, value)| format!("{name}: {value}"))).collect();
    if all.is_empty() { "the rest".to_owned() } else { all.join(", ") }
}

/// A line for the policy, and one for each proxy that does not enforce it yet.
fn describe_policy(one: &MeshPolicy) -> String {
    let proxies = one.status.clone().unwrap_or_default().proxies;
    let name = one.metadata.name.as_deref().unwrap_or_default();
    let (applied, total) = (proxies.applied, proxies.total);
    format!("MeshPolicy {name}: {applied} of {total} proxies enforce it\n{}", waiting(&proxies))
}

fn waiting(proxies: &ProxyCounts) -> String {
    let line = |one: &WaitingProxy| format!("  waiting for {} on {}\n", one.pod, one.node);
    proxies.waiting_for.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn description_names_what_is_missing() {
        let one: VirtualService = serde_json::from_value(json!({
            "metadata": {"name": "reviews"},
            "spec": {"serviceRef": "reviews", "port": 9080, "subsets": [{"name": "v1", "weight": 1}]},
            "status": {
                "proxies": {"total": 3, "applied": 2, "waitingFor": [{"pod": "ns/web", "node": "n1"}]},
                "subsets": [{"name": "v1", "ready": 2, "share": "100.0%"}],
                "conditions": [{"type": "ResolvedRefs", "status": "False", "reason": "SubsetEmpty",
                    "message": "nobody", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }))
        .unwrap();
        let text = describe(&one);
        for part in
            ["2 of 3 proxies", "100.0%", "2 ready pods", "waiting for ns/web on n1", "SubsetEmpty: nobody"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn kind_that_cannot_be_listed_is_named_beside_the_other() {
        let one = || {
            let spec = json!({"serviceRef": "reviews", "port": 80, "subsets": []});
            let one = json!({"metadata": {"name": "reviews"}, "spec": spec});
            Ok(vec![serde_json::from_value(one).unwrap()])
        };
        let policy = || {
            let policy = json!({"metadata": {"name": "strict"}, "spec": {"mtls": "Strict"}});
            Ok(vec![serde_json::from_value(policy).unwrap()])
        };
        fn refused<T>() -> anyhow::Result<T> {
            let status =
                json!({"status": "Failure", "message": "amy may not", "reason": "Forbidden", "code": 403});
            Err(kube::Error::Api(serde_json::from_value(status).unwrap()).into())
        }
        let check = |services, policies, expected: &str| {
            assert_eq!(status(services, policies).unwrap(), expected);
        };
        let route = "reviews (Service reviews, port 80): 0 of 0 proxies route by it\n";
        let strict = "MeshPolicy strict: 0 of 0 proxies enforce it\n";
        check(one(), policy(), &format!("{route}{strict}"));
        check(one(), refused(), &format!("{route}MeshPolicies cannot be listed: amy may not\n"));
        check(refused(), policy(), &format!("VirtualServices cannot be listed: amy may not\n{strict}"));
        let none = "no VirtualServices in this namespace: requests go to all pods of a Service\n";
        check(Ok(Vec::new()), Ok(Vec::new()), none);
        assert!(status(refused(), refused()).is_err(), "there is nothing to show");
    }

    #[test]
    fn description_of_a_policy_names_who_does_not_enforce_it() {
        let one: MeshPolicy = serde_json::from_value(json!({
            "metadata": {"name": "strict"}, "spec": {"mtls": "Strict"},
            "status": {"proxies": {"total": 3, "applied": 2, "waitingFor": [{"pod": "ns/web", "node": "n1"}]}},
        }))
        .unwrap();
        let expected = "MeshPolicy strict: 2 of 3 proxies enforce it\n  waiting for ns/web on n1\n";
        assert_eq!(describe_policy(&one), expected);
    }
}
