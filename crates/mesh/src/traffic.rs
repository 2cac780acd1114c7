//! MeshTraffic: who asks whom, how often, with what success and how fast, for those who may read it in a namespace and
//! need not be let at nodes. Computed when asked for from the pages of all nodes: while nobody asks nothing is read, and
//! whoever asks beside somebody shares a reading. It never keeps more than a minute of readings.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use minik8s_api::{Cell, Column, Computed, Objects, ReadError, Resource, Scope, Strategy, table};
use minik8s_meta::mesh::MeshTraffic;
use parking_lot::Mutex;
use serde_json::Value;

use crate::command::sight::{self, Edge, Traffic};

/// A reading that is no older than this is as good as a new one.
const FRESH: Duration = Duration::from_secs(1);
/// Rates are over about this long.
const WINDOW: Duration = Duration::from_secs(10);
/// Before the first rates there are two readings this far apart.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Readings that are older are of no use for rates.
const KEPT: Duration = Duration::from_secs(60);

pub fn resource(reader: Arc<TrafficReader>) -> Resource {
    Resource::of::<MeshTraffic>(Columns).computed(Computation(reader))
}

type Reading = Arc<BTreeMap<Edge, Traffic>>;

/// Reads nodes' pages, and remembers the last readings.
#[derive(Default)]
pub struct TrafficReader {
    client: OnceLock<Client>,
    kept: Mutex<VecDeque<(Instant, Reading)>>,
    /// One reads for all.
    turn: tokio::sync::Mutex<()>,
}

impl TrafficReader {
    /// From now on there is somebody to ask.
    pub fn begin(&self, client: Client) {
        let _ = self.client.set(client);
    }

    /// The newest reading, the one about a window before it, and how far they are apart.
    async fn read(&self) -> Result<(Reading, Reading, Duration), ReadError> {
        let _turn = self.turn.lock().await;
        if self.is_stale(FRESH) {
            self.take().await?;
        }
        if self.kept.lock().len() < 2 {
            tokio::time::sleep(FIRST_WAIT).await;
            self.take().await?;
        }
        let kept = self.kept.lock();
        let Some((last, after)) = kept.back() else {
            return Err(ReadError("no node was read yet".to_owned()));
        };
        let before = kept.iter().rev().skip(1).find(|(at, _)| *last - *at >= WINDOW);
        let (first, before) = before.or_else(|| kept.front()).unwrap_or(&kept[0]);
        Ok((before.clone(), after.clone(), *last - *first))
    }

    fn is_stale(&self, age: Duration) -> bool {
        self.kept.lock().back().is_none_or(|(at, _)| at.elapsed() >= age)
    }

    async fn take(&self) -> Result<(), ReadError> {
        let client = self.client.get().ok_or_else(|| ReadError("this server is only starting".to_owned()))?;
        let pages = sight::pages(client).await.map_err(|error| ReadError(format!("{error:#}")))?;
        let mut kept = self.kept.lock();
        kept.push_back((Instant::now(), Arc::new(sight::read(&pages))));
        kept.retain(|(at, _)| at.elapsed() < KEPT);
        Ok(())
    }
}

struct Computation(Arc<TrafficReader>);

#[async_trait]
impl Computed for Computation {
    async fn objects(&self, _cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let (before, after, window) = self.0.read().await?;
        let all = traffic(&before, &after, window, scope.namespace);
        let named =
            |one: &MeshTraffic| scope.name.is_none_or(|name| one.metadata.name.as_deref() == Some(name));
        let objects = all.iter().filter(|one| named(one)).map(serde_json::to_value);
        objects.collect::<Result<_, _>>().map_err(|error| ReadError(error.to_string()))
    }
}

