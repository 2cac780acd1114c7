//! The last calls of a function, as routers remember them and the server tells them at `functions/NAME/calls`.
//!
//! What was sent and answered is no part of it: no path, no query, no header, no body. Nothing of it is stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

/// How many calls of a function a router remembers.
pub const KEPT_CALLS: usize = 32;
/// The status of a call whose caller went away before it was answered, as nginx has it.
pub const CALLER_GONE: u16 = 499;
/// Where a node tells the calls of a function, before its namespace and name.
pub const NODE_PATH: &str = "functionCalls";

/// FunctionCall is one request that a function was to answer, or one attempt at a call that nobody waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionCall {
    /// at is when all of the request had come.
    pub at: MicroTime,
    /// method of the request.
    pub method: String,
    /// status of the answer.
    pub status: u16,
    /// cold says that no instance was ready for it: one had to be started.
    pub cold: bool,
    /// milliseconds from then to the end of the answer; of a WebSocket, until it was open.
    pub milliseconds: f64,
    /// waitedMilliseconds of them were for an instance to be free, or to be started and listen.
    pub waited_milliseconds: f64,
    /// revision is the number of the revision that answered; 0 while none did, or where it is no longer known.
    #[serde(default)]
    pub revision: i64,
    /// revisionHash is the hash of that revision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision_hash: String,
    /// pod is the instance that answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// node whose router was asked.
    #[serde(default)]
    pub node: String,
}

/// FunctionCallList has the last calls of one function, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionCallList {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    pub items: Vec<FunctionCall>,
    /// unreachable are nodes that were asked and did not answer: calls of theirs are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<String>,
}

impl Default for FunctionCallList {
    fn default() -> Self {
        FunctionCallList {
            api_version: "minik8s.io/v1".to_owned(),
            kind: "FunctionCallList".to_owned(),
            items: Vec::new(),
            unreachable: Vec::new(),
        }
    }
}
