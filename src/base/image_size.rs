//! The size of an image, read from the first bytes of its file.
//!
//! **Invariant:** nothing is decoded, and only sizes within a bound are believed.

/// Larger sizes are ignored.
const SIDE_MAX: u32 = 32_768;
/// Bytes of an SVG in which its root element is searched.
const VECTOR_BYTES_MAX: usize = 4_096;
const EXIF: &[u8] = b"Exif\0\0";
/// The Exif tag of the orientation.
const ORIENTATION: u16 = 0x0112;

/// Width and height in pixels.
pub type Size = (u32, u32);

/// Returns the size of an image from its first bytes, as a browser shows it.
pub fn size_of(head: &[u8]) -> Option<Size> {
    let (width, height) = match head {
        [0x89, b'P', b'N', b'G', ..] => (big32(head, 16)?, big32(head, 20)?),
        [b'G', b'I', b'F', b'8', ..] => (little16(head, 6)?, little16(head, 8)?),
        [b'B', b'M', ..] => (little32(head, 18)?, little32(head, 22)?.cast_signed().unsigned_abs()),
        [b'R', b'I', b'F', b'F', ..] => size_of_webp(head)?,
        [0xff, 0xd8, rest @ ..] => size_of_jpeg(rest)?,
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => size_of_avif(head)?,
        _ => size_of_vector(head)?,
    };
    let is_sound = |side: u32| (1..=SIDE_MAX).contains(&side);
    (is_sound(width) && is_sound(height)).then_some((width, height))
}

fn size_of_webp(head: &[u8]) -> Option<Size> {
    Some(match head.get(12..16)? {
        b"VP8 " => (little16(head, 26)? & 0x3fff, little16(head, 28)? & 0x3fff),
        b"VP8L" => {
            let bits = little32(head, 21)?;
            ((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1)
        }
        b"VP8X" => {
            let side = |at| Some((little32(head, at)? & 0x00ff_ffff) + 1);
            (side(24)?, side(27)?)
        }
        _ => return None,
    })
}

/// Goes from segment to segment to the first frame.
fn size_of_jpeg(mut rest: &[u8]) -> Option<Size> {
    let mut is_turned = false;
    loop {
        let start = rest.iter().position(|it| *it != 0xff)?;
        let (kind, body) = (*rest.get(start)?, rest.get(start + 1..)?);
        let length = usize::try_from(big16(body, 0)?).ok()?;
        match kind {
            // Frame headers, without the tables in the same range.
            0xc0..=0xcf if !matches!(kind, 0xc4 | 0xc8 | 0xcc) => {
                let (height, width) = (big16(body, 3)?, big16(body, 5)?);
                return Some(if is_turned { (height, width) } else { (width, height) });
            }
            // The image data: no frame header precedes it.
            0xd9 | 0xda => return None,
            0xe1 => is_turned |= body.get(2..length).is_some_and(is_on_its_side),
            _ => {}
        }
        rest = body.get(length.max(2)..)?;
    }
}

/// Returns whether the Exif orientation turns the image by 90°.
fn is_on_its_side(segment: &[u8]) -> bool {
    let turned = || {
        let tiff = segment.strip_prefix(EXIF)?;
        let is_little = tiff.starts_with(b"II");
        let short = |at| if is_little { little16(tiff, at) } else { big16(tiff, at) };
        let long = |at| if is_little { little32(tiff, at) } else { big32(tiff, at) };
        let first = usize::try_from(long(4)?).ok()?;
        let count = usize::try_from(short(first)?).ok()?;
        let mut entries = (0..count).map(|it| first + 2 + it * 12);
        let entry = entries.find(|at| short(*at) == Some(u32::from(ORIENTATION)))?;
        short(entry + 8)
    };
    turned().is_some_and(|it| (5..=8).contains(&it))
}

/// The largest of its sizes (the others are of tiles), after rotation. Mirroring does not change
/// the size.
fn size_of_avif(head: &[u8]) -> Option<Size> {
    let boxes = |name: &'static [u8; 4]| {
        head.windows(4).enumerate().filter(move |(_, it)| it == name).map(|(at, _)| at)
    };
    let size = |at| Some((big32(head, at + 8)?, big32(head, at + 12)?));
    let all = boxes(b"ispe").filter_map(size);
    let (width, height) =
        all.max_by_key(|(width, height)| u64::from(*width) * u64::from(*height))?;
    // A box of nine bytes: length, name, and number of quarter turns.
    let is_turn = |at: &usize| at.checked_sub(4).and_then(|it| big32(head, it)) == Some(9);
    let turns = boxes(b"irot").filter(is_turn).filter_map(|at| head.get(at + 4));
    let is_turned = turns.into_iter().any(|it| it & 1 == 1);
    Some(if is_turned { (height, width) } else { (width, height) })
}

/// Width and height in a fixed unit, or the `viewBox`; with a `viewBox`, one side is enough.
fn size_of_vector(head: &[u8]) -> Option<Size> {
    let head = head.get(..VECTOR_BYTES_MAX.min(head.len()))?;
    let text = String::from_utf8_lossy(head);
    let (_, element) = text.split_once("<svg")?;
    let element = element.split_once('>').map_or(element, |(it, _)| it);
    let shown = attribute(element, "viewBox").and_then(|value| {
        let numbers = value.split([' ', ',', '\n', '\t']).filter(|it| !it.is_empty());
        let numbers: Option<Vec<f64>> = numbers.map(|it| it.parse().ok()).collect();
        let [_, _, width, height] = numbers?[..] else { return None };
        (width > 0.0 && height > 0.0).then_some((width, height))
    });
    let side = |name| attribute(element, name).and_then(length);
    let (width, height) = match (side("width"), side("height"), shown) {
        (Some(width), Some(height), _) => (width, height),
        (Some(width), None, Some(shown)) => (width, width * shown.1 / shown.0),
        (None, Some(height), Some(shown)) => (height * shown.0 / shown.1, height),
        (None, None, Some(shown)) => shown,
        _ => return None,
    };
    // A number out of range becomes the limit and is ignored.
    Some((width.round() as u32, height.round() as u32))
}

