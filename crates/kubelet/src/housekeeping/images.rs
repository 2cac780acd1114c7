//! Removes images that no container uses when the disk fills up.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use tracing::{info, warn};

use crate::context::NodeContext;
use crate::cri::ImageRecord;
use crate::image::PAUSE_IMAGE;
use crate::stats::disk;

/// When each image was last seen in use, by its id.
#[derive(Debug, Default)]
pub struct ImageAges {
    last_used: BTreeMap<String, Timestamp>,
}

/// Makes room if the disk is fuller than it should be.
pub async fn collect_images(context: &NodeContext) {
    let disk = disk(&context.config.data_dir);
    let settings = &context.config.housekeeping.images;
    let used = disk.capacity.saturating_sub(disk.available);
    let share = |percent: u8| disk.capacity / 100 * u64::from(percent);
    let surplus = if used > share(settings.high) { used.saturating_sub(share(settings.low)) } else { 0 };
    sweep(context, surplus).await;
}

/// Removes every image that is not used: the disk is short. True if there was one.
pub async fn reclaim_images(context: &NodeContext) -> bool {
    sweep(context, u64::MAX).await
}

/// Looks at all images, and removes enough of the unused ones. True if any went.
async fn sweep(context: &NodeContext, surplus: u64) -> bool {
    let (Ok(images), Ok(rows)) = (context.runtime.images().await, context.runtime.container_rows().await)
    else {
        return false;
    };
    let in_use: BTreeSet<String> = rows.into_iter().flat_map(|row| [row.image, row.image_id]).collect();
    let victims = {
        let (mut ages, now) = (context.image_ages.lock(), Timestamp::now());
        ages.note(&images, &in_use, now);
        ages.victims(&images, &in_use, surplus, context.config.housekeeping.images.youngest, now)
    };
    let mut any = false;
    for image in victims {
        info!(image = image.tags.first().unwrap_or(&image.id), "removing an unused image: the disk fills up");
        match context.runtime.remove_image(&image.id).await {
            Ok(()) => any = true,
            Err(error) => warn!(%error, image = image.id, "cannot remove an image"),
        }
    }
    any
}

impl ImageAges {
    fn note(&mut self, images: &[ImageRecord], in_use: &BTreeSet<String>, now: Timestamp) {
        self.last_used.retain(|id, _| images.iter().any(|image| image.id == *id));
        for image in images {
            let last = self.last_used.entry(image.id.clone()).or_insert(now);
            if is_used(image, in_use) {
                *last = now;
            }
        }
    }

    /// Images to remove, the longest unused first, until enough is freed.
    fn victims(
        &self,
        images: &[ImageRecord],
        in_use: &BTreeSet<String>,
        surplus: u64,
        youngest: SignedDuration,
        now: Timestamp,
    ) -> Vec<ImageRecord> {
        let last_used = |image: &ImageRecord| self.last_used.get(&image.id).copied().unwrap_or(now);
        let old = |image: &&ImageRecord| now.duration_since(last_used(image)) >= youngest;
        let mut unused: Vec<_> = images.iter().filter(|image| !is_used(image, in_use)).filter(old).collect();
        unused.sort_by_key(|image| last_used(image));
        let mut freed = 0;
        let enough = |image: &&&ImageRecord| {
            let more = freed < surplus;
            freed += image.size;
            more
        };
        unused.iter().take_while(enough).map(|image| (*image).clone()).collect()
    }
}

fn is_used(image: &ImageRecord, in_use: &BTreeSet<String>) -> bool {
    let names = image.tags.iter().chain(&image.digests).chain([&image.id]);
    image.tags.iter().any(|tag| tag == PAUSE_IMAGE) || names.into_iter().any(|name| in_use.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_go_first() {
        let image = |id: &str, tag: &str| ImageRecord {
            id: id.into(),
            tags: vec![tag.into()],
            size: 10,
            ..ImageRecord::default()
        };
        let images = [image("1", "old"), image("2", "used"), image("3", "new"), image("4", PAUSE_IMAGE)];
        let in_use = BTreeSet::from(["used".to_owned()]);
        let mut ages = ImageAges::default();
        ages.note(&images[..2], &in_use, Timestamp::from_second(1).unwrap());
        ages.note(&images, &in_use, Timestamp::from_second(2).unwrap());
        let victims = |surplus: u64, now: i64| -> Vec<_> {
            let now = Timestamp::from_second(now).unwrap();
            ages.victims(&images, &in_use, surplus, SignedDuration::from_mins(2), now)
                .into_iter()
                .map(|i| i.id)
                .collect()
        };
        let check = |surplus: u64, want: &[&str]| assert_eq!(victims(surplus, 1000), want, "{surplus}");
        assert_eq!(victims(1000, 121), ["1"], "the other one is too young");
        check(0, &[]);
        check(5, &["1"]);
        check(10, &["1"]);
        check(11, &["1", "3"]);
        check(1000, &["1", "3"]);
    }
}
