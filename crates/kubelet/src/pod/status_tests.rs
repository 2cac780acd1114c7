use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

#[test]
fn placeholder() {
    let pod: core::Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": []}})).unwrap();
    let _: Value = json!(Blueprint::new(Arc::new(pod)).uid);
}
