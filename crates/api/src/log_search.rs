//! Where lines of logs are searched: by those who may read the logs one by one.

/// The API that answers them is no kind of objects: `/apis/logs.minik8s.io/v1/namespaces/NAMESPACE/logs`.
pub const LOGS_GROUP: &str = "logs.minik8s.io";
pub const LOGS_RESOURCE: &str = "logs";
