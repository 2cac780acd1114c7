//! The built-in kinds: a file or folder each, and one line in [`all`].
//!
//! Everything about a kind stands in its folder: names, scope, defaults, validation, what may not change, columns. Nothing
//! but the program itself is built on this crate: it hands the list to the API server, which knows no kind by name but those
//! it acts on itself.

mod admission;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
#[cfg(test)]
mod check;
mod coordination;
mod core;
mod discovery;
mod events;
mod flowcontrol;
mod minik8s;
mod networking;
mod node;
mod pod_spec;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

// What every kind is written with.
use minik8s_api::{
    At, Cell, Column, CronSchedule, FieldErrors, FieldPath, JsonPath, LabelSelector, NameRule, Part, Path,
    Plain, Quantity, Resource, Strategy, fill, human_duration, metadata, table, time_zone,
    validate_label_selector,
};
use minik8s_meta::format;

/// Every built-in resource, in the order in which discovery shows them.
pub fn all() -> Vec<Resource> {
    vec![
        core::binding::resource(),
        core::config_map::resource(),
        core::endpoints::resource(),
        core::event::resource(),
        core::limit_range::resource(),
        core::namespace::resource(),
        core::node::resource(),
        core::persistent_volume::resource(),
        core::persistent_volume_claim::resource(),
        core::pod::resource(),
        core::pod_template::resource(),
        core::replication_controller::resource(),
        core::resource_quota::resource(),
        core::secret::resource(),
        core::service::resource(),
        core::service_account::resource(),
        admission::mutating_admission_policy::resource(),
        admission::mutating_admission_policy_binding::resource(),
        admission::mutating_webhook_configuration::resource(),
        admission::validating_admission_policy::resource(),
        admission::validating_admission_policy_binding::resource(),
        admission::validating_webhook_configuration::resource(),
        apiextensions::custom_resource_definition::resource(),
        apiregistration::api_service::resource(),
        apps::controller_revision::resource(),
        apps::daemon_set::resource(),
        apps::deployment::resource(),
        apps::replica_set::resource(),
        apps::stateful_set::resource(),
        authentication::self_subject_review::resource(),
        authentication::token_review::resource(),
        authorization::local_subject_access_review::resource(),
        authorization::self_subject_access_review::resource(),
        authorization::self_subject_rules_review::resource(),
        authorization::subject_access_review::resource(),
        autoscaling::horizontal_pod_autoscaler::v2(),
        autoscaling::horizontal_pod_autoscaler::v1(),
        batch::cron_job::resource(),
        batch::job::resource(),
        certificates::certificate_signing_request::resource(),
        certificates::cluster_trust_bundle::resource(),
        certificates::pod_certificate_request::resource(),
        coordination::lease::resource(),
        discovery::endpoint_slice::resource(),
        events::event::resource(),
        flowcontrol::flow_schema::resource(),
        flowcontrol::priority_level_configuration::resource(),
        minik8s::dns::resource(),
        networking::ingress::resource(),
        networking::ingress_class::resource(),
        networking::ip_address::resource(),
        networking::network_policy::resource(),
        networking::service_cidr::resource(),
        node::runtime_class::resource(),
        policy::pod_disruption_budget::resource(),
        rbac::cluster_role::resource(),
        rbac::cluster_role_binding::resource(),
        rbac::role::resource(),
        rbac::role_binding::resource(),
        resource::device_class::resource(),
        resource::device_taint_rule::resource(),
        resource::resource_claim::resource(),
        resource::resource_claim_template::resource(),
        resource::resource_slice::resource(),
        scheduling::priority_class::resource(),
        storage::csi_driver::resource(),
        storage::csi_node::resource(),
        storage::csi_storage_capacity::resource(),
        storage::storage_class::resource(),
        storage::volume_attachment::resource(),
        storage::volume_attributes_class::resource(),
        storagemigration::storage_version_migration::resource(),
    ]
}

#[cfg(test)]
mod tests;
