//! Durations as `kubectl get` shows them.

/// A duration in at most two units.
pub fn human_duration(seconds: i64) -> String {
    let (minute, hour, day, year) = (60, 3600, 86_400, 31_536_000);
    let two = |big: i64, big_name: char, small: i64, small_name: char| match small {
        0 => format!("{big}{big_name}"),
        _ => format!("{big}{big_name}{small}{small_name}"),
    };
    match seconds {
        i64::MIN..0 => "0s".to_owned(),
        s if s < 2 * minute => format!("{s}s"),
        s if s < 10 * minute => two(s / minute, 'm', s % minute, 's'),
        s if s < 3 * hour => format!("{}m", s / minute),
        s if s < 8 * hour => two(s / hour, 'h', s % hour / minute, 'm'),
        s if s < 2 * day => format!("{}h", s / hour),
        s if s < 8 * day => two(s / day, 'd', s % day / hour, 'h'),
        s if s < 2 * year => format!("{}d", s / day),
        s if s < 8 * year => two(s / year, 'y', s % year / day, 'd'),
        s => format!("{}y", s / year),
    }
}
