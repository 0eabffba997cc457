//! `wb.site { … }`: where the Sources and the data are, and where the site listens.

use std::net::SocketAddr;

use camino::Utf8Path;

use crate::script::config::Site;
use crate::script::load::build::{Builder, resolve};
use crate::script::load::external::{Lead, Target};
use crate::script::load::extract::Checked;

impl Builder<'_> {
    /// Builds the site from its declaration, or from the defaults.
    pub(super) fn site(&mut self) -> Site {
        let defaults;
        let site = match self.single("site") {
            Some(site) => site,
            None => {
                defaults = self.defaults("site");
                &defaults
            }
        };
        let path = |name| site.text(name).map(|it| resolve(self.folder, Utf8Path::new(it)));
        let (root, data) = (path("root").unwrap_or_default(), path("data").unwrap_or_default());
        let wb_agent = path("wb_agent");
        self.site_leads(site, &root, wb_agent.as_deref());
        let listen = self.listen(site);
        self.check_globs(site);
        for name in ["root", "data", "wb_agent"] {
            if let Some(text) = site.text(name).filter(|it| it.starts_with('~')) {
                let message = format!("`{name}` of site is `{}`", text.escape_debug());
                let note = "nobody puts a folder in place of `~`: write the whole path, or one \
                            that is seen from the script, as in \"..\"";
                self.error("bad-path", message, site.spot(name), note);
            }
        }
        // `resolve` leaves no dots: either folder may be the other, or hold it.
        if site.has("data") && (root.starts_with(&data) || self.folder.starts_with(&data)) {
            let message = "`data` of site holds the sources or the script".to_owned();
            let note = "give it a folder of its own: data = \"./data\"";
            self.error("bad-path", message, site.spot("data"), note);
        }
        for (host, spot) in site.lines("public_hosts") {
            if !is_host(host) {
                let message = format!("`{}` is not a host name", host.escape_debug());
                self.error("bad-host", message, spot, "write wiki.example.org, without a scheme");
            }
        }
        let lines = |name| site.lines(name).iter().map(|(line, _)| line.clone()).collect();
        Site {
            root,
            data,
            listen,
            sources: lines("sources"),
            wb_agent,
            public_hosts: lines("public_hosts"),
            name: site.text("name").map(str::to_owned),
        }
    }

    fn check_globs(&mut self, site: &Checked) {
        let globs = site.lines("sources");
        for (written, spot) in globs {
            let glob = written.strip_prefix('!').unwrap_or(written);
            if let Err(cause) = globset::Glob::new(glob) {
                let message = format!("`{}` is not a glob", written.escape_debug());
                self.error("bad-glob", message, spot, &cause.kind().to_string());
            } else if glob.starts_with('/') || glob.split('/').any(|it| it == "..") {
                let message =
                    format!("`{}` matches nothing below the root", written.escape_debug());
                self.error("bad-glob", message, spot, "a glob is relative to `root`, without `..`");
            }
        }
        if !site.has("sources") || site.is_wrong("sources") {
            return;
        }
        let spot = site.spot("sources");
        if globs.is_empty() {
            let message = "`sources` of site is empty".to_owned();
            self.error("bad-text", message, spot, "no file would be a Source");
        } else if globs.iter().all(|(glob, _)| glob.starts_with('!')) {
            let message = "`sources` of site only leaves files out".to_owned();
            self.error("bad-text", message, spot, "also name the Sources: \"**/*.md\"");
        }
    }

    /// Adds a lead for each explicit value; a default that does not exist is not the script's
    /// mistake.
    fn site_leads(&mut self, site: &Checked, root: &Utf8Path, wb_agent: Option<&Utf8Path>) {
        if site.has("root") {
            self.leads.push(Lead::new(Target::Root(root.to_owned()), site.spot("root")));
        }
        if site.has("sources") {
            let globs = site.lines("sources").iter();
            let globs = globs.map(|(it, spot)| Lead::new(Target::Sources(it.clone()), spot));
            self.leads.extend(globs);
        }
        if let Some(path) = wb_agent {
            self.leads.push(Lead::new(Target::WbAgent(path.to_owned()), site.spot("wb_agent")));
        }
    }

    fn listen(&mut self, site: &Checked) -> SocketAddr {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let Some(text) = site.text("listen") else { return nowhere };
        let spot = site.spot("listen");
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => address,
            Ok(address) => {
                let message = format!("`listen` of site is {address}, which is not loopback");
                let note = "other addresses are not supported: listen on 127.0.0.1 or [::1]";
                self.error("not-loopback", message, spot, note);
                nowhere
            }
            Err(_) => {
                let message = format!("`listen` of site is `{}`, no address", text.escape_debug());
                self.error("bad-address", message, spot, "write \"127.0.0.1:7180\"");
                nowhere
            }
        }
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.split('.').all(is_label) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_with_a_port_at_most() {
        for good in ["wiki.example.org", "localhost", "a-b.c:8443"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "http://x", "a b", "x:y", ".a", "a/b", "*.x"] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
