//! What a file is, by its first bytes. What its name, its sender or the platform say of it is a claim.

use rookery_messages::attachment::ImageFormat;

/// Most bytes that are looked at to tell text from other things.
const SAMPLE: usize = 8_192;
/// What is none of the known kinds, and no text.
const UNKNOWN: &str = "application/octet-stream";

/// Beginnings that tell a kind by themselves.
const MARKS: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
];

/// The kind of image that begins so, if it is one that models are sent.
pub(crate) fn image_format(bytes: &[u8]) -> Option<ImageFormat> {
    let begins = |mark: &[u8]| bytes.starts_with(mark);
    if begins(b"\x89PNG\r\n\x1a\n") {
        Some(ImageFormat::Png)
    } else if begins(b"\xff\xd8\xff") {
        Some(ImageFormat::Jpeg)
    } else if begins(b"GIF87a") || begins(b"GIF89a") {
        Some(ImageFormat::Gif)
    } else if riff(bytes) == Some(b"WEBP") {
        Some(ImageFormat::Webp)
    } else {
        None
    }
}

/// The media type of a file that begins so.
pub(crate) fn media_type(bytes: &[u8]) -> &'static str {
    if let Some(image) = image_format(bytes) {
        return image.media_type();
    }
    if riff(bytes) == Some(b"WAVE") {
        return "audio/wav";
    }
    if bytes.get(4..8) == Some(b"ftyp") {
        return match bytes.get(8..12) {
            Some(b"heic" | b"heix" | b"mif1") => "image/heic",
            Some(b"avif") => "image/avif",
            Some(b"M4A ") => "audio/mp4",
            _ => "video/mp4",
        };
    }
    let known = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark));
    known.map_or_else(|| if is_text(bytes) { "text/plain" } else { UNKNOWN }, |(_, kind)| kind)
}

fn riff(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(8..12).filter(|_| bytes.starts_with(b"RIFF"))
}

/// UTF-8 without the characters that no text has. The sample may end within a character.
fn is_text(bytes: &[u8]) -> bool {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let text = match std::str::from_utf8(sample) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && sample.len() < bytes.len() => {
            std::str::from_utf8(&sample[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty() && !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_its_bytes_say() {
        let long = "ü".repeat(SAMPLE);
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF89a\x01\0", "image/gif"),
            (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
            (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
            (b"\0\0\0\x18ftypheic", "image/heic"),
            (b"\0\0\0\x18ftypisom", "video/mp4"),
            (b"%PDF-1.7\n", "application/pdf"),
            (b"OggS\0\x02", "audio/ogg"),
            (b"just words\n", "text/plain"),
            (long.as_bytes(), "text/plain"),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text/plain"),
            // Half of a mark is none.
            (b"\x89PNG", UNKNOWN),
            (b"RIFF\x24\0\0\0WEB", UNKNOWN),
            (b"a\0b", UNKNOWN),
            (b"\xff\xfe\xfd", UNKNOWN),
            (b"", UNKNOWN),
        ] {
            assert_eq!(media_type(bytes), kind, "{:?}", &bytes[..bytes.len().min(16)]);
        }
    }
}
