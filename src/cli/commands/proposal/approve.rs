//! Approving: what is committed is what was shown.

use clap::Args;
use serde_json::json;

use crate::api::proposals::{Approved, ProposalPage};
use crate::base::{Error, Result, digest_hex};
use crate::cli::commands::proposal::show::{describe, fetch, refusal};
use crate::cli::commands::{Desk, plain};
use crate::cli::terminal::screen::{Screen, typed};
use crate::cli::terminal::{escape, question};

/// `proposal approve`.
#[derive(Args, Debug)]
#[command(after_help = "\
What is committed is what was shown: its digest and its base are sent along, and a text that has
changed meanwhile is refused.

Examples:
  wiki-browser proposal approve 81bc
  wiki-browser proposal show 81bc --field proposal.text_digest
  wiki-browser proposal approve 81bc --yes --digest SHA256")]
pub(in crate::cli) struct ApproveArgs {
    /// Id of the proposal
    id: String,
    /// Skip the confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
    /// Approve only if the text still has this `text_digest`
    #[arg(long, value_name = "SHA256")]
    digest: Option<String>,
    /// Subject of the commit
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Body of the commit message
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
}

/// Shows a proposal, asks for confirmation, and commits it.
pub(super) fn approve(desk: &Desk, args: &ApproveArgs) -> Result<()> {
    const HINT: &str = "review it with `wiki-browser proposal show ID`, then approve with --yes";
    let asks = !args.yes;
    if asks {
        question::need_person(&desk.screen, "approve", HINT)?;
    }
    let client = desk.client()?;
    let shown: ProposalPage = typed(&fetch(desk, &client, &args.id)?)?;
    let proposal = &shown.proposal;
    let digest = proposal.text_digest.as_str();
    check_text(&shown.text, digest, args.digest.as_deref())?;
    if asks {
        describe(desk, &shown)?;
    }
    if let Some(refusal) = refusal(&shown.approvable) {
        return Err(refusal);
    }
    if asks {
        let (revision, path) = (proposal.revision_number, proposal.source_path.as_str());
        let ask = format!("Commit revision {revision} of {}?", escape::line(path));
        question::confirm(&desk.screen, "approve", &ask, HINT)?;
    }
    let mut body = json!({
        "text_digest": digest, "base_source_sha": proposal.base_source_sha,
    });
    for (name, given) in [("subject", &args.subject), ("body", &args.body)] {
        if let Some(given) = given {
            body[name] = json!(given);
        }
    }
    let id = &proposal.id;
    let answer = client.create(&format!("/api/proposals/{id}/approve"), &body)?;
    desk.screen.tell(&answer, |screen, answer: Approved| {
        let (commit, branch) = (&answer.commit, escape::line(&answer.branch));
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
        screen.put(&format!("{}: commit {commit} on {branch}", screen.state("approved")))?;
        if let Some(note) = &answer.note {
            screen.put(&format!("note: {}", escape::line(note)))?;
        }
        left_over(screen, &answer);
        Ok(())
    })
}

/// Refuses a text whose digest is not the one to be sent, or not the one given.
fn check_text(text: &str, digest: &str, wanted: Option<&str>) -> Result<()> {
    if digest != digest_hex(text) {
        return Err(Error::internal("the proposal's digest does not match its text"));
    }
    if wanted.is_some_and(|wanted| wanted != digest) {
        let error = Error::conflict("text_changed", "the text has changed since you read it");
        return Err(error.hint("review the proposal again"));
    }
    Ok(())
}

/// Lists other open work on the Source after an approval.
fn left_over(screen: &Screen, answer: &Approved) {
    for it in &answer.followed {
        let id = &it.proposal_id;
        screen.note(&match &*it.outcome {
            "merged" => {
                let made = plain(it.revision_id.as_ref());
                format!("proposal {id} was merged; review {made}")
            }
            "conflict" => format!("proposal {id} now conflicts with it: request changes"),
            _ => format!("proposal {id} no longer changes anything"),
        });
    }
    for it in &answer.still_open {
        screen.note(&format!("still open: topic {}: {}", it.id, escape::line(&it.title)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_that_was_shown_is_approved() {
        let digest = digest_hex("abc");
        assert!(check_text("abc", &digest, None).is_ok());
        assert!(check_text("abc", &digest, Some(&digest)).is_ok());
        let error = check_text("abc", &digest, Some("other")).unwrap_err();
        assert_eq!(error.code_str(), "text_changed");
        assert!(check_text("abc", &digest_hex("abd"), None).is_err());
    }
}
