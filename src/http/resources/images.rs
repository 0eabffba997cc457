//! Images of the repository, for the documents that show them.
//!
//! **Invariant:** nothing but an image is sent, and never as something that can run: a vector image
//! is inert where it is shown, and a file to be saved where it is opened.

use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{Error, Result, SourcePath};
use crate::flows::{self, Site};
use crate::http::markdown::is_image;
use crate::http::{Call, get, reply};

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    get("/raw/{*path}", site, image)
}

async fn image(site: Site, call: Call) -> Result<Response> {
    let path: SourcePath = call.param("path")?;
    if !is_image(path.as_str()) {
        return Err(Error::not_found(format!("{path} is not an image"))
            .code("not_an_image")
            .hint("only images are served raw; documents are under /d"));
    }
    let bytes = flows::sources::image(&site, &call.caller()?, &path).await?;
    let kind = kind_of(&path, &bytes).ok_or_else(|| {
        Error::not_found(format!("{path} is not the kind of image its name says"))
            .code("not_an_image")
    })?;
    let mut response = reply::typed(StatusCode::OK, kind, bytes);
    if kind == "image/svg+xml" {
        let disposition = HeaderValue::from_static("attachment");
        response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// Returns the media type of an image, if its first bytes match it.
fn kind_of(path: &SourcePath, bytes: &[u8]) -> Option<&'static str> {
    let ending = path.as_str().rsplit_once('.').map_or("", |(_, it)| it).to_ascii_lowercase();
    let begins = |it: &[u8]| bytes.starts_with(it);
    let (kind, is_so) = match ending.as_str() {
        "png" => ("image/png", begins(b"\x89PNG\r\n\x1a\n")),
        "jpg" | "jpeg" => ("image/jpeg", begins(b"\xff\xd8\xff")),
        "gif" => ("image/gif", begins(b"GIF8")),
        "webp" => ("image/webp", begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")),
        "avif" => ("image/avif", bytes.get(4..8) == Some(b"ftyp")),
        "bmp" => ("image/bmp", begins(b"BM")),
        "ico" => ("image/x-icon", begins(b"\0\0\x01\0")),
        "svg" => ("image/svg+xml", std::str::from_utf8(bytes).is_ok()),
        _ => return None,
    };
    is_so.then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_what_its_name_says() {
        let kind = |path: &str, bytes: &[u8]| kind_of(&path.parse().unwrap(), bytes);
        assert_eq!(kind("a.PNG", b"\x89PNG\r\n\x1a\nx"), Some("image/png"));
        assert_eq!(kind("a.jpg", b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(kind("a.svg", b"<svg/>"), Some("image/svg+xml"));
        assert_eq!(kind("a.webp", b"RIFF1234WEBP"), Some("image/webp"));
        for (path, bytes) in
            [("a.png", &b"<script>"[..]), ("a.gif", b""), ("a.html", b"x"), ("a.svg", b"\xff")]
        {
            assert_eq!(kind(path, bytes), None, "{path}");
        }
    }
}
