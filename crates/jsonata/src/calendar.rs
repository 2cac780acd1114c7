//! Dates without a clock: days, weeks and months of the Gregorian calendar, in milliseconds of the Unix epoch.

pub const DAY: i64 = 86_400_000;
const WEEK: i64 = 7 * DAY;

/// A point in time, taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Date {
    pub year: i64,
    /// From one.
    pub month: i64,
    pub day: i64,
    /// Milliseconds of the day.
    pub rest: i64,
}

impl Date {
    pub fn new(milliseconds: i64) -> Self {
        let (days, rest) = (milliseconds.div_euclid(DAY), milliseconds.rem_euclid(DAY));
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self { year: year + era * 400 + i64::from(month <= 2), month, day, rest }
    }
}

/// The beginning of a day; months and days may run over.
pub fn milliseconds(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    let of = if month <= 2 { year - 1 } else { year };
    let era = of.div_euclid(400);
    let of_era = of.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5;
    (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468 + day - 1) * DAY
}

/// Monday is one, Sunday seven.
pub fn weekday(milliseconds: i64) -> i64 {
    (milliseconds.div_euclid(DAY) + 3).rem_euclid(7) + 1
}

/// The Monday of the first week of a month: the one with its first Thursday.
fn first_week(year: i64, month: i64) -> i64 {
    let first = milliseconds(year, month, 1);
    let day = weekday(first);
    if day > 4 { first + (8 - day) * DAY } else { first - (day - 1) * DAY }
}

fn week_of(today: i64, starts: [i64; 3], most: i64) -> i64 {
    let [before, this, after] = starts;
    let weeks = |start: i64| (today - start).div_euclid(WEEK) + 1;
    let week = weeks(this);
    if week > most {
        return if today >= after { 1 } else { week };
    }
    if week < 1 { weeks(before) } else { week }
}

pub fn week_of_year(date: Date) -> i64 {
    let today = milliseconds(date.year, date.month, date.day);
    week_of(today, [-1, 0, 1].map(|shift| first_week(date.year + shift, 1)), 52)
}

pub fn week_of_month(date: Date) -> i64 {
    let today = milliseconds(date.year, date.month, date.day);
    week_of(today, [-1, 0, 1].map(|shift| first_week(date.year, date.month + shift)), 4)
}

/// The year whose weeks the day belongs to.
pub fn year_of_week(date: Date) -> i64 {
    let today = milliseconds(date.year, date.month, date.day);
    if today < first_week(date.year, 1) {
        date.year - 1
    } else if today >= first_week(date.year + 1, 1) {
        date.year + 1
    } else {
        date.year
    }
}

/// The month whose weeks the day belongs to.
pub fn month_of_week(date: Date) -> i64 {
    let today = milliseconds(date.year, date.month, date.day);
    let shift = if today < first_week(date.year, date.month) {
        -1
    } else {
        i64::from(today >= first_week(date.year, date.month + 1))
    };
    (date.month - 1 + shift).rem_euclid(12) + 1
}
