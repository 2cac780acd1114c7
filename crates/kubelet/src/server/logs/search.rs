//! Lines of all logs of the node, found here: `/logSearch`, for the API server alone.

use std::time::Duration;

use http::Response;
use jiff::Timestamp;
use minik8s_meta::LabelSelector;

use super::super::answer::{self, Body, Refusal};
use super::super::route::Query;
use crate::context::NodeContext;
use crate::log_search::{self, MOST_LINES, Matcher, SEARCHES, Search};

/// For those before.
const WAIT: Duration = Duration::from_secs(10);

pub async fn search(context: &NodeContext, query: &Query) -> Result<Response<Body>, Refusal> {
    let search = parse(query)?;
    let busy = || Refusal {
        status: http::StatusCode::TOO_MANY_REQUESTS,
        reason: "TooManyRequests",
        message: "other searches go on; try again".to_owned(),
    };
    let place = tokio::time::timeout(WAIT, SEARCHES.acquire()).await;
    let _place = place.map_err(|_| busy())?.map_err(Refusal::internal)?;
    let labels = context.pods.all().into_iter().map(|pod| {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        (uid, pod.metadata.labels.clone().unwrap_or_default())
    });
    let labels = labels.collect();
    let (logs_dir, ended_dir) = (context.config.logs_dir(), context.config.ended_logs_dir());
    let found = tokio::task::spawn_blocking(move || {
        let logs = log_search::logs(&search, &labels, &logs_dir, &ended_dir);
        log_search::run(&search, &logs)
    });
    Ok(answer::json(&found.await.map_err(Refusal::internal)?))
}

fn parse(query: &Query) -> Result<Search, Refusal> {
    let time = |name: &str| -> Result<Option<Timestamp>, Refusal> {
        let given = query.get(name).filter(|text| !text.is_empty());
        let parsed = given.map(|text| {
            text.parse().map_err(|_| Refusal::bad_request(format!("{name}: {text:?} is not a time")))
        });
        parsed.transpose()
    };
    let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default());
    let limit: Option<usize> = query.number("limit")?;
    Ok(Search {
        namespace: query.get("namespace").unwrap_or_default().to_owned(),
        pod: query.get("pod").map(str::to_owned),
        container: query.get("container").map(str::to_owned),
        labels: labels.map_err(|error| Refusal::bad_request(format!("labelSelector: {error}")))?,
        since: time("since")?,
        until: time("until")?,
        ended: query.flag("ended"),
        matcher: Matcher::new(query.get("grep"), &query.all("where")).map_err(Refusal::bad_request)?,
        limit: limit.unwrap_or(1000).clamp(1, MOST_LINES),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let check = |text: &str, part: Option<&str>| {
            let said = parse(&Query::parse(text)).err().map(|refusal| refusal.message);
            match part {
                None => assert_eq!(said, None, "{text}"),
                Some(part) => {
                    assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{text}: {said:?}")
                }
            }
        };
        check("", None);
        check("namespace=a&labelSelector=app%3Dweb&grep=a.b&where=level%3Derror&ended=true&limit=5", None);
        check("since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:00Z", None);
        check("since=yesterday", Some("is not a time"));
        check("grep=(", Some("regular expression"));
        check("where=level", Some("level=error"));
        check("labelSelector=a%3D%3D%3Db", Some("labelSelector"));
        check("limit=many", Some("is not a number"));
        assert_eq!(parse(&Query::parse("limit=1000000")).map(|search| search.limit).ok(), Some(MOST_LINES));
    }
}
