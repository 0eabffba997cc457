//! Uploaded files: the type that their first bytes show, and a name that is safe to display.

/// Longest displayed name, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// What a file is called that has no usable name.
const NAMELESS: &str = "file";

/// Returns the media type of a bitmap image that browsers show, judged by its first bytes.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ => None,
    }
}

/// Returns whether the bytes are text: UTF-8 without a zero byte.
pub fn is_text(bytes: &[u8]) -> bool {
    !bytes.is_empty() && !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

/// Returns a file's name for display: one line, no path, bounded.
pub fn shown_file_name(name: &str) -> String {
    let plain: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let end = plain.floor_char_boundary(NAME_BYTES_MAX);
    let plain = plain[..end].trim();
    if plain.is_empty() { NAMELESS.to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide_the_type() {
        assert_eq!(image_type(b"\x89PNG\r\n\x1a\n..."), Some("image/png"));
        assert_eq!(image_type(b"GIF89a"), Some("image/gif"));
        assert_eq!(image_type(b"<svg onload=alert(1)>"), None);
        assert_eq!(image_type(b"<html>"), None);
        assert!(is_text("Grüße\n".as_bytes()));
        for bytes in [&b""[..], b"a\0b", b"\xff\xfe"] {
            assert!(!is_text(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn a_name_is_one_bounded_line() {
        assert_eq!(shown_file_name("a\nb\u{1b}[31m"), "ab[31m");
        assert_eq!(shown_file_name(" \r\n "), "file");
        assert!(shown_file_name(&"é".repeat(900)).len() <= NAME_BYTES_MAX);
    }
}
