//! `X-Rookery-Signature: t=<unix>,v1=<hex hmac-sha256 of "t.body">`, both ways.
//!
//! The time stands inside the signed material, so that a captured request ages out; within its five
//! minutes a replay is recognised by its message id (A072).

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;

/// The header's name.
pub const HEADER: &str = "x-rookery-signature";
/// How far the signed time may be off, in seconds.
pub const WINDOW_SECS: i64 = 300;

/// Why a signature is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SignatureError {
    /// There is none.
    #[error("the request has no X-Rookery-Signature header; sign it with the channel's secret")]
    Missing,
    /// It does not read `t=<unix>,v1=<hex>`.
    #[error("the X-Rookery-Signature header does not read `t=<unix seconds>,v1=<hex>`")]
    Malformed,
    /// It is too old, or from the future.
    #[error("the signature's time is more than 5 minutes off; check the clock and sign anew")]
    Stale,
    /// It was made with another secret, or over another body.
    #[error("the signature does not match the body; check the secret, and sign the raw body")]
    Wrong,
}

fn mac(secret: &str, time: i64, body: &[u8]) -> Option<Hmac<Sha256>> {
    // HMAC takes keys of any length; this never fails.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(time.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    Some(mac)
}

/// The header's value for a body.
pub fn sign(secret: &str, now: Timestamp, body: &[u8]) -> String {
    let time = now.as_second();
    let digest = mac(secret, time, body).map(|mac| mac.finalize().into_bytes());
    let hex: String =
        digest.iter().flat_map(|bytes| bytes.iter()).map(|byte| format!("{byte:02x}")).collect();
    format!("t={time},v1={hex}")
}

/// Checks the header over the raw body, in constant time.
pub fn verify(
    secret: &str,
    header: Option<&str>,
    now: Timestamp,
    body: &[u8],
) -> Result<(), SignatureError> {
    let header = header.ok_or(SignatureError::Missing)?;
    let (time, given) = parse(header).ok_or(SignatureError::Malformed)?;
    let mac = mac(secret, time, body).ok_or(SignatureError::Wrong)?;
    // The digest first: an outsider learns nothing of our clock.
    mac.verify_slice(&given).map_err(|_| SignatureError::Wrong)?;
    if now.as_second().abs_diff(time) > WINDOW_SECS.unsigned_abs() {
        return Err(SignatureError::Stale);
    }
    Ok(())
}

fn parse(header: &str) -> Option<(i64, Vec<u8>)> {
    let (mut time, mut digest) = (None, None);
    for part in header.split(',') {
        match part.trim().split_once('=')? {
            ("t", text) if time.is_none() && text.bytes().all(|b| b.is_ascii_digit()) => {
                time = Some(text.parse().ok()?);
            }
            ("v1", text) if digest.is_none() => digest = Some(from_hex(text)?),
            _ => return None,
        }
    }
    Some((time?, digest?))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    // A072: the vector was made with `openssl dgst -sha256 -hmac`.
    #[test]
    fn the_signature_is_hmac_sha256_over_time_dot_body() {
        let body = br#"{"id":"1"}"#;
        let signed = sign("whsec-0123456789", at(1_700_000_000), body);
        assert_eq!(signed, VECTOR);
        assert_eq!(verify("whsec-0123456789", Some(VECTOR), at(1_700_000_010), body), Ok(()));
    }

    const VECTOR: &str =
        "t=1700000000,v1=ba9b16f0fab15733db79a842aa7f791b2dd5ed01092e27ecf2eb7f960d73f1d3";

    /// Name, header, time, body, error.
    type Case<'a> = (&'a str, Option<String>, i64, &'a [u8], SignatureError);

    // A072
    #[test]
    fn wrong_stale_and_broken_signatures_are_told_apart() {
        let body = b"body";
        let good = sign("secret", at(1_000), body);
        let digest = good.split("v1=").nth(1).unwrap();
        let cases: [Case<'_>; 11] = [
            ("none", None, 1_000, body, SignatureError::Missing),
            ("empty", Some(String::new()), 1_000, body, SignatureError::Malformed),
            ("no time", Some(format!("v1={digest}")), 1_000, body, SignatureError::Malformed),
            ("no digest", Some("t=1000".into()), 1_000, body, SignatureError::Malformed),
            ("twice", Some(format!("{good},{good}")), 1_000, body, SignatureError::Malformed),
            ("short", Some("t=1000,v1=abcd".into()), 1_000, body, SignatureError::Malformed),
            ("sign", Some(format!("t=+1000,v1={digest}")), 1_000, body, SignatureError::Malformed),
            ("body", Some(good.clone()), 1_000, b"b0dy", SignatureError::Wrong),
            ("time", Some(format!("t=1001,v1={digest}")), 1_000, body, SignatureError::Wrong),
            ("old", Some(good.clone()), 1_301, body, SignatureError::Stale),
            ("future", Some(good.clone()), 699, body, SignatureError::Stale),
        ];
        for (name, header, now, body, error) in cases {
            let got = verify("secret", header.as_deref(), at(now), body);
            assert_eq!(got, Err(error), "{name}");
        }
        assert_eq!(verify("other", Some(&good), at(1_000), body), Err(SignatureError::Wrong));
        assert_eq!(verify("secret", Some(&good), at(1_300), body), Ok(()));
        let upper = format!("t=1000, v1={}", digest.to_uppercase());
        assert_eq!(verify("secret", Some(&upper), at(1_000), body), Ok(()));
    }
}
