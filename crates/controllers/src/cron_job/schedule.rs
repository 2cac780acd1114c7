//! When a CronJob should have run, and when it will next.

use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};
use minik8s_meta::{CronSchedule, time_zone};

/// More missed runs than this are worth a warning.
pub(super) const MANY: usize = 100;

/// A schedule in its time zone.
pub(super) struct Clock {
    schedule: CronSchedule,
    zone: TimeZone,
}

impl Clock {
    /// Or what is wrong with it: event reason and message.
    pub fn of(cron: &CronJob) -> Result<Self, (&'static str, String)> {
        let spec = &cron.spec;
        let schedule = CronSchedule::parse(&spec.schedule)
            .map_err(|e| ("UnparseableSchedule", format!("unparseable schedule: {}: {e}", spec.schedule)))?;
        let zone = match spec.time_zone.as_deref() {
            None => TimeZone::UTC,
            Some(name) => time_zone(name).ok_or_else(|| {
                ("UnknownTimeZone", format!("invalid timeZone: \"{name}\": unknown time zone"))
            })?,
        };
        Ok(Clock { schedule, zone })
    }

    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.schedule.next_after(&self.at(time)).map(|time| time.timestamp())
    }

    /// The time as the schedule sees it.
    pub fn at(&self, time: Timestamp) -> Zoned {
        time.to_zoned(self.zone.clone())
    }

    /// The latest run after `since` and not after `now`, and how many there were (at most a bit more than
    /// [`MANY`] are counted).
    pub fn latest(&self, since: Timestamp, now: Timestamp) -> Option<(Timestamp, usize)> {
        let mut latest = None;
        let mut time = since;
        for count in 1..=MANY + 1 {
            match self.next_after(time).filter(|next| *next <= now) {
                Some(next) => {
                    latest = Some((next, count));
                    time = next;
                }
                None => return latest,
            }
        }
        let known = latest?.0;
        Some((self.search_back(known, now), MANY + 1))
    }

    /// Looks from `now` back in ever larger steps: the clock may have stood still for years.
    fn search_back(&self, known: Timestamp, now: Timestamp) -> Timestamp {
        let mut step = SignedDuration::from_mins(1);
        while let Ok(from) = now.checked_sub(step)
            && from > known
        {
            let mut found = None;
            let mut time = from;
            while let Some(next) = self.next_after(time).filter(|next| *next <= now) {
                found = Some(next);
                time = next;
            }
            if let Some(found) = found {
                return found;
            }
            step = step.saturating_mul(2);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clock(schedule: &str, zone: Option<&str>) -> Result<Clock, (&'static str, String)> {
        let spec = json!({"schedule": schedule, "timeZone": zone, "jobTemplate": {}});
        Clock::of(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap())
    }

    #[test]
    fn the_latest_run() {
        let check = |schedule: &str, since: &str, now: &str, expected: Option<(&str, usize)>| {
            let time = |text: &str| text.parse::<Timestamp>().unwrap();
            let latest = clock(schedule, None).unwrap().latest(time(since), time(now));
            let expected = expected.map(|(at, count)| (time(at), count));
            assert_eq!(latest, expected, "{schedule} from {since} to {now}");
        };
        let noon = "2030-05-05T12:00:00Z";
        check("*/5 * * * *", noon, "2030-05-05T12:04:59Z", None);
        check("*/5 * * * *", noon, "2030-05-05T12:05:00Z", Some(("2030-05-05T12:05:00Z", 1)));
        check("*/5 * * * *", noon, "2030-05-05T12:17:00Z", Some(("2030-05-05T12:15:00Z", 3)));
        check("* * * * *", noon, "2031-05-05T12:00:30Z", Some(("2031-05-05T12:00:00Z", 101)));
        check("0 3 * * *", noon, "2040-05-05T12:00:30Z", Some(("2040-05-05T03:00:00Z", 101)));
        check("@every 90s", noon, "2030-05-05T12:02:00Z", Some(("2030-05-05T12:01:30Z", 1)));
    }

    #[test]
    fn time_zones() {
        let now: Timestamp = "2030-07-01T00:00:00Z".parse().unwrap();
        let check = |zone: &str, expected: &str| {
            let next = clock("0 9 * * *", Some(zone)).unwrap().next_after(now);
            assert_eq!(next, Some(expected.parse().unwrap()), "{zone}");
        };
        check("Asia/Shanghai", "2030-07-01T01:00:00Z");
        check("America/New_York", "2030-07-01T13:00:00Z");
        assert_eq!(clock("0 9 * * *", Some("Mars/Base")).map(|_| ()).unwrap_err().0, "UnknownTimeZone");
        assert_eq!(clock("x", None).map(|_| ()).unwrap_err().0, "UnparseableSchedule");
    }
}
