//! A job as slurmrestd wants it described. It reads no `#SBATCH` lines, and knows fewer options than sbatch: those that it
//! does not know are refused, because a job without them would be another job.

use serde_json::{Map, Value, json};

use super::super::Place;
use crate::kinds::{GpuJob, SlurmCluster, SlurmOptions};
use crate::script;

pub fn of(place: &Place, job: &GpuJob, cluster: &SlurmCluster, script: String) -> Result<Value, String> {
    if !job.spec.results.files.is_empty() {
        return Err(
            "slurmrestd carries no files: results.files needs a cluster that is reached by ssh".to_owned()
        );
    }
    let own = job.spec.slurm.script.as_deref().unwrap_or_default();
    if own.lines().any(|line| line.starts_with("#SBATCH")) {
        return Err("slurmrestd reads no #SBATCH lines: use the fields of spec.slurm".to_owned());
    }
    let mut described = options(&script::options(job, cluster))?;
    let dependency = described.get("dependency").and_then(Value::as_str).map(|other| format!(",{other}"));
    let ours = [
        ("name", json!(place.name)),
        ("comment", json!(place.comment)),
        ("dependency", json!(format!("singleton{}", dependency.unwrap_or_default()))),
        // Its directory does not exist before it runs, so its output cannot be there.
        ("current_working_directory", json!("/")),
        ("standard_output", json!("/dev/null")),
        ("standard_error", json!("/dev/null")),
        ("environment", json!({"PATH": "/usr/local/bin:/usr/bin:/bin"})),
    ];
    described.extend(ours.map(|(name, value)| (name.to_owned(), value)));
    Ok(json!({"script": script, "job": described}))
}

/// Our fields, what slurmrestd calls them, and how it wants their values. Others are refused.
const KNOWN: [(&str, &str, Wanted); 27] = [
    ("partition", "partition", Wanted::AsIs),
    ("account", "account", Wanted::AsIs),
    ("qos", "qos", Wanted::AsIs),
    ("reservation", "reservation", Wanted::AsIs),
    ("licenses", "licenses", Wanted::AsIs),
    ("wckey", "wckey", Wanted::AsIs),
    ("constraint", "constraints", Wanted::AsIs),
    ("array", "array", Wanted::AsIs),
    ("dependency", "dependency", Wanted::AsIs),
    ("gres", "gres", Wanted::AsIs),
    ("nice", "nice", Wanted::AsIs),
    ("mailType", "mail_type", Wanted::AsIs),
    ("mailUser", "mail_user", Wanted::AsIs),
    ("nodes", "nodes", Wanted::AsIs),
    ("ntasks", "tasks", Wanted::AsIs),
    ("ntasksPerNode", "tasks_per_node", Wanted::AsIs),
    ("ntasksPerSocket", "tasks_per_socket", Wanted::AsIs),
    ("ntasksPerCore", "tasks_per_core", Wanted::AsIs),
    ("cpusPerTask", "cpus_per_task", Wanted::AsIs),
    ("cpusPerGpu", "cpus_per_gpu", Wanted::Text),
    ("gpus", "gpus", Wanted::Text),
    ("gpusPerNode", "gpus_per_node", Wanted::Text),
    ("gpusPerTask", "gpus_per_task", Wanted::Text),
    ("time", "time_limit", Wanted::Minutes),
    ("mem", "memory_per_node", Wanted::Megabytes),
    ("memPerCpu", "memory_per_cpu", Wanted::Megabytes),
    ("memPerGpu", "memory_per_gpu", Wanted::Megabytes),
];

#[derive(Clone, Copy)]
enum Wanted {
    AsIs,
    Text,
    Minutes,
    Megabytes,
}

fn options(options: &SlurmOptions) -> Result<Map<String, Value>, String> {
    let mut described = Map::new();
    for (field, value) in options.set() {
        // Its output goes where the script says, and a flag that is off says nothing.
        if matches!(field, "output" | "error") || (value == false && field != "requeue") {
            continue;
        }
        let Some((_, name, wanted)) = KNOWN.iter().find(|(known, ..)| *known == field) else {
            return Err(refusal(field));
        };
        let text = value.as_str().unwrap_or_default();
        let value = match wanted {
            Wanted::AsIs => Some(value.clone()),
            Wanted::Text => Some(value.to_string().into()),
            Wanted::Minutes => minutes(text).map(Value::from),
            Wanted::Megabytes => megabytes(text).map(Value::from),
        };
        let value = value.ok_or_else(|| format!("slurm.{field}: slurmrestd cannot be told {text:?}"))?;
        described.insert((*name).to_owned(), value);
    }
    if options.options.is_empty() { Ok(described) } else { Err(refusal("options")) }
}

