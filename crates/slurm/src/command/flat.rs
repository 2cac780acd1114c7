//! The flat form of a GPU job, with a course's names for sbatch's options.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::submit::default_commands;

/// Each field and what it is in a GPUJob's `spec.slurm`.
const OPTIONS: [(&str, &str); 6] = [
    ("partition", "partition"),
    ("threadNum", "ntasks"),
    ("taskPerNode", "ntasksPerNode"),
    ("cpu_per_task", "cpusPerTask"),
    ("gpu-num", "gres"),
    ("time", "time"),
];
const OTHERS: [&str; 7] = ["name", "job-name", "file", "codePath", "build", "run", "cluster"];

/// A GPUJob of the flat form. `read` gives the files at `codePath`.
pub fn convert(
    flat: &Value,
    read: impl Fn(&str) -> anyhow::Result<BTreeMap<String, String>>,
) -> anyhow::Result<Value> {
    let fields =
        flat["spec"].as_object().or(flat.as_object()).context("neither a GPUJob nor the flat form")?;
    let known = |field: &&String| {
        let field = field.as_str();
        OPTIONS.iter().any(|(name, _)| *name == field) || OTHERS.contains(&field)
    };
    let frame = ["apiVersion", "kind", "metadata"];
    if let Some(unknown) = fields.keys().find(|field| !known(field) && !frame.contains(&field.as_str())) {
        let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).chain(OTHERS).collect();
        bail!("unknown field {unknown:?}; the flat form has {}", names.join(", "));
    }
    let text = |field: &str| fields.get(field).and_then(Value::as_str).map(str::to_owned);
    let named = flat["metadata"]["name"].as_str().map(str::to_owned);
    let name = named.or_else(|| text("name")).or_else(|| text("job-name")).context("the job has no name")?;
    let files = read(
        &text("codePath").context("codePath is missing: the .cu file, or the folder with the program")?,
    )?;
    let mut slurm = Map::new();
    for (field, option) in OPTIONS {
        let Some(value) = fields.get(field) else { continue };
        let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
        let value = match option {
            "partition" | "time" => value.clone(),
            "gres" => json!(format!("gpu:{}", number.with_context(|| format!("{field} is no number"))?)),
            _ => json!(number.with_context(|| format!("{field} is no number"))?),
        };
        slurm.insert(option.to_owned(), value);
    }
    if let Some(file) = text("file") {
        slurm.insert("output".to_owned(), json!(format!("{file}.out")));
        slurm.insert("error".to_owned(), json!(format!("{file}.err")));
    }
    let (build, run) = default_commands(&files, &name);
    let run =
        text("run").or(run).context("say what the job runs, in run: there is no .cu file at codePath")?;
    Ok(json!({
        "metadata": {"name": name},
        "spec": {
            "cluster": text("cluster"),
            "source": {"files": files},
            "build": text("build").or(build),
            "run": run,
            "slurm": slurm,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> anyhow::Result<BTreeMap<String, String>> {
        assert_eq!(path, "code/matmul.cu");
        Ok(BTreeMap::from([("matmul.cu".to_owned(), "x".to_owned())]))
    }

    #[test]
    fn flat_form_becomes_a_job() {
        let fields = json!({
            "partition": "dgx2", "threadNum": 1, "taskPerNode": "1", "cpu_per_task": 6, "gpu-num": 1,
            "file": "result", "codePath": "code/matmul.cu",
        });
        let mut alone = fields.clone();
        alone["name"] = json!("matmul");
        for flat in [alone, json!({"kind": "Job", "metadata": {"name": "matmul"}, "spec": fields})] {
            let job = convert(&flat, read).unwrap();
            assert_eq!(job["metadata"]["name"], "matmul");
            let expected = json!({
                "partition": "dgx2", "ntasks": 1, "ntasksPerNode": 1, "cpusPerTask": 6, "gres": "gpu:1",
                "output": "result.out", "error": "result.err",
            });
            assert_eq!(job["spec"]["slurm"], expected);
            assert_eq!(job["spec"]["build"], "nvcc -O2 -o matmul 'matmul.cu'");
            assert_eq!(job["spec"]["run"], "./matmul");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = |flat: Value| format!("{:#}", convert(&flat, read).unwrap_err());
        assert!(error(json!({"name": "x", "gpunum": 1})).contains("unknown field \"gpunum\""));
        assert!(error(json!({"name": "x"})).contains("codePath"));
        assert!(error(json!({"codePath": "code/matmul.cu"})).contains("no name"));
        let many = json!({"name": "x", "codePath": "code/matmul.cu", "gpu-num": "many"});
        assert!(error(many).contains("gpu-num is no number"));
    }
}