/// Returns the value of an attribute of an element.
fn attribute<'e>(element: &'e str, name: &str) -> Option<&'e str> {
    let mut found = element.match_indices(name).map(|(at, _)| element.split_at(at));
    found.find_map(|(before, from)| {
        let is_whole = before.ends_with(|it: char| it.is_ascii_whitespace());
        let value = from[name.len()..].trim_start().strip_prefix('=').filter(|_| is_whole)?;
        let value = value.trim_start();
        let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        value[1..].split(quote).next()
    })
}

/// Returns a length of an SVG in pixels; `None` for a percentage.
fn length(value: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 7] = [
        ("px", 1.0),
        ("pt", 96.0 / 72.0),
        ("pc", 16.0),
        ("mm", 96.0 / 25.4),
        ("cm", 96.0 / 2.54),
        ("in", 96.0),
        ("", 1.0),
    ];
    let value = value.trim();
    let (number, pixels) =
        UNITS.iter().find_map(|(unit, pixels)| Some((value.strip_suffix(unit)?, pixels)))?;
    Some(number.trim_end().parse::<f64>().ok()? * pixels)
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn big16(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at).map(|it| u32::from(u16::from_be_bytes(it)))
}

fn big32(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at).map(u32::from_be_bytes)
}

fn little16(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at).map(|it| u32::from(u16::from_le_bytes(it)))
}

fn little32(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A photograph of 640 × 480, after a segment with an orientation.
    fn photograph(orientation: u8) -> Vec<u8> {
        let mut exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
        exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
        let mut bytes = vec![0xff, 0xd8, 0xff, 0xe1, 0, exif.len() as u8 + 2];
        bytes.extend(exif);
        bytes.extend(b"\xff\xdb\0\x04\0\0\xff\xff\xc2\0\x0b\x08\x01\xe0\x02\x80\x01");
        bytes
    }

    /// An image of 640 × 480 with some quarter turns.
    fn turned(quarters: u8) -> Vec<u8> {
        let head = b"\0\0\0\x1cftypavif\0\0\0\x14ispe\0\0\0\0\0\0\x02\x80\0\0\x01\xe0";
        [&head[..], &b"\0\0\0\x09imir\x01\0\0\0\x09irot"[..], &[quarters]].concat()
    }

    #[test]
    fn a_size_is_read_from_the_first_bytes() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0".to_vec();
        let webp = |chunk: &[u8]| [b"RIFF\0\0\0\0WEBP", chunk].concat();
        for (bytes, size) in [
            (png, (640, 480)),
            (b"GIF89a\x80\x02\xe0\x01".to_vec(), (640, 480)),
            (photograph(1), (640, 480)),
            (photograph(6), (480, 640)),
            (webp(b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01"), (640, 480)),
            (webp(b"VP8L\0\0\0\0\x2f\x7f\xc2\x77\0"), (640, 480)),
            (webp(b"VP8X\0\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0\0"), (640, 480)),
            (b"\0\0\0\x1cftypavif ispe\0\0\0\0\0\0\x02\x80\0\0\x01\xe0".to_vec(), (640, 480)),
            (turned(0), (640, 480)),
            (turned(2), (640, 480)),
            (turned(1), (480, 640)),
            (turned(3), (480, 640)),
            (b"<?xml?><svg width='640' viewBox='0 0 1 1' height='479.6px'>".to_vec(), (640, 480)),
            (b"<svg stroke-width='2' viewBox=\"0 0 640 480\">".to_vec(), (640, 480)),
            (
                b"<svg\n\twidth = '100%' height='100%' viewBox='-5,-5, 640,480'>".to_vec(),
                (640, 480),
            ),
            (b"<svg viewBox='0 0 64 48' width='640'>".to_vec(), (640, 480)),
            (b"<svg height='5in' viewBox='0 0 4 3'>".to_vec(), (640, 480)),
            (b"<svg width='480pt' height='360 pt'>".to_vec(), (640, 480)),
        ] {
            assert_eq!(size_of(&bytes), Some(size), "{}", bytes.escape_ascii());
            for end in 0..bytes.len().saturating_sub(3) {
                let _ = size_of(&bytes[..end]); // a cut file is no reason to panic
            }
        }
        for bytes in [
            &b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\0\0\0\x01\xe0"[..],
            b"<svg width='100%' height='5'>",
            b"<svg viewBox='0 0 0 5'>",
            b"<svg viewBox='0 0 5'>",
            b"<svg viewBox='0 0 5 x' width='5'>",
            b"<svg width=5 height=5>",
            b"<svg width='9e9' height='5'>",
            b"<svg width='-3' height='5'>",
            b"\xff\xd8\xff\xda\0\x04",
            b"text",
            b"",
        ] {
            assert_eq!(size_of(bytes), None, "{}", bytes.escape_ascii());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(start in 0_usize..6, bytes: Vec<u8>) {
            let magic: [&[u8]; 6] =
                [b"\xff\xd8\xff", b"RIFF1234WEBPVP8", b"\x89PNG", b"1234ftyp", b"BM", b"<svg"];
            let _ = size_of(&[magic[start], bytes.as_slice()].concat()); // only that it returns
        }
    }
}
