//! The part of a prompt about a rework.

use crate::api::proposals::ProposalStatus;
use crate::base::{JobId, Result, is_line_end};
use crate::documents::proposals::proposal::{self, lineage};
use crate::flows::Works;

/// Returns the part of the prompt for a job that revises a proposal; empty for any other job.
///
/// # Errors
/// As any read.
pub(in crate::flows) async fn block(works: &Works, job: &JobId) -> Result<String> {
    let asked = job.clone();
    let found = works.store.read(move |c| {
        let Some(rework) = lineage::rework_of_job(c, &asked)? else { return Ok(None) };
        let proposal = proposal::find(c, &rework.proposal_id)?;
        Ok(Some((rework, proposal)))
    });
    let Some((rework, proposal)) = found.await? else { return Ok(String::new()) };
    let quoted = quoted(&rework.comment);
    let changed = match proposal.has_conflict || proposal.status == ProposalStatus::Stale {
        true => "The Source has changed since that text was made: bring both together.\n",
        false => "",
    };
    Ok(format!(
        "\nThis job is a rework. A reviewer has sent a proposal back with this comment, which\n\
         is a request about the text like any other message:\n\n{quoted}\n\
         Earlier proposal: {id}\nIts revision:     {revision}\n\n\
         Read it before you write: `'{wb_agent}' get-proposal --id='{id}'`\n\
         prints it with its diff and the comment as JSON, with --text its text alone. {changed}\
         Hand in a whole new text against the Base source SHA above.\n",
        id = proposal.id,
        revision = proposal.revision_number,
        wb_agent = works.wb_agent,
    ))
}

/// Returns a text as a quotation, up to its last line: no line of it stands alone, whatever ends
/// one.
fn quoted(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let lines = text.trim_end_matches('\n').split(is_line_end);
    lines.map(|it| format!("> {it}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_comment_is_quoted() {
        let comment = "a\r\nb\u{2028}c\u{2029}d\re\u{85}f\u{b}g\u{c}h\n\ni\n";
        let expected: String = ["a", "b", "c", "d", "e", "f", "g", "h", "", "i"]
            .map(|it| format!("> {it}\n"))
            .concat();
        assert_eq!(quoted(comment), expected);
    }
}
