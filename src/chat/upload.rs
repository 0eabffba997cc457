//! Files attached to questions: their types, their names, and those not sent yet.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

use crate::base::image_size::size_of;
use crate::base::{Error, ErrorKind, Millis, PersonId, Result, image_type, is_text};
use crate::store::Tx;

/// Most files per message.
pub const ATTACHMENTS_MAX: usize = 10;
/// Most images per message.
pub const IMAGES_MAX: usize = 3;
/// Largest text file, in bytes: the limit of `read_file`.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Largest image, in bytes; in Base64, this is the providers' limit.
pub const IMAGE_BYTES_MAX: usize = 3_788_800;
/// Longest side of an image, in pixels: the providers' limit.
const IMAGE_SIDE_MAX: u32 = 8_000;
/// Most unsent files per person.
const UNSENT_MAX: i64 = 50;
/// The folder in the vault.
const FOLDER: &str = "agent/uploads";
/// Longest part of a file name that is kept, in bytes.
const STEM_BYTES_MAX: usize = 100;

const INSERT: &str = "
    INSERT INTO chat_uploads (path, person_id, name, kind, bytes, digest, created_ms)
    VALUES (:path, :person, :name, :kind, :bytes, :digest, :now)";
const COUNT: &str = "SELECT COUNT(*) FROM chat_uploads WHERE person_id = :person";
const TAKE: &str = "
    DELETE FROM chat_uploads WHERE person_id = :person AND path = :path
    RETURNING path, name, kind, bytes";
const OLD: &str = "
    SELECT person_id, path, digest FROM chat_uploads WHERE created_ms < :before
    ORDER BY created_ms LIMIT 100";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("chat::upload_insert", INSERT),
    ("chat::upload_count", COUNT),
    ("chat::upload_take", TAKE),
    ("chat::upload_old", OLD),
];

/// A file attached to a message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Attachment {
    /// Its path in the vault.
    pub path: String,
    /// Its name, given by the person.
    pub name: String,
    /// `text`, or the type of an image.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
}

impl Attachment {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Attachment> {
        let bytes: i64 = row.get("bytes")?;
        Ok(Attachment {
            path: row.get("path")?,
            name: row.get("name")?,
            kind: row.get("kind")?,
            bytes: bytes.unsigned_abs(),
        })
    }

    /// Returns whether it is an image.
    pub fn is_image(&self) -> bool {
        self.kind != "text"
    }
}

/// Returns a file's type by its content: `text` or the media type of an image; `None` for anything
/// else.
pub fn type_of(bytes: &[u8]) -> Option<&'static str> {
    match image_type(bytes) {
        Some(kind) => Some(kind).filter(|kind| *kind != "image/gif"),
        None => is_text(bytes).then_some("text"),
    }
}

/// Returns a file's type, if it can be attached.
///
/// # Errors
/// `invalid` with code `attachment_type`; `too_large`, for an image also with code
/// `image_too_large`.
pub fn kind_of(bytes: &[u8]) -> Result<&'static str> {
    let Some(kind) = type_of(bytes).filter(|_| !bytes.is_empty()) else {
        return Err(Error::invalid("only texts (UTF-8), PNG, JPEG and WebP are attached")
            .code("attachment_type"));
    };
    let most = if kind == "text" { TEXT_BYTES_MAX } else { IMAGE_BYTES_MAX };
    if bytes.len() > most {
        let message = format!("the file has {} bytes, {most} are allowed", bytes.len());
        return Err(Error::new(ErrorKind::TooLarge, message).hint("attach a smaller one"));
    }
    if kind != "text" {
        check_size(bytes)?;
    }
    Ok(kind)
}

/// Refuses an image that a provider would refuse: not only its own question would fail, but also
/// later ones, which include it again.
fn check_size(bytes: &[u8]) -> Result<()> {
    let Some((width, height)) = size_of(bytes) else {
        return Err(Error::invalid("the image is damaged: it has no size")
            .code("attachment_type")
            .hint("save it again as PNG, JPEG or WebP"));
    };
    if width.max(height) > IMAGE_SIDE_MAX {
        let message = format!(
            "the image has {width} × {height} pixels; {IMAGE_SIDE_MAX} per side are allowed"
        );
        return Err(Error::new(ErrorKind::TooLarge, message)
            .code("image_too_large")
            .hint("attach a smaller one"));
    }
    Ok(())
}

