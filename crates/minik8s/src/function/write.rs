//! Making and changing functions, and waiting until they answer.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use minik8s_functions::{place_code, revision_code, revision_number, revision_spec};
use minik8s_meta::function::{
    FUNCTION_LABEL, Function, FunctionSpec, FunctionTraffic, FunctionVolume, REVISION_READY, runtime_names,
};

use super::{Changes, code, get};
use crate::output;

/// The first instance on a node may have to wait until the runtime's image is made.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The same where packages are fetched before.
const BUILD_TIMEOUT: Duration = Duration::from_secs(1200);
const LOOK: Duration = Duration::from_millis(100);
const TRIES: u32 = 10;

pub async fn create(client: &Client, namespace: &str, name: &str, changes: &Changes) -> anyhow::Result<()> {
    if changes.from.is_none() && changes.image.is_none() {
        bail!("a function needs code: give --from FILE, or --image IMAGE");
    }
    let functions: Api<Function> = Api::namespaced(client.clone(), namespace);
    let mut function = Function::default();
    function.metadata.name = Some(name.to_owned());
    changes.apply(&mut function.spec)?;
    place_code(client, None, namespace, name, &mut function.spec).await?;
    let created = functions.create(&PostParams::default(), &function).await;
    let created = created.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 409 => {
            anyhow::anyhow!("function {name} exists; change it with `minik8s function update {name}`")
        }
        _ => anyhow::Error::new(error).context(format!("cannot create function {name}")),
    })?;
    output::line(format_args!("function {name} created"))?;
    wait(&functions, &created, changes.no_wait).await
}

pub async fn update(client: &Client, namespace: &str, name: &str, changes: &Changes) -> anyhow::Result<()> {
    let functions: Api<Function> = Api::namespaced(client.clone(), namespace);
    let change = async |spec: &mut FunctionSpec| {
        changes.apply(spec)?;
        place_code(client, None, namespace, name, spec).await.map_err(anyhow::Error::new)
    };
    let updated = replace(&functions, namespace, name, change).await?;
    output::line(format_args!("function {name} updated"))?;
    wait(&functions, &updated, changes.no_wait).await
}

/// Changes the spec of a function. Its status may change at any time, which is no reason to fail.
async fn replace(
    functions: &Api<Function>,
    namespace: &str,
    name: &str,
    change: impl AsyncFn(&mut FunctionSpec) -> anyhow::Result<()>,
) -> anyhow::Result<Function> {
    let mut tries = TRIES;
    loop {
        let mut function = get(functions, namespace, name).await?;
        change(&mut function.spec).await?;
        tries -= 1;
        match functions.replace(name, &PostParams::default(), &function).await {
            Err(kube::Error::Api(error)) if error.code == 409 && tries > 0 => {}
            written => return written.with_context(|| format!("cannot update function {name}")),
        }
    }
}

pub async fn rollback(client: &Client, namespace: &str, name: &str, to: Option<i64>) -> anyhow::Result<()> {
    let functions: Api<Function> = Api::namespaced(client.clone(), namespace);
    let function = get(&functions, namespace, name).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let of_function = ListParams::default().labels(&format!("{FUNCTION_LABEL}={name}"));
    let mut revisions: Vec<(i64, ConfigMap)> =
        maps.list(&of_function).await?.items.into_iter().map(|map| (revision_number(&map), map)).collect();
    revisions.sort_by_key(|(number, _)| *number);
    let newest = function.status.as_ref().map_or(0, |status| status.revision);
    let wanted = match to {
        Some(number) => revisions.iter().find(|(one, _)| *one == number),
        None => revisions.iter().rev().find(|(one, _)| *one < newest),
    };
    let Some((number, map)) = wanted else {
        let known: Vec<String> = revisions.iter().map(|(number, _)| number.to_string()).collect();
        bail!("function {name} has no such revision; it keeps {}", known.join(", "));
    };
    let mut kept = revision_spec(map).with_context(|| format!("revision {number} cannot be read"))?;
    let code = revision_code(client, map).await;
    kept.code = code.with_context(|| format!("the code of revision {number} cannot be read"))?;
    // What is no part of a revision stays as it is; who goes back wants no other revision to answer.
    let change = async |spec: &mut FunctionSpec| {
        let (scale, queue) = (spec.scale.take(), spec.queue.take());
        let async_calls = spec.async_calls.take();
        *spec = FunctionSpec { scale, queue, async_calls, traffic: Vec::new(), ..kept.clone() };
        Ok(())
    };
    let updated = replace(&functions, namespace, name, change).await?;
    output::line(format_args!("function {name} goes back to revision {number}"))?;
    wait(&functions, &updated, false).await
}

