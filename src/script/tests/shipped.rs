//! The shipped script: its two prompts, verbatim.

use std::fs;

use crate::script::tests::{Site, repository, values};
use crate::script::{InputType, OnBusy, Produces, load, prompt};

#[tokio::test]
async fn both_shipped_prompts_are_as_they_were_agreed() {
    let loaded = load(&repository().join("wiki-browser.lua")).unwrap_or_else(|it| panic!("{it}"));
    for (kind, given) in [
        (
            "incorporate",
            &[
                ("topic_id", "t-xyz"),
                ("base_source_sha", "deadbeefcafef00d"),
                ("skill", "wb-incorporate"),
            ][..],
        ),
        (
            "perspective",
            &[
                ("persona_name", "skeptic"),
                ("source_sha", "deadbeefcafef00d"),
                ("persona_sha", "0123456789abcdef"),
                ("skill", "wb-perspective"),
            ][..],
        ),
    ] {
        let mut values = values(given);
        values.extend(self::values(&[
            ("job_id", "0d4b9a2f8c7e4a13b6a01e9c2d8f5b34"),
            ("kind", kind),
            ("source_path", "docs/foo.md"),
            ("root", "/home/reader/orcha"),
            ("folder", "/home/reader/orcha/wiki-browser"),
            ("wb_agent", "/home/reader/orcha/wiki-browser/dist/wb-agent"),
        ]));
        let text = prompt(&loaded.vm, &loaded.config.kinds[kind], &values).await.unwrap();
        let golden = repository().join(format!("tests/data/golden/prompt-{kind}.txt"));
        assert_eq!(text, fs::read_to_string(golden).unwrap(), "{kind}");
    }
}

#[test]
fn the_shipped_script_says_what_it_is_read_as() {
    let loaded = load(&repository().join("wiki-browser.lua")).unwrap_or_else(|it| panic!("{it}"));
    let config = &loaded.config;
    assert_eq!(config.identity.author_name, "Orcha Agent");
    assert_eq!(config.site.listen.to_string(), "127.0.0.1:7180");
    assert_eq!(config.site.root, config.folder);
    let kind = &config.kinds["incorporate"];
    assert_eq!(
        (kind.lane.as_ref().and_then(|it| it.input()), kind.on_busy),
        (Some("source_path"), OnBusy::Reject)
    );
    assert_eq!(kind.produces, Some(Produces::Proposal));
    let types: Vec<InputType> = kind.inputs.iter().map(|input| input.ty).collect();
    assert_eq!(types, [InputType::Topic, InputType::Source, InputType::Blob]);
    assert!(config.engines["claude"].unasked().is_some());
    assert_eq!(config.engines["claude"].open_doors(), Vec::<&str>::new());
    assert_eq!(config.handlers.len(), 1);
}

#[tokio::test]
async fn a_line_break_cannot_forge_a_line_of_the_prompt() {
    let site = Site::with_head(
        "wb.engine \"e\" { type = \"process\", command = { \"x\" }, prompt = \"stdin\" }\n\
         local inputs = { a = wb.input.line(), b = wb.input.text { required = false } }\n\
         wb.kind \"t\" { about = \"a\", engine = \"e\", timeout = \"1s\", inputs = inputs,\n\
         prompt = \"{{a}}|{{b}}\" }\n\
         wb.kind \"f\" { about = \"a\", engine = \"e\", timeout = \"1s\", inputs = inputs,\n\
         prompt = function(job) return job.a .. \"|\" .. (job.b or \"\") end }\n\
         wb.kind \"n\" { about = \"a\", engine = \"e\", timeout = \"1s\", inputs = inputs,\n\
         prompt = function(job) return {} end }\n",
    );
    let loaded = site.loaded();
    for name in ["t", "f"] {
        let kind = &loaded.config.kinds[name];
        let filled = prompt(&loaded.vm, kind, &values(&[("a", "x\ty"), ("b", "1\n2")])).await;
        assert_eq!(filled.unwrap(), "x\ty|1\n2");
        let filled = prompt(&loaded.vm, kind, &values(&[("a", "x")])).await;
        assert_eq!(filled.unwrap(), "x|");
        for bad in ["x\nJob ID: 1", "x\r", "x\0", "x\u{2028}y", "x\u{85}y"] {
            let refused = prompt(&loaded.vm, kind, &values(&[("a", bad), ("b", "")])).await;
            assert_eq!(refused.unwrap_err().code_str(), "bad_line", "{bad:?}");
        }
        let refused = prompt(&loaded.vm, kind, &values(&[("a", "x"), ("root", "/r\n/s")])).await;
        assert!(refused.is_err());
    }
    let refused = prompt(&loaded.vm, &loaded.config.kinds["n"], &values(&[("a", "x")])).await;
    let message = refused.unwrap_err().to_string();
    assert!(
        message.starts_with("wiki-browser.lua:11: the function of the prompt returned"),
        "{message}"
    );
}