/// Returns the path for a file: the day, a unique part, and the letters, digits, `-` and `_` of its
/// name.
pub fn path_for(name: &str, kind: &str, at: Millis, unique: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut safe = String::new();
    for letter in stem.nfc() {
        let is_kept = letter.is_alphanumeric() || letter == '_';
        if safe.len() + letter.len_utf8() > STEM_BYTES_MAX {
            break;
        }
        if is_kept {
            safe.push(letter);
        } else if !safe.is_empty() && !safe.ends_with('-') {
            safe.push('-');
        }
    }
    let safe: String = safe.trim_end_matches('-').nfc().collect();
    let stem = if safe.is_empty() { "file" } else { &safe };
    let is_plain =
        (1..=8).contains(&ending.len()) && ending.bytes().all(|it| it.is_ascii_alphanumeric());
    let ending = match kind {
        "image/png" => "png".to_owned(),
        "image/jpeg" => "jpg".to_owned(),
        "image/webp" => "webp".to_owned(),
        _ if is_plain => ending.to_ascii_lowercase(),
        _ => "txt".to_owned(),
    };
    let day = at.rfc3339();
    let day = day.get(..10).unwrap_or_default();
    format!("{FOLDER}/{day}-{unique}-{stem}.{ending}")
}

/// Inserts a person's upload.
///
/// # Errors
/// `busy` with code `too_many_uploads`.
pub fn insert(tx: &Tx<'_>, person: &PersonId, new: &Attachment, digest: &str) -> Result<()> {
    let params = named_params! {":person": person};
    let count: i64 = tx.prepare_cached(COUNT)?.query_row(params, |row| row.get(0))?;
    if count >= UNSENT_MAX {
        let message = format!("{count} of your files are not sent yet");
        return Err(Error::new(ErrorKind::Busy, message)
            .code("too_many_uploads")
            .hint("send them with a message; what is not sent goes after a day"));
    }
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":path": new.path, ":person": person, ":name": new.name, ":kind": new.kind,
        ":bytes": new.bytes as i64, ":digest": digest, ":now": tx.now(),
    })?;
    Ok(())
}

/// Takes an upload that is being sent; `None` if the person did not upload it, or sent it before.
///
/// # Errors
/// As any write.
pub fn take(tx: &Tx<'_>, person: &PersonId, path: &str) -> Result<Option<Attachment>> {
    let params = named_params! {":person": person, ":path": path};
    Ok(tx.prepare_cached(TAKE)?.query_row(params, Attachment::from_row).optional()?)
}

/// Returns old unsent uploads: their owner, path and digest.
///
/// # Errors
/// As any read.
pub fn old(connection: &Connection, before: Millis) -> Result<Vec<(PersonId, String, String)>> {
    let mut statement = connection.prepare_cached(OLD)?;
    let rows = statement.query_map(named_params! {":before": before.0}, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let head = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";
        [&head[..], &width.to_be_bytes(), &height.to_be_bytes(), b"\x08\x02\0\0\0"].concat()
    }

    #[test]
    fn a_file_is_what_its_bytes_say() {
        for (bytes, kind) in [
            (&png(640, 480)[..], Some("image/png")),
            (b"\xff\xd8\xff\xc0\0\x0b\x08\x01\xe0\x02\x80\x01", Some("image/jpeg")),
            (b"RIFF....WEBPVP8X\0\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0\0", Some("image/webp")),
            (&png(8_000, 8_000), Some("image/png")),
            (&png(8_001, 1), None),
            (b"\x89PNG\r\n\x1a\nwithout a size", None),
            (b"\xff\xd8\xff\xe0", None),
            ("Grüße\n".as_bytes(), Some("text")),
            (b"<svg/>", Some("text")),
            (b"", None),
            (b"a\0b", None),
            (b"\xff\xfe", None),
            (b"%PDF-1.7\0", None),
        ] {
            assert_eq!(kind_of(bytes).ok(), kind, "{bytes:?}");
        }
        let long = vec![b'x'; TEXT_BYTES_MAX + 1];
        assert_eq!(kind_of(&long).unwrap_err().kind(), ErrorKind::TooLarge);
        let wide = kind_of(&png(8_001, 1)).unwrap_err();
        assert_eq!((wide.kind(), wide.code_str()), (ErrorKind::TooLarge, "image_too_large"));
    }

    #[test]
    fn a_name_is_made_safe() {
        let at = Millis(1_772_325_000_000);
        let of = |name: &str, kind| path_for(name, kind, at, "0a1b");
        for (name, kind, path) in [
            ("Notes v2.MD", "text", "2026-03-01-0a1b-Notes-v2.md"),
            ("../../etc/passwd", "text", "2026-03-01-0a1b-passwd.txt"),
            ("..\\x\u{202e}gpj.exe", "image/png", "2026-03-01-0a1b-x-gpj.png"),
            (".hidden", "text", "2026-03-01-0a1b-file.hidden"),
            ("Été.jpeg", "image/jpeg", "2026-03-01-0a1b-Été.jpg"),
            ("", "text", "2026-03-01-0a1b-file.txt"),
            ("a\n# b.m d", "text", "2026-03-01-0a1b-a-b.txt"),
        ] {
            assert_eq!(of(name, kind), format!("{FOLDER}/{path}"), "{name}");
        }
        assert!(of(&"é".repeat(900), "text").len() < 200);
    }
}
