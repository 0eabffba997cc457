//! `wb.assistant`: the resulting config, and messages about mistakes.

use std::time::Duration;

use crate::script::tests::{Site, check};
use crate::script::{Mode, Thinking};

/// An engine on line 4, and an assistant with these fields from line 5 on.
fn assistant(fields: &str) -> String {
    format!(
        "wb.engine \"c\" {{ type = \"process\", command = {{ \"claude\" }}, prompt = \"stdin\", \
         reads = \"claude-stream-json\" }}\nwb.assistant {{ {fields} }}\n"
    )
}

#[test]
fn an_assistant_has_a_kind_that_no_list_has() {
    let site = Site::with_head(&assistant(
        "runtimes = { claude_code = \"c\" }, claude_code_persons = { \"ada\" }, persons = { \
         \"ada\", \"bea\" }, limits = { run = \"10m\", running = 2, output_kib = 8 }",
    ));
    let loaded = site.loaded();
    let config = &loaded.config;
    let found = config.assistant.as_ref().unwrap();
    assert_eq!(found.mode, Mode::ClaudeCode);
    assert!(found.admits("bea") && !found.admits("cleo"));
    assert!(found.admits_to(Mode::ClaudeCode, "ada") && !found.admits_to(Mode::ClaudeCode, "bea"));
    assert_eq!((found.limits.output_bytes, found.limits.prompt_bytes), (8 * 1024, 64 * 1024));
    assert_eq!((config.chat.running, config.chat.running_person), (2, 2));
    assert!(config.kinds.is_empty() && config.kind("assistant_claude_code").is_none());
    let kind = config.kind_of_job("assistant_claude_code").unwrap();
    assert_eq!((kind.timeout, kind.engine.as_str()), (Duration::from_secs(600), "c"));
    let codes: Vec<&str> = loaded.warnings.iter().map(|it| &*it.code).collect();
    assert_eq!(codes, ["assistant-unsandboxed"]);
}

#[test]
fn a_person_who_is_named_by_an_address_is_warned_of() {
    let site = Site::with_head(&assistant(
        "runtimes = { claude_code = \"c\" }, claude_code_persons = { \"person:ada\" }, \
         persons = { \"ada\", \"person:bea\" }",
    ));
    let loaded = site.loaded();
    let named = loaded.warnings.iter().filter(|it| it.code == "bad-name");
    let told: Vec<String> = named.map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    for name in ["ada", "bea"] {
        let words = format!("write the name alone: \"{name}\"");
        assert!(told.iter().any(|it| it.contains(&words)), "{told:?}");
    }
}

#[test]
fn a_subscription_is_declared_whole_and_is_nobodys_usual_mode() {
    let gateway = |fields: &str, more: &str| {
        let engine = format!("wb.engine \"g\" {{ type = \"gateway\", {fields} }}\n");
        let assistant = "wb.assistant { runtimes = { gateway_subscription = \"g\"";
        Site::with_head(&format!("{engine}{assistant}{more} }}\n"))
    };
    let whole = "provider = \"openai-codex\", model = \"m-1\", thinking = \"low\"";
    let site = gateway(whole, " }");
    let loaded = site.loaded();
    let model = loaded.config.engines["g"].subscribed().unwrap();
    assert_eq!((model.provider, model.thinking, model.context), ("openai-codex", "low", 200_000));
    let found = loaded.config.assistant.as_ref().unwrap();
    assert_eq!(found.mode, Mode::GatewaySubscription);
    assert!(found.admits_to(Mode::GatewaySubscription, "anybody"));
    for (fields, code, says) in [
        ("model = \"m\"", "missing-field", "has no `provider`"),
        ("provider = \"openai-codex\"", "missing-field", "has no `model`"),
        ("provider = \"anthropic\", model = \"m\"", "unknown-word", "claude_code"),
        (&format!("{whole}, key = wb.secret.env \"K\""), "unknown-field", "has no `key`"),
        (&format!("{whole}, command = {{ \"x\" }}"), "unknown-field", "has no `command`"),
        (&format!("{whole}, price = {{ input = 1, output = 1 }}"), "unknown-field", "`price`"),
        (&whole.replace("low", "2048"), "unknown-word", "number of tokens"),
    ] {
        let errors = gateway(fields, " }").errors();
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|it| it.code == code), "{fields}: {text:?}");
        assert!(text.concat().contains(says), "{fields}: {text:?}");
    }
    let both = format!(
        "wb.engine \"g\" {{ type = \"gateway\", {whole} }}\n\
         wb.engine \"m\" {{ type = \"anthropic\", {MODEL} }}\n\
         wb.assistant {{ runtimes = {{ gateway_subscription = \"g\", anthropic_api_key = \"m\" }}, \
         mode = \"gateway_subscription\" }}\n"
    );
    let errors = Site::with_head(&both).errors();
    assert!(errors[0].to_string().contains("not the assistant's usual mode"), "{}", errors[0]);
    let wrong = assistant("runtimes = { gateway_subscription = \"c\" }");
    assert!(check(&wrong, &["5:29 broken-rule"]).contains("does not fit"));
}

