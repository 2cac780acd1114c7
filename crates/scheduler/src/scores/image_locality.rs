//! Prefers nodes that already have the pod's images, the more the larger they are.

use super::{BEST, Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

const SMALLEST: f64 = 23.0 * 1024.0 * 1024.0;
/// Per container: beyond this an image does not count for more.
const LARGEST: f64 = 1000.0 * 1024.0 * 1024.0;

pub struct ImageLocality;

impl Score for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    #[allow(clippy::cast_precision_loss)]
    fn prepare<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Rating<'a>> {
        let total = snapshot.node_count().max(1) as f64;
        let spread: Vec<(String, f64)> = pod
            .images
            .iter()
            .filter_map(|image| {
                let name = with_tag(image);
                let having = snapshot.nodes().filter(|node| node.images.contains_key(&name)).count();
                // Images that few nodes have count for less, lest all pods flock to one node.
                (having > 0).then(|| (name, having as f64 / total))
            })
            .collect();
        if spread.is_empty() {
            return None;
        }
        let most = LARGEST * pod.images.len().max(1) as f64;
        let rate = move |node: &NodeInfo| {
            let present = spread.iter();
            let sum: f64 = present
                .filter_map(|(name, share)| node.images.get(name).map(|size| *size as f64 * share))
                .sum();
            (sum.clamp(SMALLEST, most) - SMALLEST) / (most - SMALLEST) * BEST
        };
        Some(Rating { scale: Scale::Ready, rate: Box::new(rate) })
    }
}

fn with_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}
