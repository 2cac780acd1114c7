//! `--history 24h,1GiB`: how far back the store can be read. More of it costs disk alone; the newest is in memory anyway.

use std::time::Duration;

use jiff::SignedDuration;
use minik8s_meta::Quantity;
use minik8s_store::Options;

/// Less could not be watched from reliably.
const SHORTEST: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryFlag {
    history: Duration,
    bytes: u64,
}

impl HistoryFlag {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (age, size) = text.split_once(',').map_or((text, None), |(age, size)| (age, Some(size)));
        let wrong = || format!("{age:?} is not a duration such as 5m or 24h");
        let history: SignedDuration = age.trim().parse().map_err(|_| wrong())?;
        let history = Duration::try_from(history).map_err(|_| wrong())?;
        if history < SHORTEST {
            return Err("a minute of history is the least that watches need".to_owned());
        }
        let bytes = match size {
            None => Options::default().history_bytes,
            Some(size) => {
                let wrong = || format!("{size:?} is not a size such as 256MiB or 1GiB");
                let quantity: Quantity = size.trim().trim_end_matches('B').parse().map_err(|_| wrong())?;
                u64::try_from(quantity.value()).ok().filter(|bytes| *bytes >= 1 << 20).ok_or_else(wrong)?
            }
        };
        Ok(HistoryFlag { history, bytes })
    }

    pub fn options(&self) -> Options {
        Options { history: self.history, history_bytes: self.bytes, ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes() {
        let check = |text: &str, seconds: u64, bytes: u64| {
            let expected = HistoryFlag { history: Duration::from_secs(seconds), bytes };
            assert_eq!(HistoryFlag::parse(text), Ok(expected), "{text}");
        };
        check("24h,1GiB", 86_400, 1 << 30);
        check("24h,1Gi", 86_400, 1 << 30);
        check("10m", 600, 256 << 20);
        for bad in ["", "soon", "24h,much", "24h,5", "1s", "-5m"] {
            assert!(HistoryFlag::parse(bad).is_err(), "{bad}");
        }
        let default = HistoryFlag::parse("5m,256MiB").map(|flag| flag.options());
        assert_eq!(default.map(|options| (options.history, options.history_bytes)), {
            let own = Options::default();
            Ok((own.history, own.history_bytes))
        });
    }
}