#[test]
fn hosts_are_names() {
    let hosts = |list: &str| {
        Site::with_head(&assistant(&format!(
            "runtimes = {{ claude_code = \"c\" }}, claude_code_persons = {{ \"ada\" }}, \
             web_hosts = {{ {list} }}"
        )))
    };
    let site = hosts("\"Docs.rs\", \"a.example.org\"");
    let found = site.loaded().config.assistant.as_ref().unwrap().web_hosts.clone();
    assert_eq!(found, ["docs.rs", "a.example.org"]);
    for wrong in ["https://docs.rs", "docs.rs/x", "*.docs.rs", "localhost", ".rs", "docs.rs."] {
        let errors = hosts(&format!("\"{wrong}\"")).errors();
        assert_eq!(errors[0].code, "bad-text", "{wrong}");
    }
}

/// An engine of type "anthropic" with these fields on line 4, and an assistant that uses it.
fn keyed(fields: &str) -> String {
    format!(
        "wb.engine \"m\" {{ type = \"anthropic\", {fields} }}\n\
         wb.assistant {{ runtimes = {{ anthropic_api_key = \"m\" }} }}\n"
    )
}

const MODEL: &str = "model = \"m-1\", key = wb.secret.env \"MODEL_KEY\"";

#[test]
fn a_model_with_a_key_answers_everybody() {
    let site = Site::with_head(&keyed(&format!(
        "{MODEL}, thinking = \"2048\", price = {{ input = 3, output = 15 }}"
    )));
    let loaded = site.loaded();
    let config = &loaded.config;
    let model = config.engines["m"].model().unwrap();
    assert_eq!((model.max_output, model.context), (8_192, 200_000));
    assert_eq!(model.thinking, Thinking::Budget(2_048));
    assert_eq!(model.price.unwrap().cache_read, 3.0);
    assert_eq!(model.base_url.to_string(), "https://api.anthropic.com");
    let found = config.assistant.as_ref().unwrap();
    assert_eq!(found.mode, Mode::AnthropicApiKey);
    assert!(found.admits_to(Mode::AnthropicApiKey, "anybody"));
    assert_eq!(config.kind_of_job("assistant_anthropic_api_key").unwrap().engine, "m");
    assert!(loaded.leads.iter().any(|it| format!("{:?}", it.to).contains("MODEL_KEY")));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn a_model_is_declared_whole() {
    for (fields, code, says) in [
        ("key = wb.secret.env \"K\"", "missing-field", "has no `model`"),
        ("model = \"m\"", "missing-field", "wb.secret.env"),
        ("model = \"m\", key = \"sk-1\"", "wrong-type", "wb.secret"),
        (&format!("{MODEL}, command = {{ \"claude\" }}"), "unknown-field", "has no `command`"),
        (&format!("{MODEL}, thinking = \"hard\""), "unknown-word", "at least 1024"),
        (&format!("{MODEL}, thinking = \"9000\""), "unknown-word", "below `max_output`"),
        (&format!("{MODEL}, max_output = 1"), "out-of-range", "256 to 128000"),
        (&format!("{MODEL}, base_url = \"http://example.org\""), "bad-text", "this machine"),
        (&format!("{MODEL}, price = {{ input = -1, output = 1 }}"), "out-of-range", "is -1"),
    ] {
        let errors = Site::with_head(&keyed(fields)).errors();
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|it| it.code == code), "{fields}: {text:?}");
        assert!(text.concat().contains(says), "{fields}: {text:?}");
    }
    let elsewhere = "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, \
        prompt = \"stdin\", model = \"m\" }\n";
    let errors = Site::with_head(elsewhere).errors();
    assert!(errors[0].to_string().contains("asks no model"), "{}", errors[0]);
}

#[test]
fn a_model_takes_no_jobs_and_money_needs_a_price() {
    let kind =
        "wb.kind \"x\" { about = \"a\", engine = \"m\", timeout = \"5m\", prompt = \"x\" }\n";
    let errors = Site::with_head(&(keyed(MODEL) + kind)).errors();
    assert!(errors[0].to_string().contains("answers the assistant only"), "{}", errors[0]);
    let process = "wb.engine \"p\" { type = \"process\", command = { \"claude\" }, \
        prompt = \"stdin\" }\nwb.assistant { runtimes = { anthropic_api_key = \"p\" } }\n";
    let errors = Site::with_head(process).errors();
    assert!(errors[0].to_string().contains("does not fit"), "{}", errors[0]);
    let bounded = keyed(MODEL).replace("\"m\" } }", "\"m\" }, limits = { cost_usd = 2 } }");
    let site = Site::with_head(&bounded);
    let loaded = site.loaded();
    let codes: Vec<&str> = loaded.warnings.iter().map(|it| &*it.code).collect();
    assert_eq!(codes, ["no-price"]);
}

