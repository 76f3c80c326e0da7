//! From when on: a time that somebody typed.

use anyhow::Context as _;
use jiff::civil::Date;
use jiff::{Span, Timestamp, Zoned};

/// The hour since 1970 in which `text` lies: so long before `now`, or a date
/// (where this machine is) or time.
///
/// # Errors
/// When it is neither.
pub fn since(text: &str, now: &Zoned) -> anyhow::Result<i32> {
    let at = match (
        text.parse::<Span>(),
        text.parse::<Timestamp>(),
        text.parse::<Date>(),
    ) {
        (Ok(span), _, _) => now
            .checked_sub(span)
            .with_context(|| format!("`{text}` is too long ago"))?
            .timestamp(),
        (_, Ok(at), _) => at,
        (_, _, Ok(date)) => date
            .to_zoned(now.time_zone().clone())
            .context("midnight of that day")?
            .timestamp(),
        _ => anyhow::bail!(
            "`{text}` is no time; write it as `24h`, `7d`, `2026-11-17` or `2026-11-17T08:00Z`"
        ),
    };
    Ok(i32::try_from(at.as_second().div_euclid(3_600))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_long_ago_a_date_and_a_time_are_understood_and_nothing_else() {
        let now: Zoned = "2026-11-23T02:30:00+01:00[Europe/Berlin]".parse().unwrap();
        let hour = |text: &str| {
            let at: Timestamp = text.parse().unwrap();
            i32::try_from(at.as_second() / 3_600).unwrap()
        };

        for (text, expected) in [
            ("24h", "2026-11-22T01:00:00Z"),
            ("7d", "2026-11-16T01:00:00Z"),
            ("2026-11-17", "2026-11-16T23:00:00Z"),
            ("2026-11-17T08:59:00Z", "2026-11-17T08:00:00Z"),
        ] {
            assert_eq!(since(text, &now).unwrap(), hour(expected), "for {text}");
        }
        let error = since("tuesday", &now).unwrap_err().to_string();
        assert!(error.contains("write it as `24h`"), "{error}");
    }
}
