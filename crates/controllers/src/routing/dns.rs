//! The status of DNS objects.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::dns::{ACCEPTED, Dns, DnsPathStatus, DnsStatus, READY};
use minik8s_meta::routing::{Claim, Owner, claims_of_dns, claims_of_ingress, endpoints, serves, service_of};
use minik8s_runtime::{Caches, Controller, EventRecord, Key, Plan, Watches, key_of};

use super::conflict::{accepted, owner_before, shown};

pub struct DnsStatuses;

pub struct Observed {
    dns: Arc<Dns>,
    /// Objects that have a host in common with this one.
    others: Vec<Arc<Dns>>,
    ingresses: Vec<Arc<Ingress>>,
    /// Of the namespace.
    services: Vec<Arc<Service>>,
    slices: Vec<Arc<EndpointSlice>>,
}

impl Controller for DnsStatuses {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "dns-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Dns>();
        watches.on::<Dns>(|caches, changed| {
            let hosts: Vec<&str> = changed.paths().map(|(host, _)| host).collect();
            with_host(caches, &hosts)
        });
        watches.on::<Ingress>(|caches, changed| {
            let claims = claims_of_ingress(changed);
            let hosts: Vec<&str> = claims.iter().map(|claim| claim.host).collect();
            with_host(caches, &hosts)
        });
        watches.needs::<IngressClass>();
        watches.on::<Service>(|caches, service| users(caches, &key_of(service)));
        watches.on::<EndpointSlice>(|caches, slice| {
            let Some((namespace, name)) = service_of(slice) else { return Vec::new() };
            users(caches, &Key::new(namespace, name))
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let dns = caches.of::<Dns>().get(key)?;
        let shares = |host: &str| dns.paths().any(|(own, _)| own == host);
        let mut others = caches.of::<Dns>().list();
        others.retain(|other| key_of(&**other) != *key && other.paths().any(|(host, _)| shares(host)));
        let classes = caches.of::<IngressClass>().list();
        let mut ingresses = caches.of::<Ingress>().list();
        ingresses.retain(|ingress| {
            claims_of_ingress(ingress).iter().any(|claim| shares(claim.host))
                && serves(ingress, classes.iter().map(AsRef::as_ref))
        });
        let named = |name: &str| dns.paths().any(|(_, path)| path.backend.service.name == name);
        let mut services = caches.of::<Service>().in_namespace(&key.namespace);
        services.retain(|service| service.metadata.name.as_deref().is_some_and(named));
        let mut slices = caches.of::<EndpointSlice>().in_namespace(&key.namespace);
        slices.retain(|slice| service_of(slice).is_some_and(|(_, name)| named(name)));
        Some(Observed { others, ingresses, services, slices, dns })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if seen.dns.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let claims = claims_of_dns(&seen.dns);
        let conflicts: Vec<Option<Owner<'_>>> = claims.iter().map(|claim| seen.owner_before(claim)).collect();
        let paths: Vec<DnsPathStatus> = claims
            .iter()
            .zip(&conflicts)
            .map(|(claim, conflict)| seen.path(claim, conflict.as_ref()))
            .collect();
        let old = seen.dns.status.clone().unwrap_or_default();
        let accepted = accepted(&claims, &conflicts);
        let told =
            old.conditions.iter().any(|c| c.type_ == ACCEPTED && Some(&c.message) == accepted.as_ref().err());
        if let Err(message) = &accepted
            && !told
        {
            plan.event(EventRecord::warning(&*seen.dns, "Conflict", message.clone()));
        }
        let generation = seen.dns.metadata.generation;
        let condition = |kind: &str, is: Result<(&str, String), (&str, String)>| {
            let (status, (reason, message)) = match is {
                Ok(why) => ("True", why),
                Err(why) => ("False", why),
            };
            let before = old.conditions.iter().find(|c| c.type_ == kind && c.status == status);
            Condition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                observed_generation: generation,
                last_transition_time: before.map_or(Time(now), |c| c.last_transition_time.clone()),
            }
        };
        let accepted = match accepted {
            Ok(()) => Ok(("Accepted", String::new())),
            Err(message) => Err(("Conflict", message)),
        };
        let conditions = vec![condition(ACCEPTED, accepted), condition(READY, ready(&paths))];
        let mut new = Dns::clone(&seen.dns);
        new.status = Some(DnsStatus { observed_generation: generation, conditions, paths });
        plan.status(&*seen.dns, new);
        plan
    }
}

impl Observed {
    fn owner_before<'a>(&'a self, claim: &Claim<'a>) -> Option<Owner<'a>> {
        let of_dns = self.others.iter().flat_map(|dns| claims_of_dns(dns));
        let of_ingresses = self.ingresses.iter().flat_map(|ingress| claims_of_ingress(ingress));
        owner_before(claim, of_dns.chain(of_ingresses))
    }

    fn path(&self, claim: &Claim<'_>, conflict: Option<&Owner<'_>>) -> DnsPathStatus {
        let mut status = DnsPathStatus {
            host: claim.host.to_owned(),
            path: claim.path.to_owned(),
            ..DnsPathStatus::default()
        };
        let Some(target) = &claim.target else { return status };
        status.target = format!("{}:{}", target.service, target.port);
        let problem = match conflict {
            Some(owner) => Some(("Conflict", format!("requests go to {}", shown(owner)))),
            None => self.problem(target),
        };
        status.ready = problem.is_none();
        (status.reason, status.message) = match problem {
            Some((reason, message)) => (Some(reason.to_owned()), Some(message)),
            None => (None, None),
        };
        status
    }

    fn problem(&self, target: &minik8s_meta::routing::Target<'_>) -> Option<(&'static str, String)> {
        let named = |service: &&Arc<Service>| service.metadata.name.as_deref() == Some(target.service);
        let service = self.services.iter().find(named).map(AsRef::as_ref);
        let slices = self.slices.iter().map(AsRef::as_ref);
        let own = slices.filter(|slice| service_of(slice).is_some_and(|(_, name)| name == target.service));
        let problem = endpoints(service, own, target.port).err()?;
        let name = format!("{}/{}", target.namespace, target.service);
        Some((problem.reason(), problem.message(&name, &target.port.to_string())))
    }
}

fn ready(paths: &[DnsPathStatus]) -> Result<(&'static str, String), (&'static str, String)> {
    let count = paths.iter().filter(|path| path.ready).count();
    if count == paths.len() {
        return Ok(("AllPathsReady", String::new()));
    }
    let problems: Vec<&str> = paths.iter().filter_map(|path| path.message.as_deref()).collect();
    let message =
        format!("{count} of {} paths lead to a Service that answers: {}", paths.len(), problems.join("; "));
    Err(("PathsNotReady", message))
}

fn with_host(caches: &Caches, hosts: &[&str]) -> Vec<Key> {
    let all = caches.of::<Dns>().list();
    let sharing = all.iter().filter(|dns| dns.paths().any(|(host, _)| hosts.contains(&host)));
    sharing.map(|dns| key_of(&**dns)).collect()
}

fn users(caches: &Caches, service: &Key) -> Vec<Key> {
    let all = caches.of::<Dns>().in_namespace(&service.namespace);
    let using =
        all.iter().filter(|dns| dns.paths().any(|(_, path)| path.backend.service.name == service.name));
    using.map(|dns| key_of(&**dns)).collect()
}
