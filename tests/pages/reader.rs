//! A document's page and the requests of its script: parts, the bytes of a selection, images.

use crate::pages::Browser;
use crate::support::Bench;

const TEXT: &str = "# Guide\n\nThe *first* line, and `more`.\n\n- one\n- two\n";

fn query(pairs: &[(&str, &str)]) -> String {
    serde_urlencoded::to_string(pairs).unwrap()
}

#[test]
fn a_selection_of_the_page_is_bytes_of_the_present_text() {
    let bench = Bench::new();
    bench.write("guide.md", TEXT);
    let _server = bench.serve();
    let shown = bench.get("/api/source/rendered?path=guide.md").ok();
    assert_eq!(shown["headings"][0]["id"], "md-guide");
    assert_eq!(shown["blocks"][1]["start"], 9);
    assert_eq!(shown["blocks"][1]["units"], "The first line, and more.".len());
    assert!(shown["html"].as_str().unwrap().contains("<p data-b=\"9-38\">The <em>first</em>"));
    let blob = shown["blob"].as_str().unwrap();
    let ask = |blob: &str, from: &str, to: &str, text: Option<&str>| {
        let mut pairs = vec![("path", "guide.md"), ("blob", blob), ("from", from), ("to", to)];
        pairs.extend(text.map(|it| ("text", it)));
        bench.get(&format!("/api/source/passage?{}", query(&pairs)))
    };
    let found = ask(blob, "9:5", "9:22", None).ok();
    assert_eq!(found["quote"], "irst* line, and `mo");
    assert_eq!((found["start"].as_u64(), found["end"].as_u64()), (Some(15), Some(34)));
    assert_eq!(ask(blob, "9:20", "42:2", None).ok()["quote"], "more`.\n\n- on");
    assert_eq!(ask(blob, "9:0", "9:0", None).ok()["quote"], "The *first* line, and `more`.");
    assert_eq!(ask(blob, "9:4", "9:11", Some("1")).ok()["quote"], "*first*");
    for (from, to) in
        [("9:9", "9:3"), ("9:0", "9:99"), ("10:0", "10:1"), ("9", "9:1"), ("42:1", "9:1")]
    {
        let refused = ask(blob, from, to, None);
        assert_eq!((refused.status, refused.code()), (400, "bad_selection"), "{from} {to}");
    }
    bench.write("guide.md", format!("{TEXT}More.\n"));
    let refused = ask(blob, "9:4", "9:5", None);
    assert_eq!((refused.status, refused.code()), (409, "source_changed"));
    assert_eq!(bench.get("/api/source/rendered?path=nothing.md").status, 404);
}

#[test]
fn a_script_gets_the_parts_that_it_asks_for() {
    let bench = Bench::new();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line", "Better");
    let part = |ids: &str| browser.part("/d/guide.md", ids).html;
    let notes = part("notes");
    assert!(notes.trim_start().starts_with("<aside") && notes.contains(&topic.id), "{notes}");
    assert!(!notes.contains("<article") && !notes.contains("<html"), "{notes}");
    let both = part("text, facts");
    assert!(both.contains("<article") && both.contains("id=\"facts\""), "{both}");
    assert!(!both.contains("<aside"), "{both}");
    assert_eq!(part("nothing"), "");
}

#[test]
fn only_images_that_git_tracks_are_sent_as_they_are() {
    let bench = Bench::new();
    let gif = "GIF89a, and the rest";
    std::fs::write(bench.base.join("outside.gif"), gif).unwrap();
    std::fs::create_dir(bench.top.join("img")).unwrap();
    bench.write("img/a.gif", gif);
    bench.write("img/a.svg", "<svg onload=\"alert(1)\"/>");
    bench.write("img/false.gif", "<script>alert(1)</script>");
    let link = bench.top.join("img/link.gif");
    std::os::unix::fs::symlink(bench.base.join("outside.gif"), link).unwrap();
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "images"]);
    bench.write("img/loose.gif", gif);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let seen = browser.get("/raw/img/a.gif");
    assert_eq!((seen.status, seen.header("content-type")), (200, Some("image/gif")));
    let seen = browser.get("/raw/img/a.svg");
    assert_eq!((seen.status, seen.header("content-disposition")), (200, Some("attachment")));
    assert!(seen.header("content-security-policy").unwrap().contains("sandbox"));
    for path in ["img/false.gif", "img/loose.gif", "guide.md", "img/nothing.gif", ".git/x.gif"] {
        assert_eq!(browser.get(&format!("/raw/{path}")).status, 404, "{path}");
    }
    assert_eq!(browser.get("/raw/img/link.gif").status, 400);
    assert_eq!(Browser::new(&server).get("/raw/img/a.gif").status, 401);
}
