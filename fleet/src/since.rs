//! Start time that the user typed.

use anyhow::Context as _;
use jiff::civil::DateTime;
use jiff::{Span, Timestamp, Zoned};

/// Returns the hour since 1970 that contains `text`: an age before `now`, or a date or time.
/// Without a time zone, the zone of `now` applies.
///
/// # Errors
/// If it is neither, or is in the future.
pub fn since(text: &str, now: &Zoned) -> anyhow::Result<i32> {
    let time = match (
        text.parse::<Span>(),
        text.parse::<Timestamp>(),
        text.parse::<Zoned>(),
        text.parse::<DateTime>(),
    ) {
        // `24h ago` is a negative span.
        (Ok(span), ..) => now
            .checked_sub(span.abs())
            .with_context(|| format!("`{text}` is too long ago"))?
            .timestamp(),
        (_, Ok(time), ..) => time,
        (_, _, Ok(time), _) => time.timestamp(),
        (.., Ok(time)) => time
            .to_zoned(now.time_zone().clone())
            .with_context(|| format!("`{text}` where this machine is"))?
            .timestamp(),
        _ => anyhow::bail!(
            "`{text}` is not a time; write it as `24h`, `7d`, `2026-11-17` or `2026-11-17T08:00Z`"
        ),
    };
    anyhow::ensure!(time <= now.timestamp(), "`{text}` has not come yet");
    Ok(i32::try_from(time.as_second().div_euclid(3_600))?)
}

/// Start of an hour, counted from 1970-01-01T00:00Z, as RFC 3339 text.
pub fn format_hour(since_h: i32) -> String {
    Timestamp::from_second(i64::from(since_h) * 3_600)
        .unwrap_or_default()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-23T02:30:00+01:00[Europe/Berlin]".parse().unwrap()
    }

    #[test]
    fn age_date_and_time_are_parsed() {
        for (text, expected) in [
            ("24h", "2026-11-22T01:00:00Z"),
            ("24h ago", "2026-11-22T01:00:00Z"),
            ("1 day ago", "2026-11-22T01:00:00Z"),
            ("7d", "2026-11-16T01:00:00Z"),
            ("P1D", "2026-11-22T01:00:00Z"),
            ("2026-11-17", "2026-11-16T23:00:00Z"),
            ("2026-11-17T08:00", "2026-11-17T07:00:00Z"),
            ("2026-11-17 08:00", "2026-11-17T07:00:00Z"),
            ("2026-07-17T08:00", "2026-07-17T06:00:00Z"),
            ("2026-11-17T08:00Z", "2026-11-17T08:00:00Z"),
            ("2026-11-17T08:59:00Z", "2026-11-17T08:00:00Z"),
            ("2026-11-17T08:00[America/New_York]", "2026-11-17T13:00:00Z"),
        ] {
            assert_eq!(
                format_hour(since(text, &now()).unwrap()),
                expected,
                "for {text}"
            );
        }
    }

    #[test]
    fn invalid_or_future_time_is_refused() {
        for (text, expected) in [
            ("tuesday", "write it as `24h`"),
            ("", "write it as `24h`"),
            ("2026-11-24", "has not come yet"),
            ("30000y", "`30000y`"),
        ] {
            let error = since(text, &now()).unwrap_err().to_string();
            assert!(error.contains(expected), "for {text}: {error}");
        }
    }
}
