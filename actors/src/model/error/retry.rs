//! When a provider says to come back: `Retry-After` and its relatives.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// No answer is honoured for longer than this (V-L6).
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// How long to wait, from `retry-after-ms`, `Retry-After` (RFC 9110, section 10.2.3: seconds or a date)
/// or, if a limit is used up, `x-ratelimit-reset-requests` and `-tokens`. Times past are ignored,
/// absurd ones capped.
///
/// A date is measured against the answer's own `Date`, so that a wrong clock on either side does no
/// harm; without a `Date` it is ignored.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(number).and_then(|ms| wait(ms / 1_000.0)) {
        return Some(wait);
    }
    if let Some(value) = text(RETRY_AFTER.as_str()) {
        let seconds = number(value).or_else(|| {
            let from = http_date(text(DATE.as_str())?)?;
            Some(http_date(value)?.duration_since(from).as_secs_f64())
        });
        if let Some(wait) = seconds.and_then(wait) {
            return Some(wait);
        }
    }
    ["requests", "tokens"]
        .into_iter()
        .filter(|what| text(&format!("x-ratelimit-remaining-{what}")) == Some("0"))
        .filter_map(|what| wait(span(text(&format!("x-ratelimit-reset-{what}"))?)?))
        .max()
}

/// The same in an error's body, as Google has it: a detail with `retryDelay` in seconds (`google.rpc`,
/// `RetryInfo`).
pub(super) fn retry_delay(body: &str) -> Option<Duration> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let first = body.as_array().and_then(|items| items.first()).unwrap_or(&body);
    let details = first["error"]["details"].as_array()?;
    wait(span(details.iter().find_map(|detail| detail["retryDelay"].as_str())?)?)
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn wait(seconds: f64) -> Option<Duration> {
    let capped = seconds.min(MAX_RETRY_AFTER.as_secs_f64());
    Duration::try_from_secs_f64(capped).ok().filter(|wait| !wait.is_zero())
}

/// The three forms of RFC 9110, section 5.6.7.
fn http_date(text: &str) -> Option<Timestamp> {
    if let Ok(at) = DateTimeParser::new().parse_timestamp(text) {
        return Some(at);
    }
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"].into_iter().find_map(|format| {
        let at = strtime::parse(format, text).ok()?.to_datetime().ok()?;
        Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

/// Seconds of a span such as `1s`, `6m0s`, `20ms`, `1h2m3.5s`, or a bare number.
fn span(text: &str) -> Option<f64> {
    if let Some(seconds) = number(text) {
        return Some(seconds);
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let amount = number(&rest[..unit_at])?;
        let unit = &rest[unit_at..];
        let unit_end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        total += amount
            * match &unit[..unit_end] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &unit[unit_end..];
    }
    (total > 0.0).then_some(total)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn of(headers: &[(&'static str, &'static str)]) -> Option<f64> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        retry_after(&headers).map(|wait| wait.as_secs_f64())
    }

    const DATE_AT: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");

    // V-L6, A045
    #[test]
    fn seconds_and_dates_are_read() {
        assert_eq!(of(&[("retry-after", "120")]), Some(120.0));
        assert_eq!(of(&[("retry-after", "7.5")]), Some(7.5));
        assert_eq!(of(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(1.5));
        for date in [
            "Sun, 06 Nov 1994 08:51:37 GMT",
            "Sunday, 06-Nov-94 08:51:37 GMT",
            "Sun Nov  6 08:51:37 1994",
        ] {
            let headers = HeaderMap::from_iter([
                (DATE, HeaderValue::from_static(DATE_AT.1)),
                (RETRY_AFTER, HeaderValue::from_str(date).unwrap()),
            ]);
            assert_eq!(retry_after(&headers), Some(Duration::from_secs(120)), "{date}");
        }
    }

    // V-L6, A045
    #[test]
    fn absurd_times_are_capped_and_past_ones_ignored() {
        assert_eq!(of(&[("retry-after", "999999999999")]), Some(3_600.0));
        assert_eq!(
            of(&[DATE_AT, ("retry-after", "Tue, 06 Nov 2094 08:49:37 GMT")]),
            None,
            "wrong weekday"
        );
        assert_eq!(of(&[DATE_AT, ("retry-after", "Sat, 06 Nov 2094 08:49:37 GMT")]), Some(3_600.0));
        assert_eq!(of(&[DATE_AT, ("retry-after", "Sun, 06 Nov 1994 08:49:36 GMT")]), None);
        for ignored in ["-5", "0", "NaN", "inf", "soon", ""] {
            assert_eq!(of(&[("retry-after", ignored)]), None, "{ignored}");
        }
        assert_eq!(
            of(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]),
            None,
            "no date to compare"
        );
    }

    // V-L6
    #[test]
    fn the_delay_in_an_errors_body_counts() {
        let body = r#"[{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}]"#;
        assert_eq!(retry_delay(body), Some(Duration::from_millis(34_500)));
        assert_eq!(retry_delay(r#"{"error":{"details":[{"retryDelay":"soon"}]}}"#), None);
        assert_eq!(retry_delay("slow down"), None);
    }

    #[test]
    fn the_reset_of_a_used_up_limit_counts() {
        let used =
            [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0.5s")];
        assert_eq!(of(&used), Some(360.5));
        let free = [("x-ratelimit-remaining-tokens", "3"), ("x-ratelimit-reset-tokens", "20ms")];
        assert_eq!(of(&free), None);
        assert_eq!(span("1h2m3s"), Some(3_723.0));
        assert_eq!(span("2 fortnights"), None);
    }
}
