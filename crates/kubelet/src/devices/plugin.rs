//! Calls of one device plugin, over its socket.

use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::api::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, DevicePluginOptions, Empty, ListAndWatchResponse,
    PreStartContainerRequest, PreferredAllocationRequest, PreferredAllocationResponse,
};
use crate::containerd::connect;

/// A plugin that takes longer hangs. Upstream waits for the start of a container as long.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Plugin {
    channel: Channel,
    pub options: DevicePluginOptions,
}

impl Plugin {
    /// Opens no connection yet.
    pub fn new(socket: &Path, options: DevicePluginOptions) -> Self {
        Plugin { channel: connect(socket), options }
    }

    pub async fn devices(&self) -> Result<Streaming<ListAndWatchResponse>, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        ready(&mut grpc).await?;
        let path = PathAndQuery::from_static("/v1beta1.DevicePlugin/ListAndWatch");
        let codec: ProstCodec<Empty, ListAndWatchResponse> = ProstCodec::default();
        Ok(grpc.server_streaming(Request::new(Empty {}), path, codec).await?.into_inner())
    }

    /// Which of the free devices it would give out. It may prefer none.
    pub async fn preferred(&self, free: &[String], count: usize) -> Result<Vec<String>, Status> {
        let request = ContainerPreferredAllocationRequest {
            available_device_ids: free.to_vec(),
            must_include_device_ids: Vec::new(),
            allocation_size: i32::try_from(count).unwrap_or(i32::MAX),
        };
        let request = PreferredAllocationRequest { container_requests: vec![request] };
        let answer: PreferredAllocationResponse =
            self.call("/v1beta1.DevicePlugin/GetPreferredAllocation", request).await?;
        Ok(answer.container_responses.into_iter().next().unwrap_or_default().device_ids)
    }

    pub async fn allocate(&self, devices: Vec<String>) -> Result<ContainerAllocateResponse, Status> {
        let request =
            AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids: devices }] };
        let answer: AllocateResponse = self.call("/v1beta1.DevicePlugin/Allocate", request).await?;
        let mut answers = answer.container_responses.into_iter();
        answers.next().ok_or_else(|| Status::internal("the plugin answered nothing for the container"))
    }

    pub async fn pre_start(&self, devices: Vec<String>) -> Result<(), Status> {
        let request = PreStartContainerRequest { devices_ids: devices };
        let _: Empty = self.call("/v1beta1.DevicePlugin/PreStartContainer", request).await?;
        Ok(())
    }

    async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        let call = async {
            ready(&mut grpc).await?;
            let codec: ProstCodec<Q, A> = ProstCodec::default();
            grpc.unary(Request::new(message), PathAndQuery::from_static(path), codec).await
        };
        let answer = tokio::time::timeout(TIMEOUT, call).await;
        let late = || Status::deadline_exceeded(format!("no answer within {TIMEOUT:?}"));
        Ok(answer.map_err(|_| late())??.into_inner())
    }
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))
}
