//! Calls the controller services of CSI drivers that are deployed without the programs that would do it
//! (external-provisioner, -attacher, -resizer, -snapshotter). For snapshots, our own class `local` is such a driver: its
//! agents answer themselves.
//!
//! Only drivers whose CSIDriver says so (the annotation `csi.minik8s.io/controller: agent`) are called: two who make
//! volumes for one claim would be one too many. A call goes to the agent of a node where the driver is registered, as a
//! request to that node through the API server, and the agent hands it to the driver's socket: no socket is ever opened to
//! the network, and no node gets rights for it. What is due is told by a pure function from the caches; a volume is named
//! after its claim, so that a call that was cut off is made again and gives the same volume.

mod attachment;
mod deletion;
mod due;
mod expansion;
mod modification;
mod operator;
mod provision;
mod remote;
mod secrets;
mod snapshot;
mod snapshot_due;
#[cfg(test)]
mod tests;

pub use operator::operate;
