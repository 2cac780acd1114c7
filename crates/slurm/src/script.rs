//! The scripts that go to the cluster: pure text. Values that users give as options were validated to be single words;
//! everything else is quoted.

use crate::kinds::{GpuJob, GpuJobStatus, SlurmCluster};
use crate::quote;

/// The job's options with the cluster's defaults.
pub fn options(job: &GpuJob, cluster: &SlurmCluster) -> crate::kinds::SlurmOptions {
    let mut options = job.spec.slurm.clone();
    options.partition = options.partition.or_else(|| cluster.spec.partition.clone());
    options.account = options.account.or_else(|| cluster.spec.account.clone());
    if options.modules.is_empty() {
        options.modules = cluster.spec.modules.clone();
    }
    options
}

/// What sbatch gets: the user's own script, or one made of the job's fields.
pub fn batch(job: &GpuJob, cluster: &SlurmCluster) -> String {
    if let Some(script) = &job.spec.slurm.script {
        return script.clone();
    }
    let options = options(job, cluster);
    let mut text = String::from("#!/bin/bash -l\n");
    for option in options.given() {
        text += &format!("#SBATCH {option}\n");
    }
    text += "\n";
    text += &preamble(&options);
    // Where Slurm keeps no accounts, this is how the end is known.
    text += "trap 'echo \"$?\" >\"$MINIK8S_META/exit.$SLURM_JOB_ID\"' EXIT\n\n";
    text += job.spec.run.as_deref().unwrap_or_default().trim_end();
    text += "\n";
    text
}

/// What compiles the program on the login node.
pub fn build(job: &GpuJob, cluster: &SlurmCluster) -> Option<String> {
    let build = job.spec.build.as_deref()?;
    let preamble = preamble(&options(job, cluster));
    Some(format!("#!/bin/bash -l\n{preamble}\n{}\n", build.trim_end()))
}

fn preamble(options: &crate::kinds::SlurmOptions) -> String {
    let mut text = String::new();
    if !options.modules.is_empty() {
        let modules: Vec<String> = options.modules.iter().map(|module| quote::word(module)).collect();
        text += &format!("module load {} || exit\n", modules.join(" "));
    }
    for (name, value) in &options.environment {
        text += &format!("export {name}={}\n", quote::word(value));
    }
    text
}

/// Of a job that has run, by what its status says.
pub fn outputs_of(job: &GpuJob, status: &GpuJobStatus) -> Vec<String> {
    let tasks: Vec<i64> = status.tasks.iter().map(|task| task.index).collect();
    status.slurm_id.map(|id| output_files(job, id, &tasks)).unwrap_or_default()
}

/// The files that hold a job's output, so far as their names are known from its pattern.
pub fn output_files(job: &GpuJob, id: i64, tasks: &[i64]) -> Vec<String> {
    let slurm = &job.spec.slurm;
    let default = if slurm.array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
    let patterns = [Some(slurm.output.as_deref().unwrap_or(default)), slurm.error.as_deref()];
    let name = job.slurm_name(job.attempt());
    let mut files = Vec::new();
    for pattern in patterns.into_iter().flatten() {
        let pattern = pattern.replace("%x", &name).replace("%A", &id.to_string());
        if slurm.array.is_none() {
            files.push(pattern.replace("%j", &id.to_string()));
        } else if pattern.contains("%a") {
            files.extend(tasks.iter().map(|task| pattern.replace("%a", &task.to_string())));
        } else {
            files.push(pattern);
        }
    }
    // Patterns that only Slurm can fill in are brought back at the end, but not followed.
    files.retain(|file| !file.contains('%'));
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: Value) -> GpuJob {
        let metadata = json!({"name": "matmul", "namespace": "ns", "uid": "u-1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn cluster() -> SlurmCluster {
        let spec = json!({"host": "h", "user": "u", "hostKey": "", "secretRef": {"name": "s"}, "partition": "small"});
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    #[test]
    fn script_has_every_option_and_quotes_the_rest() {
        let job = job(json!({
            "run": "./matmul 1024\n",
            "build": "nvcc -O2 -o matmul matmul.cu",
            "slurm": {
                "nodes": 1, "ntasksPerNode": 2, "cpusPerTask": 6, "gpus": 1, "time": "00:10:00", "mem": "8G",
                "account": "x", "qos": "y", "array": "0-3%2", "constraint": "v100", "output": "out.txt",
                "error": "err.txt", "modules": ["gcc/8.3.0", "cuda/10.1"], "environment": {"A": "it's $(id)\n#SBATCH -x"},
                "exclusive": true, "options": ["--nice=10"],
            },
        }));
        let expected = r#"#!/bin/bash -l
#SBATCH --partition=small
#SBATCH --account=x
#SBATCH --qos=y
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=6
#SBATCH --gpus=1
#SBATCH --constraint=v100
#SBATCH --time=00:10:00
#SBATCH --mem=8G
#SBATCH --array=0-3%2
#SBATCH --output=out.txt
#SBATCH --error=err.txt
#SBATCH --exclusive
#SBATCH --nice=10

module load 'gcc/8.3.0' 'cuda/10.1' || exit
export A='it'\''s $(id)
#SBATCH -x'
trap 'echo "$?" >"$MINIK8S_META/exit.$SLURM_JOB_ID"' EXIT

./matmul 1024
"#;
        assert_eq!(batch(&job, &cluster()), expected);
        let built = build(&job, &cluster()).unwrap();
        assert!(
            built.starts_with("#!/bin/bash -l\nmodule load 'gcc/8.3.0'") && built.ends_with("matmul.cu\n")
        );
    }

    #[test]
    fn own_script_is_left_alone() {
        let job = job(json!({"slurm": {"script": "#!/bin/sh\nid\n", "gpus": 1}}));
        assert_eq!(batch(&job, &cluster()), "#!/bin/sh\nid\n");
        assert_eq!(build(&job, &cluster()), None);
    }

    #[test]
    fn output_files_follow_the_pattern() {
        let check = |slurm: Value, expected: &[&str]| {
            assert_eq!(output_files(&job(json!({"slurm": slurm})), 7, &[0, 2]), expected);
        };
        check(json!({}), &["slurm-7.out"]);
        check(json!({"output": "out.txt", "error": "e.%j"}), &["out.txt", "e.7"]);
        check(json!({"array": "0,2"}), &["slurm-7_0.out", "slurm-7_2.out"]);
        check(json!({"array": "0,2", "output": "%x.%a"}), &["matmul-u-1-0.0", "matmul-u-1-0.2"]);
        check(json!({"output": "%N.out"}), &[]);
    }
}
