//! `wb.channels`, `wb.channel_type` and `wb.limits.channels`: the resulting config, and messages
//! about mistakes.

use crate::script::tests::Site;
use crate::script::{ChannelLimits, ChannelWakes, Loaded};

fn loaded(head: &str, files: &[(&str, &str)]) -> Loaded {
    let site = Site::with_head(head);
    for (path, text) in files {
        site.write(path, text);
    }
    site.loaded()
}

#[test]
fn a_type_has_its_file_and_the_bounds_of_the_site() {
    let loaded = loaded(
        "wb.limits { channels = { hops = 4, members = 30 } }\n\
         wb.channels { catch_up = 5, footer = \" END \", primer = \"channels/p.md\" }\n\
         wb.channel_type \"incident\" { about = \"Mend it\", intent = \"channels/i.md\", \
         speaks = \"chair\", wakes = \"nothing\", budget = { turns = 60 }, limits = { \
         per_root = 32 } }\n\
         wb.channel_type \"plain\" { about = \"Talk\" }\n",
        &[("channels/i.md", "Find out.\nMend.\n"), ("channels/p.md", "You are {{you}}.\n")],
    );
    let channels = &loaded.config.channels;
    assert_eq!(channels.primer.as_deref(), Some("You are {{you}}."));
    assert_eq!((channels.footer.as_deref(), channels.catch_up), (Some("END"), 5));
    let site = ChannelLimits { hops: 4, members: 30, ..ChannelLimits::default() };
    assert_eq!(channels.limits, site);
    let incident = &channels.types["incident"];
    assert_eq!(incident.intent, "Find out.\nMend.");
    assert_eq!((incident.is_one_way, incident.wakes), (true, ChannelWakes::Nothing));
    assert_eq!(incident.limits, ChannelLimits { per_root: 32, ..site });
    assert_eq!(
        (channels.types["plain"].intent.as_str(), incident.budget.turns),
        ("Talk", Some(60))
    );
    let files: Vec<&str> = loaded.config.files.iter().map(|it| it.path.as_str()).collect();
    assert!(files.contains(&"channels/i.md") && files.contains(&"channels/p.md"), "{files:?}");
}

#[test]
fn mistakes_of_channels_are_told_with_their_line() {
    let long = format!("wb.channel_type \"{}\" {{ about = \"a\" }}", "a".repeat(25));
    for (head, expected) in [
        ("wb.channel_type \"x_y\" { about = \"a\" }", "bad-name"),
        (long.as_str(), "bad-name"),
        ("wb.channel_type \"x\" { about = \"a\", speaks = \"all!\" }", "unknown-word"),
        ("wb.channel_type \"x\" { about = \"a\", intent = \"../x.md\" }", "bad-path"),
        ("wb.channel_type \"x\" { about = \"a\", intent = \"channels/no.md\" }", "missing-file"),
        ("wb.channel_type \"x\" { about = \"a\", budget = {} }", "bad-text"),
        ("wb.channel_type \"x\" { about = \"a\", budget = { turns = \"10\" } }", "wrong-type"),
        ("wb.channel_type \"x\" { about = \"a\", limits = { hops = 17 } }", "out-of-range"),
        (
            "wb.channel_type \"x\" { about = \"a\", limits = { hops = 65 }, \
             budget = { turns = 1 } }",
            "out-of-range",
        ),
        ("wb.limits { channels = { pair = 31 } }", "out-of-range"),
        ("wb.limits { channels = { members = 51 } }", "out-of-range"),
        ("wb.channels { catch_up = 51 }", "out-of-range"),
        ("wb.channels { primer = \"/etc/passwd\" }", "bad-path"),
    ] {
        let errors = Site::with_head(&format!("{head}\n")).errors();
        let codes: Vec<&str> = errors.iter().map(|it| &*it.code).collect();
        assert_eq!(codes, [expected], "{head}");
        assert!(errors[0].to_string().contains("--> wiki-browser.lua:4:"), "{}", errors[0]);
    }
}

#[test]
fn a_primer_names_what_there_is() {
    let site = Site::with_head("wb.channels { primer = \"p.md\" }\n");
    site.write("p.md", "{{member}} {{ you }}\n");
    let report = site.load().unwrap_err().to_string();
    assert!(report.contains("did you mean `members`"), "{report}");
    assert!(report.contains("`{{` in the primer begins no name"), "{report}");
}
