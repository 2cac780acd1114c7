//! A device plugin for tests, for a process of its own: it speaks `deviceplugin/v1beta1` over real sockets.
//!
//! `serve DIR RESOURCE COUNT` offers `dev-0`, `dev-1`, … as RESOURCE, and prefers some of them unless it is `plain`; lines on its standard input (`ill ID`, `well ID`)
//! change their health. `list DIR` tells what `podresources` says. Both write to standard error: the other belongs to
//! the test harness.

#[path = "../../src/devices/api.rs"]
#[allow(dead_code, reason = "each side needs a part")]
mod api;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::BufRead;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

use api::*;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_stream::wrappers::{UnixListenerStream, WatchStream};
use tonic::body::Body;
use tonic::client::Grpc as Client;
use tonic::server::{Grpc, NamedService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

type Answer<T> = Result<Response<T>, Status>;

pub fn run(words: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match words.split(' ').collect::<Vec<_>>()[..] {
            ["serve", dir, resource, count] => {
                serve(Path::new(dir), resource, count.parse().unwrap(), true).await
            }
            ["serve", dir, resource, count, "plain"] => {
                serve(Path::new(dir), resource, count.parse().unwrap(), false).await
            }
            ["list", dir] => list(Path::new(dir)).await,
            _ => panic!("serve DIR RESOURCE COUNT [plain], or list DIR"),
        }
    });
}

async fn serve(dir: &Path, resource: &str, count: usize, has_options: bool) {
    let endpoint = format!("fake-{}.sock", std::process::id());
    let first = (0..count).map(|at| device(&format!("dev-{at}"), "Healthy", at as i64 % 2)).collect();
    let (tell, devices) = watch::channel::<Vec<Device>>(first);
    let incoming = UnixListenerStream::new(UnixListener::bind(dir.join(&endpoint)).unwrap());
    tokio::spawn(Server::builder().add_service(Plugin { devices }).serve_with_incoming(incoming));
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let line = line.unwrap();
            let (word, id) = line.split_once(' ').unwrap();
            let health = if word == "ill" { "Unhealthy" } else { "Healthy" };
            tell.send_modify(|all| {
                all.iter_mut().filter(|one| one.id == id).for_each(|one| one.health = health.into())
            });
        }
        // Whoever started it is gone.
        std::process::exit(0);
    });
    // As every plugin does: registers again when there is a new kubelet.
    let mut known = None;
    loop {
        let socket = dir.join("kubelet.sock");
        // A number of a file that is gone may be given to the next one.
        let now = std::fs::metadata(&socket).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()));
        if now != known && now.is_some() && register(&socket, &endpoint, resource, has_options).await {
            known = now;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn device(id: &str, health: &str, node: i64) -> Device {
    let topology = Some(TopologyInfo { nodes: vec![NumaNode { id: node }] });
    Device { id: id.to_owned(), health: health.to_owned(), topology }
}

async fn register(socket: &Path, endpoint: &str, resource: &str, has_options: bool) -> bool {
    let request = RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: Some(DevicePluginOptions {
            pre_start_required: has_options,
            get_preferred_allocation_available: has_options,
        }),
    };
    let told: Result<Empty, Status> = call(socket, "/v1beta1.Registration/Register", request).await;
    eprintln!("registered {}", told.is_ok());
    told.is_ok()
}

async fn list(dir: &Path) {
    let socket = dir.join("kubelet.sock");
    let pods: ListPodResourcesResponse =
        call(&socket, "/v1.PodResourcesLister/List", Empty {}).await.unwrap();
    for pod in pods.pod_resources {
        for container in pod.containers {
            for devices in container.devices {
                let ids = devices.device_ids.join(",");
                eprintln!(
                    "{}/{}/{} {} {ids}",
                    pod.namespace, pod.name, container.name, devices.resource_name
                );
            }
        }
    }
    let path = "/v1.PodResourcesLister/GetAllocatableResources";
    let all: AllocatableResourcesResponse = call(&socket, path, Empty {}).await.unwrap();
    for devices in all.devices {
        eprintln!("allocatable {} {}", devices.resource_name, devices.device_ids.join(","));
    }
}

async fn call<Q, A>(socket: &Path, path: &'static str, message: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let socket: PathBuf = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel: Channel = Endpoint::from_static("http://kubelet").connect_with_connector_lazy(connect);
    let mut client = Client::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec: ProstCodec<Q, A> = ProstCodec::default();
    Ok(client.unary(Request::new(message), PathAndQuery::from_static(path), codec).await?.into_inner())
}

#[derive(Clone)]
struct Plugin {
    devices: watch::Receiver<Vec<Device>>,
}

impl NamedService for Plugin {
    const NAME: &'static str = "v1beta1.DevicePlugin";
}

impl tower::Service<http::Request<Body>> for Plugin {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let devices = self.devices.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/v1beta1.DevicePlugin/ListAndWatch" => {
                    let codec: ProstCodec<ListAndWatchResponse, Empty> = ProstCodec::default();
                    let service = tower::service_fn(move |_: Request<Empty>| {
                        let told = WatchStream::new(devices.clone())
                            .map(|devices| Ok::<_, Status>(ListAndWatchResponse { devices }));
                        std::future::ready(Ok::<_, Status>(Response::new(told)))
                    });
                    Grpc::new(codec).server_streaming(service, request).await
                }
                "/v1beta1.DevicePlugin/GetPreferredAllocation" => unary(request, preferred).await,
                "/v1beta1.DevicePlugin/Allocate" => unary(request, allocate).await,
                "/v1beta1.DevicePlugin/PreStartContainer" => {
                    unary(request, |asked: PreStartContainerRequest| {
                        eprintln!("prestart {}", asked.devices_ids.join(","));
                        Ok(Response::new(Empty {}))
                    })
                    .await
                }
                _ => Status::unimplemented("no such call").into_http(),
            })
        })
    }
}

async fn unary<Q, A>(request: http::Request<Body>, work: fn(Q) -> Answer<A>) -> http::Response<Body>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + 'static,
{
    let codec: ProstCodec<A, Q> = ProstCodec::default();
    let service =
        tower::service_fn(move |request: Request<Q>| std::future::ready(work(request.into_inner())));
    Grpc::new(codec).unary(service, request).await
}

/// The last ones, so that a test sees who chose.
fn preferred(asked: PreferredAllocationRequest) -> Answer<PreferredAllocationResponse> {
    let one = asked.container_requests.into_iter().next().unwrap();
    let mut ids = one.available_device_ids;
    ids.sort();
    let device_ids = ids.into_iter().rev().take(usize::try_from(one.allocation_size).unwrap()).collect();
    let container_responses = vec![ContainerPreferredAllocationResponse { device_ids }];
    Ok(Response::new(PreferredAllocationResponse { container_responses }))
}

fn allocate(asked: AllocateRequest) -> Answer<AllocateResponse> {
    let answers = asked.container_requests.into_iter().map(|one| {
        let ids = one.devices_ids;
        eprintln!("allocate {}", ids.join(","));
        let nodes = ids.iter().map(|id| DeviceSpec {
            container_path: format!("/dev/fake/{id}"),
            host_path: "/dev/null".to_owned(),
            permissions: "rw".to_owned(),
        });
        ContainerAllocateResponse {
            envs: HashMap::from([("FAKE_DEVICES".to_owned(), ids.join(","))]),
            devices: nodes.collect(),
            ..ContainerAllocateResponse::default()
        }
    });
    Ok(Response::new(AllocateResponse { container_responses: answers.collect() }))
}
