//! Container logs, from the files that the runtime writes.

mod follow;
mod log;
mod search;
mod websocket;

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tracing::debug;

use super::answer::{self, Body, Refusal};
use super::route::Query;
use super::stream::wants;
use crate::Config;
use crate::cri::{ContainerRecord, Runtime};
use crate::ended_logs;
use crate::pod::DesiredPod;
use follow::Reader;
pub use search::search;

/// What of a log is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    pub follow: bool,
    pub timestamps: bool,
    pub previous: bool,
    pub tail: Option<u64>,
    pub since: Option<Timestamp>,
    pub limit: Option<u64>,
    /// `stdout` or `stderr`; both if not given.
    pub stream: Option<String>,
}

impl Options {
    fn parse(query: &Query, now: Timestamp) -> Result<Self, Refusal> {
        let since_seconds = query.number::<i64>("sinceSeconds")?;
        let since = match (since_seconds, query.get("sinceTime").filter(|text| !text.is_empty())) {
            (Some(_), Some(_)) => {
                return Err(Refusal::bad_request("at most one of sinceTime or sinceSeconds may be given"));
            }
            (Some(seconds), None) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
            (None, Some(text)) => {
                let parsed = text
                    .parse()
                    .map_err(|_| Refusal::bad_request(format!("sinceTime: {text:?} is not a time")))?;
                Some(parsed)
            }
            (None, None) => None,
        };
        let stream = match query.get("stream") {
            None | Some("" | "All") => None,
            Some("Stdout") => Some("stdout".to_owned()),
            Some("Stderr") => Some("stderr".to_owned()),
            Some(other) => return Err(Refusal::bad_request(format!("stream: {other:?} is not known"))),
        };
        Ok(Options {
            follow: query.flag("follow"),
            timestamps: query.flag("timestamps"),
            previous: query.flag("previous"),
            tail: query.number("tailLines")?,
            limit: query.number("limitBytes")?,
            since,
            stream,
        })
    }
}

pub async fn answer(
    runtime: &Arc<dyn Runtime>,
    pod: &DesiredPod,
    container: &str,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let options = Options::parse(query, Timestamp::now())?;
    let record = runtime.pod(&pod.uid).await.map_err(Refusal::internal)?;
    let (newest, previous) = (record.container(container), record.previous(container));
    let wanted = if options.previous { previous } else { newest.filter(|c| has_log(c)).or(previous) };
    let wanted = wanted.ok_or_else(|| no_log(pod, container, options.previous))?;
    let (sender, chunks) = mpsc::channel::<Bytes>(16);
    let reader = Reader {
        runtime: runtime.clone(),
        uid: pod.uid.clone(),
        id: wanted.id.clone(),
        path: wanted.log_path.clone().into(),
        options,
    };
    let response = match wants(request.headers(), "websocket") {
        true => websocket::serve(request, chunks)?,
        false => answer::streamed(chunks),
    };
    tokio::spawn(reader.run(sender));
    Ok(response)
}

/// The log of a pod that is gone, its lines with their times.
pub fn ended(
    config: &Config,
    (namespace, pod, uid, container): (&str, &str, &str, &str),
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    let since = Options::parse(query, Timestamp::now())?.since;
    let folder = config.ended_logs_dir();
    let place = [namespace, pod, uid, container].map(str::to_owned);
    let (sender, chunks) = mpsc::channel::<Bytes>(16);
    tokio::task::spawn_blocking(move || {
        let [namespace, pod, uid, container] = &place;
        let write = |line: Vec<u8>| sender.blocking_send(line.into()).is_ok();
        // What is not kept any more is an empty log.
        let read = ended_logs::read(&folder, (namespace, pod, uid, container), since, write);
        if let Err(error) = read {
            debug!(%error, pod, namespace, "an ended log cannot be read");
        }
    });
    Ok(answer::streamed(chunks))
}

fn has_log(container: &ContainerRecord) -> bool {
    !matches!(container.state, crate::cri::ContainerState::Created)
}

fn no_log(pod: &DesiredPod, container: &str, previous: bool) -> Refusal {
    let name = &pod.name;
    if previous {
        let message = format!("previous terminated container \"{container}\" in pod \"{name}\" not found");
        return Refusal::bad_request(message);
    }
    let status = pod.pod.status.as_ref();
    let lists = status
        .into_iter()
        .flat_map(|s| [&s.container_statuses, &s.init_container_statuses, &s.ephemeral_container_statuses]);
    let waiting = lists.flatten().flatten().find(|s| s.name == container).and_then(|s| s.state.clone());
    let reason = waiting.and_then(|s| s.waiting?.reason).unwrap_or_else(|| "ContainerCreating".to_owned());
    let why = match reason.as_str() {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" => {
            "trying and failing to pull image".to_owned()
        }
        reason => reason.to_owned(),
    };
    Refusal::bad_request(format!("container \"{container}\" in pod \"{name}\" is waiting to start: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let check = |query: &str, want: Option<Options>| {
            assert_eq!(Options::parse(&Query::parse(query), now).ok(), want, "{query}");
        };
        let base = Options::default;
        check("", Some(base()));
        check("follow=true&tailLines=5", Some(Options { follow: true, tail: Some(5), ..base() }));
        let since = Some("2026-01-01T00:00:00Z".parse().unwrap());
        check("sinceSeconds=10", Some(Options { since, ..base() }));
        check("sinceTime=2026-01-01T00:00:00Z", Some(Options { since, ..base() }));
        check("sinceTime=2026-01-01T00:00:00Z&sinceSeconds=1", None);
        check("tailLines=x", None);
        check("tailLines=-1", None);
        check("stream=Stderr", Some(Options { stream: Some("stderr".into()), ..base() }));
        check("stream=Nonsense", None);
    }
}
