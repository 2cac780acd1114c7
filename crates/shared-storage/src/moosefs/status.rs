//! What `mfscli` says, read leniently: a line that is not understood is left out.

use minik8s_meta::shared_storage::ClusterStatus;

/// Of `-SIN -SIC -SCS`, with `|` between the fields.
pub fn parse(text: &str) -> ClusterStatus {
    let mut status = ClusterStatus::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        match fields.as_slice() {
            ["master info:", "total space", ..] => status.total_bytes = number(2),
            ["master info:", "avail space", ..] => status.free_bytes = number(2),
            ["all chunks matrix:", "chunkclass missing:", ..] => status.missing = number(2),
            ["all chunks matrix:", "chunkclass endangered:" | "chunkclass undergoal:", ..] => {
                status.under_goal += number(2);
            }
            // One that is away has no version.
            ["chunk servers:", address, _port, _id, _labels, version, ..] if is_version(version) => {
                status.servers.push((*address).to_owned());
            }
            _ => {}
        }
    }
    status.servers.sort();
    status
}

/// Numbers of the sessions that a machine has left behind for a volume, of `-SMS`: nobody is connected, but what they
/// have locked stays locked for a day. A volume is known by the directory where it was staged.
pub fn left_sessions(text: &str, volume: &str, address: &str) -> Vec<u64> {
    let staged = minik8s_csi::digest(volume);
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        match fields.as_slice() {
            ["inactive mounts, parameters:", id, from, at, ..]
                if *from == address && at.contains(&staged) =>
            {
                id.parse().ok()
            }
            _ => None,
        }
    };
    text.lines().filter_map(of_line).collect()
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_left_of_a_volume_on_a_node_is_forgotten() {
        let at = |volume: &str| {
            format!("/d/plugins/kubernetes.io/csi/x/{}/globalmount", minik8s_csi::digest(volume))
        };
        let text = format!(
            "active mounts, parameters:|2|10.0.0.1|{v}|0|1|3.0.117|/volumes/v|rw\n\n\
             inactive mounts, parameters:|3|10.0.0.1|{v}|4|86397\ninactive mounts, parameters:|4|10.0.0.2|{v}|0|9\n\
             inactive mounts, parameters:|5|10.0.0.1|{w}|0|9\ninactive mounts, parameters:|x|10.0.0.1|{v}|0|9\n",
            v = at("v"),
            w = at("w")
        );
        assert_eq!(left_sessions(&text, "v", "10.0.0.1"), [3]);
        assert!(left_sessions("", "v", "10.0.0.1").is_empty());
    }

    #[test]
    fn status_is_read() {
        let text = "metadata servers:|10.0.0.1|3.0.117|-|1.5|5|not available|206868480|-\n\n\
            master info:|master version|3.0.117\nmaster info:|total space|97572749312\n\
            master info:|avail space|56177364992\nmaster info:|free space|56177364999\n\
            all chunks matrix:|goal/copies/chunks:|2|1|2\nall chunks matrix:|chunkclass missing:|1\n\
            all chunks matrix:|chunkclass endangered:|2\nall chunks matrix:|chunkclass undergoal:|3\n\
            all chunks matrix:|chunkclass stable:|9\nchunk loop|no data\n\
            chunk servers:|10.0.0.2|9422|2|-|3.0.117|0|maintenance_off|2|42039934976|97572749312|-|0|0|0\n\
            chunk servers:|10.0.0.1|9422|1|-|3.0.117|0|maintenance_off|2|42039934976|97572749312|-|0|0|0\n\
            chunk servers:|10.0.0.3|9422|3|-|-|-|maintenance_off|-|-|-|-|-|-|-\n";
        let expected = ClusterStatus {
            servers: vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()],
            total_bytes: 97_572_749_312,
            free_bytes: 56_177_364_992,
            under_goal: 5,
            missing: 1,
        };
        assert_eq!(parse(text), expected);
        assert_eq!(parse("no data\n||\n"), ClusterStatus::default());
    }
}
