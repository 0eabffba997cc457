wb.kind "perspective" {
  about = "Shows a document as a persona reads it", engine = "views", timeout = "30s", lane = "source_path",
  produces = "perspective",
  inputs = {
    source_path  = wb.input.source(),
    persona_name = wb.input.persona(),
    source_sha   = wb.input.blob { from = "source_path" },
    persona_sha  = wb.input.hash { from = "persona_name" },
  },
  prompt = [[
job={{job_id}}
path={{source_path}}
persona={{persona_name}}
source_sha={{source_sha}}
persona_sha={{persona_sha}}
root={{root}}
wb_agent={{wb_agent}}
]],
}