/// Pure. In a namespace: what its workloads ask, and what its Services are asked.
fn traffic(
    before: &BTreeMap<Edge, Traffic>,
    after: &BTreeMap<Edge, Traffic>,
    window: Duration,
    namespace: &str,
) -> Vec<MeshTraffic> {
    let is_of = |name: &str| name.split_once('/').is_some_and(|(of, _)| of == namespace);
    let chosen =
        after.iter().filter(|((source, service), _)| namespace.is_empty() || is_of(source) || is_of(service));
    let nothing = Traffic::default();
    let mut all: Vec<MeshTraffic> = chosen
        .map(|((source, service), total)| {
            // A proxy that was started anew counts from zero: what it has counted since is all that is known.
            let known =
                before.get(&(source.clone(), service.clone())).filter(|b| b.requests <= total.requests);
            let new = total.since(known.unwrap_or(&nothing));
            let seconds = window.as_secs_f64();
            let rate = |count: f64| if seconds > 0.0 { round(count / seconds) } else { 0.0 };
            let bound =
                |share: f64| new.quantile(share).filter(|bound| bound.is_finite()).map(|s| s * 1000.0);
            let own = source.split_once('/').map_or("", |(of, _)| of);
            let of = if namespace.is_empty() { own } else { namespace };
            MeshTraffic {
                api_version: minik8s_meta::api_version::<MeshTraffic>(),
                kind: minik8s_meta::kind::<MeshTraffic>(),
                metadata: ObjectMeta {
                    name: Some(format!("{}.to.{}", source.replace('/', "."), service.replace('/', "."))),
                    namespace: Some(of.to_owned()),
                    ..ObjectMeta::default()
                },
                source: source.clone(),
                service: service.clone(),
                requests: total.requests,
                errors: total.errors,
                window_seconds: round(seconds),
                requests_per_second: rate(new.requests),
                errors_per_second: rate(new.errors),
                p50_milliseconds: bound(0.5),
                p99_milliseconds: bound(0.99),
            }
        })
        .collect();
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

struct Columns;

impl Strategy for Columns {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Source", "Service", "Requests/s", "Errors", "P50", "P99"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        let number = |field: &str| object[field].as_f64().unwrap_or_default();
        let (requests, errors) = (number("requestsPerSecond"), number("errorsPerSecond"));
        let share = if requests > 0.0 { errors * 100.0 / requests } else { 0.0 };
        let bound = |field: &str| match object[field].as_f64() {
            Some(milliseconds) => format!("<{milliseconds}ms"),
            None => table::NONE.to_owned(),
        };
        vec![
            table::text_or(&object["source"], "").into(),
            table::text_or(&object["service"], "").into(),
            format!("{requests:.1}").into(),
            format!("{share:.1}%").into(),
            bound("p50Milliseconds").into(),
            bound("p99Milliseconds").into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(edges: &[(&str, &str, f64, f64)]) -> BTreeMap<Edge, Traffic> {
        let one = |(source, service, requests, errors): &(&str, &str, f64, f64)| {
            let buckets = vec![(0.005, requests * 0.5), (0.05, *requests), (f64::INFINITY, *requests)];
            let edge = ((*source).to_owned(), (*service).to_owned());
            (edge, Traffic { requests: *requests, errors: *errors, buckets })
        };
        edges.iter().map(one).collect()
    }

    #[test]
    fn rates_are_of_the_window_and_of_the_namespace() {
        let before = reading(&[("shop/web", "shop/cart", 100.0, 1.0), ("bank/pos", "shop/cart", 500.0, 0.0)]);
        let after = reading(&[
            ("shop/web", "shop/cart", 300.0, 11.0),
            ("bank/pos", "shop/cart", 10.0, 0.0),
            ("bank/pos", "bank/till", 5.0, 0.0),
        ]);
        let ten = Duration::from_secs(10);
        let shop = traffic(&before, &after, ten, "shop");
        let names: Vec<&str> = shop.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
        assert_eq!(names, ["bank.pos.to.shop.cart", "shop.web.to.shop.cart"], "not what is between others");
        let web = &shop[1];
        assert_eq!((web.requests_per_second, web.errors_per_second), (20.0, 1.0));
        assert_eq!((web.p50_milliseconds, web.p99_milliseconds), (Some(5.0), Some(50.0)));
        assert_eq!(shop[0].requests_per_second, 1.0, "a counter that began anew");
        assert_eq!(shop[0].metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(traffic(&before, &after, ten, "").len(), 3);
        assert!(traffic(&before, &after, ten, "other").is_empty());
        let row = Columns.row(&serde_json::to_value(web).unwrap(), Timestamp::UNIX_EPOCH);
        let row: Vec<&str> = row.iter().filter_map(Value::as_str).collect();
        assert_eq!(row, ["shop/web", "shop/cart", "20.0", "5.0%", "<5ms", "<50ms"]);
    }

    #[test]
    fn first_reading_has_no_rates() {
        let one = reading(&[("a/b", "a/c", 3.0, 0.0)]);
        let traffic = traffic(&one, &one, Duration::ZERO, "a");
        assert_eq!((traffic[0].requests, traffic[0].requests_per_second), (3.0, 0.0));
        assert_eq!(traffic[0].p99_milliseconds, None);
    }

    #[tokio::test]
    async fn nobody_to_ask_is_told() {
        let told = TrafficReader::default().read().await.unwrap_err().to_string();
        assert!(told.contains("starting"), "{told}");
    }
}