fn refusal(field: &str) -> String {
    format!("slurmrestd does not know slurm.{field}: it needs a cluster that is reached by ssh")
}

/// `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`, as sbatch takes them; begun minutes count.
fn minutes(text: &str) -> Option<i64> {
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts: Vec<i64> = rest.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let seconds = match (days, &parts[..]) {
        (None, [minutes]) => minutes * 60,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (_, [hours, minutes, seconds]) => hours * 3600 + minutes * 60 + seconds,
        (Some(_), [hours, minutes]) => hours * 3600 + minutes * 60,
        (Some(_), [hours]) => hours * 3600,
        _ => return None,
    };
    let seconds = seconds + days.map_or(Some(0), |days| days.parse::<i64>().ok())? * 86_400;
    (seconds > 0).then_some((seconds + 59) / 60)
}

/// `8G`, `500M`, or a number of megabytes; begun ones count.
fn megabytes(text: &str) -> Option<i64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: i64 = text.strip_suffix(unit)?.parse().ok()?;
    match unit.to_ascii_uppercase().trim_end_matches('B') {
        "K" => Some((number + 1023) / 1024),
        "" | "M" => Some(number),
        "G" => number.checked_mul(1 << 10),
        "T" => number.checked_mul(1 << 20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(spec: Value) -> Result<Value, String> {
        let metadata = json!({"name": "j", "namespace": "ns", "uid": "u"});
        let job: GpuJob = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let spec = json!({"user": "me", "secretRef": {"name": "s"}, "partition": "dgx2"});
        let cluster: SlurmCluster = serde_json::from_value(json!({"spec": spec})).unwrap();
        of(&Place::of(&job, &cluster, ""), &job, &cluster, "#!x".to_owned())
    }

    #[test]
    fn options_have_slurmrestds_names() {
        let slurm = json!({"gpus": 2, "time": "01:30:00", "mem": "8G", "array": "0-3%2", "ntasksPerNode": 1,
            "constraint": "v100", "dependency": "afterok:9"});
        let described = describe(json!({"run": "x", "slurm": slurm})).unwrap();
        let expected = json!({
            "name": "j-u-0", "comment": "minik8s ns/j u", "partition": "dgx2", "gpus": "2", "time_limit": 90,
            "memory_per_node": 8192, "array": "0-3%2", "tasks_per_node": 1, "constraints": "v100",
            "dependency": "singleton,afterok:9", "current_working_directory": "/", "standard_output": "/dev/null",
            "standard_error": "/dev/null", "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        });
        assert_eq!(described, json!({"script": "#!x", "job": expected}));
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        let check = |spec: Value, words: &str| {
            let error = describe(spec).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        check(json!({"run": "x", "results": {"files": ["*.csv"]}}), "carries no files");
        check(json!({"slurm": {"script": "#!/bin/sh\n#SBATCH --gpus=1\n"}}), "#SBATCH");
        check(json!({"run": "x", "slurm": {"options": ["--nice=1"]}}), "slurm.options");
        check(json!({"run": "x", "slurm": {"nodelist": "dgx01"}}), "slurm.nodelist");
        check(json!({"run": "x", "slurm": {"time": "soon"}}), "slurm.time");
        check(json!({"run": "x", "slurm": {"mem": "much"}}), "slurm.mem");
    }

    #[test]
    fn times_and_sizes_are_read_as_sbatch_reads_them() {
        for (text, expected) in [
            ("30", Some(30)),
            ("0:30", Some(1)),
            ("00:10:00", Some(10)),
            ("1-0", Some(1440)),
            ("1-2:30", Some(1590)),
            ("1-0:0:1", Some(1441)),
            ("", None),
            ("0", None),
            ("a:b", None),
            ("1:2:3:4", None),
        ] {
            assert_eq!(minutes(text), expected, "{text}");
        }
        for (text, expected) in [
            ("8G", Some(8192)),
            ("100", Some(100)),
            ("1025K", Some(2)),
            ("1T", Some(1 << 20)),
            ("G", None),
            ("1X", None),
        ] {
            assert_eq!(megabytes(text), expected, "{text}");
        }
    }
}
