//! `LogResult` of `lambda:invoke` with `LogType: Tail`: the last 4 KiB that the instance wrote during the call, in base64.
//!
//! A log that cannot be read is empty: the call has succeeded all the same.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use minik8s_asl::definition::{Pattern, Resource};
use minik8s_asl::engine::{TaskRequest, lambda_invoke_output};
use serde_json::Value;

use super::Job;

/// AWS' limit.
const LONGEST: usize = 4096;
/// A node that does not answer must not hold up the run for long.
const TIMEOUT: Duration = Duration::from_secs(5);

pub fn is_wanted(request: &TaskRequest) -> bool {
    let resource = Resource::parse(&request.resource);
    let invoked =
        |resource: &Resource| resource.is_lambda_invoke() && resource.pattern() == Pattern::RequestResponse;
    resource.is_ok_and(|resource| invoked(&resource)) && request.parameters["LogType"] == "Tail"
}

/// What the instance wrote since the call began.
pub async fn of(client: &Client, job: &Job, begun: Timestamp) -> String {
    let Some(instance) = job.instance.get() else { return String::new() };
    let pods: Api<Pod> = Api::namespaced(client.clone(), &job.context.namespace);
    let parameters =
        LogParams { since_time: Some(begun), limit_bytes: Some(1024 * 1024), ..LogParams::default() };
    match tokio::time::timeout(TIMEOUT, pods.logs(&instance.pod, &parameters)).await {
        Ok(Ok(log)) => log,
        Ok(Err(error)) => {
            tracing::debug!(pod = instance.pod, %error, "no log for LogResult");
            String::new()
        }
        Err(_) => String::new(),
    }
}

/// The whole answer, with the end of the log.
pub fn output(payload: &Value, log: &str) -> Value {
    let bytes = log.as_bytes();
    let end = &bytes[bytes.len().saturating_sub(LONGEST)..];
    let mut output = lambda_invoke_output(payload);
    output["LogResult"] = STANDARD.encode(end).into();
    output
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn log_result_is_the_end_of_the_log() {
        let made = output(&json!({"a": 1}), &format!("{}end", "x".repeat(5000)));
        assert_eq!(made["Payload"], json!({"a": 1}));
        let log = STANDARD.decode(made["LogResult"].as_str().unwrap()).unwrap();
        assert_eq!(log.len(), LONGEST);
        assert!(log.ends_with(b"xend"));
        assert_eq!(output(&json!(1), "")["LogResult"], "");
    }

    #[test]
    fn log_result_is_made_only_where_it_is_asked_for() {
        let request = |resource: &str, parameters: Value| TaskRequest {
            task: 1,
            state: "s".to_owned(),
            attempt: 0,
            resource: resource.to_owned(),
            parameters,
            credentials: None,
            token: None,
            timeout_seconds: None,
            heartbeat_seconds: None,
        };
        let tail = json!({"FunctionName": "f", "LogType": "Tail"});
        assert!(is_wanted(&request("arn:aws:states:::lambda:invoke", tail.clone())));
        assert!(!is_wanted(&request("arn:aws:states:::lambda:invoke", json!({"FunctionName": "f"}))));
        assert!(!is_wanted(&request("arn:aws:states:::lambda:invoke.waitForTaskToken", tail.clone())));
        assert!(!is_wanted(&request("function:f", tail)));
    }
}
