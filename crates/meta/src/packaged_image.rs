//! Images that features of ours run and no registry has: programs of Debian packages. A node makes one from its own
//! packages when the first pod asks for it.

/// An image by its name, and what it is made of.
#[derive(Debug, PartialEq, Eq)]
pub struct PackagedImage {
    /// Raise the tag whenever something below changes.
    pub image: &'static str,
    /// Debian packages, taken with all that they depend on.
    pub packages: &'static [&'static str],
    /// What its containers run unless they say otherwise.
    pub program: &'static str,
    /// Large files of the packages that nobody runs in a container.
    pub without: &'static [&'static str],
}

pub const PROMETHEUS: &str = "minik8s.io/prometheus:1";
pub const ALERTMANAGER: &str = "minik8s.io/alertmanager:1";
pub const VICTORIA_METRICS: &str = "minik8s.io/victoria-metrics:1";

pub const PACKAGED_IMAGES: &[PackagedImage] = &[
    PackagedImage {
        image: PROMETHEUS,
        packages: &["prometheus"],
        program: "/usr/bin/prometheus",
        without: &["/usr/bin/promtool"],
    },
    PackagedImage {
        image: ALERTMANAGER,
        packages: &["prometheus-alertmanager"],
        program: "/usr/bin/prometheus-alertmanager",
        without: &["/usr/bin/amtool"],
    },
    PackagedImage {
        image: VICTORIA_METRICS,
        packages: &["victoria-metrics"],
        program: "/usr/bin/victoria-metrics",
        without: &[
            "/usr/bin/vmagent",
            "/usr/bin/vmauth",
            "/usr/bin/vmbackup",
            "/usr/bin/vmctl",
            "/usr/bin/vmrestore",
        ],
    },
];

/// The image of that name, if it is one of these.
pub fn packaged_image(name: &str) -> Option<&'static PackagedImage> {
    PACKAGED_IMAGES.iter().find(|packaged| packaged.image == name)
}
