//! Hands calls of the server on to the controller service of a driver of this node, for drivers that are deployed without
//! the programs that would call it.
//!
//! Only calls of that service by their known names, only to drivers that are registered: what is in them is the server's
//! business. The class `local` is a driver too, and the agent answers for it.

use bytes::Bytes;
use minik8s_csi::{CallError, controller};
use minik8s_meta::local_volume;
use thiserror::Error;

use crate::context::VolumeContext;
use crate::storage;

/// No call is larger.
pub const MOST_BYTES: usize = 1 << 20;

#[derive(Debug, Error)]
pub enum RelayError {
    #[error("no CSI driver {0:?} is registered on this node")]
    NoDriver(String),
    #[error("{0:?} is no call of the controller service")]
    NoMethod(String),
    #[error(transparent)]
    Call(#[from] CallError),
}

pub async fn relay(
    context: &VolumeContext,
    driver: &str,
    method: &str,
    message: Bytes,
) -> Result<Bytes, RelayError> {
    if !controller::METHODS.contains(&method) {
        return Err(RelayError::NoMethod(method.to_owned()));
    }
    if driver == local_volume::DRIVER {
        return Ok(storage::call_local_driver(context, method, message).await?);
    }
    let known = context.csi.drivers.get(driver).ok_or_else(|| RelayError::NoDriver(driver.to_owned()))?;
    Ok(known.driver.call_raw(controller::SERVICE, method, message).await?)
}
