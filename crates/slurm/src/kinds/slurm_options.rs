//! The options of sbatch that a GPUJob can give, with Slurm's own names.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// cpusPerTask is the number of CPUs of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<i64>,
    /// gpus of the whole job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<i64>,
    /// gpusPerNode is the number of GPUs on each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<i64>,
    /// gres are generic resources of each node, e.g. "gpu:v100:2".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// time limit, e.g. "00:10:00" or "30" (minutes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// mem is the memory of each node, e.g. "8G".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem: Option<String>,
    /// memPerCpu is the memory for each CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_per_cpu: Option<String>,
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
    /// exclusive nodes: no other job runs there meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
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

impl SlurmOptions {
    /// `("partition", "dgx2")`: what sbatch gets as `--partition=dgx2`, in a fixed order.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let texts = [
            ("partition", &self.partition),
            ("gres", &self.gres),
            ("time", &self.time),
            ("mem", &self.mem),
            ("mem-per-cpu", &self.mem_per_cpu),
            ("account", &self.account),
            ("qos", &self.qos),
            ("array", &self.array),
            ("constraint", &self.constraint),
            ("reservation", &self.reservation),
            ("nodelist", &self.nodelist),
            ("exclude", &self.exclude),
            ("dependency", &self.dependency),
            ("begin", &self.begin),
            ("output", &self.output),
            ("error", &self.error),
        ];
        let numbers = [
            ("nodes", self.nodes),
            ("ntasks", self.ntasks),
            ("ntasks-per-node", self.ntasks_per_node),
            ("cpus-per-task", self.cpus_per_task),
            ("gpus", self.gpus),
            ("gpus-per-node", self.gpus_per_node),
        ];
        let texts = texts.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let numbers = numbers.into_iter().filter_map(|(name, value)| Some((name, value?.to_string())));
        let mut given: Vec<_> = texts.chain(numbers).collect();
        given.sort_by_key(|(name, _)| ORDER.iter().position(|other| other == name));
        given
    }
}

/// As people write them in scripts.
const ORDER: [&str; 22] = [
    "partition",
    "account",
    "qos",
    "reservation",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "cpus-per-task",
    "gpus",
    "gpus-per-node",
    "gres",
    "constraint",
    "nodelist",
    "exclude",
    "time",
    "mem",
    "mem-per-cpu",
    "array",
    "dependency",
    "begin",
    "output",
    "error",
];
