//! The options of sbatch that a GPUJob can give, with Slurm's own names.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// SlurmOptions are options of sbatch, named as Slurm names them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SlurmOptions")]
#[serde(rename_all = "camelCase", default)]
pub struct SlurmOptions {
    /// partition to run in; the cluster's default if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// nodes that the job gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// ntasks is the number of tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntasks: Option<i64>,
    /// ntasksPerNode is the number of tasks on each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntasks_per_node: Option<i64>,
    /// ntasksPerSocket is the number of tasks on each socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntasks_per_socket: Option<i64>,
    /// ntasksPerCore is the number of tasks on each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntasks_per_core: Option<i64>,
    /// cpusPerTask is the number of CPUs of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<i64>,
    /// cpusPerGpu is the number of CPUs for each GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_gpu: Option<i64>,
    /// threadsPerCore is how many threads of a core are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_per_core: Option<i64>,
    /// gpus of the whole job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    /// gpusPerNode is the number of GPUs on each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<i64>,
    /// gpusPerTask is the number of GPUs of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_task: Option<i64>,
    /// gpusPerSocket is the number of GPUs on each socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_socket: Option<i64>,
    /// gres are generic resources of each node, e.g. "gpu:v100:2".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// time limit, e.g. "00:10:00" or "30" (minutes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// timeMin is the shortest time limit that will do: Slurm may set a lower one to start the job sooner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_min: Option<String>,
    /// mem is the memory of each node, e.g. "8G".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem: Option<String>,
    /// memPerCpu is the memory for each CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_per_cpu: Option<String>,
    /// memPerGpu is the memory for each GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_per_gpu: Option<String>,
    /// tmp is the temporary disk space of each node, e.g. "10G".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmp: Option<String>,
    /// account that is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// qos is the quality of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// array runs the job once for each index, e.g. "0-3%2".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// constraint names features that nodes must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// reservation to run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// licenses that the job needs, e.g. "matlab:2".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licenses: Option<String>,
    /// wckey is a word under which the job is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wckey: Option<String>,
    /// nodelist are nodes that the job must get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelist: Option<String>,
    /// exclude are nodes that the job must not get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// dependency on other Slurm jobs, e.g. "afterok:1234".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// begin is when the job may start at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// deadline ends the job if it cannot end before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// signal is sent so long before the time limit, e.g. "B:USR1@60".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// nice lowers the job's priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i64>,
    /// distribution of tasks over nodes and sockets, e.g. "block:cyclic".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// hint how to bind tasks, e.g. "nomultithread".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// mailType are the events that Slurm writes mails about, e.g. "END,FAIL".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail_type: Option<String>,
    /// mailUser is who gets those mails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail_user: Option<String>,
    /// exclusive nodes: no other job runs there meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// oversubscribe lets other jobs use the same resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversubscribe: Option<bool>,
    /// requeue lets Slurm start the job again when a node fails; false forbids it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue: Option<bool>,
    /// output is the file for standard output, with Slurm's patterns. "slurm-%j.out" by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// error is the file for standard error; the same as output by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// modules are loaded before build and run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// environment of build and run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// options that have no field here, as sbatch has them, e.g. "--nice=10".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// script is a whole script for sbatch, instead of all that is generated. Name, comment and folder are still ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// What kind of value an option has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    /// At least one.
    Count,
    Number,
}

/// Every option of sbatch that has a field, in the order in which people write them in scripts.
pub const OPTIONS: [(&str, Form); 40] = [
    ("partition", Form::Text),
    ("account", Form::Text),
    ("qos", Form::Text),
    ("reservation", Form::Text),
    ("licenses", Form::Text),
    ("wckey", Form::Text),
    ("nodes", Form::Count),
    ("ntasks", Form::Count),
    ("ntasksPerNode", Form::Count),
    ("ntasksPerSocket", Form::Count),
    ("ntasksPerCore", Form::Count),
    ("cpusPerTask", Form::Count),
    ("cpusPerGpu", Form::Count),
    ("threadsPerCore", Form::Count),
    ("gpus", Form::Count),
    ("gpusPerNode", Form::Count),
    ("gpusPerTask", Form::Count),
    ("gpusPerSocket", Form::Count),
    ("gres", Form::Text),
    ("constraint", Form::Text),
    ("nodelist", Form::Text),
    ("exclude", Form::Text),
    ("distribution", Form::Text),
    ("hint", Form::Text),
    ("time", Form::Text),
    ("timeMin", Form::Text),
    ("mem", Form::Text),
    ("memPerCpu", Form::Text),
    ("memPerGpu", Form::Text),
    ("tmp", Form::Text),
    ("array", Form::Text),
    ("dependency", Form::Text),
    ("begin", Form::Text),
    ("deadline", Form::Text),
    ("signal", Form::Text),
    ("nice", Form::Number),
    ("mailType", Form::Text),
    ("mailUser", Form::Text),
    ("output", Form::Text),
    ("error", Form::Text),
];
/// Those without a value; `requeue` has an opposite.
pub const FLAGS: [&str; 3] = ["exclusive", "oversubscribe", "requeue"];

impl SlurmOptions {
    /// The fields that are set, by their names here: options of [`OPTIONS`] and [`FLAGS`], in their order.
    pub fn set(&self) -> Vec<(&'static str, Value)> {
        let values = serde_json::to_value(self).unwrap_or_default();
        let names = OPTIONS.iter().map(|(name, _)| *name).chain(FLAGS);
        names.map(|name| (name, values[name].clone())).filter(|(_, value)| !value.is_null()).collect()
    }

    /// `--partition=dgx2`, `--exclusive`: what sbatch gets.
    pub fn given(&self) -> Vec<String> {
        let given = self.set().into_iter().filter_map(|(field, value)| {
            let name = kebab(field);
            match (value, field) {
                (Value::Bool(true), _) => Some(format!("--{name}")),
                (Value::Bool(false), "requeue") => Some("--no-requeue".to_owned()),
                (Value::Bool(false), _) => None,
                (Value::String(text), _) => Some(format!("--{name}={text}")),
                (number, _) => Some(format!("--{name}={number}")),
            }
        });
        given.chain(self.options.iter().cloned()).collect()
    }
}

/// `ntasks-per-node` of `ntasksPerNode`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field that is in no table would be taken and then ignored.
    #[test]
    fn every_field_reaches_sbatch() {
        let schema = serde_json::to_value(schemars::schema_for!(SlurmOptions)).unwrap();
        let others = ["modules", "environment", "options", "script"];
        let fields = schema["properties"].as_object().unwrap().keys();
        for field in fields.filter(|field| !others.contains(&field.as_str())) {
            let known = OPTIONS.iter().any(|(name, _)| name == field) || FLAGS.contains(&field.as_str());
            assert!(known, "{field}");
        }
    }

    #[test]
    fn names_are_slurms_own() {
        let options = json!({"ntasksPerNode": 2, "memPerGpu": "4G", "requeue": false, "exclusive": false,
            "oversubscribe": true, "nice": -5, "mailType": "END,FAIL", "options": ["--spread-job"]});
        let options: SlurmOptions = serde_json::from_value(options).unwrap();
        let expected = [
            "--ntasks-per-node=2",
            "--mem-per-gpu=4G",
            "--nice=-5",
            "--mail-type=END,FAIL",
            "--oversubscribe",
            "--no-requeue",
            "--spread-job",
        ];
        assert_eq!(options.given(), expected);
    }
}