impl Changes {
    fn apply(&self, spec: &mut FunctionSpec) -> anyhow::Result<()> {
        if let Some(from) = &self.from {
            let (code, language) = code::read(from)?;
            spec.code = Some(code);
            // Those of other code, or of a version of this program that fetched them itself.
            (spec.image, spec.dependencies) = (None, None);
            if let Some(language) = language.filter(|_| self.runtime.is_none()) {
                spec.runtime = Some(language.to_owned());
            }
        }
        if let Some(image) = &self.image {
            (spec.image, spec.code, spec.runtime, spec.handler) = (Some(image.clone()), None, None, None);
            spec.dependencies = None;
        }
        if let Some(runtime) = &self.runtime {
            spec.runtime = Some(runtime.clone());
        }
        if spec.image.is_none() && spec.runtime.is_none() {
            let names = runtime_names().join(", ");
            bail!("the language is not clear from the files: give --runtime, one of {names}");
        }
        if let Some(handler) = &self.handler {
            spec.handler = Some(handler.clone()).filter(|handler| !handler.is_empty());
        }
        for variable in &self.env {
            set_variable(&mut spec.env, variable)?;
        }
        for volume in &self.volume {
            set_volume(&mut spec.volumes, volume)?;
        }
        spec.concurrency = self.concurrency.or(spec.concurrency);
        spec.timeout_seconds = self.timeout_seconds.or(spec.timeout_seconds);
        let scale = spec.scale.get_or_insert_default();
        scale.min = self.min.or(scale.min);
        scale.min_active = self.min_active.or(scale.min_active);
        scale.max = self.max.or(scale.max);
        scale.idle_seconds = self.idle_seconds.or(scale.idle_seconds);
        if !self.traffic.is_empty() {
            spec.traffic = traffic(&self.traffic)?;
        }
        Ok(())
    }
}

/// `3=20`, or `newest` for no other.
fn traffic(given: &[String]) -> anyhow::Result<Vec<FunctionTraffic>> {
    let share = |text: &String| {
        let numbers = text.split_once('=').and_then(|(revision, percent)| {
            Some(FunctionTraffic {
                revision: revision.parse().ok()?,
                percent: percent.trim_end_matches('%').parse().ok()?,
            })
        });
        numbers.with_context(|| format!("--traffic {text}: give REVISION=PERCENT, e.g. 3=20, or newest"))
    };
    given.iter().filter(|text| *text != "newest").map(share).collect()
}

fn set_variable(env: &mut Vec<EnvVar>, text: &str) -> anyhow::Result<()> {
    let (name, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((name, value)), _) if !name.is_empty() => (name, Some(value.to_owned())),
        (None, Some(name)) if !name.is_empty() => (name, None),
        _ => bail!("--env {text}: give NAME=VALUE, or NAME- to take it away"),
    };
    env.retain(|variable| variable.name != name);
    if value.is_some() {
        env.push(EnvVar { name: name.to_owned(), value, value_from: None });
    }
    Ok(())
}

fn set_volume(volumes: &mut Vec<FunctionVolume>, text: &str) -> anyhow::Result<()> {
    let (claim, place) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((claim, place)), _) if !claim.is_empty() => (claim, Some(place)),
        (None, Some(claim)) if !claim.is_empty() => (claim, None),
        _ => bail!("--volume {text}: give CLAIM=PATH, CLAIM=PATH:ro, or CLAIM- to take it away"),
    };
    volumes.retain(|volume| volume.claim != claim);
    if let Some(place) = place {
        let path = place.strip_suffix(":ro").unwrap_or(place);
        let (claim, read_only) = (claim.to_owned(), path != place);
        volumes.push(FunctionVolume { claim, path: path.to_owned(), read_only });
    }
    Ok(())
}

/// Until the newest revision has answered, or has failed to start.
async fn wait(functions: &Api<Function>, written: &Function, skip: bool) -> anyhow::Result<()> {
    if skip {
        return Ok(());
    }
    let name = written.metadata.name.clone().unwrap_or_default();
    let (begun, mut timeout) = (Instant::now(), TIMEOUT);
    loop {
        let function = functions.get(&name).await?;
        let status = function.status.clone().unwrap_or_default();
        if status.observed_generation >= written.metadata.generation {
            let ready = status.conditions.iter().find(|condition| condition.type_ == REVISION_READY);
            match ready.map(|ready| (ready.status.as_str(), ready)) {
                Some(("True", _)) => {
                    let url = status.url.unwrap_or_default();
                    output::line(format_args!("revision {} serves at {url}", status.serving_revision))?;
                    return Ok(());
                }
                Some(("False", ready)) => bail!(
                    "revision {} does not start ({}):\n{}",
                    status.revision,
                    ready.reason,
                    ready.message
                ),
                Some((_, ready)) if ready.reason == "Building" && timeout != BUILD_TIMEOUT => {
                    timeout = BUILD_TIMEOUT;
                    output::line(format_args!("{}", ready.message))?;
                }
                _ => {}
            }
            let stuck = status.conditions.iter().find(|one| one.status == "False" && one.reason == "Refused");
            if let Some(stuck) = stuck {
                bail!("no instance may be started: {}", stuck.message);
            }
        }
        if begun.elapsed() > timeout {
            bail!(
                "revision {} has not answered within {} s; see `minik8s why function/{name}`",
                status.revision,
                timeout.as_secs()
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_set_changed_and_taken_away() {
        let mut env = Vec::new();
        for text in ["A=1", "B=x=y", "A=2", "B-"] {
            set_variable(&mut env, text).unwrap();
        }
        let found: Vec<_> = env.iter().map(|one| (one.name.as_str(), one.value.as_deref())).collect();
        assert_eq!(found, [("A", Some("2"))]);
        assert!(set_variable(&mut env, "=1").is_err() && set_variable(&mut env, "A").is_err());
    }

    #[test]
    fn volumes_are_set_changed_and_taken_away() {
        let mut volumes = Vec::new();
        for text in ["a=/in", "b=/out", "a=/data:ro", "b-"] {
            set_volume(&mut volumes, text).unwrap();
        }
        let expected = FunctionVolume { claim: "a".to_owned(), path: "/data".to_owned(), read_only: true };
        assert_eq!(volumes, [expected]);
        assert!(set_volume(&mut volumes, "=/x").is_err() && set_volume(&mut volumes, "a").is_err());
    }
}
