//! What Functions say of themselves in `/metrics/kube-state`. It counts no calls: routers do.

use minik8s_api::state_metrics::{Page, Subject};
use serde_json::Value;

pub fn write(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "function", namespaced: true };
    page.created(of, "minik8s_function_created");
    for (name, help, path) in [
        ("minik8s_function_status_desired", "Instances that demand asks for.", "/status/desired"),
        ("minik8s_function_status_replicas", "Instances there are.", "/status/replicas"),
        ("minik8s_function_status_ready_replicas", "Instances that get requests.", "/status/readyReplicas"),
    ] {
        page.count(of, name, help, path);
    }
    page.gauge(of, "minik8s_function_failed", "Whether its last start has failed.", |function, add| {
        add(&[], f64::from(u8::from(!function["status"]["failure"].is_null())));
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn function_tells_wanted_and_ready_instances() {
        let meta = json!({"name": "x", "namespace": "ns", "creationTimestamp": "1970-01-01T00:01:00Z"});
        let mut page = Page::default();
        let status = json!({"desired": 2, "replicas": 1, "failure": {"message": "no"}});
        write(&[json!({"metadata": meta, "status": status})], &mut page);
        let page = page.finish();
        for line in [
            "minik8s_function_created{namespace=\"ns\",function=\"x\"} 60",
            "minik8s_function_status_desired{namespace=\"ns\",function=\"x\"} 2",
            "minik8s_function_status_ready_replicas{namespace=\"ns\",function=\"x\"} 0",
            "minik8s_function_failed{namespace=\"ns\",function=\"x\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }
}
