//! The agent's two sockets: where plugins register, and where monitors ask who has which device.
//!
//! Both lie in directories that only root may enter: who can register can put any file and device of the machine into
//! containers.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context as Poller, Poll};

use futures::future::BoxFuture;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::Devices;
use super::api::{
    AllocatableResourcesResponse, Empty, GetPodResourcesRequest, GetPodResourcesResponse,
    ListPodResourcesResponse,
};

pub const SOCKET: &str = "kubelet.sock";

#[derive(Clone)]
pub struct Registration(pub Arc<Devices>);

#[derive(Clone)]
pub struct PodResourcesLister(pub Arc<Devices>);

impl NamedService for Registration {
    const NAME: &'static str = "v1beta1.Registration";
}

impl NamedService for PodResourcesLister {
    const NAME: &'static str = "v1.PodResourcesLister";
}

impl tower::Service<http::Request<Body>> for Registration {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Poller<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let devices = self.0.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/v1beta1.Registration/Register" => {
                    unary(request, move |message| devices.register(message).map(|()| Empty {})).await
                }
                _ => Status::unimplemented("there is no such call").into_http(),
            })
        })
    }
}

impl tower::Service<http::Request<Body>> for PodResourcesLister {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Poller<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let devices = self.0.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/v1.PodResourcesLister/List" => {
                    unary(request, move |_: Empty| {
                        Ok(ListPodResourcesResponse { pod_resources: devices.pods() })
                    })
                    .await
                }
                "/v1.PodResourcesLister/GetAllocatableResources" => {
                    unary(request, move |_: Empty| {
                        Ok(AllocatableResourcesResponse { devices: devices.allocatable() })
                    })
                    .await
                }
                "/v1.PodResourcesLister/Get" => {
                    unary(request, move |wanted: GetPodResourcesRequest| pod_of(&devices, &wanted)).await
                }
                _ => Status::unimplemented("there is no such call").into_http(),
            })
        })
    }
}

fn pod_of(devices: &Devices, wanted: &GetPodResourcesRequest) -> Result<GetPodResourcesResponse, Status> {
    let mut pods = devices.pods().into_iter();
    let found = pods.find(|pod| pod.name == wanted.pod_name && pod.namespace == wanted.pod_namespace);
    let missing = || {
        let (namespace, name) = (&wanted.pod_namespace, &wanted.pod_name);
        Status::not_found(format!("pod {name} in namespace {namespace} has no devices"))
    };
    Ok(GetPodResourcesResponse { pod_resources: Some(found.ok_or_else(missing)?) })
}

async fn unary<Q, A>(
    request: http::Request<Body>,
    work: impl FnOnce(Q) -> Result<A, Status> + Send + 'static,
) -> http::Response<Body>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + 'static,
{
    let codec: ProstCodec<A, Q> = ProstCodec::default();
    let mut work = Some(work);
    let service = tower::service_fn(move |request: Request<Q>| {
        let answer = match work.take() {
            Some(work) => work(request.into_inner()),
            None => Err(Status::internal("asked twice")),
        };
        std::future::ready(answer.map(Response::new))
    });
    Grpc::new(codec).unary(service, request).await
}

/// Serves one of them until it fails.
pub async fn serve<S>(dir: &Path, service: S) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    S: tower::Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    let socket = dir.join(SOCKET);
    // Of an agent that was killed. Plugins watch for the new one, and register again.
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    Ok(Server::builder().add_service(service).serve_with_incoming(UnixListenerStream::new(listener)).await?)
}
