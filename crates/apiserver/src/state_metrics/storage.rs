//! Volumes and claims to them.

use serde_json::Value;

use minik8s_api::state_metrics::{Page, Subject, list, one_of, text};

pub fn claims(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "persistentvolumeclaim", namespaced: true };
    page.created(of, "kube_persistentvolumeclaim_created");
    let name = "kube_persistentvolumeclaim_info";
    page.gauge(of, name, "Information about persistent volume claim.", |claim, add| {
        let labels = [
            ("storageclass", text(&claim["spec"]["storageClassName"])),
            ("volumename", text(&claim["spec"]["volumeName"])),
            ("volumemode", text(&claim["spec"]["volumeMode"])),
        ];
        add(&labels, 1.0);
    });
    let name = "kube_persistentvolumeclaim_access_mode";
    page.gauge(of, name, "The access mode(s) specified by the persistent volume claim.", |claim, add| {
        for mode in list(&claim["spec"]["accessModes"]) {
            add(&[("access_mode", text(mode))], 1.0);
        }
    });
    let name = "kube_persistentvolumeclaim_status_phase";
    page.gauge(of, name, "The phase the persistent volume claim is currently in.", |claim, add| {
        one_of("phase", text(&claim["status"]["phase"]), &["Lost", "Bound", "Pending"], &[], add);
    });
    page.number(
        of,
        "kube_persistentvolumeclaim_resource_requests_storage_bytes",
        "The capacity of storage requested by the persistent volume claim.",
        "/spec/resources/requests/storage",
    );
}

pub fn volumes(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "persistentvolume", namespaced: false };
    page.created(of, "kube_persistentvolume_created");
    page.gauge(of, "kube_persistentvolume_info", "Information about persistentvolume.", |volume, add| {
        add(&[("storageclass", text(&volume["spec"]["storageClassName"]))], 1.0);
    });
    let name = "kube_persistentvolume_status_phase";
    page.gauge(
        of,
        name,
        "The phase indicates if a volume is available, bound or released.",
        |volume, add| {
            let phases = ["Pending", "Available", "Bound", "Released", "Failed"];
            one_of("phase", text(&volume["status"]["phase"]), &phases, &[], add);
        },
    );
    let name = "kube_persistentvolume_claim_ref";
    page.gauge(of, name, "Information about the Persistent Volume Claim Reference.", |volume, add| {
        let claim = &volume["spec"]["claimRef"];
        if claim.is_object() {
            add(&[("name", text(&claim["name"])), ("claim_namespace", text(&claim["namespace"]))], 1.0);
        }
    });
    let name = "kube_persistentvolume_capacity_bytes";
    page.number(of, name, "Persistentvolume capacity in bytes.", "/spec/capacity/storage");
}