#[test]
fn mistakes_of_an_assistant_are_told_with_their_place() {
    for (fields, expected) in [
        ("runtimes = {}", "5:16 bad-text"),
        ("runtimes = { claude_code = 1 }", "5:29 wrong-type"),
        ("runtimes = { claud_code = \"c\" }", "5:29 unknown-word"),
        ("runtimes = { claude_code = \"x\" }", "5:29 unknown-engine"),
        ("runtimes = { claude_code = \"c\" }, limits = { run = \"1d\" }", "5:63 out-of-range"),
        ("runtimes = { claude_code = \"c\" }, limits = { running = 201 }", "5:63 out-of-range"),
    ] {
        let errors = Site::with_head(&assistant(fields)).errors();
        let codes: Vec<&str> = errors.iter().map(|it| &*it.code).collect();
        let code = expected.split_once(' ').unwrap().1;
        assert_eq!(codes, [code], "{fields}: {}", errors[0]);
        assert_eq!(errors[0].at.as_ref().unwrap().line, 5);
    }
    let plain = "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, \
        prompt = \"stdin\" }\nwb.assistant { runtimes = { claude_code = \"e\" } }\n";
    let errors = Site::with_head(plain).errors();
    assert!(errors[0].to_string().contains("reads = \"claude-stream-json\""), "{}", errors[0]);
}

#[test]
fn no_vault_is_in_the_site_or_around_it() {
    let with = |fields: &str| {
        let fields = format!("runtimes = {{ claude_code = \"c\" }}, {fields}");
        let report = Site::with_head(&assistant(&fields)).load().err();
        let errors = report.map(|it| it.errors).unwrap_or_default();
        errors.iter().map(|it| it.code.to_string()).collect::<Vec<String>>()
    };
    for fields in [
        "vault_of = { ada = \".\" }",
        "vault_of = { ada = \"docs\" }",
        "vault_of = { ada = \"data/vaults/x\" }",
        "vault_of = { ada = \"/\" }",
        "vaults = \"docs\"",
        "vaults = \"..\"",
    ] {
        assert_eq!(with(fields), ["vault-overlap"], "{fields}");
    }
    for fields in ["vault_of = { ada = \"../ada\" }", "vaults = \"data/vaults\""] {
        assert_eq!(with(fields), [] as [&str; 0], "{fields}");
    }
}

#[test]
fn no_kind_takes_a_name_of_the_assistant() {
    let kind = "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, \
        prompt = \"stdin\" }\nwb.kind \"assistant_mine\" { about = \"a\", engine = \"e\", \
        timeout = \"5m\", prompt = \"x\" }\n";
    let errors = Site::with_head(kind).errors();
    assert!(errors.iter().any(|it| it.code == "bad-name"), "{}", errors[0]);
}

#[test]
fn a_fallback_needs_a_subscription_and_a_key() {
    let declared = |runtimes: &str| {
        let gateway = "type = \"gateway\", provider = \"openai-codex\", model = \"m-2\"";
        Site::with_head(&format!(
            "wb.engine \"g\" {{ {gateway} }}\nwb.engine \"m\" {{ type = \"anthropic\", {MODEL} \
             }}\nwb.assistant {{ runtimes = {{ {runtimes} }}, fallback = true }}\n"
        ))
    };
    let both = "anthropic_api_key = \"m\", gateway_subscription = \"g\"";
    assert!(declared(both).loaded().config.assistant.as_ref().unwrap().fallback);
    for one in both.split(", ") {
        let errors = declared(one).errors();
        assert_eq!(errors[0].code, "broken-rule", "{one}");
        assert!(errors[0].to_string().contains("`fallback` of the assistant"), "{}", errors[0]);
    }
}

#[test]
fn an_app_of_linkedin_is_whole_and_leads_back_here() {
    let app = |more: &str| {
        format!(
            "runtimes = {{ claude_code = \"c\" }}, claude_code_persons = {{ \"ada\" }}, \
             linkedin = {{ client_id = wb.secret.env \"I\", client_secret = wb.secret.env \"S\", \
             {more} }}"
        )
    };
    let right = "version = \"202610\", redirect = \"https://w.example/linkedin/callback\"";
    let loaded = Site::with_head(&assistant(&app(right))).loaded();
    let found = loaded.config.assistant.as_ref().unwrap();
    assert_eq!(found.tools.len(), crate::script::ASSISTANT_TOOLS.len());
    assert!(!found.linkedin.as_ref().unwrap().reads_comments);
    for (fields, word) in [
        (
            app("version = \"2026\", redirect = \"https://w.example/linkedin/callback\""),
            "`version`",
        ),
        (
            app("version = \"202613\", redirect = \"https://w.example/linkedin/callback\""),
            "`version`",
        ),
        (app("version = \"202610\", redirect = \"https://w.example/back\""), "`redirect`"),
        (
            app("version = \"202610\", redirect = \"http://w.example/linkedin/callback\""),
            "`redirect`",
        ),
        (app("version = \"202610\""), "`redirect`"),
        (
            "runtimes = { claude_code = \"c\" }, tools = { linkedin_post = \"ask\" }".to_owned(),
            "needs `linkedin`",
        ),
    ] {
        let errors = Site::with_head(&assistant(&fields)).errors();
        assert_eq!(errors.len(), 1, "{fields}: {errors:?}");
        assert!(errors[0].to_string().contains(word), "{fields}: {}", errors[0]);
    }
}
